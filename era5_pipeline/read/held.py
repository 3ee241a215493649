"""Contents of the table: at a place, and month by month of each variable and area."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.dataset import load_command
from era5_pipeline.model.derived_variables import DERIVED, stored_columns
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import ERA5_GRID, Area, Shift
from era5_pipeline.model.location_set import GridWindow, LocationSet
from era5_pipeline.model.months import Month, month_range, runs_of, spans
from era5_pipeline.model.source_kinds import PRELIMINARY, Snapshot, named_store, source_kind, version_of
from era5_pipeline.model.times import hours_in, hours_of_month, time_of
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_NAME
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.fetch import fetch_array, nothing_loaded, table_required, value_of
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import numpy.typing as npt

    from era5_pipeline.model.source_kinds import Origin, Version
    from era5_pipeline.model.variables import Variable

# --- Contents of the table at a place: from the ledger; without one, from the rows ---
#
# The rows serve where there is no ledger, or the user may not read it.


# The ledger is missing, or this user may not read it.
NO_LEDGER = (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege)
# Until its last users take `everywhere`, that of ERA5.
EVERYWHERE = Area.parse("global", ERA5_GRID)
# The most spans of months that a message names.
_SHOWN_SPANS = 6
# With fewer hours, a part of a month counts as single hours (such as one hour of the whole globe): it does not decide
# which places and times an open question covers.
FEWEST_HOURS = 24


def everywhere(connection: psycopg.Connection[Any]) -> Area:
    """All of the grid of the connection's data set."""
    return Area.parse("global", dataset_of(connection).grid)


def ledger_rows(
    connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, object] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of the statement `name` in `sql/`, which reads the ledger; none if this user cannot read it."""
    with suppress(*NO_LEDGER):
        return connection.execute(read_sql(name, dataset_of(connection)), parameters).fetchall()
    return []


def months_held(
    connection: psycopg.Connection[Any], locations: LocationSet | None = None
) -> dict[Month, tuple[str, ...]]:
    """The months held at any of these locations (None: anywhere), with their columns; empty without a ledger."""
    parameters = {"location_ids": None if locations is None else locations.multirange}
    rows = ledger_rows(connection, "months_held", parameters)
    return {Month(day.year, day.month): tuple(columns) for day, columns in rows}


@dataclass(frozen=True)
class PartVersion:
    """The version of a part of a month, with sources and preliminary hours (since 1970) of the columns asked for.

    `version` is "generated" if all these sources generate their data. In a mixed part, `others` is the version of the
    hours that are not preliminary. `interpolated` is the shift of values between the grid points, None on the grid;
    `origin` says whose word it is that the values are of ERA5, None if that was not recorded. `snapshots` are the
    states of the sources' stores that were read, of those that have several. `confirmed` is the source, with the
    snapshot of its store, whose values equalled these within the quantum of each variable.
    """

    month: Month
    sources: tuple[str, ...]
    version: Version
    preliminary: frozenset[int]
    interpolated: Shift | None = None
    origin: Origin | None = None
    others: Version = "final"
    snapshots: tuple[Snapshot, ...] = ()
    confirmed: str | None = None


def part_versions(
    connection: psycopg.Connection[Any],
    locations: LocationSet | None,
    columns: Iterable[str] | None,
    first: Month | None,
    last: Month | None,
) -> tuple[PartVersion, ...]:
    """The versions of the parts with any of these locations (None: all), in order of months; empty without a ledger.

    `columns`, `first` and `last` are None for all columns, from the first month, and to the last.
    """
    names = None if columns is None else set(stored_columns(columns))
    parameters = {
        "location_ids": None if locations is None else locations.multirange,
        "first": first.start.date() if first else None,
        "last": last.start.date() if last else None,
        "columns": None if names is None else list(names),
    }
    rows = ledger_rows(connection, "place_versions", parameters)
    return tuple(
        _part_version(Month(day.year, day.month), names, stores, version, runs, expver, interpolated, origin, confirmed)
        for day, stores, version, runs, interpolated, origin, expver, confirmed in rows
    )


def _part_version(
    month: Month,
    names: set[str] | None,
    stores: list[tuple[str, Mapping[str, str] | None]],
    version: Version,
    runs: Mapping[str, list[str]],
    expver: Mapping[str, Mapping[str, int]] | None,
    interpolated: dict[str, Any] | None,
    origin: Origin | None,
    confirmed: tuple[str, Mapping[str, str] | None] | None,
) -> PartVersion:
    others: Version = "final"
    sources = [source for source, _ in stores]
    snapshots = [Snapshot.from_json(snapshot) for _, snapshot in stores]
    if sources and all(source_kind(source).is_generated for source in sources):
        version, runs = "generated", {}
    elif expver is not None:
        own = {column: counts for column, counts in expver.items() if names is None or column in names}
        version = version_of(own)
        not_preliminary = {
            column: {one: hours for one, hours in counts.items() if one != PRELIMINARY}
            for column, counts in own.items()
        }
        others = version_of(not_preliminary)
    return PartVersion(
        month,
        tuple(dict.fromkeys(sources)),
        version,
        hours_in(run for column, of_column in runs.items() if names is None or column in names for run in of_column),
        Shift.from_json(interpolated),
        origin,
        others,
        tuple(dict.fromkeys(snapshot for snapshot in snapshots if snapshot is not None)),
        None if confirmed is None else named_store(confirmed[0], Snapshot.from_json(confirmed[1])),
    )


@dataclass(frozen=True)
class Span:
    """The months from `first` to `last`; and those `apart`, with single hours only."""

    first: Month
    last: Month
    apart: tuple[Month, ...] = ()

    def apart_between(self, start: datetime | None, end: datetime | None) -> str | None:
        """Name the months left out at an open side (None) of the range of aware times; None if none are left out."""
        begins_open = start is None and (end is None or end > self.first.start)
        ends_open = end is None and (start is None or start < self.last.end)
        left_out = [month for month in self.apart if (begins_open if month < self.first else ends_open)]
        if not left_out:
            return None
        return f"left out: single hours of {describe_months(left_out)}, far from the rest (give a time to include them)"


def span_held(connection: psycopg.Connection[Any], locations: LocationSet) -> Span | None:
    """The span of the months held at any of these locations; None without such months, or without a ledger.

    A month at either end with less than a day of hours, and separated from the others by an absent month, is `apart`:
    one hour of the whole globe must not lengthen the series of a place by years of gaps.
    """
    rows = ledger_rows(connection, "span_held", {"location_ids": locations.multirange})
    held = {Month(day.year, day.month): hours for day, hours in rows}
    if not held:
        return None
    runs, full = runs_of(held), {month for month, hours in held.items() if hours >= FEWEST_HOURS}
    kept = [index for index, run in enumerate(runs) if not full.isdisjoint(run)] or [0, len(runs) - 1]
    outside = (*runs[: kept[0]], *runs[kept[-1] + 1 :])
    return Span(runs[kept[0]][0], runs[kept[-1]][-1], tuple(month for run in outside for month in run))


def newest_hours(connection: psycopg.Connection[Any]) -> dict[str, datetime]:
    """The newest hour with a value, by source of the rows; empty without a ledger."""
    newest: dict[str, int] = {}
    for source, day, missing, columns in ledger_rows(connection, "newest_hours"):
        hours = hours_of_month(Month(day.year, day.month))
        absent = [hours_in(missing.get(facts["column"], ())) for facts in columns]
        held = frozenset(hours).difference(frozenset.intersection(*absent) if absent else ())
        newest[source] = max(newest.get(source, hours.start), max(held, default=hours.start))
    return {source: time_of(newest[source]) for source in sorted(newest)}


def places_held(
    connection: psycopg.Connection[Any], month: Month | None = None, column: str | None = None
) -> LocationSet:
    """The locations held in a month (None: in any), with values of a column if one is given; empty without a ledger."""
    parameters = {"month": month.start.date() if month else None, "column": column}
    rows = ledger_rows(connection, "places_held", parameters)
    return LocationSet.of_ranges(rows[0][0] if rows else None, dataset_of(connection).grid)


def fullest_part(connection: psycopg.Connection[Any]) -> tuple[Month, LocationSet, frozenset[str]] | None:
    """The month, locations and columns of the part of a month that holds the most: hours, then columns, then places.

    None if nothing is loaded, or without a ledger.
    """
    for day, runs, columns in ledger_rows(connection, "fullest_part"):
        places = LocationSet.of_ranges(runs, dataset_of(connection).grid)
        return Month(day.year, day.month), places, frozenset(columns)
    return None


def some_row(connection: psycopg.Connection[Any]) -> tuple[datetime, int]:
    """An hour and a location that the table holds."""
    with table_required(dataset_of(connection)):
        row = connection.execute(read_sql("some_row", dataset_of(connection))).fetchone()
    if row is None:
        raise nothing_loaded(dataset_of(connection))
    time, location_id = row
    return time.astimezone(UTC), location_id


def locations_at(connection: psycopg.Connection[Any], time: datetime, column: str, area: Area) -> npt.NDArray[np.void]:
    """`location_id` and `value`, (n,), of the rows at an hour (aware) within an area."""
    parameters = {"time": time, **GridWindow.of_area(area).parameters}
    query = sql.SQL(read_sql("snapshot", dataset_of(connection))).format(column=value_of(column))
    return fetch_array(connection, query, parameters, np.dtype([("location_id", "i4"), ("value", "f4")]))


def hours_held(connection: psycopg.Connection[Any], location_id: int) -> str | None:
    """First and last hour of a location's rows as text, `2023-01-01 00:00 to ... UTC`; None if it has no rows."""
    with table_required(dataset_of(connection)):
        row = connection.execute(
            read_sql("hours_held", dataset_of(connection)), {"location_id": location_id}
        ).fetchone()
    if row is None or row[0] is None:
        return None
    first, last = (f"{time.astimezone(UTC):%Y-%m-%d %H:%M}" for time in row)
    return f"{first} to {last} UTC"


def require_columns(connection: psycopg.Connection[Any], variables: Iterable[Variable]) -> None:
    """Require that the table has a column for each of these variables."""
    there = variables_in_table(connection)
    if not there:
        raise nothing_loaded(dataset_of(connection))
    wanted = [variable.column for variable in variables]
    names = [variable.column for variable in there]
    absent = [column for column in stored_columns(wanted) if column not in names]
    if absent:
        dataset = dataset_of(connection)
        needed = [column for column in wanted if column in DERIVED and set(DERIVED[column].parts) & set(absent)]
        which = f", of which {' and '.join(needed)} would be computed" if needed else ""
        raise NoDataError(
            f"the table has no column {' or '.join(absent)}{which}: no month was loaded with it; "
            f"it has {dataset.catalogue.named_columns(names)}",
            remedy=f"Load a month with it: {load_command(dataset)} --from YYYY-MM "
            f"--variables {DEFAULT_NAME},{','.join(absent)}",
        )


def describe_months(months: Iterable[Month]) -> str:
    """Describe ascending months as spans: `2023-01 to 2023-02, 2023-06`."""
    return spans(months, shown=_SHOWN_SPANS)


CoverageState = Literal["complete", "incomplete", "preliminary", "incomplete and preliminary"]

# If more sets of locations than this have equal coverage, they are reported as one area.
_MOST_ALIKE = 8


@dataclass(frozen=True)
class AreaCoverage:
    """The months of one area: by column, the state of each month that has values.

    A month is incomplete if any location is missing an hour, preliminary if any hour is, and complete if neither.
    """

    locations: LocationSet
    states: Mapping[str, Mapping[Month, CoverageState]]

    @property
    def name(self) -> str:
        """The area as text, with the number of its places."""
        named, count = str(self.locations), len(self.locations)
        return named if "places" in named or count == 1 else f"{named}, {count:,} places"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with values in any month, in table order."""
        order = {column: number for number, column in enumerate(BY_COLUMN)}
        return tuple(sorted(self.states, key=lambda column: (order.get(column, len(order)), column)))

    @property
    def first(self) -> Month:
        """The first month of any column."""
        return min(min(months) for months in self.states.values())

    @property
    def last(self) -> Month:
        """The last month of any column."""
        return max(max(months) for months in self.states.values())

    def months(self, column: str, word: Literal["complete", "incomplete", "preliminary"]) -> tuple[Month, ...]:
        """The months in which the column is in this state, in order; some are both incomplete and preliminary."""
        return tuple(sorted(month for month, state in self.states[column].items() if word in state.split()))

    def missing_months(self, column: str) -> tuple[Month, ...]:
        """The months from `first` to `last` without any value of the column."""
        return tuple(month for month in month_range(self.first, self.last) if month not in self.states[column])

    def to_json(self) -> dict[str, Any]:
        """The JSON value that `era5 status --coverage --json` prints."""
        return {
            "area": str(self.locations),
            "locations": len(self.locations),
            "location_ids": [list(run) for run in self.locations.runs],
            "variables": {
                column: {
                    "complete": list(map(str, self.months(column, "complete"))),
                    "incomplete": list(map(str, self.months(column, "incomplete"))),
                    "preliminary": list(map(str, self.months(column, "preliminary"))),
                    "missing": list(map(str, self.missing_months(column))),
                }
                for column in self.columns
            },
        }


def read_coverage(connection: psycopg.Connection[Any]) -> list[AreaCoverage]:
    """Read the coverage of each area from the ledger, those with the most values first; empty without a ledger."""
    if connection.execute(dataset_of(connection).sql("SELECT to_regclass('{schema}.ledger')")).fetchone() == (None,):
        return []
    areas = []
    for ids, days, states in connection.execute(
        read_sql("coverage", dataset_of(connection)), {"most_alike": _MOST_ALIKE}
    ).fetchall():
        by_column: dict[str, dict[Month, CoverageState]] = {}
        for day, of_month in zip(days, states, strict=True):
            for column, state in of_month.items():
                by_column.setdefault(column, {})[Month(day.year, day.month)] = state
        areas.append(AreaCoverage(LocationSet.of_ranges(ids, dataset_of(connection).grid), by_column))
    return sorted(areas, key=lambda area: (-_size(area), area.locations.first_id))


def _size(area: AreaCoverage) -> int:
    return len(area.locations) * sum(map(len, area.states.values()))
