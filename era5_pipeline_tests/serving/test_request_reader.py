"""Connections for one request: they read only, their statements end in time, and with the client that waits."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from fastapi import APIRouter

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.limits import ServingLimits
from era5_pipeline.serving.request_reader import Reader  # noqa: TC001  # FastAPI evaluates it
from era5_pipeline_tests.served import served, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

routes = APIRouter()


@routes.get("/sleep")
def sleep(reader: Reader, seconds: float) -> float:
    with reader.connected("sleeping") as connection:
        connection.execute("SELECT pg_sleep(%s) /* a request that waits */", (seconds,))
    return seconds


@routes.get("/write")
def write(reader: Reader) -> None:
    with reader.connected("writing") as connection:
        connection.execute("CREATE TABLE written ()")


@routes.get("/setting")
def setting(reader: Reader, name: str) -> str:
    with reader.connected("asking") as connection:
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


@pytest.fixture(scope="module")
def client(shared_database_url: str) -> Iterator[httpx.Client]:
    limits = ServingLimits(connections=2, wait_seconds=1.0, statement_seconds=4.0, waiting_requests=1)
    with served(Warehouse(shared_database_url), limits, routes=routes) as client:
        yield client


def sleepers(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() "
            "AND datname = current_database() AND query LIKE '%a request that waits%'"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(("name", "value"), [("default_transaction_read_only", "on"), ("statement_timeout", "4s")])
def test_sessions_read_only_and_have_a_limit_for_each_statement(client: httpx.Client, name: str, value: str) -> None:
    assert client.get("/setting", params={"name": name}).json() == value


def test_a_route_that_writes_is_refused_and_the_client_learns_nothing_of_the_server(client: httpx.Client) -> None:
    answer = client.get("/write")
    assert answer.status_code == 500
    assert answer.json()["error"] is True
    assert "read-only" not in answer.text


def test_a_statement_that_takes_too_long_is_504_with_the_limit(client: httpx.Client, shared_database_url: str) -> None:
    answer = client.get("/sleep", params={"seconds": 600})
    assert answer.status_code == 504
    assert answer.json()["reason"].startswith("Reading took longer than 4 s")
    wait_until(lambda: sleepers(shared_database_url) == 0)


def test_a_client_that_leaves_ends_its_statement_and_the_connection_is_there_again(
    shared_database_url: str,
) -> None:
    limits = ServingLimits(connections=1, statement_seconds=600)
    with served(Warehouse(shared_database_url), limits, routes=routes) as client:
        for _ in range(3):
            with suppress(httpx.ReadTimeout):
                client.get("/sleep", params={"seconds": 600}, timeout=1.0)
                pytest.fail("an answer of 600 s within one")
        wait_until(lambda: sleepers(shared_database_url) == 0)
        assert client.get("/sleep", params={"seconds": 0}).json() == 0
        left = 'era5_http_requests_total{route="/sleep",status="499"} 3.0'
        wait_until(lambda: left in client.get("/metrics").text)


def test_requests_beyond_the_connections_wait_and_then_are_refused(client: httpx.Client) -> None:
    threads = [
        threading.Thread(target=lambda: httpx.get(f"{client.base_url}/sleep?seconds=3.5", timeout=60)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: client.get("/healthz", params={"live": True}).status_code == 200)
        time.sleep(0.7)
        refused = client.get("/setting", params={"name": "port"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "waited 1 s for its turn" in refused.json()["reason"]
        assert client.get("/healthz").status_code == 200
    finally:
        for thread in threads:
            thread.join()
    assert client.get("/setting", params={"name": "port"}).status_code == 200
