"""Other engines on the lake: the rows that they find, and the means that they compute, are the warehouse's."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue

from benchmarks.engines import QUESTIONS, Duckdb, Engine, OfWarehouse, Polars, PyArrow, Subject, open_duckdb
from era5_pipeline.lake.pointer import CATALOG
from era5_pipeline.model.months import Month
from era5_pipeline_tests.lake.decades import HOURS, PLACES
from era5_pipeline_tests.lake.test_months import lake_at, load, table_of
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import aws_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duckdb import DuckDBPyConnection
    from pyiceberg.table import Table

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

    Rows = list[tuple[Any, ...]]

COLUMNS = ["time", "location_id", "temperature_2m"]
ENGINES = [Duckdb, Polars, PyArrow]


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
    """A lake, the warehouse with the same months, the table as it is, and DuckDB, which loads its extensions once."""

    lake: Lake
    warehouse: Warehouse
    table: Table
    duckdb: DuckDBPyConnection

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
    environment = nullcontext() if server is None else aws_environment(server.url)
    with fresh_warehouse(server_url) as warehouse, environment:
        lake = lake_at(str(folder / "lake") if server is None else f"s3://{server.bucket()}/a/lake", folder / "home")
        for flat in (
            flat_months("2023-07", points=(3, 3)),
            flat_months("2023-08", points=(3, 3), missing=0.1),
            flat_months("2023-07", points=(3, 3), seed=2),  # replaces the first
            flat_months("2023-09", points=(3, 3)),
        ):
            load(lake, warehouse, flat, replace_more=True)
        with open_duckdb() as duckdb:
            yield Filled(lake, warehouse, table_of(lake, warehouse), duckdb)


def by_duckdb(filled: Filled, wanted: Range) -> Rows:
    return list(filled.duckdb.execute(wanted.sql(f"iceberg_scan('{filled.table.metadata_location}')")).fetchall())


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
# What is read of a bucket: test_the_three_questions.
@pytest.mark.parametrize("filled", ["folder", pytest.param("s3", marks=pytest.mark.endurance)], indirect=True)
def test_rows_of_a_range(
    filled: Filled, engine: Callable[[Filled, Range], Rows], start: datetime, end: datetime, place: str
) -> None:
    ((first, last),) = filled.of_warehouse("SELECT min(location_id), max(location_id) FROM weather")
    location = {"first": first, "last": last, "all": None, "none": last + 1}[place]
    wanted = Range(start, end, location)
    assert engine(filled, wanted) == filled.of_warehouse(wanted.sql("weather"))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_three_questions(filled: Filled, engine: type[Engine], question: str) -> None:
    """A month of the three was replaced, and another lacks values."""
    ((place,),) = filled.of_warehouse("SELECT max(location_id) FROM weather")
    assert_same(engine, Subject(filled.warehouse, filled.lake, place, Month(2023, 8)), question)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_three_questions_of_85_years(all_years: Subject, engine: type[Engine], question: str) -> None:
    answer = assert_same(engine, all_years, question)
    assert answer.shape == {"place_hours": (HOURS,), "month_mean": (1,), "trends": (len(PLACES), 2)}[question]


def assert_same(engine: type[Engine], subject: Subject, question: str) -> Any:
    """The engine's answer is the warehouse's; return it."""
    found, wanted = (answer_of(one, subject, question) for one in (engine, OfWarehouse))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert np.isfinite(found).any()
    return found


def answer_of(engine: type[Engine], subject: Subject, question: str) -> Any:
    opened = engine(subject)
    opened.open()
    try:
        return getattr(opened, question)()
    finally:
        opened.close()


def test_a_place_needs_one_file_a_month(filled: Filled) -> None:
    ((place,),) = filled.of_warehouse("SELECT max(location_id) FROM weather")
    files = [task.file for task in filled.table.scan(row_filter=f"location_id = {place}").plan_files()]
    assert sorted(file.partition[0] for file in files) == [642, 643, 644]  # months since January 1970
    assert list(filled.table.scan(row_filter="location_id = 1").plan_files()) == []
    assert len(list(filled.table.scan(row_filter=AlwaysTrue()).plan_files())) == 3


def test_the_earlier_version_of_a_month_can_still_be_read(filled: Filled) -> None:
    first = filled.table.metadata.snapshots[0]
    (before,) = filled.duckdb.execute(
        f"SELECT avg(temperature_2m) FROM iceberg_scan('{filled.table.metadata_location}', "
        f"snapshot_from_id => {first.snapshot_id})"
    ).fetchall()
    values = filled.table.scan(snapshot_id=first.snapshot_id).to_arrow().column("temperature_2m")
    assert before[0] == pytest.approx(pa.compute.mean(values).as_py())
    assert before != filled.of_warehouse("SELECT avg(temperature_2m) FROM weather WHERE time < '2023-08-01'")[0]
