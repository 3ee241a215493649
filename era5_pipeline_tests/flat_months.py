"""A pytest plugin: flat months to load, made once per session by the pipeline's flattening, and rows to compare."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
import pytest
from psycopg import sql

from era5_pipeline.flat.formats import KEYS, schema_of
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline_tests import era5_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline.postgres.connect import Warehouse

    Row = tuple[Any, ...]

# The columns of a table to which no other variable was added.
COLUMNS = (*KEYS, *DEFAULT_COLUMNS)
_SCHEMA = pa.schema([field.with_nullable(True).remove_metadata() for field in schema_of(DEFAULT_COLUMNS)])


@pytest.fixture(scope="module")
def no_pictures() -> Iterator[None]:
    """Months of the module are flattened without previews."""
    with era5_files.without_pictures():
        yield


class FlatMonths:
    """Make flat months of random weather, each of them once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[Any, ...], FlatMonth] = {}

    def __call__(
        self,
        month: str = "2023-07",
        *,
        points: tuple[int, int] = (2, 3),
        north: float = 10.5,
        west: float = 20.0,
        names: tuple[str, ...] = ("t2m", "tp"),
        hours: int | None = None,
        seed: int = 1,
        missing: float = 0.0,
        flat_format: FlatFormat = "parquet",
    ) -> FlatMonth:
        """Make a month of `points` (latitudes, longitudes), with only the first `hours`."""
        key = (month, points, north, west, names, hours, seed, missing, flat_format)
        if key not in self._made:
            home = self._folder / str(len(self._made))
            of = era5_files.weather(
                era5_files.hours_from(f"{month}-01T00", hours or Month.parse(month).hours),
                [north - 0.25 * row for row in range(points[0])],
                [west + 0.25 * column for column in range(points[1])],
                names,
                seed=seed,
                missing=missing,
            )
            paths = era5_files.write(home, of)
            with era5_files.without_pictures():
                self._made[key] = era5_files.flatten(paths, month, home, flat_format=flat_format)
        return self._made[key]


@pytest.fixture(scope="session")
def flat_months(tmp_path_factory: pytest.TempPathFactory) -> FlatMonths:
    """Flat months, by their contents."""
    return FlatMonths(tmp_path_factory.mktemp("flat-months"))


@pytest.fixture(scope="session")
def large(flat_months: FlatMonths) -> FlatMonth:
    """A month of 148,800 rows: enough for several progress reports of 65,536 rows."""
    return flat_months(points=(10, 20))


def rows_of_file(flat: FlatMonth, location_id: int | None = None) -> list[Row]:
    """Read the rows of the flat file (of a location), by location and time; default columns that it lacks are None."""
    content = _content_of_file(flat)
    if location_id is not None:
        content = content.filter(pyarrow.compute.field("location_id") == location_id)
    return _rows(_sorted(content))


def _content_of_file(flat: FlatMonth) -> pa.Table:
    schema = schema_of(flat.column_names)
    if flat.format == "csv":
        convert = pyarrow.csv.ConvertOptions(column_types=dict(zip(schema.names, schema.types, strict=True)))
        table = pyarrow.csv.read_csv(flat.path, convert_options=convert)
    else:
        table = pyarrow.parquet.read_table(flat.path)
    held = [
        table.column(field.name) if field.name in schema.names else pa.nulls(len(table), field.type)
        for field in _SCHEMA
    ]
    return pa.table(held, schema=_SCHEMA)


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by([("location_id", "ascending"), ("time", "ascending")])


def _rows(table: pa.Table) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def rows_of_table(warehouse: Warehouse, month: Month | None = None) -> list[Row]:
    """Read every row of the table (of `month`), with the default columns, ordered by location and time."""
    where: sql.Composable = sql.SQL("")
    if month is not None:
        where = sql.SQL("WHERE time >= {} AND time < {}").format(sql.Literal(month.start), sql.Literal(month.end))
    with warehouse.connect() as connection:
        # Binary: text would round.
        return connection.execute(
            sql.SQL("SELECT {} FROM {} {} ORDER BY location_id, time").format(
                sql.SQL(", ").join(map(sql.Identifier, COLUMNS)), sql.Identifier(warehouse.dataset.table), where
            ),
            binary=True,
        ).fetchall()


def _content_of_table(warehouse: Warehouse) -> pa.Table:
    columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS[1:]))
    # The server writes the shortest text that is exactly the value.
    statement = sql.SQL("COPY (SELECT time AT TIME ZONE 'UTC' AS time, {} FROM {}) TO STDOUT (FORMAT csv, HEADER)")
    table = sql.Identifier(warehouse.dataset.table)
    with warehouse.connect() as connection, connection.cursor().copy(statement.format(columns, table)) as copy:
        text = b"".join(copy)
    types: dict[str, pa.DataType] = {field.name: field.type for field in _SCHEMA} | {"time": pa.timestamp("us")}
    convert = pyarrow.csv.ConvertOptions(column_types=types, null_values=[""])
    return pyarrow.csv.read_csv(io.BytesIO(text), convert_options=convert).cast(_SCHEMA)


def assert_holds(warehouse: Warehouse, *flats: FlatMonth) -> None:
    """The table holds exactly the rows of these months' files, and nothing else."""
    expected = _sorted(pa.concat_tables(map(_content_of_file, flats))) if flats else _SCHEMA.empty_table()
    actual = _sorted(_content_of_table(warehouse))
    assert len(actual) == len(expected)
    if actual.equals(expected):
        return
    different = [rows for rows in zip(_rows(expected), _rows(actual), strict=True) if rows[0] != rows[1]]
    assert different[:3] == []
    pytest.fail("the rows differ in a way that Python does not see")
