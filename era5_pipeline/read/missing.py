"""Gaps in a series: whole months, runs of hours within months, and the hours between its steps.

Finds gaps in the rows of a location, and puts them into words. What the ledger holds is in `held`; how a plot shows a
gap, in `draw/series`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import FIRST_YEAR, Month, spans
from era5_pipeline.model.times import as_datetime64, describe_hours, from_datetime64, hour_of, hours_of_month
from era5_pipeline.read.held import span_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.hours import Series

    Hours = npt.NDArray[np.int64]

# Values more than a day apart are single hours, not a series with a step.
_LONGEST_STEP = 24
# The fewest values that make a step.
_FEWEST_VALUES = 3
# The most spans of months, and runs of hours, that are named.
_SHOWN_SPANS = 6
_SHOWN_RUNS = 3
_EPOCH_MONTH = 1970 * 12  # the `number` of January 1970


@dataclass(frozen=True)
class Gaps:
    """The missing hours of one column within a range.

    `months` have no value at all; `hours`, ascending, are those missing from the other months. `steps` are, for months
    with a value only every few hours, the hours between values; `due` is `hours` without those between these steps.
    """

    is_empty: bool = False
    months: tuple[Month, ...] = ()
    hours: tuple[int, ...] = ()
    due: tuple[int, ...] = ()
    steps: Mapping[Month, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.is_empty or self.months or self.hours)


def find_gaps(
    series: Series, variables: Iterable[Variable], start: datetime | None, end: datetime | None
) -> dict[str, Gaps]:
    """Find the missing hours of each column, of `start <= hour < end` (aware; None: from the first, to the last row).

    Hours before ERA5 begins, and those in the future, are not missing.
    """
    hours = from_datetime64(series.times)
    first = _hour_from(start) if start is not None else int(hours[0])
    after = _hour_from(end) if end is not None else int(hours[-1]) + 1
    now = max(hour_of(datetime.now(UTC)), int(hours[-1]) + 1)
    found = {}
    for variable in variables:
        held = _distinct(hours[_has_value(hours, series.values[variable.column], variable)])
        found[variable.column] = _gaps(held, range(first, after), range(hour_of(variable.first_valid), now))
    return found


def _distinct(hours: Hours) -> Hours:
    """Ascending hours (n,) without duplicates; numpy.unique, unaware of their order, takes a second for 85 years."""
    return hours[np.append(True, np.diff(hours) > 0)] if hours.size else hours


def _has_value(hours: Hours, values: npt.NDArray[np.float32], variable: Variable) -> npt.NDArray[np.bool_]:
    """Whether each hour (n,) counts as held: it has a value.

    For a variable that ERA5 defines only at times, all rows of a month with at least one value count.
    """
    there = np.isfinite(values)
    if variable.extent != "sometimes":
        return there
    months = as_datetime64(hours).astype("datetime64[M]")
    return np.isin(months, months[there])


def read_gaps(
    connection: psycopg.Connection[Any],
    location: Location,
    series: Series,
    variables: Iterable[Variable],
    start: datetime | None,
    end: datetime | None,
) -> dict[str, Gaps]:
    """Find the gaps of each column of the location's `series` in the requested range (aware).

    An open side of the range ends with the first or last month that the table holds there; if the ledger does not know
    the place, with the first or last row.
    """
    if start is None or end is None:
        held = span_held(connection, LocationSet(((location.location_id, location.location_id + 1),)))
        if held:
            # Rows outside the span are single hours that the range explicitly includes.
            first, last = (Month.of(time.astype("datetime64[s]").item()) for time in series.times[[0, -1]])
            start, end = start or min(held.first, first).start, end or max(held.last, last).end
    return find_gaps(series, variables, start, end)


def regular_step(hours: Hours) -> int | None:
    """The usual distance of ascending, distinct hours (n,): 1 if hourly; None if there is no regular one."""
    if hours.size < 2:
        return None
    step = int(np.gcd.reduce(np.diff(hours)))
    return step if step == 1 or (step <= _LONGEST_STEP and hours.size >= _FEWEST_VALUES) else None


def gap_lines(gaps: Mapping[str, Gaps]) -> list[str]:
    """Describe the gaps of the columns, each gap once: `no data for 2023-03 to 2023-05`."""
    lines = []
    given = {column: one for column, one in gaps.items() if not one.is_empty}
    empty = [column for column, one in gaps.items() if one.is_empty]
    if empty:
        lines.append(f"no {', '.join(empty)} at all: NULL in every row of this place")

    def named(columns: list[str]) -> str:
        return "data" if len(columns) == len(gaps) else ", ".join(columns)

    for months, columns in _alike({column: one.months for column, one in given.items()}):
        lines.append(f"no {named(columns)} for {spans(months, shown=_SHOWN_SPANS)}")
    for steps, columns in _alike({column: tuple(one.steps.items()) for column, one in given.items()}):
        for step in sorted({step for _, step in steps}):
            months = tuple(month for month, own in steps if own == step)
            lines.append(f"{named(columns)} only every {step} hours in {spans(months, shown=_SHOWN_SPANS)}")
    for hours, columns in _alike({column: one.due for column, one in given.items()}):
        runs = _runs(hours, given[columns[0]].steps)
        more = f" and {len(runs) - _SHOWN_RUNS:,} more" if len(runs) > _SHOWN_RUNS else ""
        unit = "values" if given[columns[0]].steps else "hours"
        count = f" ({len(hours):,} {unit})" if len(hours) > 1 else ""
        lines.append(f"no {named(columns)} at {', '.join(runs[:_SHOWN_RUNS])}{more}{count}")
    return lines


def gaps_as_json(gaps: Mapping[str, Gaps]) -> dict[str, dict[str, list[str]]]:
    """The JSON values `missing_months` and `missing_hours`: by column, for the columns with gaps.

    Hours are written as runs, as in the ledger, without those of missing months.
    """
    return {
        "missing_months": {column: list(map(str, one.months)) for column, one in gaps.items() if one.months},
        "missing_hours": {column: list(describe_hours(one.hours)) for column, one in gaps.items() if one.hours},
    }


def _hour_from(time: datetime) -> int:
    """The first full hour at or after `time`."""
    first = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
    return hour_of(max(time, first) + timedelta(hours=1) - timedelta(microseconds=1))


def _gaps(held: Hours, asked: range, valid: range) -> Gaps:
    """The gaps in the `asked` hours, of which only `valid` ones can be missing; `held` (n,), ascending, have values."""
    first, after = max(asked.start, valid.start), min(asked.stop, valid.stop)
    if first >= after:
        return Gaps(is_empty=not held.size)
    is_missing = np.ones(after - first, dtype=np.bool_)
    is_missing[held[(held >= first) & (held < after)] - first] = False
    missing = np.flatnonzero(is_missing) + first
    months: list[Month] = []
    hours: list[Hours] = []
    due: list[Hours] = []
    steps: dict[Month, int] = {}
    for month, lacking in _by_month(missing):
        whole = hours_of_month(month)
        within = held[np.searchsorted(held, whole.start) : np.searchsorted(held, whole.stop)]
        is_whole = max(whole.start, valid.start) >= first and min(whole.stop, valid.stop) <= after
        if is_whole and not within.size:
            months.append(month)
            continue
        hours.append(lacking)
        step = regular_step(within)
        if step is not None and step > 1:
            steps[month] = step
            due.append(lacking[(lacking - within[0]) % step == 0])
        else:
            due.append(lacking)
    return Gaps(not held.size, tuple(months), _joined(hours), _joined(due), steps)


def _by_month(hours: Hours) -> Iterator[tuple[Month, Hours]]:
    """Split ascending hours (n,) by their months."""
    numbers = as_datetime64(hours).astype("datetime64[M]").astype(np.int64)
    found, starts = np.unique(numbers, return_index=True)
    for number, of_month in zip(found.tolist(), np.split(hours, starts[1:]), strict=True) if found.size else ():
        yield Month.from_number(_EPOCH_MONTH + number), of_month


def _joined(parts: list[Hours]) -> tuple[int, ...]:
    return tuple(np.concatenate(parts).tolist()) if parts else ()


def _alike(by_column: Mapping[str, tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], list[str]]]:
    """Each distinct value that is not empty, with the columns that share it."""
    columns: dict[tuple[Any, ...], list[str]] = {}
    for column, value in by_column.items():
        if value:
            columns.setdefault(value, []).append(column)
    return list(columns.items())


def _runs(hours: tuple[int, ...], steps: Mapping[Month, int]) -> list[str]:
    """Describe missing hours as runs; in months with a step, hours one step apart belong to a run."""
    lacking = np.array(hours, dtype=np.int64)
    step = np.concatenate([np.full(own.size, steps.get(month, 1)) for month, own in _by_month(lacking)])
    borders = np.flatnonzero(np.diff(lacking) > step[:-1]) + 1
    texts = []
    for run in np.split(lacking, borders):
        first, last = (describe_hours([hour])[0] for hour in (run[0], run[-1]))
        texts.append(first if first == last else f"{first} to {last}")
    return texts
