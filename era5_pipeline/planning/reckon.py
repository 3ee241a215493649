"""Work out how much a load of months is, before anything starts: from what the ledger has measured, else as documented.

It asks no server, no network and no disk. Not here: what the warehouse and the disks have (`holdings`), or what does
not fit (`cautions`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from era5_pipeline.model.grid import Area
from era5_pipeline.planning.cautions import cautions
from era5_pipeline.planning.estimates import bytes_of, seconds_of
from era5_pipeline.planning.extent import Size, default_area, grid_indices
from era5_pipeline.planning.load_plan import TO_LOAD, Plan

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.model.months import Month
    from era5_pipeline.planning.extent import Load
    from era5_pipeline.planning.holdings import Disks, Held
    from era5_pipeline.planning.load_plan import State
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# Months of a much smaller area tell how long it takes to begin and to end one, not how fast rows go.
_COMPARABLE = 0.1


def reckon(load: Load, held: Held, disks: Disks, *, now: datetime, available_after_days: int) -> Plan:
    """The plan of the load into that warehouse, at the time `now` (aware).

    Months count as complete so many days after their end; generated ones at any time.
    """
    after = timedelta(days=available_after_days)
    entries = {entry.month: entry for entry in held.entries or ()}
    complete_from = {month: month.start if load.kind.is_generated else month.end + after for month in load.months}
    states = {month: _state(load, month, entries.get(month), now, complete_from[month]) for month in load.months}
    sizes = [load.size_of(month) for month, state in states.items() if state in TO_LOAD]
    size = sum(sizes, Size())
    largest = max(sizes, key=lambda one: (one.fields, one.rows), default=Size())
    kin = [entry for entry in entries.values() if _is_kin(load, entry)]
    plan = Plan(
        load=load,
        held=held,
        disks=disks,
        states=states,
        preliminary=tuple(m for m, state in states.items() if state == "loaded" and entries[m].is_preliminary),
        complete_from=complete_from,
        size=size,
        largest=largest,
        largest_home_bytes=bytes_of(load, largest, kin, held.layout, held.space).home,
        bytes=bytes_of(load, size, kin, held.layout, held.space),
        seconds=seconds_of(load, size, len(sizes), kin, held.layout),
    )
    return replace(plan, warnings=cautions(plan))


def _state(load: Load, month: Month, entry: LedgerEntry | None, now: datetime, complete_from: datetime) -> State:
    is_same = entry is not None and entry.rows > 0 and _is_alike(load, entry) and _is_same_area(load, entry)
    if entry is not None and is_same and entry.state == "loaded":
        return "loaded"
    if month.start > now:
        return "future"
    if complete_from > now:
        return "early"
    if entry is None or entry.rows == 0:
        return "missing"
    return "incomplete" if is_same else "other"


def _is_alike(load: Load, entry: LedgerEntry) -> bool:
    """Whether the month came from the same source, with the same variables."""
    columns = {facts["column"] for facts in entry.columns}
    return entry.source == load.source and (load.any_variables or columns == {v.column for v in load.variables})


def _is_same_area(load: Load, entry: LedgerEntry) -> bool:
    area = default_area(load.source) if entry.area is None else Area.parse(entry.area)
    return grid_indices(area) == grid_indices(load.area)


def _is_kin(load: Load, entry: LedgerEntry) -> bool:
    """Whether what was measured of the month tells something of the months that are asked for."""
    return entry.state == "loaded" and _is_alike(load, entry) and entry.locations >= _COMPARABLE * load.locations
