"""The climate answer of one place for Python, with a warning of what is missing."""

from __future__ import annotations

from datetime import time, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import UsageError
from era5_pipeline.query.api.missing_data import warn_of_missing
from era5_pipeline.query.climate.anomalies import parse_baseline
from era5_pipeline.query.climate.climate_answer import ClimatePlace
from era5_pipeline.query.climate.reading.read_climate import DayChoice, Period, read_climate

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from era5_pipeline.model.places.place import AskedPlace
    from era5_pipeline.query.climate.climate_answer import ClimateAnswer


def read_place_climate(
    connection: psycopg.Connection[Any],
    asked: AskedPlace,
    period: tuple[datetime | None, datetime | None],
    baseline: str,
    *,
    local_time: bool,
) -> ClimateAnswer:
    """The answer for the days of `start <= time < end` (None: unlimited), as `Database.climate` documents it.

    Raises:
        UsageError: if the baseline is wrong, or the period does not consist of days.
        NoDataError: if the table has no whole day of it.
    """
    if any(instant is not None and instant.time() != time() for instant in period):
        raise UsageError("the period is of hours", remedy="An answer is made of days: give a year, month or day.")
    start, end = period
    days = Period(start.date() if start else None, (end - timedelta(days=1)).date() if end else None)
    subject = ClimatePlace.of_asked(asked, in_its_zone=local_time)
    choice = DayChoice(zone=subject.zone) if local_time else DayChoice()
    answer = read_climate(connection, subject, days, parse_baseline(baseline), choice)
    warn_of_missing(asked.description, list(answer.provenance.gaps))
    return answer
