"""Requests of every shape to every route that /openapi.json describes: no error of the server, answers as described."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import hypothesis
import psycopg
import pytest
import requests
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.application import make_app
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.served import served
from era5_pipeline_tests.warehouse.loads import SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from era5_pipeline_tests.flat_months import FlatMonths

EXAMPLES = 25
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
PATHS = sorted(make_app(Warehouse("postgresql://nobody@192.0.2.1:1/era5")).openapi()["paths"])
# Valid parameters for routes that need some; the tests below change one of them.
RIGHT: dict[str, dict[str, str]] = {
    "/v1/archive": {
        "latitude": "10.5",
        "longitude": "20",
        "start_date": "2023-07-01",
        "end_date": "2023-07-03",
        "hourly": "temperature_2m",
        "daily": "temperature_2m_max",
    },
    "/v1/climate": {"latitude": "10.5", "longitude": "20"},
}
HOSTILE = {
    "SQL": "'; DROP TABLE weather; --",
    "SQL of numbers": "1 OR 1=1",
    "SQL of a function": "1); SELECT pg_sleep(600); --",
    "SQL of a copy": "$$); COPY weather TO PROGRAM 'touch /tmp/owned'; --",
    "zero": "a\x00b",
    "long": "9" * 10_000,
    "not a number": "nan",
    "infinite": "1e999",
    "negative zero": "-0",
    "many": ",".join(["1"] * 4_000),
    "emoji": "🌧️\u202e\ufeff",
    "digits of another script": "\u0661\u0660",
    "format": "%s%n{0}${jndi:x}",
    "path": "../../etc/passwd",
    "line": "a\r\nSet-Cookie: x=1",
    "empty": "",
    "commas": ",,,",
}


@pytest.fixture(scope="module")
def loaded(shared_database_url: str, flat_months: FlatMonths) -> Warehouse:
    warehouse = Warehouse(shared_database_url)
    load_month(warehouse, flat_months("2023-07", names=("t2m", "u10", "v10", "tcc", "tp", "sf")))
    return warehouse


@pytest.fixture(scope="module")
def client(loaded: Warehouse) -> Iterator[httpx.Client]:
    with served(loaded) as client:
        yield client


@pytest.mark.parametrize(("path", "method"), [*((path, "GET") for path in PATHS), ("/v1/archive", "POST")])
def test_what_the_description_allows_and_what_it_forbids(client: httpx.Client, path: str, method: str) -> None:
    schema: Any = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    operation = schema[path][method]
    statuses: set[int] = set()
    with requests.Session() as session:

        @hypothesis.settings(
            max_examples=EXAMPLES,
            derandomize=True,  # the same requests in every run
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            answer = case.call(session=session, timeout=SECONDS, allow_redirects=False)
            statuses.add(answer.status_code)
            case.validate_response(answer, checks=CHECKS)

        ask()
    assert statuses <= {200, 300, 303, 400, 404, 414, *((413, 415) if method == "POST" else ())}


def parameters() -> list[tuple[str, str, str]]:
    """Every route with each of its parameters and where that is."""
    described = make_app(Warehouse("postgresql://nobody@192.0.2.1:1/era5")).openapi()["paths"]
    return [(path, one["name"], one["in"]) for path in PATHS for one in described[path]["get"].get("parameters", ())]


@pytest.mark.parametrize(("path", "name", "where"), parameters(), ids=str)
def test_whatever_a_parameter_is_it_is_only_text(
    client: httpx.Client, loaded: Warehouse, path: str, name: str, where: str
) -> None:
    for text in HOSTILE.values():
        right = RIGHT.get(path, {})
        asked = path.replace(f"{{{name}}}", quote(text, safe="")) if where == "path" else path
        query = right if where == "path" else {**right, name: text}
        answer = client.get(asked, params=query)
        assert answer.status_code in {200, 303, 400, 404, 414}, (name, text, answer.text)
        assert "set-cookie" not in answer.headers
        if answer.headers.get("content-type", "").startswith("application/json") and answer.status_code != 200:
            assert set(answer.json()) == {"error", "reason"}
            assert answer.json()["reason"]
            assert "Traceback" not in answer.text
            assert "psycopg" not in answer.text
    with psycopg.connect(loaded.url) as connection:
        assert connection.execute("SELECT count(*) FROM weather").fetchone() == (6 * 744,)
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "line",
    [
        b"GET /healthz?live=%ff%fe HTTP/1.1",
        b"GET /place/%00 HTTP/1.1",
        b"GET /healthz?%00=%00 HTTP/1.1",
        b"GET http://example.org/healthz HTTP/1.1",
        b"GET //healthz HTTP/1.1",
        b"GET /../../etc/passwd HTTP/1.1",
        b"GET /healthz?live=1&live=0&live=x HTTP/1.1",
        b"get /healthz HTTP/1.1",
        b"BREW /healthz HTTP/1.1",
        b"GET /\xff\xfe HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda line: line[:40].decode("ascii", "replace"),
)
def test_requests_that_no_client_library_sends(client: httpx.Client, line: bytes) -> None:
    with socket.create_connection((client.base_url.host, client.base_url.port or 80), timeout=SECONDS) as raw:
        raw.sendall(line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        status = raw.recv(16)
    assert not status or status.split()[1][:1] in (b"2", b"4"), status
    assert client.get("/healthz").status_code == 200
