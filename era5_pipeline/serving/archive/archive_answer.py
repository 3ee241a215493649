"""The answer to a question: of each point its sections of hours and days, with values in the units asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from era5_pipeline.serving.archive.archive_hours import PointHours, read_point_hours
from era5_pipeline.serving.archive.variables.answer_units import Unit, rounded
from era5_pipeline.serving.archive.variables.sun import SunOfPlace

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt
    import psycopg

    from era5_pipeline.serving.archive.answer_times import TimeFormat
    from era5_pipeline.serving.archive.archive_question import ArchivePoint, ArchiveQuestion
    from era5_pipeline.serving.archive.variables.daily_variables import DailyVariable
    from era5_pipeline.serving.archive.variables.hourly_variables import HourlyVariable


@dataclass(frozen=True, eq=False)
class AnswerColumn:
    """A variable of an answer, by the name it was asked for: its unit, and its values (n,) before rounding.

    Values of int64 are moments: seconds since 1970 in UTC.
    """

    name: str
    unit: Unit
    values: npt.NDArray[Any]

    @property
    def is_time(self) -> bool:
        """Whether the values are moments."""
        return self.values.dtype.kind == "i"

    @property
    def rounded(self) -> npt.NDArray[np.float64]:
        """The values to the decimals of their unit."""
        return rounded(self.values, self.unit.decimals)

    def unit_in(self, time_format: TimeFormat) -> Unit:
        """The unit; of moments, how times are written."""
        return Unit(time_format, 0) if self.is_time else self.unit


@dataclass(frozen=True, eq=False)
class AnswerSection:
    """All hours, or all days, of a point."""

    kind: Literal["hourly", "daily"]
    columns: tuple[AnswerColumn, ...]


@dataclass(frozen=True, eq=False)
class PointAnswer:
    """The answer for one point: its sections, what the table lacks of it, and the height of its ground in m."""

    point: ArchivePoint
    sections: tuple[AnswerSection, ...]
    missing_months: tuple[str, ...] = ()
    missing_hours: int = 0
    elevation: float | None = None


def read_answer(
    connection: psycopg.Connection[Any], question: ArchiveQuestion, point: ArchivePoint, elevation: float | None = None
) -> PointAnswer:
    """Answer the question for one of its points, of this `elevation`; the connection is in autocommit mode.

    Raises:
        NoDataError: if the table has nothing of the place, or lacks a column; it says what it has.
    """
    hours = PointHours({}, (), 0)
    if question.columns:
        hours = read_point_hours(connection, point.cell.location, question.columns, point.days, point.zone)
    return replace(make_answer_of(question, point, hours), elevation=elevation)


def make_answer_of(question: ArchiveQuestion, point: ArchivePoint, hours: PointHours) -> PointAnswer:
    """The answer of the hours that were read."""
    sections: list[AnswerSection] = []
    days, zone, location = point.days, point.zone, point.cell.location
    sun = SunOfPlace(
        location.latitude,
        location.longitude,
        days.first_second(zone),
        int(days.start(zone).timestamp()),
        len(days),
    )
    if question.hourly:
        sections.append(AnswerSection("hourly", _columns(question, question.hourly, hours, sun)))
    if question.daily:
        sections.append(AnswerSection("daily", _columns(question, question.daily, hours, sun)))
    return PointAnswer(point, tuple(sections), tuple(map(str, hours.missing_months)), hours.missing_hours)


def _columns(
    question: ArchiveQuestion,
    variables: Mapping[str, HourlyVariable | DailyVariable],
    hours: PointHours,
    sun: SunOfPlace,
) -> tuple[AnswerColumn, ...]:
    found = []
    for name, variable in variables.items():
        columns = [hours.values[column] for column in variable.columns]
        computed = variable.formula(sun, *columns) if variable.by_sun else variable.formula(*columns)
        values, unit = question.units.convert(computed, variable.unit)
        found.append(AnswerColumn(name, unit, values))
    return tuple(found)
