"""The 256 colours of all frames: those of the values exactly, and others for lines, letters and greys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.colors import BoundaryNorm, Colormap, Normalize
from PIL import Image

from era5_pipeline.query.plots.variable_styles import FAINT, INK, NO_DATA, NO_DATA_ON_LAND

if TYPE_CHECKING:
    import numpy.typing as npt

    ByteArray = npt.NDArray[np.uint8]

# Of a scale without steps. More would leave too few for lines, and make a GIF larger.
_LEVELS = 120
NO_LEVEL = 255
_ALWAYS = ("white", NO_DATA, NO_DATA_ON_LAND, INK, FAINT)


@dataclass(frozen=True, eq=False)
class ColourLevels:
    """The colours of values, (l, 3), in steps: those of a scale with steps, otherwise 120 equal ones."""

    colours: ByteArray
    norm: Normalize

    @classmethod
    def of(cls, colormap: Colormap, norm: Normalize) -> ColourLevels:
        """The steps of a scale of colours."""
        if isinstance(norm, BoundaryNorm):
            edges = np.asarray(norm.boundaries, dtype=np.float64)
            middles = np.concatenate([[edges[0] - 1.0], (edges[:-1] + edges[1:]) / 2, [edges[-1] + 1.0]])
            places = norm(middles)
        else:
            places = (np.arange(_LEVELS) + 0.5) / _LEVELS
        return cls(np.asarray(colormap(places, bytes=True), dtype=np.uint8)[:, :3], norm)

    def of_values(self, values: npt.NDArray[np.floating]) -> ByteArray:
        """The step of each value, of the same shape; 255 of NaN."""
        if isinstance(self.norm, BoundaryNorm):
            levels = np.digitize(values, np.asarray(self.norm.boundaries)).astype(np.uint8)
        else:
            low, high = float(self.norm.vmin or 0.0), float(self.norm.vmax or 0.0)
            with np.errstate(invalid="ignore"):
                scaled = np.clip((values - low) * (_LEVELS / (high - low)), 0, _LEVELS - 1)
            levels = np.nan_to_num(scaled, nan=0.0).astype(np.uint8)
        found: ByteArray = np.where(np.isnan(values), np.uint8(NO_LEVEL), levels)
        return found


@dataclass(frozen=True, eq=False)
class FramePalette:
    """Colours (256, 3), the first of which are those of the levels."""

    colours: ByteArray
    # The nearest colour to the middle of each of 64 x 64 x 64 cubes of colours.
    table: ByteArray

    @classmethod
    def of(cls, levels: ColourLevels, others: ByteArray) -> FramePalette:
        """The colours of the levels, and as many as there is room for that stand for `others`, (n, 3)."""
        fixed = np.array([np.round(255 * np.array(mpl.colors.to_rgb(name))) for name in _ALWAYS], dtype=np.uint8)
        room = 256 - len(levels.colours) - len(fixed)
        picture = Image.fromarray(np.ascontiguousarray(others[None]), "RGB").quantize(room, Image.Quantize.MEDIANCUT)
        found = np.array(picture.getpalette() or [], dtype=np.uint8).reshape(-1, 3)[:room]
        colours = np.zeros((256, 3), dtype=np.uint8)
        known = np.concatenate([levels.colours, fixed, found])
        colours[: len(known)] = known
        middles = np.arange(2, 256, 4, dtype=np.uint8)
        cubes = np.stack(np.meshgrid(middles, middles, middles, indexing="ij"), axis=-1).reshape(-1, 3)
        return cls(colours, _nearest(colours, cubes))

    def nearest(self, colours: ByteArray) -> ByteArray:
        """The number of the colour nearest to each of `colours`, (n, 3): exact if it is in the palette."""
        packed = colours.astype(np.uint32) @ np.array([65536, 256, 1], dtype=np.uint32)
        different, where = np.unique(packed, return_inverse=True)
        parts = np.stack([different >> 16, different >> 8 & 255, different & 255], axis=1)
        return _nearest(self.colours, parts.astype(np.uint8))[where]

    def nearly_nearest(self, colours: ByteArray) -> ByteArray:
        """The number of a colour near each of `colours`, (n, 3), found at once: off by three of 256 at most."""
        cubes = (colours >> 2).astype(np.int32)
        found: ByteArray = self.table[(cubes[:, 0] << 12) | (cubes[:, 1] << 6) | cubes[:, 2]]
        return found


def _nearest(palette: ByteArray, colours: ByteArray) -> ByteArray:
    """The number of the colour of a palette, (256, 3), nearest to each of `colours`, (n, 3)."""
    own = palette.astype(np.float32)
    found = np.empty(len(colours), dtype=np.uint8)
    for first in range(0, len(colours), 65536):
        part = colours[first : first + 65536].astype(np.float32)
        # |a - b|^2 without |a|^2, which is the same for all colours of the palette.
        found[first : first + 65536] = np.argmin((own**2).sum(axis=1) - 2 * part @ own.T, axis=1)
    return found
