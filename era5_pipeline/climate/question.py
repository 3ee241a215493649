"""The question of a climate answer: a place or an area, a period, a baseline, the zone of its days; parts of years."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import TYPE_CHECKING, Literal, Self

from era5_pipeline.climate.anomalies import DEFAULT_BASELINE, parse_baseline
from era5_pipeline.climate.answer import ClimatePlace, YearSpan
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import FIRST_YEAR, Month, require_calendar_month
from era5_pipeline.model.question import asked_range, time_text
from era5_pipeline.model.times import parse_offset

if TYPE_CHECKING:
    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.question import AskedTime

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """Days from `first` to `last`, both included; None: no limit."""

    first: date | None = None
    last: date | None = None

    @classmethod
    def of(cls, start: AskedTime | None, end: AskedTime | None) -> Self:
        """The days from the start of one time to the end of the other: each a year, a month or a day."""
        first, after = asked_range(start, end)
        for asked, instant in ((start, first), (end, after)):
            if instant is not None and instant.time() != time():
                raise UsageError(
                    f"{time_text(asked)!r} is an hour",
                    remedy="An answer is made of whole days: give a year, month or day.",
                )
        return cls(first.date() if first else None, (after - _DAY).date() if after else None)


@dataclass(frozen=True)
class DayChoice:
    """How days are delimited: at an offset from UTC in minutes or, with a zone, at its standard offset."""

    offset_minutes: int = 0
    zone: str | None = None


@dataclass(frozen=True)
class ClimateQuestion:
    """A checked question."""

    place: ClimatePlace
    period: Period = Period()
    baseline: YearSpan = DEFAULT_BASELINE
    days: DayChoice = DayChoice()


def climate_question(
    asked: AskedPlace | Area,
    start: AskedTime | None = None,
    end: AskedTime | None = None,
    baseline: str | None = None,
    *,
    local_time: bool = False,
    utc_offset: str | None = None,
) -> ClimateQuestion:
    """The question for a place or an area; `baseline` is 1991-2020 if not given.

    Days are in UTC, at `utc_offset`, or with `local_time` at the standard offset of the place's zone.
    """
    period = Period.of(start, end)
    years = parse_baseline(baseline) if baseline is not None else DEFAULT_BASELINE
    if isinstance(asked, Area):
        if local_time:
            raise ValueError("an area has no time zone of its own")
        place = ClimatePlace(None, None, None, asked, None, None)
    else:
        place = ClimatePlace.of_asked(asked, in_its_zone=local_time)
    if local_time:
        return ClimateQuestion(place, period, years, DayChoice(zone=place.zone))
    return ClimateQuestion(place, period, years, DayChoice(parse_offset(utc_offset) if utc_offset is not None else 0))


# --- Parts of the year: the whole year, a season, a calendar month; which months and how many hours each has ---


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
# A northern winter belongs to the year of its January.
_SEASONS = {"DJF": 0, "MAM": 3, "JJA": 6, "SON": 9}
PartPeriod = Literal["month", "season", "year"]
# A statistic of the hours of a day, or of a part of a year.
CellStatistic = Literal["mean", "min", "max", "sum"]


@dataclass(frozen=True)
class YearPart:
    """Consecutive months of each year, from `first` to `last`: 1 is January, 0 December of the year before."""

    first: int
    last: int
    name: str
    period: PartPeriod

    @property
    def code(self) -> str:
        """The part in tables: `year`, a season such as `JJA`, or a month from `01` to `12`."""
        if self.period == "season":
            return next(code for code, first in _SEASONS.items() if first == self.first)
        return self.name if self.period == "year" else f"{self.first:02d}"

    def starts(self, year: int) -> tuple[date, ...]:
        """The first days of its months in a year."""
        return tuple(date(*_year_and_month(year, number), 1) for number in range(self.first, self.last + 1))

    def months(self, year: int) -> tuple[Month, ...]:
        """Its months in a year, without those before ERA5 begins."""
        numbers = [_year_and_month(year, number) for number in range(self.first, self.last + 1)]
        return tuple(Month(of, month) for of, month in numbers if of >= FIRST_YEAR)

    def months_of(self, years: YearSpan) -> list[Month]:
        """Its months in all of these years."""
        return [month for year in range(years.first, years.last + 1) for month in self.months(year)]

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
    """A calendar month, 1 to 12, as a part of the year."""
    require_calendar_month(number)
    return YearPart(number, number, _MONTHS[number - 1], "month")


def season(name: str) -> YearPart:
    """A season of three months, DJF, MAM, JJA or SON, as a part of the year."""
    first = _SEASONS.get(name.strip().upper())
    if first is None:
        raise UsageError(
            f"{name!r} is not a season",
            remedy="Seasons are DJF (December to February, of the year of its January), MAM, JJA and SON.",
        )
    return YearPart(first, first + 2, f"{_MONTHS[first - 1]} to {_MONTHS[first + 1]}", "season")


def all_parts() -> tuple[YearPart, ...]:
    """The whole year, its seasons and its months."""
    return (WHOLE_YEAR, *map(season, _SEASONS), *map(calendar_month, range(1, 13)))


def parse_year(text: str) -> int:
    """Parse a year, `2023`."""
    if not re.fullmatch(r"\d{4}", text.strip(), re.ASCII):
        raise UsageError(f"{text!r} is not a year", remedy="A year has four digits, for example 2023.")
    return Month(int(text), 1).year


def parse_years(text: str) -> YearSpan:
    """Parse a range of years, `1991-2020`."""
    years = YearSpan.parse(text)
    if years is None:
        raise UsageError(f"{text!r} is not a range of years", remedy="Years are FIRST-LAST, for example 1991-2020.")
    for year in (years.first, years.last):
        Month(year, 1)  # before ERA5 begins?
    if years.first > years.last:
        raise UsageError(f"the years {years} are empty", remedy="Give the earlier year first.")
    return years


def _year_and_month(year: int, number: int) -> tuple[int, int]:
    return (year, number) if number > 0 else (year - 1, number + 12)
