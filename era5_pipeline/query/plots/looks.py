"""How each variable looks: title, unit, colours, and the range of values that a scale covers."""

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
INK, FAINT = "#1a1a1a", "#707070"


@dataclass(frozen=True)
class Look:
    """How a variable is drawn: title, unit, kind of colour scale and its colours, colour of lines."""

    title: str
    unit: str
    scale: Scale
    colours: str | tuple[str, ...]
    line: str


LOOKS = {
    "temperature_2m": Look("2 m temperature", "°C", "thermal", "RdBu_r", "#b2182b"),
    "zonal_wind_10m": Look("10 m wind, eastward", "m s⁻¹", "symmetric", "PuOr_r", "#b35806"),
    "meridional_wind_10m": Look("10 m wind, northward", "m s⁻¹", "symmetric", "PuOr_r", "#542788"),
    "total_cloud_cover": Look(
        title="Total cloud cover",
        unit="fraction",
        scale="fraction",
        colours=("#3f6490", "#7391b1", "#adc2d4", "#e0e7ee", "#ffffff"),
        line="#46698e",
    ),
    "total_precipitation": Look(
        title="Precipitation",
        unit="mm",
        scale="amount",
        colours=("#d9f0c8", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#5e3c99", "#b02a8f"),
        line="#1d6fa5",
    ),
    "snowfall": Look(
        title="Snowfall, water equivalent",
        unit="mm",
        scale="amount",
        colours=("#dfe5f2", "#b3cde3", "#8c96c6", "#8856a7", "#9e1f86", "#e7298a", "#f7a1c4"),
        line="#6f4a9b",
    ),
}


def look_of(variable: Variable) -> Look:
    """The look of a variable; one without an entry has its own description and unit, and plain colours."""
    plain = Look(variable.description, variable.unit, "plain", "viridis", "#2f4b7c")
    return LOOKS.get(variable.column, plain)


# Where all values lie on one side of freezing, a scale about 0 would use half of its colours.
_ABOVE_FREEZING, _BELOW_FREEZING = "YlOrRd", "YlGnBu_r"
# A colormap's ends are too dark for coastlines to show on them.
_BRIGHTER = (0.07, 0.93)
# Steps of an hourly amount in mm, each with its own colour on every map. The first, white, counts as dry.
_AMOUNTS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_FEWEST_AMOUNTS = 5


def colours_of(variable: Variable, values: FloatArray) -> tuple[Colormap, Normalize]:
    """Choose colours, and a range of values (of any shape) beyond which a few outliers may lie."""
    look = look_of(variable)
    found = values[np.isfinite(values)]
    if not found.size:
        found = np.zeros(1, dtype=np.float32)
    match look.scale:
        case "plain":
            low, high = (float(value) for value in np.percentile(found, (0.2, 99.8)))
            edges = ticker.MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
            return _colormap(look.colours), Normalize(float(edges[0]), float(edges[-1]))
        case "fraction":
            return _colormap(look.colours), Normalize(0.0, 1.0)
        case "amount":
            return _amount_colours(look, float(found.max()))
        case "symmetric":
            limit = _round_limit(float(np.percentile(np.abs(found), 99.8)))
            return _colormap(look.colours), Normalize(-limit, limit)
        case "thermal":
            low, high = (float(value) for value in np.percentile(found, (0.2, 99.8)))
            if min(-low, high) > 0.1 * (high - low):
                limit = _round_limit(max(-low, high))
                return _colormap(look.colours), Normalize(-limit, limit)
            low, high = _round_range(low, high)
            return _colormap(_ABOVE_FREEZING if low + high > 0.0 else _BELOW_FREEZING), Normalize(low, high)


def _colormap(colours: str | tuple[str, ...]) -> Colormap:
    if isinstance(colours, str):
        return ListedColormap(mpl.colormaps[colours](np.linspace(*_BRIGHTER, 256)))
    return LinearSegmentedColormap.from_list("look", colours)


def _amount_colours(look: Look, top: float) -> tuple[Colormap, Normalize]:
    """Choose white for dry and then one colour per step, as many steps as `top` (mm) needs."""
    all_colours = _colormap(look.colours)(np.linspace(0.0, 1.0, len(_AMOUNTS) - 1))
    count = next((n for n in range(_FEWEST_AMOUNTS, len(_AMOUNTS)) if _AMOUNTS[n - 1] >= top), len(_AMOUNTS))
    drawn = ListedColormap([(1.0, 1.0, 1.0, 1.0), *all_colours[: count - 2]])
    # Packed files dip below zero by half a step.
    extremes = drawn.with_extremes(under="white", over=tuple(all_colours[-1]))
    return extremes, BoundaryNorm(_AMOUNTS[:count], count - 1)


def _round_limit(limit: float) -> float:
    return _round_range(0.0, max(limit, 1.0))[1]


def _round_range(low: float, high: float) -> tuple[float, float]:
    """Widen a range to round numbers, and to 1 at least."""
    edges = ticker.MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(*widened(low, high, 1.0))
    return float(edges[0]), float(edges[-1])


def widened(low: float, high: float, length: float) -> tuple[float, float]:
    """Widen a range on both sides to at least `length`."""
    extra = max(length - (high - low), 0.0) / 2
    return low - extra, high + extra
