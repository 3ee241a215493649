"""A lost connection to Dagster's database, or none to be had: the call is repeated, other errors are raised at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
import psycopg
import psycopg2
import pytest
from dagster_postgres.utils import DagsterPostgresException
from psycopg import sql
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from era5_pipeline.defs import failures
from era5_pipeline.defs import storage as storages
from era5_pipeline.defs.instance import open_instance
from era5_pipeline.defs.storage import Outage, not_waiting_once, repeated, store_together, until_answered
from era5_pipeline.postgres import urls
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline
from era5_pipeline_tests.stores import free_port
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dagster_postgres import PostgresRunStorage

    from era5_pipeline_tests.own_servers import OwnServer

# Of rows that go into the columnstore the server shows no progress, and it does not wait for them.
COPYING = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' "
    "AND query LIKE 'COPY %%' AND clock_timestamp() - query_start > interval '50 ms'"
)
END = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(60)%%' AND pid <> %s"


@pytest.fixture
def pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path) as pipeline:
        yield pipeline


def database_of(pipeline: Pipeline) -> Any:
    return cast("Any", pipeline.instance.run_storage).database


def test_statement_is_repeated_after_its_connection_was_lost(
    pipeline: Pipeline, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def slow_count(storage: PostgresRunStorage) -> int:
        calls.append(1)
        with storage.connect() as connection:
            slow = text("SELECT 7 FROM pg_sleep(:seconds)")
            return int(connection.execute(slow, {"seconds": 60 if len(calls) == 1 else 0}).scalar_one())

    storage = cast("PostgresRunStorage", pipeline.instance.run_storage)
    monkeypatch.setattr(type(storage), "get_runs_count", repeated(slow_count))

    def cut() -> None:
        with psycopg.connect(server_url, autocommit=True) as admin:
            while admin.execute(END, (admin.info.backend_pid,)).fetchone() == (0,):
                time.sleep(0.1)

    cutting = threading.Thread(target=cut)
    cutting.start()
    assert storage.get_runs_count() == 7
    cutting.join()
    assert len(calls) == 2


def test_other_errors_are_raised_at_once(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(storage: PostgresRunStorage) -> int:
        with storage.connect() as connection:
            return int(connection.execute(text("SELECT nonsense")).scalar_one())

    storage = cast("PostgresRunStorage", pipeline.instance.run_storage)
    monkeypatch.setattr(type(storage), "get_runs_count", repeated(wrong))
    with pytest.raises(ProgrammingError, match="nonsense"):
        storage.get_runs_count()


@pytest.fixture
def refused() -> Callable[[], object]:
    """A call of a database that is not there."""
    return partial(psycopg2.connect, host="127.0.0.1", port=free_port())


def test_who_is_asked_to_stop_does_not_wait(pipeline: Pipeline, refused: Callable[[], object]) -> None:
    outage = database_of(pipeline).outage
    calls = []

    def connect() -> object:
        calls.append(1)
        return refused()

    with not_waiting_once(pipeline.instance, lambda: len(calls) >= 2):
        for _ in range(3):  # what follows is not even tried
            with pytest.raises(psycopg2.OperationalError, match="refused"):
                until_answered(connect, outage)
            assert len(calls) == 2
    with not_waiting_once(pipeline.instance, lambda: True), pytest.raises(psycopg2.OperationalError, match="refused"):
        until_answered(connect, outage)
    assert len(calls) == 3


def test_a_database_that_is_gone_does_not_stop_what_another_records(
    pipeline: Pipeline, server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that watched a run of another instance may still ask for it while a run of this one is interrupted."""
    monkeypatch.setattr(storages, "_PATIENCE_SECONDS", 0.1)
    (tmp_path / "other").mkdir()
    with (
        new_pipeline(server_url, tmp_path / "other") as other,
        not_waiting_once(pipeline.instance, lambda: True),
        psycopg.connect(server_url, autocommit=True) as admin,
    ):
        name = urls.database_of(database_of(other).url)
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        with pytest.raises(OperationalError, match="does not exist"):
            other.instance.get_runs_count()
        assert pipeline.instance.get_runs_count() == 0
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))  # to be dropped with the pipeline


def test_a_call_that_asks_no_database_does_not_renew_the_patience(
    refused: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storages, "_PATIENCE_SECONDS", 1.5)
    outage = Outage()
    calls = []

    def connect() -> object:
        calls.append(1)
        return refused()

    with pytest.raises(psycopg2.OperationalError, match="refused"):
        until_answered(connect, outage)
    calls.clear()
    assert until_answered(lambda: 7, outage) == 7
    with pytest.raises(psycopg2.OperationalError, match="refused"):
        until_answered(connect, outage)
    assert len(calls) == 1


@pytest.fixture
def own_pipeline(own_server: OwnServer, tmp_path: Path) -> Iterator[Pipeline]:
    own_server.start()
    with new_pipeline(own_server.url(), tmp_path) as pipeline:
        yield pipeline
        own_server.start()


def test_a_server_that_starts_again_is_waited_for_but_not_by_a_page(
    own_pipeline: Pipeline, own_server: OwnServer
) -> None:
    """It refuses connections for longer than Dagster itself tries again, then recovers from its crash."""
    before = own_pipeline.instance.get_runs_count()
    with open_instance(own_pipeline.home) as of_pages, ThreadPoolExecutor(1) as threads:
        of_pages.optimize_for_webserver(10_000, pool_recycle=3600, max_overflow=20)
        own_server.stop("immediate")
        waiting = threads.submit(own_pipeline.instance.get_runs_count)
        with pytest.raises(DagsterPostgresException):
            of_pages.get_runs_count()
        assert not waiting.done()
        own_server.start()
        assert waiting.result() == before


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


def test_a_range_of_months_is_recorded_though_its_connection_is_lost(pipeline: Pipeline, server_url: str) -> None:
    """All that is recorded of a month is one transaction: it is repeated as a whole."""
    calls = []
    run = pipeline.run("2001-02", source="sample", area="-6/106/-6.5/106.5")
    found = pipeline.instance.get_run_by_id(run.run_id)
    assert found is not None

    def record() -> None:
        calls.append(1)
        pipeline.instance.report_engine_event("first", found)
        if len(calls) == 1:
            with psycopg.connect(server_url, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname LIKE '%_dagster'"
                )
        pipeline.instance.report_engine_event("second", found)

    store_together(pipeline.instance, record)
    entries = [event.message for event in pipeline.events(run, dg.DagsterEventType.ENGINE_EVENT)]
    assert len(calls) == 2
    assert [entry for entry in entries if entry in ("first", "second")] == ["first", "second"]


def test_a_month_is_recorded_without_looking_for_tables_and_columns_again(pipeline: Pipeline) -> None:
    assert pipeline.run("2020-01", **SMALL).errors == ()
    statements: list[str] = []

    def note(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    event.listen(database_of(pipeline).engine, "before_cursor_execute", note)
    assert pipeline.run("2020-02", **SMALL).errors == ()
    assert statements
    assert [statement for statement in statements if "pg_catalog" in statement] == []


def test_a_connection_is_tested_only_after_a_pause_or_for_a_page(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, pings = database_of(pipeline), []
    ping = database.engine.dialect.do_ping

    def noted(connection: Any) -> bool:
        pings.append(connection)
        return bool(ping(connection))

    monkeypatch.setattr(database.engine.dialect, "do_ping", noted)

    def pings_of_a_call() -> int:
        pings.clear()
        pipeline.instance.get_runs_count()
        return len(pings)

    pipeline.instance.get_runs_count()
    assert pings_of_a_call() == 0
    with monkeypatch.context() as patch:
        patch.setattr(storages, "_IDLE_SECONDS", 0.0)
        assert pings_of_a_call() == 1
    monkeypatch.setattr(database, "waits_for_server", False)
    assert pings_of_a_call() == 1
