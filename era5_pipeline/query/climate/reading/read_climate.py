"""The climate answer of a place or an area, from the warehouse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.places.time_zones import standard_offset
from era5_pipeline.model.times import parse_time_range
from era5_pipeline.query.available import absence_of, describe_months, months_held
from era5_pipeline.query.climate.climate_answer import DayRule
from era5_pipeline.query.climate.make_answer import make_answer
from era5_pipeline.query.climate.reading.climate_hours import hours_of_area, hours_of_cell, locations_of_area
from era5_pipeline.query.climate.reading.climate_provenance import read_provenance
from era5_pipeline.query.climate.trends import describe_years

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer, ClimatePlace, YearSpan

    Connection = psycopg.Connection[Any]

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Period:
    """Days from `first` to `last`, both included; None: no limit."""

    first: date | None = None
    last: date | None = None

    @classmethod
    def parse(cls, from_text: str | None, to_text: str | None) -> Self:
        """The days from the start of `from_text` to the end of `to_text`: each a year, a month or a day.

        Raises:
            UsageError: if one is none of these, or the range is empty.
        """
        start, end = parse_time_range(from_text, to_text)
        for text, instant in ((from_text, start), (to_text, end)):
            if instant is not None and instant.time() != time():
                raise UsageError(f"{text!r} is an hour", remedy="An answer is made of days: give a year, month or day.")
        return cls(start.date() if start else None, (end - _DAY).date() if end else None)


@dataclass(frozen=True)
class DayChoice:
    """How days are to be cut: at an offset from UTC in minutes or, with a zone, at its standard offset."""

    offset_minutes: int = 0
    zone: str | None = None


def read_climate(
    connection: Connection, place: ClimatePlace, period: Period, baseline: YearSpan, choice: DayChoice
) -> ClimateAnswer:
    """Answer how the weather of a place has changed.

    The baseline's years are read even where they are outside the period. The connection is in autocommit mode.

    Raises:
        NoDataError: if the table has no whole day of the place in the period; it says what there is, and what to do.
        UsageError: if there is no such zone.
    """
    if place.area is not None:
        locations = locations_of_area(connection, place.area)
        place = replace(place, points=len(locations))
    elif place.location is not None:
        locations = LocationSet(((place.location.location_id, place.location.location_id + 1),))
    else:
        raise ValueError("neither a location nor an area")
    _require_months(connection, place, locations, period)
    start, end = _to_read(period, baseline)
    if place.location is None:
        hours = hours_of_area(connection, locations, start, end)
    else:
        try:
            hours = hours_of_cell(connection, place.location, start, end)
        except NoDataError as error:
            raise NoDataError(error.message, remedy=_how_to_load(place)) from None
    asked = within_period(hours, period, timedelta(0))
    if asked.empty:
        raise _no_whole_day(connection, place, locations, period)
    rule = _rule(choice, asked)
    asked = within_period(hours, period, timedelta(minutes=rule.offset_minutes))
    asked = asked if len(asked) else hours
    beside = hours if len(asked) < len(hours) else None
    provenance = read_provenance(connection, locations, asked, *_instants(period, rule), beside=beside)
    answer = make_answer(hours, place, rule, baseline, provenance, first_day=period.first, last_day=period.last)
    if answer is None:
        raise _no_whole_day(connection, place, locations, period)
    return answer


def within_period(hours: pd.DataFrame, period: Period, offset: timedelta) -> pd.DataFrame:
    """The hours whose local day is within the period."""
    start, end = _bounds(period, offset)
    index = pd.DatetimeIndex(hours.index)
    first = int(index.searchsorted(pd.Timestamp(start))) if start else 0
    after = int(index.searchsorted(pd.Timestamp(end))) if end else len(index)
    return hours.iloc[first:after]


def _bounds(period: Period, offset: timedelta) -> tuple[datetime | None, datetime | None]:
    """The first instant of the period, and the first after it, of days cut at an offset."""
    start = datetime.combine(period.first, time(), UTC) - offset if period.first else None
    end = datetime.combine(period.last + _DAY, time(), UTC) - offset if period.last else None
    return start, end


def _instants(period: Period, rule: DayRule) -> tuple[datetime | None, datetime | None]:
    return _bounds(period, timedelta(minutes=rule.offset_minutes))


def _to_read(period: Period, baseline: YearSpan) -> tuple[datetime | None, datetime | None]:
    """The hours to read: of the period and the baseline, a day more at each end for any offset, two for totals."""
    start = end = None
    if period.first:
        start = datetime.combine(min(period.first, date(baseline.first, 1, 1)), time(), UTC) - _DAY
    if period.last:
        end = datetime.combine(max(period.last, date(baseline.last, 12, 31)), time(), UTC) + 2 * _DAY + _DAY
    return start, end


def _rule(choice: DayChoice, hours: pd.DataFrame) -> DayRule:
    """The offset of the days, and what to warn of; a zone's is that of the last full year of the hours."""
    minutes, zone = choice.offset_minutes, choice.zone
    others: tuple[int, ...] = ()
    first, last = (stamp.to_pydatetime() for stamp in pd.DatetimeIndex(hours.index)[[0, -1]])
    if zone is not None:
        is_full = last >= datetime(last.year, 12, 31, 23, tzinfo=UTC)
        last_year = max(last.year if is_full else last.year - 1, first.year)
        standard = standard_offset(zone, first.year, last_year)
        minutes, others = standard.minutes, standard.other_years
    rule = DayRule(minutes, zone)
    warnings = []
    if others:
        warnings.append(
            f"The standard time of {zone} was another in {describe_years(list(others))}: the days of these years are "
            f"cut at {rule.offset_name} like all others."
        )
    if minutes % 60:
        warnings.append(
            f"{rule.offset_name} has a part of an hour: a total of an hour that runs over midnight counts to the day "
            "in which the hour begins."
        )
    return replace(rule, warnings=tuple(warnings))


def _require_months(connection: Connection, place: ClimatePlace, locations: LocationSet, period: Period) -> None:
    """Require that the table has a month of the period, as far as there is a ledger that knows the place."""
    months = tuple(months_held(connection, locations))
    start, end = _bounds(period, timedelta(0))
    if not months or any(
        (start is None or month.end > start) and (end is None or month.start < end) for month in months
    ):
        return
    why = absence_of(months, start, end)
    raise NoDataError(f"{place.title}: the table has no hour of the period; {why.instead}", remedy=_how_to_load(place))


def _no_whole_day(connection: Connection, place: ClimatePlace, locations: LocationSet, period: Period) -> NoDataError:
    months = tuple(months_held(connection, locations))
    instead = f"; it holds hours of {describe_months(months)}" if months else ""
    return NoDataError(
        f"{place.title}: the table has no day of the period with all of its hours{instead}", remedy=_how_to_load(place)
    )


def _how_to_load(place: ClimatePlace) -> str:
    if place.area is not None:
        return f"Load its months: era5 load --from 1940-01 --to YYYY-MM --area {place.area}."
    if place.name:
        what = f'--place "{place.name}"'
    else:
        what = f"--lat {place.location.latitude:g} --lon {place.location.longitude:g}" if place.location else ""
    return f"Load all hours of the place in one request: era5 load --source point {what} --from 1940."
