"""The colour bar of a map: its labels, the power of ten that they leave out, and pointed ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib import ticker
from matplotlib.colors import BoundaryNorm

from era5_pipeline.query.plots.variable_styles import INK, number_text, power_of

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    FloatArray = npt.NDArray[np.floating]

Extend = Literal["neither", "min", "max", "both"]


def draw_colour_bar(
    figure: Figure,
    image: AxesImage,
    values: FloatArray,
    axes: Axes,
    orientation: Literal["horizontal", "vertical"],
    label_size: float = 8,
) -> None:
    """Draw the colours of an image on axes of their own; the ends are pointed if `values` lie beyond them."""
    bar = figure.colorbar(image, cax=axes, orientation=orientation, extend=_extend(image, values))
    bar.outline.set_linewidth(0.5)
    axes.tick_params(which="both", labelsize=label_size, width=0.5, length=label_size / 3, pad=2, colors=INK)
    if isinstance(image.norm, BoundaryNorm):
        bar.set_ticks(list(image.norm.boundaries), labels=[f"{edge:g}" for edge in image.norm.boundaries])
        return
    power = power_of_bar(image)
    bar.formatter = ticker.FuncFormatter(lambda value, _: number_text(value, power))
    bar.update_ticks()


def power_of_bar(image: AxesImage) -> int:
    """The power of ten that the labels of the colour bar leave out."""
    low, high = image.get_clim()
    return 0 if isinstance(image.norm, BoundaryNorm) else power_of(max(abs(low), abs(high)))


def _extend(image: AxesImage, values: FloatArray) -> Extend:
    """The ends of the colour bar to draw pointed: those with values outside the range."""
    found = values[np.isfinite(values)]
    if not found.size:
        return "neither"
    low, high = image.get_clim()
    # The tolerance is for packed files, whose values may be half a packing step outside 0 to 1, or below 0 mm.
    tolerance = 0.002 * min(high - low, 1.0)
    above = float(found.max()) > high + tolerance
    below = float(found.min()) < low - tolerance and not isinstance(image.norm, BoundaryNorm)
    if below:
        return "both" if above else "min"
    return "max" if above else "neither"
