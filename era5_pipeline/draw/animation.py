"""An animated map of hours, written frame by frame; the file is complete or absent."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import BoundaryNorm, Colormap, Normalize
from PIL import Image

from era5_pipeline.draw.animation_writers import GifFile, Mp4File
from era5_pipeline.draw.colour_scales import NO_LIMITS, Limits
from era5_pipeline.draw.file_formats import MP4, USUAL_FPS
from era5_pipeline.draw.maps import draw_map
from era5_pipeline.draw.projections import NearestCells
from era5_pipeline.maps.fields import FieldMap, as_shown, main_part, sea_line
from era5_pipeline.maps.styles import FAINT, INK, NO_DATA, NO_DATA_ON_LAND
from era5_pipeline.model.errors import UsageError, disk_errors
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import describe_hours, time_of
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.boxes import hour_range, read_box, read_box_contents
from era5_pipeline.read.credit import read_credit
from era5_pipeline.read.fields import Field, placed
from era5_pipeline.read.held import places_held, require_columns
from era5_pipeline.read.missing import only_null_in
from era5_pipeline.runtime.files import reserve
from era5_pipeline.runtime.progress import report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.draw.maps import DrawnMap
    from era5_pipeline.draw.projections import ProjectionChoice
    from era5_pipeline.maps.fields import MainPart
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.location_set import GridWindow
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.read.boxes import BoxContents

    FloatArray = npt.NDArray[np.float32]
    ByteArray = npt.NDArray[np.uint8]

# --- The hours of a time range on a rectangle of the grid, to be drawn one by one ---
#
# Large values are kept in a file meanwhile. The table is read once, place by place, as its rows are stored: reading
# hour by hour would read every row of the month for each.


# The most values read at a time, and kept in memory: 200 MB.
_MOST_VALUES = 50_000_000
# The colour scale follows from a sample of about this many values, and from the extremes of all.
_SAMPLED_VALUES = 2_000_000
_FEWEST_SAMPLED = 64


@dataclass(frozen=True, eq=False)
class HourFrames:
    """One variable at k hours, ascending, in a window of the grid.

    `values` (k, n, m) are those of `Field`s, and `scale_values` a sample of them, with the extremes. `points` counts
    the grid points of the window at which the data set has values. `notes` say what is missing, `left_out` which
    distant places are not shown, and `sea` that the sea is blank.
    """

    variable: Variable
    hours: tuple[int, ...]
    window: GridWindow
    points: int
    values: FloatArray
    scale_values: FloatArray
    is_empty: npt.NDArray[np.bool_]  # (k,) whether no place has a value
    notes: tuple[str, ...]
    credit: str
    left_out: str | None = None
    sea: str | None = None

    @property
    def asides(self) -> list[str]:
        """Lines of what is not on the map and not missing: its sea, and distant places."""
        return [line for line in (self.sea, self.left_out) if line]

    def field(self, number: int) -> FieldMap:
        """The map of one of the hours."""
        time, values = time_of(self.hours[number]), self.values[number]
        return FieldMap.of_hour(Field(self.variable, self.window, values, self.variable.unit, time))


def read_hour_frames(
    connection: psycopg.Connection[Any],
    warehouse: Warehouse,
    variable: Variable,
    start: datetime,
    end: datetime,
    area: Area | None,
    every: int,
    folder: Path,
) -> HourFrames:
    """Read every `every`th hour with `start <= time < end` (aware), in an area or at all places with the column.

    `folder` is for a file of values; the caller removes it.
    """
    require_columns(connection, (variable,))
    held = read_box_contents(connection, area, (variable,), start, end)
    part = None if area else _main_part(connection, variable, held)
    if part:
        held = read_box_contents(connection, part.area, (variable,), start, end)
    credit = read_credit(connection, held.start, held.end, held.window.locations, [variable.column])
    hours = hour_range(held.start, held.end)
    window, kept = held.window, hours[::every]
    step = max(_MOST_VALUES // (len(hours) * window.columns), 1)
    values = _room_for((len(kept), window.rows, window.columns), folder)
    for north in range(0, window.rows, step):
        rows = range(north, min(north + step, window.rows))
        found = read_box(warehouse, variable.column, hours, window.part(rows, range(window.columns)))
        # Latitudes of a box descend.
        values[:, window.rows - rows.stop : window.rows - rows.start] = found[::every, ::-1]
        report("read", rows.stop, window.rows, "rows")
    counts, scale_values = survey(values)
    is_empty = counts == 0
    if is_empty.all():
        when = f"from {time_of(hours.start):%Y-%m-%d %H:%M} to {time_of(hours.stop - 1):%Y-%m-%d %H:%M} UTC"
        raise only_null_in(held.area, variable, when, "time")
    notes = []
    if area and held.points_held < held.points:
        notes.append(f"no data at {held.points - held.points_held:,} of {held.points:,} grid points of {area}")
    notes += _describe_absent(variable, np.array(kept), counts)
    return HourFrames(
        variable=variable,
        hours=tuple(kept),
        window=window,
        points=held.points,
        values=values,
        scale_values=as_shown(variable, scale_values),
        is_empty=is_empty,
        notes=tuple(notes),
        credit=credit,
        left_out=part.line if part else None,
        sea=sea_line(dataset_of(connection), window),
    )


def _main_part(connection: psycopg.Connection[Any], variable: Variable, held: BoxContents) -> MainPart | None:
    """The part of widely scattered places to draw, of those with the column in the month; None: all."""
    places = places_held(connection, Month.of(held.start), variable.column) & LocationSet.of_area(held.area)
    if not places:
        return None
    ids = places.ids().astype(np.int32)
    window, filled = placed(ids, np.zeros(ids.size, dtype=np.float32), places.grid)
    return main_part(window, np.isfinite(filled))


def _room_for(shape: tuple[int, int, int], folder: Path) -> FloatArray:
    """An array of this shape, in memory or in a file."""
    if np.prod(shape) <= _MOST_VALUES:
        return np.empty(shape, dtype=np.float32)
    size = 4 * int(np.prod(shape, dtype=np.int64))
    with disk_errors(f"keeping {size / 1e9:.1f} GB of hours", folder), (folder / "hours").open("w+b") as file:
        reserve(file, size)
        return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


def survey(values: FloatArray) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """The number of places with a value at each hour, (k,), and values (n,) for the scale of colours."""
    counts = np.zeros(len(values), dtype=np.int64)
    sample, extremes = [], []
    per_hour = max(_SAMPLED_VALUES // len(values), _FEWEST_SAMPLED)
    for number, field in enumerate(values):
        found = field[np.isfinite(field)]
        counts[number] = found.size
        if found.size:
            extremes += [found.min(), found.max()]
            sample.append(found[:: -(-found.size // per_hour)])
    if sample:
        sample.append(np.array([min(extremes), max(extremes)], dtype=np.float32))
    return counts, np.concatenate(sample) if sample else np.zeros(0, dtype=np.float32)


def _describe_absent(variable: Variable, hours: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> Iterator[str]:
    """Say at which hours no place has a value, and at which fewer places than at others."""
    most = int(counts.max())
    for lacks, where in ((counts == 0, "anywhere"), ((counts > 0) & (counts < most), "at some places")):
        # Values undefined over land, or where there is no cloud, ice or the like, are no gap.
        if lacks.any() and (where == "anywhere" or variable.extent == "everywhere"):
            yield f"no {variable.column} {where} at {', '.join(_runs(hours, lacks))}"


def _runs(hours: npt.NDArray[np.int64], lacks: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    """The missing hours as runs; with a step, the hours in between were not requested."""
    step = int(hours[1] - hours[0]) if len(hours) > 1 else 1
    missing = {int(hour) for hour in hours[lacks]}
    filled = sorted({hour + more for hour in missing for more in range(step) if hour + step in missing} | missing)
    return describe_hours(filled)


# --- The 256 colours of all frames: those of values exactly, the others for lines, letters and greys ---


# Levels of a scale without steps. More would leave too few colours for lines, and enlarge a GIF.
_LEVELS = 120
NO_LEVEL = 255
_ALWAYS = ("white", NO_DATA, NO_DATA_ON_LAND, INK, FAINT)


@dataclass(frozen=True, eq=False)
class ColourLevels:
    """The colours of values, (l, 3), in steps at `edges`, (l - 1,): those of a stepped scale, otherwise equal ones."""

    colours: ByteArray
    edges: npt.NDArray[np.float64]

    @classmethod
    def of(cls, colormap: Colormap, norm: Normalize) -> ColourLevels:
        """The steps of a colour scale."""
        if isinstance(norm, BoundaryNorm):
            edges = np.asarray(norm.boundaries, dtype=np.float64)
        else:
            edges = np.linspace(norm.vmin or 0.0, norm.vmax or 0.0, _LEVELS - 1)
        middles = np.concatenate([[edges[0] - 1.0], (edges[:-1] + edges[1:]) / 2, [edges[-1] + 1.0]])
        return cls(np.asarray(colormap(norm(middles), bytes=True), dtype=np.uint8)[:, :3], edges)

    def of_values(self, values: npt.NDArray[np.floating]) -> ByteArray:
        """The step of each value, of the same shape; 255 for NaN."""
        levels = np.digitize(values, self.edges).astype(np.uint8)
        found: ByteArray = np.where(np.isnan(values), np.uint8(NO_LEVEL), levels)
        return found


def palette_of(levels: ColourLevels, others: ByteArray) -> ByteArray:
    """256 colours, (256, 3): those of the levels, white, greys, and as many as fit to represent `others`, (n, 3)."""
    fixed = np.array([np.round(255 * np.array(mpl.colors.to_rgb(name))) for name in _ALWAYS], dtype=np.uint8)
    room = 256 - len(levels.colours) - len(fixed)
    picture = Image.fromarray(np.ascontiguousarray(others[None]), "RGB").quantize(room, Image.Quantize.MEDIANCUT)
    found = np.array(picture.getpalette() or [], dtype=np.uint8).reshape(-1, 3)[:room]
    known = np.concatenate([levels.colours, fixed, found])
    return np.pad(known, [(0, 256 - len(known)), (0, 0)])


def nearest(palette: ByteArray, colours: ByteArray) -> ByteArray:
    """The number of the colour of a palette nearest to each of `colours`, (n, 3): exact if it is in the palette."""
    from scipy.spatial import KDTree  # noqa: PLC0415  # slow to import

    return np.asarray(KDTree(palette).query(colours)[1], dtype=np.uint8)


# --- The pixels of each frame of an animated map, as colour numbers of one palette ---
#
# matplotlib draws the figure three times: without cells, with black cells and with white ones. The last two give the
# transparency of lines over cells, so the colour of any pixel over any cell follows exactly as if the figure were drawn
# again. Only the time is drawn for each frame.


_AROUND_TEXT = 3  # pixels
# The number of levels whose mixtures with lines decide on the palette.
_MIXED_LEVELS = 12


class FramePainter:
    """Draws fields of the grid of a map into its figure, (height, width) pixels."""

    def __init__(self, drawn: DrawnMap) -> None:
        """Draw what all frames share. The map's time must be the longest text that will appear there."""
        self._drawn = drawn
        canvas = drawn.figure.canvas
        assert isinstance(canvas, FigureCanvasAgg)  # noqa: S101  # `new_figure` makes these
        self._canvas: Any = canvas  # its methods have no types
        longest = drawn.when.get_text()
        # If the line is too long and was cut off at its end, the time alone is shown.
        self._before_time = longest.removesuffix(drawn.field.when) if longest.endswith(drawn.field.when) else ""
        extent = drawn.when.get_window_extent()
        height, width = self.shape = canvas.get_width_height()[::-1]
        self._text = (
            slice(max(height - int(extent.y1) - _AROUND_TEXT, 0), height - int(extent.y0) + _AROUND_TEXT),
            slice(max(int(extent.x0) - _AROUND_TEXT, 0), width),
        )
        drawn.when.set_text("")
        drawn.image.set_visible(False)
        base = self._pixels()
        self._background = self._canvas.copy_from_bbox(drawn.figure.bbox)  # type: ignore[no-untyped-call]
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
        assert isinstance(norm, Normalize)  # noqa: S101  # `colour_scale` makes these
        self._levels = ColourLevels.of(drawn.image.get_cmap(), norm)
        self._index = self._cells(height).index
        through = white.astype(np.int16) - black
        self._is_pure = (through == 255).all(axis=2)
        self._is_mixed = ~self._is_pure & (through > 0).any(axis=2) & (self._index >= 0)
        # Of the pixels with a line over a cell: the colour over black, and the share that shows through the line.
        self._lines, self._through = (one[self._is_mixed].astype(np.float32) for one in (black, through / 255))
        some = np.unique(np.linspace(0, len(self._levels.colours) - 1, _MIXED_LEVELS).astype(int))
        mixed = [self._under_lines(np.full(len(self._lines), level))[::3] for level in some]
        self.palette = palette_of(self._levels, np.concatenate([base.reshape(-1, 3), *mixed]))
        self._as_palette = Image.new("P", (1, 1))
        self._as_palette.putpalette(self.palette.tobytes())
        self._base = nearest(self.palette, base.reshape(-1, 3)).reshape(self.shape)
        self._greys = nearest(self.palette, np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1))

    def paint(self, values: npt.NDArray[np.floating], when: str) -> ByteArray:
        """The frame, (height, width), of a field (n, m), with its time as text."""
        frame = self._base.copy()
        flat = np.append(self._levels.of_values(values).ravel(), np.uint8(NO_LEVEL))
        levels = flat[self._index]  # -1 is the last one
        shown = frame[self._map]
        np.copyto(shown, levels, where=self._is_pure & (levels != NO_LEVEL))
        under = levels[self._is_mixed]
        # To within a few of 256, as Pillow looks colours up in a table: lines are thin.
        mixed = Image.fromarray(self._under_lines(np.minimum(under, len(self._levels.colours) - 1))[None])
        numbers = np.asarray(mixed.quantize(palette=self._as_palette, dither=Image.Dither.NONE))[0]
        shown[self._is_mixed] = np.where(under == NO_LEVEL, shown[self._is_mixed], numbers)
        # The line with the time is drawn in grey.
        self._canvas.restore_region(self._background)
        self._drawn.when.set_text(self._before_time + when)
        self._drawn.figure.draw_artist(self._drawn.when)
        frame[self._text] = self._greys[np.asarray(self._canvas.buffer_rgba())[(*self._text, 0)]]
        return frame

    def _under_lines(self, levels: npt.NDArray[np.integer]) -> ByteArray:
        """The colours, (n, 3), of the pixels with lines over cells of these levels, (n,)."""
        found: ByteArray = np.round(self._lines + self._through * self._levels.colours[levels]).astype(np.uint8)
        return found

    def _cells(self, height: int) -> NearestCells:
        """The grid cells behind the pixels of the map."""
        axes, drawn = self._drawn.axes, self._drawn
        rows, columns = (np.arange(part.start, part.stop) + 0.5 for part in self._map)
        box = axes.get_window_extent()
        (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
        x = west + (columns - box.x0) * ((east - west) / box.width)
        y = south + (height - rows - box.y0) * ((north - south) / box.height)
        field = drawn.field
        return NearestCells.find(drawn.projection, field.latitudes, field.longitudes, x, y, field.window.grid)

    def _pixels(self) -> ByteArray:
        self._canvas.draw()
        pixels: ByteArray = np.array(self._canvas.buffer_rgba())[:, :, :3]
        return pixels


# Dots per inch of the figure, which is 5 to 11 inches wide; at these, its margins are whole pixels.
_GIF_DPI, _MP4_DPI = 80, 100
# The largest GIF that is written: hardly any program shows a larger one.
MOST_BYTES = 150_000_000
# The number of frames that predict the total size well enough.
_TRIED_FRAMES = 12
_NO_DATA = ": no data"


@dataclass(frozen=True)
class MapLook:
    """The look of an animated map: title, limits of the colours, projection, frames per second."""

    title: str | None = None
    limits: Limits = NO_LIMITS
    projection: ProjectionChoice = "auto"
    centre: float | None = None
    fps: int = USUAL_FPS


def write_animation(frames: HourFrames, path: Path, look: MapLook, *, shown_path: Path | None = None) -> None:
    """Write the hours as a GIF or MP4, by the suffix of `path`, the temporary path of `shown_path`.

    All frames have the same colours for the same values.
    """
    first = next(number for number, is_empty in enumerate(frames.is_empty) if not is_empty)
    field = frames.field(first)
    is_mp4 = path.suffix.lower() == MP4
    drawn = draw_map(
        # The longest text that will appear there.
        replace(field, when=field.when + _NO_DATA),
        credit=frames.credit,
        notes=[
            *(f"Grey: no data; {note}" for note in frames.notes),
            *(f"{line[0].upper()}{line[1:]}" for line in frames.asides),
        ],
        title=look.title,
        limits=look.limits,
        projection=look.projection,
        centre=look.centre,
        colours_of=frames.scale_values,
        dpi=_MP4_DPI if is_mp4 else _GIF_DPI,
    )
    painter = FramePainter(drawn)
    file = (Mp4File if is_mp4 else GifFile)(path, painter.palette, look.fps, painter.shape)
    total = len(frames.hours)
    with closing(file):
        for number in range(total):
            shown = frames.field(number)
            file.add(painter.paint(shown.values, shown.when + (_NO_DATA if frames.is_empty[number] else "")))
            report("draw", number + 1, total, "frames")
            if number + 1 == min(_TRIED_FRAMES, total):
                _require_size(file.bytes_written, number + 1, total, shown_path or path)
        _require_size(file.bytes_written, total, total, shown_path or path)
        file.finish()


def _require_size(written: int | None, done: int, total: int, path: Path) -> None:
    """Refuse a file that is, or will be, too large."""
    if written is None or written * total / done <= MOST_BYTES:
        return
    size = written * total / done
    step = int(-(-size // MOST_BYTES))
    raise UsageError(
        f"{path}: {total} frames take about {size / 1e6:,.0f} MB; the limit of a GIF is {MOST_BYTES / 1e6:.0f} MB",
        remedy=f"Draw fewer hours (--every, {step} times as long a step), a smaller --area, or an .mp4 file.",
    )
