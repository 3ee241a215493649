"""Options of `era5 climate` and `era5 report`: the area, period, baseline and days of an answer.

The options for a place are in `options`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.climate.question import ClimateQuestion, YearPart
    from era5_pipeline.model.dataset import Dataset

Area = Annotated[
    str | None,
    typer.Option("--area", metavar="N/W/S/E", help="Instead of a place: the mean over a rectangle, in degrees."),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="First year, month or day; a year begins with January.",
        show_default="the first that is loaded",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="Last year, month or day; a year ends with December.",
        show_default="the last that is loaded",
    ),
]
Baseline = Annotated[
    str, typer.Option("--baseline", metavar="FIRST-LAST", help="Years that anomalies are relative to.")
]
Days = Annotated[
    Literal["utc", "local"] | None,
    typer.Option("--days", help="Days in UTC, or at the standard time of the place's zone.", show_default="utc"),
]
Offset = Annotated[
    str | None,
    typer.Option("--utc-offset", metavar="HH:MM", help="Days at this offset from UTC, such as +07:00 or -03:30."),
]


def asked_part(season_name: str | None, month_number: int | None) -> "YearPart":
    """The part of the year given by `--season` or `--calendar-month`; without both, the whole year."""
    from era5_pipeline.climate.question import WHOLE_YEAR, calendar_month, season

    if season_name is not None and month_number is not None:
        raise UsageError("--season and --calendar-month cannot be combined", remedy="Give one of them.")
    if season_name is not None:
        return season(season_name)
    return WHOLE_YEAR if month_number is None else calendar_month(month_number)


def asked_climate(
    place: str | None,
    lat: float | None,
    lon: float | None,
    cell: Literal["nearest", "land"],
    area: str | None,
    from_: str | None,
    to: str | None,
    baseline: str,
    days: Literal["utc", "local"] | None,
    utc_offset: str | None,
    dataset: "Dataset",
) -> "ClimateQuestion":
    """The question given by the options, to a data set that has begun by then."""
    from era5_pipeline.climate.question import climate_question
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.question import COMMAND, asked_place_or_area

    if days is not None and utc_offset is not None:
        raise UsageError("--days and --utc-offset cannot be combined", remedy="Give only one of them.")
    if area is not None and days == "local":
        raise UsageError(
            "an area has no time zone of its own",
            remedy="Give the offset of its days, such as --utc-offset +07:00.",
        )
    asked = asked_place_or_area(COMMAND, place, lat, lon, cell, area, dataset.grid)
    question = climate_question(asked, from_, to, baseline, local_time=days == "local", utc_offset=utc_offset)
    ends = (day for day in (question.period.first, question.period.last) if day is not None)
    dataset.require_months((*question.baseline.starts, *(Month(day.year, day.month) for day in ends)))
    return question
