"""Lines that name what a map of several hours lacks: locations, hours, months, years, summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.query.available import NO_LEDGER, describe_months, months_held
from era5_pipeline.query.snapshots import line_of_absent, no_rows, only_null
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.ledger import multirange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.maps.cell_values import CellValues

_SUMMARIES = "Compute them from the hours: era5 db summaries."


def lines_of_missing(
    variable: Variable, location_ids: npt.NDArray[np.int32], area: Area | None, wanted: LocationSet, kind: str
) -> list[str]:
    """Say which locations are not drawn, of those of the area or, without one, of those `wanted`; none if all are."""
    if variable.extent != "everywhere":
        return []  # missing over land, or where the thing itself is not there: no gap
    return line_of_absent(variable, LocationSet.of_ids(location_ids), area, wanted, kind)


def lines_of_short(cells: CellValues, is_enough: npt.NDArray[np.bool_], expected: int, when: str) -> list[str]:
    """Say how many locations lack hours, and between which numbers they have; none if all have enough."""
    if is_enough.all():
        return []
    hours = cells.hours[~is_enough]
    return [
        f"{hours.size:,} of {is_enough.size:,} locations have only {_between(hours)} of {expected:,} hours of {when}"
    ]


def lines_of_few_years(years: npt.NDArray[np.int64], needed: int, most: int, which: str) -> tuple[list[str], list[str]]:
    """Say how many locations have fewer complete years than are needed, and of how few years the others are."""
    absent, remarks = [], []
    if (years < needed).any():
        count = int((years < needed).sum())
        absent.append(f"{count:,} of {years.size:,} locations have fewer than {needed} {which}")
    fewer = years[(years >= needed) & (years < most)]
    if fewer.size:
        remarks.append(f"{fewer.size:,} of {years.size:,} locations have only {_between(fewer)} {which}")
    return absent, remarks


def lines_without_summaries(
    connection: psycopg.Connection[Any], months: Sequence[Month], area: Area | None
) -> list[str]:
    """Say of which of these months the table holds hours, and no summaries."""
    lacking = _without_summaries(connection, months, area)
    if not lacking:
        return []
    return [f"no monthly summaries of {describe_months(lacking)}, whose hours are there: era5 db summaries makes them"]


def no_summaries(
    connection: psycopg.Connection[Any],
    variable: Variable,
    months: Sequence[Month],
    area: Area | None,
    when: str,
) -> NoDataError:
    """The error for months (at least one) without a value in the summaries; `when` names them in words."""
    lacking = _without_summaries(connection, months, area)
    if lacking:
        return NoDataError(
            f"{when}: the table holds the hours of {describe_months(lacking)}, and no monthly summaries",
            remedy=_SUMMARIES,
        )
    held = months_held(connection, LocationSet.of_area(area) if area else None)
    there = [month for month in months if month in held]
    if there:
        return only_null(connection, variable, there, area, f"in {when}")
    return no_rows(connection, months[0].start, months[-1].end, area, when, "that time")


def _without_summaries(connection: psycopg.Connection[Any], months: Sequence[Month], area: Area | None) -> list[Month]:
    parameters = {
        "months": [month.start.date() for month in months],
        "location_ids": multirange(LocationSet.of_area(area)) if area else None,
    }
    try:
        rows = connection.execute(read_sql("months_without_summaries"), parameters).fetchall()
    except NO_LEDGER:
        return []
    return [Month(day.year, day.month) for (day,) in rows]


def _between(numbers: npt.NDArray[np.integer[Any]]) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
