"""Time zones: of a point, and the one fixed offset from UTC that stands for a zone in a long record.

A zone's offset from UTC has mostly changed since 1940, and summer time moves it twice a year. Local days of a record
therefore have one fixed offset: the least that the zone had in the last year of the period, which is its standard time.
The years in which it was another are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from era5_pipeline.model.errors import UsageError


@dataclass(frozen=True)
class StandardOffset:
    """The fixed offset from UTC of a zone, in minutes, and the years of the period in which it was another."""

    zone: str
    minutes: int
    other_years: tuple[int, ...]

    @property
    def is_part_hour(self) -> bool:
        """Whether it is no whole number of hours: hourly data cannot be cut into such days exactly."""
        return self.minutes % 60 != 0

    @property
    def other_years_in_words(self) -> str:
        """The years in which the offset was another: `1941 to 1944, 1970`; empty if there are none."""
        runs: list[list[int]] = []
        for year in self.other_years:
            if runs and runs[-1][1] == year - 1:
                runs[-1][1] = year
            else:
                runs.append([year, year])
        return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in runs)

    def __str__(self) -> str:
        hours, minutes = divmod(abs(self.minutes), 60)
        return f"UTC{'-' if self.minutes < 0 else '+'}{hours:02}:{minutes:02}"


def zone_of(latitude: float, longitude: float) -> str:
    """The IANA zone of a point in degrees; longitude in [-180, 360].

    At sea it is one of whole hours, with the sign inverted: Etc/GMT-7 is seven hours ahead of UTC.
    """
    from tzfpy import get_tz  # noqa: PLC0415  # loads its polygons

    # Longitudes beyond 180 give an empty answer there.
    return get_tz((longitude + 180.0) % 360.0 - 180.0, latitude)


def standard_offset(zone: str, first_year: int, last_year: int) -> StandardOffset:
    """The least offset that the zone has in `last_year`, and the years since `first_year` whose least is another.

    Of a period that ends within a year, `last_year` is its last full year.

    Raises:
        UsageError: if there is no such zone.
    """
    rules = read_zone(zone)
    standard = _least_offset(rules, last_year)
    others = tuple(year for year in range(first_year, last_year) if _least_offset(rules, year) != standard)
    return StandardOffset(zone, round(standard.total_seconds() / 60), others)


def read_zone(zone: str) -> ZoneInfo:
    """The rules of a zone of the IANA database.

    Raises:
        UsageError: if there is no such zone.
    """
    try:
        return ZoneInfo(zone)
    except (KeyError, OSError, ValueError):  # a folder of zones, such as Asia, is an OSError
        raise UsageError(
            f"{zone!r} is not a time zone", remedy="Give a name of the IANA database, such as Asia/Jakarta."
        ) from None


def _least_offset(rules: ZoneInfo, year: int) -> timedelta:
    """The least offset from UTC on any day of the year: its standard time, if it has summer time."""
    noon = datetime(year, 1, 1, 12, tzinfo=UTC)
    days = (datetime(year + 1, 1, 1, 12, tzinfo=UTC) - noon).days
    offsets = ((noon + timedelta(days=day)).astimezone(rules).utcoffset() for day in range(days))
    return min(offset for offset in offsets if offset is not None)
