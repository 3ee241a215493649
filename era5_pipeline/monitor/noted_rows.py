"""Rows that loads themselves note with their attempts: how far they are, where the server shows nothing of a COPY.

Here: the reckoning. Not here: who notes them (`heartbeat`) or reads them (`activity`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.monitor.glances import Loader

# Loads note once a second, at times of their own: over less, rates would jump.
_LATELY_SECONDS = 5.0


class Told:
    """What was noted of each session of late, by its process number."""

    def __init__(self) -> None:
        self._notes: dict[int, deque[tuple[float, int]]] = {}

    def add(self, at: float, rows: Mapping[int, int]) -> None:
        """Take what is noted now (seconds, monotonic); sessions that are not among them are forgotten."""
        for pid in self._notes.keys() - rows.keys():
            del self._notes[pid]
        for pid, count in rows.items():
            notes = self._notes.setdefault(pid, deque())
            if notes and count < notes[-1][1]:
                notes.clear()  # another load of the same session
            notes.append((at, count))
            while notes[0][0] < at - _LATELY_SECONDS:
                notes.popleft()

    def complete(self, loader: Loader) -> Loader:
        """The loader, with rows and rate as it noted them itself where the server shows none."""
        notes = self._notes.get(loader.pid)
        if loader.rows_per_second is not None or not notes:
            return loader
        (began, first), (ended, last) = notes[0], notes[-1]
        rate = (last - first) / (ended - began) if ended > began else None
        return replace(loader, rows=last, rows_per_second=rate, rows_estimated=False)
