"""The files that pictures are written to: the formats, by suffix.

Here: what a path must look like, without importing what draws. Not here: writing (`plots.figures`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

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
