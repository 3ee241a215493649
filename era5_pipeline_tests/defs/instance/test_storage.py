"""Dagster's storage on a real server: one pool, one transaction for a month, and restarts of the server."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
import psycopg
import pytest
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy import text

from era5_pipeline.defs import failures
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.defs.instance.storage import STORAGE_TABLES, store_together
from era5_pipeline.runtime.progress import listening
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.runtime.progress import Stage
    from era5_pipeline_tests.own_servers import OwnServer

# Of rows that go into the columnstore the server shows no progress, and it does not wait for them.
COPYING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' "
    "AND query LIKE 'COPY %%' AND clock_timestamp() - query_start > interval '50 ms'"
)
CUT = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname LIKE '%_dagster'"


@pytest.fixture
def pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path) as pipeline:
        yield pipeline


@pytest.fixture
def own_pipeline(own_server: OwnServer, tmp_path: Path) -> Iterator[Pipeline]:
    own_server.start()
    with new_pipeline(own_server.url(), tmp_path) as pipeline:
        yield pipeline


def cut_connections(server_url: str) -> None:
    """End all connections to Dagster's database."""
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(CUT)


def test_a_connection_is_reused_and_replaced_after_a_restart(pipeline: Pipeline, server_url: str) -> None:
    runs, events = cast("Any", pipeline.instance.run_storage), cast("Any", pipeline.instance.event_log_storage)

    def backend(storage: Any) -> int:
        with storage.connect() as connection:
            return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())

    first = backend(runs)
    assert backend(events) == backend(runs) == first
    cut_connections(server_url)
    assert backend(runs) != first


def test_a_page_shows_an_error_while_the_server_is_down(own_pipeline: Pipeline, own_server: OwnServer) -> None:
    before = own_pipeline.instance.get_runs_count()
    with open_instance(own_pipeline.home) as of_pages:
        of_pages.optimize_for_webserver(10_000, pool_recycle=3600, max_overflow=20)
        with cast("Any", of_pages.run_storage).connect() as connection:
            assert connection.execute(text("SHOW statement_timeout")).scalar_one() == "10s"
        own_server.stop("immediate")
        with pytest.raises(DagsterPostgresException):
            of_pages.get_runs_count()
        own_server.start()
        assert of_pages.get_runs_count() == before


def test_a_month_of_a_command_is_run_again_when_its_connection_was_lost(
    pipeline: Pipeline, server_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The run ends with its connection, the month does not."""
    cut: list[str] = []

    def listener(stage: Stage, done: int, total: int, unit: str) -> None:
        if stage == "load" and not cut:
            cut.append(unit)
            cut_connections(server_url)

    with listening(listener):
        run = pipeline.run("2020-02", **SMALL)
    assert cut
    assert run.errors == ()
    assert pipeline.rows("2020-02") == 696 * 9


def test_a_backend_that_is_killed_in_mid_copy_does_not_fail_the_month(
    own_pipeline: Pipeline, own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server then ends all connections, also Dagster's, and refuses new ones until it has recovered."""
    monkeypatch.setattr(failures, "RETRIES", dg.RetryPolicy(failures.RETRIES.max_retries, delay=1))
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            with suppress(psycopg.Error):
                if (session := ask(own_pipeline.url, COPYING)) is not None:
                    own_server.kill_session(session)
                    killed.append(session)
            time.sleep(0.005)

    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    run = own_pipeline.run("2001-02", source="sample", area="15/0/0/7.5")
    assert killed
    assert run.errors == ()
    assert own_pipeline.attempts(run, "weather") == 2
    assert own_pipeline.rows("2001-02") == 672 * 61 * 31


def test_what_is_recorded_of_a_month_is_one_transaction(pipeline: Pipeline) -> None:
    run = pipeline.run("2020-02", **SMALL)
    found = pipeline.instance.get_run_by_id(run.run_id)
    assert found is not None

    def record(*, completely: bool) -> None:
        pipeline.instance.report_engine_event("first", found)
        if not completely:
            raise InterruptedError
        pipeline.instance.report_engine_event("second", found)

    def entries() -> list[str | None]:
        found = [event.message for event in pipeline.events(run, dg.DagsterEventType.ENGINE_EVENT)]
        return [entry for entry in found if entry in ("first", "second")]

    with pytest.raises(InterruptedError):
        store_together(pipeline.instance, lambda: record(completely=False))
    assert entries() == []
    store_together(pipeline.instance, lambda: record(completely=True))
    assert entries() == ["first", "second"]


def test_the_tables_of_the_database_are_known_by_name(pipeline: Pipeline) -> None:
    storage = cast("Any", pipeline.instance.run_storage)
    with storage.connect() as connection:
        made = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).scalars().all()
    assert sorted(made) == list(STORAGE_TABLES)
