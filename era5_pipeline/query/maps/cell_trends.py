"""Trends of many locations at once, by the definition of `query.climate.trends`.

Ordinary least squares over the complete years; significant if the 95 % interval, widened for the lag-1 autocorrelation
of the residuals (Santer et al. 2000), leaves out zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.climate.trends import FEWEST_YEARS

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.query.maps.yearly_cells import YearlyCells

    FloatArray = npt.NDArray[np.float64]

# Locations at a time: 30 years of them are 16 MB.
_BLOCK = 65_536
_YEARS_PER_DECADE = 10.0
# Two-sided, 95 %.
_QUANTILE = 0.975
# With no more effective years than this, there is no variance of residuals.
_FEWEST_EFFECTIVE = 3.0


@dataclass(frozen=True, eq=False)
class CellTrends:
    """Slopes (n,) per decade, NaN where there is no trend; `significant` (n,); the complete years of each, (n,)."""

    slopes: FloatArray
    significant: npt.NDArray[np.bool_]
    years: npt.NDArray[np.int64]


def trends_of_cells(cells: YearlyCells) -> CellTrends:
    """The trend of each location that has enough complete years; of values that never change it is zero."""
    years = np.asarray(cells.years, dtype=np.float64)
    starts = range(0, cells.location_ids.size, _BLOCK)
    found = [_trends(years, cells.block(slice(start, start + _BLOCK))) for start in starts]
    if not found:
        return CellTrends(np.empty(0), np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.int64))
    return CellTrends(
        np.concatenate([one.slopes for one in found]),
        np.concatenate([one.significant for one in found]),
        np.concatenate([one.years for one in found]),
    )


def _trends(years: FloatArray, values: FloatArray) -> CellTrends:
    """Compute the trend of each place from values (k, n) of k consecutive years; an incomplete year is NaN."""
    from scipy import special  # noqa: PLC0415  # half a second, which other maps do without

    held = np.isfinite(values)
    count = held.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        time = np.where(held, years[:, np.newaxis], 0.0)
        time = np.where(held, time - time.sum(axis=0) / count, 0.0)
        value = np.where(held, values, 0.0)
        value = np.where(held, value - value.sum(axis=0) / count, 0.0)
        squares = (time**2).sum(axis=0)
        slope = (time * value).sum(axis=0) / squares
        residuals = np.where(held, value - slope * time, 0.0)
        total = (residuals**2).sum(axis=0)
        # A year that lacks has the residual 0, so that only pairs of consecutive years count.
        lag1 = np.where(total > 0.0, (residuals[:-1] * residuals[1:]).sum(axis=0) / total, 0.0)
        lag1 = np.maximum(lag1, 0.0)
        effective = count * (1.0 - lag1) / (1.0 + lag1)
        error = np.sqrt(total / (effective - 2.0) / squares)
        half = special.stdtrit(effective - 2.0, _QUANTILE) * error
        is_constant = np.where(held, values, -np.inf).max(axis=0) == np.where(held, values, np.inf).min(axis=0)
        slope = np.where(is_constant, 0.0, slope)
        known = (count >= FEWEST_YEARS) & (is_constant | (effective > _FEWEST_EFFECTIVE))
        significant = known & ~is_constant & (np.abs(slope) > half)
    return CellTrends(np.where(known, slope * _YEARS_PER_DECADE, np.nan), significant, count)
