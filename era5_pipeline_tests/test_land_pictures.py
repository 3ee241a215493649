"""Maps, climate answers and pages of ERA5-Land, on every layout: at the coast of Ghana, as in `test_land`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from era5_pipeline.climate.question import calendar_month, climate_question
from era5_pipeline.climate.reading import read_climate
from era5_pipeline.maps.question import DayQuestion, HourQuestion, PeriodQuestion
from era5_pipeline.maps.read import read_map
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import parse_day, parse_instant
from era5_pipeline.postgres.dataset_connection import connect_for
from era5_pipeline.report.page import statements
from era5_pipeline.warehouse.monthly_tables import make_ready
from era5_pipeline_tests import test_land
from era5_pipeline_tests.commands import assert_explained
from era5_pipeline_tests.test_land import AT_SEA, IS_LAND, LAND, ON_LAND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess

both, here = test_land.both, test_land.here

TEMPERATURE, RAIN = (ERA5_LAND.catalogue.find(name) for name in ("t2m", "tp"))
COAST = Area.parse("5/-2.3/4.8/-2", ERA5_LAND.grid)
AT_COAST = ("--area", "5/-2.3/4.8/-2")
DRY = "2023-07-02T05"  # sums fall, by the packing


@pytest.fixture
def connection(both: Warehouse) -> Iterator[psycopg.Connection[Any]]:
    with connect_for(ERA5_LAND, both.url, autocommit=True) as opened:
        yield opened


def test_a_map_has_the_cells_of_its_grid_and_a_blank_sea(connection: psycopg.Connection[Any]) -> None:
    hour = read_map(connection, HourQuestion(parse_instant(DRY)), RAIN, COAST)
    assert (hour.field.values == 0.0).sum() == IS_LAND.sum()
    assert (np.isfinite(hour.field.values) == IS_LAND[::-1]).all()
    assert hour.field.longitudes == pytest.approx([-2.3, -2.2, -2.1, -2.0])
    assert (hour.lines, hour.asides) == ([], ["at sea, ERA5-Land has no values"])
    assert "At sea, ERA5-Land has no values" in hour.notes
    assert "data ERA5-Land, C3S/ECMWF" in hour.origin.credit
    # Without an area, of a day and a month: those of the rows.
    for question, first, after in (
        (DayQuestion(parse_day("2023-07-02"), "sum"), "2023-07-02T01:00Z", "2023-07-03T01:00Z"),
        (PeriodQuestion(calendar_month(7), 2023, "sum"), "2023-07-01T01:00Z", "2023-08-01T01:00Z"),
    ):
        rows = connection.execute(
            "SELECT sum(total_precipitation::float8) FROM weather_land WHERE time >= %s AND time < %s "
            "GROUP BY location_id ORDER BY location_id",
            (first, after),
        ).fetchall()
        answer = read_map(connection, question, RAIN)
        assert answer.field.values[np.isfinite(answer.field.values)] == pytest.approx(
            [one for (one,) in rows], rel=1e-6
        )


def test_the_commands_say_what_is_drawn(here: InProcess, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    of_hour = here.run("map", *LAND, "--time", DRY, "--column", "tp", *AT_COAST, "--out", str(picture), "--strict")
    assert f"{IS_LAND.sum()} locations, 0.000 to 0.000 mm (" in of_hour.out
    assert of_hour.err == "at sea, ERA5-Land has no values\n"
    moving = tmp_path / "day.gif"
    of_day = here.run("map", *LAND, "--day", "2023-07-02", "--column", "tp", "--every", "6h", "--out", str(moving))
    assert f"{IS_LAND.sum()} grid points" in of_day.out
    assert "data ERA5-Land, C3S/ECMWF" in of_day.out
    assert of_day.err == "at sea, ERA5-Land has no values\n"
    with Image.open(moving) as image:
        assert getattr(image, "n_frames", 1) == 4
    out = ("--out", str(picture))
    for asked, words in (
        (("map", *LAND, "--time", "1949-07-01T00", "--column", "tp", *out), "1949-07 is before ERA5-Land begins"),
        (("map", *LAND, "--trend", "1945-1990", "--column", "tp", *out), "1945-01 is before ERA5-Land begins"),
        (("map", *LAND, "--time", DRY, "--column", "tcc", *out), "ERA5-Land has no 'tcc'"),
        (("climate", *LAND, *ON_LAND, "--baseline", "1941-1970"), "1941-01 is before ERA5-Land begins"),
    ):
        assert_explained(here.run(*asked, code=2), words)


def test_a_climate_answer_and_its_page_name_the_data_set(
    here: InProcess, tmp_path: Path, connection: psycopg.Connection[Any]
) -> None:
    printed = here.run("climate", *LAND, *ON_LAND).out
    assert "the cell of ERA5-Land at 5 N 2 W (location_id" in printed
    assert "about 11 km (0.1 degrees)" in printed
    value = json.loads(here.run("climate", *LAND, *ON_LAND, "--format", "json").out)
    assert "data ERA5-Land, C3S/ECMWF" in value["credit"]
    assert_explained(here.run("climate", *LAND, *AT_SEA, code=3), "is at sea", "--cell land")
    page = tmp_path / "page.html"
    here.run("report", *LAND, *AT_COAST, "--out", str(page))
    text = " ".join(page.read_text(encoding="utf-8").split())
    for words in (
        "What ERA5-Land is",
        "Muñoz Sabater, J. (2019): ERA5-Land hourly data from 1950 to present",
        "doi:10.24381/cds.e2161bac",
        "FROM weather_land",
        f"mean of {IS_LAND.sum()} of {IS_LAND.size} grid points",
    ):
        assert words in text
    assert "adbb2d47" not in text
    # The page's statements give its numbers, also of an area without sea, which is asked for by degrees.
    for area in (COAST, Area.parse("5/-2.1/4.9/-2", ERA5_LAND.grid)):
        answer = read_climate(connection, climate_question(area))
        found = {name: connection.execute(statement).fetchall() for name, statement in statements(answer)}
        ((year, mean, hours),) = found["The mean temperature of each year"]
        assert (int(year), int(hours)) == (2023, 744)
        assert mean == pytest.approx(answer.yearly["mean_temperature"].item(), abs=1e-4)


def test_trends_of_every_place_have_a_table_of_their_own(
    here: InProcess, connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    random = np.random.default_rng(1)
    ids = [row[0] for row in connection.execute("SELECT DISTINCT location_id FROM weather_land").fetchall()]
    for year in range(1991, 2013):
        make_ready(connection, Month(year, 1), ("temperature_2m",), timeout_seconds=60, on_wait=pytest.fail)
    with connection.cursor().copy(
        "COPY era5_land.monthly_summary (location_id, month, temperature_2m_mean, temperature_2m_hours) FROM STDIN"
    ) as copy:
        for year in range(1991, 2013):
            for month in range(1, 13):
                level = 26.0 + 0.05 * (year - 1991) + random.normal(scale=0.1)
                for location_id in ids:
                    copy.write_row((location_id, f"{year}-{month:02d}-01", level, Month(year, month).hours))
    table, picture = tmp_path / "trend.csv", tmp_path / "trend.png"
    years = ("--from", "1991", "--to", "2012", "--baseline", "1991-2012")
    said = here.run("climate", *LAND, "--everywhere", *years, "--out", str(table), "--save").out
    assert f"wrote {IS_LAND.sum()} rows into the table weather_land_trend" in said
    saved = connection.execute("SELECT latitude, longitude, slope FROM weather_land_trend").fetchall()
    assert {(round(float(north), 1), round(float(east), 1)) for north, east, _ in saved} >= {(5.0, -2.0)}
    assert [float(slope) for *_, slope in saved] == pytest.approx([0.5] * int(IS_LAND.sum()), abs=0.1)
    assert len(table.read_text().splitlines()) == 1 + IS_LAND.sum()
    drawn = here.run("map", *LAND, "--trend", "1991-2012", "--column", "t2m", "--out", str(picture)).out
    assert f"significant at {IS_LAND.sum()} of {IS_LAND.sum()}" in drawn
