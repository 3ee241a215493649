"""Log files of child processes: appended to, rotated, and their last lines for messages."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

_LOG_LINES = 15
_LOG_TAIL_BYTES = 1 << 14
_LOG_ROTATE_BYTES = 10 << 20


class LogFile:
    """A log file that child processes append to; rotated to `<name>.1` when it exceeds 10 MB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = 0

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the file for a child process; `last_lines` returns what is written from now on.

        Raises:
            LocalDiskError: if the disk is full or not writable.
        """
        with disk_errors(f"writing {self.path.name}", self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Rotate between runs only: a running child keeps writing to the renamed file.
            if self.path.exists() and self.path.stat().st_size > _LOG_ROTATE_BYTES:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            file = self.path.open("ab")
        with file:
            self._start = file.tell()
            yield file

    def last_lines(self) -> str:
        """The last lines written since it was last opened, each indented; a note if there are none."""
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self._start, end - _LOG_TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError as error:
            return f"  (its log cannot be read: {error.strerror})"
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:]) or "  (it wrote nothing)"
