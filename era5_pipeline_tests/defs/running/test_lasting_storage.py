"""A lost connection in the middle of a statement to Dagster's database: it is repeated, other errors are not."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, cast

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from era5_pipeline.defs.running.lasting_storage import outlast_restarts
from era5_pipeline_tests.pipelines import Pipeline, new_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dagster_postgres import PostgresRunStorage

END = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(2)%%' AND pid <> %s"


@pytest.fixture
def pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path) as pipeline:
        yield pipeline


def test_statement_is_repeated_after_its_connection_was_lost(
    pipeline: Pipeline, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def slow_count(storage: PostgresRunStorage) -> int:
        calls.append(1)
        with storage.connect() as connection:
            return int(connection.execute(text("SELECT 7 FROM pg_sleep(2)")).scalar_one())

    storage = cast("PostgresRunStorage", pipeline.instance.run_storage)
    monkeypatch.setattr(type(storage), "get_runs_count", slow_count)
    outlast_restarts(pipeline.instance)

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
    monkeypatch.setattr(type(storage), "get_runs_count", wrong)
    outlast_restarts(pipeline.instance)
    with pytest.raises(ProgrammingError, match="nonsense"):
        storage.get_runs_count()
