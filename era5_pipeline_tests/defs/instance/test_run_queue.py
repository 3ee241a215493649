"""Tests of `defs/instance/run_queue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dagster._core.run_coordinator import SubmitRunContext
from dagster._daemon.run_coordinator import QueuedRunCoordinatorDaemon

from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.resources import CDS
from era5_pipeline.defs.run_tags import SETTINGS
from era5_pipeline.defs.runner import job_origin
from era5_pipeline_tests.pipelines import Pipeline, new_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MONTHS = ("2001-03", "1999-12", "2001-04", "1950-01")


@pytest.fixture
def queue_pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path, ERA5_SOURCE="sample", ERA5_AREA="-6/106/-6.5/106.5") as queue_pipeline:
        # Otherwise the daemon looks no further than as many months as may be fetched at once.
        queue_pipeline.instance.event_log_storage.set_concurrency_slots(CDS, 10)
        yield queue_pipeline


def submit(queue_pipeline: Pipeline, month: str, **tags: str) -> str:
    """Submit a run of the month as the web UI does; return its id."""
    instance = queue_pipeline.instance
    named = {name.replace("__", "/"): value for name, value in tags.items()}
    run = instance.create_run_for_job(
        defs.resolve_job_def(load_month.name),
        tags={"dagster/partition": f"{month}-01", **named},
        remote_job_origin=job_origin(instance),
    )
    instance.run_coordinator.submit_run(SubmitRunContext(run, workspace=None))  # type: ignore[arg-type]
    return run.run_id


def order(queue_pipeline: Pipeline) -> list[str]:
    """The months that the daemon would start next."""
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    runs = daemon._get_runs_to_dequeue(queue_pipeline.instance, queue_pipeline.instance.get_concurrency_config(), None)
    return [run.tags["era5/month"] for run in runs]


@pytest.mark.parametrize("setting", [None, "oldest"])
def test_newest_months_come_first_unless_the_setting_says_otherwise(
    queue_pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    if setting is not None:
        monkeypatch.setenv("ERA5_ORDER", setting)
    for month in MONTHS:
        submit(queue_pipeline, month, dagster__backfill="abcdefgh")
    assert order(queue_pipeline) == sorted(MONTHS, reverse=setting is None)


def test_a_month_by_itself_comes_before_those_of_a_backfill(
    queue_pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERA5_ORDER", "oldest")
    submit(queue_pipeline, "1950-01", dagster__backfill="abcdefgh")
    submit(queue_pipeline, "2024-12", dagster__schedule_name="monthly_update")
    submit(queue_pipeline, "2023-01", dagster__priority="20000")
    assert order(queue_pipeline) == ["2023-01", "2024-12", "1950-01"]


def test_runs_are_tagged_with_month_and_source_and_settings(queue_pipeline: Pipeline) -> None:
    run = queue_pipeline.instance.get_run_by_id(submit(queue_pipeline, "2001-03"))
    assert run is not None
    assert (run.tags["era5/month"], run.tags["era5/source"]) == ("2001-03", "sample")
    assert run.tags[SETTINGS] == '{"source": "sample", "area": "-6/106/-6.5/106.5"}'
    # Also one that does not go through the queue.
    own = queue_pipeline.run("2001-05")
    run = queue_pipeline.instance.get_run_by_id(own.run_id)
    assert run is not None
    assert (run.tags["era5/month"], run.tags["era5/source"]) == ("2001-05", "sample")
    assert "dagster/priority" not in run.tags


def test_invalid_settings_do_not_keep_a_run_from_the_queue(
    queue_pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERA5_FORMAT", "excel")
    submit(queue_pipeline, "2001-03")
    assert order(queue_pipeline) == ["2001-03"]
