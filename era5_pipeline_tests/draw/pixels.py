"""The pixels of a figure, as a PNG of it would have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture_of(figure: Figure) -> np.ndarray:
    """The figure's pixels, (height, width, 3); it is drawn only if it has changed since it was last drawn."""
    canvas = cast("Any", figure.canvas)  # of `new_figure`: Agg's, whose methods have no types
    if figure.stale:
        canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]
