"""Tests of `defs/run_queue`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.run_coordinator import SubmitRunContext
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.controller import create_daemons_from_instance
from dagster._daemon.run_coordinator import QueuedRunCoordinatorDaemon

from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.lost_runs import fail_lost_runs, fail_run
from era5_pipeline.defs.resources import CDS
from era5_pipeline.defs.run_queue import RunRetryDaemon
from era5_pipeline.defs.run_tags import SETTINGS
from era5_pipeline.defs.runner import job_origin
from era5_pipeline.defs.services import LOCATION
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Dagster's own, on its own definitions; and one of the tests loads code that is not there.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Error loading repository location:UserWarning"),
]

MONTH = "2001-03"


@pytest.fixture
def pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path, ERA5_SOURCE=SMALL["source"], ERA5_AREA=SMALL["area"]) as pipeline:
        yield pipeline


@contextmanager
def workspace(pipeline: Pipeline, module: str = "era5_pipeline.definitions") -> Iterator[WorkspaceProcessContext]:
    """What the daemon knows of the code, loaded in this process."""
    loadable = LoadableTargetOrigin(module_name=module)
    origin = InProcessCodeLocationOrigin(loadable_target_origin=loadable, location_name=LOCATION)
    with WorkspaceProcessContext(pipeline.instance, InProcessWorkspaceLoadTarget(origin)) as context:
        yield context


def lost_run(pipeline: Pipeline, **tags: str) -> dg.DagsterRun:
    """A run of the month that began, and whose process was lost."""
    instance = pipeline.instance
    named = {name.replace("__", "/"): value for name, value in tags.items()}
    run = instance.create_run_for_job(
        defs.resolve_job_def(load_month.name),
        tags={"dagster/partition": f"{MONTH}-01", **named},
        remote_job_origin=job_origin(instance),
    )
    instance.run_coordinator.submit_run(SubmitRunContext(run, workspace=None))  # type: ignore[arg-type]
    for kind in (dg.DagsterEventType.RUN_STARTING, dg.DagsterEventType.RUN_START):
        instance.report_dagster_event(dg.DagsterEvent(kind.value, run.job_name), run.run_id)
    return reloaded(pipeline, run)


def reloaded(pipeline: Pipeline, run: dg.DagsterRun) -> dg.DagsterRun:
    found = pipeline.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found


def repeated(pipeline: Pipeline, run: dg.DagsterRun) -> list[dg.DagsterRun]:
    """The runs that repeat this one."""
    return [*pipeline.instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": run.run_id}))]


def turn(context: WorkspaceProcessContext) -> None:
    """One turn of the daemon's part, newly started."""
    list(RunRetryDaemon().run_iteration(context))


def test_the_daemon_has_it(pipeline: Pipeline) -> None:
    daemons = create_daemons_from_instance(pipeline.instance)
    assert [daemon for daemon in daemons if isinstance(daemon, RunRetryDaemon)]


def test_a_lost_run_is_run_again_once(pipeline: Pipeline) -> None:
    run = lost_run(pipeline)
    fail_run(pipeline.instance, run, "its process ended")
    with workspace(pipeline) as context:
        turn(context)
        turn(context)
    (again,) = repeated(pipeline, run)
    assert again.status is dg.DagsterRunStatus.QUEUED
    assert again.tags["era5/month"] == MONTH


def test_a_failure_whose_process_ended_before_it_was_tagged_is_found(pipeline: Pipeline) -> None:
    run = lost_run(pipeline)
    failure = dg.DagsterEvent(dg.DagsterEventType.RUN_FAILURE.value, run.job_name)
    pipeline.instance.run_storage.handle_run_event(run.run_id, failure)
    assert "dagster/will_retry" not in reloaded(pipeline, run).tags
    with workspace(pipeline) as context:
        turn(context)
    assert len(repeated(pipeline, run)) == 1


def test_it_waits_for_the_code_server(pipeline: Pipeline) -> None:
    """Dagster's own gives the run up for good, if it cannot load the code when it reads of the failure."""
    run = lost_run(pipeline)
    fail_run(pipeline.instance, run, "its process ended")
    with workspace(pipeline, module="era5_pipeline.no_such_module") as context:
        turning = RunRetryDaemon().run_iteration(context)
        for _ in range(3):
            next(turning)
        turning.close()
    assert repeated(pipeline, run) == []
    assert reloaded(pipeline, run).is_complete_and_waiting_to_retry
    with workspace(pipeline) as context:
        turn(context)
    assert len(repeated(pipeline, run)) == 1


def test_a_run_that_was_lost_after_its_last_step_has_succeeded(pipeline: Pipeline) -> None:
    done = pipeline.run(MONTH)
    assert done.errors == ()
    run = pipeline.instance.get_run_by_id(done.run_id)
    assert run is not None
    pipeline.instance.add_run_tags(run.run_id, {"dagster/max_retries": "4"})
    fail_run(pipeline.instance, reloaded(pipeline, run), "its process ended")
    assert reloaded(pipeline, run).status is dg.DagsterRunStatus.FAILURE
    with workspace(pipeline) as context:
        turn(context)
    assert repeated(pipeline, run) == []
    assert reloaded(pipeline, run).status is dg.DagsterRunStatus.SUCCESS


def test_a_run_that_nobody_can_repeat_is_not_promised_a_repetition(pipeline: Pipeline) -> None:
    """Such as one of a backfill that is not known any more."""
    run = lost_run(pipeline, dagster__backfill="abcdefgh")
    fail_run(pipeline.instance, run, "its process ended")
    assert reloaded(pipeline, run).is_complete_and_waiting_to_retry
    with workspace(pipeline) as context:
        turn(context)
    assert repeated(pipeline, run) == []
    assert reloaded(pipeline, run).tags["dagster/will_retry"] == "false"


def test_five_starts_are_counted_but_not_those_that_ended_with_era5_up(pipeline: Pipeline) -> None:
    instance, run = pipeline.instance, lost_run(pipeline)
    fail_run(instance, run, "its process ended")
    promised = []
    with workspace(pipeline) as context:
        for number in range(7):
            turn(context)
            (run,) = repeated(pipeline, run)
            starting = dg.DagsterEvent(dg.DagsterEventType.RUN_STARTING.value, run.job_name)
            instance.report_dagster_event(starting, run.run_id)
            if number in (1, 2, 3):  # as `era5 up` does when it begins
                fail_lost_runs(instance, own_socket="", with_starting=True)
            else:
                fail_run(instance, run, "its process ended")
            promised.append(reloaded(pipeline, run).is_complete_and_waiting_to_retry)
    # Eight starts, three of which are not counted.
    assert promised == [*[True] * 6, False]


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


def test_newest_months_come_first(queue_pipeline: Pipeline) -> None:
    for month in MONTHS:
        submit(queue_pipeline, month, dagster__backfill="abcdefgh")
    assert order(queue_pipeline) == ["2001-04", "2001-03", "1999-12", "1950-01"]


def test_oldest_months_come_first_if_the_setting_says_so(
    queue_pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERA5_ORDER", "oldest")
    for month in MONTHS:
        submit(queue_pipeline, month, dagster__backfill="abcdefgh")
    assert order(queue_pipeline) == ["1950-01", "1999-12", "2001-03", "2001-04"]


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
