"""Processes of a measurement: several at once, as for Dagster's runs, and a reader during a load."""

from __future__ import annotations

import multiprocessing
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from psycopg import sql

from era5_pipeline.bench.cells import CannotRunError, Numbers
from era5_pipeline.bench.copy_methods import pipeline_copy
from era5_pipeline.bench.servers import Target, count_rows
from era5_pipeline.runtime.peak_memory import peak_rss_bytes
from era5_pipeline.warehouse.layouts.layout import WEATHER, month_where

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.layouts import Layout

# --- Run several processes at the same time, as Dagster does with runs, until the last one ends ---


_START_SECONDS = 120


@dataclass(frozen=True)
class ProcessResult:
    """Memory used by a process, and its error, which is empty on success."""

    peak_rss_bytes: int
    error: str = ""


def run_at_once(work: Callable[..., object], arguments: Sequence[tuple[Any, ...]]) -> tuple[float, list[ProcessResult]]:
    """Run `work` once for each tuple of arguments, each in its own process; return seconds and results.

    The clock starts once all processes have finished their imports.

    Raises:
        CannotRunError: if one of them fails.
    """
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(len(arguments) + 1), context.Queue()
    processes = [context.Process(target=_run, args=(work, of_one, barrier, queue), daemon=True) for of_one in arguments]
    for process in processes:
        process.start()
    try:
        barrier.wait(_START_SECONDS)
        started = time.monotonic()
        results: list[ProcessResult] = [queue.get() for _ in processes]
        seconds = time.monotonic() - started
    finally:
        for process in processes:
            process.join(_START_SECONDS)
    errors = [result.error for result in results if result.error]
    if errors:
        raise CannotRunError(errors[0])
    return seconds, results


def _run(
    work: Callable[..., object], arguments: tuple[Any, ...], barrier: Barrier, queue: Queue[ProcessResult]
) -> None:
    error = ""
    barrier.wait(_START_SECONDS)
    try:
        work(*arguments)
    except Exception as problem:  # noqa: BLE001  # reported to the parent process
        error = " ".join(f"{type(problem).__name__}: {problem}".split())
    queue.put(ProcessResult(peak_rss_bytes(), error))


def load_at_once(target: Target, layout: Layout, months: Sequence[FlatMonth]) -> tuple[int, Numbers]:
    """Load each month in a separate process into a new table of the layout; return the rows found and the seconds."""
    target.make_table(layout)
    seconds, _ = run_at_once(_load, [(target, layout, month) for month in months])
    with target.connect() as connection:
        rows = count_rows(connection)
    if rows != sum(month.rows for month in months):
        raise CannotRunError(f"{rows:,} rows are in the table, of {sum(month.rows for month in months):,}")
    return rows, {"seconds": seconds}


def _load(target: Target, layout: Layout, month: FlatMonth) -> None:
    with pipeline_copy(month) as copy:
        target.replace(layout, month.month, copy)


# --- A reader that queries one location's month every 20 ms, and records its longest wait ---


_PAUSE_SECONDS = 0.02


class Reader:
    """Runs queries in a thread while the context is open; `longest_ms` is the longest wait.

    Raises:
        CannotRunError: on exit, if a query failed or returned only a part of the month.
    """

    def __init__(self, warehouse: Warehouse, flat: FlatMonth, location: int) -> None:
        self.longest_ms = 0.0
        self._warehouse = warehouse
        self._hours = flat.hours
        self._query = sql.SQL("SELECT count(*) FROM {} WHERE location_id = {} AND {}").format(
            WEATHER, sql.Literal(location), month_where(flat.month)
        )
        self._stop = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error:
            raise CannotRunError(f"a reader: {self._error}")

    def _run(self) -> None:
        try:
            with self._warehouse.connect() as connection:
                while not self._stop.wait(_PAUSE_SECONDS):
                    started = time.monotonic()
                    row = connection.execute(self._query).fetchone()
                    self.longest_ms = max(self.longest_ms, (time.monotonic() - started) * 1000)
                    if row != (self._hours,):
                        self._error = f"saw {row} hours of {self._hours}"
        except Exception as error:  # noqa: BLE001  # raised on exit
            self._error = str(error)
