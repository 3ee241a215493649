"""Hours as runs of text, as facts and the ledger keep them: `2023-09-08T00 to 2023-09-30T23`.

Here: writing and counting them. Not here: which hours a file or month has.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_BETWEEN = " to "


def describe_hours(hours: Iterable[int]) -> tuple[str, ...]:
    """Ascending hours since 1970-01-01 UTC as runs; one that stands alone is `2023-09-08T00`."""
    runs: list[tuple[int, int]] = []
    for hour in map(int, hours):
        if runs and hour == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], hour)
        else:
            runs.append((hour, hour))
    return tuple(_text(first) if first == last else f"{_text(first)}{_BETWEEN}{_text(last)}" for first, last in runs)


def hours_in(runs: Iterable[str]) -> frozenset[int]:
    """The hours since 1970-01-01 UTC that the runs name, of one column or several: the inverse of `describe_hours`."""
    found: set[int] = set()
    for run in runs:
        first, _, last = run.partition(_BETWEEN)
        found.update(range(_hour(first), _hour(last or first) + 1))
    return frozenset(found)


def _text(hour: int) -> str:
    return f"{_EPOCH + hour * _HOUR:%Y-%m-%dT%H}"


def _hour(text: str) -> int:
    return (datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC) - _EPOCH) // _HOUR
