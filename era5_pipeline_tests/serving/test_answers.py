"""Tests of `serving/answers`."""

from __future__ import annotations

import gzip
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest
from fastapi import APIRouter, Request, Response

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import parse_time_range
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.read.credit import origin_of
from era5_pipeline.read.held import PartVersion
from era5_pipeline.serving.answers import AnswerOrigin, encoded_answer, read_version
from era5_pipeline.serving.requests import Reader  # noqa: TC001  # FastAPI evaluates it
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.served import served
from era5_pipeline_tests.warehouse.loads import wait_until
from era5_pipeline_tests.warehouse.versioned_months import VersionedMonths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from era5_pipeline.model.source_kinds import Version
    from era5_pipeline_tests.flat_months import FlatMonths

routes = APIRouter()


@routes.get("/hours")
def hours(request: Request, reader: Reader, latitude: float, longitude: float, start: str, end: str) -> Response:
    """As a route of hours: 304 without reading, or an answer."""
    where = ERA5_GRID.nearest_location(latitude, longitude).location_id
    first, after = parse_time_range(start, end)
    with reader.connected("reading") as connection:
        version = read_version(connection, request, LocationSet(((where, where + 1),)), first, after)
        assert version is not None
        return version.unchanged_answer(request) or Response("hours", headers=version.headers)


HERE: dict[str, str | float] = {"latitude": 10.5, "longitude": 20.0}
JULY = {**HERE, "start": "2023-07", "end": "2023-07"}
AUGUST = {**HERE, "start": "2023-08", "end": "2023-08"}
BOTH = {**HERE, "start": "2023-07", "end": "2023-08"}


def tag(client: httpx.Client, asked: dict[str, str | float]) -> str:
    answer = client.get("/hours", params=asked)
    assert (answer.status_code, answer.text) == (200, "hours")
    assert answer.headers["etag"].startswith('W/"')
    assert answer.headers["cache-control"] == "no-cache"
    return str(answer.headers["etag"])


def test_a_month_that_is_loaded_again_changes_the_answers_that_are_read_from_it(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    for month in ("2023-07", "2023-08"):
        load_month(warehouse, flat_months(month))
    with served(warehouse, routes=routes) as client:
        before = {name: tag(client, asked) for name, asked in (("July", JULY), ("August", AUGUST), ("both", BOTH))}
        assert len(set(before.values())) == 3
        assert {name: tag(client, asked) for name, asked in (("July", JULY), ("August", AUGUST), ("both", BOTH))} == (
            before
        )
        known = {"If-None-Match": f'"another", {before["July"]}'}
        assert client.get("/hours", params=JULY, headers=known).status_code == 304

        load_month(warehouse, flat_months("2023-07", seed=2))
        assert tag(client, JULY) != before["July"]
        assert tag(client, BOTH) != before["both"]
        assert tag(client, AUGUST) == before["August"]
        assert client.get("/hours", params=JULY, headers=known).status_code == 200

        # Other places of the same month: another part of it.
        load_month(warehouse, flat_months("2023-08", north=40.5))
        assert tag(client, AUGUST) == before["August"]

        with_both = tag(client, BOTH)
        drop_month(warehouse, Month(2023, 8))
        assert tag(client, BOTH) != with_both


def test_the_version_depends_on_what_is_asked(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    with served(warehouse, routes=routes) as client:
        assert tag(client, JULY) != tag(client, {**JULY, "end": "2023-07-30"})
        assert tag(client, JULY) != tag(client, {**JULY, "longitude": 20.01})  # the same cell
        assert (
            client.get("/hours", params={**JULY, "end": "2023-07-30"}, headers={"If-None-Match": "*"}).status_code
            == 304
        )


def test_a_load_that_ends_after_a_later_one_changes_the_answers_too(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    """A transaction's time is that of its begin: the last to commit may have the earlier one."""
    for month in ("2023-07", "2023-08"):
        load_month(warehouse, flat_months(month))
    with warehouse.connect() as connection, ThreadPoolExecutor(1) as thread, served(warehouse, routes=routes) as client:
        connection.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END'; "
            "CREATE TRIGGER wait BEFORE INSERT ON era5.monthly_summary FOR EACH ROW "
            "WHEN (NEW.month = '2023-08-01') EXECUTE FUNCTION wait(); SELECT pg_advisory_lock(1)"
        )
        try:
            august = thread.submit(load_month, warehouse, flat_months("2023-08", seed=2))
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted"
            wait_until(lambda: connection.execute(waiting).fetchone() == (1,))
            load_month(warehouse, flat_months("2023-07", seed=2))
            # Two seconds later no clock's second is in question.
            time.sleep(2.1)
            before = client.get("/hours", params=BOTH)
        finally:
            connection.execute("SELECT pg_advisory_unlock(1)")
        assert august.result().changed
        times = connection.execute("SELECT loaded_at FROM era5.ledger ORDER BY month").fetchall()
        assert times[0] > times[1]
        known = {"If-Modified-Since": before.headers.get("last-modified", before.headers["date"])}
        assert client.get("/hours", params=BOTH, headers=known).status_code == 200
        assert client.get("/hours", params=BOTH, headers={"If-None-Match": before.headers["etag"]}).status_code == 200
        assert "last-modified" not in before.headers


def test_without_a_ledger_nobody_knows(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        request = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []})
        assert read_version(connection, request) is None


def test_the_origin_of_an_answer_says_what_is_generated_and_what_is_not_known() -> None:
    nothing: frozenset[int] = frozenset()
    versions: list[tuple[str, Version, int]] = [
        ("cds", "final", 2022),
        ("cds", "preliminary", 2023),
        ("files", "unknown", 2001),
    ]
    parts = [PartVersion(Month(year, 1), (source,), of, nothing) for source, of, year in versions]
    real = AnswerOrigin({ERA5: origin_of(parts)})
    assert real.headers == {
        "X-Era5-Dataset": "era5",
        "X-Era5-Sources": "cds, files",
        "X-Era5-Versions": "final, preliminary, unknown",
        "X-Era5-Credit": "Contains modified Copernicus Climate Change Service information 2001 to 2023; data ERA5, "
        "C3S/ECMWF (partly preliminary, ERA5T: 2023-01; version not stated: 2001-01; others final)",
    }
    generated = PartVersion(Month(2023, 1), ("sample",), "generated", nothing)
    made = AnswerOrigin({ERA5: origin_of([generated])})
    assert made.headers["X-Era5-Notice"].startswith("Generated sample data, not ERA5")
    assert made.headers["X-Era5-Versions"] == "generated"
    assert made.credit == "Generated sample data, not ERA5"
    assert AnswerOrigin({ERA5: origin_of([generated, parts[0]])}).notice
    assert AnswerOrigin({ERA5: origin_of([])}).headers == {
        "X-Era5-Dataset": "era5",
        "X-Era5-Sources": "unknown",
        "X-Era5-Versions": "unknown",
        "X-Era5-Credit": "Source unknown",
    }


def test_generated_hours_say_so_first_in_every_format(database_url: str, flat_months: FlatMonths) -> None:
    warehouse = Warehouse(database_url)
    load_month(warehouse, flat_months("2023-07"))
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE era5.ledger SET source = 'sample'")
    asked: dict[str, str | float] = {**HERE, "start_date": "2023-07-01", "end_date": "2023-07-01"}
    with served(warehouse) as client:
        for form in ("json", "csv", "flatbuffers"):
            answer = client.get("/v1/archive", params={**asked, "hourly": "temperature_2m", "format": form})
            assert answer.status_code == 200, answer.text
            assert answer.headers["x-era5-notice"].startswith("Generated sample data, not ERA5")
            assert answer.headers["x-era5-sources"] == "sample"
            if form == "json":
                assert answer.text.startswith('{"notice":"Generated sample data, not ERA5')
            if form == "csv":
                assert 'filename="sample-' in answer.headers["content-disposition"]
        assert client.get("/").headers["x-era5-notice"].startswith("Generated sample data, not ERA5")
        text = client.get("/").text
        assert text.index("Generated sample data, not ERA5: ") < text.index("What is loaded")


def test_an_answer_names_the_sources_of_added_variables_too(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(month="2023-07", names=("t2m",)))
    with served(warehouse, routes=routes) as client:
        first = client.get("/hours", params=JULY)
        load_month(warehouse, make(month="2023-07", names=("tp",), source="arco"))
        added = client.get("/hours", params=JULY)
    assert [answer.headers["X-Era5-Sources"] for answer in (first, added)] == ["cds", "arco, cds"]
    assert first.headers["etag"] != added.headers["etag"]


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
