"""Completeness of a month: the hours that a variable must have, and what is said of those it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.times import describe_hours, hour_of, hours_of_month, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Catalogue, Variable

    Hours = npt.NDArray[np.int64]

ALLOW_INCOMPLETE = "get the rest, or load it as it is with --allow-incomplete (the ledger then marks it incomplete)."
_SHOWN = 3


def first_hour(variable: Variable, *, is_series: bool = False) -> int:
    """The first hour, since 1970-01-01 UTC, at which the variable must have values.

    `is_series`: the values are those of whole days, as the store's point series; the first day is then a whole one.
    """
    first = hour_of(variable.first_valid)
    return first + 24 - first % 24 if is_series and first % 24 > 0 else first


def missing_hours(month: Month, variable: Variable, held: Hours, *, is_series: bool = False) -> Hours:
    """The hours of the month, (n,) ascending, that the variable must have and that are not among those `held`."""
    expected = np.array(hours_of_month(month), dtype=np.int64)
    required = expected[expected >= first_hour(variable, is_series=is_series)]
    # Nearly always; a set difference takes twenty times as long.
    return required[:0] if np.array_equal(required, held) else np.setdiff1d(required, held)


def why_incomplete(
    month: Month, held: Mapping[str, Hours], catalogue: Catalogue, *, is_series: bool = False
) -> tuple[str, str] | None:
    """Say in words which hours a month lacks, and what to do about it; None if it has all.

    `held` are the hours that its files have, since 1970-01-01 UTC, (n,) ascending, of each column.
    `catalogue` is that of their data set.
    """
    missing = {
        column: describe_hours(missing_hours(month, catalogue.by_column[column], hours, is_series=is_series))
        for column, hours in held.items()
    }
    short = {column: runs for column, runs in missing.items() if runs}
    if not short:
        return None
    hours = np.unique(np.concatenate(list(held.values())))
    if len(set(short.values())) == 1 and len(short) == len(missing):
        text = f"{hours.size} of {month.hours} hours; missing {_shortened(next(iter(short.values())))}"
    else:
        text = "; ".join(
            f"{column} has {held[column].size} of {month.hours} hours, missing {_shortened(runs)}"
            for column, runs in short.items()
        )
    if (last := _last_hour(month, hours)) is not None:
        text += f"; the latest hour there is {last}"
    return f"{month} is incomplete: {text}", f"Wait for the month to be complete or {ALLOW_INCOMPLETE}"


def _last_hour(month: Month, hours: Hours) -> str | None:
    """The last hour of a month that is complete up to it and ends early; None: the gaps are elsewhere."""
    first, end = hour_of(month.start), hour_of(month.end)
    last = int(hours.max(initial=-1))
    if hours.size != last - first + 1 or last == end - 1:
        return None
    return f"{time_of(last):%Y-%m-%d %H:%M} UTC"


def _shortened(runs: tuple[str, ...]) -> str:
    more = f" and {len(runs) - _SHOWN} more gaps" if len(runs) > _SHOWN else ""
    return ", ".join(runs[:_SHOWN]) + more
