"""`query.maps.read_map`: every kind of map from the table to a picture."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from era5_pipeline.model.grid import Area
from era5_pipeline.model.variables import BY_COLUMN, Variable
from era5_pipeline.query.climate.climate_answer import YearSpan
from era5_pipeline.query.maps.field_map import FieldMap
from era5_pipeline.query.maps.map_question import (
    AnomalyQuestion,
    DayQuestion,
    HourQuestion,
    MapQuestion,
    PartQuestion,
    TrendQuestion,
)
from era5_pipeline.query.maps.read_map import read_map
from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, calendar_month
from era5_pipeline.query.plots import map_figure, plot_map
from era5_pipeline.query.snapshots import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    Connection = psycopg.Connection[Any]

TEMPERATURE, RAIN = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]
GULF, MADE = Area.parse("26.5/50.5/24.5/52"), Area.parse("32/-140/31/-139")
YEARS, JULY = YearSpan(1991, 2020), calendar_month(7)
NOON = datetime(2023, 7, 15, 12, tzinfo=UTC)
QUESTIONS: dict[str, tuple[MapQuestion, Variable, Area]] = {
    "hour": (HourQuestion(NOON), TEMPERATURE, GULF),
    "day": (DayQuestion(date(2023, 7, 15), "max"), TEMPERATURE, GULF),
    "month": (PartQuestion(JULY, 2023, "mean"), TEMPERATURE, GULF),
    "rain": (PartQuestion(JULY, 2020, "sum"), RAIN, MADE),
    "year": (PartQuestion(WHOLE_YEAR, 2020, "mean"), TEMPERATURE, MADE),
    "anomaly": (AnomalyQuestion(JULY, 2020, YEARS, "mean"), TEMPERATURE, MADE),
    "rain anomaly": (AnomalyQuestion(JULY, 2020, YEARS, "sum"), RAIN, MADE),
    "trend": (TrendQuestion(WHOLE_YEAR, YEARS, "mean"), TEMPERATURE, MADE),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_kind_is_a_picture_in_its_colours(connection: Connection, made: Any, name: str, tmp_path: Path) -> None:
    assert len(made)
    question, variable, area = QUESTIONS[name]
    reading = read_map(connection, question, variable, area)
    assert reading.field.kind == name.rsplit(maxsplit=1)[-1].replace("rain", "month")
    figure = map_figure(reading.field, credit="a credit line", notes=reading.notes)
    low, high = figure.axes[0].images[0].get_clim()
    assert low < high
    assert (low == -high) == reading.field.is_difference == ("anomaly" in name or name == "trend")
    texts = [text.get_text() for text in figure.texts]
    assert texts[:2] == [reading.field.title, reading.field.when]
    assert sum(text.startswith("Grey") for text in texts) <= len(reading.absent)
    for suffix in ("png", "pdf", "svg"):
        path = tmp_path / f"map.{suffix}"
        plot_map(reading.field, path, credit="a credit line", notes=reading.notes)
        assert 3_000 < path.stat().st_size < 1_500_000
    with Image.open(tmp_path / "map.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    # The cells are coloured: all else is grey, black or white.
    assert (np.ptp(pixels, axis=2) > 25).mean() > 0.02


def test_an_hour_is_its_snapshot(connection: Connection) -> None:
    reading = read_map(connection, HourQuestion(NOON), TEMPERATURE, GULF)
    snapshot = FieldMap.of_snapshot(read_snapshot(connection, NOON, TEMPERATURE, GULF))
    np.testing.assert_array_equal(reading.field.values, snapshot.values)
    assert (reading.field.title, reading.field.when) == (snapshot.title, snapshot.when)
    assert (reading.field.title, reading.field.when) == ("2 m temperature", "Sat 15 Jul 2023, 12:00 UTC")
    assert reading.summary == "at 2023-07-15 12:00 UTC"
    low, high = snapshot.values.min(), snapshot.values.max()
    assert reading.counted == f"63 locations, {low:.2f} to {high:.2f} degC"


def test_totals_have_the_steps_of_their_period(connection: Connection, made: Any) -> None:
    assert len(made)
    month = read_map(connection, PartQuestion(JULY, 2020, "sum"), RAIN, MADE)
    year = read_map(connection, PartQuestion(WHOLE_YEAR, 2020, "sum"), RAIN, MADE)
    norms: list[Any] = [map_figure(one.field).axes[0].images[0].norm for one in (month, year)]
    of_month, of_year = norms
    assert list(of_month.boundaries)[:4] == [0.0, 5.0, 10.0, 25.0]
    assert list(of_year.boundaries)[:4] == [0.0, 50.0, 100.0, 250.0]
    # A year of the made places has 12 months of 80 mm, about.
    assert of_year.boundaries[-1] >= year.field.values[np.isfinite(year.field.values)].max()
    assert [one.field.unit for one in (month, year)] == ["mm in the month", "mm in the year"]


def test_of_places_far_apart_the_part_with_most_is_drawn(connection: Connection) -> None:
    alone = read_map(connection, HourQuestion(NOON), TEMPERATURE)
    assert alone.left_out is None
    with connection.transaction(force_rollback=True):
        connection.execute(
            "INSERT INTO weather (time, location_id, latitude, longitude, temperature_2m) "
            "VALUES (%s, era5.at(10.75, 106.25), 10.75, 106.25, 30)",
            (NOON,),
        )
        reading = read_map(connection, HourQuestion(NOON), TEMPERATURE)
        mekong = read_map(connection, HourQuestion(NOON), TEMPERATURE, Area.parse("10.75/106.25/10.75/106.25"))
    assert reading.left_out is not None
    assert reading.left_out.startswith(f"the map shows 63 of 64 places, those of {GULF}; ")
    assert reading.left_out.endswith("--area 10.75/106.25/10.75/106.25")
    assert f"T{reading.left_out[1:]}" in reading.notes
    np.testing.assert_array_equal(reading.field.values, alone.field.values)
    np.testing.assert_array_equal(reading.field.longitudes, alone.field.longitudes)
    # It is no gap.
    assert reading.lines == alone.lines
    assert float(mekong.field.values[0, 0]) == 30.0
    assert mekong.left_out is None
