"""The requests of docs/http.md, on real hours, give the answers written there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.serving.application import make_app
from era5_pipeline.serving.requests import ServingLimits
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.real_months import MEKONG
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from era5_pipeline_tests.real_months import RealMonths

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
EXAMPLES = list(dict.fromkeys(re.findall(r"^\$ curl -s 'http://127\.0\.0\.1:8000([^']+)'\n(.+)$", PAGE, re.MULTILINE)))
PATHS = make_app(Warehouse("postgresql://nobody@192.0.2.1:1/era5")).openapi()["paths"]


@pytest.fixture(scope="module")
def client(shared_database_url: str, real_months: RealMonths) -> Iterator[httpx.Client]:
    """June and July 2022 near Ho Chi Minh City."""
    real_months.loading(MEKONG.of("2022-06", "2022-07"))(shared_database_url)
    with served(Warehouse(shared_database_url)) as client:
        yield client


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 3


@pytest.mark.parametrize(("url", "written"), EXAMPLES, ids=[url for url, _ in EXAMPLES])
def test_a_request_gives_the_answer_that_is_written(client: httpx.Client, url: str, written: str) -> None:
    if url.split("?", maxsplit=1)[0] not in PATHS:
        pytest.skip("there is no such route")
    answer, expected = client.get(url).json(), json.loads(written)
    assert list(answer) == list(expected)
    assert without_time(answer) == without_time(expected)


def without_time(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "generationtime_ms"}


def test_the_limits_are_those_of_the_settings() -> None:
    rows = dict(re.findall(r"^\| `ERA5_(SERVE_\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
    fields = {name: field.default for name, field in Settings.model_fields.items() if name.startswith("serve_")}
    assert {name.lower(): float(number.replace(",", "")) for name, number in rows.items()} == fields
    assert f"{ServingLimits().url_bytes:,} bytes" in PAGE


def test_every_metric_is_described_and_none_other(client: httpx.Client) -> None:
    found = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.MULTILINE))
    described = set(re.findall(r"`(era5_http_\w+)", PAGE))
    created = {name for name in found if name.endswith("_created")}
    assert described == found - created
