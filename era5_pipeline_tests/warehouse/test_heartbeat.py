"""Rows that a running load notes with its attempt."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from era5_pipeline.model.errors import ServerUnreachableError
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse import heartbeat, ledger
from era5_pipeline.warehouse.heartbeat import Heartbeat
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.warehouse.loads import ask, wait_until

if TYPE_CHECKING:
    import psycopg


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_SECONDS", 0.05)


def begun(warehouse: Warehouse) -> int:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        return ledger.begin_attempt(connection, Month(2023, 7))


def noted(warehouse: Warehouse) -> Any:
    return ask(warehouse.url, "SELECT rows FROM era5.load_attempt ORDER BY id DESC LIMIT 1")


def test_rows_are_noted_while_the_load_goes_on(database_url: str) -> None:
    warehouse = Warehouse(database_url)
    attempt = begun(warehouse)
    threads = threading.active_count()
    with Heartbeat(lambda _: warehouse.connect(), attempt) as beating:
        assert noted(warehouse) is None
        for rows in (10, 25):
            beating.add(rows)
        wait_until(lambda: noted(warehouse) == 35)
        beating.add(5)
        wait_until(lambda: noted(warehouse) == 40)
    assert threading.active_count() == threads
    assert noted(warehouse) == 40


def test_an_attempt_that_has_ended_is_left_alone(database_url: str) -> None:
    warehouse = Warehouse(database_url)
    attempt = begun(warehouse)
    with Heartbeat(lambda _: warehouse.connect(), attempt) as beating:
        with warehouse.connect() as connection:
            ledger.end_attempt(connection, attempt, rows=7)
        beating.add(1000)
        time.sleep(0.3)
    assert noted(warehouse) == 7


def test_a_server_that_does_not_answer_delays_nothing() -> None:
    asked = threading.Event()
    answer = threading.Event()

    def hang(_: str) -> NoReturn:
        asked.set()
        answer.wait(20)
        raise ServerUnreachableError("gone", remedy="")

    def connect(name: str) -> psycopg.Connection[Any]:
        hang(name)

    began = time.monotonic()
    with Heartbeat(connect, 1) as beating:
        beating.add(1)
        assert asked.wait(5)
        before = time.monotonic()
        for _ in range(1000):
            beating.add(1)
        assert time.monotonic() - before < 1
    assert time.monotonic() - began < 5
    answer.set()
