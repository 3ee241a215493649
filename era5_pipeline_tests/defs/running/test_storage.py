"""Dagster's storage: PostgreSQL, next to the warehouse, found through the pipeline's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import dagster as dg
import psycopg
import pytest
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage, PostgresScheduleStorage
from sqlalchemy import event

from era5_pipeline.defs.running.instance import dagster_home, open_instance
from era5_pipeline.model.errors import ServerUnreachableError
from era5_pipeline.postgres.urls import database_of
from era5_pipeline_tests.pipelines import dagster_dropped, new_pipeline, settings_of
from era5_pipeline_tests.servers import fresh_database

if TYPE_CHECKING:
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
            assert theirs.run_retries_enabled
            assert not theirs.run_retries_retry_on_asset_or_op_failure
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

        event.listen(storage._engine, "before_cursor_execute", end_before_tags)
        run = dg.DagsterRun(job_name="load_month", tags={"dagster/backfill": "storm"})
        pipeline.instance.add_run(run)
        assert len(ended) == 1
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
