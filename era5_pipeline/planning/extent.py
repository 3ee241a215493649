"""How much of ERA5 a load is: its months, variables and area, as hours, requests, fields, rows and values.

Here: counting, exactly. Not here: bytes and hours of work (`estimates`), or which of the months are there (`plan`).
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from era5_pipeline.model.grid import N_LOCATIONS, Area
from era5_pipeline.model.hours import hour_of
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.sources.cds.request import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings, SourceName
    from era5_pipeline.model.source_kinds import SourceKind
    from era5_pipeline.model.variables import Variable

_GLOBE = Area.parse("global")


@dataclass(frozen=True)
class Size:
    """What a month is, or several together. `fields` are asked for; values are what ERA5 has of them."""

    hours: int = 0
    requests: int = 0
    fields: int = 0
    rows: int = 0
    instant_values: int = 0
    accumulated_values: int = 0
    files: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def values(self) -> int:
        """Values of all variables."""
        return self.instant_values + self.accumulated_values


@dataclass(frozen=True)
class Load:
    """The load that is asked for.

    `hours_at_most`: only so many first hours of each month. `any_variables`, `any_area`: left to the files that are
    there; the plan is then of what they hold at the most.
    """

    months: tuple[Month, ...]
    source: SourceName
    variables: tuple[Variable, ...] = VARIABLES
    area: Area = _GLOBE
    hours_at_most: int | None = None
    any_variables: bool = False
    any_area: bool = False

    @classmethod
    def of(cls, settings: Settings, months: Iterable[Month]) -> Load:
        """What `era5 load` would do of these months with these settings.

        Raises:
            UsageError: if a variable is unknown, or the area no rectangle on Earth.
        """
        source, variables, area = settings.source_name, settings.wanted_variables, settings.wanted_area
        kind = source_kind(source)
        return cls(
            months=tuple(months),
            source=source,
            variables=variables or VARIABLES,
            area=area or default_area(source),
            hours_at_most=settings.sample_hours if kind.is_generated else None,
            any_variables=kind.has_own_files and variables is None,
            any_area=kind.has_own_files and area is None,
        )

    @property
    def kind(self) -> SourceKind:
        """What kind of source it is loaded from."""
        return source_kind(self.source)

    @cached_property
    def locations(self) -> int:
        """Grid points of the area."""
        return math.prod(len(indices) for indices in grid_indices(self.area))

    @property
    def is_global(self) -> bool:
        """Whether the area is the whole grid."""
        return self.locations == N_LOCATIONS

    @property
    def is_open(self) -> bool:
        """Whether the files that are there may hold less."""
        return self.any_variables or self.any_area

    def size_of(self, month: Month) -> Size:
        """What the month is. Accumulations begin at 1940-01-01 07:00: the hours before are asked for, and empty."""
        asked = min(self.hours_at_most or month.hours, month.hours)
        hours = [max(0, asked - _hours_before(variable, month)) for variable in self.variables]
        accumulated = sum(n for n, v in zip(hours, self.variables, strict=True) if v.step_type == "accum")
        return Size(
            hours=max(hours),
            requests=1 if self.kind.is_queued else 0,
            fields=fields_of(month, len(self.variables)) * asked // month.hours,
            rows=max(hours) * self.locations,
            instant_values=(sum(hours) - accumulated) * self.locations,
            accumulated_values=accumulated * self.locations,
            # One a day of the Zarr store, else one of each kind of variable.
            files=month.hours // 24 if self.kind.has_daily_files else len({v.step_type for v in self.variables}),
        )


def default_area(source: SourceName) -> Area:
    """The area of a load that names none."""
    return Area.parse(source_kind(source).default_area)


@cache
def grid_indices(area: Area) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Indices of the area's latitudes and longitudes: the same for the same places, however the area is written."""
    return tuple(area.latitude_indices().tolist()), tuple(area.longitude_indices().tolist())


def _hours_before(variable: Variable, month: Month) -> int:
    """Hours of the month before the variable begins."""
    return max(0, hour_of(variable.first_valid) - hour_of(month.start))
