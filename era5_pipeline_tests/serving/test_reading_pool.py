"""A database that restarts, crashes or is away: 503 meanwhile, and well again without a restart of the server."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal

import httpx
import psycopg
import pytest
from fastapi import APIRouter

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.limits import ServingLimits
from era5_pipeline.serving.request_reader import Reader  # noqa: TC001  # FastAPI evaluates it
from era5_pipeline_tests.served import SECONDS, served, wait_until
from era5_pipeline_tests.servers import fresh_database

if TYPE_CHECKING:
    from era5_pipeline_tests.own_servers import OwnServer

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
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
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
            assert answer.json()["reason"] == "The database cannot be reached now. Try again in a few seconds."
        page = client.get("/place/jakarta")
        assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        own_server.start()
        wait_until(lambda: answers(client))
