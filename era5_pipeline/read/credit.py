"""The credit line to print below data, and the notice above generated data, from the sources that the ledger records.

Copernicus's licence asks for "Contains modified Copernicus Climate Change Service information [Year]" and does not say
which year. Here it is the year of the data, as in the credit of Copernicus's Sentinel data: it follows from the table,
so the same data give the same picture on any day. For several years it is "1940 to 2024".
"""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.derived_variables import stored_columns
from era5_pipeline.model.grid import Shift
from era5_pipeline.model.source_kinds import ORIGIN_TEXTS, ORIGINS, source_kind
from era5_pipeline.read.held import NO_LEDGER
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import psycopg

    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.source_kinds import Origin

_COPERNICUS = "Contains modified Copernicus Climate Change Service information"
SAMPLE_CREDIT = "Generated sample data, not ERA5"
UNKNOWN_CREDIT = "Source unknown"
_NOTHING_REAL = "not ERA5: these numbers say nothing about the real weather"


def sample_notice(sources: Iterable[str]) -> str | None:
    """The warning that must precede generated data; None if none of these sources is generated.

    An answer with this warning draws no conclusion: neither "warmer" nor "significant".
    """
    is_generated = {source_kind(name).is_generated for name in sources}
    if True not in is_generated:
        return None
    if False in is_generated:
        return f"Partly generated sample data, {_NOTHING_REAL}."
    return f"Generated sample data, {_NOTHING_REAL}."


def era5_credit(first_year: int, last_year: int) -> str:
    """The credit line for ERA5 data from the first to the last year."""
    years = f"{first_year}" if first_year == last_year else f"{first_year} to {last_year}"
    return f"{_COPERNICUS} {years}; data ERA5, C3S/ECMWF"


def read_credit(
    connection: psycopg.Connection[Any],
    start: datetime | None,
    end: datetime | None,
    locations: LocationSet | None = None,
    columns: Iterable[str] | None = None,
) -> str:
    """The credit line for data with `start <= time < end` (aware; None: unlimited) of places and columns (None: all).

    Copernicus is credited only if a month came from a source of real data, with the years of those months. It
    also says if values were interpolated between the grid points, and if files do not show that they are of ERA5.
    """
    first = start.astimezone(UTC).date().replace(day=1) if start else None
    last = (end.astimezone(UTC) - timedelta(microseconds=1)).date().replace(day=1) if end else None
    parameters = {
        "first": first,
        "last": last,
        "location_ids": None if locations is None else locations.multirange,
        "columns": None if columns is None else list(stored_columns(columns)),
    }
    try:
        rows = connection.execute(read_sql("sources"), parameters).fetchall()
    except NO_LEDGER:
        rows = []
    return credit_of(
        ((source, start.year, end.year) for sources, start, end, *_ in rows for source in sources),
        (Shift.from_json(interpolated) for sources, _, _, interpolated, _ in rows if sources),
        (origin for sources, *_, origin in rows if sources),
    )


def credit_of(
    sources: Iterable[tuple[str, int, int]],
    shifts: Iterable[Shift | None] = (),
    origins: Iterable[Origin | None] = (),
) -> str:
    """The credit line for data of these sources, each with the first and the last year of its data.

    `shifts` are those of the parts with values between the grid points, None for those on the grid; `origins` say of
    each part whose word it is that it is of ERA5, None if that was not recorded.
    """
    sources = list(sources)
    real = [years for source, *years in sources if not source_kind(source).is_generated]
    if not real:
        return SAMPLE_CREDIT if sources else UNKNOWN_CREDIT
    credit = era5_credit(min(first for first, _ in real), max(last for _, last in real))
    if len(real) < len(sources):
        credit = f"{credit}; some months are generated sample data, not ERA5"
    found, said = list(dict.fromkeys(shifts)), set(origins)
    some = "some values " if len(found) > 1 else ""
    doubts = [ORIGIN_TEXTS[origin] for origin in ORIGINS if origin in said and origin in ORIGIN_TEXTS]
    some_of = "some values: " if len(said) > 1 else ""
    return "; ".join(
        [
            credit,
            *(f"{some}{shift.text}" for shift in found if shift is not None),
            *(f"{some_of}{doubt}" for doubt in doubts),
        ]
    )
