"""The contents of an export: its box, hours and variables, what the ledger says about them, and what is missing."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.derived_variables import holds
from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import GridWindow, LocationSet
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.source_kinds import FINAL, PRELIMINARY
from era5_pipeline.model.times import as_datetime64, hours_of_month, time_of
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.boxes import hour_range, read_box_contents
from era5_pipeline.read.credit import origin_of
from era5_pipeline.read.fields import Series
from era5_pipeline.read.held import NO_LEDGER, months_held, part_versions, places_held, require_columns
from era5_pipeline.read.missing import find_gaps, gap_lines, no_series, only_null_hours
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.export.pieces import ExportPiece, Values
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.credit import DataOrigin
    from era5_pipeline.read.held import PartVersion
    from era5_pipeline.read.missing import Gaps

    State = dict[tuple[Month, int], tuple[datetime, int]]


@dataclass(frozen=True, eq=False)
class ExportContents:
    """The contents of an export of a data set.

    `hours` are since 1970. `held` are all locations in the table. `missing_months` and `incomplete_months` are those of
    `BoxContents`, and `lines` describe them; for a place, the hours are more precise. Without a ledger, `held` and
    `state` are None.
    """

    dataset: Dataset
    place: AskedPlace | None
    window: GridWindow
    variables: tuple[Variable, ...]
    hours: range
    held: LocationSet | None
    missing_months: dict[str, tuple[Month, ...]]
    incomplete_months: tuple[Month, ...]
    lines: tuple[str, ...]
    parts: tuple[PartVersion, ...]
    state: State | None

    @cached_property
    def origin(self) -> DataOrigin:
        """The sources and versions of its hours, and their credit."""
        return origin_of(self.parts, time_of(self.hours.start), time_of(self.hours.stop), self.dataset)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table, in its order."""
        return tuple(variable.column for variable in self.variables)

    @property
    def locations(self) -> LocationSet:
        """The grid points of the window."""
        return self.window.locations

    @property
    def first_month(self) -> Month:
        """The month of the first hour."""
        return first_and_last_month(self.hours)[0]

    @property
    def last_month(self) -> Month:
        """The month of the last hour."""
        return first_and_last_month(self.hours)[1]

    def expver(self) -> npt.NDArray[np.str_]:
        """The version (hours,) of each hour as in ERA5 files: `0001`, `0005`; empty if not stated, generated or absent.

        An hour is preliminary if it is so at any place, in any column.
        """
        versions = np.zeros(len(self.hours), dtype="U4")
        unknown = {part.month for part in self.parts if part.version in ("unknown", "final by age", "generated")}
        for part in self.parts:
            within = hours_of_month(part.month)
            first, end = (min(max(hour - self.hours.start, 0), len(self.hours)) for hour in (within.start, within.stop))
            if part.month not in unknown:
                versions[first:end] = np.where(versions[first:end] == PRELIMINARY, PRELIMINARY, FINAL)
            at = np.array([hour - self.hours.start for hour in part.preliminary if hour in self.hours], dtype=np.intp)
            versions[at] = PRELIMINARY
        return versions


def first_and_last_month(hours: range) -> tuple[Month, Month]:
    """The months of the first and last of these hours since 1970."""
    first, last = (np.datetime64(hour, "h").astype("datetime64[M]").item() for hour in (hours[0], hours[-1]))
    return Month(first.year, first.month), Month(last.year, last.month)


class HeldHours:
    """Collects the values found in pieces: for a place, a bit for each hour and column."""

    def __init__(self, contents: ExportContents) -> None:
        self._contents = contents
        self._bits: dict[str, list[npt.NDArray[np.uint8]]] = {column: [] for column in contents.columns}
        self._lengths: list[int] = []
        self.has_values = False

    def add(self, piece: ExportPiece, values: Values) -> None:
        """Note which values of a piece are present; the pieces of a place come in order of time."""
        if self._contents.place is None:
            self.has_values = self.has_values or any(not np.isnan(one).all() for one in values.values())
            return
        self._lengths.append(len(piece.hours))
        for column, found in values.items():
            there = ~np.isnan(found.reshape(-1))
            self.has_values = self.has_values or bool(there.any())
            self._bits[column].append(np.packbits(there))

    def lines(self) -> list[str]:
        """Lines that name what is missing: for a place by its hours, for a box by the ledger."""
        contents = self._contents
        if contents.place is None:
            return list(contents.lines)
        times = as_datetime64(np.arange(contents.hours.start, contents.hours.stop, dtype=np.int64))
        start, end = time_of(contents.hours.start), time_of(contents.hours.stop)
        gaps: dict[str, Gaps] = {}
        for variable in contents.variables:
            there = [
                np.unpackbits(bits, count=length).astype(np.bool_)
                for bits, length in zip(self._bits[variable.column], self._lengths, strict=True)
            ]
            values = np.where(np.concatenate(there), np.float32(0), np.float32(np.nan))
            gaps |= find_gaps(Series(times, {variable.column: values}), (variable,), start, end)
        return gap_lines(gaps)


def _full_hours(start: datetime, end: datetime, dataset: Dataset) -> range:
    """The full hours with `start <= hour < end`; refuse a range without any."""
    hours = hour_range(start, end)
    if not hours:
        raise UsageError(
            f"there is no full hour from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC",
            remedy=f"{dataset.short_title} is hourly: ask for a longer time.",
        )
    return hours


def read_contents(
    connection: psycopg.Connection[Any],
    asked: AskedPlace | Area | None,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> ExportContents:
    """Read what the table holds of a place, an area or everywhere, with `start <= time < end` (aware; None: any)."""
    require_columns(connection, columns or ())
    with one_state(connection, is_needed=bool(places_held(connection))):
        if asked is None or isinstance(asked, Area):
            return _box_contents(connection, asked, columns, start, end)
        return _place_contents(connection, asked, columns, start, end)


@contextmanager
def one_state(connection: psycopg.Connection[Any], *, is_needed: bool) -> Iterator[None]:
    """Read in one snapshot, so that everything read belongs to the same state of the table, if that is needed."""
    if not is_needed:
        yield
        return
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _box_contents(
    connection: psycopg.Connection[Any],
    area: Area | None,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> ExportContents:
    held = places_held(connection)
    box = read_box_contents(connection, area, columns, start, end)
    hours = _full_hours(box.start, box.end, dataset_of(connection))
    # Locations that the table does not hold are part of the state, too: they may be loaded.
    wanted = LocationSet.of_area(box.area)
    months = first_and_last_month(hours)
    return ExportContents(
        dataset=dataset_of(connection),
        place=None,
        window=box.window,
        variables=box.variables,
        hours=hours,
        held=held,
        missing_months=box.missing_months,
        incomplete_months=box.incomplete_months,
        lines=tuple(box.lines),
        parts=part_versions(connection, wanted, [variable.column for variable in box.variables], *months),
        state=read_state(connection, wanted, *months),
    )


def _place_contents(
    connection: psycopg.Connection[Any],
    asked: AskedPlace,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
) -> ExportContents:
    location = asked.cell.location
    there = LocationSet.of_location(location)
    held = places_held(connection)
    months = months_held(connection, there)
    if held:
        within = {month: names for month, names in months.items() if start is None or month.end > start}
        within = {month: names for month, names in within.items() if end is None or month.start < end}
        if not within:
            raise no_series(connection, location, start, end)
        first, after = min(months).start, max(months).end
        names = {name for of_month in within.values() for name in of_month}
    else:
        within, names = {}, {variable.column for variable in variables_in_table(connection)}
        first, after = _range_of_rows(connection, asked, start, end)
    if end is not None:  # hours in the future are not missing
        end = min(end, max(datetime.now(UTC).replace(minute=0, second=0, microsecond=0), after))
    start, end = start or first, end or after
    hours = _full_hours(start, end, dataset_of(connection))
    spanned = first_and_last_month(hours)
    variables = columns or dataset_of(connection).catalogue.in_table_order(names)
    lacking = {
        variable.column: tuple(
            month for month in month_range(*spanned) if held and not holds(within.get(month, ()), variable)
        )
        for variable in variables
    }
    return ExportContents(
        dataset=dataset_of(connection),
        place=asked,
        window=GridWindow.of_location(location),
        variables=variables,
        hours=hours,
        held=held or None,
        missing_months={column: found for column, found in lacking.items() if found},
        incomplete_months=(),
        lines=(),
        parts=part_versions(connection, there, [variable.column for variable in variables], *spanned),
        state=read_state(connection, there, *spanned) if held else None,
    )


def _range_of_rows(
    connection: psycopg.Connection[Any], asked: AskedPlace, start: datetime | None, end: datetime | None
) -> tuple[datetime, datetime]:
    """First hour, and the one after the last, of a place, for a table without a ledger."""
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT min(time), max(time) FROM {weather} WHERE location_id = %(id)s AND time >= coalesce("
            "%(start)s::timestamptz, '-infinity') AND time < coalesce(%(end)s::timestamptz, 'infinity')"
        ),
        {"id": asked.cell.location.location_id, "start": start, "end": end},
    ).fetchone()
    if row is None or row[0] is None:
        raise no_series(connection, asked.cell.location, start, end)
    first, last = (time.astimezone(UTC) for time in row)
    return first, last + timedelta(hours=1)


def read_state(connection: psycopg.Connection[Any], wanted: LocationSet, first: Month, last: Month) -> State | None:
    """The state of the table in these months and locations; None without a ledger."""
    parameters = {"location_ids": wanted.multirange, "first": first.start.date(), "last": last.start.date()}
    try:
        rows = connection.execute(read_sql("export_state", dataset_of(connection)), parameters).fetchall()
    except NO_LEDGER:
        return None
    return {(Month(day.year, day.month), part): (loaded_at, count) for day, part, loaded_at, count in rows}


def nothing_in(connection: psycopg.Connection[Any], contents: ExportContents) -> NoDataError:
    """The error for an export without any value: all are NULL."""
    where, nearest_to = "there", None
    if contents.place is not None:
        location = contents.place.cell.location
        where, nearest_to = contents.place.description, (location.latitude, location.longitude)
    held = months_held(connection, contents.locations)
    within = {month: names for month, names in held.items() if contents.first_month <= month <= contents.last_month}
    return only_null_hours(connection, where, contents.variables, len(contents.hours), within, nearest_to)
