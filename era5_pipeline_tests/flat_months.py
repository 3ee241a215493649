"""A pytest plugin: flat months to load, made once per session by the pipeline's flattening, and rows to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from psycopg import sql

from era5_pipeline.flat.formats import KEYS, schema_of
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline_tests import era5_files

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline.postgres.connect import Warehouse

    Row = tuple[Any, ...]

# The columns of a table to which no other variable was added.
COLUMNS = (*KEYS, *DEFAULT_COLUMNS)


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


def rows_of_file(flat: FlatMonth) -> list[Row]:
    """Read every row of the flat file, ordered by location and time; default columns that it lacks are None."""
    schema = schema_of(flat.column_names)
    if flat.format == "csv":
        convert = pyarrow.csv.ConvertOptions(column_types=dict(zip(schema.names, schema.types, strict=True)))
        table = pyarrow.csv.read_csv(flat.path, convert_options=convert)
    else:
        table = pyarrow.parquet.read_table(flat.path)
    table = table.sort_by([("location_id", "ascending"), ("time", "ascending")])
    null = [None] * table.num_rows
    held = [table.column(name).to_pylist() if name in schema.names else null for name in COLUMNS]
    return list(zip(*held, strict=True))


def rows_of_table(warehouse: Warehouse, month: Month | None = None) -> list[Row]:
    """Read every row of the table (of `month`), with the default columns, ordered by location and time."""
    where: sql.Composable = sql.SQL("")
    if month is not None:
        where = sql.SQL("WHERE time >= {} AND time < {}").format(sql.Literal(month.start), sql.Literal(month.end))
    with warehouse.connect() as connection:
        # Binary: text would round.
        return connection.execute(
            sql.SQL("SELECT {} FROM weather {} ORDER BY location_id, time").format(
                sql.SQL(", ").join(map(sql.Identifier, COLUMNS)), where
            ),
            binary=True,
        ).fetchall()


def assert_holds(warehouse: Warehouse, *flats: FlatMonth) -> None:
    """The table holds exactly the rows of these months' files, and nothing else."""
    expected = [row for flat in flats for row in rows_of_file(flat)]
    actual = rows_of_table(warehouse)
    assert len(actual) == len(expected)
    by_key = {row[:2]: row for row in actual}
    different = [(row, by_key.get(row[:2])) for row in expected if by_key.get(row[:2]) != row]
    assert different[:3] == []
