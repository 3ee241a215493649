"""Several processes that begin at the same moment, as Dagster's runs are: how long until the last is done."""

from __future__ import annotations

import multiprocessing
import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.cells import CannotRunError, Numbers
from era5_pipeline.bench.copy_methods import own
from era5_pipeline.bench.target import Target, count_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.layouts import Layout

_START_SECONDS = 120


@dataclass(frozen=True)
class Outcome:
    """What a process says at its end; `error` is empty where all went well."""

    peak_rss_bytes: int
    error: str = ""


def run_at_once(work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> tuple[float, list[Outcome]]:
    """Run `work` once for each of the arguments, each in a process of its own; gives seconds and outcomes.

    The clock starts when all processes have imported what they need.

    Raises:
        CannotRunError: if one of them failed.
    """
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(len(arguments) + 1), context.Queue()
    processes = [
        context.Process(target=_run, args=(work, of_one, barrier, outcomes), daemon=True) for of_one in arguments
    ]
    for process in processes:
        process.start()
    try:
        barrier.wait(_START_SECONDS)
        started = time.monotonic()
        said: list[Outcome] = [outcomes.get() for _ in processes]
        seconds = time.monotonic() - started
    finally:
        for process in processes:
            process.join(_START_SECONDS)
    errors = [outcome.error for outcome in said if outcome.error]
    if errors:
        raise CannotRunError(errors[0])
    return seconds, said


def _run(work: Callable[..., None], arguments: tuple[Any, ...], barrier: Barrier, outcomes: Queue[Outcome]) -> None:
    error = ""
    barrier.wait(_START_SECONDS)
    try:
        work(*arguments)
    except Exception as problem:  # noqa: BLE001  # told to who asked
        error = " ".join(f"{type(problem).__name__}: {problem}".split())
    outcomes.put(Outcome(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, error))


def load_at_once(target: Target, layout: Layout, months: Sequence[FlatMonth]) -> tuple[int, Numbers]:
    """Load each month by a process of its own into a new table of the layout; gives rows found and seconds."""
    target.make_table(layout)
    seconds, _ = run_at_once(_load, [(target, layout, month) for month in months])
    with target.connect() as connection:
        rows = count_rows(connection)
    if rows != sum(month.rows for month in months):
        raise CannotRunError(f"{rows:,} rows are in the table, of {sum(month.rows for month in months):,}")
    return rows, {"seconds": seconds}


def _load(target: Target, layout: Layout, month: FlatMonth) -> None:
    with own(month) as copy:
        target.replace(layout, month.month, copy)
