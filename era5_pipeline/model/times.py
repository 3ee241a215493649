"""Times in UTC: hours as whole numbers since 1970, and the years, months, days and hours that users write."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

    from era5_pipeline.model.months import Month

# --- Hours as whole numbers since 1970-01-01T00 UTC, to and from datetimes, months and text ---
#
# ERA5's valid times are full hours, so an integer identifies each; files, rows and ledger use these functions.
# Runs of hours are text in facts and in the ledger: `2023-09-08T00 to 2023-09-30T23`.


SECONDS_PER_HOUR = 3600
# Seconds from 1970 to 2000-01-01 00:00 UTC, from which PostgreSQL's binary times count.
POSTGRES_EPOCH_SECONDS = 946_684_800
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_BETWEEN = " to "
# WMO's current normal period, the baseline of anomalies unless a user names another.
NORMAL_PERIOD = "1991-2020"


def hour_of(time: datetime) -> int:
    """The hour that contains `time` (aware)."""
    return (time - _EPOCH) // _HOUR


def time_of(hour: int) -> datetime:
    """The start of the hour, aware and in UTC: the inverse of `hour_of`."""
    return _EPOCH + hour * _HOUR


def hours_of_month(month: Month) -> range:
    """All hours of the month."""
    first = hour_of(month.start)
    return range(first, first + month.hours)


def as_datetime64(hours: npt.NDArray[np.int64]) -> npt.NDArray[np.datetime64]:
    """Hours, of any shape, as datetime64[h]."""
    return hours.astype("datetime64[h]")


def from_datetime64(times: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """The hours, int64, that contain `times`, of any shape: the inverse of `as_datetime64`."""
    return times.astype("datetime64[h]").astype("int64")


def describe_hours(hours: Iterable[int]) -> tuple[str, ...]:
    """Write ascending hours as runs, `2023-09-08T00 to 2023-09-30T23`; a single hour is `2023-09-08T00`."""
    runs: list[tuple[int, int]] = []
    for hour in map(int, hours):
        if runs and hour == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], hour)
        else:
            runs.append((hour, hour))
    return tuple(_text(first) if first == last else f"{_text(first)}{_BETWEEN}{_text(last)}" for first, last in runs)


def hours_in(runs: Iterable[str]) -> frozenset[int]:
    """Parse runs of hours, of one or several columns: the inverse of `describe_hours`."""
    found: set[int] = set()
    for run in runs:
        first, _, last = run.partition(_BETWEEN)
        found.update(range(_hour(first), _hour(last or first) + 1))
    return frozenset(found)


def _text(hour: int) -> str:
    return f"{time_of(hour):%Y-%m-%dT%H}"


def _hour(text: str) -> int:
    return hour_of(datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC))


_TIME = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2})"
    r"(?:[Tt ](?P<hour>\d{2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?"
    r"(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?)?)?)?)?",
    re.ASCII,
)
_OFFSET = re.compile(r"(?P<sign>[+-]?)(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?", re.ASCII)
_FORMS = (
    "Times are written 2023, 2023-07, 2023-07-15 or 2023-07-15T12:00, in UTC unless an offset such as +02:00 follows."
)


@dataclass(frozen=True)
class _Span:
    """The period that a text names: `start` included, `end` excluded, aware and in UTC."""

    start: datetime
    end: datetime
    is_instant: bool


def parse_time_range(from_text: str | None, to_text: str | None) -> tuple[datetime | None, datetime | None]:
    """Parse a range from the start of `from_text` to the end of `to_text`: (start, end), where `end` is excluded.

    Each is a year, month, day or instant; None leaves that side open. `to_text` is included whole, an instant
    with its hour: 2023-07-15T12:00 gives 13:00. Both results are aware and in UTC.
    """
    start = _parse(from_text).start if from_text is not None else None
    end = _parse(to_text).end if to_text is not None else None
    if start is not None and end is not None and start >= end:
        raise UsageError(f"the range {from_text} to {to_text} is empty", remedy="Give the earlier time first.")
    return start, end


def parse_instant(text: str) -> datetime:
    """Parse an instant on a full hour of UTC; the result is aware and in UTC."""
    span = _parse(text)
    if not span.is_instant:
        raise UsageError(f"{text!r} has no hour", remedy=f"Add one, for example {span.start:%Y-%m-%dT12:00}.")
    if span.start != _hour_of(span.start):
        raise UsageError(
            f"{text!r} is not on a full hour of UTC",
            remedy=f"ERA5 is hourly: ask for {_hour_of(span.start):%Y-%m-%dT%H:00Z}, for example.",
        )
    return span.start


def parse_day(text: str) -> date:
    """Parse a day, `2023-07-15`."""
    span = _parse(text)
    if span.is_instant or span.end - span.start != timedelta(days=1):
        raise UsageError(f"{text!r} names no day", remedy=f"A day is written {span.start:%Y-%m-%d}, for example.")
    return span.start.date()


def _hour_of(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def _parse(text: str) -> _Span:
    match = _TIME.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a time", remedy=_FORMS)
    try:
        return _span(match)
    except (ValueError, OverflowError) as error:
        # Month 13, 30 February, hour 24, or a time outside the years 1 to 9999 in UTC.
        raise UsageError(f"{text!r} is not a time: {error}", remedy=_FORMS) from None


def _span(match: re.Match[str]) -> _Span:
    year, month, day = (int(match[name] or 1) for name in ("year", "month", "day"))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    start = datetime(year, month, day, hour, minute, second, tzinfo=_zone(match["zone"])).astimezone(UTC)
    if match["hour"]:
        return _Span(start, _hour_of(start) + _HOUR, is_instant=True)
    if match["day"]:
        days = 1
    elif match["month"]:
        days = monthrange(year, month)[1]
    else:
        days = sum(monthrange(year, number)[1] for number in range(1, 13))
    return _Span(start, start + timedelta(days=days), is_instant=False)


def _zone(text: str | None) -> timezone:
    if text is None or text in "Zz":
        return UTC
    minutes = int(text[-2:]) if len(text) > 3 else 0
    offset = timedelta(hours=int(text[1:3]), minutes=minutes)
    return timezone(-offset if text.startswith("-") else offset)


def parse_offset(text: str) -> int:
    """Parse an offset from UTC, `+07:00`, `-03:30` or `7`: local time minus UTC, in minutes."""
    match = _OFFSET.fullmatch(text.strip())
    minutes = int(match["hours"]) * 60 + int(match["minutes"] or 0) if match else 0
    if match and match["sign"] == "-":
        minutes = -minutes
    if not match or int(match["minutes"] or 0) > 59 or not -12 * 60 <= minutes <= 14 * 60:
        raise UsageError(
            f"{text!r} is not an offset from UTC",
            remedy="Give one from -12:00 to +14:00, for example +07:00 or -03:30.",
        )
    return minutes


def offset_text(minutes: int) -> str:
    """Write an offset from UTC as `UTC`, `UTC+07:00` or `UTC-03:30`."""
    hours, part = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '-'}{hours:02d}:{part:02d}" if minutes else "UTC"


def spoken(seconds: float) -> str:
    """Format a duration: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
