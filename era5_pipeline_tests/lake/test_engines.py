"""Other engines on the lake: the rows that they find, and the means that they compute, are the warehouse's."""

from __future__ import annotations

import importlib
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue

from era5_pipeline.lake.catalog import CATALOG
from era5_pipeline_tests.lake.test_months import lake_at, load, table_of
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import KEY, SECRET, aws_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.stores import S3Server

    Rows = list[tuple[Any, ...]]

COLUMNS = ["time", "location_id", "temperature_2m"]


@dataclass(frozen=True)
class Range:
    """The rows of a place, or of all, from one time to another."""

    start: datetime
    end: datetime
    location: int | None = None

    def sql(self, table: str) -> str:
        place = "" if self.location is None else f"location_id = {self.location} AND "
        return (
            f"SELECT {', '.join(COLUMNS)} FROM {table} WHERE {place}time >= '{self.start.isoformat()}' "
            f"AND time < '{self.end.isoformat()}' ORDER BY location_id, time"
        )


@dataclass(frozen=True)
class Filled:
    """A lake, the warehouse with the same months, the table as it is, and what opens the lake's files."""

    lake: Lake
    warehouse: Warehouse
    table: Table
    s3: S3Server | None

    def of_warehouse(self, query: str) -> Rows:
        with self.warehouse.connect() as connection:
            return connection.execute(query.encode(), binary=True).fetchall()


@pytest.fixture(scope="module", params=["folder", "s3"])
def filled(
    request: pytest.FixtureRequest, server_url: str, flat_months: FlatMonths, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp("engines")
    (folder / "lake").mkdir()
    server = request.getfixturevalue("s3_server") if request.param == "s3" else None
    with fresh_warehouse(server_url) as warehouse, _environment(server):
        lake = lake_at(str(folder / "lake") if server is None else f"s3://{server.bucket()}/a/lake", folder / "home")
        for flat in (
            flat_months("2023-07", points=(3, 3)),
            flat_months("2023-08", points=(3, 3), missing=0.1),
            flat_months("2023-07", points=(3, 3), seed=2),  # replaces the first
            flat_months("2023-09", points=(3, 3)),
        ):
            load(lake, warehouse, flat, replace_more=True)
        yield Filled(lake, warehouse, table_of(lake, warehouse), server)


@contextmanager
def _environment(server: S3Server | None) -> Iterator[None]:
    if server is None:
        yield
        return
    with aws_environment(server.url):
        yield


def open_duckdb(s3: S3Server | None) -> duckdb.DuckDBPyConnection:
    """DuckDB with the extensions that its packages bring: nothing is downloaded."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in ("httpfs", "avro", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        (path,) = Path(str(package.__file__)).parent.glob("extensions/**/*.duckdb_extension")
        connection.execute(f"LOAD '{path}'")
    if s3 is not None:
        host = s3.url.removeprefix("http://")
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', ENDPOINT '{host}', URL_STYLE 'path', "
            "USE_SSL false, REGION 'us-east-1')"
        )
    return connection


def by_duckdb(filled: Filled, wanted: Range) -> Rows:
    with open_duckdb(filled.s3) as connection:
        return connection.execute(wanted.sql(f"iceberg_scan('{filled.table.metadata_location}')")).fetchall()


def by_polars(filled: Filled, wanted: Range) -> Rows:
    rows = pl.scan_iceberg(filled.table).filter((pl.col("time") >= wanted.start) & (pl.col("time") < wanted.end))
    if wanted.location is not None:
        rows = rows.filter(pl.col("location_id") == wanted.location)
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise it warns that its own planner is not installed.
        patch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
        return rows.select(COLUMNS).sort("location_id", "time").collect().rows()


def by_pyarrow(filled: Filled, wanted: Range) -> Rows:
    return _scanned(filled.table, wanted)


def by_another_catalog(filled: Filled, wanted: Range) -> Rows:
    """A program that knows pyiceberg, and the warehouse's address."""
    uri = filled.warehouse.url.replace("postgresql://", "postgresql+psycopg://", 1)
    with closing(load_catalog(CATALOG, type="sql", uri=uri, **filled.lake.place.properties)) as catalog:
        assert catalog.list_tables("era5") == [("era5", "weather")]
        return _scanned(catalog.load_table("era5.weather"), wanted)


def _scanned(table: Table, wanted: Range) -> Rows:
    where = f"time >= '{wanted.start.isoformat()}' AND time < '{wanted.end.isoformat()}'"
    if wanted.location is not None:
        where += f" AND location_id = {wanted.location}"
    found = table.scan(row_filter=where, selected_fields=tuple(COLUMNS)).to_arrow()
    found = found.sort_by([("location_id", "ascending"), ("time", "ascending")]).select(COLUMNS)
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


EVERYTHING = (utc(2023, 1, 1), utc(2024, 1, 1))


@pytest.mark.parametrize("engine", [by_duckdb, by_polars, by_pyarrow, by_another_catalog])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        EVERYTHING,
        # Edges of months, which are edges of partitions too.
        (utc(2023, 7, 31, 22), utc(2023, 8, 1, 2)),
        (utc(2023, 8, 1), utc(2023, 8, 1, 1)),
        (utc(2023, 9, 30, 23), utc(2023, 10, 1)),
        (utc(2023, 10, 1), utc(2023, 11, 1)),
    ],
)
@pytest.mark.parametrize("place", ["first", "last", "all", "none"])
def test_rows_of_a_range(
    filled: Filled, engine: Callable[[Filled, Range], Rows], start: datetime, end: datetime, place: str
) -> None:
    ((first, last),) = filled.of_warehouse("SELECT min(location_id), max(location_id) FROM weather")
    location = {"first": first, "last": last, "all": None, "none": last + 1}[place]
    wanted = Range(start, end, location)
    assert engine(filled, wanted) == filled.of_warehouse(wanted.sql("weather"))


def test_a_mean_of_each_month(filled: Filled) -> None:
    query = (
        "SELECT extract(month FROM time)::int AS month, count(*) AS hours, count(temperature_2m), "
        "avg(temperature_2m::double precision), max(total_precipitation) FROM {} GROUP BY 1 ORDER BY 1"
    )
    wanted = filled.of_warehouse(query.format("weather"))
    assert [month for month, *_ in wanted] == [7, 8, 9]
    with open_duckdb(filled.s3) as connection:
        found = connection.execute(query.format(f"iceberg_scan('{filled.table.metadata_location}')")).fetchall()
    assert [pytest.approx(row) for row in found] == wanted


def test_a_place_needs_one_file_a_month(filled: Filled) -> None:
    place = "location_id = 1 AND time >= '2023-07-01T00:00:00+00:00'"
    assert list(filled.table.scan(row_filter=place).plan_files()) == []
    assert len(list(filled.table.scan(row_filter=AlwaysTrue()).plan_files())) == 3


def test_the_earlier_version_of_a_month_can_still_be_read(filled: Filled) -> None:
    first = filled.table.metadata.snapshots[0]
    with open_duckdb(filled.s3) as connection:
        (before,) = connection.execute(
            f"SELECT avg(temperature_2m) FROM iceberg_scan('{filled.table.metadata_location}', "
            f"snapshot_from_id => {first.snapshot_id})"
        ).fetchall()
    values = filled.table.scan(snapshot_id=first.snapshot_id).to_arrow().column("temperature_2m")
    assert before[0] == pytest.approx(pa.compute.mean(values).as_py())
    assert before != filled.of_warehouse("SELECT avg(temperature_2m) FROM weather WHERE time < '2023-08-01'")[0]
