"""Tests of `serving/requests`."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import httpx
import psycopg
import pytest
from fastapi import APIRouter
from prometheus_client.parser import text_string_to_metric_families

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import read_settings
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.requests import (
    Reader,  # FastAPI evaluates it
    ServingLimits,
)
from era5_pipeline_tests.served import served
from era5_pipeline_tests.servers import fresh_database
from era5_pipeline_tests.warehouse.loads import SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.own_servers import OwnServer

    Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def test_the_defaults_of_the_settings_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECTIONS", "WAITING_REQUESTS", "WAIT_SECONDS", "STATEMENT_SECONDS", "VALUES"):
        monkeypatch.delenv(f"ERA5_SERVE_{name}", raising=False)
    assert ServingLimits.of(read_settings()) == ServingLimits()


def test_settings_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ServingLimits(connections=3, waiting_requests=4, wait_seconds=0.5, statement_seconds=6.0, values=7)
    for name in ("connections", "waiting_requests", "wait_seconds", "statement_seconds", "values"):
        monkeypatch.setenv(f"ERA5_SERVE_{name.upper()}", str(getattr(expected, name)))
    assert ServingLimits.of(read_settings()) == expected
    with pytest.raises(UsageError, match="8 values, and the limit is 7"):
        expected.require_values(8)
    expected.require_values(7)


@pytest.mark.parametrize(("name", "value"), [("CONNECTIONS", "0"), ("WAIT_SECONDS", "-1"), ("VALUES", "many")])
def test_a_setting_that_is_no_limit_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"ERA5_SERVE_{name}", value)
    with pytest.raises(UsageError, match=f"ERA5_SERVE_{name}"):
        read_settings()


def samples(client: httpx.Client) -> Samples:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_requests_are_counted_by_route_and_status(shared_database_url: str) -> None:
    with served(Warehouse(shared_database_url), ServingLimits(connections=3)) as client:
        for path in ("/healthz", "/healthz", "/healthz?live=maybe", "/nothing/here", "/nothing/there"):
            client.get(path)
        size = len(client.get("/docs").content)
        found = samples(client)
        requests = "era5_http_requests_total"
        assert found[requests, (("route", "/healthz"), ("status", "200"))] == 2
        assert found[requests, (("route", "/healthz"), ("status", "400"))] == 1
        # Paths that are no route would be a series for each word that anybody asks for.
        assert found[requests, (("route", "none"), ("status", "404"))] == 2
        assert found["era5_http_request_duration_seconds_count", (("route", "/healthz"),)] == 3
        assert 0 < found["era5_http_request_duration_seconds_sum", (("route", "/healthz"),)] < 60
        sent = found["era5_http_response_bytes_total", (("route", "/docs"),)]
        assert 0 < sent < size  # compressed
        assert found["era5_http_requests_under_way", ()] == 1  # this one
        assert found["era5_http_connections_in_use", ()] == 0
        assert found["era5_http_connections_limit", ()] == 3


def test_each_server_of_a_process_counts_for_itself(shared_database_url: str) -> None:
    for _ in range(2):
        with served(Warehouse(shared_database_url)) as client:
            client.get("/healthz")
            counted = samples(client)
            assert counted["era5_http_requests_total", (("route", "/healthz"), ("status", "200"))] == 1


routes = APIRouter()
LIMITS = ServingLimits(connections=4, wait_seconds=2.0)


@routes.get("/count")
def count(reader: Reader, seconds: float = 0.01) -> int:
    with reader.connected("counting") as connection:
        row = connection.execute("SELECT 1 FROM pg_sleep(%s)", (seconds,)).fetchone()
    assert row is not None
    return int(row[0])


class Load:
    """Clients that ask without a pause, and the statuses of their answers."""

    def __init__(self, url: str, clients: int) -> None:
        self.statuses: Counter[int] = Counter()
        self.others: list[str] = []
        self._url = url
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(SECONDS)

    def _ask(self) -> None:
        with httpx.Client(base_url=self._url, timeout=SECONDS) as client:
            while not self._is_over.is_set():
                answer = client.get("/count")
                self.statuses[answer.status_code] += 1
                if answer.status_code == 503:
                    assert int(answer.headers["retry-after"]) > 0
                if answer.status_code not in (200, 503):
                    self.others.append(answer.text)


def answers(client: httpx.Client) -> bool:
    return client.get("/healthz").status_code == 200 and client.get("/count").json() == 1


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_database_that_restarts_under_load(own_server: OwnServer, mode: Literal["fast", "immediate"]) -> None:
    own_server.start()
    with fresh_database(own_server.url()) as url, served(Warehouse(url), LIMITS, routes=routes) as client:
        with Load(str(client.base_url), clients=6) as load:
            wait_until(lambda: load.statuses[200] > 50)
            own_server.stop(mode)
            before = load.statuses[503]
            wait_until(lambda: load.statuses[503] > before + 5)
            assert client.get("/healthz").status_code == 503
            assert client.get("/healthz", params={"live": True}).status_code == 200
            own_server.start()
            answered = load.statuses[200]
            wait_until(lambda: load.statuses[200] > answered + 50)
        assert load.others == []
        assert set(load.statuses) == {200, 503}
        wait_until(lambda: answers(client))


def test_a_session_that_is_ended_by_an_administrator_costs_one_answer_at_most(own_server: OwnServer) -> None:
    own_server.start()
    with fresh_database(own_server.url()) as url, served(Warehouse(url), LIMITS, routes=routes) as client:
        assert answers(client)
        with psycopg.connect(url, autocommit=True) as administrator:
            administrator.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        # An idle connection is tried before it is given to a request.
        assert answers(client)


def test_without_a_database_it_starts_and_is_well_as_soon_as_there_is_one(own_server: OwnServer) -> None:
    own_server.stop()
    with served(Warehouse(own_server.url()), LIMITS, routes=routes) as client:
        for _ in range(2):
            answer = client.get("/count")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert answer.json()["reason"] == "The database cannot be reached right now. Try again in a few seconds."
        page = client.get("/place/jakarta")
        assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        own_server.start()
        wait_until(lambda: answers(client))


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
    limits = ServingLimits(connections=2, wait_seconds=1.0, statement_seconds=2.0, waiting_requests=1)
    with served(Warehouse(shared_database_url), limits, routes=routes) as client:
        yield client


_SLEEPERS = (
    "FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() "
    "AND datname = current_database() AND query LIKE '%a request that waits%'"
)


def sleepers(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT count(*) {_SLEEPERS}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def wake(url: str) -> None:
    """End the statements of the requests that sleep."""
    with psycopg.connect(url) as connection:
        connection.execute(f"SELECT pg_cancel_backend(pid) {_SLEEPERS}".encode())


@pytest.mark.parametrize(("name", "value"), [("default_transaction_read_only", "on"), ("statement_timeout", "2s")])
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
    assert answer.json()["reason"].startswith("Reading took longer than 2 s")
    wait_until(lambda: sleepers(shared_database_url) == 0)


def test_a_client_that_leaves_ends_its_statement_and_the_connection_is_there_again(shared_database_url: str) -> None:
    limits = ServingLimits(connections=1, statement_seconds=600)
    with served(Warehouse(shared_database_url), limits, routes=routes) as client:
        for _ in range(2):
            with suppress(httpx.ReadTimeout):
                client.get("/sleep", params={"seconds": 600}, timeout=1.0)
                pytest.fail("an answer of 600 s within one")
        wait_until(lambda: sleepers(shared_database_url) == 0)
        assert client.get("/sleep", params={"seconds": 0}).json() == 0
        left = 'era5_http_requests_total{route="/sleep",status="499"} 2.0'
        wait_until(lambda: left in client.get("/metrics").text)


def test_requests_beyond_the_connections_wait_and_then_are_refused(shared_database_url: str) -> None:
    limits = ServingLimits(connections=2, wait_seconds=1.0, statement_seconds=600, waiting_requests=1)
    with served(Warehouse(shared_database_url), limits, routes=routes) as client:
        asked = f"{client.base_url}/sleep?seconds=600"
        threads = [threading.Thread(target=httpx.get, args=(asked,), kwargs={"timeout": SECONDS}) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: sleepers(shared_database_url) == 2)
            refused = client.get("/setting", params={"name": "port"})
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert "waited 1 s for its turn" in refused.json()["reason"]
            assert client.get("/healthz").status_code == 200
        finally:
            wake(shared_database_url)
            for thread in threads:
                thread.join()
        assert client.get("/setting", params={"name": "port"}).status_code == 200
