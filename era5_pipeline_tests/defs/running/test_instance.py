"""The instance of `era5`: configuration, errors of its database, and runs whose process was killed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import dagster as dg
import psycopg
import pytest
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from sqlalchemy import text

from era5_pipeline.defs.running.instance import dagster_home, open_instance
from era5_pipeline.model.errors import TransientError, WarehouseError
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.pipelines import Pipeline, dagster_dropped, new_pipeline, settings_of
from era5_pipeline_tests.servers import fresh_database, fresh_role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dagster_postgres import PostgresRunStorage

# Stays in the middle of a run until it is killed.
PROGRAM = """
import sys, time
from era5_pipeline.defs.running.instance import open_instance
from era5_pipeline.defs.running.runner import run_month
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.progress import listening
from era5_pipeline.model.settings import read_settings
def stand(stage, done, total, unit):
    print("stands", flush=True)
    time.sleep(60)
with open_instance(read_settings().home) as instance, listening(stand):
    run_month(instance, Month(2020, 2), overrides={"source": "sample"})
"""


@contextmanager
def standing_run() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "stands\n"
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def pipeline(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path_factory.mktemp("instance")) as pipeline:
        yield pipeline


def test_configuration_is_the_dagster_yaml_of_the_project(tmp_path: Path) -> None:
    folder = dagster_home(tmp_path / "home")
    written = folder / "dagster.yaml"
    assert written.read_text() == (ROOT / "dagster.yaml").read_text()
    before = written.stat().st_mtime_ns
    assert dagster_home(tmp_path / "home") == folder
    assert written.stat().st_mtime_ns == before
    written.write_text("telemetry: {enabled: true}\n")
    dagster_home(tmp_path / "home")
    assert written.read_text() == (ROOT / "dagster.yaml").read_text()


def test_output_of_steps_is_not_captured(pipeline: Pipeline) -> None:
    """If it were captured, progress bars would not be shown."""
    assert isinstance(pipeline.instance.compute_log_manager, NoOpComputeLogManager)


def test_runs_of_killed_processes_are_marked_as_failed(pipeline: Pipeline) -> None:
    with standing_run() as process:
        (run,) = pipeline.instance.get_runs(limit=1)
        # The process is running: the run is not changed.
        with open_instance(pipeline.home):
            assert status(pipeline, run) is dg.DagsterRunStatus.STARTED
        process.kill()
        process.wait()
        # Whether a process of another machine is running cannot be determined here.
        host = run.tags["era5/host"]
        pipeline.instance.add_run_tags(run.run_id, {"era5/host": "elsewhere"})
        with open_instance(pipeline.home):
            assert status(pipeline, run) is dg.DagsterRunStatus.STARTED
        pipeline.instance.add_run_tags(run.run_id, {"era5/host": host})
        with open_instance(pipeline.home):
            assert status(pipeline, run) is dg.DagsterRunStatus.FAILURE
    failed = pipeline.instance.get_run_by_id(run.run_id)
    assert failed is not None
    # The user repeats the command; the daemon does not retry the run.
    assert failed.tags["dagster/will_retry"] == "false"


def status(pipeline: Pipeline, run: dg.DagsterRun) -> dg.DagsterRunStatus:
    found = pipeline.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


def test_lost_connection_is_a_transient_error(server_url: str, tmp_path: Path) -> None:
    with (
        fresh_database(server_url) as url,
        dagster_dropped(url),
        settings_of(tmp_path, url),
        pytest.raises(TransientError, match="Dagster's database: server closed the connection") as raised,
        open_instance(tmp_path) as instance,
        cast("PostgresRunStorage", instance.run_storage).connect() as connection,
    ):
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert "SELECT" not in str(raised.value)
    assert "are skipped" in raised.value.remedy


def test_connections_are_reused_and_tested_before_use(pipeline: Pipeline, server_url: str) -> None:
    storage = cast("PostgresRunStorage", pipeline.instance.run_storage)

    def backend() -> int:
        with storage.connect() as connection:
            return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())

    first = backend()
    assert backend() == first
    # Like a restart of the server.
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 5000)", (first,))
    assert backend() != first


def test_missing_privilege_to_create_tables_is_explained(server_url: str, tmp_path: Path) -> None:
    with (
        fresh_role(server_url) as role,
        fresh_database(server_url) as url,
        settings_of(tmp_path, url, ERA5_DAGSTER_DATABASE_URL=url.replace("postgres@", f"{role}@")),
        pytest.raises(WarehouseError, match="permission denied") as raised,
        open_instance(tmp_path),
    ):
        pass
    assert "ERA5_DAGSTER_DATABASE_URL" in raised.value.remedy
