"""The linear trend of yearly values, with an interval that allows for autocorrelation.

The headline is ordinary least squares whose 95 % interval is widened for the lag-1 autocorrelation of the residuals,
as in Santer et al. (2000), doi:10.1029/1999JD901105: the residuals count as fewer independent values. Theil-Sen's slope
and Kendall's test are given too, since they do not assume a normal distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.climate.answer import NoTrend, QuantityTrends, Trend, YearSpan, complete_values

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
_CONFIDENCE = 0.95
_YEARS_PER_DECADE = 10.0


def trends_of(yearly: pd.DataFrame, quantities: tuple[YearlyQuantity, ...]) -> tuple[QuantityTrends, ...]:
    """The trends of those of these quantities that can have one, over the years of the table complete for it."""
    found = []
    for quantity in quantities:
        if not quantity.has_trend:
            continue
        values = complete_values(yearly, quantity).dropna()
        since = values[values.index >= SATELLITE_YEAR]
        found.append(QuantityTrends(quantity, trend_of(values), trend_of(since)))
    return tuple(found)


def trend_of(values: pd.Series) -> Trend | NoTrend:
    """The trend of values (n,) by year, ascending, without NaN; years may be missing."""
    from scipy import stats  # noqa: PLC0415  # takes half a second; only answers with trends need it

    count = len(values)
    if count < FEWEST_YEARS:
        which = f" ({describe_years(values.index.tolist())})" if count else ""
        return NoTrend(
            f"{count or 'no'} complete year{'' if count == 1 else 's'}{which}: a trend needs at least {FEWEST_YEARS}"
        )
    years, numbers = values.index.to_numpy(dtype=np.float64), values.to_numpy(dtype=np.float64)
    if np.ptp(numbers) == 0:
        return NoTrend(f"the same in every year: {numbers[0]:g}")
    slope, residuals = _least_squares(years, numbers)
    lag1 = _lag1(years, residuals)
    effective = count * (1 - lag1) / (1 + lag1)
    if effective <= 3:
        return NoTrend(
            f"each year depends so much on the one before (lag-1 autocorrelation {lag1:.2f}) that {count} years count "
            f"as {effective:.1f}"
        )
    error = np.sqrt((residuals**2).sum() / (effective - 2) / ((years - years.mean()) ** 2).sum())
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, effective - 2) * error)
    robust = stats.theilslopes(numbers, years, alpha=_CONFIDENCE)
    kendall = stats.kendalltau(years, numbers)
    of_decade = _YEARS_PER_DECADE
    return Trend(
        years=YearSpan(int(years[0]), int(years[-1])),
        count=count,
        slope=slope * of_decade,
        low=(slope - half) * of_decade,
        high=(slope + half) * of_decade,
        lag1=lag1,
        effective_count=effective,
        theil_sen=float(robust.slope) * of_decade,
        theil_sen_low=float(robust.low_slope) * of_decade,
        theil_sen_high=float(robust.high_slope) * of_decade,
        kendall_tau=float(kendall.statistic),
        kendall_p=float(kendall.pvalue),
    )


def describe_years(years: Iterable[int], to: str = "-") -> str:
    """Describe ascending years as spans: `1940-1950, 1952`."""
    runs: list[list[int]] = []
    for year in years:
        if runs and year == runs[-1][1] + 1:
            runs[-1][1] = year
        else:
            runs.append([year, year])
    return ", ".join(f"{first}" if first == last else f"{first}{to}{last}" for first, last in runs)


def _least_squares(years: FloatArray, values: FloatArray) -> tuple[float, FloatArray]:
    """Slope per year, and residuals (n,)."""
    centred = years - years.mean()
    slope = float((centred * values).sum() / (centred**2).sum())
    return slope, values - values.mean() - slope * centred


def _lag1(years: FloatArray, residuals: FloatArray) -> float:
    """The lag-1 autocorrelation of the residuals, over pairs of consecutive years; a negative one counts as 0.

    A negative one would make the interval narrower than without any, on the evidence of a few years.
    """
    total = float((residuals**2).sum())
    pairs = np.diff(years) == 1
    together = float((residuals[:-1] * residuals[1:])[pairs].sum())
    return max(together / total, 0.0) if total else 0.0
