"""Delivery of data to users: hours as a DataFrame, a box as a DataArray, years over HTTP."""

from __future__ import annotations

import math
import random
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import numpy as np
import psutil

from benchmarks.asking import YEAR_SHARE, AskedTable, months_asked, of_85_years
from benchmarks.cells import CannotRunError, Laps, Measured, median_of, planned, rate_of, rate_ratios, ratio
from benchmarks.generated import flattened, generated_files, square
from benchmarks.http_load import HttpLoad, HttpLoadResult, make_load
from benchmarks.processes import ServeProcess, processor_times, serve_process
from benchmarks.suite import BenchContext, Suite, disk
from era5_pipeline.api.database import Database, open_database
from era5_pipeline.model.months import Month
from era5_pipeline.read.hours import read_packed
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from datetime import date

    import pandas as pd
    import xarray as xr

    from benchmarks.cells import Entries, Numbers, PlannedCell
    from era5_pipeline.model.grid import Area

# --- A month of a square box as labelled xarray arrays: by `field`, and by the lazy `dataset` ---


# A month after those of the single place, and away from it.
_MONTH = Month(2025, 7)
_NORTH, _WEST = 60.0, 0.0
_COLUMN = "temperature_2m"
# The box has this many times the places of the months for a single place: 100 x 100 for 100.
_BOX_SHARE = 100


class BoxOfMonth:
    """The box, loaded on first use into the same table as the months of `table`."""

    def __init__(self, table: AskedTable, rows: int) -> None:
        self._table = table
        side = max(2, round(math.sqrt(_BOX_SHARE * rows / _MONTH.hours)))
        self.shape = (_MONTH.hours, side, side)
        self.area = square(_NORTH, _WEST, side)

    def read(self, read: Callable[[Database, Area], xr.DataArray]) -> Measured:
        """Read the box by a method of the database; the rows are values."""
        import dask.array  # noqa: F401  # imported before the clock starts, as programs do it once
        import xarray as xr  # noqa: F401

        _ = self._loaded
        with open_database(self._table.target.warehouse.url) as database:
            clock = Laps()
            array = read(database, self.area)
            seconds = clock.lap()
        if array.shape != self.shape or not np.isfinite(array.to_numpy()).all():
            raise CannotRunError(f"an array {array.shape} was read, not {self.shape} without gaps")
        return Measured(array.size, {"seconds": seconds})

    @cached_property
    def _loaded(self) -> bool:
        folder = self._table.folder / "box"
        flat = flattened(generated_files(folder, _MONTH, self.area), folder)
        load_month(self._table.target.warehouse, flat)
        flat.path.unlink()
        return True


def _field(database: Database, area: Area) -> xr.DataArray:
    return database.field(_COLUMN, month=str(_MONTH), area=area)


def _dataset(database: Database, area: Area) -> xr.DataArray:
    return database.dataset(area=area, start=str(_MONTH), end=str(_MONTH), columns=_COLUMN)[_COLUMN].load()


# --- All hours of one place as a pandas table: as `era5.open` reads them, and row by row ---


_ROW_BY_ROW = """
    SELECT time, temperature_2m
    FROM weather
    WHERE location_id = %(location_id)s AND time < %(end)s
    ORDER BY time
"""


def _series(table: AskedTable, columns: str | None) -> tuple[pd.DataFrame, float]:
    """`series` of all months of the place, and the seconds from the call to the table, with its connection."""
    import pandas as pd  # noqa: F401  # imported before the clock starts, as programs do it once

    place, end = table.place, str(table.months[-1])
    with open_database(table.target.warehouse.url) as database:
        clock = Laps()
        frame = database.series(latitude=place.latitude, longitude=place.longitude, end=end, columns=columns)
        return frame, clock.lap()


def _frame(table: AskedTable, columns: str | None) -> Measured:
    """`series` of one variable, or of all."""
    frame, seconds = _series(table, columns)
    if len(frame) != table.hours or not np.isfinite(frame[_COLUMN].to_numpy()).all():
        raise CannotRunError(f"{len(frame):,} hours were read, of {table.hours:,}")
    return Measured(len(frame), {"seconds": seconds})


def _frame_row_by_row(table: AskedTable) -> Measured:
    """The same hours of one variable, as a table made from one Python tuple per row."""
    import pandas as pd

    clock, place = Laps(), {"location_id": table.place.location_id, "end": table.months[-1].end}
    with table.target.warehouse.connect() as connection:
        rows = connection.execute(_ROW_BY_ROW, place).fetchall()
    frame = pd.DataFrame(rows, columns=["time", _COLUMN]).set_index("time")
    seconds = clock.lap()
    expected, _ = _series(table, _COLUMN)
    if not np.array_equal(frame[_COLUMN].to_numpy(np.float32), expected[_COLUMN].to_numpy(), equal_nan=True):
        raise CannotRunError("series gives other values than the rows")
    return Measured(len(frame), {"seconds": seconds})


# --- Years of one variable of one place over HTTP: requests due at a fixed rate, and as many as can be answered ---
#
# Database, server and clients share this machine. The server is started as by a user; the requests come from a separate
# process, whose share of the processor is measured.


# Requests per second that the server should keep up with.
DUE_RATE = 200.0
# Client connections. With a rate, there are enough that requests wait for the server, never for a connection.
_AT_ONCE, _WITH_RATE = 8, 200
_LIMIT_SECONDS = 120.0
_WARM_UP = 100
_TOLERANCE = 0.0501  # half a unit of one decimal


class ServedYears:
    """A server on the table's database, and requests for its places and years; started on first use.

    `requests`: the number in one measurement. `stack` stops the server.
    """

    def __init__(self, table: AskedTable, requests: int, stack: ExitStack) -> None:
        self._table = table
        self._requests = requests
        self._stack = stack
        self._random = random.Random(1)  # noqa: S311  # the same places and years in each run

    def at_rate(self) -> Measured:
        """Requests for any place and year, due at a fixed rate."""
        return self._load(self._paths(), _WITH_RATE, rate=DUE_RATE)

    def at_most(self, headers: dict[str, str] | None = None) -> Measured:
        """As many as can be answered, from a few clients that send the next request after each answer."""
        return self._load(self._paths(), headers=headers)

    def same(self) -> Measured:
        """The same for one place and year."""
        return self._load(self._paths()[:1] * self._requests)

    def unchanged(self) -> Measured:
        """Requests for one place and year from clients that already have the answer."""
        path = self._paths()[0]
        tag = self._server.get(path).headers.get("ETag")
        if not tag:
            raise CannotRunError("the answer has no ETag")
        return self._load((path,) * self._requests, headers={"If-None-Match": tag}, status="304")

    def _paths(self) -> tuple[str, ...]:
        """`requests` paths, for random places and years."""
        places, spans = self._table.places, _spans(self._table.months)
        choices = [(self._random.choice(places), self._random.choice(spans)) for _ in range(self._requests)]
        return tuple(_path(place.latitude, place.longitude, *span) for place, span in choices)

    @cached_property
    def _server(self) -> ServeProcess:
        table = self._table
        running = self._stack.enter_context(serve_process(table.target.warehouse, table.folder / "served"))
        self._require_values(running)
        make_load(HttpLoad(running.port, self._paths()[:_WARM_UP], _AT_ONCE, _LIMIT_SECONDS))
        return running

    def _load(
        self,
        paths: tuple[str, ...],
        connections: int = _AT_ONCE,
        *,
        rate: float | None = None,
        headers: dict[str, str] | None = None,
        status: str = "200",
    ) -> Measured:
        server = self._server
        self._table.target.calm()
        used = _processor_seconds(server.pid)
        psutil.cpu_percent()  # the next call returns the use since this one
        result = make_load(HttpLoad(server.port, paths, connections, _LIMIT_SECONDS, rate, headers or {}))
        busy = psutil.cpu_percent() / 100
        if set(result.outcomes) != {status}:
            raise CannotRunError(f"not all were answered with {status}: {result.outcomes}")
        figures = load_figures(result, _processor_seconds(server.pid) - used)
        return Measured(len(paths), figures | {"busy_share": busy})

    def _require_values(self, server: ServeProcess) -> None:
        """Require that the answer has the table's values; otherwise, the suite cannot be measured."""
        place, (first, last) = self._table.place, _spans(self._table.months)[-1]
        found = server.get(_path(place.latitude, place.longitude, first, last)).json()["hourly"][_COLUMN]
        start, end = Month(first.year, first.month).start, Month(last.year, last.month).end
        with self._table.target.connect() as connection:
            _, expected = read_packed(connection, place.location_id, [_COLUMN], start, end)
        if len(found) != expected[_COLUMN].size or np.abs(expected[_COLUMN] - np.array(found)).max() > _TOLERANCE:
            raise CannotRunError("the answer has other values than the table")


def _processor_seconds(pid: int) -> float:
    return float(sum(times.user + times.system for _, times, _ in processor_times(pid)))


def load_figures(result: HttpLoadResult, server_seconds: float) -> Numbers:
    """Figures of a load: rates and latencies, and processor milliseconds per request of server and clients."""
    middle, most, longest = (float(1000 * value) for value in np.percentile(result.latencies, [50, 99, 100]))
    count = len(result.latencies)
    return {
        "seconds": result.seconds,
        "requests_per_second": count / result.seconds,
        "p50_ms": middle,
        "p99_ms": most,
        "longest_ms": longest,
        "kilobytes": result.bytes / count / 1000,
        "server_cpu_ms": 1000 * server_seconds / count,
        "clients_cpu_ms": 1000 * result.processor_seconds / count,
        "sent_late_ms": 1000 * result.sent_late,
    }


def _spans(months: tuple[Month, ...]) -> list[tuple[date, date]]:
    """First and last day of each whole year; without a whole year, of all months."""
    there = set(months)
    years = sorted({month.year for month in months})
    whole = [year for year in years if all(Month(year, number) in there for number in range(1, 13))]
    spans = [(Month(year, 1), Month(year, 12)) for year in whole] or [(months[0], months[-1])]
    return [(first.start.date(), (last.end - timedelta(days=1)).date()) for first, last in spans]


def _path(latitude: float, longitude: float, first: date, last: date) -> str:
    asked = {"latitude": latitude, "longitude": longitude, "start_date": first, "end_date": last, "hourly": _COLUMN}
    return f"/v1/archive?{urlencode(asked)}"


FRAME, FRAME_OF_ALL, ROW_BY_ROW = "a DataFrame of one column", "a DataFrame of all columns", "one column, row by row"
FIELD, DATASET = "a box as DataArray, field", "a box as DataArray, dataset"
AT_RATE = f"HTTP, {DUE_RATE:g} requests a second"
AT_MOST, GZIP, SAME, UNCHANGED = "HTTP, at most", "HTTP, at most, gzip", "HTTP, the same year", "HTTP, unchanged (304)"
# A load has one request for this many rows of a month, within limits.
_ROWS_A_REQUEST, _FEWEST, _MOST = 25, 40, 3000


def _reach_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each way; the table is loaded and the server started for the first measurement."""
    count, rows = months_asked(context), context.rows
    requests = min(_MOST, max(_FEWEST, rows // _ROWS_A_REQUEST))
    table = cache(lambda: AskedTable.loaded(context, count))
    box = cache(lambda: BoxOfMonth(table(), rows))
    served = cache(lambda: ServedYears(table(), requests, context.stack))
    questions: dict[str, Callable[[], Measured]] = {
        FRAME: lambda: _frame(table(), _COLUMN),
        FRAME_OF_ALL: lambda: _frame(table(), None),
        ROW_BY_ROW: lambda: _frame_row_by_row(table()),
        FIELD: lambda: box().read(_field),
        DATASET: lambda: box().read(_dataset),
        AT_RATE: lambda: served().at_rate(),
        AT_MOST: lambda: served().at_most(),
        GZIP: lambda: served().at_most({"Accept-Encoding": "gzip"}),
        SAME: lambda: served().same(),
        UNCHANGED: lambda: served().unchanged(),
    }
    return planned(questions, rows, months=count)


def _reach_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its log, and for the box with its files."""
    return disk(months_asked(context) + 12 * YEAR_SHARE + _BOX_SHARE, _BOX_SHARE)(context)


def _reach_figures(entries: Entries) -> dict[str, float | None]:
    """Rates and times; those of a series are None for a table with fewer than 85 years."""
    return {
        "dataframe_rows_per_second": rate_of(of_85_years(entries), FRAME),
        "dataframe_all_columns_rows_per_second": rate_of(of_85_years(entries), FRAME_OF_ALL),
        "box_seconds": median_of(entries, FIELD),
        "box_dataset_seconds": median_of(entries, DATASET),
        "http_requests_per_second": median_of(entries, AT_MOST, "requests_per_second"),
        "http_p99_ms": median_of(entries, AT_RATE, "p99_ms"),
        "http_p50_ms": median_of(entries, AT_RATE, "p50_ms"),
        "http_answered_per_second_at_rate": median_of(entries, AT_RATE, "requests_per_second"),
    }


def _reach_ratios(entries: Entries) -> dict[str, float | None]:
    """The rate of one way as a multiple of that of another."""

    def of_requests(above: str, below: str) -> float | None:
        rates = {name: median_of(entries, name, "requests_per_second") for name in (above, below)}
        return ratio(rates[above], rates[below])

    return {
        **rate_ratios({"frame_to_row_by_row": (FRAME, ROW_BY_ROW)})(entries),
        "gzip_to_plain": of_requests(GZIP, AT_MOST),
        "same_to_different": of_requests(SAME, AT_MOST),
        "unchanged_to_same": of_requests(UNCHANGED, SAME),
    }


REACH = Suite(
    name="reach",
    summary="a place as DataFrame, a box as DataArray, years over HTTP",
    load="the same, and a month of a hundred times as many; 3,000 requests",
    plan=_reach_cells,
    rows=74_400,
    repeats=3,
    bytes=_reach_bytes,
    ratios=_reach_ratios,
    figures=_reach_figures,
)
