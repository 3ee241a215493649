"""Translated errors of a real server: class, message and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.model.errors import (
    Era5Error,
    MonthLockedError,
    ServerUnsuitableError,
    TransientError,
    WarehouseError,
)
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def connection(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server_url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("state", "kind", "remedy"),
    [
        ("53100", WarehouseError, "Free space on the database server's disk"),
        ("42501", ServerUnsuitableError, "owns the database, or grant the privilege"),
        ("25006", ServerUnsuitableError, "read-only"),
        ("55P03", MonthLockedError, "when the other session has finished with the table"),
        ("40P01", MonthLockedError, "when the other session has finished with the table"),
        ("53300", TransientError, "max_connections"),
        ("57P03", TransientError, "Try again in a moment"),
        ("55006", TransientError, "Try again in a moment"),
        ("57P01", TransientError, "The connection to the server was lost"),
        ("57P02", TransientError, "The connection to the server was lost"),
        ("08006", TransientError, "The connection to the server was lost"),
        ("53200", WarehouseError, "server's log"),
        ("57014", WarehouseError, "server's log"),
        ("23514", WarehouseError, "server's log"),
        ("XX001", WarehouseError, "server's log"),
    ],
)
def test_each_sqlstate_has_its_class_and_remedy(
    connection: psycopg.Connection[Any], state: str, kind: type[Era5Error], remedy: str
) -> None:
    with pytest.raises(Era5Error) as failed, server_errors("loading 2023-07", afterwards="No row was lost."):
        connection.execute(f"DO $$ BEGIN RAISE EXCEPTION E'its message\\nand more' USING ERRCODE = '{state}'; END $$")
    assert type(failed.value) is kind
    assert failed.value.message == "loading 2023-07: its message"
    assert failed.value.remedy.startswith("No row was lost. ")
    assert remedy in failed.value.remedy


def test_a_terminated_session_is_a_transient_error(connection: psycopg.Connection[Any], server_url: str) -> None:
    assert ask(server_url, "SELECT pg_terminate_backend(%s, 5000)", connection.info.backend_pid)
    with pytest.raises(TransientError, match=r"^asking: terminating connection"), server_errors("asking"):
        connection.execute("SELECT 1")
    with pytest.raises(TransientError, match=r"^asking: the connection is closed"), server_errors("asking"):
        connection.execute("SELECT 1")


def test_programming_errors_are_not_transient(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(WarehouseError, match=r"^asking: "), server_errors("asking"):
        connection.execute("SELECT %s", ())
    with pytest.raises(ZeroDivisionError), server_errors("asking"):
        print(1 / 0)  # noqa: T201


def test_an_error_without_a_message(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(WarehouseError, match=r"^asking: Error"), server_errors("asking"):
        raise psycopg.Error
