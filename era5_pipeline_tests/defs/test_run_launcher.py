"""Tests of `defs/run_launcher`; those of runs that the daemon forks are in `cli/test_up`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.dagster_internals import LaunchRunContext
from era5_pipeline.defs.run_launcher import ForkingRunLauncher
from era5_pipeline.defs.runner import job_origin
from era5_pipeline.defs.services import LOCATION
from era5_pipeline_tests.defs.test_run_queue import MONTH, reloaded, workspace
from era5_pipeline_tests.pipelines import SMALL, new_pipeline
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition:DeprecationWarning")


def test_where_processes_cannot_be_forked_a_run_is_started_anew(
    server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_pipeline(server_url, tmp_path, ERA5_SOURCE=SMALL["source"], ERA5_AREA=SMALL["area"]) as pipeline:
        instance = pipeline.instance
        with workspace(pipeline) as context:
            (repository,) = context.create_request_context().get_code_location(LOCATION).get_repositories().values()
            origin = repository.get_full_job(load_month.name).get_python_origin()
        run = instance.create_run_for_job(
            defs.resolve_job_def(load_month.name),
            tags={"dagster/partition": f"{MONTH}-01"},
            remote_job_origin=job_origin(instance),
            job_code_origin=origin,
        )
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(sys, "platform", "darwin")
            launcher = ForkingRunLauncher()
        launcher.register_instance(instance)
        launcher.launch_run(LaunchRunContext(run, workspace=None))
        wait_until(lambda: reloaded(pipeline, run).is_finished)
        assert reloaded(pipeline, run).status is dg.DagsterRunStatus.SUCCESS
        launcher.dispose()
