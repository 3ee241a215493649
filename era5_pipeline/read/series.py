"""The answer to a series: the hours of a place, what is missing of them, and where they come from.

`era5 series` prints and draws it, `Database.series` makes a table of pandas of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.derived_variables import ordered
from era5_pipeline.model.errors import NotLoadedError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import from_datetime64, hours_of_month
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.credit import read_origin
from era5_pipeline.read.held import months_held, span_held
from era5_pipeline.read.hours import read_series
from era5_pipeline.read.missing import find_gaps, gap_lines, gaps_as_json, how_to_load, only_null_hours

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.credit import DataOrigin
    from era5_pipeline.read.fields import Series
    from era5_pipeline.read.missing import Gaps


@dataclass(frozen=True, eq=False)
class SeriesAnswer:
    """The rows of a place, its columns, their gaps and their origin.

    `left_out` names single hours far from the others, which an open range does not include.
    """

    place: AskedPlace
    rows: Series
    variables: tuple[Variable, ...]
    gaps: Mapping[str, Gaps]
    origin: DataOrigin
    left_out: str | None = None

    @property
    def lines(self) -> list[str]:
        """Lines that name what is missing."""
        return gap_lines(self.gaps)

    @property
    def facts(self) -> dict[str, Any]:
        """All but the rows, as JSON values: the place, the gaps by column, versions and credit."""
        return self.place.as_json() | gaps_as_json(self.gaps) | self.origin.attributes

    @property
    def hours(self) -> npt.NDArray[np.int64]:
        """The hours of the rows and the missing ones, ascending.

        In a month with a value every third hour, the hours between are not among them.
        """
        hours = from_datetime64(self.rows.times)
        missing = [np.array(one.due, dtype=np.int64) for one in self.gaps.values() if one.due]
        months = {month for one in self.gaps.values() for month in one.months}
        missing += [np.array(hours_of_month(month), dtype=np.int64) for month in sorted(months)]
        found: npt.NDArray[np.int64] = np.union1d(hours, np.concatenate(missing)) if missing else hours
        return found


def read_series_answer(
    connection: psycopg.Connection[Any],
    place: AskedPlace,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> SeriesAnswer:
    """Read the hours of a place with `start <= time < end` (aware; None: unlimited); `columns` None: those with values.

    An open side of the range leaves out single hours far from the other months. Gaps are those of the range; an open
    side of it ends with the first or last month that the table holds there; if the ledger does not know the place, with
    the first or last row. The connection is in autocommit mode.
    """
    location, dataset = place.cell.location, dataset_of(connection)
    there = LocationSet.of_location(location)
    span = span_held(connection, there)
    left_out = span.apart_between(start, end) if span else None
    if span and left_out:
        start, end = start or span.first.start, end or span.last.end
    try:
        rows = read_series(connection, location, columns, start, end)
    except NotLoadedError as error:
        remedy = how_to_load(location, None if place.is_moved else place.name, dataset)
        raise NotLoadedError(error.message, remedy=remedy) from None
    names_with_values = [name for name, values in rows.values.items() if np.isfinite(values).any()]
    with_values = ordered(names_with_values, dataset.catalogue)
    if not with_values:
        held, nearest_to = months_held(connection, there), (location.latitude, location.longitude)
        raise only_null_hours(connection, place.description, columns, len(rows.times), held, nearest_to)
    variables = columns or with_values
    first, last = (time.astype("datetime64[s]").item().replace(tzinfo=UTC) for time in rows.times[[0, -1]])
    if span and not (start and end):
        # Rows outside the span are single hours that the range explicitly includes.
        start = start or min(span.first, Month.of(first)).start
        end = end or max(span.last, Month.of(last)).end
    gaps = find_gaps(rows, variables, start, end)
    names = [variable.column for variable in variables]
    origin = read_origin(connection, first, last + timedelta(hours=1), there, names)
    return SeriesAnswer(place, rows, variables, gaps, origin, left_out)
