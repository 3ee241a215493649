"""The hours of a place that all data sets have, side by side: each variable that is in all of them, from each table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.dataset import load_command
from era5_pipeline.model.derived_variables import is_direction
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.read.fields import Series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.series import SeriesAnswer


@dataclass(frozen=True, eq=False)
class Comparison:
    """The answers of the data sets, of which there are two or more; the first is what the others are compared with.

    `rows` are the hours that all of them have, and `variables` their columns, by data set: `temperature_2m_era5`,
    `temperature_2m_era5_land`.
    """

    answers: Mapping[Dataset, SeriesAnswer]
    rows: Series
    variables: tuple[Variable, ...]
    differences: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """Lines that name what is missing, and of which data set."""
        return [f"{of.short_title}: {line}" for of, answer in self.answers.items() for line in answer.lines]

    @property
    def places(self) -> list[str]:
        """The grid point of each data set."""
        return [f"{of.short_title}: {answer.place.description}" for of, answer in self.answers.items()]

    @property
    def credit(self) -> str:
        """The credit of each, once."""
        return "; ".join(dict.fromkeys(answer.origin.credit for answer in self.answers.values()))

    @property
    def facts(self) -> dict[str, Any]:
        """All but the rows, as JSON values, by data set."""
        return {of.name: answer.facts for of, answer in self.answers.items()}


def compare(answers: Mapping[Dataset, SeriesAnswer]) -> Comparison:
    """Put the hours that all answers have side by side, of the variables that all of them have."""
    first, *others = answers.values()
    times = reduce(np.intersect1d, (answer.rows.times for answer in answers.values()))
    shared = [
        one
        for one in first.variables
        if all(one.column in {other.column for other in answer.variables} for answer in others)
    ]
    if not times.size or not shared:
        held = "; ".join(
            f"{of.short_title} has {', '.join(one.column for one in answer.variables)} from "
            f"{answer.rows.times[0]} to {answer.rows.times[-1]} UTC"
            for of, answer in answers.items()
        )
        raise NoDataError(
            f"the data sets have no {'hour' if shared else 'variable'} in common at this place: {held}",
            remedy=f"Load the same months and variables of each: {' and '.join(map(load_command, answers))}.",
        )
    values, variables = {}, []
    for one in shared:
        for of, answer in answers.items():
            named = replace(one, column=f"{one.column}_{of.schema}")
            at = np.searchsorted(answer.rows.times, times)
            values[named.column] = answer.rows.values[one.column][at]
            variables.append(named)
    rows = Series(times, values)
    return Comparison(answers, rows, tuple(variables), _differences(answers, shared, rows))


def _differences(answers: Mapping[Dataset, SeriesAnswer], shared: list[Variable], rows: Series) -> tuple[str, ...]:
    """Say of each variable how far the others are from the first on average; directions have no mean."""
    first, *others = answers
    lines = []
    for one in shared:
        if is_direction(one):
            continue
        base = rows.values[f"{one.column}_{first.schema}"].astype(np.float64)
        for of in others:
            apart = rows.values[f"{one.column}_{of.schema}"].astype(np.float64) - base
            count = int(np.isfinite(apart).sum())
            if count:
                mean = float(np.nanmean(apart))
                lines.append(
                    f"{one.column}: {of.short_title} less {first.short_title} is {mean:+.3g} {one.unit} on average "
                    f"of {count:,} hours"
                )
    return tuple(lines)
