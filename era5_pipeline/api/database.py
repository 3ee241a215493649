"""The warehouse for Python: series as pandas tables, fields and datasets of xarray, months, climate."""

from __future__ import annotations

import weakref
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.question import (
    PYTHON,
    asked_area,
    asked_column,
    asked_columns,
    asked_hour,
    asked_month,
    asked_place,
    asked_range,
    find_place_or_area,
)
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
    from era5_pipeline.model.question import AskedArea, AskedTime
    from era5_pipeline.postgres.connect import Warehouse


class Database:
    """A warehouse opened for reading, as returned by `era5.open`; it never creates or changes anything.

    Each question opens a connection, so several threads may ask, and a server that was restarted in between is no
    problem. Errors are subclasses of `era5.Era5Error`, and say what failed and what to do.
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
        """The address of the table.

        Raises:
            UsageError: if the database was closed.
        """
        if not self._close.alive:
            raise UsageError("the database is closed", remedy="Open it again with era5.open().")
        return self._warehouse

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

        Args:
            place: a city by its name, `"Jakarta"` or `"Paris, US"`, found offline; or `latitude` and `longitude` in
                degrees. The answer is of the nearest point of ERA5's 0.25 degree grid.
            latitude: degrees north, -90 to 90.
            longitude: degrees east, -180 to 360.
            start: the first time, in UTC unless it has an offset: text (`"2023"`, `"2023-07"`, `"2023-07-15T12:00"`) or
                an object of datetime, numpy or pandas.
            end: the last; a year, month or day is included whole, an instant with its hour.
            columns: names, as a list or separated by commas; by default all columns with values.
            local_time: write times with the standard offset of the place's zone (one for all hours, no summer time).
            cell: `"land"` for the nearest grid point whose cell is at least half land.

        Returns:
            A row for each hour, and a column for each variable, float32, in the order of `era5 variables`. The index
            `time`, datetime64[s] with UTC or the offset, ascends. An hour that is missing is NaN. In `attrs`: `units`
            and `long_names` by column, `place`, `location_id`, `latitude`, `longitude` and `land_share` of the cell,
            `missing_months` and `missing_hours` by column, `era5_versions` (the months by version: final, preliminary,
            mixed, unknown or generated), `credit`, and `notice` if data are generated.

        Raises:
            UsageError: if the place, a column or a time is unknown or wrong.
            NoDataError: if the table holds none of it; the message says what it holds.
            WarehouseError, TransientError: if the server fails.

        Warns:
            MissingDataWarning: if months or hours are missing.
        """
        from era5_pipeline.api.frames import read_series_frame  # noqa: PLC0415

        asked = asked_place(PYTHON, place, latitude, longitude, cell)
        variables, (first, after) = asked_columns(columns), asked_range(start, end)
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

        Args:
            column: the name of the variable, `"temperature_2m"` or `"t2m"`.
            time: a full hour, in UTC unless it has an offset; or `month`.
            month: `"2023-07"`, or an object of datetime or pandas.
            area: `"NORTH/WEST/SOUTH/EAST"` in degrees, or a tuple of the four; all that the table holds if not given.

        Returns:
            float32 in the table's unit: (latitude, longitude) of `time`, which is a scalar coordinate, or
            (time, latitude, longitude) of `month`. Latitudes descend; longitudes ascend, and continue past 180 across
            the antimeridian; times are in UTC. Missing is NaN. `attrs` are those of CF (`units`, `standard_name`,
            `long_name`, `cell_methods`), `source`, `era5_versions`, `credit`, and `notice` if data are generated.

        Raises:
            UsageError: if the column, time, month or area is unknown or wrong.
            NoDataError: if the table holds none of it; the message says what it holds.
            WarehouseError, TransientError: if the server fails.

        Warns:
            MissingDataWarning: if hours or places are missing.
        """
        from era5_pipeline.api.arrays import read_hour, read_month  # noqa: PLC0415

        variable, rectangle = asked_column(column), asked_area(area)
        if (time is None) == (month is None):
            raise UsageError(
                "a field covers one hour or one month", remedy='Give time="2023-07-15T12:00", or month="2023-07".'
            )
        if month is not None:
            of_month = asked_month(month)
            with self._connected("reading the field") as connection:
                return read_month(connection, self.warehouse, of_month, variable, rectangle)
        hour = asked_hour(time) if time is not None else None
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

        Args:
            area: `"NORTH/WEST/SOUTH/EAST"` in degrees, or a tuple of the four; all that the table holds if not given.
            start: the first time, as for `series`; the first month of the area if not given.
            end: the last.
            columns: names, as for `series`; those of the ledger's months if not given.
            chunked: use Dask arrays, with a chunk for each month. Otherwise values are read when first used.

        Returns:
            A variable (time, latitude, longitude) for each column, float32 in the table's unit, NaN where the table
            has nothing. `time` has every hour of the range, in UTC; latitudes and longitudes as for `field`. `attrs`
            are those of CF; a variable's `missing_months` and the dataset's `incomplete_months` name what is missing.
            It can be read while the database is open; Dask's workers must reach its server.

        Raises:
            UsageError: if the area, a column or a time is unknown or wrong.
            NoDataError: if the table holds none of it; the message says what it holds.
            WarehouseError, TransientError: if the server fails, now or when values are read.

        Warns:
            MissingDataWarning: if months or places are missing.
        """
        from era5_pipeline.api import arrays  # noqa: PLC0415

        variables, rectangle, (first, after) = asked_columns(columns), asked_area(area), asked_range(start, end)
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

        Args:
            path: `.csv`, `.csv.gz`, `.parquet`, `.nc` or `.zarr`: the suffix decides the format. An older file is
                replaced once the new one is complete.
            place: a city by its name, or `latitude` and `longitude`, as for `series`; or `area`.
            latitude: degrees north.
            longitude: degrees east.
            area: as for `dataset`; all that the table holds if neither is given.
            start: the first time, as for `series`.
            end: the last.
            columns: names, as for `series`; those of the ledger's months if not given.
            cell: as for `series`.

        Raises:
            UsageError: if the path, the place, the area, a column or a time is unknown or wrong.
            NoDataError: if the table holds none of it; the message says what it holds.
            WarehouseError, TransientError: if the server fails, or months of it are replaced again and again.
            LocalDiskError: if the disk is full or not writable.

        Warns:
            MissingDataWarning: if months, hours or places are missing.
        """
        from era5_pipeline.api.frames import warn_of_missing  # noqa: PLC0415
        from era5_pipeline.export.formats import export_format  # noqa: PLC0415
        from era5_pipeline.export.run import export  # noqa: PLC0415

        path = Path(path)
        format_ = export_format(path, None)
        asked = find_place_or_area(PYTHON, place, latitude, longitude, cell, area)
        (first, after), variables = asked_range(start, end), asked_columns(columns)
        done = export(self.warehouse, path, format_, asked, columns=variables, start=first, end=after)
        warn_of_missing(f"{path}", list(done.missing))

    def months(self) -> pd.DataFrame:
        """The months that the table holds, or whose load was attempted, as `era5 status` lists them.

        Returns:
            A row for each month; the index `month` is a PeriodIndex. `state` is loaded, incomplete, dropped, loading or
            failed; `locations`, `hours`, `hours_expected` and `rows` are counts; `columns` and `source` names with
            commas; `version` final, preliminary, mixed, unknown, generated or partly generated; `loaded_at` a time in
            UTC. No rows if nothing was ever loaded.

        Raises:
            WarehouseError, TransientError: if the server fails.
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

        Args:
            place: a city by its name, or `latitude` and `longitude`, as for `series`.
            latitude: degrees north.
            longitude: degrees east.
            start: the first year, month or day.
            end: the last.
            baseline: the reference years of anomalies.
            local_time: use days at the standard offset of the place's zone instead of UTC.
            cell: as for `series`.

        Returns:
            Tables of pandas (`yearly`, `monthly`, `daily`, `seasons.table`), `trends`, `records`, and `sentence`, the
            answer in words; what is missing is in `provenance`.

        Raises:
            UsageError: if the place, a time or the baseline is wrong.
            NoDataError: if the table has no whole day of it.
            WarehouseError, TransientError: if the server fails.

        Warns:
            MissingDataWarning: if months or hours are missing.
        """
        asked = asked_place(PYTHON, place, latitude, longitude, cell)
        # These import pandas, which takes half a second.
        from era5_pipeline.api.frames import warn_of_missing  # noqa: PLC0415
        from era5_pipeline.climate.question import climate_question  # noqa: PLC0415
        from era5_pipeline.climate.reading import read_climate  # noqa: PLC0415

        question = climate_question(asked, start, end, baseline, local_time=local_time)
        with self._connected("reading the climate") as connection:
            answer = read_climate(connection, question)
        warn_of_missing(asked.description, list(answer.provenance.gaps))
        return answer


# --- `era5.open`: open the warehouse of the settings, or of a URL, from Python ---


def open_database(url: str | None = None) -> Database:
    """Open the warehouse to read from it; nothing is ever created or changed.

    Without a URL, it is that of the settings, as for the commands (ERA5_DATABASE_URL, ERA5_HOME, .env): the embedded
    server is started if it is not running, and stopped when the database is closed, unless others use it.

    Args:
        url: `postgresql://user@host:port/database`, instead of that of the settings.

    Returns:
        The database; use it in `with`, or call its `close`. It is also closed when Python ends.

    Raises:
        UsageError: if the URL or a setting is invalid.
        NoDatabaseError: if there is no database yet.
        WarehouseError: if the server cannot be reached, or is unsuitable.
    """
    if url is not None and not isinstance(url, str):
        raise UsageError(
            f"a URL must be text, not {type(url).__name__}", remedy="Give one such as postgresql://user@host:5432/era5."
        )
    with ExitStack() as stack:
        warehouse = stack.enter_context(open_warehouse(read_settings(database_url=url)))
        warehouse.connect().close()  # report problems now, not at the first question
        return Database(warehouse, stack.pop_all())
