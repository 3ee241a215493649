"""Alerts of real failed runs on a real instance, received by a real server."""

from __future__ import annotations

import json
import logging
import time
import traceback
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import time_machine

from era5_pipeline.definitions import defs
from era5_pipeline.defs import sensors
from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.defs.runner import record_dropped
from era5_pipeline.defs.sensors import AlertCursor, alert_on_failure
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.project_files import data_folder
from era5_pipeline_tests.local_http import SECRET, Receiver, new_receiver
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.defs.runner import MonthRun

UI = "https://era5.example.org/"
# A month of which seven days are there: a check refuses it.
REFUSED = {"source": "files", "files_dir": str(data_folder("era5/telangana-2023-09"))}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with new_receiver() as receiver:
        yield receiver


@dataclass
class Watched:
    """A pipeline whose failures are reported to `receiver`."""

    pipeline: Pipeline
    receiver: Receiver
    cursor: str | None = None
    later: float = field(default=0.0)

    def tick(self, *, after: float = 60.0) -> str:
        """Evaluate the sensor `after` seconds after the last time; return its messages."""
        self.later += after
        with time_machine.travel(datetime.now(tz=UTC) + timedelta(seconds=self.later)):
            resources = {"era5": Era5Resource()}
            with dg.build_sensor_context(
                instance=self.pipeline.instance, cursor=self.cursor, resources=resources
            ) as context:
                data = alert_on_failure.evaluate_tick(context)
        self.cursor = data.cursor
        assert not data.run_requests
        assert SECRET not in str(data)
        return str(data.skip_message)

    def lost_run(self, month: str, **tags: str) -> str:
        """Make a run whose process was lost, as the daemon reports it."""
        instance = self.pipeline.instance
        run = instance.create_run_for_job(
            defs.resolve_job_def(load_month.name), tags={"dagster/partition": f"{month}-01", **tags}
        )
        instance.handle_new_event(started(run))
        instance.report_run_failed(run, "The process of this run ended without recording a result.")
        return run.run_id


def started(run: dg.DagsterRun) -> dg.EventLogEntry:
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    entry: Any = dg.EventLogEntry  # it has no types
    made: dg.EventLogEntry = entry(
        error_info=None,
        level=logging.INFO,
        user_message="",
        run_id=run.run_id,
        timestamp=time.time(),
        job_name=run.job_name,
        dagster_event=event,
    )
    return made


@pytest.fixture
def watched(server_url: str, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    env = {"ERA5_ALERT_URL": receiver.url, "ERA5_UI_URL": UI}
    with new_pipeline(server_url, tmp_path_factory.mktemp("watched"), **env) as pipeline:
        yield Watched(pipeline, receiver)


def refused(watched: Watched) -> MonthRun:
    run = watched.pipeline.run("2023-09", **REFUSED)
    assert run.errors
    return run


def test_a_failed_month_is_reported_once(watched: Watched) -> None:
    assert not watched.pipeline.run("2020-02", **SMALL).errors
    assert watched.tick() == "no new failures"
    run = refused(watched)
    assert watched.tick(after=-60.0) == "no new failures"  # it is not settled: the tag of a retry may follow
    assert watched.tick() == "1 alerts delivered, 0 wait"
    assert watched.tick() == "no new failures"
    (body,) = watched.receiver.bodies
    (error,) = run.errors
    assert "2023-09 is incomplete: 168 of 720 hours" in error.message
    expected = {
        "month": "2023-09",
        "source": "files",
        "message": error.message,
        "remedy": error.remedy,
        "run_id": run.run_id,
        "url": f"https://era5.example.org/runs/{run.run_id}",
        "job": "load_month",
    }
    assert {name: body[name] for name in expected} == expected
    assert abs(datetime.fromisoformat(body["failed_at"]) - datetime.now(tz=UTC)) < timedelta(hours=1)
    assert body["text"].splitlines() == [
        "ERA5 2023-09 failed (source files)",
        *error.message.splitlines(),
        *error.remedy.splitlines(),
        f"run {run.run_id}",
        body["url"],
    ]


def test_a_receiver_that_is_down_gets_the_alert_later(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    refused(watched)
    watched.receiver.status = 503
    assert "the receiver answered with HTTP 503: 1 alerts wait, next try in 30 s" in watched.tick()
    assert "HTTP 503" in caplog.text
    # Not asked before it is time.
    assert "alerts are waiting: next try in" in watched.tick(after=5)
    assert watched.receiver.asked == 1
    assert "next try in 60 s" in watched.tick()
    refused(watched)
    assert "next try in 120 s" in watched.tick(after=100)
    assert watched.receiver.asked == 3
    watched.receiver.status = 200
    assert watched.tick(after=200) == "2 alerts delivered, 0 wait"
    assert len(watched.receiver.bodies) == 2
    assert SECRET not in caplog.text


def test_an_alert_is_given_up_after_some_hours_and_the_log_names_the_run(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    run = refused(watched)
    watched.receiver.status = 404
    said = [watched.tick(after=60 if number == 0 else 3700) for number in range(12)]
    assert "next try in 3600 s" in said[-2]
    assert "1 alerts were not delivered (the receiver answered with HTTP 404, 12 times)" in said[-1]
    assert f"runs: {run.run_id}" in caplog.text
    assert SECRET not in caplog.text
    # The sensor goes on: the next failure is reported.
    watched.receiver.status = 200
    assert watched.tick() == "no new failures"
    refused(watched)
    assert watched.tick() == "1 alerts delivered, 0 wait"


def test_a_run_that_dagster_retries_is_not_reported(watched: Watched) -> None:
    watched.lost_run("2020-02")
    assert watched.tick() == "no new failures"
    final = watched.lost_run("2020-03", **{"dagster/max_retries": "0"})
    assert watched.tick() == "1 alerts delivered, 0 wait"
    (body,) = watched.receiver.bodies
    assert (body["month"], body["run_id"]) == ("2020-03", final)
    assert body["message"] == "The process of this run ended without recording a result."
    assert "era5 load --from 2020-03" in body["remedy"]


def test_a_month_that_was_dropped_is_no_failure(watched: Watched) -> None:
    record_dropped(watched.pipeline.instance, [Month(2020, 2)])
    assert watched.tick() == "no new failures"
    # A run that is executed again from that one has its tags, and does fail.
    (dropped,) = watched.pipeline.instance.get_runs(limit=1)
    again = watched.pipeline.instance.create_run_for_job(
        defs.resolve_job_def(load_month.name),
        tags=dropped.tags,
        parent_run_id=dropped.run_id,
        root_run_id=dropped.run_id,
    )
    watched.pipeline.instance.report_run_failed(again, "its key is wrong")
    assert watched.tick() == "1 alerts delivered, 0 wait"


def test_many_failures_at_once_are_few_alerts(watched: Watched) -> None:
    months = [f"{year}-{month:02d}" for year in (1979, 1980) for month in range(1, 13)]
    runs = [watched.lost_run(month, **{"dagster/max_retries": "0"}) for month in months]
    assert watched.tick() == "24 alerts delivered, 0 wait"
    *single, summary = watched.receiver.bodies
    assert [body["month"] for body in single] == months[:5]
    assert summary["months"] == months[5:]
    assert sorted(summary["run_ids"]) == sorted(runs[5:])
    assert summary["text"].startswith("ERA5: 19 more runs failed (1979-06 to 1980-12). One of them:\n")


def test_failures_of_the_time_before_it_was_switched_on_are_not_reported(watched: Watched) -> None:
    refused(watched)
    assert watched.tick(after=3600) == "no new failures"


def test_without_a_url_nothing_is_reported(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(watched)
    monkeypatch.delenv("ERA5_ALERT_URL")
    assert watched.tick() == "ERA5_ALERT_URL is not set: failures are not reported"
    assert watched.receiver.asked == 0


def test_a_url_that_is_not_safe_fails_the_tick_without_showing_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERA5_ALERT_URL", f"http://hooks.example.org/{SECRET}")
    with pytest.raises(UsageError, match="plain http") as raised:
        watched.tick()
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_it_is_off_unless_the_url_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ERA5_ALERT_URL", raising=False)
    assert sensors._default_status() is dg.DefaultSensorStatus.STOPPED
    monkeypatch.setenv("ERA5_ALERT_URL", "https://hooks.example.org/a")
    assert sensors._default_status() is dg.DefaultSensorStatus.RUNNING
    monkeypatch.setenv("ERA5_WORKERS", "many")
    assert sensors._default_status() is dg.DefaultSensorStatus.STOPPED


@pytest.mark.parametrize("text", [None, "", "not ours", "[]", '{"other": 1}', "3"])
def test_a_cursor_that_is_not_ours_starts_over(text: str | None) -> None:
    assert AlertCursor.parse(text) == AlertCursor()


def test_a_cursor_is_read_back() -> None:
    cursor = AlertCursor(after=7, pending=["a", "b"], tries=2, again_at=3.5)
    assert AlertCursor.parse(str(cursor)) == cursor
    assert json.loads(str(cursor))["pending"] == ["a", "b"]
