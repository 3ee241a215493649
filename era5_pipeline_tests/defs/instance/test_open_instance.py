"""Tests of `defs/instance`."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
import psycopg
import pytest
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage, PostgresScheduleStorage
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from era5_pipeline.defs.instance.lost_runs import is_repeated
from era5_pipeline.defs.instance.open_instance import dagster_home, open_instance
from era5_pipeline.model.errors import ServerUnreachableError, TransientError, WarehouseError
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.postgres.urls import database_of
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.pipelines import Pipeline, dagster_dropped, new_pipeline, settings_of
from era5_pipeline_tests.servers import fresh_database, fresh_role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def url_of(instance: dg.DagsterInstance) -> str:
    return str(cast("PostgresRunStorage", instance.run_storage).postgres_url)


def databases(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {row[0] for row in connection.execute("SELECT datname FROM pg_database")}


def test_storage_is_on_the_server_of_the_warehouse(server_url: str, tmp_path: Path) -> None:
    with fresh_database(server_url) as url, dagster_dropped(url), settings_of(tmp_path, url):
        name = f"{database_of(url)}_dagster"
        assert name not in databases(url)
        with open_instance(tmp_path) as instance:
            assert isinstance(instance.run_storage, PostgresRunStorage)
            assert isinstance(instance.event_log_storage, PostgresEventLogStorage)
            assert isinstance(instance.schedule_storage, PostgresScheduleStorage)
            # Else the output of steps would be captured, and progress bars not shown.
            assert isinstance(instance.compute_log_manager, NoOpComputeLogManager)
            assert database_of(url_of(instance)) == name
            assert instance.get_runs_count() == 0
            # Other processes create the instance from this reference, which contains no URL.
            reference = instance.get_ref()
            assert "postgresql" not in str(reference.to_dict())
        assert name in databases(url)
        with dg.DagsterInstance.from_ref(reference) as again:
            assert again.get_runs_count() == 0
        # Opened in the way of `dg` and the daemon.
        with dg.DagsterInstance.from_config(str(dagster_home(tmp_path))) as theirs:
            assert database_of(url_of(theirs)) == name
            assert not theirs.run_retries_enabled  # a sensor of ours does that
            assert not theirs.telemetry_enabled
            assert not theirs.nux_enabled
        # Another warehouse has another history, even in the same process.
        with (
            fresh_database(server_url) as other,
            dagster_dropped(other),
            settings_of(tmp_path, other),
            open_instance(tmp_path) as instance,
        ):
            assert database_of(url_of(instance)) == f"{database_of(other)}_dagster"


def test_storage_can_have_its_own_url(server_url: str, tmp_path: Path) -> None:
    with (
        fresh_database(server_url) as url,
        fresh_database(server_url) as other,
        settings_of(tmp_path, url, ERA5_DAGSTER_DATABASE_URL=other),
        open_instance(tmp_path) as instance,
    ):
        assert database_of(url_of(instance)) == database_of(other)
        assert f"{database_of(url)}_dagster" not in databases(url)


def test_run_is_stored_with_its_tags_or_not_at_all(server_url: str, tmp_path: Path) -> None:
    """The connection is lost between the two: a run without tags would be in no list of its backfill's runs."""
    with new_pipeline(server_url, tmp_path) as pipeline:
        storage: Any = pipeline.instance.run_storage
        ended: list[int] = []

        def end_before_tags(connection: Any, _cursor: Any, statement: str, *_: object) -> None:
            if "INSERT INTO run_tags" in statement and not ended:
                ended.append(connection.connection.dbapi_connection.get_backend_pid())
                with psycopg.connect(server_url, autocommit=True) as admin:
                    admin.execute("SELECT pg_terminate_backend(%s, 10000)", ended)

        event.listen(storage.database.engine, "before_cursor_execute", end_before_tags)
        run = dg.DagsterRun(job_name="load_month", tags={"dagster/backfill": "storm"})
        with pytest.raises(OperationalError):
            pipeline.instance.add_run(run)
        assert len(ended) == 1
        assert pipeline.instance.get_run_by_id(run.run_id) is None
        pipeline.instance.add_run(run)
        found = pipeline.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": "storm"}))
        assert [one.run_id for one in found] == [run.run_id]


def test_unreachable_server_is_named(tmp_path: Path) -> None:
    url = "postgresql://me:correct-horse@127.0.0.1:9/nowhere"
    with (
        settings_of(tmp_path, url),
        pytest.raises(ServerUnreachableError, match=r"127\.0\.0\.1") as raised,
        open_instance(tmp_path),
    ):
        pass
    assert "correct-horse" not in str(raised.value)


# Stays in the middle of a run until it is killed.
PROGRAM = """
import sys, time
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.defs.runner import run_month
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
    assert not is_repeated(pipeline.instance, failed)


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


def test_an_embedded_server_runs_until_the_instance_is_closed(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    with settings_of(tmp_path, ""):
        with open_instance(tmp_path) as instance:
            assert instance.get_runs_count() == 0
            with open_instance(tmp_path):
                pass
            assert server.is_running()
        assert not server.is_running()
