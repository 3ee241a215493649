"""The source `arco`: months from ARCO-ERA5, Google's public copy of ERA5 as Zarr, without a key or a queue.

A preset of the source `zarr`: a chunk is an hour of the globe, so a month is read day by day, and the store's
attributes say which hours it has and which are final. The time axis always runs from 1900 to 2050.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from era5_pipeline.model.errors import SourceError
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.runtime.http import without_credentials
from era5_pipeline.sources.zarr.presets import StoreAccess
from era5_pipeline.sources.zarr.source import MonthRecord, Piece, ZarrSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.source import Request
    from era5_pipeline.sources.zarr.layout import Layout
    from era5_pipeline.sources.zarr.store import ReadOnlyStore

_REMEDY = (
    "Correct ERA5_ARCO_URL, or leave it unset for the public store. If it fails again, fetch the month from the source "
    "cds."
)


@dataclass(frozen=True)
class ArcoSource(ZarrSource):
    """Months of a copy of ARCO-ERA5; with `refetch`, days are read again that were not final, or lacked values."""

    name: str = "arco"

    @property
    @override
    def _required(self) -> tuple[Variable, ...]:
        return self.request.wanted

    @override
    def _layout_of(self, store: ReadOnlyStore) -> Layout:
        layout = super()._layout_of(store)
        lacking = "valid_time_stop among its attributes"
        if layout.final_until is not None:
            held, grid = (layout.latitude_index.size, layout.longitude_index.size), layout.grid
            if held == (grid.rows, grid.columns):
                return layout
            lacking = f"the whole grid: it has {held[0]} latitudes, not {grid.rows}, and {held[1]} longitudes"
        raise SourceError(
            f"{layout.shown} does not have the layout of ARCO-ERA5: it lacks {lacking}", remedy=store.remedy
        )

    @override
    def _may_keep(self, piece: Piece) -> bool:
        return piece.whole and (piece.final or not self.refetch)

    @override
    def _is_current(self, month: Month, known: MonthRecord) -> bool:
        return not self.refetch and super()._is_current(month, known)

    # --- months that were fetched before arco was a preset: a file and an entry of the record for each day ---

    @override
    def _record_of(self, value: Any) -> MonthRecord:
        if "days" not in value:
            return super()._record_of(value)
        pieces = {
            key.replace("-", ""): Piece(
                name=day["name"],
                sha256=day["sha256"],
                bytes=day["bytes"],
                first_hour=0,
                hours=day["hours"],
                final=day["final"],
                whole=day["whole"],
                read_at="",
            )
            for key, day in value["days"].items()
        }
        return MonthRecord(pieces, tuple(value["variables"]), value["short"])

    @override
    def _fetch(self, month: Month, together: Collection[Month]) -> MonthRecord:
        before = self._files(month, self._read(month))
        known = super()._fetch(month, together)
        paths = {file.path for file in self._files(month, known)}
        for file in before:
            if file.path not in paths:
                self.file_store.discard(file)
        return known


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> ArcoSource:
    """Open the source described by the settings."""
    folder = settings.files_home / "raw" / ArcoSource.name
    file_store = FileStore.of(settings)
    return ArcoSource(access_of(settings.arco_url), folder, request, settings.refetch, say, file_store=file_store)


def access_of(url: str) -> StoreAccess:
    """The address, and the user and password in it, which are sent as a header."""
    parts = urlsplit(url)
    user, password = (None if text is None else unquote(text) for text in (parts.username, parts.password))
    return StoreAccess(without_credentials(url), user, password, _REMEDY)
