"""Answers as they are sent: compressed for clients that take it."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from fastapi import APIRouter, Request, Response

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.encoded_answers import encoded_answer
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

routes = APIRouter()


@routes.get("/bytes/{count}")
def some_bytes(request: Request, count: int) -> Response:
    return encoded_answer(request, b"0123456789" * (count // 10), "text/plain")


@pytest.fixture(scope="module")
def client(shared_database_url: str) -> Iterator[httpx.Client]:
    with served(Warehouse(shared_database_url), routes=routes) as client:
        yield client


@pytest.mark.parametrize("accepted", ["gzip", "deflate, gzip;q=1.0", "br;q=1.0, gzip;q=0.2", "*", "GZIP"])
def test_a_large_answer_is_compressed_for_a_client_that_takes_gzip(client: httpx.Client, accepted: str) -> None:
    with client.stream("GET", "/bytes/100000", headers={"Accept-Encoding": accepted}) as answer:
        raw = b"".join(answer.iter_raw())
    assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert len(raw) < 5_000
    assert gzip.decompress(raw) == b"0123456789" * 10_000


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip; q=0.0, *;q=1", "gzip;q=often"])
def test_it_is_sent_as_it_is_to_one_that_does_not(client: httpx.Client, accepted: str) -> None:
    answer = client.get("/bytes/100000", headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in answer.headers
    assert answer.headers["content-length"] == "100000"


def test_a_small_answer_is_never_compressed(client: httpx.Client) -> None:
    assert "content-encoding" not in client.get("/bytes/990", headers={"Accept-Encoding": "gzip"}).headers
