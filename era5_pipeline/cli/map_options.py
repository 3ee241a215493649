"""Options of `era5 map` that say what is drawn: an hour, a day, a month, an anomaly or a trend."""

from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.maps.map_question import MapQuestion
    from era5_pipeline.query.maps.year_parts import YearPart

TimeOption = Annotated[
    str | None,
    typer.Option("--time", metavar="TIME", help="One hour; UTC unless it has an offset.", show_default=False),
]
DayOption = Annotated[
    str | None, typer.Option("--day", metavar="DAY", help="A day in UTC, such as 2023-07-15.", show_default=False)
]
MonthOption = Annotated[
    str | None, typer.Option("--month", metavar="MONTH", help="A month, such as 2023-07.", show_default=False)
]
YearOption = Annotated[
    str | None,
    typer.Option("--year", metavar="YEAR", help="A year, or with --season a part of it.", show_default=False),
]
TrendOption = Annotated[
    str | None,
    typer.Option("--trend", metavar="FIRST-LAST", help="The change per decade over these years.", show_default=False),
]
SeasonOption = Annotated[
    str | None,
    typer.Option(
        "--season", metavar="NAME", help="With --year or --trend: DJF, MAM, JJA or SON.", show_default="the year"
    ),
]
CalendarMonthOption = Annotated[
    int | None,
    typer.Option(
        "--calendar-month", metavar="1-12", help="With --trend: this month of each year.", show_default="the year"
    ),
]
StatisticOption = Annotated[
    str | None,
    typer.Option(
        "--statistic",
        metavar="NAME",
        help="Of a day, month or year: mean, min, max or sum.",
        show_default="the sum of totals, the mean of others",
    ),
]
AnomalyOption = Annotated[
    bool, typer.Option("--anomaly", help="With --month or --year: less the mean of the same months of --baseline.")
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline", metavar="FIRST-LAST", help="Years that an anomaly is against.", show_default="1991-2020"
    ),
]


def asked_map(
    variable: "Variable",
    *,
    time: str | None,
    day: str | None,
    month: str | None,
    year: str | None,
    trend: str | None,
    season_name: str | None,
    month_number: int | None,
    statistic: str | None,
    anomaly: bool,
    baseline: str | None,
) -> "MapQuestion":
    """The map that the options ask for.

    Raises:
        UsageError: if they do not go together, or one is not what it should be.
    """
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.times import parse_day, parse_instant
    from era5_pipeline.query.climate.anomalies import DEFAULT_BASELINE, parse_baseline
    from era5_pipeline.query.maps import map_question as questions
    from era5_pipeline.query.maps.year_parts import calendar_month, parse_year, parse_years

    which = _one_of({"--time": time, "--day": day, "--month": month, "--year": year, "--trend": trend})
    _require_fitting(
        which,
        {
            "--statistic": (statistic, ("--day", "--month", "--year", "--trend")),
            "--anomaly": (anomaly or None, ("--month", "--year")),
            "--season": (season_name, ("--year", "--trend")),
            "--calendar-month": (month_number, ("--trend",)),
        },
    )
    if baseline is not None and not anomaly:
        raise UsageError("--baseline goes with --anomaly only", remedy="Add --anomaly, or leave --baseline out.")
    if time is not None:
        return questions.HourQuestion(parse_instant(time))
    chosen = questions.statistic_for(variable, statistic)
    if day is not None:
        of_day = parse_day(day)
        Month(of_day.year, of_day.month)  # before ERA5 begins?
        return questions.DayQuestion(of_day, chosen)
    questions.require_summaries(variable)
    part = _part(season_name, month_number)
    if trend is not None:
        return questions.TrendQuestion(part, parse_years(trend), chosen)
    if month is not None:
        asked = Month.parse(month)
        part, number = calendar_month(asked.month), asked.year
    else:
        number = parse_year(year or "")
    if not part.months(number):
        raise UsageError(f"{part.in_year(number)} is before ERA5 begins", remedy="ERA5 begins with 1940-01.")
    if anomaly:
        years = parse_baseline(baseline) if baseline is not None else DEFAULT_BASELINE
        return questions.AnomalyQuestion(part, number, years, chosen)
    return questions.PartQuestion(part, number, chosen)


def _one_of(options: dict[str, str | None]) -> str:
    """The name of the only option that is given.

    Raises:
        UsageError: if none is, or several are.
    """
    given = [name for name, value in options.items() if value is not None]
    if not given:
        raise UsageError("what to draw is not given", remedy="Give one of --time, --day, --month, --year and --trend.")
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", remedy="Give one of them.")
    return given[0]


def _require_fitting(which: str, options: dict[str, tuple[object | None, tuple[str, ...]]]) -> None:
    """Require that each option that is given goes with the one that says what is drawn.

    Raises:
        UsageError: naming the first that does not.
    """
    for name, (value, fitting) in options.items():
        if value is not None and which not in fitting:
            raise UsageError(
                f"{name} does not go with {which}", remedy=f"It goes with {' or '.join(fitting)}: leave one out."
            )


def _part(season_name: str | None, month_number: int | None) -> "YearPart":
    from era5_pipeline.query.maps.year_parts import WHOLE_YEAR, calendar_month, season

    if season_name is not None and month_number is not None:
        raise UsageError("--season and --calendar-month exclude each other", remedy="Give one of them.")
    if season_name is not None:
        return season(season_name)
    return WHOLE_YEAR if month_number is None else calendar_month(month_number)
