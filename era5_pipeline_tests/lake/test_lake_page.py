"""docs/lake-*.md: their blocks of Python and SQL run, on a folder and on S3, and their answers are the warehouse's."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from benchmarks.engines import open_duckdb
from era5_pipeline.runtime.stores import S3Environment
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.lake.test_months import lake_at, load, table_of
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import aws_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


def blocks_of(page: str, language: str, first_line: str = "") -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n{first_line}(.*?)```", text, re.DOTALL)


# Those of Spark and ClickHouse run in `test_spark` and `test_clickhouse`.
PYTHON = {
    f"{page} {number}": block
    for page in ("lake-duckdb.md", "lake-pyarrow.md", "lake-polars.md")
    for number, block in enumerate(blocks_of(page, "python"), start=1)
}
SQL = [
    statement
    for block in blocks_of("lake-duckdb.md", "sql", "-- duckdb\n")
    for statement in block.split(";\n")
    if statement.strip()
]
(SECRET,) = blocks_of("lake-duckdb.md", "sql", "-- duckdb, S3\n")


@pytest.fixture(scope="module", params=["folder", "s3"])
def lake_path(
    request: pytest.FixtureRequest, server_url: str, flat_months: FlatMonths, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Warehouse]]:
    """The metadata file of a lake with two Julys at the place that the pages ask for, and around it."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "lake").mkdir()
    server = request.getfixturevalue("s3_server") if request.param == "s3" else None
    with fresh_warehouse(server_url) as warehouse, nullcontext() if server is None else aws_environment(server.url):
        lake = lake_at(str(folder / "lake") if server is None else f"s3://{server.bucket()}/lake", folder / "home")
        for seed, month in enumerate(("2022-07", "2023-07")):
            load(lake, warehouse, flat_months(month, points=(3, 3), north=8.5, west=10.0, seed=seed))
        yield table_of(lake, warehouse).metadata_location, warehouse


def of_warehouse(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with warehouse.connect() as connection:
        return connection.execute(query.encode(), binary=True).fetchall()


def secret_of(path: str) -> str:
    """The page's statement for keys, with the test server's address; for a folder, one that does nothing."""
    endpoint = S3Environment.read().endpoint
    return (
        SECRET.replace("127.0.0.1:9000", urlsplit(endpoint).netloc)
        if path.startswith("s3://") and endpoint
        else "SELECT 1"
    )


@pytest.mark.parametrize("program", PYTHON)
@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_python(program: str, lake_path: tuple[str, Warehouse], monkeypatch: pytest.MonkeyPatch) -> None:
    path, warehouse = lake_path
    monkeypatch.setenv("LAKE", path)
    monkeypatch.setenv("WAREHOUSE", warehouse.url)
    names: dict[str, Any] = {}
    if "load_catalog" in PYTHON[program]:
        # "Those above", on the page.
        endpoint = S3Environment.read().endpoint
        names["properties"] = {"s3.endpoint": endpoint, "s3.region": "us-east-1"} if endpoint else {}
    names["secret"] = secret_of(path)
    exec(
        PYTHON[program].replace("(answer,) =", "connection.execute(secret)\n(answer,) ="), names
    )  # the page's own text
    since = " AND time >= '2023-07-01'" if "2023" in PYTHON[program] else ""
    ((wanted,),) = of_warehouse(
        warehouse, f"SELECT avg(temperature_2m::double precision) FROM weather WHERE location_id = 565240{since}"
    )
    assert names["answer"] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("number", range(len(SQL)))
def test_sql(number: int, lake_path: tuple[str, Warehouse]) -> None:
    path, warehouse = lake_path
    table = "iceberg_scan(getenv('LAKE'))"
    assert table in SQL[number]
    secret = secret_of(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AWS_ENDPOINT_URL", raising=False)  # no secret but the page's
        with open_duckdb() as connection:
            connection.execute(secret)
            # getenv is a function of DuckDB's own command.
            found = connection.execute(SQL[number].replace(table, f"iceberg_scan('{path}')")).fetchall()
    wanted = of_warehouse(warehouse, SQL[number].replace(table, "weather").replace("avg(t", "avg(1.0 * t"))
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert one[0] == other[0]
        assert list(map(float, one[1:])) == pytest.approx(list(map(float, other[1:])))


def test_the_pages_show_each_engine() -> None:
    assert (len(PYTHON), len(SQL)) == (4, 3)
