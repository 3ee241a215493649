"""Lost runs are run again by the daemon's part for it: also those left when it, or the code server, was killed."""

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

from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.running.lost_runs import fail_lost_runs, fail_run
from era5_pipeline.defs.running.run_retries import RunRetryDaemon
from era5_pipeline.defs.running.runner import job_origin
from era5_pipeline.defs.running.services import LOCATION
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
