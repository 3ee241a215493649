"""The values of a series as they are drawn: their step, their gaps, and means of days, months and years.

Here: calculation. Not here: drawing (`series_plots`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from era5_pipeline.model.hours import from_datetime64
from era5_pipeline.query.plots.variable_styles import is_signed

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    FloatArray = npt.NDArray[np.float32]
    TimeArray = npt.NDArray[np.datetime64]

Period = Literal["h", "D", "M", "Y"]

# The part of a period's hours that its mean or total needs; with fewer, it would not represent the period.
_ENOUGH = 0.75


@dataclass(frozen=True, eq=False)
class Values:
    """The values (n,) of one column that are not NULL, their times, and the hours that each stands for: its step.

    The step of a value is the usual distance of values in its month, 1 for hourly values.
    """

    times: TimeArray
    values: FloatArray
    steps: npt.NDArray[np.int64]

    @classmethod
    def of(cls, times: TimeArray, values: FloatArray) -> Values:
        """The values that are finite, with their steps."""
        is_there = np.isfinite(values)
        there = times[is_there].astype("datetime64[s]")
        months = there.astype("datetime64[M]").astype(np.int64)
        steps = np.ones(there.size, dtype=np.int64)
        _, starts = np.unique(months, return_index=True)
        for of_month in np.split(np.arange(there.size), starts[1:]) if there.size else ():
            steps[of_month] = _usual_distance(from_datetime64(there[of_month]))
        return cls(there, values[is_there], steps)

    @property
    def is_hourly(self) -> bool:
        """Whether every month is hourly."""
        return not (self.steps > 1).any()

    @property
    def step_text(self) -> str:
        """The step in words, empty for hourly values."""
        if self.is_hourly:
            return ""
        step = int(self.steps[0])
        is_regular = (self.steps == step).all() and not (np.diff(from_datetime64(self.times)) % step).any()
        return f"every {step} hours" if is_regular else "at irregular hours"

    @property
    def is_after_gap(self) -> npt.NDArray[np.bool_]:
        """For each value but the first (n - 1,): whether values are missing between it and the one before."""
        is_gap: npt.NDArray[np.bool_] = np.diff(from_datetime64(self.times)) > np.maximum(
            self.steps[1:], self.steps[:-1]
        )
        return is_gap


def shared_panels(drawn: Mapping[Variable, Values], most: int) -> list[tuple[Variable, ...]]:
    """The variables, in order, with at most so many of one unit and a similar range together in one panel.

    Lines that share axes must be readable there: together they need at most twice the range of the widest of them, and
    each has at least a fifth of it. Accumulations are bars, and have panels of
    their own.
    """
    panels: list[tuple[list[Variable], list[tuple[float, float]]]] = []
    for variable, values in drawn.items():
        own = (float(values.values.min()), float(values.values.max())) if values.values.size else (0.0, 0.0)
        for others, ranges in panels:
            is_alike = _kind(others[0]) == _kind(variable)
            if is_alike and len(others) < most and variable.step_type != "accum" and _fit([*ranges, own]):
                others.append(variable)
                ranges.append(own)
                break
        else:
            panels.append(([variable], [own]))
    return [tuple(variables) for variables, _ in panels]


def _kind(variable: Variable) -> tuple[str, str, bool]:
    """The key by which variables are grouped onto shared axes."""
    return variable.unit, variable.step_type, is_signed(variable)


def _fit(ranges: list[tuple[float, float]]) -> bool:
    """Whether values of these ranges can be read on the same axis."""
    lengths = [high - low for low, high in ranges]
    together = max(high for _, high in ranges) - min(low for low, _ in ranges)
    return 0.0 < together <= 2 * max(lengths) and min(lengths) >= 0.2 * max(lengths)


def _usual_distance(hours: npt.NDArray[np.int64]) -> int:
    """The most frequent distance of ascending hours; 1 if there is none of at most a day."""
    distances = np.diff(hours)
    counts = np.bincount(distances[(distances > 0) & (distances <= 24)], minlength=2)
    return int(counts.argmax()) if counts.any() else 1


def without_mean(values: Values, period: Period) -> npt.NDArray[np.bool_]:
    """Which values, (n,), lie in a period that has too few of them for a mean."""
    starts, means = period_means(values, period)
    number = (values.times.astype(starts.dtype) - starts[0]).astype(np.int64)
    is_without: npt.NDArray[np.bool_] = np.isnan(means)[number]
    return is_without


def period_means(values: Values, period: Period) -> tuple[TimeArray, npt.NDArray[np.float64]]:
    """Every period from first to last (k,), and its mean (k,), NaN if too many hours are missing."""
    periods = values.times.astype(f"datetime64[{period}]")
    number = (periods - periods[0]).astype(np.int64)
    starts = periods[0] + np.arange(int(number[-1]) + 1)
    hours = np.bincount(number, weights=values.steps, minlength=len(starts))
    sums = np.bincount(number, weights=values.values.astype(np.float64) * values.steps, minlength=len(starts))
    means = np.full(len(starts), np.nan)
    np.divide(sums, hours, out=means, where=hours >= _ENOUGH * hours_of_periods(starts))
    return starts, means


def hours_of_periods(starts: TimeArray) -> npt.NDArray[np.int64]:
    """The hours, (k,), of the periods that begin at `starts` (k,), whose unit is the period."""
    return (as_seconds(starts + 1) - as_seconds(starts)).astype(np.int64) // 3600


def as_seconds(times: TimeArray) -> TimeArray:
    """Times, of any shape, as datetime64[s]."""
    return times.astype("datetime64[s]")
