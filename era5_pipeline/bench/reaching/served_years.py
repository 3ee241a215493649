"""Years of one variable of one place over HTTP: requests that are due at a fixed rate, and as many as are answered.

Database, server and what sends the requests share this machine. The server is started as a user starts it; the requests
are made by a process of its own, whose share is measured.
"""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import psutil as _psutil

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.reaching.http_load import HttpLoad, make_load
from era5_pipeline.bench.reaching.serve_process import serve_process
from era5_pipeline.model.months import Month
from era5_pipeline.query.packed_hours import read_packed

if TYPE_CHECKING:
    from contextlib import ExitStack
    from datetime import date

    from era5_pipeline.bench.asking.asked_table import AskedTable
    from era5_pipeline.bench.cells import Numbers
    from era5_pipeline.bench.reaching.http_load import HttpLoadResult
    from era5_pipeline.bench.reaching.serve_process import ServeProcess

psutil: Any = _psutil  # it has no type annotations

# Requests a second that the server is to keep up with.
DUE_RATE = 200.0
_COLUMN = "temperature_2m"
# Connections of clients. With a rate there are so many that a request waits for the server and not for one of them.
_AT_ONCE, _WITH_RATE = 8, 200
_LIMIT_SECONDS = 120.0
_WARM_UP = 100
_TOLERANCE = 0.0501  # of a value with one decimal


class ServedYears:
    """A server of the table's database, and requests for its places and years; started when first asked.

    `requests`: how many a measurement has. It is stopped with `stack`.
    """

    def __init__(self, table: AskedTable, requests: int, stack: ExitStack) -> None:
        self._table = table
        self._requests = requests
        self._stack = stack
        self._random = random.Random(1)  # noqa: S311  # the same places and years in each run
        self._running: ServeProcess | None = None

    def at_rate(self) -> tuple[int, Numbers]:
        """Requests for any place and year, due at a fixed rate; returns how many, and their latencies."""
        return self._load(self._paths(), _WITH_RATE, rate=DUE_RATE)

    def at_most(self) -> tuple[int, Numbers]:
        """As many as are answered, by a few clients that send the next when they have an answer."""
        return self._load(self._paths(), _AT_ONCE)

    def compressed(self) -> tuple[int, Numbers]:
        """The same from clients that take gzip."""
        return self._load(self._paths(), _AT_ONCE, headers={"Accept-Encoding": "gzip"})

    def same(self) -> tuple[int, Numbers]:
        """The same, of one place and year."""
        return self._load(self._paths()[:1] * self._requests, _AT_ONCE)

    def unchanged(self) -> tuple[int, Numbers]:
        """Requests for one place and year from clients that have the answer already."""
        path = self._paths()[0]
        with self._server().get(path) as response:
            tag = response.headers["ETag"]
        if not tag:
            raise CannotRunError("the answer has no ETag")
        return self._load((path,) * self._requests, _AT_ONCE, headers={"If-None-Match": tag}, status="304")

    def _paths(self) -> tuple[str, ...]:
        """So many paths, of random places and years."""
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
        psutil.cpu_percent()  # the next call says what was used since this one
        result = make_load(HttpLoad(server.port, paths, connections, _LIMIT_SECONDS, rate, headers or {}))
        busy = psutil.cpu_percent() / 100
        if set(result.outcomes) != {status}:
            raise CannotRunError(f"not all were answered with {status}: {result.outcomes}")
        return len(paths), load_figures(result, server.processor_seconds - used) | {"busy_share": busy}

    def _require_values(self, server: ServeProcess) -> None:
        """Require that the answer has the table's values.

        Raises:
            CannotRunError: if it has others.
        """
        place, (first, last) = self._table.place, _spans(self._table.months)[-1]
        with server.get(_path(place.latitude, place.longitude, first, last)) as response:
            found = json.load(response)["hourly"][_COLUMN]
        start, end = Month(first.year, first.month).start, Month(last.year, last.month).end
        with self._table.target.connect() as connection:
            _, expected = read_packed(connection, place.location_id, [_COLUMN], start, end)
        if len(found) != expected[_COLUMN].size or np.abs(expected[_COLUMN] - np.array(found)).max() > _TOLERANCE:
            raise CannotRunError("the answer has other values than the table")


def load_figures(result: HttpLoadResult, server_seconds: float) -> Numbers:
    """Figures of a load: rates and latencies, and processor milliseconds a request of server and clients."""
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
    """First and last day of each whole year; of all months if they make no year."""
    there = set(months)
    years = sorted({month.year for month in months})
    whole = [year for year in years if all(Month(year, number) in there for number in range(1, 13))]
    spans = [(Month(year, 1), Month(year, 12)) for year in whole] or [(months[0], months[-1])]
    return [(first.start.date(), (last.end - timedelta(days=1)).date()) for first, last in spans]


def _path(latitude: float, longitude: float, first: date, last: date) -> str:
    asked = {"latitude": latitude, "longitude": longitude, "start_date": first, "end_date": last, "hourly": _COLUMN}
    return f"/v1/archive?{urlencode(asked)}"
