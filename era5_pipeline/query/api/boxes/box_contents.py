"""What the table holds of a box, by its ledger: which months and places, and what is missing of those asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.derived_variables import holds, stored_columns
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month, month_range, spans
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.query.api.boxes.grid_window import GridWindow
from era5_pipeline.query.available import (
    FEWEST_HOURS,
    absence_of,
    lacking_column,
    months_held,
    nearest_place,
    places_held,
    point_name,
    some_row,
    span_held,
)
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.ledger import multirange

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model import grid
    from era5_pipeline.model.variables import Variable

_SHOWN_SPANS = 6


@dataclass(frozen=True)
class BoxContents:
    """A box and what is missing of it.

    `start` and `end` are those asked for, or those of the months that are held. `missing_months` are those in which no
    place of the box has the column, by column, for columns that lack some; `incomplete_months` lack hours or values
    somewhere in the box. Of the grid points of the box the table holds `points_held`. `left_out` names single hours
    that decided neither the area nor the time, where these were left open.
    """

    window: GridWindow
    area: grid.Area
    variables: tuple[Variable, ...]
    start: datetime
    end: datetime
    missing_months: dict[str, tuple[Month, ...]]
    incomplete_months: tuple[Month, ...]
    points_held: int
    left_out: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """What is missing, in words."""
        alike: dict[tuple[Month, ...], list[str]] = {}
        for column, months in self.missing_months.items():
            alike.setdefault(months, []).append(column)
        lines = []
        for months, columns in alike.items():
            what = "data" if len(columns) == len(self.variables) else ", ".join(columns)
            lines.append(f"no {what} for {spans(months, shown=_SHOWN_SPANS)}")
        if self.incomplete_months:
            lines.append(f"hours or values are missing in {spans(self.incomplete_months, shown=_SHOWN_SPANS)}")
        there = self.window.rows * self.window.columns
        if self.points_held < there:
            lines.append(f"no data at {there - self.points_held:,} of {there:,} grid points of {self.area}")
        return [*lines, *self.left_out]


def read_box_contents(
    connection: psycopg.Connection[Any],
    area: grid.Area | None,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> BoxContents:
    """What the table holds of an area with `start <= time < end` (aware; None: unlimited).

    Without an area, it is the smallest that holds all places with any of the columns in that time. Places and months of
    which the table has single hours only do not lengthen an area or a time that is left open, if it has others.

    Raises:
        NoDataError: if it holds nothing of it; it says what there is.
    """
    held_anywhere = places_held(connection)
    if not held_anywhere:
        some_row(connection)  # raises if the table is empty
        raise NoDataError(
            "the ledger of this database cannot be read, so that nothing says which places the table holds",
            remedy="Ask for one place or one hour, or let the owner run: era5 db init --roles.",
        )
    first_month, last_month = Month.of(start) if start else None, _last_month(end) if end else None
    between, with_days = _places_between(connection, first_month, last_month, columns)
    left_out = []
    if area is None and with_days and with_days != between:
        left_out.append(
            f"left out: {len(between - with_days):,} places with single hours only (name an area to have them)"
        )
        between = with_days
    held_anywhere = between or held_anywhere
    asked = LocationSet.of_area(area) if area else held_anywhere
    there = asked & held_anywhere
    if area and not there:
        latitude, longitude = (area.north + area.south) / 2, area.west + ((area.east - area.west) % 360.0) / 2
        nearest, distance = nearest_place(held_anywhere.ids(), latitude, longitude)
        raise NoDataError(
            f"the table has no location in {area}; the nearest of its {len(held_anywhere):,} is {point_name(nearest)}, "
            f"{distance:,.0f} km from the middle",
            remedy="Ask for an area with that point, or leave the area out for all that the table holds.",
        )
    months = months_held(connection, there)
    span = span_held(connection, there)
    if span and (apart := span.apart_between(start, end)):
        left_out.append(apart)
        start, end = start or span.first.start, end or span.last.end
        first_month, last_month = Month.of(start), _last_month(end)
    within = {month: held for month, held in months.items() if (start is None or month.end > start)}
    within = {month: held for month, held in within.items() if (end is None or month.start < end)}
    variables = columns or in_table_order({column for held in within.values() for column in held})
    if not within or not any(holds(held, variable) for variable in variables for held in within.values()):
        why = lacking_column(connection, variables, within, None) if within else absence_of(months, start, end)
        what = ", ".join(variable.column for variable in variables) or "row"
        where = f"in {area} " if area else ""
        raise NoDataError(
            f"the table has no {what} {where}of that time; {why.instead.removeprefix('; ')}",
            remedy=why.remedy,
        )
    if end is not None:  # hours that have not come yet are not missing
        end = min(end, max(datetime.now(UTC).replace(minute=0, second=0, microsecond=0), max(months).end))
        last_month = _last_month(end)
    first, last = first_month or min(months), last_month or max(months)
    lacking = {
        variable.column: tuple(
            month for month in month_range(first, last) if not holds(within.get(month, ()), variable)
        )
        for variable in variables
    }
    hull = area or held_anywhere.hull
    parameters = {"first": first.start.date(), "last": last.start.date(), "location_ids": multirange(there)}
    incomplete = connection.execute(read_sql("incomplete_months"), parameters).fetchall()
    return BoxContents(
        window=GridWindow.of_area(hull),
        area=hull,
        variables=variables,
        start=start or first.start,
        end=end or last.end,
        missing_months={column: found for column, found in lacking.items() if found},
        incomplete_months=tuple(Month(day.year, day.month) for (day,) in incomplete),
        points_held=len(there),
        left_out=tuple(left_out),
    )


def _last_month(end: datetime) -> Month:
    """The month of the last instant before `end`."""
    return Month.of(end - timedelta(microseconds=1))


def _places_between(
    connection: psycopg.Connection[Any], first: Month | None, last: Month | None, columns: tuple[Variable, ...] | None
) -> tuple[LocationSet, LocationSet]:
    """The places held in these months with any of the columns: all, and those with more than single hours."""
    parameters = {
        "first": first.start.date() if first else None,
        "last": last.start.date() if last else None,
        "columns": list(stored_columns(one.column for one in columns)) if columns else None,
        "fewest_hours": FEWEST_HOURS,
    }
    found = connection.execute(read_sql("places_between"), parameters).fetchone() or ()
    of_all, with_days = (LocationSet(tuple((run.lower, run.upper) for run in runs or ())) for runs in found)
    return of_all, with_days
