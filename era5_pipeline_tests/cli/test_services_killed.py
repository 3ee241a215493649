"""A backfill in the middle of which a service of `era5 up` is killed with SIGKILL: it is started again, all go on."""

from __future__ import annotations

import os
import signal
import subprocess

import psycopg
import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.postgres.embedded.processes import first_number
from era5_pipeline_tests.backfills import (
    SERVICES,
    Backfill,
    RunningUp,
    begun_backfill,
    kill,
    kill_service,
    locked,
    runs_here,
    service_pids,
    wait_until,
    waiting_load,
)
from era5_pipeline_tests.commands import BIN, ROOT, ended, environment

RUNS = "query ($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs { results { runId } } } }"
STATUS = "query ($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"
FAILED = {"runOrError": {"status": "FAILURE"}}


@pytest.mark.parametrize(("service", "year"), [("code-server", 2001), ("defs.instance.web_server", 2002)])
def test_service_is_killed(up: RunningUp, backfills: list[Backfill], service: str, year: int) -> None:
    with begun_backfill(up, f"{year}-01", f"{year}-06") as backfill:
        backfills.append(backfill)
        kill_service(up, service)
    backfill.wait_until_loaded()
    assert backfill.materialized("raw") == [month.key for month in backfill.months]
    assert len(backfill.runs()) == len(backfill.months)


def test_run_and_code_server_are_killed_together(up: RunningUp, backfills: list[Backfill]) -> None:
    """The run's launcher is gone when its process ends; the supervisor lives."""
    with locked(up.home, Month(2005, 4)):
        backfill = Backfill(up, "2005-01", "2005-04")
        backfills.append(backfill)
        wait_until("the load of the newest month waits", lambda: waiting_load(up.home))
        assert runs_here(up.home)
        (code_server,) = service_pids(up.home, SERVICES["code server"])
        for pid in runs_here(up.home):
            os.kill(pid, signal.SIGKILL)
        kill(up, "code server")
        wait_until(
            "the code server is started again",
            lambda: set(service_pids(up.home, SERVICES["code server"])) - {code_server},
        )
    backfill.wait_until_loaded()
    # Finished work of the killed runs is not repeated.
    assert backfill.materialized("raw").count(backfill.months[-1].key) == 1
    wait_until("no run is left", lambda: runs_here(up.home) == [], 60)


def test_postgresql_is_killed(up: RunningUp, backfills: list[Backfill]) -> None:
    server = up.home.server
    # The server that holds the lock of the context is the one that is killed.
    with pytest.raises(psycopg.OperationalError), begun_backfill(up, "2003-01", "2003-06") as backfill:  # noqa: PT012
        backfills.append(backfill)
        postmaster = first_number(server.data_folder / "postmaster.pid")
        assert postmaster
        at_once = len(runs_here(up.home))
        os.kill(postmaster, signal.SIGKILL)
        wait_until("PostgreSQL is started again", server.is_running)
        raise psycopg.OperationalError
    backfill.wait_until_loaded()
    found = backfill.materialized("raw")
    assert sorted(set(found)) == [month.key for month in backfill.months]
    # A run that lost its server after it had recorded this, but not yet the end of the step, is repeated as a whole.
    assert len(found) <= len(backfill.months) + at_once, found


def test_dg_launch_is_killed(up: RunningUp) -> None:
    """It runs past the queue, in a process that nobody watches; nor is it started again, for nobody else began it."""
    month = Month(2004, 1)
    with locked(up.home, month):
        command = [str(BIN / "dg"), "launch", "--assets", "group:era5", "--partition", month.key]
        env = environment(up.home.path, DAGSTER_HOME=str(up.home.path / "dagster"), **up.env)
        with (up.home.path / "launch.log").open("w") as log:
            process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=log, stderr=log)
            wait_until("its load waits", lambda: waiting_load(up.home))
            process.kill()
            process.wait()
    (run,) = up.web.ask(RUNS, filter={"tags": [{"key": "era5/month", "value": str(month)}]})["runsOrError"]["results"]
    wait_until("the run is marked as failed", lambda: up.web.ask(STATUS, run=run["runId"]) == FAILED)
    printed = ended(up.home.start("load", "--failed", "--json", **up.env))
    assert printed.code == 0, printed
    assert [(result["month"], result["state"]) for result in printed.json()] == [(str(month), "loaded")], printed


def test_every_backfill_is_complete(backfills: list[Backfill]) -> None:
    assert backfills
    for backfill in backfills:
        wait_until("the backfill is complete", backfill.is_complete)
