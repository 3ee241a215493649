"""Measure what Dagster costs: a backfill of tiny months through the daemon and its queue, one run a month."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.environment import describe_environment
from era5_pipeline.bench.orchestration.processor_seconds import KINDS, processor_seconds
from era5_pipeline.bench.orchestration.running_system import running_system
from era5_pipeline.bench.runner.planned_cell import Measured, PlannedCell
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer
from era5_pipeline.warehouse.ledger import read_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from era5_pipeline.bench.orchestration.running_system import RunningSystem
    from era5_pipeline.bench.orchestration.web_api import BackfillRun
    from era5_pipeline.bench.runner.bench_context import BenchContext

# 2 x 2 points.
_AREA = "-6/106/-6.25/106.25"
_LAST = Month(2024, 12)
_DONE = {"COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED"}
_POLL_SECONDS = 2.0
_IDLE_SECONDS = 20.0
# Enough for a backfill that waits for its daemon twice, and 10 s a month.
_LIMIT_SECONDS, _LIMIT_PER_MONTH = 300.0, 10.0


@contextmanager
def orchestration_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell, whose figures are those of `run_orchestration`; on the user's server, or an embedded one of its own."""
    options = context.options

    def measure() -> Measured:
        url = context.target.warehouse.url if context.is_given else None
        folder = context.folder / "backfill"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        found = run_orchestration(folder, url, months=options.months, failing=options.failing, say=lambda _: None)
        figures = _flat_figures(found["figures"])
        return Measured(0, {"seconds": figures["seconds_in_all"]} | figures)

    parameters = {"months": options.months, "failing": options.failing}
    yield [PlannedCell(f"backfill of {options.months} months", 0, parameters, measure)]


def orchestration_bytes(context: BenchContext) -> int:
    """Bytes on disk: the months are tiny, and each run leaves its log."""
    return 200_000_000 + context.options.months * 1_000_000


def _flat_figures(figures: Mapping[str, Any]) -> dict[str, float]:
    """The figures with a name for each, of those that have several parts too."""
    found: dict[str, float] = {}
    for name, value in figures.items():
        found |= {f"{name}, {part}": of for part, of in value.items()} if isinstance(value, dict) else {name: value}
    return found


def run_orchestration(
    folder: Path, database_url: str | None, *, months: int, failing: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Backfill the last `months` months until 2024-12; return cells, figures and environment as JSON values.

    `failing` of them fail at first, because something is in the place of their manifest, and are run again once it is
    gone. The warehouse is a new embedded server in `folder`, or the database of `database_url`.
    """
    wanted = [Month.from_number(_LAST.number - back) for back in reversed(range(months))]
    env = {"ERA5_SOURCE": "sample", "ERA5_AREA": _AREA}
    if database_url is not None:
        env["ERA5_DATABASE_URL"] = database_url
    home = folder / "home"
    broken = wanted[1 :: max(1, len(wanted) // max(1, failing))][:failing]
    obstacles = [home / "raw" / f"{month}.json" for month in broken]
    for obstacle in obstacles:
        (obstacle / "in the way").mkdir(parents=True)
    say("starting era5 up")
    with running_system(home, env) as system:
        idle = _used(system, lambda: time.sleep(_IDLE_SECONDS))
        first = _backfill(system, wanted, say)
        _require(first["runs"], wanted, failed=broken)
        again: dict[str, Any] = {}
        if broken:
            for obstacle in obstacles:
                (obstacle / "in the way").rmdir()
                obstacle.rmdir()
            again = _backfill(system, broken, say)
            _require(again["runs"], broken, failed=[])
        warehouse = Warehouse(database_url or EmbeddedServer(home).url("era5"))
        with warehouse.connect() as connection:
            held = read_ledger(connection)
            if [entry.month for entry in held] != wanted:
                raise CannotRunError(f"{len(held)} months are in the table, of {months}")
            environment = describe_environment(connection, folder)
    figures = _figures(first, months)
    if again:
        figures["rerun_seconds"] = round(again["seconds"], 1)
    figures["idle_processor_seconds_per_minute"] = {
        kind: round(used * 60 / _IDLE_SECONDS, 2) for kind, used in idle.items()
    }
    return {"months": months, "failing": failing, "cells": [], "ratios": {}, "figures": figures, **environment}


def _backfill(system: RunningSystem, months: Sequence[Month], say: Callable[[str], None]) -> dict[str, Any]:
    """Launch a backfill and wait for its end: its runs, the seconds it took, and processor seconds by kind."""
    launched = time.time()
    backfill = system.web.launch_backfill(months)

    def wait() -> None:
        limit = launched + _LIMIT_SECONDS + _LIMIT_PER_MONTH * len(months)
        while (status := system.web.status(backfill)) not in _DONE:
            if time.time() > limit:
                raise CannotRunError(f"the backfill is {status} after {time.time() - launched:.0f} s")
            say(f"backfill of {len(months)} months: {status.lower()}, {time.time() - launched:.0f} s")
            time.sleep(_POLL_SECONDS)

    used = _used(system, wait)
    return {"launched": launched, "seconds": time.time() - launched, "runs": system.web.runs(backfill), "used": used}


def _used(system: RunningSystem, work: Callable[[], None]) -> dict[str, float]:
    before = processor_seconds(system.pid, system.postmaster)
    work()
    after = processor_seconds(system.pid, system.postmaster)
    return {kind: after[kind] - before[kind] for kind in KINDS}


def _require(runs: Sequence[BackfillRun], months: Sequence[Month], *, failed: Sequence[Month]) -> None:
    found = {run.month: run.status for run in runs}
    wanted = {month.key: "FAILURE" if month in failed else "SUCCESS" for month in months}
    if found != wanted or len(runs) != len(months):
        wrong = {key: found.get(key) for key in wanted if found.get(key) != wanted[key]}
        raise CannotRunError(f"{len(runs)} runs for {len(months)} months; not as expected: {json.dumps(wrong)[:500]}")


def _figures(backfill: dict[str, Any], months: int) -> dict[str, Any]:
    runs = sorted(backfill["runs"], key=lambda run: run.ended)
    begin, end = min(run.started for run in runs), runs[-1].ended
    quarters = [runs[int(len(runs) * part / 4) - 1].ended for part in (1, 2, 3, 4) if len(runs) >= 8]
    starts = [begin, *quarters[:-1]]
    return {
        "seconds_per_month": round((end - begin) / months, 3),
        "seconds_before_first_run": round(begin - backfill["launched"], 1),
        "seconds_in_all": round(backfill["seconds"], 1),
        "median_run_seconds": round(sorted(run.ended - run.started for run in runs)[len(runs) // 2], 2),
        "seconds_per_month_by_quarter": {
            f"{number}": round((last - first) * 4 / months, 3)
            for number, (first, last) in enumerate(zip(starts, quarters, strict=False), 1)
        },
        "processor_seconds_per_month": {
            **{kind: round(used / months, 3) for kind, used in backfill["used"].items()},
            "all": round(sum(backfill["used"].values()) / months, 3),
        },
        "load_average": round(os.getloadavg()[0], 2),
    }
