"""The warehouse for Python: series as pandas tables, fields and datasets of xarray, months, climate."""

from __future__ import annotations

import weakref
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from era5_pipeline.model import question
from era5_pipeline.model.dataset import DATASETS, dataset_named
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import read_settings
from era5_pipeline.model.times import NORMAL_PERIOD
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    import pandas as pd
    import psycopg
    import xarray as xr

    from era5_pipeline.climate.answer import ClimateAnswer
    from era5_pipeline.model.cells import CellChoice
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.question import AskedArea, AskedTime
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse


class Database:
    """A warehouse opened for reading, as returned by `era5.open`; it never creates or changes anything.

    Each question opens a connection, so several threads may ask, and a server that was restarted in between is no
    problem. Errors are subclasses of `era5.Era5Error`, and say what failed and what to do: `UsageError` if a place,
    column, area or time is unknown or wrong, `NoDataError` if the table holds none of it (the message says what it
    holds), `WarehouseError` or `TransientError` if the server fails. If months, hours or places of an answer are
    missing, a `MissingDataWarning` says so.

    The questions take places, times and columns alike: `place` is a city by its name, `"Jakarta"` or `"Paris, US"`,
    found offline, in place of `latitude` (-90 to 90) and `longitude` (-180 to 360) in degrees; the answer is of the
    nearest point of the data set's grid, with `cell="land"` of the nearest whose cell is at least half land (of
    ERA5-Land, of the nearest with values: at sea it has none). An
    `area` is `"NORTH/WEST/SOUTH/EAST"` in degrees, or a tuple of the four. `start` and `end` are the first time and the
    last, in UTC unless they have an offset: text (`"2023"`, `"2023-07"`, `"2023-07-15T12:00"`) or an object of
    datetime, numpy or pandas; as an end, a year, month or day is included whole, an instant with its hour. `columns`
    are names, as a list or separated by commas. What is not given is all that the table holds.
    """

    def __init__(self, warehouse: Warehouse, opened: ExitStack) -> None:
        """Take over the warehouse, and the resources that keep it open, from `open_database`."""
        self._warehouse = warehouse
        self._close = weakref.finalize(self, opened.close)

    def __repr__(self) -> str:
        return f"<era5.Database {self._warehouse.shown}{'' if self._close.alive else ', closed'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the embedded server stop, unless others use it; a second call does nothing."""
        self._close()

    @contextmanager
    def _connected(self, doing: str) -> Iterator[psycopg.Connection[Any]]:
        with self.warehouse.connect() as connection, server_errors(doing):
            connection.execute("SET default_transaction_read_only = on")
            yield connection

    @property
    def warehouse(self) -> Warehouse:
        """The address of the table; a `UsageError` if the database was closed."""
        if not self._close.alive:
            raise UsageError("the database is closed", remedy="Open it again with era5.open().")
        return self._warehouse

    @property
    def _source(self) -> Dataset:
        """The data set that is read."""
        return self.warehouse.dataset

    def _columns(self, columns: str | Iterable[str] | None) -> tuple[Variable, ...] | None:
        return question.asked_columns(columns, self._source.catalogue)

    def series(
        self,
        place: str | None = None,
        *,
        latitude: float | None = None,
        longitude: float | None = None,
        start: AskedTime | None = None,
        end: AskedTime | None = None,
        columns: str | Iterable[str] | None = None,
        local_time: bool = False,
        cell: CellChoice = "nearest",
    ) -> pd.DataFrame:
        """The hours of one place, as `era5 series` prints them.

        With `local_time`, times have the standard offset of the place's zone (one for all hours, no summer time).

        Returns:
            A row for each hour, and a column for each variable, float32, in the order of `era5 variables`. The index
            `time`, datetime64[s] with UTC or the offset, ascends. An hour that is missing is NaN. In `attrs`: `units`
            and `long_names` by column, `place`, `location_id`, `latitude`, `longitude` and `land_share` of the cell,
            `missing_months` and `missing_hours` by column, `era5_versions` (the months by version: final, preliminary,
            mixed, unknown or generated), `credit`, and `notice` if data are generated.
        """
        from era5_pipeline.api.frames import read_series_frame  # noqa: PLC0415

        asked = question.asked_place(question.PYTHON, place, latitude, longitude, cell, self._source.grid)
        variables, (first, after) = self._columns(columns), question.asked_range(start, end)
        with self._connected("reading the series") as connection:
            return read_series_frame(connection, asked, variables, first, after, local_time=local_time)

    def field(
        self,
        column: str,
        *,
        time: AskedTime | None = None,
        month: str | date | None = None,
        area: AskedArea | None = None,
    ) -> xr.DataArray:
        """One variable on a rectangle of the grid: at an hour, or at all hours of a month.

        `column` is the name of the variable, `"temperature_2m"` or `"t2m"`; `time` a full hour, in UTC unless it has an
        offset; `month` is `"2023-07"`, or an object of datetime or pandas.

        Returns:
            float32 in the table's unit: (latitude, longitude) of `time`, which is a scalar coordinate, or
            (time, latitude, longitude) of `month`. Latitudes descend; longitudes ascend, and continue past 180 across
            the antimeridian; times are in UTC. Missing is NaN. `attrs` are those of CF (`units`, `standard_name`,
            `long_name`, `cell_methods`), `source`, `era5_versions`, `credit`, and `notice` if data are generated.
        """
        from era5_pipeline.api.arrays import read_hour, read_month  # noqa: PLC0415

        variable = question.asked_column(column, self._source.catalogue)
        rectangle = question.asked_area(area, self._source.grid)
        if (time is None) == (month is None):
            raise UsageError(
                "a field covers one hour or one month", remedy='Give time="2023-07-15T12:00", or month="2023-07".'
            )
        if month is not None:
            of_month = question.asked_month(month)
            with self._connected("reading the field") as connection:
                return read_month(connection, self.warehouse, of_month, variable, rectangle)
        hour = question.asked_hour(time) if time is not None else None
        assert hour is not None  # noqa: S101
        with self._connected("reading the field") as connection:
            return read_hour(connection, hour, variable, rectangle)

    def dataset(
        self,
        *,
        area: AskedArea | None = None,
        start: AskedTime | None = None,
        end: AskedTime | None = None,
        columns: str | Iterable[str] | None = None,
        chunked: bool = True,
    ) -> xr.Dataset:
        """All hours of a rectangle of the grid, lazily: values are read on demand, and no others.

        If `chunked`, its arrays are Dask's, with a chunk for each month. Otherwise values are read when first used.

        Returns:
            A variable (time, latitude, longitude) for each column, float32 in the table's unit, NaN where the table
            has nothing. `time` has every hour of the range, in UTC; latitudes and longitudes as for `field`. `attrs`
            are those of CF; a variable's `missing_months` and the dataset's `incomplete_months` name what is missing.
            It can be read while the database is open; Dask's workers must reach its server.
        """
        from era5_pipeline.api import arrays  # noqa: PLC0415

        (first, after), variables = question.asked_range(start, end), self._columns(columns)
        rectangle = question.asked_area(area, self._source.grid)
        with self._connected("reading the ledger") as connection:
            found = arrays.make_dataset(connection, self.warehouse, rectangle, variables, first, after, keep_open=self)
        return arrays.chunked(found) if chunked else found

    def export(
        self,
        path: str | Path,
        place: str | None = None,
        *,
        latitude: float | None = None,
        longitude: float | None = None,
        area: AskedArea | None = None,
        start: AskedTime | None = None,
        end: AskedTime | None = None,
        columns: str | Iterable[str] | None = None,
        cell: CellChoice = "nearest",
    ) -> None:
        """Write a place, a rectangle or all of the table to a file, as `era5 export` does, in bounded memory.

        The suffix of `path` decides the format: `.csv`, `.csv.gz`, `.parquet`, `.nc` or `.zarr`. An older file is
        replaced once the new one is complete. Besides, `LocalDiskError` is raised if the disk is full or not writable,
        and `TransientError` if months are replaced again and again.
        """
        from era5_pipeline.api.frames import warn_of_missing  # noqa: PLC0415
        from era5_pipeline.export.formats import export_format  # noqa: PLC0415
        from era5_pipeline.export.run import export  # noqa: PLC0415

        path = Path(path)
        format_ = export_format(path, None)
        grid = self._source.grid
        asked = question.find_place_or_area(question.PYTHON, place, latitude, longitude, cell, area, grid)
        (first, after), variables = question.asked_range(start, end), self._columns(columns)
        done = export(self.warehouse, path, format_, asked, columns=variables, start=first, end=after)
        warn_of_missing(f"{path}", list(done.missing))

    def months(self) -> pd.DataFrame:
        """The months that the table holds, or whose load was attempted, as `era5 status` lists them.

        Returns:
            A row for each month; the index `month` is a PeriodIndex. `state` is loaded, incomplete, dropped, loading or
            failed; `locations`, `hours`, `hours_expected` and `rows` are counts; `columns` and `source` names with
            commas; `version` final, preliminary, mixed, unknown, generated or partly generated; `loaded_at` a time in
            UTC. No rows if nothing was ever loaded.
        """
        from era5_pipeline.api.frames import read_months_frame  # noqa: PLC0415

        with self._connected("reading the ledger") as connection:
            return read_months_frame(connection)

    def climate(
        self,
        place: str | None = None,
        *,
        latitude: float | None = None,
        longitude: float | None = None,
        start: AskedTime | None = None,
        end: AskedTime | None = None,
        baseline: str = NORMAL_PERIOD,
        local_time: bool = False,
        cell: CellChoice = "nearest",
    ) -> ClimateAnswer:
        """How the weather of a place has changed, as in `era5 climate`.

        Anomalies are relative to the years of the `baseline`. With `local_time`, days are at the standard offset of the
        place's zone instead of UTC.

        Returns:
            Tables of pandas (`yearly`, `monthly`, `daily`, `seasons.table`), `trends`, `records`, and `sentence`, the
            answer in words; what is missing is in `provenance`.
        """
        asked = question.asked_place(question.PYTHON, place, latitude, longitude, cell, self._source.grid)
        # These import pandas, which takes half a second.
        from era5_pipeline.api.frames import warn_of_missing  # noqa: PLC0415
        from era5_pipeline.climate.question import climate_question  # noqa: PLC0415
        from era5_pipeline.climate.reading import read_climate  # noqa: PLC0415

        of_climate = climate_question(asked, start, end, baseline, local_time=local_time)
        with self._connected("reading the climate") as connection:
            answer = read_climate(connection, of_climate)
        warn_of_missing(asked.description, list(answer.provenance.gaps))
        return answer


def open_database(url: str | None = None, *, dataset: str | None = None) -> Database:
    """Open the warehouse to read from it; nothing is ever created or changed.

    Without a URL, it is that of the settings, as for the commands (ERA5_DATABASE_URL, ERA5_HOME, .env): the embedded
    server is started if it is not running, and stopped when the database is closed, unless others use it.

    Args:
        url: `postgresql://user@host:port/database`, instead of that of the settings.
        dataset: `"era5"` or `"era5-land"`, instead of that of the settings (ERA5_DATASET, else ERA5): whose table is
            read. Both may be open at the same time.

    Returns:
        The database; use it in `with`, or call its `close`. It is also closed when Python ends.

    Raises:
        UsageError: if the URL or a setting is invalid.
        NoDatabaseError: if there is no database yet.
        WarehouseError: if the server cannot be reached, or is unsuitable.
    """
    if dataset is not None and not isinstance(dataset, str):
        raise UsageError(
            f"a data set must be a name, not {type(dataset).__name__}", remedy=f"Names are {' and '.join(DATASETS)}."
        )
    if url is not None and not isinstance(url, str):
        raise UsageError(
            f"a URL must be text, not {type(url).__name__}", remedy="Give one such as postgresql://user@host:5432/era5."
        )
    with ExitStack() as stack:
        settings = read_settings(database_url=url, dataset=dataset if dataset is None else dataset_named(dataset).name)
        warehouse = stack.enter_context(open_warehouse(settings))
        warehouse.connect().close()  # report problems now, not at the first question
        return Database(warehouse, stack.pop_all())
