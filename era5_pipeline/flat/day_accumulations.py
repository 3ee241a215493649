"""Amounts that files accumulate since 00 UTC, as ERA5-Land's do, to amounts of hours; and checks of both.

The value at an hour is the sum since 00 UTC, that at 00 UTC all of the day before. The amount of an hour is therefore
the value less that of the hour before; that of 01 UTC is the value itself. The first hour of a month needs the last one
of the month before. An hour without the one before it has no amount: it is missing, never guessed.

Stored values are rounded, so that amounts of dry hours are a little above or below zero. They stay: setting them to
zero would add water, and the hours of a day would no longer sum to the day's value.

Hours are since 1970-01-01 UTC, ascend, and may have gaps. Arrays are (hour, ...) if nothing else is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    Hours = npt.NDArray[np.int64]
    Values = npt.NDArray[np.floating[Any]]
    Floats = npt.NDArray[np.float32]

# Steps of a file's packing by which a sum may fall: each of two values is up to half a step off, and the store packs a
# second time what it has interpolated.
_STEPS = 2
# The first hour of each sum, UTC.
_FIRST = 1
# By how much of it an amount is rounded at most, in float32; the second part is for the day's sum, in float64.
_ROUNDING = 2.0**-24 + 2.0**-45
# Of what values change within a day, the part that falls: of sums nearly nothing; of amounts of hours, which rise and
# fall, half over whole days.
_MOST_OF_SUMS, _LEAST_OF_HOURS = 0.01, 0.1
# Values below this part of the greatest are the packing's.
_NOISE = 2.0**-14


def amounts_of_rows(
    sums: Values, before: Values, hours: Hours, before_hour: int, *, is_compiled: bool = False
) -> Floats:
    """The amount of each hour from sums since 00 UTC, both (location, hour); computed in float64, NaN where unknown.

    `before` (location,) is the sum at `before_hour`, that before the first; NaN: none.

    `is_compiled`: use compiled functions, which give the same.
    """
    is_first, follows = hours % 24 == _FIRST, np.diff(hours, prepend=before_hour) == 1
    amounts: Floats = np.empty(sums.shape, dtype=np.float32)
    if is_compiled:
        from era5_pipeline.flat.compiled_sums import take_apart  # noqa: PLC0415  # slow to import, optional

        first, lacking = (np.flatnonzero(flags) for flags in (is_first, ~follows & ~is_first))
        take_apart(np.ascontiguousarray(sums), np.ascontiguousarray(before), first, lacking, amounts)
        return amounts
    np.subtract(sums[:, 1:], sums[:, :-1], out=amounts[:, 1:], dtype=np.float64, casting="same_kind")
    np.subtract(sums[:, 0], before, out=amounts[:, 0], dtype=np.float64, casting="same_kind")
    amounts[:, ~follows] = np.nan
    amounts[:, is_first] = sums[:, is_first]
    return amounts


def lower_bound(variable: Variable, step: float) -> float:
    """The least possible amount of an hour, from sums packed in these steps; both in the table's unit.

    `step` is 0 if the file does not state it. It cannot be told from the values: the store has interpolated them, and
    their sums fall by more than float32 or the packing of the file explain. The bounds of variables allow for that.
    """
    return min(variable.minimum, -_STEPS * step)


@dataclass(frozen=True)
class Falls:
    """Sums since 00 UTC that fall within their day: how many, by how much at most, and where that is.

    `hour` is since 1970-01-01 UTC, `place` the index on the other axes.
    """

    count: int
    by: float
    hour: int
    place: tuple[int, ...]


def falls(amounts: Values, hours: Hours, bound: float) -> Falls | None:
    """Find amounts of hours below the bound, where a sum has fallen between 01 and 00 UTC; None if there are none."""
    with np.errstate(invalid="ignore"):
        fallen = amounts < bound
    if not fallen.any():
        return None
    hour, *place = map(int, np.unravel_index(np.nanargmin(amounts), amounts.shape))
    return Falls(int(fallen.sum()), -float(amounts[hour, *place]), int(hours[hour]), tuple(place))


@dataclass(frozen=True)
class DaySum:
    """A day whose hours sum to `summed` and not to its value at 00 UTC, `stated`; `end` is that hour since 1970."""

    end: int
    place: tuple[int, ...]
    summed: float
    stated: float


def wrong_day_sum(amounts: Floats, values: Values, hours: Hours) -> DaySum | None:
    """Find a day whose 24 amounts, as they are stored, do not sum to its value at 00 UTC; None if all do.

    Each amount is rounded to float32, by up to 2**-24 of it. Days that lack an hour are not compared.
    """
    for end in np.flatnonzero(hours % 24 == 0):
        first = end - 23
        if first < 0 or hours[end] - hours[first] != 23:
            continue
        of_day = amounts[first : end + 1].astype(np.float64)
        stated, summed = values[end].astype(np.float64), of_day.sum(axis=0)
        allowed = _ROUNDING * np.abs(of_day).sum(axis=0)
        with np.errstate(invalid="ignore"):
            wrong = np.abs(summed - stated) > allowed
        if wrong.any():
            place = tuple(int(axis[0]) for axis in np.nonzero(wrong))
            return DaySum(int(hours[end]), place, float(summed[place]), float(stated[place]))
    return None


def add_up(sums: Values, amounts: Floats, hours: Hours, bound: float, *, is_compiled: bool = False) -> bool:
    """Return True if no amount is below the bound and no day's sum is wrong, of rows (location, hour).

    Tells faster what `falls` and `wrong_day_sum` look for. `is_compiled`: use compiled functions, which tell the same.
    """
    ends = np.flatnonzero(hours % 24 == 0)
    ends = ends[(ends >= 23) & (hours[ends] - hours[ends - 23] == 23)]  # of whole days
    if is_compiled:
        from era5_pipeline.flat.compiled_sums import are_taken_apart  # noqa: PLC0415  # slow to import, optional

        return bool(are_taken_apart(sums, amounts, ends, bound, _ROUNDING))
    return not (amounts < bound).any() and all(_adds_up(amounts[:, end - 23 : end + 1], sums[:, end]) for end in ends)


def _adds_up(of_day: Floats, stated: Values) -> bool:
    """Return True if a day's amounts, (location, 24), sum to its values at 00 UTC, (location,); missing ones do."""
    summed = of_day.sum(axis=1, dtype=np.float64)
    wrong = np.abs(summed - stated) > _ROUNDING * np.abs(summed)
    if not wrong.any():
        return True
    # Amounts of both signs: their sum is less than what is rounded.
    rounded = np.abs(of_day[wrong]).sum(axis=1, dtype=np.float64)
    return not (np.abs(summed[wrong] - stated[wrong]) > _ROUNDING * rounded).any()


def seems_accumulated(values: Values, hours: Hours) -> bool | None:
    """Guess from the numbers whether values are sums since 00 UTC (True) or amounts of hours (False); None: unclear.

    Sums never fall from 01 to 00 UTC, and then fall; amounts of hours rise and fall within the day. Values of both
    signs tell nothing, nor do those that hardly change.
    """
    found = np.asarray(values, dtype=np.float64)
    greatest, least = np.nanmax(found, initial=0.0), np.nanmin(found, initial=0.0)
    if min(greatest, -least) > _NOISE * max(greatest, -least):
        return None
    found = np.abs(found)
    changes = np.diff(found, axis=0)
    changes[~(np.abs(changes) > _NOISE * np.nanmax(found, initial=0.0))] = 0.0
    days = (hours - _FIRST) // 24
    is_within = np.diff(days) == 0
    rises, falls_ = np.maximum(changes, 0.0), np.maximum(-changes, 0.0)
    within = float(rises[is_within].sum() + falls_[is_within].sum())
    if not within:
        return None
    part = float(falls_[is_within].sum()) / within
    if part > _LEAST_OF_HOURS:
        return False
    starts_again = falls_[~is_within].sum() > rises[~is_within].sum()
    return True if part < _MOST_OF_SUMS and starts_again else None
