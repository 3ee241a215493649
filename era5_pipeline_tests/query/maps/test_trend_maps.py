"""`query.maps.trend_maps`: trends of made summaries on each layout, against the trend of a place and scipy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.climate.climate_answer import Trend, YearSpan
from era5_pipeline.query.climate.trends import trend_of
from era5_pipeline.query.maps.map_question import MapStatistic, TrendQuestion
from era5_pipeline.query.maps.trend_maps import read_trend_map
from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, YearPart, calendar_month, season
from era5_pipeline_tests.query.maps.conftest import FEW_YEARS, MADE_IDS, NEVER_CHANGES, by_year, value_at

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]

TEMPERATURE, RAIN = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]
YEARS = YearSpan(1991, 2020)
PARTS = [(WHOLE_YEAR, tuple(range(1, 13))), (season("JJA"), (6, 7, 8)), (calendar_month(7), (7,))]


@pytest.mark.parametrize(("part", "months"), PARTS, ids=["year", "season", "month"])
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_a_trend_is_that_of_each_place(
    connection: Connection, made: Any, part: YearPart, months: tuple[int, ...], statistic: MapStatistic
) -> None:
    variable = RAIN if statistic == "sum" else TEMPERATURE
    found = read_trend_map(connection, TrendQuestion(part, YEARS, statistic), variable, None)
    field = found.field
    assert field.stippled is not None
    marks = dict(zip(field.values[np.isfinite(field.values)], field.stippled[np.isfinite(field.values)], strict=True))
    drawn = 0
    for location in MADE_IDS.tolist():
        values = by_year(made, location, months, total=statistic == "sum")
        values = values[(values.index >= 1991) & (values.index <= 2020)]
        slope = value_at(field, location)
        expected = trend_of(values)
        if location == NEVER_CHANGES:
            assert slope == 0.0
            drawn += 1
        elif isinstance(expected, Trend):
            fitted = stats.linregress(values.index.to_numpy(dtype=float), values.to_numpy())
            np.testing.assert_allclose(slope, 10 * fitted.slope, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(slope, expected.slope, rtol=1e-4, atol=1e-4)
            assert bool(marks[np.float32(slope)]) == expected.is_significant
            drawn += 1
        else:
            assert location == FEW_YEARS
            assert np.isnan(slope)
    assert drawn == 5
    unit = {"mean": "°C per decade", "sum": f"mm in the {part.period}, per decade"}[statistic]
    assert (field.kind, field.unit, field.is_difference) == ("trend", unit, True)
    assert "1 of 6 locations have fewer than 20 complete years" in " ".join(found.absent)


def test_the_words_of_a_trend(connection: Connection, made: Any) -> None:
    assert len(made)
    found = read_trend_map(connection, TrendQuestion(season("JJA"), YEARS, "mean"), TEMPERATURE, None)
    assert found.field.title == "2 m temperature, trend"
    assert found.field.when == "June to August 1991-2020, 30 complete years; dots: significant (p < 0.05), pale: not"
    assert found.summary.startswith("trend of June to August 1991-2020 (30 complete years), significant at ")
    assert found.table_unit == "degC per decade"
    assert (found.start.year, found.end.year) == (1991, 2020)


def test_years_that_lack_are_said(connection: Connection, made: Any) -> None:
    assert len(made)
    found = read_trend_map(connection, TrendQuestion(WHOLE_YEAR, YearSpan(1985, 2020), "mean"), TEMPERATURE, None)
    assert "30 of 36 years are complete; in no trend: 1985-1990" in found.remarks
    winter = read_trend_map(connection, TrendQuestion(season("DJF"), YEARS, "mean"), TEMPERATURE, None)
    # December 1990 is not there.
    assert "29 of 30 years are complete; in no trend: 1991" in winter.remarks


@pytest.mark.parametrize(
    ("years", "area", "message"),
    [
        (
            YearSpan(2001, 2023),
            Area.parse("26.5/50.5/24.5/52"),
            "needs at least 20 complete years, and no location has",
        ),
        (YearSpan(1951, 1980), None, "1951-1980: the table has no row of that time; it holds 2023-06 to 2023-08"),
    ],
)
def test_too_few_years_are_an_error(connection: Connection, years: YearSpan, area: Area | None, message: str) -> None:
    with pytest.raises(NoDataError, match=message):
        read_trend_map(connection, TrendQuestion(WHOLE_YEAR, years, "mean"), TEMPERATURE, area)
