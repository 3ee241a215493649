"""Tests of `serving/application`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.application import ServedApp, make_app
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    import httpx


def test_health_with_and_without_a_database(shared_database_url: str) -> None:
    with served(Warehouse(shared_database_url)) as client:
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()["status"], answer.json()["database"]) == (200, "ok", "ok")
        assert answer.headers["cache-control"] == "no-store"
    with served(Warehouse("postgresql://nobody@127.0.0.1:1/era5?connect_timeout=2")) as client:
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()["error"]) == (503, True)
        assert "127.0.0.1" not in answer.text
        answer = client.get("/healthz", params={"live": True})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "not asked"})


NOWHERE = Warehouse("postgresql://me:secret@192.0.2.1:1/era5")
ORIGIN = "https://example.org"


def description() -> dict[str, Any]:
    return make_app(NOWHERE).openapi()


def operations() -> dict[str, dict[str, Any]]:
    return {path: found["get"] for path, found in description()["paths"].items()}


def test_every_route_only_reads_and_is_described_with_its_errors() -> None:
    paths = description()["paths"]
    assert {"/", "/docs", "/place", "/place/{name}", "/healthz", "/metrics"} <= set(paths)
    for path, methods in paths.items():
        assert set(methods) == ({"get", "post"} if path == "/v1/archive" else {"get"}), path
        found = methods["get"]
        assert found["description"], path
        assert {"400", "503"} <= set(found["responses"]), path
        assert "422" not in found["responses"], path


def test_no_two_operations_have_one_name_and_no_schema_is_left_over() -> None:
    names = [found["operationId"] for found in operations().values()]
    assert len(set(names)) == len(names)
    assert "HTTPValidationError" not in description()["components"]["schemas"]


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(ServedApp(NOWHERE.url))


def asked_from(client: httpx.Client, origin: str) -> str | None:
    answer = client.get("/healthz", params={"live": True}, headers={"Origin": origin})
    assert answer.status_code == 200
    allowed: str | None = answer.headers.get("access-control-allow-origin")
    return allowed


@pytest.mark.parametrize(
    ("origins", "allowed"),
    [((), {}), ((ORIGIN,), {ORIGIN: ORIGIN}), (("*",), {ORIGIN: "*", "https://else.example": "*"})],
    ids=["none", "one", "any"],
)
def test_pages_of_other_origins_may_ask_only_if_they_are_named(
    shared_database_url: str, origins: tuple[str, ...], allowed: dict[str, str]
) -> None:
    with served(Warehouse(shared_database_url), cors_origins=origins) as client:
        for origin in (ORIGIN, "https://else.example"):
            assert asked_from(client, origin) == allowed.get(origin)
        asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}
        answer = client.options("/healthz", headers=asked)
        assert answer.headers.get("access-control-allow-origin") == allowed.get(ORIGIN)
