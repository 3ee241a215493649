"""What a command prints while it works: the work goes on where nobody reads it any more, as in `era5 load | head`."""

import os
import sys

import typer


def tell(text: str) -> None:
    """Print a line on standard output, as long as there is a reader."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """From now on standard output goes nowhere, also what is still to be written at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
