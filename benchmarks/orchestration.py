"""The cost of Dagster per month: a backfill of tiny months through `era5 up`, its daemon and its queue."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_high
from typing import TYPE_CHECKING, Any

import requests

from benchmarks.cells import CannotRunError, Measured, Numbers, PlannedCell, planned
from benchmarks.generated import fresh_folder, last_months
from benchmarks.processes import free_port, processor_times, service_process
from benchmarks.suite import BenchContext, Suite
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.processes import first_number
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.warehouse.ledger import read_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month

# --- The web UI's GraphQL API: launch a backfill as its dialog does, and read the backfill's state and runs ---


STAGES = ("raw", "flat", "weather")
_SECONDS = 120.0
# Runs per page: all months since 1940 in a few requests.
_PAGE = 500

_LAUNCH = """
mutation ($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
_STATUS = """
query ($backfill: String!) {
  partitionBackfillOrError(backfillId: $backfill) {
    ... on PartitionBackfill { status error { message } }
  }
}
"""
_RUNS = """
query ($filter: RunsFilter!, $cursor: String, $limit: Int!) {
  runsOrError(filter: $filter, cursor: $cursor, limit: $limit) {
    ... on Runs { results { runId status startTime endTime tags { key value } } }
  }
}
"""


@dataclass(frozen=True)
class BackfillRun:
    """A run of a backfill; times are Unix seconds, None if it has not got that far."""

    run_id: str
    month: str
    status: str
    started: float | None
    ended: float | None


class WebApi:
    """Requests to the web UI at `url`."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/graphql"

    def ask(self, query: str, **variables: object) -> Any:  # noqa: ANN401  # JSON
        """Return the answer's data."""
        asked = {"query": query, "variables": variables}
        try:
            answer = requests.post(self._url, json=asked, timeout=_SECONDS).json()
        except requests.RequestException as error:
            raise CannotRunError(f"the web UI does not answer: {error}") from error
        if "errors" in answer:
            raise CannotRunError(f"the web UI: {answer['errors'][0]['message']}")
        return answer["data"]

    def launch_backfill(self, months: Sequence[Month], dataset: Dataset = ERA5) -> str:
        """Launch a backfill of the data set's three assets for these months; return its id."""
        parameters = {
            "assetSelection": [{"path": [dataset.schema, stage]} for stage in STAGES],
            "partitionNames": [month.key for month in months],
        }
        launched = self.ask(_LAUNCH, parameters=parameters)["launchPartitionBackfill"]
        if launched["__typename"] != "LaunchBackfillSuccess":
            raise CannotRunError(f"the backfill was not launched: {launched.get('message', launched['__typename'])}")
        return str(launched["backfillId"])

    def status(self, backfill: str) -> str:
        """The backfill's status, such as REQUESTED or COMPLETED_SUCCESS."""
        found = self.ask(_STATUS, backfill=backfill)["partitionBackfillOrError"]
        return str(found["status"])

    def runs(self, backfill: str) -> list[BackfillRun]:
        """All runs of the backfill, the newest first."""
        runs: list[BackfillRun] = []
        chosen = {"tags": [{"key": "dagster/backfill", "value": backfill}]}
        while len(runs) % _PAGE == 0:
            cursor = runs[-1].run_id if runs else None
            page = self.ask(_RUNS, filter=chosen, cursor=cursor, limit=_PAGE)["runsOrError"]["results"]
            if not page:
                break
            for run in page:
                tags = {tag["key"]: tag["value"] for tag in run["tags"]}
                month = tags.get("dagster/partition", "")
                runs.append(BackfillRun(run["runId"], month, run["status"], run["startTime"], run["endTime"]))
        return runs


KINDS = ("daemon", "webserver", "code server", "runs", "storage", "era5 up")


def _seconds_by_kind(system: RunningSystem) -> dict[str, float]:
    """User and system seconds so far, by kind; for the storage only if its postmaster is on this machine.

    A process that has ended counts for its parent, so that nothing is lost: the time of a service's children counts as
    that of runs.
    """
    from era5_pipeline.defs.instance.services import DAEMON  # imports Dagster: half a second

    # Words in a command line, by kind; the first match counts. Without a match, it is `era5 up` itself.
    kinds = {
        "runs": ("multiprocessing.spawn", "multiprocessing.forkserver"),
        "webserver": ("defs.instance.web_server",),
        "daemon": (DAEMON,),
        "code server": ("code-server", "code_server", "api grpc"),
    }
    seconds = dict.fromkeys(KINDS, 0.0)
    for pid, times, words in processor_times(system.pid):
        kind = next((kind for kind, signs in kinds.items() if any(sign in words for sign in signs)), "era5 up")
        seconds[kind] += times.user + times.system
        seconds["era5 up" if pid == system.pid else "runs"] += times.children_user + times.children_system
    if system.postmaster is not None:
        seconds["storage"] = sum(sum(times[:4]) for _, times, _ in processor_times(system.postmaster))
    return seconds


_READY = "Press Ctrl-C"


@dataclass(frozen=True)
class RunningSystem:
    """The process ids of `era5 up` and its embedded server (None: the server is the user's), and its web UI."""

    pid: int
    postmaster: int | None
    web: WebApi


@contextmanager
def running_system(home: Path, env: Mapping[str, str]) -> Iterator[RunningSystem]:
    """Run `era5 up` with ERA5_HOME=`home` and the settings `env`, and none of the user's."""
    port, pid_file = free_port(), EmbeddedServer(home).data_folder / "postmaster.pid"
    with service_process(("up", "--port", str(port)), home, env, _READY) as (pid, _):
        postmaster = None if "ERA5_DATABASE_URL" in env else first_number(pid_file)
        yield RunningSystem(pid, postmaster, WebApi(f"http://127.0.0.1:{port}"))


# --- The cost of Dagster: a backfill of tiny months through the daemon and its queue, one run per month ---


# 2 x 2 points.
_AREA = "-6/106/-6.25/106.25"
_DONE = {"COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED"}
_POLL_SECONDS = 2.0
_IDLE_SECONDS = 20.0
# Enough for a backfill that waits for its daemon twice, plus 10 s per month.
_LIMIT_SECONDS, _LIMIT_PER_MONTH = 300.0, 10.0


def _orchestration_cells(context: BenchContext) -> list[PlannedCell]:
    """One cell; on the user's server, or an embedded one of its own."""
    options = context.options

    def measure() -> Measured:
        url = None if options.url is None else context.target.warehouse.url
        folder = fresh_folder(context.folder / "backfill")
        figures = _run(folder / "home", url, options.months, options.failing)
        return Measured(0, {"seconds": figures["seconds_in_all"]} | figures)

    name = f"backfill of {options.months} months"
    return planned({name: measure}, 0, months=options.months, failing=options.failing)


def _run(home: Path, database_url: str | None, months: int, failing: int) -> Numbers:
    """Backfill the last `months` months until 2024-12.

    `failing` of them fail at first, because something is in the place of their manifest, and are run again once it is
    gone. The warehouse is a new embedded server in `home`, or the database of `database_url`.
    """
    wanted = list(last_months(months))
    env = {"ERA5_SOURCE": "sample", "ERA5_AREA": _AREA}
    if database_url is not None:
        env["ERA5_DATABASE_URL"] = database_url
    broken = wanted[1 :: max(1, len(wanted) // max(1, failing))][:failing]
    obstacles = [home / "raw" / f"{month}.json" for month in broken]
    for obstacle in obstacles:
        (obstacle / "in the way").mkdir(parents=True)
    with running_system(home, env) as system:
        idle = _used(system, lambda: time.sleep(_IDLE_SECONDS))
        figures = _backfill(system, wanted, broken)
        if broken:
            for obstacle in obstacles:
                shutil.rmtree(obstacle)
            figures["rerun_seconds"] = _backfill(system, broken, [])["seconds_in_all"]
        with Warehouse(database_url or EmbeddedServer(home).url("era5")).connect() as connection:
            held = [entry.month for entry in read_ledger(connection)]
        if held != wanted:
            raise CannotRunError(f"{len(held)} months are in the table, of {months}")
    minutes = _IDLE_SECONDS / 60
    return figures | {
        f"idle_processor_seconds_per_minute, {kind}": round(used / minutes, 2) for kind, used in idle.items()
    }


def _backfill(system: RunningSystem, months: Sequence[Month], failing: Sequence[Month]) -> Numbers:
    """Launch a backfill, wait for its end, and require that these months failed; return its figures."""
    launched = time.time()
    backfill = system.web.launch_backfill(months)

    def wait() -> None:
        limit = launched + _LIMIT_SECONDS + _LIMIT_PER_MONTH * len(months)
        while (status := system.web.status(backfill)) not in _DONE:
            if time.time() > limit:
                raise CannotRunError(f"the backfill is {status} after {time.time() - launched:.0f} s")
            time.sleep(_POLL_SECONDS)

    used = _used(system, wait)
    seconds, runs = time.time() - launched, system.web.runs(backfill)
    wanted = {month.key: "FAILURE" if month in failing else "SUCCESS" for month in months}
    found = {run.month: run.status for run in runs}
    if found != wanted or len(runs) != len(months):
        wrong = {key: found.get(key) for key in wanted if found.get(key) != wanted[key]}
        raise CannotRunError(f"{len(runs)} runs for {len(months)} months; not as expected: {json.dumps(wrong)[:500]}")
    return _figures(runs, launched, seconds, used)


def _used(system: RunningSystem, work: Callable[[], None]) -> dict[str, float]:
    before = _seconds_by_kind(system)
    work()
    after = _seconds_by_kind(system)
    return {kind: after[kind] - before[kind] for kind in KINDS}


def _figures(runs: Sequence[BackfillRun], launched: float, seconds: float, used: Mapping[str, float]) -> Numbers:
    started, ended = sorted(run.started or 0.0 for run in runs), sorted(run.ended or 0.0 for run in runs)
    months = len(runs)
    figures = {
        "seconds_per_month": round((ended[-1] - started[0]) / months, 3),
        "seconds_before_first_run": round(started[0] - launched, 1),
        "seconds_in_all": round(seconds, 1),
        "median_run_seconds": round(median_high((run.ended or 0.0) - (run.started or 0.0) for run in runs), 2),
    }
    if months >= 8:
        ends = [started[0], *(ended[months * quarter // 4 - 1] for quarter in (1, 2, 3, 4))]
        for quarter, (first, last) in enumerate(pairwise(ends), 1):
            figures[f"seconds_per_month_by_quarter, {quarter}"] = round((last - first) * 4 / months, 3)
    for kind, of in {**used, "all": sum(used.values())}.items():
        figures[f"processor_seconds_per_month, {kind}"] = round(of / months, 3)
    return figures | {"load_average": round(os.getloadavg()[0], 2)}


ORCHESTRATION = Suite(
    name="orchestration",
    summary="tiny months through daemon and queue",
    load="24 months of four places (`--months`)",
    plan=_orchestration_cells,
    rows=0,
    repeats=1,
    # The months are tiny, but each run leaves its log.
    bytes=lambda context: 200_000_000 + context.options.months * 1_000_000,
)
