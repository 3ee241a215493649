"""Sum rows, or take sums apart, in one pass while they are in the processor's cache.

The compiled form of `statistics.ColumnRules.sums`, of `monthly.mean_wind_speed`, and of
`day_accumulations.amounts_of_rows`. Gives the same numbers as numpy does, to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from era5_pipeline.runtime.compiled import compiled, compiled_in_any_order

_MISSING = np.uint32(0x7FC00000)
_HALF = np.uint32(16)
# Up to this many values numpy uses eight sums; it splits longer arrays into halves.
_SUMMED_AT_ONCE = 128
# Parts of a row that wait to be added: three for each halving.
_DEPTH = 64


@compiled
def sum_rows(
    values: Any,
    hour_weights: Any,
    scale: float,
    digests: Any,
    counts: Any,
    totals: Any,
    minima: Any,
    maxima: Any,
    by_hour: Any,
) -> float:
    """Sum each location's values, (location, hour) float32, and return the checksum of all, see `checksum_of`.

    Fills `digests`, `counts`, `totals`, `minima`, `maxima` (location,); adds to `by_hour` (hour,) the locations with a
    value. `digests` lack the location's weight; without values the total is 0 and the range NaN.
    """
    checksum = 0.0
    full = 0
    filled = np.empty(values.shape[1], dtype=np.float32)
    todo, done = np.empty((_DEPTH, 2), dtype=np.int64), np.empty(_DEPTH)
    for place in range(values.shape[0]):
        row = values[place]
        digests[place] = _digest(row.view(np.uint32), hour_weights)
        counts[place] = _count(row)
        if counts[place] == row.size:
            full += 1
            minima[place], maxima[place], part = _range(row, scale)
            totals[place] = _total(row, todo, done)
        else:
            part = 0.0
            low, high = np.float32(np.nan), np.float32(np.nan)
            for hour in range(row.size):
                value = row[hour]
                if np.isnan(value):
                    filled[hour] = 0.0
                    continue
                filled[hour] = value
                by_hour[hour] += 1
                part += np.floor(np.float64(value) * scale)
                if not value >= low:
                    low = value
                if not value <= high:
                    high = value
            minima[place], maxima[place] = low, high
            totals[place] = _total(filled, todo, done)
        checksum += part
    for hour in range(by_hour.size):
        by_hour[hour] += full
    return checksum


@compiled
def sum_speeds(eastward: Any, northward: Any, totals: Any, counts: Any) -> None:
    """Sum each location's wind speeds, of components (location, hour) float32.

    Fills `totals` and `counts` (location,), of the hours with both components.
    """
    speeds = np.empty(eastward.shape[1])
    todo, done = np.empty((_DEPTH, 2), dtype=np.int64), np.empty(_DEPTH)
    for place in range(eastward.shape[0]):
        missing = np.int64(0)
        for hour in range(speeds.size):
            across, along = np.float64(eastward[place, hour]), np.float64(northward[place, hour])
            speed = np.sqrt(across * across + along * along)
            missing += np.int64(np.isnan(speed))
            speeds[hour] = speed
        if missing:
            for hour in range(speeds.size):
                if np.isnan(speeds[hour]):
                    speeds[hour] = 0.0
        totals[place] = _total(speeds, todo, done)
        counts[place] = speeds.size - missing


@compiled
def take_apart(sums: Any, before: Any, first: Any, lacking: Any, amounts: Any) -> None:
    """Put the amounts of hours, (location, hour) float32, of sums since 00 UTC, float64, into `amounts`.

    `before` (location,) is the sum at the hour before. The amounts at the positions `first` are the sums themselves;
    those at `lacking` are missing.
    """
    for place in range(sums.shape[0]):
        own, out = sums[place], amounts[place]
        out[0] = own[0] - before[place]
        for hour in range(1, own.size):
            out[hour] = own[hour] - own[hour - 1]
        for hour in first:
            out[hour] = own[hour]
        for hour in lacking:
            out[hour] = np.nan


@compiled
def are_taken_apart(sums: Any, amounts: Any, ends: Any, bound: float, rounding: float) -> bool:
    """Return True if no amount is below the bound, and the 24 up to each position of `ends` add up to the sum there.

    `rounding` is the part of each amount by which it may be off.
    """
    for place in range(sums.shape[0]):
        own, out = sums[place], amounts[place]
        for hour in range(out.size):
            if out[hour] < bound:
                return False
        for end in ends:
            total = size = 0.0
            for hour in range(end - 23, end + 1):
                value = np.float64(out[hour])
                total += value
                size += abs(value)
            if abs(total - own[end]) > rounding * size:
                return False
    return True


def load_compiled() -> None:
    """Load the functions, which the first call would do otherwise."""
    one = np.zeros(1, dtype=np.int64)
    floats = (np.zeros(1, dtype=np.float32), np.zeros(1, dtype=np.float32))
    weights, digests = np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    row = np.zeros((1, 1), dtype=np.float32)
    sum_rows(row, weights, 1.0, digests, one, np.zeros(1), *floats, one.copy())
    sum_speeds(row, row, np.zeros(1), one)
    take_apart(np.zeros((1, 1)), np.zeros(1), one, one, row)
    are_taken_apart(np.zeros((1, 1)), row, one[:0], 0.0, 0.0)


@compiled
def _digest(bits: Any, hour_weights: Any) -> Any:
    digest = np.uint64(0)
    for hour in range(bits.size):
        own = bits[hour]
        # NaN of any kind
        if own & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000):
            own = _MISSING
        digest += np.uint64(own ^ (own >> _HALF)) * hour_weights[hour]
    return digest


@compiled
def _count(row: Any) -> Any:
    missing = np.int32(0)
    for hour in range(row.size):
        missing += np.int32(row[hour] != row[hour])
    return row.size - missing


@compiled_in_any_order
def _range(row: Any, scale: float) -> tuple[Any, Any, float]:
    """The least and the greatest value, and the sum of floor(value * scale), of values without NaN."""
    low = high = row[0]
    checksum = 0.0
    for hour in range(row.size):
        value = row[hour]
        low = min(low, value)
        high = max(high, value)
        checksum += np.floor(np.float64(value) * scale)
    return low, high, checksum


@compiled
def _total(row: Any, todo: Any, done: Any) -> Any:
    """Add in the order in which numpy does: halves of halves, until a part is short.

    `todo` (n, 2) and `done` (n,) are room for parts (start, count) and their sums. Not by recursion, of which numba
    cannot keep compiled code on disk.
    """
    waiting, held = 1, 0
    todo[0, 0], todo[0, 1] = 0, row.size
    while waiting:
        waiting -= 1
        start, count = todo[waiting, 0], todo[waiting, 1]
        if count < 0:
            held -= 1
            done[held - 1] += done[held]
        elif count <= _SUMMED_AT_ONCE:
            done[held] = _short_total(row[start : start + count])
            held += 1
        else:
            half = count // 2
            half -= half % 8
            # The last is the next: the left half, the right one, their sum.
            todo[waiting, 1] = -1
            todo[waiting + 1, 0], todo[waiting + 1, 1] = start + half, count - half
            todo[waiting + 2, 0], todo[waiting + 2, 1] = start, half
            waiting += 3
    return done[0]


@compiled
def _short_total(row: Any) -> float:
    whole = row.size - row.size % 8
    total = 0.0
    if whole:
        a, b, c, d = np.float64(row[0]), np.float64(row[1]), np.float64(row[2]), np.float64(row[3])
        e, f, g, h = np.float64(row[4]), np.float64(row[5]), np.float64(row[6]), np.float64(row[7])
        for at in range(8, whole, 8):
            a += np.float64(row[at])
            b += np.float64(row[at + 1])
            c += np.float64(row[at + 2])
            d += np.float64(row[at + 3])
            e += np.float64(row[at + 4])
            f += np.float64(row[at + 5])
            g += np.float64(row[at + 6])
            h += np.float64(row[at + 7])
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for at in range(whole, row.size):
        total += np.float64(row[at])
    return total
