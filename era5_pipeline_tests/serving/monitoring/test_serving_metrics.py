"""Numbers for Prometheus, read as Prometheus reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.limits import ServingLimits
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    import httpx

    Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


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
