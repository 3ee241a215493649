"""Checks that commands with pictures share: the file, the limits of the scale, and gaps as an exit code."""

from math import isfinite
from pathlib import Path

import typer

from era5_pipeline.model.errors import RefusedError, UsageError


def require_picture(path: Path, option: str) -> None:
    """Require a path for a picture.

    Raises:
        UsageError: if it is a folder, or does not end with the suffix of a format.
    """
    from era5_pipeline.query.picture_files import picture_format

    try:
        picture_format(path)
    except UsageError as error:
        raise UsageError(f"{option} {error.message}", remedy=error.remedy) from None


def require_limits(vmin: float | None, vmax: float | None) -> None:
    """Require a range of numbers, of which either end may be left open.

    Raises:
        UsageError: if it is none.
    """
    for name, value in (("--vmin", vmin), ("--vmax", vmax)):
        if value is not None and not isfinite(value):
            raise UsageError(f"{name} {value:g}: a limit is a number", remedy="Give a number, or leave it out.")
    if vmin is not None and vmax is not None and vmin >= vmax:
        raise UsageError(
            f"--vmin {vmin:g} is not below --vmax {vmax:g}", remedy="Exchange them, or leave one of them out."
        )


def warn_of_gaps(lines: list[str], *, strict: bool) -> None:
    """Name gaps on standard error; if there are some and `strict` is set, end with the exit code of a refused check."""
    for line in lines:
        typer.echo(f"warning: {line}", err=True)
    if lines and strict:
        raise typer.Exit(RefusedError.exit_code)
