"""What the file of a page must be called, without importing what draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIXES = (".html", ".htm")


def require_page(path: Path, option: str) -> None:
    """Require a path for a page.

    Raises:
        UsageError: if it is a folder, or its suffix is none of a page's.
    """
    if path.suffix.lower() not in _SUFFIXES or path.is_dir():
        raise UsageError(
            f"{option} {path}: a page is an HTML file",
            remedy=f"Give a file name that ends with .html, such as {path.stem or 'place'}.html.",
        )
