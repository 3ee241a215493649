"""The extent of a load: its months, variables and area, counted as hours, requests, fields, rows and values.

Exact counts only; bytes and hours of work are in `estimates`, and the state of the months in `load_plan`.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.land_mask import points_of
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.model.times import hour_of
from era5_pipeline.model.variables import DEFAULT_VARIABLES, in_table_order
from era5_pipeline.sources.cds.request import fields_of, months_a_request, months_together, portions_of, summed_before
from era5_pipeline.sources.open_source import own_files_of
from era5_pipeline.sources.source import Request

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings, SourceName
    from era5_pipeline.model.source_kinds import SourceKind
    from era5_pipeline.model.variables import Variable

_GLOBE = Area.parse("global", ERA5_GRID)


@dataclass(frozen=True)
class Size:
    """The size of one month, or of several together. `fields` are requested; values are those that ERA5 has."""

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
    """The requested load.

    `hours_at_most`: only the first hours of each month. `any_variables`, `any_area`: whatever the files hold; the plan
    is then an upper limit. `points`: the points of a requested series; each has `series_hours` until now.
    """

    months: tuple[Month, ...]
    source: SourceName
    variables: tuple[Variable, ...] = DEFAULT_VARIABLES
    area: Area = _GLOBE
    hours_at_most: int | None = None
    any_variables: bool = False
    any_area: bool = False
    points: LocationSet | None = None
    series_hours: int = 0
    dataset: Dataset = ERA5

    @classmethod
    def of(cls, settings: Settings, months: Iterable[Month]) -> Load:
        """Return the load that `era5 load` would do for these months with these settings."""
        source, variables, area = settings.source_name, settings.wanted_variables, settings.wanted_area
        kind, request, dataset = source_kind(source), Request.of(settings), settings.wanted_dataset
        if kind.is_series:
            # Imports the client of the service, which other sources do not need.
            from era5_pipeline.sources.point import offered_variables  # noqa: PLC0415

            return cls(
                months=tuple(months),
                source=source,
                variables=offered_variables(request),
                area=Area.parse("global", dataset.grid),
                points=settings.wanted_locations,
                series_hours=hour_of(datetime.now(tz=UTC)) - hour_of(dataset.first_month.start),
                dataset=dataset,
            )
        if variables == dataset.catalogue.variables and request.is_open:
            files = own_files_of(settings)
            variables = variables if files is None else in_table_order(files.columns())
        return cls(
            months=tuple(months),
            source=source,
            variables=variables or dataset.catalogue.default_variables,
            area=area or default_area(source, dataset.grid),
            hours_at_most=settings.sample_hours if kind.is_generated else None,
            any_variables=kind.has_own_files and (variables is None or request.is_open),
            any_area=(kind.has_own_files or kind.is_chunked) and area is None,
            dataset=dataset,
        )

    @property
    def kind(self) -> SourceKind:
        """The kind of its source."""
        return source_kind(self.source)

    @cached_property
    def locations(self) -> int:
        """The number of grid points: those of the area at which the data set has values, or the named ones."""
        if self.points is not None:
            return len(self.points)
        return len(self.location_ids) if self.dataset.is_land_only else _points_in(self.area)

    @cached_property
    def location_ids(self) -> LocationSet:
        """Those grid points."""
        return points_of(self.dataset, self.area) if self.points is None else self.points

    @property
    def is_global(self) -> bool:
        """True if the area is the whole grid."""
        return self.points is None and _points_in(self.area) == self.area.grid.locations

    @property
    def is_open(self) -> bool:
        """True if the files may hold less than the plan assumes."""
        return self.any_variables or self.any_area

    @property
    def requests_a_month(self) -> int:
        """Requests per month in the service's queue: several if there are more variables than one request may have.

        The hour before a month, if it needs that, is one more.
        """
        return self._requests_for(self.months[-1]) if self.kind.is_queued and not self.kind.is_series else 0

    def _requests_for(self, month: Month) -> int:
        return len(portions_of(self._request)) + int(summed_before(month, self._request) is not None)

    @property
    def months_a_request(self) -> int:
        """The most months of one request: several if the area is small."""
        return months_a_request(self._request) if self.kind.is_queued and not self.kind.is_series else 1

    def requests_of(self, months: Collection[Month], now: datetime) -> int:
        """The number of requests in the service's queue for these months; one covers several, if all are loaded."""
        if self.kind.is_series:
            return self.locations if months else 0
        if self.months_a_request == 1:
            return sum(map(self._requests_for, months)) if self.requests_a_month else 0
        together = {month: months_together(month, self._request, now) for month in months}
        return len({block if together.keys() >= set(block) else (month,) for month, block in together.items()})

    @property
    def _request(self) -> Request:
        return Request(self.variables, self.area, dataset=self.dataset)

    def fields_of_largest_request(self, month_fields: int) -> int:
        """The fields of the largest request of a month with `month_fields` fields."""
        largest = max(len(portion.wanted) for portion in portions_of(self._request))
        return month_fields * largest // len(self.variables)

    def size_of(self, month: Month) -> Size:
        """Count the month, without the requests that cover all months.

        Accumulations begin at 1940-01-01 07:00: earlier hours are requested, and empty.
        """
        asked = min(self.hours_at_most or month.hours, month.hours)
        # Those of the month before a variable begins are not there.
        before = [max(0, hour_of(variable.first_valid) - hour_of(month.start)) for variable in self.variables]
        hours = [max(0, asked - hours_before) for hours_before in before]
        accumulated = sum(n for n, v in zip(hours, self.variables, strict=True) if v.step_type != "instant")
        return Size(
            hours=max(hours),
            requests=self.requests_a_month,
            fields=fields_of(month, len(self.variables)) * asked // month.hours,
            rows=max(hours) * self.locations,
            instant_values=(sum(hours) - accumulated) * self.locations,
            accumulated_values=accumulated * self.locations,
            files=self._files_of(month),
        )

    def _files_of(self, month: Month) -> int:
        """The number of files: one per day from the Zarr store, one per point of a series, else one per step type."""
        if self.kind.is_series:
            return self.locations
        return month.hours // 24 if self.kind.has_daily_files else len({v.file_step_type for v in self.variables})


def default_area(source: SourceName, grid: Grid) -> Area:
    """The area of a load whose settings name none."""
    return Area.parse(source_kind(source).default_area, grid)


def _points_in(area: Area) -> int:
    return math.prod(len(indices) for indices in grid_indices(area))


@cache
def grid_indices(area: Area) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indices of the area's latitudes and longitudes: equal for equal sets of locations."""
    return tuple(area.latitude_indices().tolist()), tuple(area.longitude_indices().tolist())
