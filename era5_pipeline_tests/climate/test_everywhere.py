"""Trends and normals at every place: by each engine the same as those of single places, from the hours by SQL."""

from __future__ import annotations

import csv
import math
import os
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import psycopg
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.climate import everywhere
from era5_pipeline.climate.answer import Trend, YearSpan
from era5_pipeline.climate.everywhere import EverywhereQuestion, LakeTask, MonthlySums, answer_of, blocks_of, compute
from era5_pipeline.climate.question import WHOLE_YEAR, calendar_month, season
from era5_pipeline.climate.regression import METHOD
from era5_pipeline.climate.trends import trend_of
from era5_pipeline.lake.catalog import LakePlace
from era5_pipeline.lake.months import Lake
from era5_pipeline.model.errors import StoreError, TransientError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import InProcess, assert_explained, new_home
from era5_pipeline_tests.dask_clusters import dask_cluster, kill
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

YEARS = YearSpan(2000, 2021)
# Hours of a July by column; totals: those of the hours that end in July or at the first instant of August.
JULYS = {
    "temperature_2m": "SELECT location_id, extract(year FROM time)::int, avg(temperature_2m::float8) FROM weather "
    "WHERE extract(month FROM time) = 7 GROUP BY 1, 2",
    "total_precipitation": "SELECT location_id, extract(year FROM time)::int, sum(total_precipitation::float8) "
    "FROM weather WHERE extract(month FROM time - interval '1 hour') = 7 GROUP BY 1, 2",
}


@dataclass(frozen=True)
class Loaded:
    """A warehouse and a lake with the same months."""

    warehouse: Warehouse
    lake: Lake

    @property
    def settings(self) -> dict[str, str]:
        return {"ERA5_DATABASE_URL": self.warehouse.url, "ERA5_LAKE": self.lake.place.address}


@pytest.fixture(scope="module")
def loaded(server_url: str, flat_months: FlatMonths, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """A warehouse and a lake with 22 Julys and an August at five by five places, a July without some of them."""
    folder = tmp_path_factory.mktemp("lake")
    lake = Lake(LakePlace(str(folder)), open_store(str(folder)), tmp_path_factory.mktemp("home"))
    with fresh_warehouse(server_url) as warehouse:
        with warehouse.connect() as connection:
            lake.require(connection)
        for month in (*(f"{year}-07" for year in range(2000, 2022)), "2021-08"):
            flat = flat_months(month, points=(5, 5), north=10.0, west=10.0, seed=int(month[:4]))
            load_month(warehouse, flat, alongside=lake.prepared(warehouse, flat))
        july, some = Month.parse("2003-07"), LocationSet.of_area(Area.parse("10/10/9/10.25"))
        drop_month(warehouse, july, some, alongside=partial(lake.remove, july))
        yield Loaded(warehouse, lake)


@pytest.fixture
def without_trends(loaded: Loaded) -> None:
    """Tests share the warehouse, and its table of trends, which one of them changes."""
    with psycopg.connect(loaded.warehouse.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS weather_trend")


@pytest.fixture
def here(loaded: Loaded, here: InProcess) -> InProcess:
    """The command, on this warehouse and this lake."""
    here.set(**loaded.settings)
    return here


def july_trends(warehouse: Warehouse, column: str) -> dict[int, tuple[Any, float]]:
    """The trend of each place by the scalar program, and its normal, from a table that SQL makes of the hours."""
    with warehouse.connect() as connection:
        rows = connection.execute(JULYS[column].encode()).fetchall()
    table = pd.DataFrame(rows, columns=["location_id", "year", "value"])
    julys = {place: of.set_index("year")["value"].sort_index() for place, of in table.groupby("location_id")}
    return {int(str(place)): (trend_of(values), float(values.mean())) for place, values in julys.items()}


@pytest.mark.parametrize("column", JULYS)
@pytest.mark.parametrize("engine", ["warehouse", "dask"])
def test_each_place_has_the_trend_of_the_scalar_program(
    here: InProcess, loaded: Loaded, tmp_path: Path, engine: str, column: str
) -> None:
    out = tmp_path / "july.csv"
    printed = here.run(
        *("climate", "--everywhere", "--calendar-month", "7", "--baseline", "2000-2021"),
        *("--engine", engine, "--column", column, "--out", str(out)),
    )
    assert f"{column} July 2000-2021: a trend at 25 of 25 places" in printed.out
    with out.open() as file:
        rows = list(csv.DictReader(file))
    wanted = july_trends(loaded.warehouse, column)
    assert {int(row["location_id"]) for row in rows} == set(wanted)
    for row in rows:
        trend, normal = wanted[int(row["location_id"])]
        assert isinstance(trend, Trend)
        of_trend = {"effective_years": "effective_count"}
        for name in ("slope", "low", "high", "p", "lag1", "effective_years"):
            assert float(row[name]) == pytest.approx(getattr(trend, of_trend.get(name, name)), rel=2e-4, abs=1e-5)
        assert row["method"] == METHOD
        assert (int(row["first_year"]), int(row["last_year"])) == (trend.years.first, trend.years.last)
        assert int(row["years"]) == int(row["baseline_years"]) == trend.count
        assert float(row["normal"]) == pytest.approx(normal, rel=1e-6)
    assert {int(row["years"]) for row in rows} == {21, 22}


@pytest.mark.usefixtures("without_trends")
def test_all_parts_of_the_year_are_saved_and_saved_again(here: InProcess, loaded: Loaded) -> None:
    asked = ("climate", "--everywhere", "--all-parts", "--baseline", "2000-2021", "--save")
    assert "wrote 50 rows into the table weather_trend" in here.run(*asked).out
    with psycopg.connect(loaded.warehouse.url, autocommit=True) as connection:
        of_parts: dict[str, int] = dict(
            connection.execute("SELECT part, count(*) FROM weather_trend GROUP BY part").fetchall()
        )
        assert of_parts == {"07": 25, "08": 25}
        before = connection.execute("SELECT * FROM weather_trend ORDER BY part, location_id").fetchall()
        here.run(*asked, "--engine", "dask", "--area", "9.5/10/9/11")
        after = connection.execute("SELECT * FROM weather_trend ORDER BY part, location_id").fetchall()
        assert [row[:-1] for row in after] == [row[:-1] for row in before]
        # Only the rows of the area are new.
        assert {row[1] for row, old in zip(after, before, strict=True) if row[-1] != old[-1]} == {9.0, 9.25, 9.5}
        comments = connection.execute(
            "SELECT count(*), count(col_description(attrelid, attnum)) FROM pg_attribute "
            "WHERE attrelid = 'weather_trend'::regclass AND attnum > 0"
        ).fetchone()
    assert comments is not None
    assert comments[0] == comments[1]


@pytest.mark.usefixtures("without_trends")
@pytest.mark.parametrize("by", ["save", "init"])
def test_a_table_of_an_older_version_gets_its_columns(here: InProcess, loaded: Loaded, by: str) -> None:
    save = ("climate", "--everywhere", "--calendar-month", "7", "--save")
    here.run(*save)
    with psycopg.connect(loaded.warehouse.url, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE weather_trend DROP COLUMN p, DROP COLUMN lag1, DROP COLUMN effective_years, DROP COLUMN method"
        )
        here.run(*(save if by == "save" else ("db", "init")))
        rows = connection.execute("SELECT slope IS NULL, p IS NULL, method FROM weather_trend").fetchall()
    assert len(rows) == 25
    # Rows that were there do not say by which method they were computed.
    assert set(rows) == ({(False, False, METHOD)} if by == "save" else {(False, True, None)})


@pytest.mark.usefixtures("without_trends")
def test_a_strangers_table_of_the_same_name_is_left_alone(here: InProcess, loaded: Loaded) -> None:
    with psycopg.connect(loaded.warehouse.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE weather_trend AS SELECT 1 AS hottest")
        for command in (("climate", "--everywhere", "--calendar-month", "7", "--save"), ("db", "init")):
            assert_explained(here.run(*command, code=5), "weather_trend is none of this program")
        assert connection.execute("SELECT * FROM weather_trend").fetchall() == [(1,)]


def test_a_map_and_a_table_are_written(here: InProcess, tmp_path: Path) -> None:
    july = ("climate", "--everywhere", "--calendar-month", "7")
    here.run(*july, "--out", str(tmp_path / "trend.svg"), "--title", "Warmer Julys")
    drawn = (tmp_path / "trend.svg").read_text()
    assert "Warmer Julys" in drawn
    assert "per decade" in drawn
    here.run(*july, "--area", "9.5/10.5/9/11", "--out", str(tmp_path / "trend.parquet"))
    assert pq.read_table(tmp_path / "trend.parquet").num_rows == 9


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "--everywhere needs to know where its answer goes"),
        (("--save", "--place", "Jakarta"), "--place does not go with --everywhere"),
        (("--save", "--season", "JJA", "--calendar-month", "7"), "cannot be combined"),
        (("--out", "map.png", "--all-parts"), "a map shows one part of the year"),
        (("--save", "--column", "wind_speed_10m"), "wind_speed_10m is computed from hours"),
        (("--save", "--from", "2020", "--to", "2010"), "the years 2020-2010 are empty"),
        (("--save", "--engine", "spark"), "--engine spark needs pyspark"),
        (("--out", "trend.xyz"), "--out"),
    ],
)
def test_options_that_do_not_fit_are_refused(here: InProcess, options: tuple[str, ...], what: str) -> None:
    assert_explained(here.run("climate", "--everywhere", *options, code=2), what)


def test_years_or_places_that_are_not_there_are_an_error(here: InProcess, tmp_path: Path) -> None:
    july = ("climate", "--everywhere", "--calendar-month", "7", "--out", str(tmp_path / "x.csv"))
    for engine in ("warehouse", "dask"):
        of_engine = (*july, "--engine", engine)
        assert_explained(here.run(*of_engine, "--area", "50/0/49/1", code=3), "no place in the area is loaded")
        early = ("--from", "1950", "--to", "1980", "--baseline", "1961-1990")
        here.run(*of_engine, *early, code=3)
    assert not (tmp_path / "x.csv").exists()
    assert_explained(here.run("climate", "--save", "--place", "Jakarta", code=2), "--save needs --everywhere")


def test_a_worker_that_is_killed_costs_nothing_and_a_lost_scheduler_is_said(loaded: Loaded) -> None:
    """One worker of two dies with blocks in hand; later the scheduler does."""
    tasks = many_tasks(loaded)
    with dask_cluster(2) as cluster:
        blocks = everywhere.answers_of_dask(tasks, cluster.address)
        first = next(blocks)
        kill(cluster.workers[0])
        rows = everywhere.all_rows(tasks[0].question, [first, *blocks])
        assert rows.num_rows == 25 * len(tasks)
        blocks = everywhere.answers_of_dask(tasks, cluster.address)
        next(blocks)
        assert cluster.scheduler is not None
        threading.Timer(0.1, kill, (cluster.scheduler,)).start()
        with pytest.raises(TransientError, match="the connection to the Dask scheduler"):
            deque(blocks)


def many_tasks(loaded: Loaded) -> list[LakeTask]:
    """The same block forty times."""
    question = EverywhereQuestion(BY_COLUMN["temperature_2m"], "mean", (calendar_month(7),), YEARS, YEARS)
    with loaded.warehouse.connect() as connection:
        (task,) = everywhere.lake_tasks(connection, loaded.lake, question)
    return [task] * 40


def test_a_worker_of_another_version_is_refused(loaded: Loaded) -> None:
    (task, *_) = many_tasks(loaded)
    old = LakeTask(task.question, task.place, task.ids, task.files, version="0.0.1")
    with pytest.raises(UsageError, match=r"this process 0\.0\.1"):
        compute(old)


def test_hours_of_a_lake_on_s3_are_read_and_a_lost_file_is_said(
    store_address: str, warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    lake = Lake(LakePlace(store_address), open_store(store_address), tmp_path)
    flat = flat_months(points=(2, 3))
    with warehouse.connect() as connection:
        lake.require(connection)
    load_month(warehouse, flat, alongside=lake.prepared(warehouse, flat))
    years = YearSpan(2023, 2023)
    for column, statistic in (("temperature_2m", "mean"), ("total_precipitation", "sum"), ("snowfall", "sum")):
        question = EverywhereQuestion(BY_COLUMN[column], statistic, (calendar_month(7),), years, years)  # type: ignore[arg-type]
        with warehouse.connect() as connection:
            (task,) = everywhere.lake_tasks(connection, lake, question)
        # No month has the last column.
        assert compute(task).num_rows == (0 if column == "snowfall" else 6)
    for file in lake.store.objects():
        if file.key.endswith(".parquet"):
            lake.store.remove(file.key)
    with pytest.raises(StoreError, match="the lake"):
        compute(task)


def test_the_command_reads_a_lake_on_s3_by_workers_of_dask(s3_address: str, tmp_path: Path) -> None:
    """Twenty-one Julys, so that there is a trend; the environment has the server's address and keys."""
    july = ("climate", "--everywhere", "--calendar-month", "7", "--baseline", "2001-2020", "--out")
    with new_home() as home:
        home.run("db", "start", "--port", str(free_port()))
        sample = ("--source", "sample", "--area", "10/10/9.75/10.25")
        of_s3 = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        lake = {**of_s3, "ERA5_LAKE": s3_address}
        home.run("load", "--from", "2000", "--to", "2020", "--calendar-month", "7", *sample, code=0, **lake)
        rows = {}
        for engine in ("warehouse", "dask"):
            out = tmp_path / f"{engine}.csv"
            home.run(*july, str(out), "--engine", engine, code=0, **lake)
            rows[engine] = list(csv.DictReader(out.read_text().splitlines()))
    assert rows["dask"] == rows["warehouse"]
    assert len(rows["dask"]) == 4
    assert all(row["slope"] and row["normal"] for row in rows["dask"])


# ---- without a server


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_sums_of_any_rows_give_the_mean_of_each_complete_part(data: st.DataObject) -> None:
    """Hours that come in several pieces, of some of the months, at some of the places."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    part = data.draw(st.sampled_from([WHOLE_YEAR, season("DJF"), season("JJA"), calendar_month(2)]))
    statistic: Any = data.draw(st.sampled_from(["mean", "sum"]))
    years = YearSpan(1999, 1999 + data.draw(st.integers(0, 3)))
    ids = np.sort(random.choice(np.arange(5, 40), 6, replace=False)).astype(np.int32)
    question = EverywhereQuestion(BY_COLUMN["temperature_2m"], statistic, (part,), years, years)
    sums = MonthlySums(question.months, ids)
    rows = []
    for number in range(question.months[0] - 1, question.months[-1] + 2):
        full = pd.Period(year=number // 12, month=number % 12 + 1, freq="M").days_in_month * 24
        for place in (*ids.tolist(), 3, 1000):
            hours = int(random.choice([full, full - 24, full - 25, 0], p=[0.9, 0.04, 0.03, 0.03]))
            cut = int(random.integers(0, hours + 1))
            rows += [(number, place, float(random.normal()) * n, n) for n in (cut, hours - cut) if n]
    table = pd.DataFrame(rows, columns=["month", "id", "sum", "hours"]).sample(frac=1.0, random_state=1)
    sums.add(*(table[name].to_numpy(kind) for name, kind in zip(table, ("i4", "i4", "f8", "i4"), strict=True)))
    found = sums.of_part(part, years, statistic)
    for row, year in enumerate(range(years.first, years.last + 1)):
        numbers = [day.year * 12 + day.month - 1 for day in part.starts(year)]
        for column, place in enumerate(ids):
            own = table[(table["id"] == place) & table["month"].isin(numbers)]
            if part.hours(year) - own["hours"].sum() > 24:
                assert math.isnan(found[row, column])
            else:
                total = own["sum"].sum()
                wanted = total if statistic == "sum" else total / own["hours"].sum()
                assert found[row, column] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_places_without_any_complete_year_have_no_row() -> None:
    question = EverywhereQuestion(BY_COLUMN["temperature_2m"], "mean", (calendar_month(7),), YEARS, YEARS)
    sums = MonthlySums(question.months, np.array([1, 2], dtype=np.int32))
    sums.add(2005 * 12 + 6, np.array([2], dtype=np.int32), np.array([744.0]), np.array([744], dtype=np.int32))
    (row,) = answer_of(question, sums).to_pylist()
    assert (row["location_id"], row["first_year"], row["last_year"], row["years"]) == (2, 2005, 2005, 1)
    assert row["slope"] is row["low"] is row["normal"] is None


def test_blocks_cover_the_locations_once() -> None:
    places = LocationSet.of_ids([*range(1, 4000), 700_000])
    blocks = blocks_of(places)
    assert [block.size for block in blocks] == [2880, 1120]
    assert LocationSet.of_ids(np.concatenate(blocks)) == places
    assert blocks_of(LocationSet()) == []
