"""The pixels of each frame of an animated map, as numbers of colours of one palette.

The figure is drawn by matplotlib three times: without cells, with black cells and with white ones. As lines over the
cells are transparent by a part that the last two tell, the colour of any pixel over any cell follows from them, exactly
as if the figure were drawn again. Only the time is drawn for each frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize

from era5_pipeline.query.animation.frame_palette import NO_LEVEL, ColourLevels, FramePalette
from era5_pipeline.query.plots.projections.nearest_cells import NearestCells

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.query.plots.map_plots import DrawnMap

    ByteArray = npt.NDArray[np.uint8]

_AROUND_TEXT = 3  # pixels
# Levels whose mixture with lines decides on the palette.
_MIXED_LEVELS = 12


class FramePainter:
    """Draws fields of the grid of a map into its figure, (height, width) pixels."""

    def __init__(self, drawn: DrawnMap) -> None:
        """Draw what all frames share. The map's time must be the longest text that is to stand there."""
        self._drawn = drawn
        canvas = drawn.figure.canvas
        assert isinstance(canvas, FigureCanvasAgg)  # noqa: S101  # as `new_figure` makes them
        self._canvas: Any = canvas  # whose methods have no types
        longest = drawn.when.get_text()
        # A line that was too long was cut off at its end: the time alone is shown then.
        self._before_time = longest.removesuffix(drawn.field.when) if longest.endswith(drawn.field.when) else ""
        extent = drawn.when.get_window_extent()
        height, width = (round(inches * drawn.figure.dpi) for inches in drawn.figure.get_size_inches()[::-1])
        self._text = (
            slice(max(height - int(extent.y1) - _AROUND_TEXT, 0), height - int(extent.y0) + _AROUND_TEXT),
            slice(max(int(extent.x0) - _AROUND_TEXT, 0), width),
        )
        drawn.when.set_text("")
        drawn.image.set_visible(False)
        base = self._pixels()
        cover = drawn.axes.imshow(
            np.zeros((1, 1, 3), dtype=np.uint8), extent=drawn.image.get_extent(), aspect="auto", zorder=1.0
        )
        limits = drawn.axes.get_window_extent()
        self._map = (
            slice(max(int(np.floor(height - limits.y1)), 0), min(int(np.ceil(height - limits.y0)), height)),
            slice(max(int(np.floor(limits.x0)), 0), min(int(np.ceil(limits.x1)), width)),
        )
        black = self._pixels()[self._map]
        cover.set_data(np.full((1, 1, 3), 255, dtype=np.uint8))
        white = self._pixels()[self._map]
        cover.remove()
        norm = drawn.image.norm
        assert isinstance(norm, Normalize)  # noqa: S101  # as `colour_scale` makes them
        self._levels = ColourLevels.of(drawn.image.get_cmap(), norm)
        self._index = self._cells(height).index
        self._mix(base, black, white)
        self._background = self._empty_figure()

    @property
    def palette(self) -> ByteArray:
        """The colours, (256, 3), of which frames consist."""
        return self._palette.colours

    def paint(self, values: npt.NDArray[np.floating], when: str) -> ByteArray:
        """The frame, (height, width), of a field (n, m), with its time as text."""
        frame = self._base.copy()
        flat = np.append(self._levels.of_values(values).ravel(), np.uint8(NO_LEVEL))
        levels = flat[self._index]  # -1 is the last one
        shown = frame[self._map]
        np.copyto(shown, levels, where=self._is_pure & (levels != NO_LEVEL))
        mixed = levels[self._is_mixed]
        numbers = np.flatnonzero(mixed != NO_LEVEL)
        over = shown[self._is_mixed]
        over[numbers] = self._mixtures[numbers, mixed[numbers]]
        shown[self._is_mixed] = over
        frame[self._text] = self._greys[self._text_pixels(when)]
        return frame

    def _mix(self, base: ByteArray, black: ByteArray, white: ByteArray) -> None:
        """Find the palette, and the colour of each pixel with a line over each level."""
        through = white.astype(np.int16) - black
        self._is_pure = (through == 255).all(axis=2)
        self._is_mixed = ~self._is_pure & (through > 0).any(axis=2) & (self._index >= 0)
        below, part = black[self._is_mixed].astype(np.float32), through[self._is_mixed].astype(np.float32) / 255
        colours = self._levels.colours.astype(np.float32)

        def over(level: int) -> ByteArray:
            found: ByteArray = np.round(below + part * colours[level]).astype(np.uint8)
            return found

        some = np.unique(np.linspace(0, len(colours) - 1, _MIXED_LEVELS).astype(int))
        others = np.concatenate([base.reshape(-1, 3), *(over(int(level))[::3] for level in some)])
        self._palette = FramePalette.of(self._levels, others)
        self._base = self._palette.nearest(base.reshape(-1, 3)).reshape(base.shape[:2])
        self._mixtures = np.stack([self._palette.nearly_nearest(over(level)) for level in range(len(colours))], axis=1)
        self._greys = self._palette.nearest(np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1))

    def _cells(self, height: int) -> NearestCells:
        """The cells of the pixels of the map."""
        axes, drawn = self._drawn.axes, self._drawn
        rows, columns = (np.arange(part.start, part.stop) + 0.5 for part in self._map)
        box = axes.get_window_extent()
        (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
        x = west + (columns - box.x0) * ((east - west) / box.width)
        y = south + (height - rows - box.y0) * ((north - south) / box.height)
        return NearestCells.find(drawn.projection, drawn.field.latitudes, drawn.field.longitudes, x, y)

    def _empty_figure(self) -> Any:  # noqa: ANN401  # matplotlib has no type for it
        self._canvas.draw()
        return self._canvas.copy_from_bbox(self._drawn.figure.bbox)

    def _pixels(self) -> ByteArray:
        self._canvas.draw()
        pixels: ByteArray = np.array(self._canvas.buffer_rgba())[:, :, :3]
        return pixels

    def _text_pixels(self, when: str) -> ByteArray:
        """The pixels, in grey, of the line with the time."""
        self._canvas.restore_region(self._background)
        self._drawn.when.set_text(self._before_time + when)
        self._drawn.figure.draw_artist(self._drawn.when)
        pixels: ByteArray = np.asarray(self._canvas.buffer_rgba())[(*self._text, 0)]
        return pixels
