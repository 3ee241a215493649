"""Rows that a running load records in its attempt."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from era5_pipeline.model.errors import ServerUnreachableError
from era5_pipeline.model.months import Month
from era5_pipeline.warehouse import attempts
from era5_pipeline.warehouse.attempts import Heartbeat
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.warehouse.loads import ask, wait_until

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.postgres.connect import Warehouse


@pytest.fixture(autouse=True)
def _short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_SECONDS", 0.05)


def begin_attempt(warehouse: Warehouse) -> int:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        return attempts.begin_attempt(connection, Month(2023, 7))


def recorded_rows(warehouse: Warehouse) -> Any:
    return ask(warehouse.url, "SELECT rows FROM era5.load_attempt ORDER BY id DESC LIMIT 1")


def test_rows_are_recorded_during_the_load(embedded_warehouse: Warehouse) -> None:
    attempt = begin_attempt(embedded_warehouse)
    threads = threading.active_count()
    with Heartbeat(lambda _: embedded_warehouse.connect(), attempt) as heart:
        assert recorded_rows(embedded_warehouse) is None
        for rows in (10, 25):
            heart.add(rows)
        wait_until(lambda: recorded_rows(embedded_warehouse) == 35)
        heart.add(5)
        wait_until(lambda: recorded_rows(embedded_warehouse) == 40)
    assert threading.active_count() == threads
    assert recorded_rows(embedded_warehouse) == 40


def test_an_attempt_that_has_ended_is_not_changed(embedded_warehouse: Warehouse) -> None:
    attempt = begin_attempt(embedded_warehouse)
    with Heartbeat(lambda _: embedded_warehouse.connect(), attempt) as heart:
        with embedded_warehouse.connect() as connection:
            attempts.end_attempt(connection, attempt, rows=7)
        heart.add(1000)
        time.sleep(0.3)
    assert recorded_rows(embedded_warehouse) == 7


def test_a_server_that_does_not_answer_does_not_delay_the_load() -> None:
    asked, answer, ended = threading.Event(), threading.Event(), threading.Event()

    def hang(_: str) -> NoReturn:
        asked.set()
        answer.wait(240)
        ended.set()
        raise ServerUnreachableError("gone", remedy="")

    def connect(name: str) -> psycopg.Connection[Any]:
        hang(name)

    with Heartbeat(connect, 1) as heart:
        heart.add(1)
        assert asked.wait(240)
        for _ in range(1000):
            heart.add(1)
    assert not ended.is_set()
    answer.set()
