"""Plan a load of months before anything starts, from rates that the ledger has measured, or documented ones.

No server, network or disk is used. Not here: reading the warehouse and the disks (`current_contents`), or the warnings
(`plan_warnings`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from era5_pipeline.model.grid import Area
from era5_pipeline.planning.estimates import estimate_bytes, estimate_seconds
from era5_pipeline.planning.extent import Size, default_area, grid_indices
from era5_pipeline.planning.file_storage import StoragePolicy, storage_of
from era5_pipeline.planning.load_plan import TO_LOAD, Plan
from era5_pipeline.planning.plan_warnings import plan_warnings
from era5_pipeline.planning.room import MonthRoom

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from era5_pipeline.model.months import Month
    from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
    from era5_pipeline.planning.extent import Load
    from era5_pipeline.planning.load_plan import State
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# A month of a much smaller area measures how long a month takes to begin and end, not how fast rows are processed.
_COMPARABLE = 0.1


def make_plan(
    load: Load,
    contents: CurrentContents,
    disks: DiskSpace,
    *,
    now: datetime,
    available_after_days: int,
    policy: StoragePolicy | None = None,
) -> Plan:
    """Plan the load into that warehouse, at the time `now` (aware).

    A month counts as complete `available_after_days` after its end; a generated month, always. `policy`: None keeps all
    files below ERA5_HOME.
    """
    after = timedelta(days=available_after_days)
    parts = {held.month: held.parts for held in contents.months or ()}
    entries = {month: _of_request(load, parts.get(month, ())) for month in load.months}
    complete_from = {month: month.start if load.kind.is_generated else month.end + after for month in load.months}
    states = {month: _state(load, month, entries.get(month), now, complete_from[month]) for month in load.months}
    sizes = [load.size_of(month) for month, state in states.items() if state in TO_LOAD]
    requests = load.requests_of([month for month, state in states.items() if state in TO_LOAD], now)
    size = replace(sum(sizes, Size()), requests=requests)
    largest = max(sizes, key=lambda month: (month.fields, month.rows), default=Size())
    comparable = [part for of_month in parts.values() for part in of_month if _is_comparable(load, part)]
    largest_bytes = estimate_bytes(load, largest, comparable, contents.layout, contents.space)
    all_bytes = estimate_bytes(load, size, comparable, contents.layout, contents.space)
    policy = policy or StoragePolicy()
    room = MonthRoom.of(load, largest, largest_bytes, policy.flat_format)
    plan = Plan(
        load=load,
        contents=contents,
        disks=disks,
        states=states,
        preliminary=tuple(
            month
            for month, state in states.items()
            if state == "loaded" and (entry := entries[month]) is not None and entry.is_preliminary
        ),
        complete_from=complete_from,
        size=size,
        largest=largest,
        largest_home_bytes=largest_bytes.home,
        bytes=all_bytes,
        seconds=estimate_seconds(load, size, len(sizes), comparable, contents.layout),
        storage=storage_of(policy, len(sizes), all_bytes, room),
    )
    return replace(plan, warnings=plan_warnings(plan))


def _of_request(load: Load, parts: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """Choose the part that the same request loaded; else any, None if the table does not hold the month."""
    same = [part for part in parts if _is_alike(load, part) and _is_same_area(load, part) and not part.is_cut]
    return next(iter([*same, *parts]), None)


def _state(load: Load, month: Month, entry: LedgerEntry | None, now: datetime, complete_from: datetime) -> State:
    is_same = entry is not None and _is_alike(load, entry) and _is_same_area(load, entry) and not entry.is_cut
    if entry is not None and is_same and entry.state == "loaded":
        return "loaded"
    if month.start > now:
        return "future"
    if complete_from > now:
        return "early"
    if entry is None:
        return "missing"
    return "incomplete" if is_same else "other"


def _is_alike(load: Load, entry: LedgerEntry) -> bool:
    """Whether a load from the same source brought the same variables of the month, or all of its loads together."""
    loads = [(entry.source, entry.first_columns), *((one.source, one.columns) for one in entry.additions)]
    if entry.sources == (load.source,):
        loads.append((load.source, entry.column_names))
    wanted = {variable.column for variable in load.variables}
    return any(source == load.source and (load.any_variables or set(columns) == wanted) for source, columns in loads)


def _is_same_area(load: Load, entry: LedgerEntry) -> bool:
    if load.points is not None:
        return entry.location_ids == load.points
    area = default_area(load.source) if entry.area is None else Area.parse(entry.area)
    return grid_indices(area) == grid_indices(load.area)


def _is_comparable(load: Load, entry: LedgerEntry) -> bool:
    """Whether rates measured for the month apply to the requested months."""
    return (
        entry.state == "loaded"
        and not entry.is_cut
        # Sizes and times are those of the columns that came with the rows.
        and _is_alike(load, entry.of_columns(entry.first_columns))
        and entry.locations >= _COMPARABLE * load.locations
    )
