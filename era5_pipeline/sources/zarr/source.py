"""The source `zarr`: months from any Zarr store of ERA5, whose chunks are read once for all months in them."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from era5_pipeline.model.errors import LocalDiskError, NoDataError, NotYetAvailableError
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import PRELIMINARY, YOUNG_MONTHS
from era5_pipeline.model.times import hours_of_month, time_of
from era5_pipeline.netcdf.cds_files import CdsFilePart, write_cds
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.runtime.files import digest_of, has_form, replacing, sha256_of
from era5_pipeline.runtime.http import without_credentials
from era5_pipeline.sources.source import RawFile, RawMonth, Request, Source, locked_month
from era5_pipeline.sources.zarr.layout import open_layout
from era5_pipeline.sources.zarr.presets import StoreAccess, access_of
from era5_pipeline.sources.zarr.reading import (
    bytes_of_unit,
    chunks_of_unit,
    describe_missing,
    hours_of_unit,
    is_in_memory,
    missing_hours,
    read_unit,
    units_of,
)
from era5_pipeline.sources.zarr.store import ReadOnlyStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.cds_files import Axes
    from era5_pipeline.sources.zarr.layout import Layout
    from era5_pipeline.sources.zarr.reading import Gathered

_FORM = 1
_ATTRIBUTES = {"Conventions": "CF-1.7", "title": "ERA5 hourly data on single levels, hours of a month"}


class _Process:
    """When this process began: pieces that were read since are not read again by it, even if they have gaps."""

    began = ""

    @classmethod
    def begin(cls) -> None:
        cls.began = datetime.now(tz=UTC).isoformat()


_Process.begin()
# A run is a copy of a process that was started earlier, whose imports it shares.
os.register_at_fork(after_in_child=_Process.begin)


@dataclass(frozen=True)
class Piece:
    """The file with the hours of a month that are in one unit of chunks, and when it was read (ISO 8601, UTC).

    It may change until it is `final` (no preliminary hours) and `whole` (no gaps).
    """

    name: str
    sha256: str
    bytes: int
    first_hour: int
    hours: int
    final: bool
    whole: bool
    read_at: str


@dataclass(frozen=True)
class MonthRecord:
    """The record of a month: its pieces by unit, the columns in them, and whether hours were missing (`short`)."""

    pieces: Mapping[str, Piece]
    columns: tuple[str, ...] = ()
    short: bool = False


@dataclass(frozen=True)
class ZarrSource(Source):
    """Months of the store of `access`, kept in `folder`; with `refetch`, pieces of earlier processes are read again.

    `file_store` has durable copies of finished pieces, if one is set, so that another machine can continue.
    """

    access: StoreAccess
    folder: Path
    request: Request = field(default_factory=Request)
    refetch: bool = False
    say: Callable[[str], None] = lambda _: None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    file_store: FileStore = LOCAL
    name: str = "zarr"

    @override
    def fetch(self, month: Month, together: Collection[Month] = ()) -> RawMonth:
        """Read the chunks with hours of the month, unless its pieces are there, for all months `together` in them.

        If the caller did not say, pieces of all months in the chunks are written: they will be asked for one by one.
        """
        lasts = "a chunk at a time; it gives up after six failures in a row"
        with locked_month(month, self.folder / f"{self._stem(month)}.lock", self.say, lasts):
            known = self._read(month)
            if self._is_current(month, known) and self._has_files(month, known):
                self.file_store.share_record(self._note(month), self._files(month, known))
                return self._raw_month(month, known)
            known = self._fetch(month, together)
            self._write(month, known)
            return self._raw_month(month, known)

    def _fetch(self, month: Month, together: Collection[Month]) -> MonthRecord:
        with self.opened() as (store, layout):
            self._require_extent(month, layout)
            axes = layout.axes_of(self.request.area)
            pieces = {}
            units = units_of(layout, hours_of_month(month))
            chunks = {number: chunks_of_unit(layout, axes, number) for number in units}
            done, total = 0, sum(chunks.values())
            for number, of_unit in chunks.items():
                with self._locked_unit(month, number, layout):
                    piece = self._kept(month, number, layout)
                    if piece is None:
                        report = partial(_report, done, total)
                        self._read_unit(month, together, number, store, layout, axes, report)
                        piece = self._read_piece(month, number)
                    if piece is not None:
                        pieces[f"{number:05d}"] = piece
                done += of_unit
            return MonthRecord(pieces, tuple(array.variable.column for array in layout.arrays))

    def for_months(self, months: Collection[Month]) -> ZarrSource:
        """The source as it reads these months: from which copy of the values, if the store has several."""
        del months
        return self

    @contextmanager
    def opened(self) -> Iterator[tuple[ReadOnlyStore, Layout]]:
        """Open the store and read its metadata, a few kilobytes and its axes."""
        access = self.access
        store = ReadOnlyStore.at(
            access.url,
            self.say,
            token=access.token,
            user=access.user,
            remedy=access.remedy,
            s3=access.s3,
            pause=self.pause,
        )
        try:
            yield store, self._layout_of(store)
        finally:
            store.close()

    def _layout_of(self, store: ReadOnlyStore) -> Layout:
        layout, _ = open_layout(store, self.request.wanted, self._required)
        return layout

    @property
    def _required(self) -> tuple[Variable, ...]:
        """The variables without which no month is read; without the others, their columns are NULL."""
        request = self.request
        if request.variables is None:
            return ()
        return tuple(v for v in request.variables if not request.is_open or v.column in request.named)

    @override
    def known(self, month: Month) -> RawMonth | None:
        """Return the complete month that was recorded, without looking for its files; None if it was not."""
        known = self._read(month)
        return self._raw_month(month, known) if self._is_current(month, known) else None

    @override
    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """Record whether the month was complete; pieces with gaps are read again next time."""
        known = self._read(raw.month)
        if known.pieces and known.short is is_complete:
            self._write(raw.month, MonthRecord(known.pieces, known.columns, not is_complete))

    @override
    def invalidate(self, raw: RawMonth) -> None:
        """Invalidate the pieces of the month; those of other months from the same chunks stay."""
        known = self._read(raw.month)
        for key in known.pieces:
            self._write_piece(raw.month, int(key), None)
        if known.pieces:
            self._write(raw.month, MonthRecord({}))

    # --- a unit of chunks ---

    def _locked_unit(self, month: Month, number: int, layout: Layout) -> AbstractContextManager[None]:
        """Hold the lock of a unit that other months share; the month's own is held already."""
        if _months_of(hours_of_unit(layout, number)) == [month]:
            return nullcontext()
        lock = self._unit_folder / f"c{number:05d}.lock"
        return locked_month(f"{month}: chunk {number} of {layout.shown}", lock, self.say, "it is read once")

    def _kept(self, month: Month, number: int, layout: Layout) -> Piece | None:
        """The month's piece of the unit, if it need not be read again."""
        piece, hours = self._read_piece(month, number), _common(hours_of_month(month), hours_of_unit(layout, number))
        if piece is None or (piece.first_hour, piece.hours) != (hours.start, len(hours)):
            return None
        return piece if self._may_keep(piece) and self.file_store.obtain(self._file(month, piece)) else None

    def _may_keep(self, piece: Piece) -> bool:
        return piece.read_at >= _Process.began or (piece.whole and not self.refetch)

    def _read_unit(
        self,
        month: Month,
        together: Collection[Month],
        number: int,
        store: ReadOnlyStore,
        layout: Layout,
        axes: Axes,
        report: Callable[[int], None],
    ) -> None:
        """Read the unit, and write the pieces of the month and of the others `together` that are not there."""
        hours = hours_of_unit(layout, number)
        wanted = together or _months_of(hours)
        months = [
            one for one in _months_of(hours) if one == month or (one in wanted and not self._kept(one, number, layout))
        ]
        self._require_room(month, number, layout, axes, months)
        gathered = read_unit(store, layout, axes, number, self._unit_folder, self.say, report)
        read_at = datetime.now(tz=UTC)
        for one in months:
            self._write_months_piece(one, number, layout, axes, gathered, read_at)
        gathered.remove()

    def _require_room(self, month: Month, number: int, layout: Layout, axes: Axes, months: list[Month]) -> None:
        """Refuse a unit that the disk cannot hold: all its values, if not in memory, and the files of its months."""
        places = axes.latitudes.size * axes.longitudes.size
        of_months = sum(4 * len(_common(hours_of_month(one), hours_of_unit(layout, number))) for one in months)
        needed = of_months * places * len(layout.arrays)
        if not is_in_memory(layout, axes, number):
            needed += bytes_of_unit(layout, axes, number)
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise LocalDiskError(
                f"{month} was not started: its chunks hold {len(hours_of_unit(layout, number)):,} hours of each place, "
                f"which take up to {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free in {self.folder}",
                remedy="Free space there, or set ERA5_HOME to a folder on a larger disk; or take a smaller --area, or "
                "fewer --variables.",
            )

    def _write_months_piece(
        self, month: Month, number: int, layout: Layout, axes: Axes, gathered: Gathered, read_at: datetime
    ) -> None:
        hours = _common(hours_of_month(month), gathered.hours)
        variables = tuple(array.variable for array in layout.arrays)
        versions = _versions(month, hours, layout, read_at)
        part = CdsFilePart("instant", variables, hours, versions)
        path = self.month_folder(month) / f"c{number:05d}.nc"
        before = self._read_piece(month, number)
        with replacing(path) as temporary:
            attributes = {**_ATTRIBUTES, "source": f"the Zarr store {layout.shown}, of which this is a copy"}
            values = {column: gathered.of(column, hours) for column in gathered.columns}
            write_cds(temporary, (part,), axes, attributes, [(hours, values)])
            if before is not None:
                # If the run is killed between file and record, the old digest must not stand for the new file.
                self._write_piece(month, number, None)
        missing = {
            variable.short_name: set(missing_hours(gathered.of(variable.column, hours), variable, hours))
            | (gathered.absent.get(variable.column, set()) & set(hours))
            for variable in variables
        }
        if text := describe_missing(missing):
            self.say(f"{month}: {layout.shown} lacks values of {text}")
        piece = Piece(
            name=path.name,
            sha256=sha256_of(path),
            bytes=path.stat().st_size,
            first_hour=hours.start,
            hours=len(hours),
            final=PRELIMINARY not in versions,
            whole=not text,
            read_at=read_at.isoformat(),
        )
        self._write_piece(month, number, piece)
        if len(hours) == month.hours:
            # All of the month: when it is asked for, the store need not be opened.
            self._write(month, MonthRecord({f"{number:05d}": piece}, tuple(v.column for v in variables)))
        if before is not None and before.sha256 != piece.sha256:
            self.file_store.supersede(self._file(month, before))

    def _require_extent(self, month: Month, layout: Layout) -> None:
        hours = hours_of_month(month)
        if hours.start >= layout.hours.stop:
            latest = f"{time_of(layout.hours.stop - 1):%Y-%m-%d %H:00}"
            raise NotYetAvailableError(
                f"{month} is not available yet in {layout.shown}: the latest hour there is {latest}",
                remedy="The store may be extended later; the source cds has newer months.",
            )
        if hours.stop <= layout.hours.start:
            raise NoDataError(
                f"{month}: {layout.shown} begins at {time_of(layout.hours.start):%Y-%m-%d %H:00}",
                remedy="Ask for a later month.",
            )

    # --- records ---

    def _is_current(self, month: Month, known: MonthRecord) -> bool:
        """Return True if the month is complete, and need not be read again."""
        is_complete = not known.short and sum(piece.hours for piece in known.pieces.values()) == month.hours
        earlier = any(piece.read_at < _Process.began for piece in known.pieces.values())
        return is_complete and not (self.refetch and earlier)

    def _has_files(self, month: Month, known: MonthRecord) -> bool:
        return all(self.file_store.obtain(file) for file in self._files(month, known))

    def _raw_month(self, month: Month, known: MonthRecord) -> RawMonth:
        left_out = [variable.column for variable in self.request.wanted if variable.column not in known.columns]
        return RawMonth(
            month=month,
            source=self.name,
            files=self._files(month, known),
            variables=known.columns,
            area=self.request.area_text,
            warnings=tuple(f"the Zarr store does not have {column}: it is NULL" for column in left_out),
        )

    def _files(self, month: Month, known: MonthRecord) -> tuple[RawFile, ...]:
        return tuple(self._file(month, known.pieces[key]) for key in sorted(known.pieces))

    def _file(self, month: Month, piece: Piece) -> RawFile:
        return RawFile(self.month_folder(month) / piece.name, piece.sha256, piece.bytes)

    def _read(self, month: Month) -> MonthRecord:
        value: Any = self.file_store.read_record(self._note(month))
        try:
            return self._record_of(value) if has_form(value, _FORM, self._note(month)) else MonthRecord({})
        except (TypeError, KeyError):
            return MonthRecord({})

    def _record_of(self, value: Any) -> MonthRecord:  # noqa: ANN401  # JSON is any
        pieces = {key: Piece(**piece) for key, piece in value["pieces"].items()}
        return MonthRecord(pieces, tuple(value["columns"]), value["short"])

    def _write(self, month: Month, known: MonthRecord) -> None:
        pieces = {key: asdict(piece) for key, piece in known.pieces.items()}
        value = {"form": _FORM, **self._request_json, "pieces": pieces, "columns": known.columns, "short": known.short}
        self.file_store.write_record(self._note(month), value, self._files(month, known))

    def _read_piece(self, month: Month, number: int) -> Piece | None:
        path = self._piece_note(month, number)
        value: Any = self.file_store.read_record(path)
        try:
            return Piece(**value["piece"]) if has_form(value, _FORM, path) and value["piece"] is not None else None
        except (TypeError, KeyError):
            return None

    def _write_piece(self, month: Month, number: int, piece: Piece | None) -> None:
        value = {"form": _FORM, "piece": None if piece is None else asdict(piece)}
        files = () if piece is None else (self._file(month, piece),)
        self.file_store.write_record(self._piece_note(month, number), value, files)

    def _note(self, month: Month) -> Path:
        return self.folder / f"{self._stem(month)}.json"

    def _piece_note(self, month: Month, number: int) -> Path:
        return self.month_folder(month) / f"c{number:05d}.json"

    def month_folder(self, month: Month) -> Path:
        """The folder of the month's pieces."""
        return self.folder / self._stem(month)

    @property
    def _unit_folder(self) -> Path:
        return self.folder / f"chunks-{self._digest}"

    def _stem(self, month: Month) -> str:
        return f"{month}-{self._digest}"

    @property
    def _digest(self) -> str:
        return digest_of(self._request_json)[:12]

    @property
    def _request_json(self) -> dict[str, Any]:
        return {
            "url": without_credentials(self.access.url),
            "variables": [variable.column for variable in self.request.wanted],
            "area": self.request.area_text,
        }


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> ZarrSource:
    """Open the source described by the settings: of any store, or of one that is known by name."""
    folder = settings.home / "raw" / ZarrSource.name
    file_store, name = FileStore.of(settings), settings.source_name
    return ZarrSource(access_of(settings), folder, request, settings.refetch, say, file_store=file_store, name=name)


def _report(before: int, total: int, read: int) -> None:
    progress.report("raw", before + read, total, "chunks")


def _common(hours: range, others: range) -> range:
    return range(max(hours.start, others.start), max(hours.start, others.start, min(hours.stop, others.stop)))


def _months_of(hours: range) -> list[Month]:
    """The months with any of these hours, ascending."""
    first, last = Month.of(time_of(hours.start)), Month.of(time_of(hours.stop - 1))
    return [Month.from_number(number) for number in range(first.number, last.number + 1)]


def _versions(month: Month, hours: range, layout: Layout, read_at: datetime) -> tuple[str, ...]:
    """The version of each hour; () if it is not known. Without a version in the store, young months are preliminary."""
    if stated := layout.versions_of(hours):
        return stated
    is_young = month.number >= Month.of(read_at).number - YOUNG_MONTHS
    return (PRELIMINARY,) * len(hours) if is_young else ()
