"""The question that a map answers: an hour, a day, a month or another part of a year, its anomaly, or a trend."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal, get_args

from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.trends import FEWEST_YEARS
from era5_pipeline.flat.monthly import is_total
from era5_pipeline.model.derived_variables import DERIVED, is_direction
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import FIRST_YEAR, Month, require_calendar_month

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.maps.fields import Period
    from era5_pipeline.model.variables import Variable

# --- Parts of the year: the whole year, a season, a calendar month; which months and how many hours each has ---


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
# A northern winter belongs to the year of its January.
_SEASONS = {"DJF": 0, "MAM": 3, "JJA": 6, "SON": 9}
_SPAN = re.compile(r"(\d{4})\s*[-/]\s*(\d{4})", re.ASCII)


@dataclass(frozen=True)
class YearPart:
    """Consecutive months of each year, from `first` to `last`: 1 is January, 0 December of the year before."""

    first: int
    last: int
    name: str
    period: Period

    def starts(self, year: int) -> tuple[date, ...]:
        """The first days of its months in a year."""
        return tuple(date(*_year_and_month(year, number), 1) for number in range(self.first, self.last + 1))

    def months(self, year: int) -> tuple[Month, ...]:
        """Its months in a year, without those before ERA5 begins."""
        numbers = [_year_and_month(year, number) for number in range(self.first, self.last + 1)]
        return tuple(Month(of, month) for of, month in numbers if of >= FIRST_YEAR)

    def hours(self, year: int) -> int:
        """The number of hours of its months in a year."""
        numbers = [_year_and_month(year, number) for number in range(self.first, self.last + 1)]
        return sum(monthrange(of, month)[1] for of, month in numbers) * 24

    def in_year(self, year: int) -> str:
        """The part in one year, in words: `July 2023`, `December 2022 to February 2023`, `2023`."""
        if self.period == "year":
            return f"{year}"
        if self.period == "month":
            return f"{self.name} {year}"
        first, *_, last = self.starts(year)
        early = f" {first.year}" if first.year != last.year else ""
        return f"{_MONTHS[first.month - 1]}{early} to {_MONTHS[last.month - 1]} {last.year}"

    def in_years(self, years: YearSpan) -> str:
        """The part over several years, in words: `July 1991-2020`."""
        return f"{years}" if self.period == "year" else f"{self.name} {years}"


WHOLE_YEAR = YearPart(1, 12, "year", "year")


def calendar_month(number: int) -> YearPart:
    """A calendar month, 1 to 12, as a part of the year.

    Raises:
        UsageError: if there is no such month.
    """
    require_calendar_month(number)
    return YearPart(number, number, _MONTHS[number - 1], "month")


def season(name: str) -> YearPart:
    """A season of three months, DJF, MAM, JJA or SON, as a part of the year.

    Raises:
        UsageError: if the name is not one of these.
    """
    first = _SEASONS.get(name.strip().upper())
    if first is None:
        raise UsageError(
            f"{name!r} is not a season",
            remedy="Seasons are DJF (December to February, of the year of its January), MAM, JJA and SON.",
        )
    return YearPart(first, first + 2, f"{_MONTHS[first - 1]} to {_MONTHS[first + 1]}", "season")


def parse_year(text: str) -> int:
    """Parse a year, `2023`.

    Raises:
        UsageError: if the text is not a year, or the year is before ERA5 begins.
    """
    if not re.fullmatch(r"\d{4}", text.strip(), re.ASCII):
        raise UsageError(f"{text!r} is not a year", remedy="A year has four digits, for example 2023.")
    return Month(int(text), 1).year


def parse_years(text: str) -> YearSpan:
    """Parse a range of years, `1991-2020`.

    Raises:
        UsageError: if the text is not a range of years, or the range is reversed or begins before ERA5.
    """
    match = _SPAN.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a range of years", remedy="Years are FIRST-LAST, for example 1991-2020.")
    years = YearSpan(Month(int(match[1]), 1).year, Month(int(match[2]), 1).year)
    if years.first > years.last:
        raise UsageError(f"the years {years} are empty", remedy="Give the earlier year first.")
    return years


def _year_and_month(year: int, number: int) -> tuple[int, int]:
    return (year, number) if number > 0 else (year - 1, number + 12)


# --- The question that a map answers: an hour, a day, a month or another part of a year, its anomaly, or a trend ---


MapStatistic = Literal["mean", "min", "max", "sum"]
_STATISTICS: tuple[MapStatistic, ...] = get_args(MapStatistic)


@dataclass(frozen=True)
class HourQuestion:
    """One hour (aware)."""

    time: datetime


@dataclass(frozen=True)
class DayQuestion:
    """One day in UTC."""

    day: date
    statistic: MapStatistic


@dataclass(frozen=True)
class PartQuestion:
    """One part of one year."""

    part: YearPart
    year: int
    statistic: MapStatistic


@dataclass(frozen=True)
class AnomalyQuestion:
    """One part of one year, minus the mean of the same part over the complete years of a baseline."""

    part: YearPart
    year: int
    baseline: YearSpan
    statistic: MapStatistic

    def __post_init__(self) -> None:
        _require_no_extreme(self.statistic, "an anomaly")


@dataclass(frozen=True)
class TrendQuestion:
    """The trend of a part of the year over several years.

    Raises:
        UsageError: if there are too few years, or the statistic is an extreme.
    """

    part: YearPart
    years: YearSpan
    statistic: MapStatistic

    def __post_init__(self) -> None:
        _require_no_extreme(self.statistic, "a trend")
        if len(self.years) < FEWEST_YEARS:
            raise UsageError(
                f"{self.years} are {len(self.years)} year{'' if len(self.years) == 1 else 's'}: a trend needs at least "
                f"{FEWEST_YEARS}",
                remedy="Ask for more years, for example 1991-2020.",
            )


MapQuestion = HourQuestion | DayQuestion | PartQuestion | AnomalyQuestion | TrendQuestion


def require_summaries(variable: Variable) -> None:
    """Require a variable with monthly summaries.

    Raises:
        UsageError: if the variable is derived.
    """
    if variable.column in DERIVED:
        raise UsageError(
            f"{variable.column} is computed from hours, and has no maps of months, years, anomalies and trends",
            remedy="Ask for --time or --day.",
        )


def statistic_for(variable: Variable, name: str | None = None) -> MapStatistic:
    """The statistic of this name, or the variable's usual one: the sum for totals, otherwise the mean.

    Raises:
        UsageError: if there is no such statistic, or it is meaningless for the variable.
    """
    if is_direction(variable):
        raise UsageError(
            f"{variable.column} has a map of an hour only: directions have no mean, least or greatest",
            remedy="Ask for --time, or for the components, whose means are those of the vector: "
            f"--column {DERIVED[variable.column].parts[0]}.",
        )
    if name is None:
        return "sum" if is_total(variable) else "mean"
    statistic = next((one for one in _STATISTICS if one == name.strip().lower()), None)
    if statistic is None:
        raise UsageError(f"{name!r} is not a statistic", remedy=f"Statistics are {', '.join(_STATISTICS)}.")
    if statistic == "sum" and not is_total(variable):
        raise UsageError(
            f"{variable.column} has no sum: its values are not totals of an hour",
            remedy="Ask for its mean, min or max.",
        )
    return statistic


def _require_no_extreme(statistic: MapStatistic, what: str) -> None:
    if statistic in {"min", "max"}:
        raise UsageError(
            f"the statistic {statistic} has no map of {what}: it is the value of single hours",
            remedy="Ask for the mean or, of totals, the sum.",
        )
