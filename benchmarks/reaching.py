"""Delivery of data to users: hours as a DataFrame, a box as a DataArray, years over HTTP."""

from __future__ import annotations

import json
import math
import random
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import psutil

from benchmarks.asking import MOST_MONTHS, YEAR_SHARE, AskedTable
from benchmarks.cells import CannotRunError, PlannedCell, measured, median_of, rate_of, rate_ratio, ratio
from benchmarks.http_load import HttpLoad, make_load
from benchmarks.processes import ServeProcess, serve_process
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.api.database import open_database
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.read.hours import read_packed
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import date

    import pandas as pd
    import xarray as xr

    from benchmarks.cells import Entries, Numbers
    from benchmarks.http_load import HttpLoadResult
    from benchmarks.suite import BenchContext
    from era5_pipeline.api.database import Database

    Question = Callable[["_Reached"], tuple[int, Numbers]]

# --- A month of a square box as labelled xarray arrays: by `field`, and by the lazy `dataset` ---


# A month after those of the single place, and away from it.
_MONTH = Month(2025, 7)
_NORTH, _WEST, _STEP = 60.0, 0.0, 0.25
_COLUMN = "temperature_2m"
# The box has this many times the places of the months for a single place: 100 x 100 for 100.
BOX_SHARE = 100


class BoxOfMonth:
    """The box, loaded on first use into the same table as the months of `table`."""

    def __init__(self, table: AskedTable, rows: int) -> None:
        self._table = table
        side = max(2, round(math.sqrt(BOX_SHARE * rows / _MONTH.hours)))
        self.shape = (_MONTH.hours, side, side)
        self._area = Area(_NORTH, _WEST, _NORTH - _STEP * (side - 1), _WEST + _STEP * (side - 1))
        self._is_loaded = False

    def field(self) -> tuple[int, Numbers]:
        """`field` of the month; return the number of values and the times."""
        return self._read(lambda database: database.field(_COLUMN, month=str(_MONTH), area=self._area))

    def dataset(self) -> tuple[int, Numbers]:
        """The same by `dataset`, with its values read."""
        month = str(_MONTH)
        return self._read(
            lambda database: database.dataset(area=self._area, start=month, end=month, columns=_COLUMN)[_COLUMN].load()
        )

    def _read(self, read: Callable[[Database], xr.DataArray]) -> tuple[int, Numbers]:
        import dask.array  # noqa: F401  # imported before the clock starts, as programs do it once
        import xarray as xr  # noqa: F401

        self._load()
        with open_database(self._table.target.warehouse.url) as database:
            started = time.perf_counter()
            array = read(database)
            seconds = time.perf_counter() - started
        if array.shape != self.shape or not np.isfinite(array.to_numpy()).all():
            raise CannotRunError(f"an array {array.shape} was read, not {self.shape} without gaps")
        return array.size, {"seconds": seconds}

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._table.load()
        folder = self._table.folder / "box"
        raw = SampleSource(folder / "raw", Request(None, self._area)).fetch(_MONTH)
        flat = flatten_month(raw, folder / "flat", home=folder, flat_format="parquet")
        load_month(self._table.target.warehouse, flat)
        flat.path.unlink()
        self._is_loaded = True


# --- All hours of one place as a pandas table: as `era5.open` reads them, and row by row ---


COLUMN = "temperature_2m"
_ROW_BY_ROW = """
    SELECT time, temperature_2m
    FROM weather
    WHERE location_id = %(location_id)s AND time < %(end)s
    ORDER BY time
"""


def frame_of_one_column(table: AskedTable) -> tuple[int, Numbers]:
    """`series` of one variable, from the call to the table, with its connection; return the hours and the times."""
    return _frame(table, COLUMN)


def frame_of_all_columns(table: AskedTable) -> tuple[int, Numbers]:
    """`series` of all variables."""
    return _frame(table, None)


def _frame(table: AskedTable, columns: str | None) -> tuple[int, Numbers]:
    import pandas as pd  # noqa: F401  # imported before the clock starts, as programs do it once

    table.load()
    with open_database(table.target.warehouse.url) as database:
        place: dict[str, Any] = {"latitude": table.place.latitude, "longitude": table.place.longitude}
        started = time.perf_counter()
        frame = database.series(**place, end=str(table.months[-1]), columns=columns)
        seconds = time.perf_counter() - started
    _require_hours(table, frame)
    return len(frame), {"seconds": seconds}


def frame_row_by_row(table: AskedTable) -> tuple[int, Numbers]:
    """The same hours of one variable, as a table made from one Python tuple per row.

    Raises:
        CannotRunError: if the values differ from those of `series`.
    """
    import pandas as pd

    table.load()
    parameters = {"location_id": table.place.location_id, "end": table.months[-1].end}
    started = time.perf_counter()
    with table.target.warehouse.connect() as connection:
        rows = connection.execute(_ROW_BY_ROW, parameters).fetchall()
    frame = pd.DataFrame(rows, columns=["time", COLUMN]).set_index("time")
    seconds = time.perf_counter() - started
    with open_database(table.target.warehouse.url) as database:
        expected = database.series(
            latitude=table.place.latitude, longitude=table.place.longitude, end=str(table.months[-1]), columns=COLUMN
        )
    if not np.array_equal(frame[COLUMN].to_numpy(np.float32), expected[COLUMN].to_numpy(), equal_nan=True):
        raise CannotRunError("series gives other values than the rows")
    return len(frame), {"seconds": seconds}


def _require_hours(table: AskedTable, frame: pd.DataFrame) -> None:
    wanted = sum(month.hours for month in table.months)
    if len(frame) != wanted or not np.isfinite(frame[COLUMN].to_numpy()).all():
        raise CannotRunError(f"{len(frame):,} hours were read, of {wanted:,}")


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
        self._running: ServeProcess | None = None

    def at_rate(self) -> tuple[int, Numbers]:
        """Requests for any place and year, due at a fixed rate; return their number, and their latencies."""
        return self._load(self._paths(), _WITH_RATE, rate=DUE_RATE)

    def at_most(self) -> tuple[int, Numbers]:
        """As many as can be answered, from a few clients that send the next request after each answer."""
        return self._load(self._paths(), _AT_ONCE)

    def compressed(self) -> tuple[int, Numbers]:
        """The same from clients that accept gzip."""
        return self._load(self._paths(), _AT_ONCE, headers={"Accept-Encoding": "gzip"})

    def same(self) -> tuple[int, Numbers]:
        """The same for one place and year."""
        return self._load(self._paths()[:1] * self._requests, _AT_ONCE)

    def unchanged(self) -> tuple[int, Numbers]:
        """Requests for one place and year from clients that already have the answer."""
        path = self._paths()[0]
        with self._server().get(path) as response:
            tag = response.headers["ETag"]
        if not tag:
            raise CannotRunError("the answer has no ETag")
        return self._load((path,) * self._requests, _AT_ONCE, headers={"If-None-Match": tag}, status="304")

    def _paths(self) -> tuple[str, ...]:
        """`requests` paths, for random places and years."""
        places, spans = self._table.places, _spans(self._table.months)
        choices = [(self._random.choice(places), self._random.choice(spans)) for _ in range(self._requests)]
        return tuple(_path(place.latitude, place.longitude, *span) for place, span in choices)

    def _server(self) -> ServeProcess:
        if self._running is None:
            self._table.load()
            running = self._stack.enter_context(
                serve_process(self._table.target.warehouse, self._table.folder / "served")
            )
            self._require_values(running)
            make_load(HttpLoad(running.port, self._paths()[:_WARM_UP], _AT_ONCE, _LIMIT_SECONDS))
            self._running = running
        return self._running

    def _load(
        self,
        paths: tuple[str, ...],
        connections: int,
        *,
        rate: float | None = None,
        headers: dict[str, str] | None = None,
        status: str = "200",
    ) -> tuple[int, Numbers]:
        server = self._server()
        self._table.target.calm()
        used = server.processor_seconds
        psutil.cpu_percent()  # the next call returns the use since this one
        result = make_load(HttpLoad(server.port, paths, connections, _LIMIT_SECONDS, rate, headers or {}))
        busy = psutil.cpu_percent() / 100
        if set(result.outcomes) != {status}:
            raise CannotRunError(f"not all were answered with {status}: {result.outcomes}")
        return len(paths), load_figures(result, server.processor_seconds - used) | {"busy_share": busy}

    def _require_values(self, server: ServeProcess) -> None:
        """Require that the answer has the table's values; otherwise, the suite cannot be measured."""
        place, (first, last) = self._table.place, _spans(self._table.months)[-1]
        with server.get(_path(place.latitude, place.longitude, first, last)) as response:
            found = json.load(response)["hourly"][_COLUMN]
        start, end = Month(first.year, first.month).start, Month(last.year, last.month).end
        with self._table.target.connect() as connection:
            _, expected = read_packed(connection, place.location_id, [_COLUMN], start, end)
        if len(found) != expected[_COLUMN].size or np.abs(expected[_COLUMN] - np.array(found)).max() > _TOLERANCE:
            raise CannotRunError("the answer has other values than the table")


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


# --- Suite `reach`: the cells of these ways, their figures and ratios ---


FRAME, FRAME_OF_ALL, ROW_BY_ROW = "a DataFrame of one column", "a DataFrame of all columns", "one column, row by row"
FIELD, DATASET = "a box as DataArray, field", "a box as DataArray, dataset"
AT_RATE = f"HTTP, {DUE_RATE:g} requests a second"
AT_MOST, GZIP, SAME, UNCHANGED = "HTTP, at most", "HTTP, at most, gzip", "HTTP, the same year", "HTTP, unchanged (304)"
# A load has one request for this many rows of a month, within limits.
_ROWS_A_REQUEST, _FEWEST, _MOST = 25, 40, 3000


class _Reached:
    """The objects shared by the cells of one run: the table, the box, and the server."""

    def __init__(self, context: BenchContext, count: int, stack: ExitStack) -> None:
        self.table = AskedTable(context.target, context.folder, context.rows, count)
        self.box = BoxOfMonth(self.table, context.rows)
        self.served = ServedYears(self.table, _requests(context.rows), stack)


_QUESTIONS: dict[str, Question] = {
    FRAME: lambda own: frame_of_one_column(own.table),
    FRAME_OF_ALL: lambda own: frame_of_all_columns(own.table),
    ROW_BY_ROW: lambda own: frame_row_by_row(own.table),
    FIELD: lambda own: own.box.field(),
    DATASET: lambda own: own.box.dataset(),
    AT_RATE: lambda own: own.served.at_rate(),
    AT_MOST: lambda own: own.served.at_most(),
    GZIP: lambda own: own.served.compressed(),
    SAME: lambda own: own.served.same(),
    UNCHANGED: lambda own: own.served.unchanged(),
}


@contextmanager
def reach_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each way; the table is loaded and the server started for the first measurement."""
    count = min(MOST_MONTHS, max(context.options.held))
    shared: list[_Reached] = []
    with ExitStack() as stack:

        def asked(question: Question) -> tuple[int, Numbers]:
            if not shared:
                shared.append(_Reached(context, count, stack))
            return question(shared[0])

        yield [
            PlannedCell(
                name, context.rows, {"months": count}, partial(lambda question: measured(asked(question)), question)
            )
            for name, question in _QUESTIONS.items()
        ]


def reach_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its log, and for the box with its files."""
    held = min(MOST_MONTHS, max(context.options.held)) + 12 * YEAR_SHARE
    return context.rows * (held * TABLE_ROW_BYTES + BOX_SHARE * (TABLE_ROW_BYTES + FILE_ROW_BYTES))


def reach_figures(entries: Entries) -> dict[str, float | None]:
    """Rates and times; those of a series are None for a table with fewer than 85 years."""
    return {
        "dataframe_rows_per_second": _of_85_years(entries, FRAME),
        "dataframe_all_columns_rows_per_second": _of_85_years(entries, FRAME_OF_ALL),
        "box_seconds": median_of(entries, FIELD, "seconds"),
        "box_dataset_seconds": median_of(entries, DATASET, "seconds"),
        "http_requests_per_second": median_of(entries, AT_MOST, "requests_per_second"),
        "http_p99_ms": median_of(entries, AT_RATE, "p99_ms"),
        "http_p50_ms": median_of(entries, AT_RATE, "p50_ms"),
        "http_answered_per_second_at_rate": median_of(entries, AT_RATE, "requests_per_second"),
    }


def reach_ratios(entries: Entries) -> dict[str, float | None]:
    """The rate of one way as a multiple of that of another."""
    return {
        "frame_to_row_by_row": rate_ratio(entries, FRAME, ROW_BY_ROW),
        "gzip_to_plain": _rate_ratio(entries, GZIP, AT_MOST),
        "same_to_different": _rate_ratio(entries, SAME, AT_MOST),
        "unchanged_to_same": _rate_ratio(entries, UNCHANGED, SAME),
    }


def _requests(rows: int) -> int:
    return min(_MOST, max(_FEWEST, rows // _ROWS_A_REQUEST))


def _rate_ratio(entries: Entries, above: str, below: str) -> float | None:
    one, other = (median_of(entries, name, "requests_per_second") for name in (above, below))
    return ratio(one, other)


def _of_85_years(entries: Entries, name: str) -> float | None:
    entry = entries.get(name)
    is_whole = entry is not None and entry["parameters"]["months"] == MOST_MONTHS
    return rate_of(entries, name) if is_whole else None
