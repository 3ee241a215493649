"""Run several processes at the same time, as Dagster does with runs, and measure until the last one ends."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.cells import CannotRunError, Numbers
from era5_pipeline.bench.copy_methods import pipeline_copy
from era5_pipeline.bench.target import Target, count_rows
from era5_pipeline.runtime.peak_memory import peak_rss_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.layouts import Layout

_START_SECONDS = 120


@dataclass(frozen=True)
class ProcessResult:
    """Memory used by a process, and its error; `error` is empty on success."""

    peak_rss_bytes: int
    error: str = ""


def run_at_once(work: Callable[..., object], arguments: Sequence[tuple[Any, ...]]) -> tuple[float, list[ProcessResult]]:
    """Run `work` once for each tuple of arguments, each in its own process; return seconds and results.

    The clock starts once all processes have finished their imports.

    Raises:
        CannotRunError: if one of them failed.
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
    """Load each month in its own process into a new table of the layout; return the rows found and the seconds."""
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
