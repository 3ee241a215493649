"""The answer to a map, of any kind: its field, title and time, words for what is missing, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.climate.anomalies import FEWEST_YEARS_OF_BASELINE, baseline_of
from era5_pipeline.climate.cells import (
    hours_of_day,
    is_complete,
    one_state,
    read_day,
    read_part,
    read_years,
    trends_of_cells,
)
from era5_pipeline.climate.days import HOURS_PER_DAY
from era5_pipeline.climate.regression import CONFIDENCE
from era5_pipeline.climate.trends import FALSE_DISCOVERY_RATE, FEWEST_YEARS, describe_years, significant_in_field
from era5_pipeline.maps.fields import FieldMap, main_part, sea_line
from era5_pipeline.maps.question import AnomalyQuestion, DayQuestion, HourQuestion, PeriodQuestion
from era5_pipeline.maps.styles import unit_text, variable_title
from era5_pipeline.model.dataset import load_command
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.words import counted
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.boxes import read_field
from era5_pipeline.read.credit import UNKNOWN_ORIGIN, read_origin
from era5_pipeline.read.fields import placed
from era5_pipeline.read.held import NO_LEDGER, describe_months, months_held, places_held, require_columns
from era5_pipeline.read.missing import SUMMARIES_REMEDY, describe_absent, describe_absent_locations, no_rows, only_null
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.climate.answer import YearSpan
    from era5_pipeline.climate.cells import CellValues, YearlyCells
    from era5_pipeline.climate.question import CellStatistic, YearPart
    from era5_pipeline.climate.regression import Coefficients
    from era5_pipeline.maps.question import MapQuestion, TrendQuestion
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.credit import DataOrigin


# The statistics in figures.
_WORDS: dict[CellStatistic, str] = {"mean": "mean", "min": "lowest hour", "max": "highest hour", "sum": "total"}


@dataclass(frozen=True, eq=False)
class MapAnswer:
    """A field, from data with `start <= time < end` (aware).

    `absent` says which locations are grey, and why; `remarks` what else to know about the values. `summary` says what
    was read, in the words of a terminal: `mean of 2023-07-15 (UTC)`. `months` are those between `start` and `end` that
    were read, None for all. `left_out` names distant locations that are not on the map. `origin` is that of the others.
    `sea` says of a data set of land alone that the map's sea is blank.
    """

    field: FieldMap
    absent: Sequence[str]
    remarks: Sequence[str]
    start: datetime
    end: datetime
    summary: str
    months: frozenset[Month] | None = None
    left_out: str | None = None
    origin: DataOrigin = UNKNOWN_ORIGIN
    sea: str | None = None

    @property
    def locations(self) -> LocationSet:
        """The locations that have a value on the map."""
        return self.field.locations

    @property
    def lines(self) -> list[str]:
        """Lines that name what is missing."""
        return [*self.absent, *self.remarks]

    @property
    def asides(self) -> list[str]:
        """Lines of what is not on the map and not missing: its sea, and distant locations."""
        return [line for line in (self.sea, self.left_out) if line]

    @property
    def notes(self) -> list[str]:
        """The same lines, worded for a figure."""
        return [
            *(f"Grey: no data; {line}" for line in self.absent),
            *(f"{line[0].upper()}{line[1:]}" for line in (*self.remarks, *self.asides)),
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
        unit = f"{self.field.variable.unit}{' per decade' if self.field.kind == 'trend' else ''}"
        return f"{counted(values.size, 'location')}, {texts[0]} to {texts[1]} {unit}"


def unit_words(variable: Variable, statistic: CellStatistic, period: str) -> str:
    """The unit of a statistic for a colour bar: `mm in the day`; for a total's mean or extreme, `mm in an hour`."""
    unit = unit_text(variable.unit)
    if statistic == "sum":
        return f"{unit} in the {period}"
    return f"{unit} in an hour" if variable.step_type == "accum" else unit


def _read_day_map(
    connection: psycopg.Connection[Any], question: DayQuestion, variable: Variable, area: Area | None
) -> MapAnswer:
    """Read the map of a day, of the locations with all of its hours."""
    day, statistic = question.day, question.statistic
    with one_state(connection):
        found = read_day(connection, variable, day, statistic, area)
        _require_hours(connection, question, variable, area, found)
        found = found.where(found.hours > 0)
        is_whole = found.hours == HOURS_PER_DAY
        held = found.where(is_whole)
        month = Month.of(hours_of_day(variable, day)[0])
        wanted, kind = places_held(connection, month), f"places that the table holds in {month}"
        absent = describe_missing(connection, variable, _places_of(found), area, wanted, kind)
        absent += describe_incomplete_locations(found, is_whole, HOURS_PER_DAY, f"{day} (UTC)")
    window, values = placed(held.location_ids, held.values, held.grid)
    field = FieldMap(
        kind="day",
        variable=variable,
        window=window,
        values=values,
        unit=unit_words(variable, statistic, "day"),
        title=f"{variable_title(variable)}, {_WORDS[statistic]} of the day",
        when=f"{day:%a %d %b %Y} (UTC)",
        period="day" if statistic == "sum" else "hour",
    )
    start, end = hours_of_day(variable, day)
    return MapAnswer(
        field=field,
        absent=absent,
        remarks=(),
        start=start,
        end=end,
        summary=f"{statistic} of the {HOURS_PER_DAY} hours of {day} (UTC)",
    )


def _require_hours(
    connection: psycopg.Connection[Any],
    question: DayQuestion,
    variable: Variable,
    area: Area | None,
    found: CellValues,
) -> None:
    """Require a location with all hours of the day; otherwise say what the table holds."""
    day = question.day
    start, end = hours_of_day(variable, day)
    if not found.location_ids.size:
        raise no_rows(connection, start, end, area, f"{day}", "that day")
    most = int(found.hours.max())
    if most == 0:
        raise only_null(connection, variable, {Month.of(start)}, area, f"on {day} (UTC)")
    if most < HOURS_PER_DAY:
        last = Month.of(end - timedelta(hours=1))
        if most == HOURS_PER_DAY - 1 and last != Month.of(start):
            remedy = f"The day's last total ends at 00:00 of {last}, and comes with that month: load it, too."
        else:
            load = load_command(dataset_of(connection))
            remedy = f"Ask for one hour with --time, or load the whole month: {load} --from {Month.of(start)}."
        raise NoDataError(
            f"{variable.column}: no location has all {HOURS_PER_DAY} hours of {day} (UTC); at most {most} are there",
            remedy=remedy,
        )


# --- Maps of a month, a season or a year from monthly summaries, and their anomalies ---


def _read_part_map(
    connection: psycopg.Connection[Any], question: PeriodQuestion, variable: Variable, area: Area | None
) -> MapAnswer:
    """Read the map of a part of a year. Where hours are missing, it covers the others, and the reading says so."""
    part, year, statistic = question.part, question.year, question.statistic
    when, months, expected = part.in_year(year), part.months(year), part.hours(year)
    with one_state(connection):
        cells = _read_valued(connection, question, variable, area)
        absent = _describe_absent(connection, variable, _places_of(cells), area, months)
        remarks = describe_incomplete_locations(cells, is_complete(cells, expected), expected, when)
        remarks += describe_missing_summaries(connection, months, area)
    window, values = placed(cells.location_ids, cells.values, cells.grid)
    field = FieldMap(
        kind="month" if part.period == "month" else "season" if part.period == "season" else "year",
        variable=variable,
        window=window,
        values=values,
        unit=unit_words(variable, statistic, part.period),
        title=f"{variable_title(variable)}, {_WORDS[statistic]} of the {part.period}",
        when=f"{when} (UTC)",
        period=part.period if statistic == "sum" else "hour",
    )
    return MapAnswer(
        field=field,
        absent=absent,
        remarks=remarks,
        start=months[0].start,
        end=months[-1].end,
        summary=f"{statistic} of {when}, {_between(cells.hours)} of {expected:,} hours",
    )


def _read_anomaly_map(
    connection: psycopg.Connection[Any], question: AnomalyQuestion, variable: Variable, area: Area | None
) -> MapAnswer:
    """Read the map of a part of a year, minus the mean of the same part over the complete years of the baseline.

    A location needs ten of these years, and the requested part of the year complete.
    """
    part, year, statistic, years = question.part, question.year, question.statistic, question.baseline
    when, months, expected = part.in_year(year), part.months(year), part.hours(year)
    with one_state(connection):
        cells = _read_valued(connection, question, variable, area)
        enough = is_complete(cells, expected)
        if not enough.any():
            raise NoDataError(
                f"{when} is incomplete: at most {int(cells.hours.max()):,} of {expected:,} hours are there, and an "
                "anomaly needs a complete one",
                remedy=f"Load the rest of it: {load_command(dataset_of(connection))} --from {months[0]} "
                f"--to {months[-1]}.",
            )
        normals = read_years(connection, variable, part, years, statistic, area)
        baseline = baseline_of(years, normals.complete_years)
        if not baseline.is_used:
            raise _no_baseline(connection, part, years, area, baseline.note or "")
        held = cells.where(enough)
        differences, counts = _differences(held, normals)
        drawn = held.where(np.isfinite(differences))
        if not drawn.location_ids.size:
            why = f"no location has {FEWEST_YEARS_OF_BASELINE} complete years of the baseline {years}"
            raise _no_baseline(connection, part, years, area, why)
        absent, remarks = describe_short_records(
            counts, FEWEST_YEARS_OF_BASELINE, baseline.complete, f"complete years of the baseline {years}"
        )
        absent += describe_incomplete_locations(cells, enough, expected, when)
        absent += _describe_absent(connection, variable, _places_of(cells), area, months)
        remarks += [baseline.note] if baseline.note else []
        of_years = part.months_of(years)
        remarks += describe_missing_summaries(connection, of_years, area)
    count = counted(baseline.complete, "complete year")
    window, values = placed(drawn.location_ids, differences[np.isfinite(differences)], drawn.grid)
    field = FieldMap(
        kind="anomaly",
        variable=variable,
        window=window,
        values=values,
        unit=unit_words(variable, statistic, part.period),
        title=f"{variable_title(variable)}, anomaly",
        when=f"{when} less the mean of {part.in_years(years)} ({count})",
        is_difference=True,
    )
    return MapAnswer(
        field=field,
        absent=absent,
        remarks=remarks,
        start=min(months[0].start, of_years[0].start),
        end=max(months[-1].end, of_years[-1].end),
        summary=f"anomaly of {when} from the mean of {part.in_years(years)} ({count})",
        months=frozenset((*months, *of_years)),
    )


def _read_valued(
    connection: psycopg.Connection[Any],
    question: PeriodQuestion | AnomalyQuestion,
    variable: Variable,
    area: Area | None,
) -> CellValues:
    """Read the locations that have a value in that part of that year; there must be at least one."""
    part, year = question.part, question.year
    cells = read_part(connection, variable, part, year, question.statistic, area)
    cells = cells.where(np.isfinite(cells.values))
    if not cells.location_ids.size:
        raise no_summaries(connection, variable, part.months(year), area, part.in_year(year))
    return cells


def _differences(cells: CellValues, normals: YearlyCells) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Values (n,) minus the mean of the complete years, NaN if there are too few; and the number of years of each."""
    total = np.zeros(normals.location_ids.size)
    count = np.zeros(normals.location_ids.size, dtype=np.int64)
    for row in normals.rows:
        held = np.isfinite(row)
        total[held] += row[held]
        count += held
    at = np.minimum(np.searchsorted(normals.location_ids, cells.location_ids), normals.location_ids.size - 1)
    is_there = normals.location_ids[at] == cells.location_ids
    years = np.where(is_there, count[at], 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = np.where(years >= FEWEST_YEARS_OF_BASELINE, cells.values - total[at] / count[at], np.nan)
    return differences, years


def _no_baseline(
    connection: psycopg.Connection[Any], part: YearPart, years: YearSpan, area: Area | None, why: str
) -> NoDataError:
    months = part.months_of(years)
    lines = describe_missing_summaries(connection, months, area)
    more = f" ({lines[0]})" if lines else ""
    return NoDataError(
        f"no anomaly of {part.name if part.period != 'year' else 'the year'}: {why.rstrip('.')}{more}",
        remedy="Load more years, or choose others that the table holds: --baseline FIRST-LAST.",
    )


def _describe_absent(
    connection: psycopg.Connection[Any],
    variable: Variable,
    drawn: LocationSet,
    area: Area | None,
    months: tuple[Month, ...],
) -> list[str]:
    wanted = places_held(connection, months[0])
    for month in months[1:]:
        wanted = wanted | places_held(connection, month)
    held = f"{months[0]}" if len(months) == 1 else f"{months[0]} to {months[-1]}"
    return describe_missing(connection, variable, drawn, area, wanted, f"places that the table holds in {held}")


# --- The map of a trend: the change per decade of the year, a season or a month, and where it is significant ---


_DOTS = f"dots: significant (false discovery rate {100 * FALSE_DISCOVERY_RATE:.0f} %), pale: not"
# Of generated data, instead of these.
NO_SIGNIFICANCE = "generated data: no trend is significant"


def _read_trend_map(
    connection: psycopg.Connection[Any], question: TrendQuestion, variable: Variable, area: Area | None
) -> MapAnswer:
    """Read the map of a trend per decade over the complete years; locations with too few of them have no value."""
    part, years = question.part, question.years
    months = part.months_of(years)
    name = part.in_years(years)
    with one_state(connection):
        cells = read_years(connection, variable, part, years, question.statistic, area)
        if not cells.has_values:
            raise no_summaries(connection, variable, months, area, name)
        complete = cells.complete_years
        trends = trends_of_cells(cells, variable.unit)
        without = describe_missing_summaries(connection, months, area)
        is_drawn = np.isfinite(trends.values)
        if not is_drawn.any():
            raise _no_trend(name, cells, trends, without)
        remarks = []
        if len(complete) < len(years):
            lacking = [year for year in range(years.first, years.last + 1) if year not in complete]
            remarks.append(
                f"{len(complete)} of {len(years)} years are complete; left out of the trend: {describe_years(lacking)}"
            )
        absent, fewer = describe_short_records(trends.counts, FEWEST_YEARS, len(complete), f"complete years of {name}")
        absent += describe_missing(
            *(connection, variable, _places_of(cells), area), places_held(connection), "places that the table holds"
        )
        remarks += [*fewer, *without]
        drawn = LocationSet.of_ids(cells.location_ids[is_drawn], cells.grid)
        start, end = months[0].start, months[-1].end
        origin = read_origin(connection, start, end, drawn, [variable.column], months=frozenset(months))
    said = f"{name}, {len(complete)} complete years"
    p = trends.p[is_drawn]
    significant = None if origin.notice else significant_in_field(p)
    field = trend_field(variable, question, drawn, trends.values[is_drawn], significant, said)
    count = NO_SIGNIFICANCE if significant is None else significance_words(p)
    return MapAnswer(
        field=field,
        absent=absent,
        remarks=remarks,
        start=start,
        end=end,
        summary=f"trend of {name} ({len(complete)} complete years), {count}",
        months=frozenset(months),
    )


def trend_field(
    variable: Variable,
    question: TrendQuestion,
    places: LocationSet,
    slopes: npt.NDArray[np.floating],
    significant: npt.NDArray[np.bool_] | None,
    years: str,
) -> FieldMap:
    """The field of trends per decade (n,) at n places, and where they are significant among each other.

    `years` says of which part of which years. `significant` (n,) is None for generated data, of which no trend is.
    """
    ids, grid = places.ids().astype(np.int32), places.grid
    marks = None if significant is None else placed(ids, significant.astype(np.float32), grid)[1] == 1.0
    window, values = placed(ids, slopes, grid)
    unit = unit_words(variable, question.statistic, question.part.period)
    return FieldMap(
        kind="trend",
        variable=variable,
        window=window,
        values=values,
        unit=f"{unit}, per decade" if " in " in unit else f"{unit} per decade".strip(),
        title=f"{variable_title(variable)}, trend",
        when=f"{years}; {NO_SIGNIFICANCE if marks is None else _DOTS}",
        is_difference=True,
        stippled=marks,
    )


def significance_words(p: npt.NDArray[np.float64]) -> str:
    """At how many places a trend is significant, among each other and by itself, from their p-values (n,)."""
    together, alone = int(significant_in_field(p).sum()), int((p < 1.0 - CONFIDENCE).sum())
    return (
        f"significant at {together:,} of {p.size:,} (false discovery rate {100 * FALSE_DISCOVERY_RATE:.0f} %; "
        f"{alone:,} have p < {1.0 - CONFIDENCE:.2f} by themselves)"
    )


def _no_trend(name: str, cells: YearlyCells, trends: Coefficients, without: list[str]) -> NoDataError:
    """The error for trends at no location; `without` names the months without summaries."""
    held = "no location has any"
    if trends.counts.size:
        most = int(trends.counts.argmax())
        own = [year for year, row in zip(cells.years, cells.rows, strict=True) if np.isfinite(row[most])]
        held = f"the location with the most has {len(own)} ({describe_years(own)})"
    more = f"; {without[0]}" if without else ""
    return NoDataError(
        f"a trend needs {FEWEST_YEARS} complete years of {name}; {held}{more}",
        remedy="Load more years, or ask for others that the table holds.",
    )


def read_map(
    connection: psycopg.Connection[Any], question: MapQuestion, variable: Variable, area: Area | None = None
) -> MapAnswer:
    """Read the map for a question, in `area` or at all locations of the table. The connection is in autocommit mode.

    Without an area, if locations are far apart, the map shows the part with the most of them, and says so.
    """
    require_columns(connection, (variable,))
    answer = _read(connection, question, variable, area)
    field = answer.field
    part = None if area else main_part(field.window, np.isfinite(field.values))
    if part is not None:
        north, south = (field.window.rows - row for row in (part.rows.stop, part.rows.start))
        shown = replace(
            field,
            window=field.window.part(range(north, south), range(part.columns.start, part.columns.stop)),
            values=field.values[part.rows, part.columns],
            stippled=None if field.stippled is None else field.stippled[part.rows, part.columns],
        )
        answer = replace(answer, field=shown, left_out=part.line)
    read, columns = (answer.start, answer.end, answer.locations), [variable.column]
    origin = read_origin(connection, *read, columns, months=answer.months)
    return replace(answer, origin=origin, sea=sea_line(dataset_of(connection), answer.field.window))


def _read(
    connection: psycopg.Connection[Any], question: MapQuestion, variable: Variable, area: Area | None
) -> MapAnswer:
    match question:
        case HourQuestion():
            return _read_hour_map(connection, question, variable, area)
        case DayQuestion():
            return _read_day_map(connection, question, variable, area)
        case PeriodQuestion():
            return _read_part_map(connection, question, variable, area)
        case AnomalyQuestion():
            return _read_anomaly_map(connection, question, variable, area)
        case _:
            return _read_trend_map(connection, question, variable, area)


def _read_hour_map(
    connection: psycopg.Connection[Any], question: HourQuestion, variable: Variable, area: Area | None
) -> MapAnswer:
    hour = question.time
    field = read_field(connection, hour, variable, area)
    return MapAnswer(
        field=FieldMap.of_hour(field),
        absent=describe_absent(connection, field, area),
        remarks=(),
        start=hour,
        end=hour + timedelta(hours=1),
        summary=f"at {hour:%Y-%m-%d %H:%M} UTC",
    )


# --- Lines that name what is missing on a map of several hours: locations, hours, months, years, summaries ---


def _places_of(cells: CellValues | YearlyCells) -> LocationSet:
    return LocationSet.of_ids(cells.location_ids, cells.grid)


def describe_missing(
    connection: psycopg.Connection[Any],
    variable: Variable,
    drawn: LocationSet,
    area: Area | None,
    wanted: LocationSet,
    kind: str,
) -> list[str]:
    """Describe which locations of the area (without one: of `wanted`) are not drawn; empty if all are."""
    if variable.extent not in {"everywhere", "land"}:
        return []  # undefined over land, or where there is no cloud, ice or the like: no gap
    return describe_absent_locations(variable, drawn, area, wanted, kind, dataset_of(connection))


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
            remedy=SUMMARIES_REMEDY,
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
        rows = connection.execute(read_sql("months_without_summaries", dataset_of(connection)), parameters).fetchall()
    except NO_LEDGER:
        return []
    return [Month(day.year, day.month) for (day,) in rows]


def _between(numbers: npt.NDArray[np.integer[Any]]) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
