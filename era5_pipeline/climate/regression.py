"""Least squares over years whose residuals are autocorrelated: coefficients, 95 % intervals, p-values.

The coefficient is that of ordinary least squares. How uncertain it is depends on the lag-1 autocorrelation r of the
residuals, which a few decades determine badly: with an estimate in its place, intervals are too narrow. So every r of
a grid counts, weighted by the restricted likelihood of the residuals (Harville 1974, doi:10.1093/biomet/61.2.383), and
the interval is that of the mixture of Student's t distributions. With the covariance r^|i - j| of the years i and j
that are there, missing years need no rule of their own.

The simulation in benchmarks/coverage.py measures how often such intervals contain the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

# Named in JSON, files and the table weather_trend. The version rises with every change of the numbers; 1 was Santer et
# al. (2000).
METHOD = "least squares, AR(1) residuals, version 2"
CONFIDENCE = 0.95
# Each as likely as the next before the residuals are seen. Without negative ones, the intervals of 20 independent years
# contain the truth in 99 % of cases instead of 97 %.
_LAG1 = np.arange(-0.55, 1.0, 0.1)
# Values within this of each other, relative to the largest, differ by the rounding of float32.
_NOISE = 4 * float(np.finfo(np.float32).eps)
_MOST_STEPS = 40
_PRECISION = 1e-7
# Patterns of missing years whose matrices are kept: 1 MB each for 85 years.
_PATTERNS = 64


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The last coefficient of n regressions, all (n,): NaN where there is none.

    `half_widths` are those of the 95 % intervals. `p` is two-sided, below 0.05 where the interval excludes zero. `lag1`
    is the mean autocorrelation of the residuals, `effective` the number of independent years that would determine the
    coefficient as well, and `counts` that of the years with a value. Of constant values, the coefficient is 0 without
    interval and p.
    """

    values: FloatArray
    half_widths: FloatArray
    p: FloatArray
    lag1: FloatArray
    effective: FloatArray
    counts: npt.NDArray[np.int64]


def last_coefficient(
    years: FloatArray, regressors: FloatArray, values: FloatArray, *, fewest: int, offset: float = 0.0
) -> Coefficients:
    """Regress values (k, n) of k years on a constant and `regressors` (k, q), and return the coefficients of the last.

    A missing value is NaN. With fewer than `fewest` years, or a regressor that is the same in all of them, there is no
    coefficient. `offset` is what was subtracted from
    the float32 values that were stored, such as 273.15 of degC: their rounding is relative to these.
    """
    held = np.isfinite(values)
    counts = held.sum(axis=0)
    found = np.full((5, values.shape[1]), np.nan)
    for pattern, where in _patterns(held):
        if pattern.size < max(fewest, regressors.shape[1] + 2) or not np.ptp(regressors[pattern], axis=0).all():
            continue
        design = _design(years[pattern].tobytes(), regressors[pattern].tobytes(), regressors.shape[1])
        found[:, where] = _of_pattern(design, values[np.ix_(pattern, where)], offset)
    coefficients, half_widths, p, lag1, effective = found
    return Coefficients(coefficients, half_widths, p, lag1, effective, counts)


def _patterns(held: npt.NDArray[np.bool_]) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """The years that are there, and the series that have just these, for each combination of years."""
    if not held.shape[1]:
        return []
    if (held == held[:, :1]).all():
        return [(np.flatnonzero(held[:, 0]), np.arange(held.shape[1]))]
    found, which = np.unique(np.packbits(held, axis=0), axis=1, return_inverse=True)
    order = np.argsort(which, kind="stable")
    series = np.split(order, np.cumsum(np.bincount(which, minlength=found.shape[1]))[:-1])
    return [(np.flatnonzero(held[:, one[0]]), one) for one in series]


@dataclass(frozen=True, eq=False)
class _Design:
    """Matrices and constants of a regression that do not depend on its values: n years, p coefficients, m correlations.

    `to_coefficient` (n,) and `to_residuals` (n, n) are applied to values. `weights` (m, n, n) give the residuals' sums
    of squares, weighted by the inverse covariance; `log_determinants` (m,) complete the restricted likelihood.
    `variances` (m,) of the coefficient are relative to the sum of squared residuals, with `freedom` (m,) degrees
    (Satterthwaite).
    """

    coefficients: int
    to_coefficient: FloatArray
    to_residuals: FloatArray
    weights: FloatArray
    log_determinants: FloatArray
    variances: FloatArray
    freedom: FloatArray


@lru_cache(maxsize=_PATTERNS)
def _design(years: bytes, regressors: bytes, count: int) -> _Design:
    times = np.frombuffer(years)
    columns = np.frombuffer(regressors).reshape(times.size, count)
    centred = columns - columns.mean(axis=0)
    matrix = np.column_stack([np.ones(times.size), centred / np.abs(centred).max(axis=0)])
    pseudo_inverse = np.linalg.pinv(matrix)
    to_coefficient = pseudo_inverse[-1] / np.abs(centred[:, -1]).max()
    to_residuals = np.eye(times.size) - matrix @ pseudo_inverse
    lags = np.abs(times[:, np.newaxis] - times)
    weights, log_determinants, variances, freedom = [], [], [], []
    for lag1 in _LAG1:
        # A negative number has a power for whole lags only, which these are.
        covariance = np.sign(lag1) ** lags * np.abs(lag1) ** lags
        inverse = np.linalg.inv(covariance)
        information = matrix.T @ inverse @ matrix
        weights.append(inverse - inverse @ matrix @ np.linalg.solve(information, matrix.T @ inverse))
        log_determinants.append(np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(information)[1])
        of_residuals = to_residuals @ covariance
        trace = np.trace(of_residuals)
        variances.append(to_coefficient @ covariance @ to_coefficient / trace)
        freedom.append(trace**2 / (of_residuals * of_residuals.T).sum())
    stacked = (np.asarray(each) for each in (weights, log_determinants, variances, freedom))
    return _Design(count + 1, to_coefficient, to_residuals, *stacked)


def _of_pattern(design: _Design, values: FloatArray, offset: float) -> FloatArray:
    """The coefficients of values (k, n) without NaN: five rows (n,), in the order of `Coefficients`."""
    count, n = values.shape
    largest = np.abs(values + offset).max(axis=0)
    is_constant = np.ptp(values, axis=0) <= _NOISE * largest
    coefficient = design.to_coefficient @ values
    residuals = design.to_residuals @ values
    squares = (residuals**2).sum(axis=0)
    is_exact = ~is_constant & (squares <= count * (_NOISE * largest) ** 2)
    freedom = count - design.coefficients
    with np.errstate(divide="ignore", invalid="ignore"):
        weighted = np.stack([((one @ residuals) * residuals).sum(axis=0) / squares for one in design.weights])
        logs = -(design.log_determinants[:, np.newaxis] + freedom * np.log(weighted)) / 2.0
        shares = np.exp(logs - logs.max(axis=0))
        shares /= shares.sum(axis=0)
    found = np.full((5, n), np.nan)
    usual = ~(is_constant | is_exact)
    shares, root = shares[:, usual], np.sqrt(squares[usual])
    found[0] = np.where(is_constant, 0.0, coefficient)
    found[1, usual] = root * _half_widths(design, shares)
    found[2, usual] = _p(design, shares, np.abs(coefficient[usual]) / root)
    found[3, usual] = _LAG1 @ shares
    independent = design.to_coefficient @ design.to_coefficient / (design.variances @ shares)
    found[4, usual] = np.minimum(design.coefficients + independent, count)
    found[1:, is_exact] = np.array([[0.0], [0.0], [0.0], [count]])
    return found


def _p(design: _Design, shares: FloatArray, sizes: FloatArray) -> FloatArray:
    """The probability of a coefficient of at least this size (n,), for residuals whose squares sum to one."""
    from scipy import special  # noqa: PLC0415  # takes half a second; only answers with trends need it

    found = np.zeros(sizes.size)
    for share, variance, freedom in zip(shares, design.variances, design.freedom, strict=True):
        found += share * 2.0 * special.stdtr(freedom, -sizes / np.sqrt(variance))
    return found


def _half_widths(design: _Design, shares: FloatArray) -> FloatArray:
    """The size (n,) of the coefficient whose `_p` is 5 %, by Newton's steps within bounds that close in."""
    from scipy import special  # noqa: PLC0415

    errors, freedom = np.sqrt(design.variances), design.freedom
    of_each = special.stdtrit(freedom, (1.0 + CONFIDENCE) / 2.0) * errors
    low, high = np.full(shares.shape[1], of_each.min()), np.full(shares.shape[1], of_each.max())
    sizes = of_each @ shares
    for _ in range(_MOST_STEPS):
        beyond = _p(design, shares, sizes) - (1.0 - CONFIDENCE)
        low, high = np.where(beyond > 0.0, sizes, low), np.where(beyond > 0.0, high, sizes)
        slope = np.zeros(sizes.size)
        for share, error, degrees in zip(shares, errors, freedom, strict=True):
            density = np.exp(
                special.gammaln((degrees + 1.0) / 2.0)
                - special.gammaln(degrees / 2.0)
                - (degrees + 1.0) / 2.0 * np.log1p((sizes / error) ** 2 / degrees)
            ) / np.sqrt(degrees * np.pi)
            slope += share * 2.0 * density / error
        stepped = sizes + beyond / slope
        following = np.where((stepped > low) & (stepped < high), stepped, (low + high) / 2.0)
        if (np.abs(following - sizes) <= _PRECISION * sizes).all():
            return following
        sizes = following
    return sizes
