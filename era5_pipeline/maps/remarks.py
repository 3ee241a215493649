"""A map that was read: its field, remarks on what is missing, the time that it covers, and words for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.maps.fields import unit_text, variable_title
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.read.held import NO_LEDGER, describe_months, months_held
from era5_pipeline.read.missing import describe_absent_locations, no_rows, only_null
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.climate.cells import CellValues
    from era5_pipeline.climate.question import CellStatistic
    from era5_pipeline.maps.fields import FieldMap
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable

# --- Lines that name what is missing on a map of several hours: locations, hours, months, years, summaries ---


_SUMMARIES = "Compute them from the hours: era5 db summaries."


def describe_missing(
    variable: Variable, location_ids: npt.NDArray[np.int32], area: Area | None, wanted: LocationSet, kind: str
) -> list[str]:
    """Describe which locations of the area (without one: of `wanted`) are not drawn; empty if all are."""
    if variable.extent != "everywhere":
        return []  # undefined over land, or where there is no cloud, ice or the like: no gap
    return describe_absent_locations(variable, LocationSet.of_ids(location_ids), area, wanted, kind)


def describe_incomplete_locations(
    cells: CellValues, is_enough: npt.NDArray[np.bool_], expected: int, when: str
) -> list[str]:
    """Say how many locations are missing hours, and the range of hours that they have; empty if all have enough."""
    if is_enough.all():
        return []
    hours = cells.hours[~is_enough]
    return [
        f"{hours.size:,} of {is_enough.size:,} locations have only {_between(hours)} of {expected:,} hours of {when}"
    ]


def describe_short_records(
    years: npt.NDArray[np.int64], needed: int, most: int, which: str
) -> tuple[list[str], list[str]]:
    """Say how many locations have too few complete years, and how few the others have."""
    absent, remarks = [], []
    if (years < needed).any():
        count = int((years < needed).sum())
        absent.append(f"{count:,} of {years.size:,} locations have fewer than {needed} {which}")
    fewer = years[(years >= needed) & (years < most)]
    if fewer.size:
        remarks.append(f"{fewer.size:,} of {years.size:,} locations have only {_between(fewer)} {which}")
    return absent, remarks


def describe_missing_summaries(
    connection: psycopg.Connection[Any], months: Sequence[Month], area: Area | None
) -> list[str]:
    """Name those of these months for which the table holds hours but no summaries."""
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
        "location_ids": LocationSet.of_area(area).multirange if area else None,
    }
    try:
        rows = connection.execute(read_sql("months_without_summaries"), parameters).fetchall()
    except NO_LEDGER:
        return []
    return [Month(day.year, day.month) for (day,) in rows]


def _between(numbers: npt.NDArray[np.integer[Any]]) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


# --- The map that was read ---


_WORDS: dict[CellStatistic, str] = {"mean": "mean", "min": "lowest hour", "max": "highest hour", "sum": "total"}


@dataclass(frozen=True, eq=False)
class MapReading:
    """A field, from data with `start <= time < end` (aware).

    `absent` says which locations are grey, and why; `remarks` what else to know about the values. `summary` says what
    was read, in the words of a terminal: `mean of 2023-07-15 (UTC)`; `table_unit` is the unit of the values there.
    `left_out` names distant locations that are not on the map.
    """

    field: FieldMap
    absent: tuple[str, ...]
    remarks: tuple[str, ...]
    start: datetime
    end: datetime
    summary: str
    table_unit: str
    left_out: str | None = None

    @property
    def locations(self) -> LocationSet:
        """The locations that have a value on the map."""
        return self.field.locations

    @property
    def lines(self) -> list[str]:
        """Lines that name what is missing."""
        return [*self.absent, *self.remarks]

    @property
    def notes(self) -> list[str]:
        """The same lines, worded for a figure."""
        return [
            *(f"Grey: no data; {line}" for line in self.absent),
            *(f"{line[0].upper()}{line[1:]}" for line in (*self.remarks, *([self.left_out] if self.left_out else []))),
        ]

    @property
    def counted(self) -> str:
        """The number of locations with a value, and the lowest and highest value, with their unit."""
        values = self.field.values[np.isfinite(self.field.values)]
        low, high = float(values.min()), float(values.max())
        if self.field.is_difference:
            # Differences are small compared with the values that the variable's rounding is meant for.
            digits = 2 if max(-low, high) >= 0.1 else 4
            texts = [f"{round(value, digits) + 0.0:+.{digits}f}" for value in (low, high)]
        else:
            texts = [self.field.variable.rounded(value) for value in (low, high)]
        return f"{values.size:,} locations, {texts[0]} to {texts[1]} {self.table_unit}"


def statistic_words(statistic: CellStatistic) -> str:
    """The wording of a statistic in figures."""
    return _WORDS[statistic]


def title_words(variable: Variable) -> str:
    """The name of a variable in figures."""
    return variable_title(variable)


def unit_words(variable: Variable, statistic: CellStatistic, period: str) -> str:
    """The unit of a statistic for a colour bar: `mm in the day`; for a total's mean or extreme, `mm in an hour`."""
    unit = unit_text(variable.unit)
    if statistic == "sum":
        return f"{unit} in the {period}"
    return f"{unit} in an hour" if variable.step_type == "accum" else unit
