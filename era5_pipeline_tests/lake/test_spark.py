"""Spark with two executors, by the program of docs/lake-engines.md, on a folder and on S3: the warehouse's answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest

from era5_pipeline_tests.commands import new_home
from era5_pipeline_tests.lake.test_lake_page import blocks_of, page_of
from era5_pipeline_tests.stores import KEY, SECRET, free_port

if TYPE_CHECKING:
    from benchmarks.engines import Subject
    from era5_pipeline_tests.stores import S3Server

SPARK = Path(os.environ["ERA5_TEST_SPARK"])
(PROGRAM,) = blocks_of(page_of("Spark"), "python")
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


# One block many times; one of two executors is killed when a part of them is done.
_KILLING = """
import json
import os
import threading
import time
from contextlib import suppress

import psutil
from py4j.protocol import Py4JError
from pyspark import SparkContext

from era5_pipeline.climate import everywhere
from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.everywhere import EverywhereQuestion
from era5_pipeline.climate.question import calendar_month
from era5_pipeline.lake.months import Lake
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.postgres.connect import Warehouse

BLOCKS = 100
years = YearSpan(2020, 2023)
question = EverywhereQuestion(BY_COLUMN["temperature_2m"], "mean", (calendar_month(7),), years, years)
with Warehouse(os.environ["URL"]).connect() as connection:
    (task,) = everywhere.lake_tasks(connection, Lake.of(Settings(_env_file=None)), question)
seen = {"done": 0}


def executors():
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                found.append(process)
    return found


def kill():
    while not seen["done"]:
        time.sleep(0.1)
        context = SparkContext._active_spark_context
        done = 0
        with suppress(AttributeError, Py4JError):  # while it starts
            done = everywhere._finished(context)
        for executor in executors()[:1] if done else ():
            executor.kill()
            seen["done"] = done


threading.Thread(target=kill, daemon=True).start()
rows = everywhere.all_rows(question, everywhere.answers_of_spark([task] * BLOCKS))
wanted = everywhere.all_rows(question, [everywhere.compute(task)] * BLOCKS)
print("ANSWERS" + json.dumps({
    "blocks": BLOCKS,
    "done": seen["done"],
    "rows": rows.num_rows,
    "same": rows.equals(wanted),
}))
"""

# Each virtual machine lives for seconds: compiling well took most of their time.
QUICK_JAVA = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
# A cluster on this machine, of two executors with a core and a gigabyte each.
_CLUSTER = {
    **QUICK_JAVA,
    "PYSPARK_SUBMIT_ARGS": "--master local-cluster[2,1,1024] --conf spark.ui.enabled=false pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
}
# The command era5 and its executors: this environment, and pyspark from the other.
(_PACKAGES,) = (SPARK / "venv" / "lib").glob("python3*/site-packages")
_ENVIRONMENT = {**_CLUSTER, "PYTHONPATH": str(_PACKAGES), "PYSPARK_PYTHON": sys.executable}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> dict[str, Any]:
    """What Spark and the warehouse answer: on four Julys of nine by nine places, in a lake on S3."""
    folder = tmp_path_factory.mktemp("spark")
    lake = {
        "ERA5_LAKE": f"s3://{s3_server.bucket()}/a/lake",
        "AWS_ENDPOINT_URL": s3_server.url,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with new_home() as home:
        home.run("db", "start", "--port", str(free_port()))
        sample = ("--source", "sample", "--area", "10/10/8/12")
        home.run("load", "--from", "2020", "--to", "2023", "--calendar-month", "7", *sample, code=0, **lake)
        url = home.run("db", "url", "--tcp").out.strip()
        found = _by_spark(folder, url, lake)
        answers = _beside_the_warehouse(found, url)
        july = ("climate", "--everywhere", "--calendar-month", "7", "--from", "2020", "--to", "2023", "--out")
        rows = {}
        for engine, more in (("warehouse", {}), ("spark", _ENVIRONMENT)):
            out = folder / f"{engine}.csv"
            home.run(*july, str(out), "--column", "t2m", "--engine", engine, code=0, **lake, **more)
            rows[engine] = out.read_text().splitlines()
        answers["everywhere"] = (rows["spark"], rows["warehouse"])
        answers["killed"] = _run(Path(sys.executable), folder, _KILLING, {**lake, **_ENVIRONMENT, "URL": url})
    return answers


def _beside_the_warehouse(found: dict[str, list[Any]], url: str) -> dict[str, tuple[list[Any], list[Any]]]:
    with psycopg.connect(url, options="-c TimeZone=UTC") as connection:
        wanted = {
            name: connection.execute(query.format("weather").encode(), binary=True).fetchall()
            for name, (_, query) in QUESTIONS.items()
        }
    return {name: (found[name], [list(row) for row in rows]) for name, rows in wanted.items()}


def _by_spark(folder: Path, url: str, lake: dict[str, str]) -> dict[str, list[Any]]:
    jars = ",".join(map(str, sorted((SPARK / "jars").glob("*.jar"))))
    questions = {name: query.format("era5.era5.weather") for name, (query, _) in QUESTIONS.items()}
    # The jars are here already; on a user's machine Spark gets them.
    program = PROGRAM.replace('.config("spark.jars.packages", JARS)', f'.config("spark.jars", "{jars}")')
    assert program != PROGRAM
    parts = urlsplit(url)
    jdbc = f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}"
    env = {**lake, "JDBC": f"{jdbc}?user={parts.username}&password={parts.password}", **_CLUSTER}
    answers: dict[str, list[Any]] = _run(
        SPARK / "venv" / "bin" / "python",
        folder,
        f"QUESTIONS = {questions!r}\n{program}{_ENDING}",
        {**env, "PYSPARK_PYTHON": str(SPARK / "venv" / "bin" / "python")},
    )
    return answers


def _run(python: Path, folder: Path, program: str, env: dict[str, str]) -> Any:
    """Run a program, and return the answers that it prints."""
    (folder / "program.py").write_text(program)
    ran = subprocess.run(
        [str(python), "program.py"],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("ANSWERS"))
    return json.loads(line.removeprefix("ANSWERS"))


@pytest.fixture(scope="module")
def answers_of_85_years(all_years: Subject, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same questions on 1,020 months of two places, in a folder."""
    url = all_years.warehouse.url
    found = _by_spark(tmp_path_factory.mktemp("spark"), url, {"ERA5_LAKE": all_years.lake.place.address})
    return _beside_the_warehouse(found, url)


def test_an_executor_that_is_killed_costs_nothing(answers: dict[str, Any]) -> None:
    killed = answers["killed"]
    assert 0 < killed["done"] < killed["blocks"]
    assert killed["rows"] == killed["blocks"] * 81
    assert killed["same"]


def test_climate_everywhere_by_spark_is_that_of_the_warehouse(answers: dict[str, Any]) -> None:
    found, wanted = answers["everywhere"]
    assert len(wanted) == 1 + 81
    assert found == wanted


@pytest.mark.parametrize("lake", ["answers", "answers_of_85_years"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_spark_answers_as_the_warehouse(request: pytest.FixtureRequest, lake: str, question: str) -> None:
    found, wanted = request.getfixturevalue(lake)[question]
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert one[0] == other[0]
        for value, of_warehouse in zip(one[1:], other[1:], strict=True):
            assert value is of_warehouse is None or value == pytest.approx(float(of_warehouse), rel=1e-9)
