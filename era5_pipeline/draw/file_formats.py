"""The files that pictures and animations are written to: the formats, by suffix, without importing what writes them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Protocol

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

# --- The files that pictures are written to: the formats, by suffix ---


# By suffix, the name of matplotlib's format.
PICTURE_FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


def picture_format(path: Path) -> str:
    """The format of a picture with this name.

    Raises:
        UsageError: if it is a folder, or its suffix is none of those known.
    """
    name = PICTURE_FORMATS.get(path.suffix.lower())
    if name is None or path.is_dir():
        raise UsageError(
            f"{path}: pictures are PNG, PDF or SVG files",
            remedy=f"Give a file name that ends with {', '.join(PICTURE_FORMATS)}, such as {path.stem or 'out'}.png.",
        )
    return name


# --- The files that animations are written to: the formats, by suffix, and what all of them must give ---


GIF, MP4 = ".gif", ".mp4"
ANIMATION_SUFFIXES = (GIF, MP4)
USUAL_FPS = 12
# Programs show a GIF that asks for more than 50 pictures a second at 10.
_FASTEST = 50


class AnimationFile(Protocol):
    """A file that takes one frame after the other."""

    def add(self, frame: npt.NDArray[np.uint8]) -> None:
        """Write a frame: numbers of colours of the palette, (height, width)."""
        ...

    def finish(self) -> None:
        """Write the end of the file."""
        ...

    def stop(self) -> None:
        """Give the file up; nothing is done after `finish`."""
        ...

    @property
    def bytes_written(self) -> int | None:
        """Bytes so far; None if they are not known before the end."""
        ...


def is_animation(path: Path) -> bool:
    """Return True for a name that ends with the suffix of an animation, such as `.gif`."""
    return path.suffix.lower() in ANIMATION_SUFFIXES


def require_animation(path: Path, fps: int) -> None:
    """Require what can be written: a suffix, a program for it, and a rate.

    Raises:
        UsageError: if one of them is not.
    """
    if not is_animation(path) or path.is_dir():
        raise UsageError(
            f"{path}: an animation is a GIF or MP4 file",
            remedy=f"Give a file name that ends with .gif or .mp4, such as {path.stem or 'out'}.gif.",
        )
    if not 1 <= fps <= _FASTEST:
        raise UsageError(f"--fps {fps}: frames per second are 1 to {_FASTEST}", remedy=f"Give {USUAL_FPS}, say.")
    if path.suffix.lower() == MP4 and shutil.which("ffmpeg") is None:
        raise UsageError(
            f"{path}: MP4 is written by the program ffmpeg, which is not on the PATH",
            remedy="Install it (apt-get install ffmpeg), or give a file name that ends with .gif.",
        )


def parse_every(text: str) -> int:
    """The hours of a step such as `3h`.

    Raises:
        UsageError: if it is none.
    """
    number = text.strip().lower().removesuffix("h")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 744:
        raise UsageError(f"--every {text}: not a number of hours", remedy="Write 3h for every third hour; 1h is each.")
    return int(number)
