"""What pictures of years draw: values of complete years, what they are compared with, and numbers as labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.climate.quantities import BY_QUANTITY
from era5_pipeline.query.plots.variable_styles import unit_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer, Trend

    FloatArray = npt.NDArray[np.float64]

# What `TrendLine` has between its edges.
BAND_WORDS = "95 % confidence band of the fitted mean"


@dataclass(frozen=True, eq=False)
class DrawnYears:
    """Every year from the first to the last of the record, (k,), and one value each: NaN where a year is incomplete.

    The incomplete years at either end are left out.
    """

    years: npt.NDArray[np.int64]
    values: FloatArray

    @property
    def count(self) -> int:
        """How many years are complete."""
        return int(np.isfinite(self.values).sum())

    @property
    def mean(self) -> float:
        """The mean of the complete years."""
        return float(np.nanmean(self.values))

    def within(self, first: int, last: int) -> DrawnYears:
        """The years from `first` to `last`."""
        keep = (self.years >= first) & (self.years <= last)
        return DrawnYears(self.years[keep], self.values[keep])

    def pairs(self) -> list[tuple[int, float]]:
        """The complete years with their values."""
        return [
            (int(year), float(value)) for year, value in zip(self.years, self.values, strict=True) if np.isfinite(value)
        ]


@dataclass(frozen=True)
class Reference:
    """What yearly temperatures are compared with: a mean (degC), and of which years it is."""

    value: float
    words: str


@dataclass(frozen=True, eq=False)
class TrendLine:
    """A trend as it is drawn: every year from its first to its last, (k,), the line, and the edges of its band."""

    years: FloatArray
    line: FloatArray
    low: FloatArray
    high: FloatArray


def complete_years(answer: ClimateAnswer, quantity: str) -> DrawnYears | None:
    """The values of a yearly quantity in complete years; None if there is no complete year, or no such quantity."""
    if quantity not in answer.yearly.columns:
        return None
    element = BY_QUANTITY[quantity].element
    values = answer.yearly[quantity].where(answer.yearly[f"{element}_complete"].astype(bool))
    there = values.dropna()
    if there.empty:
        return None
    years = np.arange(int(there.index[0]), int(there.index[-1]) + 1)
    return DrawnYears(years, values.reindex(years).to_numpy(dtype=np.float64))


def reference_of(answer: ClimateAnswer, means: DrawnYears) -> Reference:
    """The mean of the baseline; of all complete years, if the baseline has too few of them."""
    if answer.baseline.is_used:
        # The record may begin after the baseline: the anomalies know its mean.
        normal = answer.yearly["mean_temperature"] - answer.yearly["temperature_anomaly"]
        span = answer.baseline.years
        return Reference(float(normal.mean()), f"{span.first}\u2013{span.last}")
    first, last = means.pairs()[0][0], means.pairs()[-1][0]
    years = f"{first}" if first == last else f"{first}\u2013{last}"
    return Reference(means.mean, f"the complete years {years}")


def trend_line(means: DrawnYears, trend: Trend) -> TrendLine:
    """The line of a trend, and the 95 % confidence band of the mean that it gives for each year.

    The band rests on the same variance of the residuals, the same quantile and the same effective number of years as
    the interval of the slope, so that its distance from the line is, x years from the middle of n effective years,
    that of the slope's interval times sqrt(sum of squares / n + x^2).
    """
    within = means.within(trend.years.first, trend.years.last)
    complete = within.years[np.isfinite(within.values)].astype(np.float64)
    from_middle = (within.years - complete.mean()) / 10.0
    squares = float((((complete - complete.mean()) / 10.0) ** 2).sum())
    line = within.mean + trend.slope * from_middle
    half = (trend.high - trend.slope) * np.sqrt(squares / trend.effective_count + from_middle**2)
    return TrendLine(within.years.astype(np.float64), line, line - half, line + half)


def signed(value: float, decimals: int = 2) -> str:
    """A difference with its sign: `+0.20`, `\u22120.04`."""
    text = f"{value:+.{decimals}f}".replace("-", "\u2212")
    return text[1:] if float(f"{value:.{decimals}f}") == 0.0 else text


def unit_of(quantity: str) -> str:
    """The unit of a yearly quantity as a label."""
    return unit_text(BY_QUANTITY[quantity].unit)
