"""docs/lake-*.md: their blocks of Python and SQL run, on a folder and on S3, and their answers are the warehouse's."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
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
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.lake.conftest import Gateway
    from era5_pipeline_tests.stores import S3Server


def blocks_of(text: str, language: str, first_line: str = "") -> list[str]:
    return re.findall(rf"```{language}\n{first_line}(.*?)```", text, re.DOTALL)


def page_of(engine: str) -> str:
    """The section of docs/lake-engines.md about an engine."""
    page = (ROOT / "docs" / "lake-engines.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^## {engine}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return str(text)


# Those of Spark and ClickHouse run in `test_spark` and `test_clickhouse`.
ENGINES = ("DuckDB", "PyArrow and pandas", "Polars")
PYTHON = {
    f"{engine} {number}": block
    for engine in ENGINES
    for number, block in enumerate(blocks_of(page_of(engine), "python"), start=1)
}
SQL = [
    statement
    for block in blocks_of(page_of("DuckDB"), "sql", "-- duckdb\n")
    for statement in block.split(";\n")
    if statement.strip()
]
(SECRET,) = blocks_of(page_of("DuckDB"), "sql", "-- duckdb, S3\n")


@contextmanager
def place_of(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """An address for a lake: a folder, or in a bucket of moto or of versitygw, whose region and keys are checked."""
    if request.param == "folder":
        (folder / "lake").mkdir()
        yield str(folder / "lake")
    elif request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        with aws_environment(server.url):
            yield f"s3://{server.bucket()}/lake"
    else:
        gateway: Gateway = request.getfixturevalue("gateway")
        with gateway.environment():
            yield f"s3://{gateway.bucket('pages')}/lake"


PLACES = ["folder", "s3", *(["versitygw"] if os.environ.get("ERA5_TEST_VERSITYGW") else [])]


@pytest.fixture(scope="module", params=PLACES)
def lake_path(
    request: pytest.FixtureRequest, server_url: str, flat_months: FlatMonths, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Warehouse]]:
    """The metadata file of a lake with two Julys at the place that the pages ask for, and around it."""
    folder = tmp_path_factory.mktemp("page")
    with fresh_warehouse(server_url) as warehouse, place_of(request, folder) as address:
        lake = lake_at(address, folder / "home")
        for seed, month in enumerate(("2022-07", "2023-07")):
            load(lake, warehouse, flat_months(month, points=(3, 3), north=8.5, west=10.0, seed=seed))
        yield table_of(lake, warehouse).metadata_location, warehouse


def of_warehouse(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with warehouse.connect() as connection:
        return connection.execute(query.encode(), binary=True).fetchall()


def secret_of(path: str) -> str:
    """The page's statement for keys, with the test server's address and keys; for a folder, one that does nothing."""
    s3 = S3Environment.read()
    if not path.startswith("s3://") or not s3.endpoint:
        return "SELECT 1"
    of_server = {
        "127.0.0.1:9000": urlsplit(s3.endpoint).netloc,
        "us-east-1": s3.region or "us-east-1",
        "'key'": f"'{os.environ['AWS_ACCESS_KEY_ID']}'",
        "'secret'": f"'{os.environ['AWS_SECRET_ACCESS_KEY']}'",
    }
    statement = SECRET
    for shown, own in of_server.items():
        statement = statement.replace(shown, own)
    return statement


@pytest.mark.parametrize("program", PYTHON)
@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_python(program: str, lake_path: tuple[str, Warehouse], monkeypatch: pytest.MonkeyPatch) -> None:
    path, warehouse = lake_path
    monkeypatch.setenv("LAKE", path)
    monkeypatch.setenv("WAREHOUSE", warehouse.url)
    names: dict[str, Any] = {}
    if "load_catalog" in PYTHON[program]:
        # "Those above", on the page.
        s3 = S3Environment.read()
        own = {"s3.endpoint": s3.endpoint, "s3.region": s3.region or "us-east-1"}
        names["properties"] = own if s3.endpoint else {}
    names["secret"] = secret_of(path)
    exec(
        PYTHON[program].replace("(answer,) =", "connection.execute(secret)\n(answer,) ="), names
    )  # the page's own text
    since = " AND time >= '2023-07-01'" if "2023" in PYTHON[program] else ""
    ((wanted,),) = of_warehouse(
        warehouse, f"SELECT avg(temperature_2m::double precision) FROM weather WHERE location_id = 565240{since}"
    )
    assert names["answer"] == pytest.approx(wanted, rel=1e-6)


if PAGES := os.environ.get("ERA5_TEST_PAGES"):

    @pytest.mark.parametrize("engine", ENGINES)
    def test_what_the_page_installs_is_enough(engine: str, lake_path: tuple[str, Warehouse]) -> None:
        path, warehouse = lake_path
        program = "\n".join(blocks_of(page_of(engine), "python"))
        program = program.replace("(answer,) =", f"connection.execute({secret_of(path)!r})\n(answer,) =")
        ran = subprocess.run(
            [f"{PAGES}/{engine.split(maxsplit=1)[0]}/bin/python", "-I", "-c", f"{program}\nprint(answer)"],
            env={**os.environ, "LAKE": path, "WAREHOUSE": warehouse.url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        query = "SELECT avg(temperature_2m::double precision) FROM weather WHERE location_id = 565240"
        ((wanted,),) = of_warehouse(warehouse, query)
        assert float(ran.stdout) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("number", range(len(SQL)))
def test_sql(number: int, lake_path: tuple[str, Warehouse]) -> None:
    path, warehouse = lake_path
    table = "iceberg_scan(getenv('LAKE'))"
    assert table in SQL[number]
    secret = secret_of(path)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_REGION"):
            patch.delenv(name, raising=False)  # no secret but the page's
        with open_duckdb() as connection:
            connection.execute(secret)
            # getenv is a function of DuckDB's own command.
            found = connection.execute(SQL[number].replace(table, f"iceberg_scan('{path}')")).fetchall()
    wanted = of_warehouse(warehouse, SQL[number].replace(table, "weather").replace("avg(t", "avg(1.0 * t"))
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert one[0] == other[0]
        assert list(map(float, one[1:])) == pytest.approx(list(map(float, other[1:])))


def test_the_address_for_java_is_that_of_the_warehouse() -> None:
    (command,) = re.findall(r"export JDBC=\$\((.*)\)\n", page_of("Spark"))
    url = "postgresql://postgres:a%2Bb-C@127.0.0.1:5433/era5"
    ran = subprocess.run(
        ["bash", "-c", command], check=True, env={**os.environ, "URL": url}, capture_output=True, text=True
    )
    assert ran.stdout == "jdbc:postgresql://127.0.0.1:5433/era5?user=postgres&password=a%2Bb-C\n"


def test_the_pages_show_each_engine() -> None:
    assert (len(PYTHON), len(SQL)) == (4, 3)
