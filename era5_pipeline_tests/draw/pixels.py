"""Read the pixels of a figure, as in a PNG file of it, and its texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def picture_of(figure: Figure) -> np.ndarray:
    """The figure's pixels, (height, width, 3); it is drawn only if it has changed since it was last drawn."""
    canvas = cast("Any", figure.canvas)  # of `new_figure`: Agg's, whose methods have no types
    if figure.stale:
        canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def pixel_at(axes: Axes, x: float, y: float, *, picture: np.ndarray | None = None) -> tuple[int, ...]:
    """The colour drawn at a point of the axes, in the picture of their figure."""
    if picture is None:
        picture = picture_of(cast("Figure", axes.figure))
    across, up = axes.transData.transform((x, y))
    return tuple(int(part) for part in picture[int(picture.shape[0] - up), int(across)])


def axes_of(figure: Figure | None) -> list[Axes]:
    assert figure is not None
    return list(figure.axes)


def texts_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def legend_of(axes: Axes) -> list[str]:
    """The words of the axes' legend, if they have one."""
    legend = axes.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]
