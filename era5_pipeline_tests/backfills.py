"""Backfills of tiny months through a real `era5 up`, whose processes are found and killed by id."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil as _psutil
import psycopg
import pytest
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._grpc.client import DagsterGrpcClient

from benchmarks.cells import CannotRunError
from benchmarks.orchestration import STAGES, BackfillRun, WebApi
from era5_pipeline.defs.instance.run_launcher import run_processes
from era5_pipeline.model.dataset import DATASETS, ERA5
from era5_pipeline.model.grid import Area
from era5_pipeline.model.land_mask import points_of
from era5_pipeline.model.months import Month, months_between
from era5_pipeline.postgres.embedded.processes import first_number
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline_tests.commands import CommandResult, Home, ended
from era5_pipeline_tests.pipelines import SMALL
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset

psutil: Any = _psutil  # it comes without types

# Generous: the daemon looks at backfills every 30 s, and other tests run at the same time.
SECONDS = 240.0
# The services of `era5 up`, by words of their command lines.
SERVICES = {"daemon": "instance.daemon", "code server": "code-server", "web": "defs.instance.web_server"}
VICTIMS = ("supervisor", *SERVICES, "run", "postmaster", "all")
_CODE = """
{
  assetNodes { assetKey { path } }
  workspaceOrError {
    ... on Workspace { locationEntries { locationOrLoadError { ... on RepositoryLocation { serverId } } } }
  }
}
"""
MATERIALIZATIONS = """
query ($path: [String!]!, $partitions: [String!]) {
  assetNodeOrError(assetKey: {path: $path}) {
    ... on AssetNode { assetMaterializations(partitions: $partitions, limit: 100) { runId partition } }
  }
}
"""


def wait_until(what: str, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Wait until the condition returns something true, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.5)
    return found


class RunningUp:
    """`era5 up` in a home, which can be killed and started again; `web` is the API of its web UI."""

    def __init__(self, home: Home, **env: str) -> None:
        self.home = home
        self.env = {"ERA5_SOURCE": SMALL["source"], "ERA5_AREA": SMALL["area"], **env}
        self.start()

    def start(self) -> None:
        port = free_port()
        self.process = self.home.start("up", "--port", str(port), **self.env)
        assert self.process.stdout
        if not any(line.startswith("Press Ctrl-C") for line in self.process.stdout):
            pytest.fail(f"era5 up did not start: {ended(self.process)}")
        self.web = WebApi(f"http://127.0.0.1:{port}")

    def serves(self) -> bool:
        """Whether the web UI answers with the assets of the code server that runs now.

        After one was killed, it shows that one's assets for some seconds, then none until it has read the next.
        """
        with suppress(CannotRunError, DagsterUserCodeUnreachableError):
            known = self.web.ask(_CODE)
            (location,) = known["workspaceOrError"]["locationEntries"]
            found = {tuple(node["assetKey"]["path"]) for node in known["assetNodes"]}
            assets = {(dataset.schema, stage) for dataset in DATASETS.values() for stage in STAGES}
            return assets <= found and location["locationOrLoadError"].get("serverId") == self._code_server()
        return False

    def _code_server(self) -> str | None:
        """The id that the code server has given itself, if one runs."""
        for pid in service_pids(self.home, SERVICES["code server"]):
            with suppress(psutil.NoSuchProcess):
                words = psutil.Process(pid).cmdline()
                return str(DagsterGrpcClient(socket=words[words.index("--socket") + 1]).get_server_id())
        return None

    def kill(self) -> None:
        """Kill `era5 up` itself, and wait for its services, which then end by themselves."""
        self.process.kill()
        self.process.communicate()
        self.wait_until_services_end()

    def wait_until_services_end(self) -> None:
        """Wait until none of the services is left."""
        wait_until("the services end", lambda: not any(service_pids(self.home, words) for words in SERVICES.values()))

    def stop(self) -> CommandResult:
        """Press Ctrl-C; return what it printed after the start."""
        self.process.send_signal(signal.SIGINT)
        return ended(self.process, 240)


@contextmanager
def running_up(home: Home, **env: str) -> Iterator[RunningUp]:
    """Run `era5 up`; at the end it stops as it should, and leaves no process."""
    up = RunningUp(home, **env)
    try:
        yield up
    except BaseException:
        up.stop()
        raise
    printed = up.stop()
    assert (printed.code, printed.out) == (0, "stopped\n"), printed
    left = home.processes()
    assert left == [], left


class Backfill:
    """A backfill of these months of a data set, launched as the web UI does."""

    def __init__(self, up: RunningUp, first: str, last: str, dataset: Dataset = ERA5) -> None:
        self.months = months_between(first, last)
        self.dataset = dataset
        self._up = up
        self._home = up.home
        self.id = up.web.launch_backfill(self.months, dataset)

    def runs(self) -> list[BackfillRun]:
        """All runs so far, the newest first."""
        return self._up.web.runs(self.id)

    def status(self) -> str:
        """Such as REQUESTED or COMPLETED_SUCCESS."""
        return self._up.web.status(self.id)

    def loaded(self) -> list[Month]:
        """The months of the backfill that are in the ledger."""
        first, last = self.months[0], self.months[-1]
        query = f"SELECT DISTINCT month FROM {self.dataset.schema}.ledger WHERE month BETWEEN %s AND %s"
        with psycopg.connect(self._home.server.url("era5")) as connection:
            try:
                rows = connection.execute(query.encode(), (first.start.date(), last.start.date())).fetchall()
            except psycopg.errors.UndefinedTable:
                return []
        return [Month(month.year, month.month) for (month,) in rows]

    def is_complete(self) -> bool:
        """Whether the daemon has seen all of it succeed."""
        return self.status() == "COMPLETED_SUCCESS"

    def wait_until_loaded(self) -> None:
        """Wait until each month is in the table once."""
        wait_until("all months are loaded", lambda: self._reachable() and len(self.loaded()) == len(self.months))
        wait_until("the web UI serves the assets", self._up.serves)
        wait_until("the last run of each month succeeded", self._has_succeeded)
        points = len(points_of(self.dataset, Area.parse(SMALL["area"], self.dataset.grid)))
        with psycopg.connect(self._home.server.url("era5")) as connection:
            for month in self.months:
                query = (
                    f"SELECT count(*), count(DISTINCT (location_id, time)) FROM {self.dataset.table} "
                    "WHERE time >= %s AND time < %s"
                )
                found = connection.execute(query.encode(), (month.start, month.end)).fetchone()
                assert found == (month.hours * points,) * 2

    def materialized(self, asset: str) -> list[str]:
        """The months, with repetitions, that the asset was materialized for, by partition key."""
        keys = [month.key for month in self.months]
        found = self._up.web.ask(MATERIALIZATIONS, path=[self.dataset.schema, asset], partitions=keys)
        return sorted(entry["partition"] for entry in found["assetNodeOrError"]["assetMaterializations"])

    def _reachable(self) -> bool:
        return self._home.server.is_running()

    def _has_succeeded(self) -> bool:
        """Whether the last run of each month succeeded, or was killed when nothing of the month was left to do."""
        latest = {run.month: run.status for run in reversed(self.runs())}
        loaded = self.materialized("weather")
        return {month.key for month in self.months} == {
            month
            for month, status in latest.items()
            if status == "SUCCESS" or (status == "FAILURE" and month in loaded)
        }


@contextmanager
def locked(home: Home, month: Month) -> Iterator[None]:
    """Keep the month from being loaded, and so the backfill from ending."""
    with psycopg.connect(home.server.url("era5"), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s, %s)", (ERA5.lock_class, month.number))
        yield  # the server releases it with the connection, also when it is killed itself


def waiting_load(home: Home) -> bool:
    """Whether a load waits for a locked month."""
    return bool(home.ask("era5", "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


def service_pids(home: Home, words: str) -> list[int]:
    """Ids of the processes of `era5 up` in this home whose command line has these words."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if words in line and str(home.path) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def kill_service(up: RunningUp, words: str) -> None:
    """Kill a service, with what it started itself except runs, and wait until another one runs."""
    (pid,) = service_pids(up.home, words)
    os.killpg(pid, signal.SIGKILL)
    wait_until(f"{words} is started again", lambda: [new for new in service_pids(up.home, words) if new != pid])


def kill(up: RunningUp, victim: str) -> None:
    """Kill one of `VICTIMS`, if it runs; of `all` each by its id, in so short a time that none can start another."""
    home = up.home
    groups = [
        os.getpgid(pid)
        for name, words in SERVICES.items()
        if victim in (name, "all")
        for pid in service_pids(home, words)
    ]
    single = runs_here(home)[: None if victim == "all" else 1] if victim in ("run", "all") else []
    if victim in ("postmaster", "all") and (postmaster := first_number(home.server.data_folder / "postmaster.pid")):
        single.append(postmaster)
    if victim in ("supervisor", "all"):
        up.process.kill()
    for send, ids in ((os.killpg, groups), (os.kill, single)):
        for number in ids:
            with suppress(ProcessLookupError):
                send(number, signal.SIGKILL)


def runs_here(home: Home) -> list[int]:
    """Ids of the processes of runs."""
    return [process.pid for process in run_processes(home.path / "dagster")]


@contextmanager
def begun_backfill(up: RunningUp, first: str, last: str) -> Iterator[Backfill]:
    """Launch a backfill; in the context some of its months are loaded, and the oldest waits for a lock.

    So the backfill cannot end before the context does, however fast the machine is.
    """
    months = months_between(first, last)
    with locked(up.home, months[0]):
        backfill = Backfill(up, first, last)
        wait_until("a month of the backfill is loaded", backfill.loaded)
        assert len(backfill.loaded()) < len(months)
        yield backfill


def sample_files(folder: Path, first: str, last: str) -> list[Path]:
    """Generate these months as files of a user, one a month."""
    folder.mkdir(parents=True, exist_ok=True)
    source = SampleSource(folder, Request(area=Area.parse(SMALL["area"])))
    return [source.fetch(month).files[0].path for month in months_between(first, last)]


@contextmanager
def damaged(file: Path) -> Iterator[None]:
    """Cut the file to half of its length in this context."""
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    try:
        yield
    finally:
        file.write_bytes(whole)
