"""The question of a climate answer: a place or an area, a period, a baseline, and the time zone of its days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import TYPE_CHECKING, Self

from era5_pipeline.climate.anomalies import DEFAULT_BASELINE, parse_baseline
from era5_pipeline.climate.answer import ClimatePlace, YearSpan
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
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
        """The days from the start of one time to the end of the other: each a year, a month or a day.

        Raises:
            UsageError: if one is not a year, month or day, or the range is empty.
        """
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

    Raises:
        UsageError: if a time, the baseline or the offset is wrong.
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
