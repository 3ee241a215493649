"""The times of an answer: its hours and days at one offset from UTC, and their formats.

All hours of an answer have the same offset: the standard time of the zone, in the last full year of the request (as
`era5 climate` delimits days). Open-Meteo uses the zone's offset at the moment of the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from era5_pipeline.model.cells import last_full_year, standard_offset

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

TimeFormat = Literal["iso8601", "unixtime"]

# Seconds between the values of a section.
SECONDS = {"hourly": 3600, "daily": 86_400}
_HOUR_SECONDS, _DAY_SECONDS = SECONDS.values()
# Bytes of `"2022-01-01T00:00",` and `"2022-01-01",`.
_HOUR_BYTES, _DAY_BYTES = 19, 13


@dataclass(frozen=True)
class AnswerZone:
    """A zone as named in an answer, with its offset: local time minus UTC."""

    name: str
    offset_seconds: int

    @property
    def abbreviation(self) -> str:
        """`GMT`, `GMT+7`, `GMT-3:30`."""
        if not self.offset_seconds:
            return "GMT"
        hours, minutes = divmod(abs(self.offset_seconds) // 60, 60)
        part = f":{minutes:02}" if minutes else ""
        return f"GMT{'+' if self.offset_seconds > 0 else '-'}{hours}{part}"

    @property
    def whole_hours_seconds(self) -> int:
        """The offset without its fraction of an hour, which hourly values cannot follow."""
        hours = abs(self.offset_seconds) // _HOUR_SECONDS * _HOUR_SECONDS
        return hours if self.offset_seconds >= 0 else -hours


GMT = AnswerZone("GMT", 0)


@lru_cache(maxsize=1024)
def answer_zone(name: str, first_year: int, last: date) -> AnswerZone:
    """The zone of this name for days of these years, up to `last`.

    Raises:
        UsageError: if the zone is unknown.
    """
    last_year = last_full_year(first_year, last + timedelta(days=1))
    return AnswerZone(name, standard_offset(name, last_year, last_year).minutes * 60)


@dataclass(frozen=True)
class Days:
    """Local days from `first` to `last`, both included."""

    first: date
    last: date

    def __len__(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def hours(self) -> int:
        """The number of hours of these days."""
        return 24 * len(self)

    def start(self, zone: AnswerZone) -> datetime:
        """The first full hour of UTC to read for these days."""
        return datetime.combine(self.first, time(), UTC) - timedelta(seconds=zone.whole_hours_seconds)

    def first_second(self, zone: AnswerZone) -> int:
        """The first midnight of these days in the zone, as seconds since 1970 in UTC."""
        return int(datetime.combine(self.first, time(), UTC).timestamp()) - zone.offset_seconds


def hours_as_json(days: Days, zone: AnswerZone, form: TimeFormat) -> bytes:
    """The hours as a JSON list: local times without a zone, or seconds since 1970 in UTC."""
    if form == "unixtime":
        return _unix_list(days.first_second(zone), days.hours, _HOUR_SECONDS)
    return _list_of(days, _hours_of_year, 24 * _HOUR_BYTES)


def days_as_json(days: Days, zone: AnswerZone, form: TimeFormat) -> bytes:
    """The days as a JSON list: dates, or seconds since 1970 of their local midnights."""
    if form == "unixtime":
        return _unix_list(days.first_second(zone), len(days), _DAY_SECONDS)
    return _list_of(days, _days_of_year, _DAY_BYTES)


def hours_as_text(days: Days, zone: AnswerZone, form: TimeFormat) -> list[str]:
    """The hours, as `hours_as_json` writes them."""
    return hours_as_json(days, zone, form)[1:-1].decode().replace('"', "").split(",")


def days_as_text(days: Days, zone: AnswerZone, form: TimeFormat) -> list[str]:
    """The days, as `days_as_json` writes them."""
    return days_as_json(days, zone, form)[1:-1].decode().replace('"', "").split(",")


def moments_as_json(seconds: npt.NDArray[np.int64], zone: AnswerZone, form: TimeFormat) -> bytes:
    """Moments (n,), seconds since 1970 in UTC, as a JSON list: the nearest local minutes, or the seconds."""
    if form == "unixtime":
        return b"[" + ",".join(map(str, seconds.tolist())).encode() + b"]"
    local = (seconds + zone.offset_seconds + 30).astype("datetime64[s]").astype("datetime64[m]")
    return b"[" + ",".join(f'"{time}"' for time in np.datetime_as_string(local).tolist()).encode() + b"]"


def moments_as_text(seconds: npt.NDArray[np.int64], zone: AnswerZone, form: TimeFormat) -> list[str]:
    """The moments, as `moments_as_json` writes them."""
    return moments_as_json(seconds, zone, form)[1:-1].decode().replace('"', "").split(",")


def _list_of(days: Days, of_year: Callable[[int], bytes], day_bytes: int) -> bytes:
    """Join slices of whole years that are cached: writing a year of hours takes milliseconds."""
    parts = []
    for year in range(days.first.year, days.last.year + 1):
        begin = (max(days.first, date(year, 1, 1)) - date(year, 1, 1)).days
        after = (min(days.last, date(year, 12, 31)) - date(year, 1, 1)).days + 1
        parts.append(of_year(year)[begin * day_bytes : after * day_bytes])
    return b"[" + b"".join(parts)[:-1] + b"]"


@lru_cache(maxsize=200)
def _hours_of_year(year: int) -> bytes:
    hours = np.arange(f"{year}-01-01T00", f"{year + 1}-01-01T00", dtype="datetime64[h]")
    return "".join(f'"{hour}",' for hour in np.datetime_as_string(hours, unit="m").tolist()).encode()


@lru_cache(maxsize=200)
def _days_of_year(year: int) -> bytes:
    days = np.arange(f"{year}-01-01", f"{year + 1}-01-01", dtype="datetime64[D]")
    return "".join(f'"{day}",' for day in np.datetime_as_string(days).tolist()).encode()


def _unix_list(start: int, count: int, step: int) -> bytes:
    return b"[" + ",".join(map(str, range(start, start + count * step, step))).encode() + b"]"
