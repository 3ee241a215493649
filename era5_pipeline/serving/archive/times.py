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
    from collections.abc import Iterable

    import numpy.typing as npt

TimeFormat = Literal["iso8601", "unixtime"]
# The sections of an answer.
Kind = Literal["hourly", "daily"]

# Seconds between the values of a section.
SECONDS: dict[Kind, int] = {"hourly": 3600, "daily": 86_400}
# Bytes of a day, by those of `"2022-01-01T00:00",` and `"2022-01-01",`.
_DAY_BYTES: dict[Kind, int] = {"hourly": 24 * 19, "daily": 13}


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
        hours = abs(self.offset_seconds) // SECONDS["hourly"] * SECONDS["hourly"]
        return hours if self.offset_seconds >= 0 else -hours


GMT = AnswerZone("GMT", 0)


@lru_cache(maxsize=1024)
def answer_zone(name: str, first_year: int, last: date) -> AnswerZone:
    """The zone of this name for days of these years, up to `last`; a `UsageError` if it is unknown."""
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


def times_as_json(kind: Kind, days: Days, zone: AnswerZone, form: TimeFormat) -> bytes:
    """The hours or days as a JSON list: local times without a zone and dates, or seconds since 1970 in UTC."""
    if form == "unixtime":
        start, step = days.first_second(zone), SECONDS[kind]
        return _as_list(str(second) for second in range(start, start + len(days) * SECONDS["daily"], step))
    parts = []
    for year in range(days.first.year, days.last.year + 1):
        begin = (max(days.first, date(year, 1, 1)) - date(year, 1, 1)).days
        after = (min(days.last, date(year, 12, 31)) - date(year, 1, 1)).days + 1
        parts.append(_times_of_year(kind, year)[begin * _DAY_BYTES[kind] : after * _DAY_BYTES[kind]])
    return b"[" + b"".join(parts)[:-1] + b"]"


@lru_cache(maxsize=400)
def _times_of_year(kind: Kind, year: int) -> bytes:
    """All times of a year, kept: writing a year of hours takes milliseconds."""
    hours = np.arange(f"{year}-01-01", f"{year + 1}-01-01", dtype="datetime64[h]")
    times = np.datetime_as_string(hours, "m") if kind == "hourly" else np.datetime_as_string(hours[::24], "D")
    return "".join(f'"{time}",' for time in times.tolist()).encode()


def moments_as_json(seconds: npt.NDArray[np.int64], zone: AnswerZone, form: TimeFormat) -> bytes:
    """Moments (n,), seconds since 1970 in UTC, as a JSON list: the nearest local minutes, or the seconds."""
    if form == "unixtime":
        return _as_list(map(str, seconds.tolist()))
    local = (seconds + zone.offset_seconds + 30).astype("datetime64[s]").astype("datetime64[m]")
    return _as_list(f'"{time}"' for time in np.datetime_as_string(local).tolist())


def texts_of(listed: bytes) -> list[str]:
    """The times of such a list, as they are in CSV."""
    return listed[1:-1].decode().replace('"', "").split(",")


def _as_list(texts: Iterable[str]) -> bytes:
    return f"[{','.join(texts)}]".encode()
