"""Borders between countries for maps: those of Natural Earth, clipped to a window.

They are Natural Earth's "Admin 0 - Countries" (version 4.1, scale 1:10m, public domain), simplified to 0.01 degrees: a
line is drawn where control changes on the ground (de facto), whoever claims what. `borders.npz` was made from the
package world-atlas by `era5_pipeline_tests/make_borders.py`.

Here: reading them. Not here: clipping (`outlines`), or drawing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.query.plots.outlines import Outlines, lines_within

if TYPE_CHECKING:
    from era5_pipeline.query.plots.outlines import FloatArray

# The file holds longitude and latitude in int16.
PER_DEGREE = 32_767 / 180


def borders(west: float, east: float, south: float, north: float) -> list[FloatArray]:
    """Borders in a window (degrees), as lines for a `LineCollection`, in the form of `coastlines`."""
    lines = _read()
    return lines_within(lines, np.ones(len(lines.west), dtype=np.bool_), (west, east, south, north))


@cache
def _read() -> Outlines:
    """Read the file: `counts` (p,), points of each line; `steps` (v, 2), from each point of all lines to the next."""
    with np.load(Path(__file__).with_name("borders.npz")) as file:
        # Steps between lines overflow int16, and their sum overflows back.
        whole = np.cumsum(file["steps"], axis=0, dtype=np.int16)
        return Outlines.of((whole / PER_DEGREE).astype(np.float32), file["counts"].astype(np.int64))
