"""What an answer lacks, as a warning of a class of its own: `warnings.filterwarnings` makes it an error, or silent."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[2]) + os.sep


class MissingDataWarning(UserWarning):
    """Hours or months of an answer are missing: they are NaN in it, and named in its `attrs`."""


def warn_of_missing(what: str, lines: list[str]) -> None:
    """Warn that an answer lacks something; the warning points to the line of the user that asked."""
    if not lines:
        return
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(MissingDataWarning(f"{what}: {'; '.join(lines)}"), stacklevel=level)
