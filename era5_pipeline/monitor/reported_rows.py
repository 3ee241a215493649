"""Rows that loads report with their attempts in the ledger, for COPYs whose rows the server does not count.

Here: rows and rate from these reports. Not here: writing them (`warehouse.heartbeat`) or reading them
(`server_queries`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.monitor.session_samples import Loader

# Loads report once a second, each at its own moment: over a shorter time, rates would jump.
_WINDOW_SECONDS = 5.0


class ReportedRows:
    """The latest reports of each session, by process number."""

    def __init__(self) -> None:
        self._reports: dict[int, deque[tuple[float, int]]] = {}

    def add(self, at: float, rows: Mapping[int, int]) -> None:
        """Add the rows reported by now (seconds, monotonic); sessions that are missing from `rows` are forgotten."""
        for pid in self._reports.keys() - rows.keys():
            del self._reports[pid]
        for pid, count in rows.items():
            reports = self._reports.setdefault(pid, deque())
            if reports and count < reports[-1][1]:
                reports.clear()  # the session has begun another load
            reports.append((at, count))
            while reports[0][0] < at - _WINDOW_SECONDS:
                reports.popleft()

    def complete(self, loader: Loader) -> Loader:
        """Return the loader with its reported rows and rate, where the server counts none."""
        reports = self._reports.get(loader.pid)
        if loader.rows_per_second is not None or not reports:
            return loader
        (began, first), (ended, last) = reports[0], reports[-1]
        rate = (last - first) / (ended - began) if ended > began else None
        return replace(loader, rows=last, rows_per_second=rate)
