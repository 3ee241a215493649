"""Hours as whole numbers since 1970-01-01T00 UTC: to and from datetimes, months, and text.

Valid times of ERA5 are full hours, so one integer names each; files, rows and the ledger all use these functions.
Runs of hours are text in facts and in the ledger: `2023-09-08T00 to 2023-09-30T23`.

Not here: which hours a file or month has.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

    from era5_pipeline.model.months import Month

SECONDS_PER_HOUR = 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_BETWEEN = " to "


def hour_of(time: datetime) -> int:
    """The hour that contains `time` (aware)."""
    return (time - _EPOCH) // _HOUR


def time_of(hour: int) -> datetime:
    """The start of the hour, aware and in UTC: the inverse of `hour_of`."""
    return _EPOCH + hour * _HOUR


def hours_of_month(month: Month) -> range:
    """All hours of the month."""
    first = hour_of(month.start)
    return range(first, first + month.hours)


def as_datetime64(hours: npt.NDArray[np.int64]) -> npt.NDArray[np.datetime64]:
    """Hours, of any shape, as datetime64[h]."""
    return hours.astype("datetime64[h]")


def from_datetime64(times: npt.NDArray[np.datetime64]) -> npt.NDArray[np.int64]:
    """The hours, int64, that contain `times`, of any shape: the inverse of `as_datetime64`."""
    return times.astype("datetime64[h]").astype("int64")


def describe_hours(hours: Iterable[int]) -> tuple[str, ...]:
    """Describe ascending hours as runs, `2023-09-08T00 to 2023-09-30T23`; a single hour is `2023-09-08T00`."""
    runs: list[tuple[int, int]] = []
    for hour in map(int, hours):
        if runs and hour == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], hour)
        else:
            runs.append((hour, hour))
    return tuple(_text(first) if first == last else f"{_text(first)}{_BETWEEN}{_text(last)}" for first, last in runs)


def hours_in(runs: Iterable[str]) -> frozenset[int]:
    """The hours that the runs name, of one column or several: the inverse of `describe_hours`."""
    found: set[int] = set()
    for run in runs:
        first, _, last = run.partition(_BETWEEN)
        found.update(range(_hour(first), _hour(last or first) + 1))
    return frozenset(found)


def _text(hour: int) -> str:
    return f"{time_of(hour):%Y-%m-%dT%H}"


def _hour(text: str) -> int:
    return hour_of(datetime.strptime(text, "%Y-%m-%dT%H").replace(tzinfo=UTC))
