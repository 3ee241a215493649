"""One load of a month at a time: which session waits, for which one, and how long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.urls import with_user
from era5_pipeline.warehouse.locks import month_lock
from era5_pipeline_tests.servers import fresh_database, fresh_role
from era5_pipeline_tests.warehouse.loads import ask, end_session, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

JULY = Month(2023, 7)


@pytest.fixture
def on_embedded(shared_database_url: str) -> Warehouse:
    return Warehouse(shared_database_url)


def never(text: str) -> None:
    raise AssertionError(text)


@pytest.fixture
def held(on_embedded: Warehouse) -> Iterator[psycopg.Connection]:
    """A session that holds the lock of July 2023."""
    with on_embedded.connect() as connection, month_lock(connection, JULY, timeout_seconds=0, on_wait=never):
        yield connection


def test_a_locked_month_is_refused_and_the_holder_is_named(held: psycopg.Connection, on_embedded: Warehouse) -> None:
    expected = (
        rf"^2023-07 is being loaded by session {held.info.backend_pid} of postgres from the server itself "
        r"\(connected since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)\n"
    )
    with on_embedded.connect() as connection:
        with pytest.raises(MonthLockedError, match=expected):
            month_lock(connection, JULY, timeout_seconds=0, on_wait=never).__enter__()
        # Other months are not locked, and the session can go on.
        with month_lock(connection, Month(2023, 8), timeout_seconds=0, on_wait=never):
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_waiting_ends_after_the_timeout(held: psycopg.Connection, on_embedded: Warehouse) -> None:
    said: list[str] = []
    began = time.monotonic()
    with on_embedded.connect() as connection:
        with pytest.raises(MonthLockedError, match=f"session {held.info.backend_pid}"):
            month_lock(connection, JULY, timeout_seconds=1, on_wait=said.append).__enter__()
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
    assert time.monotonic() - began > 0.9
    assert len(said) == 1
    assert said[0].endswith(": waiting up to 1 s")


def test_the_lock_is_released_at_the_end_of_context_or_session(on_embedded: Warehouse) -> None:
    for _ in range(2):
        with on_embedded.connect() as connection, month_lock(connection, JULY, timeout_seconds=0, on_wait=never):
            pass
    with on_embedded.connect() as connection:
        with pytest.raises(KeyError), month_lock(connection, JULY, timeout_seconds=0, on_wait=never):
            raise KeyError
        with month_lock(connection, JULY, timeout_seconds=0, on_wait=never):
            end_session(connection, on_embedded.url)
    with on_embedded.connect() as connection, month_lock(connection, JULY, timeout_seconds=0, on_wait=never):
        pass


def test_a_waiting_session_gets_the_lock_next(on_embedded: Warehouse) -> None:
    waiting, done = threading.Event(), []

    def wait() -> None:
        with (
            on_embedded.connect() as other,
            month_lock(other, JULY, timeout_seconds=120, on_wait=lambda _: waiting.set()),
        ):
            done.append(1)

    thread = threading.Thread(target=wait)
    with on_embedded.connect() as connection, month_lock(connection, JULY, timeout_seconds=0, on_wait=never):
        thread.start()
        assert waiting.wait(240)
        wait_until(
            lambda: (
                ask(on_embedded.url, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1
            )
        )
        assert done == []
    thread.join(240)
    assert done == [1]


def test_each_database_has_its_own_locks(held: psycopg.Connection, on_embedded: Warehouse, server_url: str) -> None:
    with fresh_database(server_url) as url:
        other = Warehouse(url)
        with (
            other.connect() as first,
            other.connect() as second,
            month_lock(first, JULY, timeout_seconds=0, on_wait=never),
        ):
            expected = f"session {first.info.backend_pid} of"
            with pytest.raises(MonthLockedError, match=expected):
                month_lock(second, JULY, timeout_seconds=0, on_wait=never).__enter__()


def test_an_ordinary_user_sees_the_pid_of_the_holder(
    held: psycopg.Connection, on_embedded: Warehouse, server_url: str
) -> None:
    with fresh_role(server_url) as role:
        url = with_user(on_embedded.url, role)
        with Warehouse(url).connect() as connection, pytest.raises(MonthLockedError) as refused:
            month_lock(connection, JULY, timeout_seconds=0, on_wait=never).__enter__()
    assert refused.value.message == f"2023-07 is being loaded by session {held.info.backend_pid} of postgres"
