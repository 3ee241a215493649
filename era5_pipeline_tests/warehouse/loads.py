"""Loads that can be paused or killed during COPY, readers beside them, and queries about both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from era5_pipeline.runtime.progress import listening
from era5_pipeline.warehouse.layouts.hypertable import CALENDAR_HYPERTABLE
from era5_pipeline.warehouse.load_month import Loaded, load_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.runtime.progress import Stage

# Of a wait for what happens in a moment, on a machine that has much else to do.
SECONDS = 240.0


def wait_until(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.01)


def ask(url: str, query: LiteralString, *parameters: object) -> Any:
    """Run a query and return the first value of the first row."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query, parameters).fetchone()
        return row[0] if row else None


@contextmanager
def without_autovacuum(warehouse: Warehouse) -> Iterator[None]:
    """Keep autovacuum, which changes sizes, away from the table in this context."""
    with psycopg.connect(warehouse.url) as connection:
        connection.execute("LOCK TABLE weather IN SHARE UPDATE EXCLUSIVE MODE")
        yield


def end_session(connection: psycopg.Connection[Any], url: str) -> None:
    """Close the connection, and wait until the server has ended its session: a moment later, with its locks."""
    session = connection.info.backend_pid
    connection.close()
    wait_until(lambda: ask(url, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", session) == 0)


def rows_in(warehouse: Warehouse) -> int:
    return int(ask(warehouse.url, "SELECT count(*) FROM weather"))


def make_heap_hypertable(warehouse: Warehouse) -> None:
    """Create the table as the Community edition has it if it was created without a columnstore."""
    with warehouse.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS timescaledb")
        CALENDAR_HYPERTABLE.create(connection)


def copying_sessions(warehouse: Warehouse) -> list[int]:
    """List the pids of sessions in a COPY of which the server has accepted a part (TimescaleDB counts no rows).

    The server shows no progress of a COPY of rows into the columnstore, and batches are few bytes; but a session that
    waits for more has accepted what was sent.
    """
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT a.pid FROM pg_stat_activity a LEFT JOIN pg_stat_progress_copy p USING (pid) "
                "WHERE a.datname = current_database() AND a.state = 'active' AND a.query LIKE 'COPY %' "
                "AND (p.bytes_processed > 1000000 "
                "OR (coalesce(p.bytes_processed, 1) > 0 AND a.wait_event = 'ClientRead'))"
            )
        ]


class Load:
    """A load in its own thread; with `pause` it stops during COPY until `resume` is called."""

    def __init__(self, warehouse: Warehouse, flat: FlatMonth, *, pause: bool, **options: Any) -> None:
        self.said: list[str] = []
        self._resumed = threading.Event()
        self._paused = threading.Event()
        self._answer: Loaded | BaseException | None = None

        def listen(stage: Stage, done: int, total: int, unit: str) -> None:
            if stage == "load" and done < total:
                self._paused.set()
                assert self._resumed.wait(SECONDS)

        def run() -> None:
            try:
                with listening(listen):
                    self._answer = load_month(warehouse, flat, on_wait=self.said.append, **options)
            except BaseException as error:  # noqa: BLE001  # raised by `result`
                self._answer = error

        self._thread = threading.Thread(target=run)
        if not pause:
            self._resumed.set()
        self._thread.start()
        if pause:
            assert self._paused.wait(SECONDS), self._answer
            wait_until(lambda: bool(copying_sessions(warehouse)))

    def resume(self) -> None:
        self._resumed.set()

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Loaded:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        if isinstance(self._answer, BaseException):
            raise self._answer
        assert self._answer is not None
        return self._answer


@contextmanager
def loading(warehouse: Warehouse, flat: FlatMonth, *, pause: bool = False, **options: Any) -> Iterator[Load]:
    """Run a load within the context; with `pause` it stops during COPY until it is resumed."""
    load = Load(warehouse, flat, pause=pause, **options)
    try:
        yield load
    finally:
        load.resume()
        load._thread.join(SECONDS)


# With PAUSE it stops during COPY until it is killed.
_PROGRAM = """
import json, os, sys, time
from contextlib import nullcontext
from era5_pipeline.flat.flat_month import FlatMonth
from era5_pipeline.runtime import compiled
from era5_pipeline.runtime.progress import listening
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
compiled._LOADING_SECONDS = -1.0
def pause(stage, done, total, unit):
    print("paused", flush=True)
    time.sleep(60)
flat, options = FlatMonth.from_json(json.load(sys.stdin)), json.loads(os.environ["OPTIONS"])
with listening(pause) if os.environ["PAUSE"] else nullcontext():
    load_month(Warehouse(os.environ["URL"]), flat, force=True, **options)
"""


@contextmanager
def loading_process(
    warehouse: Warehouse, flat: FlatMonth, *, pause: bool = True, workers: int = 1
) -> Iterator[subprocess.Popen[str]]:
    """Run a load in another process; with `pause` it stops during COPY."""
    options = json.dumps({"workers": workers, "batches": os.environ.get("ERA5_BATCHES") != "off"})
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"URL": warehouse.url, "OPTIONS": options, "PAUSE": "yes" if pause else ""},
    ) as process:
        try:
            assert process.stdin
            assert process.stdout
            json.dump(flat.to_json(), process.stdin)
            process.stdin.close()
            if pause:
                assert process.stdout.readline() == "paused\n"
                wait_until(lambda: bool(copying_sessions(warehouse)))
            yield process
        finally:
            process.kill()


_READER_WAITS_SECONDS = 15


class Reader:
    """Count the month's rows every 20 ms within the context; `counts` are in the order in which they were read.

    A load's lock that keeps it waiting is an error. Only that is bounded in time: a statement takes seconds where the
    machine is busy.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self.counts: list[int] = []
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._url = warehouse.url
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Reader:
        self._thread.start()
        wait_until(lambda: bool(self.counts))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute(f"SET lock_timeout = '{_READER_WAITS_SECONDS}s'")
                while not self._stop.wait(0.02):
                    row = connection.execute(
                        "SELECT count(*) FROM weather WHERE time >= '2023-07-01Z' AND time < '2023-08-01Z'"
                    ).fetchone()
                    self.counts.append(row[0] if row else -1)
        except psycopg.Error as error:
            self.error = error
