"""The question that a map answers: an hour, a day, a month or another part of a year, its anomaly, or a trend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from era5_pipeline.climate.question import CellStatistic
from era5_pipeline.climate.trends import FEWEST_YEARS
from era5_pipeline.flat.monthly import is_total
from era5_pipeline.model.derived_variables import DERIVED, is_direction
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month

if TYPE_CHECKING:
    from datetime import date, datetime

    from era5_pipeline.climate.answer import YearSpan
    from era5_pipeline.climate.question import YearPart
    from era5_pipeline.model.variables import Variable

_STATISTICS: tuple[CellStatistic, ...] = get_args(CellStatistic)


@dataclass(frozen=True)
class HourQuestion:
    """One hour (aware)."""

    time: datetime


@dataclass(frozen=True)
class DayQuestion:
    """One day in UTC."""

    day: date
    statistic: CellStatistic


@dataclass(frozen=True)
class PeriodQuestion:
    """One part of one year."""

    part: YearPart
    year: int
    statistic: CellStatistic


@dataclass(frozen=True)
class AnomalyQuestion:
    """One part of one year, minus the mean of the same part over the complete years of a baseline."""

    part: YearPart
    year: int
    baseline: YearSpan
    statistic: CellStatistic

    def __post_init__(self) -> None:
        _require_no_extreme(self.statistic, "an anomaly")


@dataclass(frozen=True)
class TrendQuestion:
    """The trend of a part of the year over several years."""

    part: YearPart
    years: YearSpan
    statistic: CellStatistic

    def __post_init__(self) -> None:
        _require_no_extreme(self.statistic, "a trend")
        if len(self.years) < FEWEST_YEARS:
            raise UsageError(
                f"{self.years} are {len(self.years)} year{'' if len(self.years) == 1 else 's'}: a trend needs at least "
                f"{FEWEST_YEARS}",
                remedy="Ask for more years, for example 1991-2020.",
            )


MapQuestion = HourQuestion | DayQuestion | PeriodQuestion | AnomalyQuestion | TrendQuestion


def months_asked(question: MapQuestion) -> tuple[Month, ...]:
    """Months that a data set must have for the question: those before it begins are an error of the user."""
    match question:
        case HourQuestion():
            return (Month.of(question.time),)
        case DayQuestion():
            return (Month(question.day.year, question.day.month),)
        case TrendQuestion():
            return question.years.starts
        case _:
            # Of a season, the months before the data set begins are missing like others.
            last = question.part.months(question.year)[-1]
            return (last, *question.baseline.starts) if isinstance(question, AnomalyQuestion) else (last,)


def require_summaries(variable: Variable) -> None:
    """Require a variable with monthly summaries."""
    if variable.column in DERIVED:
        raise UsageError(
            f"{variable.column} is computed from hours, and has no maps of months, years, anomalies and trends",
            remedy="Ask for --time or --day.",
        )


def statistic_for(variable: Variable, name: str | None = None) -> CellStatistic:
    """The statistic of this name, or the variable's usual one: the sum for totals, otherwise the mean."""
    if is_direction(variable):
        raise UsageError(
            f"{variable.column} has a map of an hour only: directions have no mean, least or greatest",
            remedy="Ask for --time, or for the components, whose means are those of the vector: "
            f"--column {DERIVED[variable.column].parts[0]}.",
        )
    if name is None:
        return "sum" if is_total(variable) else "mean"
    statistic = next((one for one in _STATISTICS if one == name.strip().lower()), None)
    if statistic is None:
        raise UsageError(f"{name!r} is not a statistic", remedy=f"Statistics are {', '.join(_STATISTICS)}.")
    if statistic == "sum" and not is_total(variable):
        raise UsageError(
            f"{variable.column} has no sum: its values are not totals of an hour",
            remedy="Ask for its mean, min or max.",
        )
    return statistic


def _require_no_extreme(statistic: CellStatistic, what: str) -> None:
    if statistic in {"min", "max"}:
        raise UsageError(
            f"the statistic {statistic} has no map of {what}: it is the value of single hours",
            remedy="Ask for the mean or, of totals, the sum.",
        )
