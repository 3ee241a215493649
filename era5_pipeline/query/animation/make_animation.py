"""An animated map of hours, written frame by frame: whole, or not there."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError
from era5_pipeline.query.animation.animation_files import MP4, USUAL_FPS
from era5_pipeline.query.animation.frame_painter import FramePainter
from era5_pipeline.query.animation.gif_file import GifFile
from era5_pipeline.query.animation.mp4_file import Mp4File
from era5_pipeline.query.plots.colour_scales import NO_LIMITS, Limits
from era5_pipeline.query.plots.map_plots import draw_map
from era5_pipeline.runtime.progress import report

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.query.animation.animation_files import AnimationFile
    from era5_pipeline.query.animation.hour_frames import HourFrames
    from era5_pipeline.query.plots.projections.projection_choice import ProjectionChoice

# Dots per inch of the figure, which is 5 to 11 inches wide; its margins are whole pixels then.
_GIF_DPI, _MP4_DPI = 80, 100
# A GIF that is larger is not written: hardly a program shows it.
MOST_BYTES = 150_000_000
# Frames after which the size of all is known well enough.
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
    """Write the hours as a GIF or MP4, by the suffix of `path`, which is a temporary one of `shown_path`.

    All frames have the same colours for the same values.

    Raises:
        UsageError: if one of the limits leaves no range, or a GIF would be too large.
        LocalDiskError: if the disk is full.
        RefusedError: if ffmpeg fails.
    """
    first = next(number for number, is_empty in enumerate(frames.is_empty) if not is_empty)
    field = frames.field(first)
    is_mp4 = path.suffix.lower() == MP4
    drawn = draw_map(
        # The longest text that will stand there.
        replace(field, when=field.when + _NO_DATA),
        credit=frames.credit,
        notes=[
            *(f"Grey: no data; {note}" for note in frames.notes),
            *([f"{frames.left_out[0].upper()}{frames.left_out[1:]}"] if frames.left_out else []),
        ],
        title=look.title,
        limits=look.limits,
        projection=look.projection,
        centre=look.centre,
        colours_of=frames.scale_values,
        dpi=_MP4_DPI if is_mp4 else _GIF_DPI,
    )
    painter = FramePainter(drawn)
    with ExitStack() as stack:
        if is_mp4:
            file: AnimationFile = Mp4File(path, painter.palette, look.fps)
        else:
            file = GifFile(stack.enter_context(path.open("wb")), painter.palette, look.fps)
        stack.callback(file.stop)
        total = len(frames.hours)
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
