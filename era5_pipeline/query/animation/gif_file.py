"""A GIF written frame by frame, by Pillow: one palette, and of each frame only the part that differs from the last.

Pillow's own `save_all` keeps all frames until the last one is there: half a gigabyte of a month.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from PIL import GifImagePlugin, Image

if TYPE_CHECKING:
    import numpy.typing as npt

    ByteArray = npt.NDArray[np.uint8]


class GifFile:
    """An animation that repeats for ever; the format counts time in hundredths of a second."""

    def __init__(self, file: BinaryIO, palette: ByteArray, fps: int) -> None:
        """Begin a file with these colours, (256, 3)."""
        self._file = file
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

    def stop(self) -> None:
        """Do nothing: no program runs, and the caller removes the unfinished file."""

    @property
    def bytes_written(self) -> int | None:
        """Bytes of the frames so far."""
        return self._file.tell()

    def _write(self, parts: list[bytes]) -> None:
        for part in parts:
            self._file.write(part)


def _changed(last: ByteArray, frame: ByteArray) -> tuple[slice, slice]:
    """The smallest rectangle that holds all pixels that differ; one pixel if there are none."""
    differs = last != frame
    rows, columns = np.flatnonzero(differs.any(axis=1)), np.flatnonzero(differs.any(axis=0))
    if not rows.size:
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
