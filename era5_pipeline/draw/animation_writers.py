"""Writers of animations, frame by frame: GIF with Pillow, MP4 (H.264) with the program ffmpeg."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from typing import IO, TYPE_CHECKING

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

    def __init__(self, path: Path, palette: ByteArray, fps: int) -> None:
        """Begin a file with these colours, (256, 3)."""
        self._file = path.open("wb")
        self._palette = palette
        self._milliseconds = 10 * max(round(100 / fps), 1)
        self._last: ByteArray | None = None

    def add(self, frame: ByteArray) -> None:
        """Write a frame of the same size as all others, (height, width)."""
        if self._last is None:
            first = Image.fromarray(frame, "P")
            first.putpalette(self._palette.tobytes())
            parts, _ = GifImagePlugin.getheader(first, info={"loop": 0, "duration": self._milliseconds})
            self._write(parts)
            rows, columns = slice(0, frame.shape[0]), slice(0, frame.shape[1])
        else:
            rows, columns = _changed(self._last, frame)
        part = Image.fromarray(np.ascontiguousarray(frame[rows, columns]), "P")
        self._write(GifImagePlugin.getdata(part, (columns.start, rows.start), duration=self._milliseconds, disposal=1))
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

    def _write(self, parts: list[bytes]) -> None:
        for part in parts:
            self._file.write(part)


def _changed(last: ByteArray, frame: ByteArray) -> tuple[slice, slice]:
    """The smallest rectangle with all pixels that differ; one pixel if none does."""
    differs = last != frame
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not rows.size:
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


# --- An MP4 (H.264) written frame by frame by the program ffmpeg ---


_FULL = "No space left on device"


class Mp4File:
    """A video that any browser plays: even width and height, colours at half the resolution."""

    def __init__(self, path: Path, palette: ByteArray, fps: int) -> None:
        """Begin a file with frames of these colours, (256, 3)."""
        self._path = path
        self._palette = palette
        self._fps = fps
        self._program: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def add(self, frame: ByteArray) -> None:
        """Write a frame of the same size as all others, (height, width)."""
        # Pad with the border instead of cropping: the format needs even sizes.
        even = np.pad(self._palette[frame], [(0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0)], mode="edge")
        if self._program is None:
            self._program = self._started(*even.shape[:2])
        assert self._program.stdin is not None  # noqa: S101  # opened as a pipe
        try:
            self._program.stdin.write(even.tobytes())
        except BrokenPipeError:
            self._program.wait()
            raise self._error() from None

    def finish(self) -> None:
        """Write the end of the file."""
        if self._program is None:
            return
        assert self._program.stdin is not None  # noqa: S101  # opened as a pipe
        with suppress(BrokenPipeError):  # ffmpeg failed
            self._program.stdin.close()
        if self._program.wait() != 0:
            raise self._error()

    def close(self) -> None:
        """End the program if it is still running."""
        if self._program is not None:
            self._program.kill()
            with suppress(BrokenPipeError):
                self._program.communicate()
        if self._said is not None:
            self._said.close()

    @property
    def bytes_written(self) -> int | None:
        """None, as ffmpeg holds frames back until the end."""
        return None

    def _started(self, height: int, width: int) -> subprocess.Popen[bytes]:
        command = (
            *("ffmpeg", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"),
            *("-r", str(self._fps), "-i", "pipe:0", "-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20"),
            *("-pix_fmt", "yuv420p", "-movflags", "+faststart", str(self._path)),
        )
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        # In its own session: an interrupt reaches only this process, which then ends the program.
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._said, start_new_session=True
        )

    def _error(self) -> LocalDiskError | RefusedError:
        assert self._said is not None  # noqa: S101  # set when the program is started
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
