"""The answer to a question: hours and days of each point, with values in the requested units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.held import NO_LEDGER, months_held, require_columns
from era5_pipeline.read.hours import read_packed
from era5_pipeline.read.missing import no_series
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.serving.archive.sun import SunOfPlace
from era5_pipeline.serving.archive.units import UNIX_MOMENT, rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.serving.archive.hourly import ArchiveVariable
    from era5_pipeline.serving.archive.parameters import ArchivePoint, ArchiveQuestion
    from era5_pipeline.serving.archive.times import AnswerZone, Days, Kind, TimeFormat
    from era5_pipeline.serving.archive.units import Unit

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PointHours:
    """The values of each column at every hour (n,), float32 in the table's units; NaN where there is no value.

    `missing_months` have no hour of a requested column that ERA5 has everywhere; `missing_hours` counts the hours of
    the other months without such a value.
    """

    values: Mapping[str, Floats]
    missing_months: tuple[Month, ...]
    missing_hours: int


_GEOPOTENTIAL = "surface_geopotential"
_GRAVITY = 9.80665
_IN_THE_TABLE = "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('{weather}') AND attname = %s)"


def read_elevations(connection: psycopg.Connection[Any], locations: Sequence[Location]) -> list[float | None]:
    """Read the model's ground height at each location, in m, from the geopotential of any month that has it.

    None if no month does; the connection is in autocommit mode.
    """
    row = connection.execute(dataset_of(connection).sql(_IN_THE_TABLE), (_GEOPOTENTIAL,)).fetchone()
    if row is None or not row[0]:
        return [None] * len(locations)
    found: dict[int, float | None] = {}
    for location in locations:
        if location.location_id not in found:
            found[location.location_id] = _elevation(connection, location.location_id)
    return [found[location.location_id] for location in locations]


def _elevation(connection: psycopg.Connection[Any], location_id: int) -> float | None:
    parameters = {"location_id": location_id, "column": _GEOPOTENTIAL}
    try:
        held = connection.execute(read_sql("month_with_column", dataset_of(connection)), parameters).fetchone()
    except NO_LEDGER:
        return None
    if held is None:
        return None
    month = Month(held[0].year, held[0].month)
    query = sql.SQL(
        dataset_of(connection).sql(
            "SELECT {column} FROM {weather} "
            "WHERE location_id = %s AND time >= %s AND time < %s AND {column} IS NOT NULL LIMIT 1"
        )
    ).format(column=sql.Identifier(_GEOPOTENTIAL))
    row = connection.execute(query, (location_id, month.start, month.end)).fetchone()
    return None if row is None else round(row[0] / _GRAVITY, 1)


def read_point_hours(
    connection: psycopg.Connection[Any], location: Location, columns: Sequence[str], days: Days, zone: AnswerZone
) -> PointHours:
    """Read the hours of the days; the connection is in autocommit mode, and `prepare_for_reading` was called."""
    start = days.start(zone)
    end = start + timedelta(hours=days.hours)
    variables = dataset_of(connection).catalogue.by_column
    try:
        times, found = read_packed(connection, location.location_id, columns, start, end, is_prepared=True)
    except psycopg.errors.UndefinedColumn:
        require_columns(connection, [variables[column] for column in columns])
        raise
    if not times.size and not months_held(connection, LocationSet.of_location(location)):
        raise no_series(connection, location, start, end)
    first = np.datetime64(start.replace(tzinfo=None), "s")
    hours = (times - first).astype(np.int64) // 3600
    if hours.size == days.hours and hours[0] == 0 and hours[-1] == days.hours - 1 and (np.diff(hours) == 1).all():
        values: Mapping[str, Floats] = found
    else:
        values = {column: _spread(found[column], hours, days.hours) for column in columns}
    return PointHours(values, *_missing(variables, values, columns, first, hours))


def _spread(values: Floats, hours: npt.NDArray[np.int64], count: int) -> Floats:
    filled = np.full(count, np.nan, dtype=np.float32)
    filled[hours] = values
    return filled


def _missing(
    variables: Mapping[str, Variable],
    values: Mapping[str, Floats],
    columns: Sequence[str],
    first: np.datetime64,
    rows: npt.NDArray[np.int64],
) -> tuple[tuple[Month, ...], int]:
    """Months without any value, and the number of other missing hours; a variable of the sea counts by its rows."""
    count = len(values[columns[0]])
    without_row = np.ones(count, dtype=np.bool_)
    without_row[rows] = False
    none_of = [
        np.isnan(values[column]) if variables[column].extent == "everywhere" else without_row for column in columns
    ]
    lacking = np.logical_or.reduce(none_of)
    if not lacking.any():
        return (), 0
    hours = first.astype("datetime64[h]") + np.arange(count).astype("timedelta64[h]")
    numbers = hours.astype("datetime64[M]").astype(np.int64)
    absent = sorted({number for none in none_of for number in np.setdiff1d(numbers, numbers[~none]).tolist()})
    months = tuple(Month.from_number(number + 1970 * 12) for number in absent)
    return months, int((lacking & ~np.isin(numbers, absent)).sum())


@dataclass(frozen=True, eq=False)
class AnswerColumn:
    """A variable of an answer, by its requested name: its unit, and its values (n,) before rounding.

    int64 values are moments: seconds since 1970 in UTC.
    """

    name: str
    unit: Unit
    values: npt.NDArray[Any]

    @property
    def is_time(self) -> bool:
        """True if the values are moments."""
        return self.values.dtype.kind == "i"

    @property
    def rounded(self) -> npt.NDArray[np.float64]:
        """The values to the decimals of their unit."""
        return rounded(self.values, self.unit.decimals)

    def unit_in(self, time_format: TimeFormat) -> Unit:
        """The unit; for moments, the format of times."""
        return UNIX_MOMENT if self.is_time and time_format == "unixtime" else self.unit


@dataclass(frozen=True, eq=False)
class AnswerSection:
    """All hours, or all days, of a point."""

    kind: Kind
    columns: tuple[AnswerColumn, ...]


@dataclass(frozen=True, eq=False)
class PointAnswer:
    """The answer for one place: its sections, what tables are missing there, and the height of its ground in m.

    Place and height are those of the first model; `others` are the points of further models.
    """

    point: ArchivePoint
    sections: tuple[AnswerSection, ...]
    missing_months: tuple[str, ...] = ()
    missing_hours: int = 0
    elevation: float | None = None
    others: tuple[ArchivePoint, ...] = ()


def of_all_models(answers: Sequence[PointAnswer], models: int) -> list[PointAnswer]:
    """One answer for each place, of answers of this number of models for each, as Open-Meteo writes JSON and CSV.

    Of several models, the columns of one follow those of another, and their names end with that of the model. Missing
    months are those of any model, and missing hours are counted for each.
    """
    if models == 1:
        return list(answers)
    return [_of_place(answers[first : first + models]) for first in range(0, len(answers), models)]


def _of_place(answers: Sequence[PointAnswer]) -> PointAnswer:
    sections = (
        AnswerSection(section.kind, tuple(column for answer in answers for column in _named(answer, section.kind)))
        for section in answers[0].sections
    )
    return PointAnswer(
        answers[0].point,
        tuple(sections),
        tuple(sorted({month for answer in answers for month in answer.missing_months})),
        sum(answer.missing_hours for answer in answers),
        answers[0].elevation,
        tuple(answer.point for answer in answers[1:]),
    )


def _named(answer: PointAnswer, kind: Kind) -> list[AnswerColumn]:
    """The columns of hours or of days, named with the model."""
    name = answer.point.model.name
    columns = (column for section in answer.sections if section.kind == kind for column in section.columns)
    return [replace(column, name=f"{column.name}_{name}") for column in columns]


def read_answer(
    connection: psycopg.Connection[Any], question: ArchiveQuestion, point: ArchivePoint, elevation: float | None = None
) -> PointAnswer:
    """Answer the question for one of its points, at this `elevation`; the connection is in autocommit mode."""
    hours, columns = PointHours({}, (), 0), question.columns_of(point.model)
    if columns:
        hours = read_point_hours(connection, point.cell.location, columns, point.days, point.zone)
    return replace(make_answer_of(question, point, hours), elevation=elevation)


def make_answer_of(question: ArchiveQuestion, point: ArchivePoint, hours: PointHours) -> PointAnswer:
    """The answer from the hours that were read."""
    days, zone, location = point.days, point.zone, point.cell.location
    first_hour = int(days.start(zone).timestamp())
    sun = SunOfPlace(location.latitude, location.longitude, days.first_second(zone), first_hour, len(days))
    asked: dict[Kind, dict[str, ArchiveVariable]] = {"hourly": question.hourly, "daily": question.daily}
    counts: dict[Kind, int] = {"hourly": days.hours, "daily": len(days)}
    sections = tuple(
        AnswerSection(kind, _columns(question, of, hours, sun, counts[kind])) for kind, of in asked.items() if of
    )
    return PointAnswer(point, sections, tuple(map(str, hours.missing_months)), hours.missing_hours)


def _columns(
    question: ArchiveQuestion,
    variables: Mapping[str, ArchiveVariable],
    hours: PointHours,
    sun: SunOfPlace,
    count: int,
) -> tuple[AnswerColumn, ...]:
    found = []
    for name, variable in variables.items():
        computed: npt.NDArray[Any]
        columns = [hours.values[column] for column in variable.columns if column in hours.values]
        if len(columns) < len(variable.columns):  # the model lacks it, as Open-Meteo's may if several are asked for
            computed = np.full(count, np.nan, dtype=np.float32)
        else:
            computed = variable.formula(sun, *columns) if variable.by_sun else variable.formula(*columns)
        values, unit = question.units.convert(computed, variable.unit)
        found.append(AnswerColumn(name, unit, values))
    return tuple(found)
