"""Alerts of real failed runs on a real instance, received by a real server."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from era5_pipeline.definitions import defs
from era5_pipeline.defs import sensors
from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.defs.runner import job_origin, record_dropped
from era5_pipeline.defs.sensors import alert_on_failure
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

    def tick(self) -> list[str]:
        """Evaluate the sensor; return the errors of those of its failed runs that it could not report."""
        with dg.build_sensor_context(
            instance=self.pipeline.instance, cursor=self.cursor, resources={"era5": Era5Resource()}
        ) as context:
            data = alert_on_failure.evaluate_tick(context)
        self.cursor = data.cursor
        assert not data.run_requests
        assert SECRET not in str(data)
        return [str(one.error) for one in data.dagster_run_reactions or () if one.error is not None]

    def lost_run(self, month: str, **tags: str) -> str:
        """Make a run whose process was lost, as the daemon reports it."""
        instance = self.pipeline.instance
        run = instance.create_run_for_job(
            defs.resolve_job_def(load_month.name),
            tags={"dagster/partition": f"{month}-01", **tags},
            remote_job_origin=job_origin(instance),
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
        watched = Watched(pipeline, receiver)
        assert watched.tick() == []  # what failed before the first is history
        yield watched


def refused(watched: Watched) -> MonthRun:
    run = watched.pipeline.run("2023-09", **REFUSED)
    assert run.errors
    return run


def test_a_failed_month_is_reported_once(watched: Watched) -> None:
    assert not watched.pipeline.run("2020-02", **SMALL).errors
    assert watched.tick() == []
    assert watched.receiver.asked == 0
    run = refused(watched)
    assert watched.tick() == watched.tick() == []
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


def test_a_receiver_that_refuses_fails_the_tick_which_names_the_run(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    run = refused(watched)
    watched.receiver.status = 503
    (error,) = watched.tick()
    said = f"the receiver answered with HTTP 503: the failure of run {run.run_id} is not reported"
    assert said in error
    assert said in caplog.text
    assert SECRET not in caplog.text
    # The sensor goes on: the next failure is reported.
    watched.receiver.status = 200
    refused(watched)
    assert watched.tick() == []
    assert len(watched.receiver.bodies) == 1


def test_a_lost_run_that_is_repeated_is_not_reported(watched: Watched) -> None:
    watched.lost_run("2020-02")
    final = watched.lost_run("2020-03", **{"dagster/max_retries": "0"})
    assert watched.tick() == []
    (body,) = watched.receiver.bodies
    assert (body["month"], body["run_id"]) == ("2020-03", final)
    assert body["message"] == "The process of this run ended without recording a result."
    assert "era5 load --from 2020-03" in body["remedy"]


def test_a_month_that_was_dropped_is_no_failure(watched: Watched) -> None:
    record_dropped(watched.pipeline.instance, [Month(2020, 2)])
    assert watched.tick() == []
    assert watched.receiver.asked == 0
    # A run that is executed again from that one has its tags, and does fail.
    (dropped,) = watched.pipeline.instance.get_runs(limit=1)
    again = watched.pipeline.instance.create_run_for_job(
        defs.resolve_job_def(load_month.name),
        tags=dropped.tags,
        parent_run_id=dropped.run_id,
        root_run_id=dropped.run_id,
    )
    watched.pipeline.instance.report_run_failed(again, "its key is wrong")
    assert watched.tick() == []
    assert watched.receiver.asked == 1


def test_without_a_url_nothing_is_reported(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(watched)
    monkeypatch.delenv("ERA5_ALERT_URL")
    assert watched.tick() == []
    assert watched.receiver.asked == 0


def test_a_url_that_is_not_safe_fails_the_tick_without_showing_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(watched)
    monkeypatch.setenv("ERA5_ALERT_URL", f"http://hooks.example.org/{SECRET}")
    (error,) = watched.tick()
    assert "plain http" in error
    assert SECRET not in error


def test_it_is_off_unless_the_url_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ERA5_ALERT_URL", raising=False)
    assert sensors._default_status() is dg.DefaultSensorStatus.STOPPED
    monkeypatch.setenv("ERA5_ALERT_URL", "https://hooks.example.org/a")
    assert sensors._default_status() is dg.DefaultSensorStatus.RUNNING
    monkeypatch.setenv("ERA5_WORKERS", "many")
    assert sensors._default_status() is dg.DefaultSensorStatus.STOPPED
