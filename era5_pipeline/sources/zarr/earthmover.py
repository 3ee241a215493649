"""The source `earthmover`: months from Earthmover's open Icechunk repository of ERA5, without a key or a queue.

A preset of the source `zarr`. The repository holds all values twice: cut in time, a year of 12 x 12 places a chunk, and
cut in space, an hour of the globe. Whichever takes fewer bytes for the months and places wanted is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.sources.zarr.presets import access_of
from era5_pipeline.sources.zarr.source import ZarrSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.source_kinds import Snapshot
    from era5_pipeline.sources.source import RawMonth, Request

# Hours, and latitudes or longitudes, of a chunk cut in time; the first is that of 1940-01-01 00:00, 90 N, 0 E.
_HOURS, _PLACES = 8736, 12
_TEMPORAL, _SPATIAL = "/temporal", "/spatial"


@dataclass(frozen=True)
class EarthmoverSource(ZarrSource):
    """Months of the repository, or a copy of it."""

    name: str = "earthmover"

    @override
    def for_months(self, months: Collection[Month]) -> ZarrSource:
        area = self.request.area or Area.parse("global", self.request.dataset.grid)
        return self._cut_in_space if _is_less_in_space(months, area) else self._cut_in_time

    @property
    def _cut_in_time(self) -> ZarrSource:
        return self._of_group(_TEMPORAL)

    @property
    def _cut_in_space(self) -> ZarrSource:
        return self._of_group(_SPATIAL)

    def _of_group(self, cut: str) -> ZarrSource:
        access = replace(self.access, url=f"{self.access.url.removesuffix(_TEMPORAL)}{cut}")
        kept = (self.refetch, self.say, self.pause, self.file_store, self.name, self.ahead)
        return ZarrSource(access, self.folder, self.request, *kept)

    @override
    def fetch(self, month: Month, together: Collection[Month] = ()) -> RawMonth:
        return self.for_months(together or (month,)).fetch(month, together)

    @override
    def known(self, month: Month) -> RawMonth | None:
        return self._cut_in_time.known(month) or self._cut_in_space.known(month)

    @override
    def lacked(self, month: Month, state: Snapshot) -> bool:
        return self._cut_in_time.lacked(month, state) or self._cut_in_space.lacked(month, state)

    @override
    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        self._with(raw).record_completeness(raw, is_complete=is_complete)

    @override
    def invalidate(self, raw: RawMonth) -> None:
        self._with(raw).invalidate(raw)

    def _with(self, raw: RawMonth) -> ZarrSource:
        """The source that has the files of the raw month, complete or not."""
        folder = self._cut_in_space.month_folder(raw.month)
        is_cut_in_space = any(file.path.parent == folder for file in raw.files)
        return self._cut_in_space if is_cut_in_space else self._cut_in_time


def _is_less_in_space(months: Collection[Month], area: Area) -> bool:
    """Return True if the hours of the months are fewer values in chunks of an hour than in those of a year."""
    hours = [hours_of_month(month) for month in months]
    first = hours_of_month(Month(FIRST_YEAR, 1)).start
    chunks = {
        number for of in hours for number in range((of.start - first) // _HOURS, (of.stop - 1 - first) // _HOURS + 1)
    }
    grid = area.grid
    rows = np.unique((grid.rows - 1 - area.latitude_indices()) // _PLACES).size
    columns = np.unique((area.longitude_indices() - (grid.columns // 2 - 1)) % grid.columns // _PLACES).size
    in_time = len(chunks) * _HOURS * rows * columns * _PLACES**2
    return sum(map(len, hours)) * grid.locations < in_time


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> EarthmoverSource:
    """Open the source described by the settings."""
    folder = settings.files_home / "raw" / ZarrSource.name
    file_store = FileStore.of(settings)
    return EarthmoverSource(access_of(settings), folder, request, settings.refetch, say, file_store=file_store)
