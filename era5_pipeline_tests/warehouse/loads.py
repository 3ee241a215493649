"""Loads that can be stopped in the middle, and what a server can be asked about them."""

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
from era5_pipeline.warehouse.layouts.hypertable import CalendarHypertable
from era5_pipeline.warehouse.load_month import Loaded, load_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.runtime.progress import Stage

SECONDS = 20.0


def wait_until(holds: Callable[[], bool], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def ask(url: str, query: LiteralString, *parameters: object) -> Any:
    """The first value of the first row."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query, parameters).fetchone()
        return row[0] if row else None


def rows_in(warehouse: Warehouse) -> int:
    return int(ask(warehouse.url, "SELECT count(*) FROM weather"))


def make_heap_hypertable(warehouse: Warehouse) -> None:
    """On the Community edition: the table as it is where it was made before there was a columnstore."""
    with warehouse.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS timescaledb")
        CalendarHypertable().create(connection)


def copying_sessions(warehouse: Warehouse) -> list[int]:
    """Who is in the middle of a COPY: the server has taken some of it (TimescaleDB counts no rows).

    Of a COPY into the columnstore the server tells no progress; but who waits for more has taken what was sent.
    """
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT a.pid FROM pg_stat_activity a LEFT JOIN pg_stat_progress_copy p USING (pid) "
                "WHERE a.datname = current_database() AND a.state = 'active' AND a.query LIKE 'COPY %' "
                "AND (p.bytes_processed > 1000000 OR (p.pid IS NULL AND a.wait_event = 'ClientRead'))"
            )
        ]


class Load:
    """A load in a thread of its own."""

    def __init__(self, warehouse: Warehouse, flat: FlatMonth, *, pause: bool, **options: Any) -> None:
        self.said: list[str] = []
        self._go_on = threading.Event()
        self._paused = threading.Event()
        self._answer: Loaded | BaseException | None = None

        def listen(stage: Stage, done: int, total: int, unit: str) -> None:
            if stage == "load" and done < total:
                self._paused.set()
                assert self._go_on.wait(SECONDS)

        def run() -> None:
            try:
                with listening(listen):
                    self._answer = load_month(warehouse, flat, on_wait=self.said.append, **options)
            except BaseException as error:  # noqa: BLE001  # handed to whoever asks
                self._answer = error

        self._thread = threading.Thread(target=run)
        if not pause:
            self._go_on.set()
        self._thread.start()
        if pause:
            assert self._paused.wait(SECONDS), self._answer
            wait_until(lambda: bool(copying_sessions(warehouse)))

    def resume(self) -> None:
        self._go_on.set()

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
    """A load within; with `pause` it stands in the middle of its COPY until it is told to go on."""
    load = Load(warehouse, flat, pause=pause, **options)
    try:
        yield load
    finally:
        load.resume()
        load._thread.join(SECONDS)


# Stands in the middle of its COPY until it is killed.
_PROGRAM = """
import json, os, sys, time
from era5_pipeline.flat.flat_month import FlatMonth
from era5_pipeline.runtime.progress import listening
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
def stand(stage, done, total, unit):
    print("stands", flush=True)
    time.sleep(60)
with listening(stand):
    load_month(Warehouse(os.environ["URL"]), FlatMonth.from_json(json.load(sys.stdin)), force=True)
"""


@contextmanager
def loading_process(warehouse: Warehouse, flat: FlatMonth) -> Iterator[subprocess.Popen[str]]:
    """Another process, in the middle of its COPY."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"URL": warehouse.url},
    ) as process:
        try:
            assert process.stdin
            assert process.stdout
            json.dump(flat.to_json(), process.stdin)
            process.stdin.close()
            assert process.stdout.readline() == "stands\n"
            wait_until(lambda: bool(copying_sessions(warehouse)))
            yield process
        finally:
            process.kill()
