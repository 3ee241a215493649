"""How often the interval of a trend contains the truth: series without one, of years that resemble their neighbours."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.cells import Entries, Laps, Measured, PlannedCell, median_of
from benchmarks.suite import BenchContext, Suite, disk
from era5_pipeline.climate.trends import FEWEST_YEARS, trends_of_years

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

LENGTHS = (20, 30, 50, 85)
MISSING = ("none", "three of ten", "every second")
LAG1 = (0.0, 0.3, 0.6)
# Different ones for as many parts of the series.
_PATTERNS = 10
_SEED = 2026


def _years(count: int, missing: str, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """The years (count,) that are there, from 0 on."""
    if missing == "none":
        return np.arange(count)
    if missing == "every second":
        return np.arange(0, 2 * count, 2)
    span = round(count / 0.7)
    return np.concatenate([[0], np.sort(random.choice(np.arange(1, span - 1), count - 2, replace=False)), [span - 1]])


def _autocorrelated(lag1: float, years: int, series: int, random: np.random.Generator) -> FloatArray:
    """Stationary AR(1) series (years, series) of variance 1, without a trend."""
    values = random.standard_normal((years, series))
    for year in range(1, years):
        values[year] = lag1 * values[year - 1] + np.sqrt(1.0 - lag1**2) * values[year]
    return values


def _is_covered_by_estimate(values: FloatArray) -> npt.NDArray[np.bool_]:
    """Where the interval of Santer et al. (2000), by an estimate of the autocorrelation, contains 0: series (k, n)."""
    from scipy import special

    count = len(values)
    times = np.arange(count) - (count - 1) / 2.0
    slopes = times @ values / (times @ times)
    residuals = values - values.mean(axis=0) - np.outer(times, slopes)
    squares = (residuals**2).sum(axis=0)
    lag1 = np.maximum((residuals[:-1] * residuals[1:]).sum(axis=0) / squares, 0.0)
    effective = np.maximum(count * (1.0 - lag1) / (1.0 + lag1), 2.001)
    errors = np.sqrt(squares / (effective - 2.0) / (times @ times))
    found: npt.NDArray[np.bool_] = np.abs(slopes) <= special.stdtrit(effective - 2.0, 0.975) * errors
    return found


def _measure(count: int, missing: str, series: int) -> Measured:
    """For each autocorrelation, the shares of series with an interval, of these that contain 0, and that lie above."""
    from scipy import stats

    figures: dict[str, float] = {}
    clock = Laps()
    for lag1 in LAG1:
        random, found = np.random.default_rng(_SEED), Counter[str]()
        for number in range(_PATTERNS):
            years = _years(count, missing, random)
            size = series // _PATTERNS + (number < series % _PATTERNS)
            values = _autocorrelated(lag1, int(years[-1]) + 1, size, random)[years]
            trends = trends_of_years(years.astype(np.float64), values)
            has_interval = np.isfinite(trends.half_widths)
            found["given"] += int(has_interval.sum())
            found["coverage"] += int((np.abs(trends.values) <= trends.half_widths)[has_interval].sum())
            found["warmer"] += int((trends.values > trends.half_widths)[has_interval].sum())
            if missing == "none":
                found["estimate"] += int(_is_covered_by_estimate(values).sum())
                # Kendall's test takes years as independent.
                tests = (stats.kendalltau(np.arange(len(values)), one) for one in values.T)
                found["kendall"] += sum(bool(test.pvalue < 0.05) for test in tests)
        for name, number in found.items():
            figures[f"{name}_{lag1}"] = number / (found["given"] if name in ("coverage", "warmer") else series)
    return Measured(series, {"seconds": clock.lap(), **figures})


def _coverage_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each number of years and way of missing some; the rows are series."""
    assert min(LENGTHS) >= FEWEST_YEARS  # noqa: S101
    return [
        PlannedCell(
            f"{count} years, {missing} missing",
            context.rows,
            {"years": count, "missing": missing},
            partial(_measure, count, missing, context.rows),
        )
        for missing, count in product(MISSING, LENGTHS)
    ]


def _coverage_figures(entries: Entries) -> dict[str, float | None]:
    """The lowest and highest coverage of all cells, the fewest intervals, and the most series told to be warmer."""

    def of_all(what: str, choose: Callable[..., float | None]) -> float | None:
        found = (median_of(entries, name, f"{what}_{lag1}") for name in entries for lag1 in LAG1)
        return choose((value for value in found if value is not None), default=None)

    return {
        "lowest_coverage": of_all("coverage", min),
        "highest_coverage": of_all("coverage", max),
        "fewest_given": of_all("given", min),
        "most_told_warmer": of_all("warmer", max),
    }


COVERAGE = Suite(
    name="coverage",
    summary="intervals of trends, and how often they contain the truth",
    load="10,000 series without a trend",
    plan=_coverage_cells,
    rows=10_000,
    repeats=1,
    bytes=disk(0, 0),
    own_server=True,
    figures=_coverage_figures,
    at_least={"lowest_coverage": 0.93, "fewest_given": 0.5},
    at_most={"highest_coverage": 0.98, "most_told_warmer": 0.0375},
)
