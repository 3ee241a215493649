"""`era5 map`: what its options ask for, and which do not go together."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from era5_pipeline.cli.map_options import asked_map
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.climate.climate_answer import YearSpan
from era5_pipeline.query.maps.map_question import (
    AnomalyQuestion,
    DayQuestion,
    HourQuestion,
    MapQuestion,
    PartQuestion,
    TrendQuestion,
)
from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, calendar_month, season

# typer uses what click 8.5 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'click:DeprecationWarning")

NOTHING: dict[str, Any] = dict.fromkeys(
    ("time", "day", "month", "year", "trend", "season_name", "month_number", "statistic", "baseline")
)


def asked(column: str = "temperature_2m", **options: Any) -> MapQuestion:
    return asked_map(BY_COLUMN[column], **{**NOTHING, "anomaly": False, **options})


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ({"time": "2023-07-15T12"}, HourQuestion(datetime(2023, 7, 15, 12, tzinfo=UTC))),
        ({"day": "2023-07-15"}, DayQuestion(date(2023, 7, 15), "mean")),
        ({"day": "2023-07-15", "column": "total_precipitation"}, DayQuestion(date(2023, 7, 15), "sum")),
        ({"day": "2023-07-15", "statistic": "max"}, DayQuestion(date(2023, 7, 15), "max")),
        ({"month": "2023-07"}, PartQuestion(calendar_month(7), 2023, "mean")),
        ({"year": "2023"}, PartQuestion(WHOLE_YEAR, 2023, "mean")),
        ({"year": "2023", "season_name": "JJA", "statistic": "min"}, PartQuestion(season("JJA"), 2023, "min")),
        (
            {"month": "2023-07", "anomaly": True},
            AnomalyQuestion(calendar_month(7), 2023, YearSpan(1991, 2020), "mean"),
        ),
        (
            {"year": "2023", "season_name": "djf", "anomaly": True, "baseline": "1961-1990"},
            AnomalyQuestion(season("DJF"), 2023, YearSpan(1961, 1990), "mean"),
        ),
        ({"trend": "1991-2020"}, TrendQuestion(WHOLE_YEAR, YearSpan(1991, 2020), "mean")),
        ({"trend": "1991-2020", "month_number": 7}, TrendQuestion(calendar_month(7), YearSpan(1991, 2020), "mean")),
        ({"trend": "1991-2020", "season_name": "SON"}, TrendQuestion(season("SON"), YearSpan(1991, 2020), "mean")),
    ],
)
def test_options_ask_for_one_map(options: dict[str, Any], question: MapQuestion) -> None:
    assert asked(**options) == question


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "what to draw is not given\nGive one of --time, --day, --month, --year and --trend"),
        ({"time": "2023-07-15T12", "day": "2023-07-15"}, "--time and --day exclude each other"),
        ({"month": "2023-07", "trend": "1991-2020"}, "--month and --trend exclude each other"),
        ({"time": "2023-07-15T12", "statistic": "max"}, "--statistic does not go with --time"),
        ({"day": "2023-07-15", "anomaly": True}, "--anomaly does not go with --day\nIt goes with --month or --year"),
        ({"trend": "1991-2020", "anomaly": True}, "--anomaly does not go with --trend"),
        ({"month": "2023-07", "season_name": "JJA"}, "--season does not go with --month"),
        ({"year": "2023", "month_number": 7}, "--calendar-month does not go with --year"),
        ({"month": "2023-07", "baseline": "1991-2020"}, "--baseline goes with --anomaly only"),
        (
            {"trend": "1991-2020", "month_number": 7, "season_name": "JJA"},
            "--season and --calendar-month exclude each other",
        ),
        ({"month": "2023-07", "anomaly": True, "baseline": "2011-2020x"}, "'2011-2020x' is not a baseline"),
        ({"month": "2023-07", "anomaly": True, "baseline": "2015-2020"}, "has 6 years, fewer than 10"),
        ({"month": "2023-07", "anomaly": True, "statistic": "max"}, "the statistic max has no map of an anomaly"),
        ({"trend": "2011-2020"}, "2011-2020 are 10 years: a trend needs at least 20"),
        ({"day": "2023-07"}, "'2023-07' names no day"),
        ({"day": "2023-07-15T12"}, "'2023-07-15T12' names no day"),
        ({"day": "2023-02-30"}, "'2023-02-30' is not a time"),
        ({"day": "1939-07-15"}, "1939-07 is before ERA5 begins"),
        ({"month": "2023"}, "'2023' is not a month"),
        ({"month": "2023-13"}, "2023-13 is not a month"),
        ({"year": "1939"}, "before ERA5 begins"),
        ({"day": "2023-07-15", "statistic": "sum"}, "temperature_2m has no sum"),
        ({"year": "2023", "season_name": "summer"}, "'summer' is not a season"),
        ({"trend": "1991-2020", "month_number": 13}, "13 is not a calendar month"),
        ({"time": "2023-07-15"}, "names no hour"),
    ],
)
def test_options_that_do_not_go_together_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        asked(**options)
    assert message in str(error.value)
