"""docs/lake.md: its blocks of Python and SQL run, and their answers are the warehouse's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.lake.test_engines import open_duckdb
from era5_pipeline_tests.lake.test_months import lake_at, load, table_of
from era5_pipeline_tests.servers import fresh_warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

PAGE = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
# Those of Spark and ClickHouse run in `test_spark` and `test_clickhouse`.
PYTHON = [
    block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if not re.search(r"pyspark|chdb", block)
]
SQL = [
    statement
    for block in re.findall(r"```sql\n-- duckdb\n(.*?)```", PAGE, re.DOTALL)
    for statement in block.split(";\n")
    if statement.strip()
]


@pytest.fixture(scope="module")
def lake_path(
    server_url: str, flat_months: FlatMonths, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Warehouse]]:
    """The metadata file of a lake with July 2023 at the place that the page asks for, and around it."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "lake").mkdir()
    lake = lake_at(str(folder / "lake"), folder / "home")
    with fresh_warehouse(server_url) as warehouse:
        load(lake, warehouse, flat_months(points=(3, 3), north=8.5, west=10.0))
        yield table_of(lake, warehouse).metadata_location, warehouse


def of_warehouse(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with warehouse.connect() as connection:
        return connection.execute(query.encode(), binary=True).fetchall()


@pytest.mark.parametrize("number", range(len(PYTHON)))
@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_python(number: int, lake_path: tuple[str, Warehouse], monkeypatch: pytest.MonkeyPatch) -> None:
    path, warehouse = lake_path
    monkeypatch.setenv("LAKE", path)
    monkeypatch.setenv("WAREHOUSE", warehouse.url)
    names: dict[str, Any] = {}
    exec(PYTHON[number], names)  # the page's own text
    ((wanted,),) = of_warehouse(
        warehouse, "SELECT avg(temperature_2m::double precision) FROM weather WHERE location_id = 565240"
    )
    assert names["answer"] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("number", range(len(SQL)))
def test_sql(number: int, lake_path: tuple[str, Warehouse]) -> None:
    path, warehouse = lake_path
    table = "iceberg_scan(getenv('LAKE'))"
    assert table in SQL[number]
    with open_duckdb(None) as connection:
        # getenv is a function of DuckDB's own command.
        found = connection.execute(SQL[number].replace(table, f"iceberg_scan('{path}')")).fetchall()
    wanted = of_warehouse(warehouse, SQL[number].replace(table, "weather").replace("avg(t", "avg(1.0 * t"))
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert one[0] == other[0]
        assert list(map(float, one[1:])) == pytest.approx(list(map(float, other[1:])))


def test_the_page_shows_each_engine() -> None:
    assert (len(PYTHON), len(SQL)) == (3, 2)
