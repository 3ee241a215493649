"""Writers of animations, frame by frame: GIF with Pillow, MP4 (H.264) with the program ffmpeg."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from PIL import GifImagePlugin, Image

from era5_pipeline.model.errors import LocalDiskError, RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    ByteArray = npt.NDArray[np.uint8]

# --- A GIF written frame by frame with Pillow: one palette, and only the part of each frame that differs from the last
# ---
#
# Pillow's own `save_all` keeps all frames until the end: half a gigabyte for a month.


class GifFile:
    """An animation that repeats forever; the format counts time in hundredths of a second."""

    def __init__(self, path: Path, palette: ByteArray, fps: int, shape: tuple[int, int]) -> None:
        """Begin a file with these colours, (256, 3), and frames of this height and width."""
        self._file = path.open("wb")
        self._milliseconds = 10 * max(round(100 / fps), 1)
        first = Image.new("P", shape[::-1])
        first.putpalette(palette.tobytes())
        self._file.writelines(GifImagePlugin.getheader(first, info={"loop": 0, "duration": self._milliseconds})[0])
        # Of no colour, so that the first frame is written as a whole.
        self._last: npt.NDArray[np.integer] = np.full(shape, -1)

    def add(self, frame: ByteArray) -> None:
        """Write a frame, (height, width)."""
        rows, columns = _changed(self._last, frame)
        part = Image.fromarray(np.ascontiguousarray(frame[rows, columns]), "P")
        corner = columns.start, rows.start
        self._file.writelines(GifImagePlugin.getdata(part, corner, duration=self._milliseconds, disposal=1))
        self._last = frame

    def finish(self) -> None:
        """Write the end of the file."""
        self._file.write(b";")
        self._file.flush()

    def close(self) -> None:
        """Close the file; the caller removes an unfinished one."""
        self._file.close()

    @property
    def bytes_written(self) -> int | None:
        """Bytes of the frames so far."""
        return self._file.tell()


def _changed(last: npt.NDArray[np.integer], frame: ByteArray) -> tuple[slice, slice]:
    """The smallest rectangle with all pixels that differ; one pixel if none does."""
    differs = last != frame
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not rows.size:
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


_FULL = "No space left on device"


class Mp4File:
    """A video that any browser plays: even width and height, colours at half the resolution."""

    def __init__(self, path: Path, palette: ByteArray, fps: int, shape: tuple[int, int]) -> None:
        """Begin a file with frames of this height and width, in these colours, (256, 3)."""
        self._path = path
        self._palette = palette
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        height, width = (size + size % 2 for size in shape)
        command = (
            *("ffmpeg", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"),
            *("-r", str(fps), "-i", "pipe:0", "-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20"),
            *("-pix_fmt", "yuv420p", "-movflags", "+faststart", str(path)),
        )
        # In its own session: an interrupt reaches only this process, which then ends the program.
        self._program = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._said, start_new_session=True
        )
        assert self._program.stdin is not None  # noqa: S101  # opened as a pipe
        self._frames = self._program.stdin

    def add(self, frame: ByteArray) -> None:
        """Write a frame, (height, width)."""
        # Pad with the border instead of cropping: the format needs even sizes.
        even = np.pad(self._palette[frame], [(0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0)], mode="edge")
        try:
            self._frames.write(even.tobytes())
        except BrokenPipeError:
            self._program.wait()
            raise self._error() from None

    def finish(self) -> None:
        """Write the end of the file."""
        with suppress(BrokenPipeError):  # ffmpeg failed
            self._frames.close()
        if self._program.wait() != 0:
            raise self._error()

    def close(self) -> None:
        """End the program if it is still running."""
        self._program.kill()
        with suppress(BrokenPipeError):
            self._program.communicate()
        self._said.close()

    @property
    def bytes_written(self) -> int | None:
        """None, as ffmpeg holds frames back until the end."""
        return None

    def _error(self) -> LocalDiskError | RefusedError:
        self._said.seek(0)
        said = [line for line in self._said.read().decode(errors="replace").splitlines() if line.strip()]
        if any(_FULL in line for line in said):
            return LocalDiskError(
                f"writing {self._path.name}: {_FULL} ({self._path.parent.parent})",
                remedy="Free space there, or write the file to a larger disk. Nothing was left half-written.",
            )
        return RefusedError(
            f"writing {self._path.name}: ffmpeg failed: {said[-1] if said else 'without a message'}",
            remedy="Give a file name that ends with .gif, or another ffmpeg with libx264.",
        )
