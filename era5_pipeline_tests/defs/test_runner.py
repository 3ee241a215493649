"""Runs in this process: recorded by Dagster with their overrides and no secrets; results and errors for the caller."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
from psycopg import sql

from era5_pipeline.defs import failures
from era5_pipeline.defs.instance.lost_runs import is_repeated
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.defs.resources import StageResults, current_results
from era5_pipeline.model.errors import UsageError
from era5_pipeline.postgres.urls import database_of, with_database
from era5_pipeline.runtime.progress import listening
from era5_pipeline_tests.pipelines import SMALL, Pipeline, dagster_dropped, new_pipeline, settings_of
from era5_pipeline_tests.servers import fresh_database, fresh_role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.runtime.progress import Stage

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def pipeline(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """With an ordinary user, and a password in the URL, which the embedded server does not check."""
    home = tmp_path_factory.mktemp("runner")
    with fresh_role(server_url, "CREATEDB") as role, fresh_database(server_url) as url:
        with psycopg.connect(server_url, autocommit=True) as connection:
            owner = sql.SQL("ALTER DATABASE {} OWNER TO {}")
            connection.execute(owner.format(sql.Identifier(database_of(url)), sql.Identifier(role)))
        users_url = url.replace("postgres@", f"{role}:{SECRET}@")
        with dagster_dropped(url), settings_of(home, users_url), open_instance(home) as instance:
            yield Pipeline(home, users_url, instance)


def test_run_is_recorded_with_its_overrides_and_without_the_password(pipeline: Pipeline) -> None:
    run = pipeline.run("2020-02", **SMALL)
    assert run.errors == ()
    record = pipeline.instance.get_run_record_by_id(run.run_id)
    assert record is not None
    recorded = record.dagster_run
    assert recorded.status is dg.DagsterRunStatus.SUCCESS
    assert recorded.job_name == "load_month"
    assert recorded.tags["dagster/partition"] == "2020-02-01"
    config: Any = recorded.run_config
    assert config["resources"]["era5"]["config"] == SMALL
    # In PostgreSQL, and in no SQLite file.
    name = database_of(pipeline.url) + "_dagster"
    with psycopg.connect(with_database(pipeline.url, name)) as connection:
        row = connection.execute("SELECT status FROM runs WHERE run_id = %s", (run.run_id,)).fetchone()
        assert row == ("SUCCESS",)
        assert SECRET in pipeline.url
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert ("event_logs",) in tables
        for (table,) in tables:
            held = connection.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table))).fetchall()
            assert not any(SECRET in row[0] for row in held), table
    assert SECRET not in repr(run)
    assert SECRET not in str(pipeline.instance.get_ref().to_dict())
    files = [path for path in pipeline.home.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix == ".db" or SECRET.encode() in path.read_bytes()]


def test_results_of_the_stages_are_returned(pipeline: Pipeline) -> None:
    """Two runs in a row do not share results, and none are kept after them; `test_assets` has their contents."""
    run = pipeline.run("2020-07", **SMALL)
    assert run.results.load is not None
    assert (run.skipped, run.results.error, run.results.failed_checks) == (None, None, [])
    failed = pipeline.run("2020-07", source="files").results
    assert (failed.raw, failed.flat, failed.load) == (None, None, None)
    assert isinstance(failed.error, UsageError)
    assert current_results() == StageResults()


def test_unknown_override_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match="colour"):
        pipeline.run("2020-02", colour="red")


def test_the_page_of_a_run_shows_message_and_remedy_before_any_stack(pipeline: Pipeline) -> None:
    """Also if the settings cannot be read, which is then true of the record of the failure, too."""
    run = pipeline.run("2020-02", source="nonsense")
    (error,) = run.errors
    assert error.exit_code == UsageError.exit_code
    assert "ERA5_SOURCE: Input should be cds" in error.message
    (event,) = pipeline.events(run, dg.DagsterEventType.STEP_FAILURE)
    failure = event.step_failure_data
    assert failure.user_failure_data is not None
    assert failure.user_failure_data.description == f"{error.message}\n{error.remedy}"
    # The text that the event begins with; Python puts the name of the class before it.
    assert failure.error is not None
    assert failure.error.message.partition(": ")[2] == f"{error.message}\n{error.remedy}\n"


def test_unexpected_error_is_reported_as_defect_and_not_retried(pipeline: Pipeline) -> None:
    def listener(stage: Stage, done: int, total: int, unit: str) -> None:
        raise ZeroDivisionError("one\ntwo")

    with listening(listener):
        run = pipeline.run("2020-04", **SMALL)
    (error,) = run.errors
    assert error.exit_code == 1
    assert "ZeroDivisionError: one two" in error.message
    assert error.message.startswith("2020-04: ")
    assert "defect" in error.remedy
    assert run.run_id in error.remedy
    assert pipeline.attempts(run, "raw") == 1


@pytest.mark.parametrize("at", ["raw", "flat", "load"])
def test_ctrl_c_ends_the_run_at_once(pipeline: Pipeline, at: Stage) -> None:
    area = {**SMALL, "area": "10/100/0/110", "sample_hours": 48, "allow_incomplete": True, "force": True}
    interrupted: list[int] = []

    def listener(stage: Stage, done: int, total: int, unit: str) -> None:
        if stage == at and not interrupted:
            interrupted.append(done)
            os.kill(os.getpid(), signal.SIGINT)

    with listening(listener), pytest.raises(KeyboardInterrupt):
        pipeline.run("2020-05", **area)
    assert interrupted
    run = pipeline.instance.get_runs(limit=1)[0]
    assert run.tags["dagster/partition"] == "2020-05-01"
    assert run.status is dg.DagsterRunStatus.FAILURE
    assert not is_repeated(pipeline.instance, run)
    step = {"load": "weather"}.get(at, at)
    steps = pipeline.instance.get_run_step_stats(run.run_id)
    assert [s.attempts for s in steps if s.step_key == f"era5__{step}"] == [1]
    assert pipeline.rows("2020-05") == 0


def test_ctrl_c_after_the_last_step_is_raised(pipeline: Pipeline) -> None:
    """Between steps, Dagster delays interrupts."""
    seen: list[str] = []

    def watch() -> None:
        with psycopg.connect(with_database(pipeline.url, database_of(pipeline.url) + "_dagster")) as connection:
            query = "SELECT FROM event_logs WHERE dagster_event_type = 'STEP_SUCCESS' AND step_key = 'era5__weather' "
            while not done.wait(0.001):
                connection.rollback()
                if connection.execute(query + "AND partition IS NULL AND id > %s", (last,)).fetchone() is not None:
                    seen.append("end")
                    os.kill(os.getpid(), signal.SIGINT)
                    return

    with psycopg.connect(with_database(pipeline.url, database_of(pipeline.url) + "_dagster")) as connection:
        row = connection.execute("SELECT max(id) FROM event_logs").fetchone()
        last = row[0] if row else 0
    done = threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            pipeline.run("2020-06", **SMALL)
    finally:
        done.set()
        thread.join()
    assert seen
    assert pipeline.rows("2020-06") == 720 * 9


def test_transient_error_is_retried(
    server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The database has no free connection during the first attempt."""
    monkeypatch.setattr(failures, "RETRIES", dg.RetryPolicy(max_retries=3, delay=0.3))
    with fresh_role(server_url) as role, new_pipeline(server_url, tmp_path) as pipeline:
        with psycopg.connect(server_url, autocommit=True) as admin:
            owner = sql.SQL("ALTER DATABASE {} OWNER TO {}")
            admin.execute(owner.format(sql.Identifier(database_of(pipeline.url)), sql.Identifier(role)))
            admin.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 1").format(sql.Identifier(role)))
        users_url = pipeline.url.replace("postgres@", f"{role}@")
        monkeypatch.setenv("ERA5_DATABASE_URL", users_url)
        holder = psycopg.connect(users_url)

        class Release(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                holder.close()

        # Released when the retry is announced, after the first attempt.
        release = Release()
        logger = logging.getLogger(failures.__name__)
        logger.addHandler(release)
        try:
            run = pipeline.run("2020-02", **SMALL)
        finally:
            logger.removeHandler(release)
        assert run.errors == ()
        assert [pipeline.attempts(run, stage) for stage in ("raw", "flat")] == [1, 1]
        # The server may take a moment to free the connection.
        assert pipeline.attempts(run, "weather") in (2, 3)
        assert pipeline.rows("2020-02") == 696 * 9
        assert any("trying again in" in message for message in caplog.messages)

        # Without a free connection, the error is reported after the last retry.
        with psycopg.connect(users_url):
            run = pipeline.run("2020-03", **SMALL)
        assert [error.exit_code for error in run.errors] == [7]
        assert "too many connections" in run.errors[0].message
        assert pipeline.attempts(run, "weather") == 4
        (event,) = pipeline.events(run, dg.DagsterEventType.STEP_FAILURE)
        assert event.step_failure_data.error is not None
        assert run.errors[0].message in event.step_failure_data.error.message
