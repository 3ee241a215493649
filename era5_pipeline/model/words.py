"""Words of messages: a number with its noun, and the command that installs what is missing."""

import shlex
import sys


def counted(number: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun: `1 month`, `1,020 months`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def pip_install(requirement: str) -> str:
    """The command that installs a package for this Python, of which a machine may have several."""
    return shlex.join([sys.executable, "-m", "pip", "install", requirement])
