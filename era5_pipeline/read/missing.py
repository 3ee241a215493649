"""Find missing hours and locations, and describe them; the errors raised if there is no data at all.

What the table holds is in `held`; how a plot shows a gap, in `draw/series`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from era5_pipeline.model.dataset import ERA5, Dataset, load_command
from era5_pipeline.model.derived_variables import holds, stored_columns
from era5_pipeline.model.errors import NoDataError, NotLoadedError
from era5_pipeline.model.grid import distances_km
from era5_pipeline.model.land_mask import has_values_at, nearest_land, points_of
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import FIRST_YEAR, Month, month_range, spans
from era5_pipeline.model.times import as_datetime64, describe_hours, from_datetime64, hour_of, hours_of_month
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.held import (
    describe_months,
    everywhere,
    hours_held,
    locations_at,
    months_held,
    places_held,
    some_row,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area, Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.fields import Field, Series

    Hours = npt.NDArray[np.int64]

SUMMARIES_REMEDY = "Compute them from the hours: era5 db summaries."

# Values more than a day apart are single hours, not a series with a step.
_LONGEST_STEP = 24
# The fewest values that make a step.
_FEWEST_VALUES = 3
# The most spans of months, and runs of hours, that are named.
_SHOWN_SPANS = 6
_SHOWN_RUNS = 3
_EPOCH_MONTH = 1970 * 12  # the `number` of January 1970


@dataclass(frozen=True)
class Gaps:
    """The missing hours of one column within a range.

    `months` have no value at all; `hours`, ascending, are those missing from the other months. `steps` are, for months
    with a value only every few hours, the hours between values; `due` is `hours` without those between these steps.
    """

    is_empty: bool = False
    months: tuple[Month, ...] = ()
    hours: tuple[int, ...] = ()
    due: tuple[int, ...] = ()
    steps: Mapping[Month, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.is_empty or self.months or self.hours)


def find_gaps(
    series: Series, variables: Iterable[Variable], start: datetime | None, end: datetime | None
) -> dict[str, Gaps]:
    """Find the missing hours of each column, of `start <= hour < end` (aware; None: from the first, to the last row).

    Hours before ERA5 begins, and those in the future, are not missing.
    """
    hours = from_datetime64(series.times)
    first = _hour_from(start) if start is not None else int(hours[0])
    after = _hour_from(end) if end is not None else int(hours[-1]) + 1
    now = max(hour_of(datetime.now(UTC)), int(hours[-1]) + 1)
    found = {}
    for variable in variables:
        held = _distinct(hours[_has_value(hours, series.values[variable.column], variable)])
        found[variable.column] = _gaps(held, range(first, after), range(hour_of(variable.first_valid), now))
    return found


def _distinct(hours: Hours) -> Hours:
    """Ascending hours (n,) without duplicates; numpy.unique, unaware of their order, takes a second for 85 years."""
    return hours[np.append(True, np.diff(hours) > 0)] if hours.size else hours


def _has_value(hours: Hours, values: npt.NDArray[np.float32], variable: Variable) -> npt.NDArray[np.bool_]:
    """Return True if each hour (n,) counts as held: it has a value.

    For a variable that ERA5 defines only at times, all rows of a month with at least one value count.
    """
    there = np.isfinite(values)
    if variable.extent != "sometimes":
        return there
    months = as_datetime64(hours).astype("datetime64[M]")
    return np.isin(months, months[there])


def regular_step(hours: Hours) -> int | None:
    """The usual distance of ascending, distinct hours (n,): 1 if hourly; None if there is no regular one."""
    if hours.size < 2:
        return None
    step = int(np.gcd.reduce(np.diff(hours)))
    return step if step == 1 or (step <= _LONGEST_STEP and hours.size >= _FEWEST_VALUES) else None


def gap_lines(gaps: Mapping[str, Gaps]) -> list[str]:
    """Describe the gaps of the columns, each gap once: `no data for 2023-03 to 2023-05`."""
    lines = []
    given = {column: one for column, one in gaps.items() if not one.is_empty}
    empty = [column for column, one in gaps.items() if one.is_empty]
    if empty:
        lines.append(f"no {', '.join(empty)} at all: NULL in every row of this place")

    def named(columns: list[str]) -> str:
        return "data" if len(columns) == len(gaps) else ", ".join(columns)

    for months, columns in alike({column: one.months for column, one in given.items()}):
        lines.append(f"no {named(columns)} for {spans(months, shown=_SHOWN_SPANS)}")
    for steps, columns in alike({column: tuple(one.steps.items()) for column, one in given.items()}):
        for step in sorted({step for _, step in steps}):
            months = tuple(month for month, own in steps if own == step)
            lines.append(f"{named(columns)} only every {step} hours in {spans(months, shown=_SHOWN_SPANS)}")
    for hours, columns in alike({column: one.due for column, one in given.items()}):
        runs = _runs(hours, given[columns[0]].steps)
        more = f" and {len(runs) - _SHOWN_RUNS:,} more" if len(runs) > _SHOWN_RUNS else ""
        unit = "values" if given[columns[0]].steps else "hours"
        count = f" ({len(hours):,} {unit})" if len(hours) > 1 else ""
        lines.append(f"no {named(columns)} at {', '.join(runs[:_SHOWN_RUNS])}{more}{count}")
    return lines


def gaps_as_json(gaps: Mapping[str, Gaps]) -> dict[str, dict[str, list[str]]]:
    """The JSON values `missing_months` and `missing_hours`: by column, for the columns with gaps.

    Hours are written as runs, as in the ledger, without those of missing months.
    """
    return {
        "missing_months": {column: list(map(str, one.months)) for column, one in gaps.items() if one.months},
        "missing_hours": {column: list(describe_hours(one.hours)) for column, one in gaps.items() if one.hours},
    }


def _hour_from(time: datetime) -> int:
    """The first full hour at or after `time`."""
    first = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
    return hour_of(max(time, first) + timedelta(hours=1) - timedelta(microseconds=1))


def _gaps(held: Hours, asked: range, valid: range) -> Gaps:
    """The gaps in the `asked` hours, of which only `valid` ones can be missing; `held` (n,), ascending, have values."""
    first, after = max(asked.start, valid.start), min(asked.stop, valid.stop)
    if first >= after:
        return Gaps(is_empty=not held.size)
    is_missing = np.ones(after - first, dtype=np.bool_)
    is_missing[held[(held >= first) & (held < after)] - first] = False
    missing = np.flatnonzero(is_missing) + first
    months: list[Month] = []
    hours: list[Hours] = []
    due: list[Hours] = []
    steps: dict[Month, int] = {}
    for month, lacking in _by_month(missing):
        whole = hours_of_month(month)
        within = held[np.searchsorted(held, whole.start) : np.searchsorted(held, whole.stop)]
        is_whole = max(whole.start, valid.start) >= first and min(whole.stop, valid.stop) <= after
        if is_whole and not within.size:
            months.append(month)
            continue
        hours.append(lacking)
        step = regular_step(within)
        if step is not None and step > 1:
            steps[month] = step
            due.append(lacking[(lacking - within[0]) % step == 0])
        else:
            due.append(lacking)
    return Gaps(not held.size, tuple(months), _joined(hours), _joined(due), steps)


def _by_month(hours: Hours) -> Iterator[tuple[Month, Hours]]:
    """Split ascending hours (n,) by their months."""
    numbers = as_datetime64(hours).astype("datetime64[M]").astype(np.int64)
    found, starts = np.unique(numbers, return_index=True)
    for number, of_month in zip(found.tolist(), np.split(hours, starts[1:]), strict=True) if found.size else ():
        yield Month.from_number(_EPOCH_MONTH + number), of_month


def _joined(parts: list[Hours]) -> tuple[int, ...]:
    return tuple(np.concatenate(parts).tolist()) if parts else ()


def alike(by_column: Mapping[str, tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], list[str]]]:
    """Each distinct value that is not empty, with the columns that share it."""
    columns: dict[tuple[Any, ...], list[str]] = {}
    for column, value in by_column.items():
        if value:
            columns.setdefault(value, []).append(column)
    return list(columns.items())


def _runs(hours: tuple[int, ...], steps: Mapping[Month, int]) -> list[str]:
    """Describe missing hours as runs; in months with a step, hours one step apart belong to a run."""
    lacking = np.array(hours, dtype=np.int64)
    step = np.concatenate([np.full(own.size, steps.get(month, 1)) for month, own in _by_month(lacking)])
    borders = np.flatnonzero(np.diff(lacking) > step[:-1]) + 1
    texts = []
    for run in np.split(lacking, borders):
        first, last = (describe_hours([hour])[0] for hour in (run[0], run[-1]))
        texts.append(first if first == last else f"{first} to {last}")
    return texts


# --- Locations without a value on a map, and why there is nothing: what the table holds instead, and what to do ---


@dataclass(frozen=True)
class Absence:
    """Why there is no data: what the table holds instead, as the end of a sentence, and what to do."""

    instead: str
    remedy: str


def explain_absence(
    months: Iterable[Month], start: datetime | None, end: datetime | None, dataset: Dataset = ERA5
) -> Absence:
    """Explain why there is no row with `start <= time < end` (aware; None: unlimited), given the months held.

    `months` (at least one) are ascending.
    """
    held = tuple(months)
    first = Month.of(start) if start else held[0]
    last = Month.before(end) if end else held[-1]
    within = [month for month in held if first <= month <= last]
    before, after = [month for month in held if month < first], [month for month in held if month > last]
    if within:
        return Absence(
            f"it holds other hours of {describe_months(within)}, which is incomplete; it holds {describe_months(held)}",
            "Ask for other hours of it, see what is missing with era5 status, or load the month again with all hours.",
        )
    if not (before and after):
        return Absence(
            f"it holds {describe_months(held)}",
            f"Ask for a time within that, or load the months that are missing: {load_command(dataset)} --from YYYY-MM.",
        )
    missing = tuple(month_range(Month.from_number(before[-1].number + 1), Month.from_number(after[0].number - 1)))
    until = f" --to {missing[-1]}" if len(missing) > 1 else ""
    return Absence(
        f"it has data before and after this gap: it holds {describe_months(held)}, not {describe_months(missing)}",
        f"Ask for a time within what it holds, or load the gap: {load_command(dataset)} --from {missing[0]}{until}.",
    )


def explain_missing_column(
    connection: psycopg.Connection[Any],
    variables: Iterable[Variable],
    held: Mapping[Month, tuple[str, ...]],
    nearest_to: tuple[float, float] | None,
) -> Absence:
    """Explain why there is no value of these columns in the `held` months, which have other columns.

    Names the columns that are there, and the place nearest to `nearest_to` (degrees north, east) that has those
    requested.
    """
    there = in_table_order({column for columns in held.values() for column in columns})
    absent = [v for v in variables if not holds([variable.column for variable in there], v)]
    names = ", ".join(variable.column for variable in there)
    instead = ""
    if names:
        months = describe_months(held)
        instead = f"; what the table holds there ({months}) has {names}{' only' if absent else ', at other hours'}"
    for variable in absent if nearest_to else ():
        elsewhere = places_held(connection, column=stored_columns([variable.column])[0])
        if elsewhere and nearest_to:
            place, distance = nearest_place(elsewhere, *nearest_to)
            instead += f"; the nearest place with {variable.column} is {point_name(place)}, {distance:,.0f} km away"
            break
    return Absence(instead, "Choose another time, column or place, or load the months with the variables you need.")


def nearest_place(places: LocationSet, latitude: float, longitude: float) -> tuple[Location, float]:
    """The location nearest to a point, and the great-circle distance in km; there must be one."""
    grid, ids = places.grid, places.ids()
    rows, columns = np.divmod(ids - 1, grid.columns)
    distances = distances_km(latitude, longitude, grid.latitudes_of(rows), grid.longitudes_of(columns))
    best = int(np.argmin(distances))
    return grid.location(int(ids[best])), float(distances[best])


def point_name(place: Location) -> str:
    """A location's degrees as text."""
    return f"latitude {place.latitude:g}, longitude {place.longitude:g}"


def describe_absent(connection: psycopg.Connection[Any], found: Field, area: Area | None = None) -> list[str]:
    """Describe which locations of `area` have no value in the field of an hour; empty if all have one.

    Without an area, the locations are those held in that month by the ledger, or those with a row at that hour.
    """
    if found.time is None:
        raise ValueError("not the field of an hour")
    month = Month.of(found.time)
    if not np.isfinite(found.values).any():
        raise only_null(connection, found.variable, {month}, area, f"at {found.time:%Y-%m-%d %H:%M} UTC")
    dataset = dataset_of(connection)
    if found.variable.extent not in ("everywhere", "land"):
        return []  # undefined over land, or where there is no cloud, ice or the like: no gap
    wanted = LocationSet.of_area(area) if area else places_held(connection, month)
    kind = f"places that the table holds in {month}"
    if not wanted:
        wanted, kind = _places_at(connection, found.time), "places of that hour"
    return describe_absent_locations(found.variable, found.locations, area, wanted, kind, dataset)


def describe_absent_locations(
    variable: Variable,
    drawn: LocationSet,
    area: Area | None,
    wanted: LocationSet,
    kind: str,
    dataset: Dataset = ERA5,
) -> list[str]:
    """Describe which locations of the area at which the data set has values (without an area: of `wanted`) lack one."""
    if area:
        wanted, kind = points_of(dataset, area), f"grid points of {area}"
    absent = wanted - drawn
    if not absent:
        return []
    named = str(absent)
    which = "" if "within" in named else f": {named}"
    return [f"no {variable.column} at {len(absent):,} of {len(wanted):,} {kind}{which}"]


def only_null(
    connection: psycopg.Connection[Any],
    variable: Variable,
    months: Collection[Month],
    area: Area | None,
    when: str,
) -> NoDataError:
    """The error for rows of these months that have no value; `when` ends a clause."""
    there = LocationSet.of_area(area) if area else None
    held = {one: columns for one, columns in months_held(connection, there).items() if one in months}
    why = explain_missing_column(connection, (variable,), held, middle_of(area) if area else None)
    return NoDataError(f"{variable.column} is NULL everywhere {when}{why.instead}", remedy=why.remedy)


def only_null_in(area: Area, variable: Variable, when: str, kind: Literal["time", "month"]) -> NoDataError:
    """The error for a box of hours without a value; `when` names its hours, `kind` what else could be asked for."""
    return NoDataError(
        f"{variable.column} is NULL everywhere {when} in {area}",
        remedy=f"Choose another {kind}, column or area, or load the month with the variables you need.",
    )


def only_null_hours(
    connection: psycopg.Connection[Any],
    where: str,
    variables: tuple[Variable, ...] | None,
    hours: int,
    held: Mapping[Month, tuple[str, ...]],
    nearest_to: tuple[float, float] | None,
) -> NoDataError:
    """The error for this number of hours without a value of these columns (None: of any); `where` names the place.

    `held` and `nearest_to` are those of `explain_missing_column`.
    """
    names = ", ".join(variable.column for variable in variables) if variables else "all columns"
    are = "is" if variables and len(variables) == 1 else "are"
    why = explain_missing_column(connection, variables or (), held, nearest_to)
    when = "this hour" if hours == 1 else f"these {hours:,} hours"
    return NoDataError(f"{where}: {names} {are} NULL in {when}{why.instead}", remedy=why.remedy)


def no_rows(
    connection: psycopg.Connection[Any],
    start: datetime,
    end: datetime,
    area: Area | None,
    when: str,
    which: str,
) -> NoDataError:
    """The error for no row with `start <= time < end` (aware); `when` names that time, `which` the kind of row."""
    dataset = dataset_of(connection)
    places = places_held(connection)
    months = months_held(connection, LocationSet.of_area(area) if area else None)
    there = places or _places_at(connection, start)
    if area and there and not months:
        error = no_location(area, there)
        return NoDataError(f"{when}: {error.message}", remedy=error.remedy)
    if not places:
        _, some_id = some_row(connection)
        return NoDataError(
            f"{when}: the table has no row for {which}; location {some_id} holds {hours_held(connection, some_id)}",
            remedy=f"Ask for a time within that, or load the month: {load_command(dataset)} "
            f"--from {start.astimezone(UTC):%Y-%m}.",
        )
    why = explain_absence(months, start, end, dataset)
    where = f" in {area}" if area else ""
    return NoDataError(f"{when}: the table has no row for {which}{where}; {why.instead}", remedy=why.remedy)


def _places_at(connection: psycopg.Connection[Any], time: datetime) -> LocationSet:
    """The locations with a row at the hour."""
    area = everywhere(connection)
    return LocationSet.of_ids(locations_at(connection, time, "latitude", area)["location_id"], area.grid)


def no_location(area: Area, places: LocationSet) -> NoDataError:
    """The error for an area without any of the table's locations; there must be one."""
    nearest = nearest_in_words(places, "", *middle_of(area))[1]
    return NoDataError(
        f"the table has no location in {area}; {nearest} from the middle",
        remedy="Ask for an area with that point, or leave the area out for all that the table holds.",
    )


def nothing_in_area(connection: psycopg.Connection[Any], area: Area, held: LocationSet) -> NoDataError:
    """The error for an area without any of the locations that the ledger holds: what is held of the nearest one."""
    load = load_command(dataset_of(connection))
    remedy = f"Load it: {load} --from YYYY-MM --area {area}; or ask for an area within what the table holds."
    if not held:
        return NoDataError(f"area {area}: the table has no data there", remedy=remedy)
    nearest, words = nearest_in_words(held, " locations", *middle_of(area))
    there = describe_months(months_held(connection, LocationSet.of_location(nearest)))
    return NoDataError(
        f"area {area}: the table has no data there; {words} from the middle, and it holds {there}", remedy=remedy
    )


def nearest_in_words(places: LocationSet, noun: str, latitude: float, longitude: float) -> tuple[Location, str]:
    """The nearest of the table's locations, of which there must be one, and the beginning of a clause about it."""
    nearest, distance = nearest_place(places, latitude, longitude)
    return nearest, f"the nearest of its {len(places):,}{noun} is {point_name(nearest)}, {distance:,.0f} km"


def middle_of(area: Area) -> tuple[float, float]:
    """Latitude and longitude of the centre of an area."""
    west, width = area.grid.narrowest_arc(area.longitude_indices())
    longitude = float(area.grid.longitudes_of((west + width // 2) % area.grid.columns))
    return (area.north + area.south) / 2, longitude


def no_series(
    connection: psycopg.Connection[Any], location: Location, start: datetime | None, end: datetime | None
) -> NoDataError:
    """The error for a location without a row in the range: what the table holds there, or the nearest location."""
    place, dataset = f"location {location.location_id} ({point_name(location)})", dataset_of(connection)
    if not has_values_at(dataset, location):
        return no_values_at_sea(dataset, location)
    months = months_held(connection, LocationSet.of_location(location))
    if months:
        why = explain_absence(months, start, end, dataset)
        return NoDataError(
            f"{place}: the table has no row {_range(start, end)}; {why.instead}",
            remedy=why.remedy,
        )
    held = hours_held(connection, location.location_id)
    if held:
        return NoDataError(
            f"{place}: the table has no row {_range(start, end)}; it holds {held}",
            remedy="Ask for a time within that, or load the months that are missing: "
            f"{load_command(dataset)} --from YYYY-MM.",
        )
    places = places_held(connection)
    if places:
        nearest, words = nearest_in_words(places, " locations", location.latitude, location.longitude)
        at, there = "", describe_months(months_held(connection, LocationSet.of_location(nearest)))
    else:
        time, _ = some_row(connection)
        nearest, words = nearest_in_words(
            _places_at(connection, time), " locations", location.latitude, location.longitude
        )
        at, there = f"at {time:%Y-%m-%d %H:%M} UTC ", str(hours_held(connection, nearest.location_id))
    return NotLoadedError(
        f"{place}: the table has no data there; {at}{words} away, and it holds {there}",
        remedy="Ask for a place in the area that was loaded, or load all hours of this one since "
        f"{dataset.first_month.year}: {_load_command(dataset, location)}.",
    )


def no_values_at_sea(dataset: Dataset, location: Location) -> NoDataError:
    """The error for a point at which a data set of land alone has no values: the nearest one that has some."""
    nearest = nearest_land(location)
    away = float(distances_km(location.latitude, location.longitude, [nearest.latitude], [nearest.longitude])[0])
    return NoDataError(
        f"location {location.location_id} ({point_name(location)}) is at sea, where {dataset.short_title} has no "
        f"values; its nearest point on land is {point_name(nearest)}, {away:,.0f} km away",
        remedy="Ask for that point, or for the cell on land that is nearest to the place (--cell land). "
        f"{ERA5.short_title} has values at sea.",
    )


def how_to_load(location: Location, name: str | None, dataset: Dataset = ERA5) -> str:
    """The remedy for a place that is not loaded: the command that loads it. `name` is the city asked for, if any."""
    return f"Load all hours of the place since {dataset.first_month.year}: {_load_command(dataset, location, name)}."


def _load_command(dataset: Dataset, location: Location, name: str | None = None) -> str:
    which = f'--place "{name}"' if name else f"--lat {location.latitude:g} --lon {location.longitude:g}"
    return f"{load_command(dataset)} {which}"


def _range(start: datetime | None, end: datetime | None) -> str:
    texts = []
    if start:
        texts.append(f"from {start.astimezone(UTC):%Y-%m-%d %H:%M}")
    if end:
        texts.append(f"{'to ' if start else ''}before {end.astimezone(UTC):%Y-%m-%d %H:%M}")
    return " ".join((*texts, "UTC")) if texts else "at all"
