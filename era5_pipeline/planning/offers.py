"""Find which months the sources offer, which of several sources gives each month, and the tile around a place."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error, UsageError
from era5_pipeline.model.settings import read_settings
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.sources.open_source import source_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.source_kinds import Snapshot

# A larger tile is not a tile: the store's chunks are cut in space, and hold continents.
_MOST_PLACES = 10_000
_log = logging.getLogger(__name__)


def offered_months(settings: Settings, now: datetime) -> tuple[Month, ...]:
    """The complete months that the sources have now, ascending; reads the axes of stores in chunks."""
    offered = {month for name in settings.source_names for month in _offered_by(settings.of_source(name), now)}
    return tuple(sorted(offered))


@lru_cache(maxsize=8)  # a command asks for its months, and then for each month's source: the store is opened once
def _offered_by(settings: Settings, now: datetime) -> tuple[Month, ...]:
    return source_of(settings, _log.warning).offered_months(now, settings.available_after_days)


@dataclass(frozen=True)
class Offer:
    """The complete months of a source, and the newest snapshot of its store if it has any; or the `problem` of asking.

    `is_asked` is False if the months follow from the calendar.
    """

    source: str
    is_asked: bool
    months: tuple[Month, ...] = ()
    state: Snapshot | None = None
    problem: str | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.source}: {self.problem}"
        held = f"{self.months[0]} to {self.months[-1]}" if self.months else "no complete month"
        state = "" if self.state is None else f", snapshot {self.state}"
        return f"{self.source}: {held}{state}{'' if self.is_asked else ' (by the calendar: the service is not asked)'}"

    def to_json(self) -> dict[str, Any]:
        """The JSON value of `era5 status --sources --json`."""
        first, last = (str(self.months[0]), str(self.months[-1])) if self.months else (None, None)
        state = None if self.state is None else asdict(self.state)
        found = {"source": self.source, "first_month": first, "last_month": last, "months": len(self.months)}
        return {**found, "is_asked": self.is_asked, "snapshot": state, "problem": self.problem}


def offers_of(settings: Settings, now: datetime) -> list[Offer]:
    """Ask each source of the settings what it offers; one that does not answer says why."""
    found = []
    for name in settings.source_names:
        is_asked = source_kind(name).is_chunked
        try:
            one = settings.of_source(name)
            source = source_of(one, _log.warning)
            months = source.offered_months(now, one.available_after_days)
            found.append(Offer(name, is_asked, months, source.state()))
        except Era5Error as error:
            found.append(Offer(name, is_asked, problem=error.message))
    return found


def sources_of_months(settings: Settings, months: Collection[Month], now: datetime) -> dict[Month, dict[str, Any]]:
    """Overrides of the settings for each month: the sources from the first that offers it on, and its points.

    Months that none offers are left to the last.
    """
    found: dict[Month, dict[str, Any]] = {}
    for number, name in enumerate(settings.source_names):
        left = [month for month in months if month not in found]
        if left and number < len(settings.source_names) - 1:
            offered = frozenset(_offered_by(settings.of_source(name), now))
            left = [month for month in left if month in offered]
        overrides: dict[str, Any] = {"source": ",".join(settings.source_names[number:])}
        if overrides["source"] == name and source_kind(name).is_series:
            overrides |= settings.of_source(name).model_dump(include={"point", "area"})
        found |= dict.fromkeys(left, overrides)
    return {month: found[month] for month in months}


def with_tile(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides of the settings with the area of all places in the chunks of their place.

    Raises:
        UsageError: if there is no place, or its source is no store whose chunks hold a neighbourhood.
    """
    from era5_pipeline.sources.zarr.source import ZarrSource  # noqa: PLC0415  # slow, and of no use to most loads

    settings = read_settings(**overrides)
    if settings.area is None or not source_kind(settings.source_name).is_chunked:
        raise UsageError(
            "--tile is for a place (--place, or --lat and --lon) of a store in chunks",
            remedy="Leave it out, or name a store: --store ADDRESS, or --source earthmover.",
        )
    source = source_of(settings, _log.warning)
    assert isinstance(source, ZarrSource)  # noqa: S101  # for type checkers
    tile = source.tile()
    if tile is None or tile.latitude_indices().size * tile.longitude_indices().size > _MOST_PLACES:
        held = tile or "places that are not side by side"
        raise UsageError(
            f"the chunks of {source.access.url} with {settings.area} hold {held}: that is no tile",
            remedy="Leave out --tile, or give an area (--area NORTH/WEST/SOUTH/EAST).",
        )
    return {**overrides, "area": str(tile)}
