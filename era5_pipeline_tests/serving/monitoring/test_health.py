"""`/healthz`: of the process, and of its database."""

from __future__ import annotations

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline_tests.served import served


def test_health_with_and_without_a_database(shared_database_url: str) -> None:
    with served(Warehouse(shared_database_url)) as client:
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "ok"})
        assert answer.headers["cache-control"] == "no-store"
    with served(Warehouse("postgresql://nobody@127.0.0.1:1/era5?connect_timeout=2")) as client:
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()["error"]) == (503, True)
        assert "127.0.0.1" not in answer.text
        answer = client.get("/healthz", params={"live": True})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "not asked"})
