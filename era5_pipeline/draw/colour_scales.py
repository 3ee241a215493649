"""Colours and value range of a map, from its values or as requested.

The kind of scale and the colours of each variable are in `maps/styles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib import ticker
from matplotlib.colors import BoundaryNorm, Colormap, LinearSegmentedColormap, ListedColormap, Normalize

from era5_pipeline.maps.styles import VariableStyle, difference_style, is_signed, style_of
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.maps.fields import Period
    from era5_pipeline.model.variables import Variable

    FloatArray = npt.NDArray[np.float32]

# The lower and the upper end of a range, in the table's unit; None: by the values.
Limits = tuple[float | None, float | None]
NO_LIMITS: Limits = (None, None)

# If all values are on one side of freezing, a scale centred on 0 would use only half of its colours.
_ABOVE_FREEZING, _BELOW_FREEZING = "YlOrRd", "YlGnBu_r"
# The ends of the colormap are left out, as coastlines are invisible on such dark colours.
_BRIGHTER = (0.07, 0.93)
# Steps of an amount in mm, by the period of the total, with the same colour on every map. The first step is white, for
# dry.
_AMOUNTS: dict[Period, tuple[float, ...]] = {
    "hour": (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
    "day": (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0, 500.0),
    "month": (0.0, 5.0, 10.0, 25.0, 50.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1000.0),
    "season": (0.0, 10.0, 25.0, 50.0, 100.0, 200.0, 300.0, 500.0, 750.0, 1000.0, 2000.0),
    "year": (0.0, 50.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 1500.0, 2000.0, 3000.0, 5000.0),
}
_FEWEST_AMOUNTS = 5
_ROUND = [1, 2, 2.5, 5, 10]
# Outliers beyond these percentiles may lie outside the range.
_USUAL = (0.2, 99.8)
# A shorter range is widened to this, by unit; for other units, to this share of the variable's bounds.
_SHORTEST = {"degC": 1.0, "m/s": 1.0, "mm": 0.1}
_SHORTEST_PART = 1e-3
# Differences and trends are smaller than values.
_SHORTEST_DIFFERENCE = 0.1


def colour_scale(
    variable: Variable,
    values: FloatArray,
    limits: Limits = NO_LIMITS,
    *,
    is_difference: bool = False,
    period: Period = "hour",
) -> tuple[Colormap, Normalize]:
    """Colours and value range for `values` (of any shape); a few outliers may lie outside the range.

    `is_difference`: the values are differences, with colours around zero. `period`: the period of totals.
    """
    style = difference_style(variable) if is_difference else style_of(variable)
    found = values[np.isfinite(values)]
    if not found.size:
        found = np.zeros(1, dtype=np.float32)
    shortest = _SHORTEST.get(variable.unit, _SHORTEST_PART * max(-variable.minimum, variable.maximum))
    shortest *= _SHORTEST_DIFFERENCE if is_difference else 1.0
    colours, norm = _automatic(variable, style, found, shortest, period)
    if limits == NO_LIMITS:
        return colours, norm
    low = float(norm.vmin or 0.0) if limits[0] is None else limits[0]
    high = float(norm.vmax or 0.0) if limits[1] is None else limits[1]
    if low >= high:
        asked, end = ("--vmin", "--vmax") if limits[1] is None else ("--vmax", "--vmin")
        value, other = (low, high) if limits[1] is None else (high, low)
        raise UsageError(
            f"{asked} {value:g} leaves no range: from the values, {end} would be {other:g} {variable.unit}",
            remedy=f"Give {end}, too.",
        )
    return _colours_for_range(style, low, high), Normalize(low, high)


def _automatic(
    variable: Variable, style: VariableStyle, found: FloatArray, shortest: float, period: Period
) -> tuple[Colormap, Normalize]:
    low, high = (float(value) for value in np.percentile(found, _USUAL))
    match style.scale:
        case "fraction":
            return _colormap(style.colours), Normalize(0.0, 1.0)
        case "amount":
            return _amount_colours(style, float(found.max()), _AMOUNTS[period])
        case "cyclic":
            return _colours_for_range(style, 0.0, 360.0), Normalize(0.0, 360.0)
        case "symmetric":
            limit = _round_end(float(np.percentile(np.abs(found), _USUAL[1])), shortest)
            return _colormap(style.colours), Normalize(-limit, limit)
        case "thermal" if min(-low, high) > 0.1 * (high - low):
            limit = _round_end(max(-low, high), shortest)
            return _colormap(style.colours), Normalize(-limit, limit)
        case "thermal":
            low, high = _round_range(low, high, shortest)
            return _colormap(_ABOVE_FREEZING if low + high > 0.0 else _BELOW_FREEZING), Normalize(low, high)
        case "plain":
            # A range that comes close to zero starts at zero, unless values can have either sign.
            if low + shortest >= 0.0 and low < 0.5 * high and not is_signed(variable) and variable.unit != "K":
                low, high = 0.0, _round_end(high, shortest)
            else:
                low, high = _round_range(low, high, shortest)
            return _colours_for_range(style, low, high), Normalize(low, high)


def _colours_for_range(style: VariableStyle, low: float, high: float) -> Colormap:
    """The colours of any range: zero in the middle of diverging colours, white for dry."""
    match style.scale:
        case "symmetric":
            return _around_zero(style.colours, low, high)
        case "thermal" if low < 0.0 < high:
            return _around_zero(style.colours, low, high)
        case "thermal":
            return _colormap(_ABOVE_FREEZING if low + high > 0.0 else _BELOW_FREEZING)
        case "amount" if not isinstance(style.colours, str):
            return _colormap(("#ffffff", *style.colours) if low <= 0.0 else style.colours)
        case _:
            return _colormap(style.colours)


def _around_zero(colours: str | tuple[str, ...], low: float, high: float) -> Colormap:
    """The part of a diverging colour map, centred at zero, that the values from `low` to `high` use."""
    limit = max(abs(low), abs(high))
    part = 0.5 + 0.5 * np.linspace(low, high, 256) / limit
    return ListedColormap(_colormap(colours)(part))


def _colormap(colours: str | tuple[str, ...]) -> Colormap:
    if isinstance(colours, str):
        return ListedColormap(mpl.colormaps[colours](np.linspace(*_BRIGHTER, 256)))
    return LinearSegmentedColormap.from_list("style", colours)


def _amount_colours(style: VariableStyle, top: float, steps: tuple[float, ...]) -> tuple[Colormap, Normalize]:
    """White for dry, then one colour per step, up to the step that contains `top` (mm)."""
    all_colours = _colormap(style.colours)(np.linspace(0.0, 1.0, len(steps) - 1))
    count = next((n for n in range(_FEWEST_AMOUNTS, len(steps)) if steps[n - 1] >= top), len(steps))
    drawn = ListedColormap([(1.0, 1.0, 1.0, 1.0), *all_colours[: count - 2]])
    # Values of packed files may be half a packing step below zero.
    extremes = drawn.with_extremes(under="white", over=tuple(all_colours[-1]))
    return extremes, BoundaryNorm(steps[:count], count - 1)


def _round_range(low: float, high: float, length: float) -> tuple[float, float]:
    """Widen a range to round numbers, and to this length at least."""
    edges = ticker.MaxNLocator(8, steps=_ROUND).tick_values(*widened(low, max(high, low), length))
    return float(edges[0]), float(edges[-1])


def _round_end(high: float, length: float) -> float:
    """The upper end of a range that starts at zero, of at least this length."""
    return _round_range(0.0, max(high, length), 0.0)[1]


def widened(low: float, high: float, length: float) -> tuple[float, float]:
    """A range, widened on both sides to at least `length`."""
    extra = max(length - (high - low), 0.0) / 2
    return low - extra, high + extra
