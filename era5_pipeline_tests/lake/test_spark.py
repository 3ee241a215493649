"""Spark with two executors on the lake, by the program of docs/lake.md: its answers are the warehouse's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from era5_pipeline_tests.commands import ROOT, new_home
from era5_pipeline_tests.stores import free_port

SPARK = Path(os.environ["ERA5_TEST_SPARK"])
PAGE = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
(PROGRAM,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "pyspark" in block)
# Each question to Spark, and to PostgreSQL where its words differ.
QUESTIONS = {
    "a place": (
        "SELECT unix_timestamp(time) AS at, temperature_2m FROM {} WHERE location_id = 565240 ORDER BY at",
        "SELECT extract(epoch FROM time)::bigint AS at, temperature_2m FROM {} WHERE location_id = 565240 ORDER BY at",
    ),
    "means of months": (
        "SELECT year(time) * 100 + month(time) AS month, count(*), avg(temperature_2m) FROM {} "
        "GROUP BY month ORDER BY month",
        "SELECT extract(year FROM time)::int * 100 + extract(month FROM time)::int AS month, count(*), "
        "avg(temperature_2m::float8) FROM {} GROUP BY month ORDER BY month",
    ),
    "trends": (
        "SELECT location_id, degrees_per_year FROM trends ORDER BY location_id",
        "SELECT location_id, regr_slope(mean, year) FROM (SELECT location_id, extract(year FROM time) AS year, "
        "avg(temperature_2m::float8) AS mean FROM {} GROUP BY 1, 2) AS years GROUP BY 1 ORDER BY 1",
    ),
}
_ENDING = """
import json
trends.createOrReplaceTempView("trends")
answers = {name: [list(row) for row in spark.sql(query).collect()] for name, query in QUESTIONS.items()}
print("ANSWERS" + json.dumps(answers))
spark.stop()
"""


# A cluster on this machine, of two executors with a core and a gigabyte each.
_CLUSTER = {
    "PYSPARK_SUBMIT_ARGS": "--master local-cluster[2,1,1024] --conf spark.ui.enabled=false pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
}
# The command era5 and its executors: this environment, and pyspark from the other.
(_PACKAGES,) = (SPARK / "venv" / "lib").glob("python3*/site-packages")
_ENVIRONMENT = {**_CLUSTER, "PYTHONPATH": str(_PACKAGES), "PYSPARK_PYTHON": sys.executable}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Any], list[Any]]]:
    """What Spark and the warehouse answer, on four Julys of nine by nine places."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "lake").mkdir()
    with new_home() as home:
        home.run("db", "start", "--port", str(free_port()))
        sample = ("--source", "sample", "--area", "10/10/8/12")
        lake = {"ERA5_LAKE": str(folder / "lake")}
        home.run("load", "--from", "2020", "--to", "2023", "--calendar-month", "7", *sample, code=0, **lake)
        url = home.run("db", "url", "--tcp").out.strip()
        with psycopg.connect(url) as connection:
            wanted = {
                name: connection.execute(query.format("weather").encode(), binary=True).fetchall()
                for name, (_, query) in QUESTIONS.items()
            }
        found = _by_spark(folder, url, lake)
        july = ("climate", "--everywhere", "--calendar-month", "7", "--from", "2020", "--to", "2023", "--out")
        for column in ("t2m", "tp"):
            for engine, more in (("warehouse", {}), ("spark", _ENVIRONMENT)):
                out = folder / f"{engine}-{column}.csv"
                home.run(*july, str(out), "--column", column, "--engine", engine, code=0, **lake, **more)
                found[f"{engine} {column}"] = [out.read_text().splitlines()]
    answers = {name: (found[name], [list(row) for row in rows]) for name, rows in wanted.items()}
    return answers | {f"everywhere {of}": (found[f"spark {of}"], found[f"warehouse {of}"]) for of in ("t2m", "tp")}


def _by_spark(folder: Path, url: str, lake: dict[str, str]) -> dict[str, list[Any]]:
    jars = ",".join(map(str, sorted((SPARK / "jars").glob("*.jar"))))
    questions = {name: query.format("era5.era5.weather") for name, (query, _) in QUESTIONS.items()}
    # The jars are here already; on a user's machine Spark gets them.
    program = PROGRAM.replace('.config("spark.jars.packages", JARS)', f'.config("spark.jars", "{jars}")')
    assert program != PROGRAM
    (folder / "program.py").write_text(f"QUESTIONS = {questions!r}\n{program}{_ENDING}")
    parts = urlsplit(url)
    ran = subprocess.run(
        [str(SPARK / "venv" / "bin" / "python"), "program.py"],
        cwd=folder,
        env={
            **os.environ,
            **lake,
            "JDBC": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}?user={parts.username}"
            f"&password={parts.password}",
            **_CLUSTER,
            "PYSPARK_PYTHON": str(SPARK / "venv" / "bin" / "python"),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("ANSWERS"))
    answers: dict[str, list[Any]] = json.loads(line.removeprefix("ANSWERS"))
    return answers


@pytest.mark.parametrize("column", ["t2m", "tp"])
def test_climate_everywhere_by_spark_is_that_of_the_warehouse(
    answers: dict[str, tuple[list[Any], list[Any]]], column: str
) -> None:
    (found,), (wanted,) = answers[f"everywhere {column}"]
    assert len(wanted) == 1 + 81
    assert found == wanted


@pytest.mark.parametrize("question", QUESTIONS)
def test_spark_answers_as_the_warehouse(answers: dict[str, tuple[list[Any], list[Any]]], question: str) -> None:
    found, wanted = answers[question]
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert one[0] == other[0]
        assert one[1:] == pytest.approx([float(value) for value in other[1:]], rel=1e-9)
