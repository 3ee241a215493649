"""Calendar months in UTC: parsing, partition key, start, end and hour count.

For hours as numbers see `times`. This module does not know which hours a file has, or what a missing one means.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

FIRST_YEAR = 1940
# The last full year in the range of pandas' nanosecond timestamps.
_LAST_YEAR = 2261
_MONTH = re.compile(r"(\d{4})-(\d{2})(?:-01)?", re.ASCII)
_CALENDAR_MONTH = re.compile(r"\d{1,4}", re.ASCII)
_YEAR = re.compile(r"(\d{4})", re.ASCII)

_FORMS = "Months are written YYYY-MM, for example 2023-07; in a range, a year stands for all its months."


@dataclass(frozen=True, order=True)
class Month:
    """One calendar month, UTC: a partition of the pipeline and of the table."""

    year: int
    month: int

    def __post_init__(self) -> None:
        if not 1 <= self.month <= 12:
            raise UsageError(
                f"{self.year:04d}-{self.month:02d} is not a month",
                remedy="Months are written YYYY-MM, from 01 to 12.",
            )
        if self.year > _LAST_YEAR:
            raise UsageError(f"{self.year:04d}-{self.month:02d} is in the future", remedy="Ask for an earlier month.")
        if self.year < FIRST_YEAR:
            raise UsageError(
                f"{self.year:04d}-{self.month:02d} is before ERA5 begins",
                remedy=f"ERA5 begins with {FIRST_YEAR}-01: ask for that month or a later one.",
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `2023-07`, or the partition key `2023-07-01`."""
        match = _MONTH.fullmatch(text.strip())
        if not match:
            raise UsageError(f"{text!r} is not a month", remedy=_FORMS)
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, time: datetime) -> Self:
        """The month in UTC that contains `time` (aware)."""
        time = time.astimezone(UTC)
        return cls(time.year, time.month)

    @classmethod
    def before(cls, end: datetime) -> Self:
        """The month in UTC that contains the last instant before `end` (aware)."""
        return cls.of(end - timedelta(microseconds=1))

    @classmethod
    def from_number(cls, number: int) -> Self:
        """The month with this `number`."""
        return cls(number // 12, number % 12 + 1)

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"

    @property
    def key(self) -> str:
        """The Dagster partition key, `2023-07-01`."""
        return f"{self}-01"

    @property
    def number(self) -> int:
        """Months since January of the year 0, so consecutive months have consecutive numbers."""
        return self.year * 12 + self.month - 1

    @property
    def start(self) -> datetime:
        """The first instant of the month."""
        return datetime(self.year, self.month, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first instant after the month."""
        return Month.from_number(self.number + 1).start

    @property
    def hours(self) -> int:
        """Number of hours in the month, 672 to 744."""
        return monthrange(self.year, self.month)[1] * 24

    def require_begun(self, now: datetime) -> None:
        """Check that the month has begun by `now` (aware)."""
        if self.start > now:
            raise UsageError(
                f"{self} is in the future",
                remedy=f"Ask for months up to {Month.of(now)}.",
            )


def months_between(first: str, last: str | None = None, calendar_months: Collection[int] = ()) -> tuple[Month, ...]:
    """Return the months from the start of `first` to the end of `last`, or to the end of `first` if `last` is None.

    Each is a year (`2023`: January to December), a month (`2023-07`) or a partition key (`2023-07-01`: the month).
    `calendar_months` keeps only these months of each year: 7 is July.
    """
    begin, end = _months_of(first)
    if last is not None:
        _, end = _months_of(last)
    return of_calendar_months(tuple(month_range(begin, end)), calendar_months)


def parse_calendar_months(texts: Iterable[str]) -> tuple[int, ...]:
    """Parse lists of calendar months, such as `7` or `6,7,8`; ascending, without duplicates."""
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in words:
        if not _CALENDAR_MONTH.fullmatch(word):
            raise _not_a_calendar_month(repr(word))
        require_calendar_month(int(word))
    return tuple(sorted({int(word) for word in words}))


def require_calendar_month(number: int) -> None:
    """Check that the number is a month of the year."""
    if not 1 <= number <= 12:
        raise _not_a_calendar_month(str(number))


def _not_a_calendar_month(shown: str) -> UsageError:
    return UsageError(f"{shown} is not a calendar month", remedy="Calendar months are numbered from 1 to 12.")


def of_calendar_months(months: tuple[Month, ...], numbers: Collection[int]) -> tuple[Month, ...]:
    """Keep the ascending months that fall in these calendar months; all of them if `numbers` is empty."""
    for number in numbers:
        require_calendar_month(number)
        if not any(month.month == number for month in months):
            raise UsageError(
                f"{spans(months)}: none of these is calendar month {number}",
                remedy="Give a range that has such a month, for example whole years: --from 1991 --to 2020.",
            )
    return tuple(month for month in months if not numbers or month.month in numbers)


def calendar_months_of(months: Sequence[Month]) -> tuple[int, ...] | None:
    """Return the calendar months with which `of_calendar_months` picks these ascending months from their range.

    Empty if they are the whole range; None if no calendar months pick exactly these.
    """
    first, last = months[0].number, months[-1].number
    if last - first + 1 == len(months):
        return ()
    numbers = sorted({month.month for month in months})
    picked = sum(number % 12 + 1 in numbers for number in range(first, last + 1))
    return tuple(numbers) if picked == len(months) else None


def _months_of(text: str) -> tuple[Month, Month]:
    """The first and last month of a year; for a month, the month twice."""
    if match := _YEAR.fullmatch(text.strip()):
        year = int(match[1])
        return Month(year, 1), Month(year, 12)
    month = Month.parse(text)
    return month, month


def month_range(first: Month, last: Month) -> Iterator[Month]:
    """Yield all months from `first` to `last`, both included."""
    if last < first:
        raise UsageError(f"the range {first} to {last} is empty", remedy="Give the earlier month first.")
    for number in range(first.number, last.number + 1):
        yield Month.from_number(number)


def runs_of(months: Iterable[Month]) -> list[list[Month]]:
    """Split ascending months into runs of consecutive ones."""
    runs: list[list[Month]] = []
    for month in months:
        if runs and month.number == runs[-1][-1].number + 1:
            runs[-1].append(month)
        else:
            runs.append([month])
    return runs


def spans(months: Iterable[Month], shown: int = 3) -> str:
    """Describe ascending months as spans, `1940-01 to 1940-05, 1941-02`; after `shown` spans, count the rest."""
    runs = runs_of(months)
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs[:shown]]
    more = sum(len(run) for run in runs[shown:])
    return ", ".join(texts) + (f" and {more:,} more month{'' if more == 1 else 's'}" if more else "")
