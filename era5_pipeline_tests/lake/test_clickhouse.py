"""ClickHouse on the lake, by the program of docs/lake-engines.md: its answers are the warehouse's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.engines import QUESTIONS as THREE
from benchmarks.engines import Clickhouse
from era5_pipeline_tests.lake.test_engines import assert_same
from era5_pipeline_tests.lake.test_lake_page import blocks_of, of_warehouse, page_of
from era5_pipeline_tests.lake.test_months import lake_at, load, table_of
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import aws_environment

if TYPE_CHECKING:
    from benchmarks.engines import Subject
    from era5_pipeline_tests.flat_months import FlatMonths

CLICKHOUSE = Path(os.environ["ERA5_TEST_CLICKHOUSE"])
(PROGRAM,) = blocks_of(page_of("ClickHouse"), "python")
sys.path.append(str(CLICKHOUSE))
# Each question to ClickHouse, and to PostgreSQL.
QUESTIONS = {
    "a place": (
        "SELECT toUnixTimestamp(time), temperature_2m FROM {} WHERE location_id = 565240 ORDER BY time",
        "SELECT extract(epoch FROM time)::bigint, temperature_2m FROM {} WHERE location_id = 565240 ORDER BY time",
    ),
    "some hours of two months": (
        "SELECT toUnixTimestamp(time), location_id, temperature_2m FROM {} "
        "WHERE time >= '2023-07-31 22:00:00' AND time < '2023-08-01 02:00:00' ORDER BY ALL",
        "SELECT extract(epoch FROM time)::bigint, location_id, temperature_2m FROM {} "
        "WHERE time >= '2023-07-31 22:00:00+00' AND time < '2023-08-01 02:00:00+00' ORDER BY 1, 2",
    ),
    "means of months": (
        "SELECT toMonth(time) AS month, count(), count(temperature_2m), avg(toFloat64(temperature_2m)) FROM {} "
        "GROUP BY month ORDER BY month",
        "SELECT extract(month FROM time)::int AS month, count(*), count(temperature_2m), avg(temperature_2m::float8) "
        "FROM {} GROUP BY month ORDER BY month",
    ),
    "trends": (
        "SELECT location_id, covarPop(mean, month) / varPop(month) FROM (SELECT location_id, toFloat64(toMonth(time)) "
        "AS month, avg(toFloat64(temperature_2m)) AS mean FROM {} GROUP BY ALL) GROUP BY 1 ORDER BY 1",
        "SELECT location_id, regr_slope(mean, month) FROM (SELECT location_id, extract(month FROM time) AS month, "
        "avg(temperature_2m::float8) AS mean FROM {} GROUP BY 1, 2) AS months GROUP BY 1 ORDER BY 1",
    ),
}
_ENDING = """
import json
answers = {
    name: [json.loads(line) for line in str(clickhouse.query(query.format(table), "JSONCompactEachRow")).splitlines()]
    for name, query in QUESTIONS.items()
}
print("ANSWERS" + json.dumps([float(str(answer)), answers]))
"""


@pytest.fixture(scope="module", params=["folder", "s3"])
def answers(
    request: pytest.FixtureRequest, server_url: str, flat_months: FlatMonths, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[list[Any], list[Any]]]:
    """What ClickHouse and the warehouse answer, on two months of which one was replaced."""
    folder = tmp_path_factory.mktemp("clickhouse")
    (folder / "lake").mkdir()
    server = request.getfixturevalue("s3_server") if request.param == "s3" else None
    with fresh_warehouse(server_url) as warehouse, nullcontext() if server is None else aws_environment(server.url):
        lake = lake_at(str(folder / "lake") if server is None else f"s3://{server.bucket()}/lake", folder / "home")
        points: Any = {"points": (3, 3), "north": 8.5, "west": 10.0}
        load(lake, warehouse, flat_months("2023-07", **points, seed=2))
        of_first = table_of(lake, warehouse).metadata_location.rpartition("/")[2]
        load(lake, warehouse, flat_months("2023-07", **points))
        load(lake, warehouse, flat_months("2023-08", **points, missing=0.1))
        location = table_of(lake, warehouse).metadata_location
        # Such as a load leaves that wrote its metadata, and then failed.
        lake.store.download(f"weather/metadata/{of_first}", folder / of_first)
        lake.store.upload(folder / of_first, f"weather/metadata/00099-{of_first.partition('-')[2]}")
        wanted = {name: of_warehouse(warehouse, query.format("weather")) for name, (_, query) in QUESTIONS.items()}
        of_page = of_warehouse(
            warehouse, "SELECT avg(temperature_2m::double precision) FROM weather WHERE location_id = 565240"
        )
        found = _by_clickhouse(folder, location)
    return {name: (found[name], [list(row) for row in rows]) for name, rows in {**wanted, "page": of_page}.items()}


def _by_clickhouse(folder: Path, location: str) -> dict[str, list[Any]]:
    questions = {name: query for name, (query, _) in QUESTIONS.items()}
    (folder / "program.py").write_text(f"QUESTIONS = {questions!r}\n{PROGRAM}{_ENDING}")
    ran = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, "LAKE": location, "PYTHONPATH": str(CLICKHOUSE)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("ANSWERS"))
    answer, answers = json.loads(line.removeprefix("ANSWERS"))
    return {**answers, "page": [[answer]]}


@pytest.mark.parametrize("question", [*QUESTIONS, "page"])
def test_clickhouse_answers_as_the_warehouse(answers: dict[str, tuple[list[Any], list[Any]]], question: str) -> None:
    found, wanted = answers[question]
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert [None if value is None else float(value) for value in one] == [
            value if value is None else pytest.approx(float(value), rel=1e-7) for value in other
        ]


@pytest.mark.parametrize("question", THREE)
def test_the_three_questions_of_85_years(all_years: Subject, question: str) -> None:
    assert_same(Clickhouse, all_years, question)
