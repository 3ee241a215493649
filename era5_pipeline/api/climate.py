"""The climate answer of one place for Python, with a warning if anything is missing."""

from __future__ import annotations

from datetime import time, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.api.frames import warn_of_missing
from era5_pipeline.climate.anomalies import parse_baseline
from era5_pipeline.climate.answer import ClimatePlace
from era5_pipeline.climate.reading import DayChoice, Period, read_climate
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from era5_pipeline.climate.answer import ClimateAnswer
    from era5_pipeline.model.places import AskedPlace


def read_place_climate(
    connection: psycopg.Connection[Any],
    asked: AskedPlace,
    period: tuple[datetime | None, datetime | None],
    baseline: str,
    *,
    local_time: bool,
) -> ClimateAnswer:
    """Answer for the days of `start <= time < end` (None: unlimited), as documented in `Database.climate`.

    Raises:
        UsageError: if the baseline is invalid, or the period does not consist of whole days.
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
