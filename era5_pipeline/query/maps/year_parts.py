"""Parts of the year: the whole year, a season, a calendar month; which months and how many hours each has."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import FIRST_YEAR, Month, require_calendar_month
from era5_pipeline.query.climate.climate_answer import YearSpan

if TYPE_CHECKING:
    from era5_pipeline.query.maps.field_map import Period

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
# A winter of the north has the year of its January.
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
        """It in a year, as words: `July 2023`, `December 2022 to February 2023`, `2023`."""
        if self.period == "year":
            return f"{year}"
        if self.period == "month":
            return f"{self.name} {year}"
        first, *_, last = self.starts(year)
        early = f" {first.year}" if first.year != last.year else ""
        return f"{_MONTHS[first.month - 1]}{early} to {_MONTHS[last.month - 1]} {last.year}"

    def in_years(self, years: YearSpan) -> str:
        """It over several years, as words: `July 1991-2020`."""
        return f"{years}" if self.period == "year" else f"{self.name} {years}"


WHOLE_YEAR = YearPart(1, 12, "year", "year")


def calendar_month(number: int) -> YearPart:
    """The part that is one calendar month, 1 to 12.

    Raises:
        UsageError: if there is no such month.
    """
    require_calendar_month(number)
    return YearPart(number, number, _MONTHS[number - 1], "month")


def season(name: str) -> YearPart:
    """The part that is a season of three months: DJF, MAM, JJA or SON.

    Raises:
        UsageError: if it is none.
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
        UsageError: if it is none, or before ERA5 begins.
    """
    if not re.fullmatch(r"\d{4}", text.strip(), re.ASCII):
        raise UsageError(f"{text!r} is not a year", remedy="A year has four digits, for example 2023.")
    return Month(int(text), 1).year


def parse_years(text: str) -> YearSpan:
    """Parse the years from the first to the last, `1991-2020`.

    Raises:
        UsageError: if they are none, the wrong way round, or before ERA5 begins.
    """
    match = _SPAN.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} are no years", remedy="Years are FIRST-LAST, for example 1991-2020.")
    years = YearSpan(Month(int(match[1]), 1).year, Month(int(match[2]), 1).year)
    if years.first > years.last:
        raise UsageError(f"the years {years} are empty", remedy="Give the earlier year first.")
    return years


def _year_and_month(year: int, number: int) -> tuple[int, int]:
    return (year, number) if number > 0 else (year - 1, number + 12)
