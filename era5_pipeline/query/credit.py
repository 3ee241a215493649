"""The credit line to print below data, from the sources that the ledger records."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.query.available import NO_LEDGER
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from datetime import date, datetime

    import psycopg

ERA5_CREDIT = "Contains modified Copernicus Climate Change Service information; data ERA5, C3S/ECMWF"
SAMPLE_CREDIT = "Generated sample data, not ERA5"
UNKNOWN_CREDIT = "Source unknown"


def read_credit(connection: psycopg.Connection[Any], start: datetime | None, end: datetime | None) -> str:
    """The credit line for data with `start <= time < end` (aware; None: unlimited).

    Copernicus is credited only if a month came from a source of real data.
    """
    first = start.astimezone(UTC).date().replace(day=1) if start else None
    last = (end.astimezone(UTC) - timedelta(microseconds=1)).date().replace(day=1) if end else None
    sources = _sources(connection, first, last)
    credits_ = {SAMPLE_CREDIT if source_kind(source).is_generated else ERA5_CREDIT for source in sources}
    if len(credits_) == 2:
        return f"{ERA5_CREDIT}; some months are generated sample data, not ERA5"
    return credits_.pop() if credits_ else UNKNOWN_CREDIT


def _sources(connection: psycopg.Connection[Any], first: date | None, last: date | None) -> list[str]:
    try:
        rows = connection.execute(read_sql("sources"), {"first": first, "last": last}).fetchall()
    except NO_LEDGER:
        return []
    return [source for (source,) in rows]
