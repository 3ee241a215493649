"""How each variable is drawn: title, unit, colours, and the range of its colour scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import matplotlib as mpl
import numpy as np
from matplotlib import ticker
from matplotlib.colors import BoundaryNorm, Colormap, LinearSegmentedColormap, ListedColormap, Normalize

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    FloatArray = npt.NDArray[np.float32]

Scale = Literal["thermal", "symmetric", "fraction", "amount", "plain"]

NO_DATA = "#e4e4e4"
NO_DATA_ON_LAND = "#cbc9c4"
INK, FAINT = "#1a1a1a", "#707070"


@dataclass(frozen=True)
class VariableStyle:
    """Title, unit, kind of colour scale, colours of the scale, and colour of lines."""

    title: str
    unit: str
    scale: Scale
    colours: str | tuple[str, ...]
    line: str


STYLES = {
    "temperature_2m": VariableStyle("2 m temperature", "°C", "thermal", "RdBu_r", "#b2182b"),
    "zonal_wind_10m": VariableStyle("10 m wind, eastward", "m s⁻¹", "symmetric", "PuOr_r", "#b35806"),
    "meridional_wind_10m": VariableStyle("10 m wind, northward", "m s⁻¹", "symmetric", "PuOr_r", "#542788"),
    "total_cloud_cover": VariableStyle(
        title="Total cloud cover",
        unit="fraction",
        scale="fraction",
        colours=("#3f6490", "#7391b1", "#adc2d4", "#e0e7ee", "#ffffff"),
        line="#46698e",
    ),
    "total_precipitation": VariableStyle(
        title="Precipitation",
        unit="mm",
        scale="amount",
        colours=("#d9f0c8", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#5e3c99", "#b02a8f"),
        line="#1d6fa5",
    ),
    "snowfall": VariableStyle(
        title="Snowfall, water equivalent",
        unit="mm",
        scale="amount",
        colours=("#dfe5f2", "#b3cde3", "#8c96c6", "#8856a7", "#9e1f86", "#e7298a", "#f7a1c4"),
        line="#6f4a9b",
    ),
}


def style_of(variable: Variable) -> VariableStyle:
    """The style of a variable; one without an entry has its own description and unit, and plain colours."""
    plain = VariableStyle(variable.description, variable.unit, "plain", "viridis", "#2f4b7c")
    return STYLES.get(variable.column, plain)


# If all values are on one side of freezing, a scale centred on 0 would use only half of its colours.
_ABOVE_FREEZING, _BELOW_FREEZING = "YlOrRd", "YlGnBu_r"
# The ends of the colormap are left out: coastlines are not visible on such dark colours.
_BRIGHTER = (0.07, 0.93)
# Steps of an hourly amount in mm, with the same colour on every map. The first step is drawn white, as dry.
_AMOUNTS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_FEWEST_AMOUNTS = 5


def colour_scale(variable: Variable, values: FloatArray) -> tuple[Colormap, Normalize]:
    """Colours and value range for `values` (of any shape); a few outliers may lie outside the range."""
    style = style_of(variable)
    found = values[np.isfinite(values)]
    if not found.size:
        found = np.zeros(1, dtype=np.float32)
    match style.scale:
        case "plain":
            low, high = (float(value) for value in np.percentile(found, (0.2, 99.8)))
            edges = ticker.MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            return _colormap(style.colours), Normalize(float(edges[0]), float(edges[-1]))
        case "fraction":
            return _colormap(style.colours), Normalize(0.0, 1.0)
        case "amount":
            return _amount_colours(style, float(found.max()))
        case "symmetric":
            limit = _round_limit(float(np.percentile(np.abs(found), 99.8)))
            return _colormap(style.colours), Normalize(-limit, limit)
        case "thermal":
            low, high = (float(value) for value in np.percentile(found, (0.2, 99.8)))
            if min(-low, high) > 0.1 * (high - low):
                limit = _round_limit(max(-low, high))
                return _colormap(style.colours), Normalize(-limit, limit)
            low, high = _round_range(low, high)
            return _colormap(_ABOVE_FREEZING if low + high > 0.0 else _BELOW_FREEZING), Normalize(low, high)


def _colormap(colours: str | tuple[str, ...]) -> Colormap:
    if isinstance(colours, str):
        return ListedColormap(mpl.colormaps[colours](np.linspace(*_BRIGHTER, 256)))
    return LinearSegmentedColormap.from_list("style", colours)


def _amount_colours(style: VariableStyle, top: float) -> tuple[Colormap, Normalize]:
    """White for dry, then one colour per step, up to the step that contains `top` (mm)."""
    all_colours = _colormap(style.colours)(np.linspace(0.0, 1.0, len(_AMOUNTS) - 1))
    count = next((n for n in range(_FEWEST_AMOUNTS, len(_AMOUNTS)) if _AMOUNTS[n - 1] >= top), len(_AMOUNTS))
    drawn = ListedColormap([(1.0, 1.0, 1.0, 1.0), *all_colours[: count - 2]])
    # Values of packed files may be below zero by half a packing step.
    extremes = drawn.with_extremes(under="white", over=tuple(all_colours[-1]))
    return extremes, BoundaryNorm(_AMOUNTS[:count], count - 1)


def _round_limit(limit: float) -> float:
    return _round_range(0.0, max(limit, 1.0))[1]


def _round_range(low: float, high: float) -> tuple[float, float]:
    """Widen a range to round numbers, and to a length of at least 1."""
    edges = ticker.MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(*widened(low, high, 1.0))
    return float(edges[0]), float(edges[-1])


def widened(low: float, high: float, length: float) -> tuple[float, float]:
    """A range, widened on both sides to at least `length`."""
    extra = max(length - (high - low), 0.0) / 2
    return low - extra, high + extra
