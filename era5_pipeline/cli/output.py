"""Standard output that tolerates a closed pipe: the work goes on, as in `era5 load | head`."""

import os
import sys

import typer


def print_line(text: str) -> None:
    """Print a line on standard output; once the reader has closed the pipe, discard it."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Redirect standard output to /dev/null, including what is flushed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
