"""The linear trend of yearly values: over the whole record and since 1979, at one place or at many.

A trend is the slope of ordinary least squares, with the interval of `climate.regression`. Theil-Sen's slope is given
too, since single extreme years hardly change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.climate.answer import NoTrend, QuantityTrends, Trend, YearSpan, complete_values
from era5_pipeline.climate.regression import Coefficients, last_coefficient

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt
    import pandas as pd

    from era5_pipeline.climate.answer import YearlyQuantity

    FloatArray = npt.NDArray[np.float64]

# WMO defines climate as a mean over 30 years; a trend over less than 20 says more about single years than about
# climate.
FEWEST_YEARS = 20
# From this year on satellites are assimilated throughout.
SATELLITE_YEAR = 1979
YEARS_PER_DECADE = 10.0
FALSE_DISCOVERY_RATE = 0.10
# Stored values are in kelvin and rounded as such.
_OFFSETS = {"degC": 273.15}


def trends_of(yearly: pd.DataFrame, quantities: tuple[YearlyQuantity, ...]) -> tuple[QuantityTrends, ...]:
    """The trends of those of these quantities that can have one, over the years of the table complete for it."""
    found = []
    for quantity in quantities:
        if not quantity.has_trend:
            continue
        values = complete_values(yearly, quantity).dropna()
        since = values[values.index >= SATELLITE_YEAR]
        whole = trend_of(values, quantity.unit)
        curvature = curvature_p(values) if isinstance(whole, Trend) else None
        found.append(QuantityTrends(quantity, whole, trend_of(since, quantity.unit), curvature))
    return tuple(found)


def trend_of(values: pd.Series, unit: str = "") -> Trend | NoTrend:
    """The trend of values (n,) in `unit` by year, ascending, without NaN; years may be missing."""
    from scipy import stats  # noqa: PLC0415  # takes half a second; only answers with trends need it

    count = len(values)
    if count < FEWEST_YEARS:
        which = f" ({describe_years(values.index.tolist())})" if count else ""
        return NoTrend(
            f"{count or 'no'} complete year{'' if count == 1 else 's'}{which}: a trend needs at least {FEWEST_YEARS}"
        )
    years, numbers = values.index.to_numpy(dtype=np.float64), values.to_numpy(dtype=np.float64)
    found = trends_of_years(years, numbers[:, np.newaxis], unit)
    slope, half, p, lag1, effective = (
        float(one[0]) for one in (found.values, found.half_widths, found.p, found.lag1, found.effective)
    )
    if np.isnan(half):
        return NoTrend(f"the same in every year: {numbers[0]:g}")
    return Trend(
        years=YearSpan(int(years[0]), int(years[-1])),
        count=count,
        slope=slope,
        low=slope - half,
        high=slope + half,
        p=p,
        lag1=lag1,
        effective_count=effective,
        theil_sen=float(stats.theilslopes(numbers, years).slope) * YEARS_PER_DECADE,
    )


def trends_of_years(years: FloatArray, values: FloatArray, unit: str = "") -> Coefficients:
    """The trends per decade of n series, from values (k, n) in `unit` of k years; an incomplete year is NaN.

    NaN where fewer than `FEWEST_YEARS` are complete.
    """
    decades = (years - years.mean()) / YEARS_PER_DECADE
    return last_coefficient(years, decades[:, np.newaxis], values, fewest=FEWEST_YEARS, offset=_OFFSETS.get(unit, 0.0))


def significant_in_field(p: FloatArray) -> npt.NDArray[np.bool_]:
    """Where trends at many places (n,) are significant together, from their p-values; NaN is not.

    Of places without any trend, one in twenty has p < 0.05, and neighbours have it together. So the false discovery
    rate is controlled: at most 10 % of the places that are named, which suits fields of neighbours that resemble each
    other (Wilks 2016, doi:10.1175/BAMS-D-15-00267.1).
    """
    from scipy import stats  # noqa: PLC0415

    known = np.isfinite(p)
    found = np.zeros(p.shape, dtype=np.bool_)
    if known.any():
        found[known] = stats.false_discovery_control(p[known], method="bh") <= FALSE_DISCOVERY_RATE
    return found


def curvature_p(values: pd.Series) -> float:
    """The p-value of a parabola's curvature in values (n,) by year, without NaN: small if no line describes them."""
    years = values.index.to_numpy(dtype=np.float64)
    decades = (years - years.mean()) / YEARS_PER_DECADE
    found = last_coefficient(
        years,
        np.column_stack([decades, decades**2]),
        values.to_numpy(dtype=np.float64)[:, np.newaxis],
        fewest=FEWEST_YEARS,
    )
    return float(found.p[0])


def describe_years(years: Iterable[int], to: str = "-") -> str:
    """Describe ascending years as spans: `1940-1950, 1952`."""
    runs: list[list[int]] = []
    for year in years:
        if runs and year == runs[-1][1] + 1:
            runs[-1][1] = year
        else:
            runs.append([year, year])
    return ", ".join(f"{first}" if first == last else f"{first}{to}{last}" for first, last in runs)
