"""A backfill in which a run, the daemon, `era5 up` or everything at once is killed with SIGKILL: it ends complete.

It fills the warehouse and a lake on S3, which hold the same in the end. Those of the other services are in
`test_services_killed`, so that two workers share the time.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from benchmarks.engines import QUESTIONS, Duckdb, Engine, Polars, PyArrow, Subject
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline_tests.backfills import (
    SERVICES,
    Backfill,
    RunningUp,
    begun_backfill,
    kill,
    kill_service,
    locked,
    running_up,
    runs_here,
    wait_until,
    waiting_load,
)
from era5_pipeline_tests.commands import new_home
from era5_pipeline_tests.lake.test_engines import assert_same
from era5_pipeline_tests.lake.test_months import lake_at
from era5_pipeline_tests.stores import KEY, SECRET, aws_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.stores import S3Server


@pytest.fixture(scope="module")
def up(s3_server: S3Server) -> Iterator[RunningUp]:
    """`era5 up` with a lake on S3."""
    bucket = {
        "ERA5_LAKE": f"s3://{s3_server.bucket()}/lake",
        "AWS_ENDPOINT_URL": s3_server.url,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with new_home() as home, running_up(home, **bucket) as up:
        yield up


def test_run_is_killed(up: RunningUp, backfills: list[Backfill]) -> None:
    with locked(up.home, Month(2001, 4)):
        backfill = Backfill(up, "2001-01", "2001-04")
        backfills.append(backfill)
        wait_until("the load of the newest month waits", lambda: waiting_load(up.home))
        killed = runs_here(up.home)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        wait_until("the run is marked as failed", lambda: "FAILURE" in {run.status for run in backfill.runs()}, 60)
    backfill.wait_until_loaded()
    # Raw files and rows that were finished, as those of the month whose load waited, are not made again by the run that
    # takes the place of the killed one. Runs of other months may have been killed in the middle of these stages.
    newest = backfill.months[-1].key
    for asset in ("raw", "flat"):
        found = backfill.materialized(asset)
        assert found.count(newest) == 1
        assert set(found) == {month.key for month in backfill.months}


def test_daemon_is_killed(up: RunningUp, backfills: list[Backfill]) -> None:
    with begun_backfill(up, "2002-01", "2002-09") as backfill:
        backfills.append(backfill)
        kill_service(up, SERVICES["daemon"])
    backfill.wait_until_loaded()
    assert backfill.materialized("raw") == [month.key for month in backfill.months]
    # A run that the daemon was just starting is killed with it, and another takes its place; no other run is repeated.
    ended = [(run.month, run.status) for run in backfill.runs()]
    assert sorted(month for month, status in ended if status == "SUCCESS") == [month.key for month in backfill.months]
    assert len(ended) <= len(backfill.months) + 1, ended


def test_era5_up_is_killed_and_started_again(up: RunningUp, backfills: list[Backfill]) -> None:
    with begun_backfill(up, "2003-01", "2003-06") as backfill:
        backfills.append(backfill)
        up.kill()
    up.start()
    backfill.wait_until_loaded()
    assert backfill.materialized("raw") == [month.key for month in backfill.months]


def test_everything_is_killed_at_once_and_started_again(up: RunningUp, backfills: list[Backfill]) -> None:
    """As when the power fails: a month is loaded, another in the middle of its load, others are queued.

    So are those of a backfill of ERA5-Land, which ends beside it.
    """
    # The lock is gone with the server that is killed. One alone: two waiting loads would take both places of the pool
    # `warehouse`, and on a slow machine they start before the daemon has submitted the newest month.
    with suppress(psycopg.OperationalError), locked(up.home, Month(2004, 4)):
        backfill, of_land = Backfill(up, "2004-01", "2004-06"), Backfill(up, "2004-01", "2004-02", ERA5_LAND)
        backfills.append(backfill)
        wait_until("the load of a month waits", lambda: waiting_load(up.home))
        wait_until("another month is loaded", backfill.loaded)
        assert runs_here(up.home)
        assert len(backfill.loaded()) < len(backfill.months)
        kill(up, "all")
    up.process.communicate()

    def nothing_is_left() -> bool:
        for victim in (*SERVICES, "run"):  # on a busy machine, one may have been starting when the others were killed
            kill(up, victim)
        return up.home.processes() == []

    wait_until("nothing is left", nothing_is_left, 60)
    up.start()
    backfill.wait_until_loaded()
    of_land.wait_until_loaded()
    wait_until("that of ERA5-Land is complete", of_land.is_complete)
    verified = up.home.run("lake", "verify", "--dataset", "era5-land", "--json", code=0, **up.env).json()
    assert [(month["month"], month["differences"]) for month in verified] == [("2004-01", []), ("2004-02", [])]
    found = up.home.months()
    for month in backfill.months:
        entry = found[str(month)]
        assert (entry["state"], entry["rows"], entry["last_attempt"]["outcome"]) == (
            "loaded",
            month.hours * 9,
            "loaded",
        )
    wait_until("no run is left", lambda: runs_here(up.home) == [], 60)


def test_every_backfill_is_complete(backfills: list[Backfill]) -> None:
    assert backfills
    for backfill in backfills:
        wait_until("the backfill is complete", backfill.is_complete)


def test_the_lake_holds_what_the_warehouse_holds(up: RunningUp, backfills: list[Backfill]) -> None:
    months = sum(len(backfill.months) for backfill in backfills)
    verified = up.home.run("lake", "verify", "--json", code=0, **up.env).json()
    assert len(verified) == months
    assert [month for month in verified if month["differences"]] == []
    for backfill in backfills:
        assert set(backfill.materialized("lake")) == {month.key for month in backfill.months}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("engine", [Duckdb, Polars, PyArrow])
def test_engines_answer_from_the_lake_as_the_warehouse_does(
    up: RunningUp, backfills: list[Backfill], s3_server: S3Server, engine: type[Engine], question: str
) -> None:
    warehouse = Warehouse(up.home.server.url("era5"))
    with warehouse.connect() as connection:
        found = connection.execute("SELECT min(location_id), count(DISTINCT location_id), count(*) FROM weather")
        ((place, places, rows),) = found.fetchall()
    hours = sum(month.hours for backfill in backfills for month in backfill.months)
    assert rows == places * hours
    with aws_environment(s3_server.url):
        lake = lake_at(up.env["ERA5_LAKE"], up.home.path / "lake")
        answer = assert_same(engine, Subject(warehouse, lake, place, backfills[-1].months[0]), question)
    assert len(answer) == {"place_hours": hours, "month_mean": 1, "trends": places}[question]
