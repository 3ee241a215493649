"""Tests of `defs/instance/run_launcher`; those of runs that the daemon launches are in `cli/test_up`."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.launcher import LaunchRunContext
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget

from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.instance.lost_runs import process_of
from era5_pipeline.defs.instance.run_launcher import ForkingRunLauncher, watch_run
from era5_pipeline.defs.instance.services import LOCATION
from era5_pipeline.defs.runner import job_origin
from era5_pipeline_tests.defs.instance.test_lost_runs import MONTH, begun_run, reloaded
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.own_servers import OwnServer

# Dagster's own, on its own definitions.
pytestmark = pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition:DeprecationWarning")


@pytest.fixture
def pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path, ERA5_SOURCE=SMALL["source"], ERA5_AREA=SMALL["area"]) as pipeline:
        yield pipeline


@contextmanager
def launched(pipeline: Pipeline, area: str) -> Iterator[dg.DagsterRun]:
    """A run of the month, launched by a launcher of its own."""
    instance = pipeline.instance
    loadable = LoadableTargetOrigin(module_name="era5_pipeline.definitions")
    location = InProcessCodeLocationOrigin(loadable_target_origin=loadable, location_name=LOCATION)
    with WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget(location)) as context:
        (repository,) = context.create_request_context().get_code_location(LOCATION).get_repositories().values()
        origin = repository.get_full_job(load_month.name).get_python_origin()
    run = instance.create_run_for_job(
        defs.resolve_job_def(load_month.name),
        run_config={"resources": {"era5": {"config": {"area": area}}}},
        tags={"dagster/partition": f"{MONTH}-01"},
        remote_job_origin=job_origin(instance),
        job_code_origin=origin,
    )
    launcher = ForkingRunLauncher()
    launcher.register_instance(instance)
    launcher.launch_run(LaunchRunContext(run, workspace=None))
    try:
        yield run
        wait_until(lambda: reloaded(pipeline, run).is_finished)
    finally:
        launcher.dispose()
        # The threads that watch runs would go on asking for a database that is gone.
        for thread in threading.enumerate():
            if thread.name == "watch-run":
                thread.join(60)


def test_a_run_has_a_process_of_its_own_and_is_marked_as_failed_when_that_is_killed(pipeline: Pipeline) -> None:
    """One test: the process that is forked keeps the environment, and so the database, of the first that needs it."""
    with launched(pipeline, area="60/-60/-60/60") as run:
        wait_until(lambda: process_of(pipeline.instance, run.run_id) is not None)
        process = process_of(pipeline.instance, run.run_id)
        assert process is not None
        os.kill(process, signal.SIGKILL)
    assert reloaded(pipeline, run).is_complete_and_waiting_to_retry
    with launched(pipeline, area=SMALL["area"]) as run:
        pass
    assert reloaded(pipeline, run).status is dg.DagsterRunStatus.SUCCESS
    wait_until(lambda: process_of(pipeline.instance, run.run_id) is None)


def test_a_run_that_ended_with_the_database_is_marked_as_failed_once_that_is_back(
    own_server: OwnServer, tmp_path: Path
) -> None:
    own_server.start()
    with (
        new_pipeline(own_server.url(), tmp_path, ERA5_SOURCE=SMALL["source"], ERA5_AREA=SMALL["area"]) as pipeline,
        subprocess.Popen(["sleep", "600"]) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        run = begun_run(pipeline, only_starting=True)
        watching = pool.submit(watch_run, pipeline.instance, process.pid, run.run_id)
        own_server.stop("immediate")
        process.kill()
        process.wait()
        with pytest.raises(TimeoutError):
            watching.result(timeout=3)
        own_server.start()
        watching.result(timeout=120)
        assert reloaded(pipeline, run).is_complete_and_waiting_to_retry
