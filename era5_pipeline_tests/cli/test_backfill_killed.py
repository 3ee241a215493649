"""A backfill in the middle of which a run, the daemon, or `era5 up` itself is killed with SIGKILL: it ends complete.

Those of the other services are in `test_services_killed`, so that two workers share the time.
"""

from __future__ import annotations

import os
import signal

from era5_pipeline.model.months import Month
from era5_pipeline_tests.backfills import (
    Backfill,
    RunningUp,
    begun_backfill,
    kill_service,
    locked,
    runs_here,
    wait_until,
    waiting_load,
)


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
    with begun_backfill(up, "2002-01", "2002-06") as backfill:
        backfills.append(backfill)
        kill_service(up, "dagster._daemon")
    backfill.wait_until_loaded()
    assert backfill.materialized("raw") == [month.key for month in backfill.months]
    assert len(backfill.runs()) == len(backfill.months)


def test_era5_up_is_killed_and_started_again(up: RunningUp, backfills: list[Backfill]) -> None:
    with begun_backfill(up, "2003-01", "2003-06") as backfill:
        backfills.append(backfill)
        up.kill()
    up.start()
    backfill.wait_until_loaded()
    assert backfill.materialized("raw") == [month.key for month in backfill.months]


def test_every_backfill_is_complete(backfills: list[Backfill]) -> None:
    assert backfills
    for backfill in backfills:
        wait_until("the backfill is complete", backfill.is_complete)
