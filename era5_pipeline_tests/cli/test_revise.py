"""Months of the Climate Data Store through `era5 load` and `era5 revise`: skipped, refused, preliminary, revised."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pyiceberg.table import StaticTable

from era5_pipeline.model.errors import MonthFailedError, SourceError
from era5_pipeline.model.months import Month
from era5_pipeline_tests.cli.conftest import NOW
from era5_pipeline_tests.commands import Home, InProcess, ended
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.cds_store import CdsServer

NEWEST = Month.from_number(Month.of(NOW - timedelta(days=6)).number - 1)


@pytest.fixture
def env(env: dict[str, str]) -> dict[str, str]:
    return {**env, "ERA5_AREA": "-6/106/-6.5/106.5"}


def test_preliminary_month_is_revised_once_it_is_final(
    server: CdsServer, era5: InProcess, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "lake").mkdir()
    era5.set(ERA5_LAKE=str(tmp_path / "lake"))
    server.final_until = NEWEST.start - timedelta(hours=1)
    nothing = era5.run("revise", "--after-months", "0").out
    assert "no month with preliminary hours" in nothing

    era5.run("load", "--from", str(NEWEST))
    assert f"{NEWEST}: sent as request" in caplog.text
    entry = era5.months()[str(NEWEST)]
    assert (entry["version"], entry["source"]) == ("mixed", "cds")  # rain of the first seven hours is final
    assert f"1 month mixed ({NEWEST}: from {NEWEST}-01T00)" in era5.run("status").out
    assert era5.run("load", "--from", str(NEWEST)).out.count("unchanged") == 1

    dry = era5.run("revise", "--after-months", "0", "--dry-run").out
    assert dry == f"{NEWEST} holds preliminary hours\n"
    submissions = len(server.submissions)
    (done,) = era5.run("revise", "--after-months", "0", "--json").json()
    assert done["state"] == "loaded"
    assert len(server.submissions) == submissions + 1

    server.final_until = NEWEST.end
    printed = era5.run("revise", "--after-months", "0").out
    assert f"replaced {NEWEST.hours * 9:,} rows" in printed
    assert "what differs: temperature_2m" in printed
    entry = era5.months()[str(NEWEST)]
    assert entry["version"] == "final"
    (part,) = entry["parts"]
    assert part["preliminary_hours"] == {}
    assert part["revision"]["columns_changed"] == ["temperature_2m"]
    assert f"final (revised {datetime.now(tz=UTC):%Y-%m-%d})" in era5.run("status").out
    assert "no month with preliminary hours" in era5.run("revise", "--after-months", "0").out

    # The lake has both versions: the final one, and what it replaced.
    assert "are equal" in era5.run("lake", "verify").out
    snapshots = era5.run("lake", "snapshots", "--json").json()
    assert [snapshots[0]["version"], snapshots[-1]["version"]] == ["mixed", "final"]
    assert {(one["month"], one["source"], one["rows"]) for one in snapshots} == {(str(NEWEST), "cds", NEWEST.hours * 9)}
    table = StaticTable.from_metadata(era5.run("lake", "path").out.strip())
    first, last = (table.scan(snapshot_id=snapshots[at]["snapshot_id"]).to_arrow() for at in (0, -1))
    order = [("location_id", "ascending"), ("time", "ascending")]
    assert first.sort_by(order).drop(["temperature_2m"]).equals(last.sort_by(order).drop(["temperature_2m"]))
    assert not first.sort_by(order).equals(last.sort_by(order))


def test_loaded_month_is_not_requested_again_without_its_files(
    cds_home: Home, server: CdsServer, era5: InProcess
) -> None:
    era5.run("load", "--from", "2020-02")
    shutil.rmtree(cds_home.path / "raw")
    assert era5.run("load", "--from", "2020-02").out.count("unchanged") == 1
    assert len(server.submissions) == 1
    # A smaller area is in the table already, another one is not.
    assert era5.run("load", "--from", "2020-02", "--area", "-6/106/-6/106").out.count("unchanged") == 1
    assert len(server.submissions) == 1
    assert "kept 9 other places" in era5.run("load", "--from", "2020-02", "--area", "-5/100/-5/100").out
    assert len(server.submissions) == 2


def test_revision_with_equal_values_replaces_nothing(server: CdsServer, era5: InProcess) -> None:
    before = Month.from_number(NEWEST.number - 1)
    server.preliminary_differs = False
    server.final_until = before.start - timedelta(hours=1)
    era5.run("load", "--from", str(before))
    server.final_until = before.end
    printed = era5.run("revise", "--after-months", "0").out
    assert "same values as in the table: the month is final now, nothing was replaced" in printed


def test_unavailable_month_is_skipped_without_an_error(
    server: CdsServer, era5: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    server.today = NOW - timedelta(days=45)
    current = Month.of(NOW)
    printed = era5.run("load", "--from", str(current))
    assert f"{current}  skipped" in printed.out
    assert f"{current} is not available yet: the latest hour there is" in printed.err
    assert "emitted no result" not in printed.err + caplog.text
    (done,) = era5.run("load", "--from", str(current), "--json").json()
    assert done["state"] == "skipped"
    assert done["errors"] == []


def test_refused_request_ends_the_command(server: CdsServer, era5: InProcess) -> None:
    server.faults.licence = True
    printed = era5.run("load", "--from", "2001-01", "--to", "2001-03", code=SourceError.exit_code)
    assert printed.err.count("the licence of ERA5 is not accepted yet") == 1
    assert "manage-licences" in printed.err
    assert "not tried: 2001-02 to 2001-03" in printed.err
    assert sum(method == "POST" for method, _, _ in server.requests) == 1


def test_next_month_is_requested_while_one_is_in_the_queue(server: CdsServer, era5: InProcess) -> None:
    """Two requests at a time, as in a backfill; only one until the service has delivered a month."""
    server.faults.accepted_polls = 3
    most = 0
    under_way = {"accepted", "running"}

    def look() -> None:
        nonlocal most
        while not over.is_set():
            most = max(most, sum(job.status in under_way for job in list(server.jobs.values())))
            time.sleep(0.001)

    over = threading.Event()
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        printed = era5.run("load", "--from", "2003-01", "--to", "2003-05")
    finally:
        over.set()
        watcher.join()
    assert printed.out.count("loaded") == 5
    # A quarter at once; of the next one not all months are wanted.
    assert [inputs["month"] for inputs in server.submissions] == [["01", "02", "03"], ["04"], ["05"]]
    assert most == 2


def test_load_continues_after_its_output_is_closed(cds_home: Home, env: dict[str, str], era5: InProcess) -> None:
    """Like `era5 load ... | head -1`."""
    with cds_home.start("load", "--from", "2004-01", "--to", "2004-02", **env) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("month")
        process.stdout.close()
        printed = process.stderr.read()
        assert process.wait(240) == 0, printed
    assert "Traceback" not in printed
    assert {"2004-01", "2004-02"} <= set(era5.months())


def test_failed_request_does_not_stop_other_months(server: CdsServer, era5: InProcess) -> None:
    server.faults.fail_jobs = 3 + 3  # of the three months at once, and of the first of them
    printed = era5.run("load", "--from", "2001-01", "--to", "2001-03", code=MonthFailedError.exit_code)
    assert "2001-01: gave up: the request failed at the service" in printed.err
    states = {line.split()[0]: line.split()[1] for line in printed.out.splitlines()[1:] if line.startswith("2001")}
    assert states == {"2001-01": "failed", "2001-02": "loaded", "2001-03": "loaded"}
    again = era5.run("load", "--from", "2001-01", "--to", "2001-03")
    assert "2001-01  loaded" in again.out


def test_command_stops_after_several_failed_months_in_a_row(server: CdsServer, era5: InProcess) -> None:
    server.faults.fail_jobs = 10_000
    printed = era5.run("load", "--from", "2002-01", "--to", "2002-12", code=MonthFailedError.exit_code)
    assert printed.out.count("failed") == 3
    assert "not tried: 2002-04 to 2002-12" in printed.err


def test_killed_load_continues_the_request_for_several_months(
    cds_home: Home, server: CdsServer, env: dict[str, str], era5: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.accepted_polls = 10_000
    months = ("load", "--from", "2005-01", "--to", "2005-03")
    process = cds_home.start(*months, **env)
    try:
        wait_until(lambda: any(method == "GET" and "/jobs/" in path for method, path, _ in server.requests))
    finally:
        process.kill()
    assert ended(process).code == -signal.SIGKILL
    server.finish_jobs()
    printed = era5.run(*months)
    assert printed.out.count("loaded") == 3
    assert "2005-01 to 2005-03: resuming request" in caplog.text
    assert [inputs["month"] for inputs in server.submissions] == [["01", "02", "03"]]


def test_months_that_failed_are_requested_together_again(server: CdsServer, era5: InProcess) -> None:
    server.faults.fail_jobs = 10_000
    era5.run("load", "--from", "2007-01", "--to", "2007-03", code=MonthFailedError.exit_code)
    server.faults.fail_jobs, seen = 0, len(server.submissions)
    assert era5.run("load", "--failed", "--from", "2007-01", "--to", "2007-03").out.count("loaded") == 3
    assert [inputs["month"] for inputs in server.submissions[seen:]] == [["01", "02", "03"]]
