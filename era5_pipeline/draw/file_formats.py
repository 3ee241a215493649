"""File formats of figures and animations, by suffix, without importing what writes them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


# The name of matplotlib's format, by suffix.
PICTURE_FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}


def picture_format(path: Path) -> str:
    """The format of a picture with this name."""
    name = PICTURE_FORMATS.get(path.suffix.lower())
    if name is None or path.is_dir():
        raise UsageError(
            f"{path}: pictures are PNG, PDF or SVG files",
            remedy=f"Give a file name that ends with {', '.join(PICTURE_FORMATS)}, such as {path.stem or 'out'}.png.",
        )
    return name


GIF, MP4 = ".gif", ".mp4"
ANIMATION_SUFFIXES = (GIF, MP4)
USUAL_FPS = 12
# Programs play a GIF of more than 50 frames a second at 10.
_FASTEST = 50


def is_animation(path: Path) -> bool:
    """Return True for a name that ends with the suffix of an animation, such as `.gif`."""
    return path.suffix.lower() in ANIMATION_SUFFIXES


def require_animation(path: Path, fps: int) -> None:
    """Require a known suffix, a program that can write it, and a possible frame rate."""
    if not is_animation(path) or path.is_dir():
        raise UsageError(
            f"{path}: an animation is a GIF or MP4 file",
            remedy=f"Give a file name that ends with .gif or .mp4, such as {path.stem or 'out'}.gif.",
        )
    if not 1 <= fps <= _FASTEST:
        raise UsageError(f"--fps {fps}: frames per second must be 1 to {_FASTEST}", remedy=f"Give {USUAL_FPS}, say.")
    if path.suffix.lower() == MP4 and shutil.which("ffmpeg") is None:
        raise UsageError(
            f"{path}: MP4 is written by the program ffmpeg, which is not on the PATH",
            remedy="Install it (apt-get install ffmpeg), or give a file name that ends with .gif.",
        )


def parse_every(text: str) -> int:
    """The hours of a step such as `3h`."""
    number = text.strip().lower().removesuffix("h")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 744:
        raise UsageError(
            f"--every {text}: not a number of hours", remedy="Write 3h for every third hour; 1h is every hour."
        )
    return int(number)
