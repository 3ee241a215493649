"""Progress of long stages as lines of a log, for runs that nobody watches in a terminal.

The numbers are those that the progress bars show (`progress`, `cli.bars`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from era5_pipeline.model.times import spoken
from era5_pipeline.runtime.progress import STAGE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.runtime.progress import Stage

# At most one line in this time: a stage that takes less has none.
EVERY_SECONDS = 30.0
_MEGABYTE = 1e6


class ProgressLines:
    """A listener of progress that calls `say` with a line at most every `every_seconds`, from any thread.

    A line says how much is done, at which rate since the line before, and how long the rest takes at that rate.
    """

    def __init__(self, say: Callable[[str], None], every_seconds: float | None = None) -> None:
        self._say = say
        self._every_seconds = EVERY_SECONDS if every_seconds is None else every_seconds
        self._lock = threading.Lock()
        self._of: tuple[Stage, int] | None = None
        self._since = 0.0
        self._done = 0
        self._done_at_line = 0

    def __call__(self, stage: Stage, done: int, total: int, unit: str) -> None:
        """Receive a report."""
        now = time.monotonic()
        with self._lock:
            # Another stage, or the same once more: the next of several files, or the stage tried again.
            if (stage, total) != self._of or done < self._done:
                self._of, self._since, self._done, self._done_at_line = (stage, total), now, done, done
                return
            self._done = done
            seconds = now - self._since
            if seconds < self._every_seconds or done >= total:
                return
            line = _line(stage, done, total, unit, (done - self._done_at_line) / max(seconds, 1e-9))
            self._since, self._done_at_line = now, done
        self._say(line)


def _line(stage: Stage, done: int, total: int, unit: str, per_second: float) -> str:
    left = f"{spoken((total - done) / per_second)} left" if per_second > 0 else "nothing came since the last line"
    share = f"{STAGE_NAMES[stage]}: {100 * done // max(1, total)} %"
    if unit == "bytes":
        amounts = f"{done / _MEGABYTE:,.1f} of {total / _MEGABYTE:,.1f} MB"
        return f"{share}, {amounts}, {per_second / _MEGABYTE:,.2f} MB/s, {left}"
    rate = f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{share}, {done:,} of {total:,} {unit}, {rate} {unit}/s, {left}"
