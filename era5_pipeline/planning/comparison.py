"""Comparison of the sources for the same months and places: requests, bytes, wait, and missing variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import SOURCE_KINDS, SOURCE_OF_STORES, YOUNG_MONTHS
from era5_pipeline.model.times import spoken
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.netcdf.cds_files import Axes
from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
from era5_pipeline.planning.estimates import measured_rates
from era5_pipeline.planning.extent import Load
from era5_pipeline.planning.load_plan import make_plan
from era5_pipeline.sources.open_source import source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.source_kinds import SourceKind
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.planning.load_plan import Plan
    from era5_pipeline.sources.zarr.chunk_plan import ChunkPlan

# Above this many places, point series are not offered.
_MOST_POINTS = 25
# A request for a chunk takes about so long, besides its bytes.
_SECONDS_PER_REQUEST = 0.1
_MEGABYTES_PER_SECOND = (200, 10)


@dataclass(frozen=True)
class Offer:
    """Cost of a source. `hours` are the least and the most that the download may wait; None if unknown."""

    source: str
    requests: int | None
    bytes: int | None
    hours: tuple[float, float] | None
    notes: tuple[str, ...] = ()

    @property
    def wait(self) -> str:
        """The wait in words."""
        if self.hours is None:
            return "?"
        least, most = (spoken(hours * 3600) for hours in self.hours)
        return least if least == most else f"{least} to {most}"

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value; null means unknown."""
        hours = None if self.hours is None else {"least": self.hours[0], "most": self.hours[1]}
        values = {"source": self.source, "requests": self.requests, "download_bytes": self.bytes, "wait_hours": hours}
        return {**values, "notes": list(self.notes)}


def opened_chunks(settings: Settings, load: Load) -> tuple[Load, Callable[[Sequence[Month]], ChunkPlan]]:
    """Look at the Zarr store of the settings: the load with its places and variables, and a counter of chunks.

    Reads metadata and axes, and asks for the size of one object of each variable.
    """
    from era5_pipeline.sources.zarr.chunk_plan import area_of, plan_chunks, stored_rates  # noqa: PLC0415  # slow
    from era5_pipeline.sources.zarr.source import ZarrSource  # noqa: PLC0415  # slow

    source = source_of(settings)
    assert isinstance(source, ZarrSource)  # noqa: S101  # for type checkers
    with source.opened() as (store, layout):
        axes = layout.axes_of(source.request.area)
        rates = stored_rates(store, layout, axes, load.months)
    held = replace(
        load,
        variables=tuple(array.variable for array in layout.arrays),
        area=source.request.area or area_of(axes),
        any_area=False,
    )
    return held, lambda months: plan_chunks(layout, axes, months, rates)


def compare_sources(settings: Settings, months: Sequence[Month], now: datetime) -> tuple[Offer, ...]:
    """Return an offer of each service, and of each documented Zarr store, for the months that have begun.

    The store of the settings, if any, is looked at as by `opened_chunks`; no other service is contacted.
    """
    begun = tuple(month for month in months if month.start <= now)
    variables, area = settings.wanted_variables or DEFAULT_VARIABLES, settings.wanted_area
    asked = Load(begun, SOURCE_OF_STORES, variables)
    asked = asked if area is None else replace(asked, area=area)
    offers: list[Offer] = []
    for kind in SOURCE_KINDS.values():
        if kind.is_chunked:
            offers += _of_stores(settings, asked, now)
        elif kind.is_series:
            offers += _of_series(kind, asked, now)
        elif kind.is_service:
            offers.append(_offer(kind.name, _planned(replace(asked, source=kind.name), now), ()))
    return tuple(offers)


def _planned(load: Load, now: datetime) -> Plan:
    # Of an empty warehouse: what is loaded already differs by source.
    contents = CurrentContents(layout="partitions")
    return make_plan(load, contents, DiskSpace(), now=now, available_after_days=0)


def _offer(name: str, plan: Plan, notes: tuple[str, ...]) -> Offer:
    hours = [guess["hours"] for guess in plan.guesses]
    return Offer(
        source=name,
        # Of whole hours of the globe: one for each hour of each variable.
        requests=plan.size.fields if plan.load.kind.downloads_globe else plan.size.requests,
        bytes=round(plan.bytes.download.value or 0.0),
        hours=(min(hours), max(hours)) if hours else None,
        notes=notes,
    )


def _of_series(kind: SourceKind, asked: Load, now: datetime) -> Iterator[Offer]:
    from era5_pipeline.sources.point import OFFERED  # noqa: PLC0415  # imports the client of the service

    offered = tuple(variable for variable in asked.variables if variable.cds_name in OFFERED)
    if asked.locations > _MOST_POINTS or not offered:
        return
    load = replace(
        asked,
        source=kind.name,
        variables=offered,
        points=LocationSet.of_area(asked.area),
        series_hours=int((now - Month(1940, 1).start).total_seconds()) // 3600,
    )
    lacks = _lacking(variable for variable in asked.variables if variable not in offered)
    yield _offer(kind.name, _planned(load, now), (*lacks, _no_version()))


def _of_stores(settings: Settings, asked: Load, now: datetime) -> Iterator[Offer]:
    from era5_pipeline.sources.zarr.chunk_plan import plan_chunks, preset_geometry  # noqa: PLC0415  # slow to import
    from era5_pipeline.sources.zarr.presets import PRESETS, READ_ON  # noqa: PLC0415  # slow to import

    name = SOURCE_OF_STORES
    if settings.zarr_url is not None and settings.zarr_url not in PRESETS:
        try:
            load, count = opened_chunks(settings.model_copy(update={"source": name}), asked)
        except Era5Error as error:
            yield Offer(name, None, None, None, (error.message,))
        else:
            lacks = _lacking(variable for variable in asked.variables if variable not in load.variables)
            yield _of_chunks(name, count(load.months), (settings.zarr_url, *lacks))
    for preset in PRESETS.values():
        held = tuple(variable for variable in asked.variables if variable.column not in preset.lacks)
        if not held:
            continue
        geometry = preset_geometry(preset, held, max(asked.months))
        rates = {one.name: measured_rates().stored.instant / one.item_bytes for one in geometry.arrays}
        chunks = plan_chunks(geometry, Axes.of(asked.area), asked.months, rates)
        tried = f"as documented on {READ_ON}, not tried against the service"
        lacks = _lacking(variable for variable in asked.variables if variable not in held)
        notes = (preset.note,) if preset.note else ()
        yield _of_chunks(f"{name} --store {preset.name}", chunks, (*lacks, "needs a token", *notes, tried))


def _of_chunks(source: str, chunks: ChunkPlan, notes: tuple[str, ...]) -> Offer:
    from era5_pipeline.sources.zarr.chunk_plan import REQUESTS_AT_ONCE  # noqa: PLC0415  # slow to import

    size = chunks.decoded_bytes if chunks.bytes is None else chunks.bytes
    asking = chunks.requests * _SECONDS_PER_REQUEST / REQUESTS_AT_ONCE
    least, most = (max(size / 1e6 / rate, asking) / 3600 for rate in _MEGABYTES_PER_SECOND)
    return Offer(source, chunks.requests, size, (least, most), notes)


def _lacking(variables: Iterator[Variable]) -> tuple[str, ...]:
    names = ", ".join(variable.column for variable in variables)
    return (f"lacks {names}",) if names else ()


def _no_version() -> str:
    return f"states no version: months younger than {YOUNG_MONTHS} months count as preliminary"
