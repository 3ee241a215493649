"""The plan of a load: the state of each month, sizes, bytes and seconds, and warnings, before anything starts."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from rich.filesize import decimal

from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month, calendar_months_of, spans
from era5_pipeline.planning.current_contents import read_disk_space
from era5_pipeline.planning.disk_space import MonthDiskUse, StoragePolicy, storage_of
from era5_pipeline.planning.estimates import Figure, estimate_bytes, estimate_seconds
from era5_pipeline.planning.extent import Size, default_area, grid_indices
from era5_pipeline.sources.cds.request import fields_of
from era5_pipeline.sources.open_source import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
    from era5_pipeline.planning.disk_space import Storage
    from era5_pipeline.planning.estimates import Bytes, Seconds
    from era5_pipeline.planning.extent import Load
    from era5_pipeline.sources.zarr.chunk_plan import ChunkPlan
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry


# The state of a month. "loaded": a load leaves it alone. "other": the table holds places of the load, but from another
# source, with other variables or of another area. "elsewhere": it holds other places only. "early": it has begun, but
# cannot be complete yet. "future": it has not begun.
State = Literal["loaded", "incomplete", "other", "elsewhere", "missing", "early", "future"]
TO_LOAD: tuple[State, ...] = ("incomplete", "other", "elsewhere", "missing")

# Any month with 31 days.
_LONGEST_MONTH = Month(2020, 1)


@dataclass(frozen=True)
class Plan:
    """The state of each month of a load, and the size, bytes and seconds of the months to load.

    `largest` is the largest of these months, which takes `largest_home_bytes` below ERA5_HOME; `storage` is the most
    that all of them take at a time. `preliminary` are loaded months with hours that ECMWF will replace; `complete_from`
    says when a month can be complete; `warnings` are those of `plan_warnings`; `chunks` are those of a chunked source.
    """

    load: Load
    contents: CurrentContents
    disks: DiskSpace
    states: dict[Month, State]
    preliminary: tuple[Month, ...]
    complete_from: dict[Month, datetime]
    size: Size
    largest: Size
    largest_home_bytes: float
    bytes: Bytes
    seconds: Seconds
    storage: Storage
    warnings: tuple[str, ...] = ()
    chunks: ChunkPlan | None = None

    def months(self, *states: State) -> tuple[Month, ...]:
        """The months in these states, in order."""
        return tuple(month for month, state in self.states.items() if state in states)

    @property
    def to_load(self) -> tuple[Month, ...]:
        """The months that a load would load."""
        return self.months(*TO_LOAD)

    @property
    def has_requests_for_several(self) -> bool:
        """True if some requests are for several months."""
        return self.load.months_a_request > 1 and self.size.requests < len(self.to_load)

    @property
    def fields_of_largest_request(self) -> int:
        """The fields of the largest request; one for several months counts 31 days for each."""
        if self.has_requests_for_several:
            return self.load.months_a_request * fields_of(_LONGEST_MONTH, len(self.load.variables))
        return self.load.fields_of_largest_request(self.largest.fields)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON value, as `era5 plan --json` prints it; null means unknown."""
        load, size, seconds, to_load = self.load, self.size, self.seconds, self.to_load
        is_asked, has_limit = load.kind.is_queued, load.kind.is_queued and not load.kind.is_series
        area = None if load.points is not None else "global" if load.is_global else str(load.area)
        store = self.storage.store_bytes
        known = self.contents.months is not None
        figures = {
            "download_bytes": self.bytes.download,
            "raw_bytes": self.bytes.raw,
            "parquet_bytes": self.bytes.parquet,
            "table_bytes": self.bytes.table,
        }
        return {
            "from": str(load.months[0]),
            "to": str(load.months[-1]),
            "calendar_months": list(calendar_months_of(load.months) or ()) or None,
            "source": load.source,
            "variables": [variable.column for variable in load.variables],
            "area": area,
            "points": None if load.points is None else str(load.points),
            "locations": load.locations,
            "layout": self.contents.layout,
            "months": len(self.states),
            "months_loaded": len(self.months("loaded")) if known else None,
            "months_preliminary": len(self.preliminary) if known else None,
            "months_incomplete": len(self.months("incomplete")) if known else None,
            "months_held_otherwise": len(self.months("other")) if known else None,
            "months_held_elsewhere": len(self.months("elsewhere")) if known else None,
            "months_not_complete_yet": len(self.months("early")),
            "months_not_begun": len(self.months("future")),
            "months_to_load": len(to_load),
            "first_to_load": str(to_load[0]) if to_load else None,
            "last_to_load": str(to_load[-1]) if to_load else None,
            "loaded_not_known": None if known else self.contents.reason,
            "hours_of_data": size.hours,
            "requests": size.requests,
            "requests_at_once": load.kind.requests_at_once if is_asked else None,
            "fields": size.fields,
            "fields_of_largest_request": self.fields_of_largest_request if has_limit else None,
            "fields_allowed_per_request": load.dataset.cds_max_fields if has_limit else None,
            "rows": size.rows,
            "values": size.values,
            **{name: round(figure.value) for name, figure in figures.items()},
            "table_bytes_in_columnstore": round(self.bytes.columnstore),
            **({} if self.chunks is None else {"chunks": self.chunks.to_json()}),
            "hours": {
                "raw": seconds.raw.value / 3600,
                "all_but_raw": seconds.load.value / 3600,
                "all": seconds.all / 3600,
            },
            "known_from": {
                **{name: figure.known_from for name, figure in figures.items()},
                "raw_hours": seconds.raw.known_from,
                "all_but_raw_hours": seconds.load.known_from,
            },
            "keep": self.storage.policy.keep,
            "store": self.storage.policy.store,
            "months_at_once": self.storage.months_at_once,
            "home_needed_bytes": round(self.storage.home_bytes),
            "home_free_bytes": self.disks.home_free_bytes,
            "store_needed_bytes": None if store is None else round(store),
            "table_free_bytes": self.disks.table_free_bytes,
            "warnings": list(self.warnings),
        }


def plan_warnings(plan: Plan) -> tuple[str, ...]:
    """Return the warnings, one sentence each."""
    found = [*_time_warnings(plan), *_disk_warnings(plan)]
    if plan.load.is_open:
        found.append(
            "the files are not opened, and may hold fewer months, variables and locations: these figures are upper "
            "limits; --variables and --area lower them"
        )
    return tuple(found)


def _time_warnings(plan: Plan) -> Iterator[str]:
    if early := plan.months("early"):
        day, them = plan.complete_from[early[-1]].date(), "it" if len(early) == 1 else "them"
        yield f"{spans(early)} cannot be complete yet, and {_is(early)} not counted: load {them} from {day} on"
    if future := plan.months("future"):
        begun = [month for month in plan.load.months if month < future[0]]
        end = f"; end with --to {begun[-1]}" if begun else ""
        yield f"{spans(future)} {'has' if len(future) == 1 else 'have'} not begun, and {_is(future)} not counted{end}"


def _is(months: Sequence[Month]) -> str:
    return "is" if len(months) == 1 else "are"


def _disk_warnings(plan: Plan) -> Iterator[str]:
    disks, table = plan.disks, plan.bytes.table.value
    in_table = table if disks.is_one else 0.0
    needed = plan.storage.home_bytes + in_table
    smaller = "a smaller --area, fewer --variables, or fewer months at a time"
    if disks.home_free_bytes is not None and needed > disks.home_free_bytes:
        what = "raw and Parquet files and the table take" if in_table else "raw and Parquet files take"
        one_month = f"those of one month take {decimal(round(plan.largest_home_bytes))}"
        less = f"; or remove the files of loaded months (ERA5_KEEP), or keep them elsewhere (ERA5_STORE): {one_month}"
        yield (
            f"the disk of ERA5_HOME has {decimal(disks.home_free_bytes)} free, and {what} {decimal(round(needed))}: "
            f"set ERA5_HOME to another disk, or take {smaller}{less if plan.storage.keeps_all_here else ''}"
        )
    if disks.table_free_bytes is not None and table > disks.table_free_bytes:
        columnstore = f"; TimescaleDB's columnstore would take {decimal(round(plan.bytes.columnstore))}"
        yield (
            f"the disk of the embedded server has {decimal(disks.table_free_bytes)} free, and the table takes "
            f"{decimal(round(table))}: use another server (ERA5_DATABASE_URL), or take {smaller}"
            + ("" if plan.contents.layout == "columnstore" else columnstore)
        )


def read_plan(settings: Settings, load: Load, contents: CurrentContents, now: datetime) -> Plan:
    """Plan the load into a warehouse with these contents, by the free disk space and, of a Zarr store, its metadata."""
    count_chunks = None
    if load.kind.is_chunked:
        load, count_chunks = _opened_chunks(settings, load)
    return make_plan(
        load,
        contents,
        read_disk_space(settings),
        now=now,
        available_after_days=settings.available_after_days,
        policy=StoragePolicy.of(settings),
        count_chunks=count_chunks,
    )


def _opened_chunks(settings: Settings, load: Load) -> tuple[Load, Callable[[Sequence[Month]], ChunkPlan]]:
    """Look at the Zarr store of the settings: the load with its places and variables, and a counter of chunks.

    Reads metadata and axes, and asks for the size of one object of each variable.
    """
    from era5_pipeline.sources.zarr.chunk_plan import area_of, joined, plan_chunks, stored_rates  # noqa: PLC0415  # slow
    from era5_pipeline.sources.zarr.source import ZarrSource  # noqa: PLC0415  # slow

    source = source_of(settings, logging.getLogger(__name__).warning)
    assert isinstance(source, ZarrSource)  # noqa: S101  # for type checkers
    looked = []
    for of_store in source.stores(load.months):
        with of_store.opened() as (store, layout):
            axes = layout.axes_of(source.request.area)
            looked.append((layout, axes, stored_rates(store, layout, axes, load.months)))
    held = replace(
        load,
        variables=tuple(array.variable for layout, _, _ in looked for array in layout.arrays),
        area=source.request.area or area_of(axes),
        any_area=False,
    )
    return held, lambda months: joined(plan_chunks(layout, axes, months, rates) for layout, axes, rates in looked)


# A month of a much smaller area measures the overhead of a month rather than the rate of rows.
_COMPARABLE = 0.1


def make_plan(
    load: Load,
    contents: CurrentContents,
    disks: DiskSpace,
    *,
    now: datetime,
    available_after_days: int,
    policy: StoragePolicy | None = None,
    count_chunks: Callable[[Sequence[Month]], ChunkPlan] | None = None,
) -> Plan:
    """Plan the load into that warehouse, at the time `now` (aware), without a server, a network or a disk.

    A month counts as complete `available_after_days` after its end; a generated month always does. `policy`: None keeps
    all files below ERA5_HOME. `count_chunks` is that of a chunked source, for the months to load.
    """
    after = timedelta(days=available_after_days)
    parts = {held.month: held.parts for held in contents.months or ()}
    entries = {month: _part_of_request(load, parts.get(month, ())) for month in load.months}
    complete_from = {month: month.start if load.kind.is_generated else month.end + after for month in load.months}
    states = {month: _state(load, month, entries[month], now, complete_from[month]) for month in load.months}
    states |= {month: "elsewhere" for month, state in states.items() if state == "missing" and parts.get(month)}
    sizes = [load.size_of(month) for month, state in states.items() if state in TO_LOAD]
    requests = load.requests_of([month for month, state in states.items() if state in TO_LOAD], now)
    size = replace(sum(sizes, Size()), requests=requests)
    largest = max(sizes, key=lambda month: (month.fields, month.rows), default=Size())
    comparable = [part for of_month in parts.values() for part in of_month if _is_comparable(load, part)]
    largest_bytes = estimate_bytes(load, largest, comparable, contents.layout, contents.space)
    all_bytes = estimate_bytes(load, size, comparable, contents.layout, contents.space)
    chunks = None
    if count_chunks is not None and sizes:
        chunks = count_chunks([month for month, state in states.items() if state in TO_LOAD])
        if chunks.bytes is None:
            known_from = "at most: the chunks as numbers, since the sizes are not told"
            download = Figure(float(chunks.decoded_bytes), known_from)
        else:
            download = Figure(float(chunks.bytes), "by the size of one chunk of each variable")
        all_bytes = replace(all_bytes, download=download)
        size = replace(size, requests=chunks.requests)
    policy = policy or StoragePolicy()
    room = MonthDiskUse.of(load, largest, largest_bytes, policy.flat_format)
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
        seconds=estimate_seconds(load, size, len(sizes), comparable, all_bytes.download.value),
        storage=storage_of(policy, len(sizes), all_bytes, room),
        chunks=chunks,
    )
    return replace(plan, warnings=plan_warnings(plan))


def _part_of_request(load: Load, parts: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """Choose the part loaded by the same request, else any with some of its places; None if the table holds none."""
    same = [part for part in parts if _is_alike(load, part) and _is_same_area(load, part) and not part.is_cut]
    return next(iter([*same, *(part for part in parts if part.location_ids.overlaps(load.location_ids))]), None)


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
    """Return True if one load from this source, or all of them together, brought the same variables of the month."""
    loads = [(entry.source, entry.first_columns), *((one.source, one.columns) for one in entry.additions)]
    if entry.sources == (load.source,):
        loads.append((load.source, entry.column_names))
    wanted = {variable.column for variable in load.variables}
    return any(source == load.source and (load.any_variables or set(columns) == wanted) for source, columns in loads)


def _is_same_area(load: Load, entry: LedgerEntry) -> bool:
    if load.points is not None:
        return entry.location_ids == load.points
    grid = load.area.grid
    area = default_area(load.source, grid) if entry.area is None else Area.parse(entry.area, grid)
    return grid_indices(area) == grid_indices(load.area)


def _is_comparable(load: Load, entry: LedgerEntry) -> bool:
    """Return True if rates measured for this month apply to the requested months."""
    return (
        entry.state == "loaded"
        and not entry.is_cut
        # Sizes and times are those of the columns loaded together with the rows.
        and _is_alike(load, entry.of_columns(entry.first_columns))
        and entry.locations >= _COMPARABLE * load.locations
    )
