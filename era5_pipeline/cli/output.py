"""What all commands print alike: lines that tolerate a closed pipe, and problems with their remedies.

Here also: `--json` and `--format json`, which mean the same (`ResultsCommand`).
"""

import os
import sys
from collections.abc import Iterable

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


def grouped_problems(problems: Iterable[tuple[str, str]]) -> list[str]:
    """Return the text for each group of problems, pairs of message and remedy: equal remedies are printed once.

    A group has the messages in their order, each once, and below them the remedy that they share. Groups come in the
    order of their first messages.
    """
    by_remedy: dict[str, dict[str, None]] = {}
    for message, remedy in problems:
        by_remedy.setdefault(remedy, {})[message] = None
    return ["\n".join((*messages, f"      {remedy}")) for remedy, messages in by_remedy.items()]
