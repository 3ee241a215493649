"""The source `zarr`: months from any Zarr store of ERA5, whose chunks are read once for all months in them."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from typing_extensions import override

from era5_pipeline.model.errors import LocalDiskError, NoDataError, NotYetAvailableError
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import BY_AGE, FINAL, PRELIMINARY, YOUNG_MONTHS, Snapshot
from era5_pipeline.model.times import hours_of_month, time_of
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.cds_files import CdsFilePart, write_cds
from era5_pipeline.netcdf.contents import UNKNOWN_EXPVER
from era5_pipeline.netcdf.field_reader import contents_of, keep_written
from era5_pipeline.netcdf.signs import named_in
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.runtime.files import REMADE_BYTES, digest_of, has_form, replacing, sha256_of
from era5_pipeline.runtime.http import without_credentials
from era5_pipeline.sources.source import RawFile, RawMonth, Request, Source, locked_month
from era5_pipeline.sources.zarr.chunk_plan import area_within
from era5_pipeline.sources.zarr.icechunk_objects import SnapshotGoneError
from era5_pipeline.sources.zarr.layout import open_layout
from era5_pipeline.sources.zarr.presets import StoreAccess, access_of, require_told
from era5_pipeline.sources.zarr.read_ahead import ReadAhead
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

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.cds_files import Axes, Float32
    from era5_pipeline.sources.zarr.layout import Layout
    from era5_pipeline.sources.zarr.reading import Gathered

_FORM = 1


class _Process:
    """When this process began: pieces that were read since are not read again by it, even if they have gaps.

    `told` is what it has said once and for all months.
    """

    began = ""
    told: ClassVar[set[str]] = set()

    @classmethod
    def begin(cls) -> None:
        cls.began = datetime.now(tz=UTC).isoformat()


_Process.begin()
# A run is a copy of a process that was started earlier, whose imports it shares.
os.register_at_fork(after_in_child=_Process.begin)


@dataclass(frozen=True)
class Piece:
    """The file with the hours of a month that are in one unit of chunks, and when it was read (ISO 8601, UTC).

    It may change until it is `final` (no preliminary hours) and `whole` (no gaps). `snapshot` is the state of the store
    that was read, if it has several: all pieces of a month are of one.
    """

    name: str
    sha256: str
    bytes: int
    first_hour: int
    hours: int
    final: bool
    whole: bool
    read_at: str
    snapshot: Snapshot | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Piece:
        """Build the piece from the JSON of `asdict`."""
        return cls(**{**value, "snapshot": Snapshot.from_json(value.get("snapshot"))})


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
    ahead: ReadAhead | None = field(default=None, repr=False, compare=False)

    @override
    @contextmanager
    def in_turn(self) -> Iterator[Self]:
        """The source that keeps its store open, and reads the next unit of chunks while months of one are processed."""
        with closing(ReadAhead()) as ahead:
            yield replace(self, ahead=ahead)

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
        with self.opened(hours_of_month(month).stop) as (store, layout):
            self._pin(layout.snapshot)
            self._require_extent(month, layout)
            axes = layout.axes_of(self.request.area)
            pieces = {}
            units = units_of(layout, self._hours(month))
            chunks = {number: chunks_of_unit(layout, axes, number) for number in units}
            done, total = 0, sum(chunks.values())
            for number, of_unit in chunks.items():
                with self._locked_unit(month, number, layout):
                    piece = self._kept(month, number, layout)
                    if piece is None:
                        report = partial(_report, done, total)
                        self._read_unit(month, together, number, store, layout, axes, report)
                        self._read_ahead(number + 1, together, store, layout, axes)
                        piece = self._read_piece(month, number)
                    if piece is not None:
                        pieces[f"{number:05d}"] = piece
                done += of_unit
            columns = tuple(array.variable.column for array in layout.arrays)
            return MonthRecord(pieces, columns, short=not all(piece.whole for piece in pieces.values()))

    @override
    def offered_months(self, now: datetime, available_after_days: int) -> tuple[Month, ...]:
        """The months of which the store's newest state has all hours, ascending."""
        with self._opened_at(None) as (_, layout):
            held = layout.hours
        return tuple(
            month for month in _months_of(held) if _common(hours_of_month(month), held) == hours_of_month(month)
        )

    @override
    def state(self) -> Snapshot | None:
        with self._opened_at(None) as (_, layout):
            return layout.snapshot

    @override
    def final_months(self) -> frozenset[Month]:
        """The months of which the store's newest state has all hours in final form, by its word or by their age.

        Of a store with snapshots, without those of which it is known to lack values.
        """
        with self._opened_at(None) as (_, layout):
            state = layout.snapshot
            as_of = datetime.now(tz=UTC) if state is None else datetime.fromisoformat(state.written_at)
            hours = {month: _common(hours_of_month(month), layout.hours) for month in _months_of(layout.hours)}
            whole = [month for month, held in hours.items() if len(held) == month.hours]
            versions = {month: set(_versions(month, hours[month], layout, as_of)) for month in whole}
            final = (month for month in whole if versions[month] and versions[month] <= {FINAL, BY_AGE})
            return frozenset(month for month in final if state is None or not self.lacked(month, state))

    def lacked(self, month: Month, state: Snapshot) -> bool:
        """Return True if an earlier load of the month found that this state of the store lacks values."""
        known = self._read(month)
        return known.short and state in {piece.snapshot for piece in known.pieces.values()}

    def tile(self) -> Area | None:
        """The largest area that the chunks of the area hold; None if they are not side by side."""
        with self.opened() as (_, layout):
            return area_within(layout, layout.axes_of(self.request.area))

    def for_months(self, months: Collection[Month]) -> ZarrSource:
        """The source as it reads these months: from which copy of the values, if the store has several."""
        del months
        return self

    def stores(self, months: Collection[Month]) -> tuple[ZarrSource, ...]:
        """The sources of the stores that are read for these months: one, unless the variables are in several."""
        return (self.for_months(months),)

    @contextmanager
    def opened(self, end_hour: int = 0) -> Iterator[tuple[ReadOnlyStore, Layout]]:
        """Open the store and read its metadata, a few kilobytes and its axes.

        Of a store with snapshots, the one that an earlier load of the same months was begun with is read, unless it
        lacks hours before `end_hour` (since 1970) or is gone.
        """
        if (kept := self._kept_open(end_hour)) is not None:
            yield kept
            return
        with ExitStack() as stack:
            opened = self._open(stack, end_hour)
            if self.ahead is not None:
                self.ahead.keep(self.access.url, *opened, stack.pop_all())
            yield opened

    def _kept_open(self, end_hour: int) -> tuple[ReadOnlyStore, Layout] | None:
        """The store that was opened for an earlier month, if it is the one to read."""
        if self.ahead is None or self.ahead.store is None:
            return None
        url, store, layout = self.ahead.store
        is_same = url == self.access.url and self._pinned() in (None, layout.snapshot)
        return (store, layout) if is_same and store.is_usable and end_hour <= layout.hours.stop else None

    def _open(self, stack: ExitStack, end_hour: int) -> tuple[ReadOnlyStore, Layout]:
        if (pinned := self._pinned()) is not None:
            try:
                opened = stack.enter_context(self._opened_at(pinned))
            except SnapshotGoneError:
                self.say(f"{self._shown}: the snapshot {pinned} is gone: the newest is read instead")
            else:
                if end_hour <= opened[1].hours.stop:
                    return opened
        return stack.enter_context(self._opened_at(None))

    @contextmanager
    def _opened_at(self, snapshot: Snapshot | None) -> Iterator[tuple[ReadOnlyStore, Layout]]:
        access = self.access
        store = ReadOnlyStore.at(
            access.url,
            self.say,
            token=access.token,
            user=access.user,
            remedy=access.remedy,
            s3=access.s3,
            snapshot=None if snapshot is None else snapshot.id,
            pause=self.pause,
        )
        try:
            yield store, self._layout_of(store)
        finally:
            store.close()

    def _pinned(self) -> Snapshot | None:
        """The snapshot that loads of these places and variables read; None: none yet, or the newest is wanted."""
        value: Any = self.file_store.read_record(self._pin_note)
        if not has_form(value, _FORM, self._pin_note) or (self.refetch and value["pinned_at"] < _Process.began):
            return None
        return Snapshot.from_json(value["snapshot"])

    def _pin(self, snapshot: Snapshot | None) -> None:
        if snapshot is not None and snapshot != self._pinned():
            self.say(f"{self._shown}: snapshot {snapshot}")
            value = {"form": _FORM, "snapshot": asdict(snapshot), "pinned_at": datetime.now(tz=UTC).isoformat()}
            self.file_store.write_record(self._pin_note, value)

    def _layout_of(self, store: ReadOnlyStore) -> Layout:
        layout, _ = open_layout(store, self.request.wanted, self._required, self.request.dataset)
        return layout

    @property
    def _required(self) -> tuple[Variable, ...]:
        """The variables without which no month is read; without the others, their columns are NULL."""
        return tuple(variable for variable in self.request.wanted if self.request.requires(variable))

    @override
    def known(self, month: Month) -> RawMonth | None:
        """Return the complete month that was recorded, without looking for its files; None if it was not."""
        known = self._read(month)
        return self._raw_month(month, known) if self._is_current(month, known) else None

    @override
    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """Record whether the month was complete; pieces with gaps are read again next time."""
        known = self._read(raw.month)
        short = not is_complete or not all(piece.whole for piece in known.pieces.values())
        if known.pieces and known.short is not short:
            self._write(raw.month, MonthRecord(known.pieces, known.columns, short))

    @override
    def invalidate(self, raw: RawMonth) -> None:
        """Invalidate the pieces of the month; those of other months from the same chunks stay."""
        known = self._read(raw.month)
        for key in known.pieces:
            self._write_piece(raw.month, int(key), None)
        if known.pieces:
            self._write(raw.month, MonthRecord({}))

    @property
    @override
    def dataset(self) -> Dataset:
        return self.request.dataset

    def _hours(self, month: Month) -> range:
        """The hours to read for the month; of sums since 00 UTC also the one before, for the amounts of its first."""
        hours = hours_of_month(month)
        has_before = self._has_sums and month > self.dataset.first_month
        return range(hours.start - int(has_before), hours.stop)

    @property
    def _has_sums(self) -> bool:
        """True if accumulations are sums since 00 UTC: as in its data set's own files, unless the address says other.

        The files of months have the address, by which their accumulations are told, too.
        """
        sign = named_in(self._shown)
        return self.dataset.accumulation == "day" and (sign is None or sign.accumulation == "day")

    def _months_with(self, hours: range) -> list[Month]:
        """The months for which any of these hours are read, ascending."""
        return _months_of(range(hours.start, hours.stop + int(self._has_sums)))

    # --- a unit of chunks ---

    def _locked_unit(self, month: Month, number: int, layout: Layout) -> AbstractContextManager[None]:
        """Hold the lock of a unit that other months share; the month's own is held already."""
        if self._months_with(hours_of_unit(layout, number)) == [month]:
            return nullcontext()
        lock = self._unit_folder / f"c{number:05d}.lock"
        return locked_month(f"{month}: chunk {number} of {layout.shown}", lock, self.say, "it is read once")

    def _kept(self, month: Month, number: int, layout: Layout) -> Piece | None:
        """The month's piece of the unit, if it need not be read again."""
        piece, hours = self._read_piece(month, number), _common(self._hours(month), hours_of_unit(layout, number))
        if piece is None or (piece.first_hour, piece.hours) != (hours.start, len(hours)):
            return None
        if piece.snapshot != layout.snapshot:
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
        held = self._months_with(hours_of_unit(layout, number))
        wanted = together or held
        months = [one for one in held if one == month or (one in wanted and not self._kept(one, number, layout))]
        self._require_room(month, number, layout, axes, months)
        gathered = None if self.ahead is None else self.ahead.take(number)
        if gathered is None:
            gathered = read_unit(store, layout, axes, number, self._unit_folder, self.say, report)
        read_at = datetime.now(tz=UTC)
        for one in months:
            self._write_months_piece(one, number, layout, axes, gathered, read_at)
        gathered.remove()

    def _read_ahead(
        self, number: int, together: Collection[Month], store: ReadOnlyStore, layout: Layout, axes: Axes
    ) -> None:
        """Read a unit that months `together` want in a thread, unless others too may gather it in its file."""
        months = [one for one in self._months_with(hours_of_unit(layout, number)) if one in together]
        if self.ahead is None or all(self.known(one) for one in months) or not is_in_memory(layout, axes, number):
            return
        report = partial(_report, 0, chunks_of_unit(layout, axes, number))
        read = partial(read_unit, store, layout, axes, number, self._unit_folder, self.say, report)
        self.ahead.begin(number, read)

    def _require_room(self, month: Month, number: int, layout: Layout, axes: Axes, months: list[Month]) -> None:
        """Refuse a unit that the disk cannot hold: all its values, if not in memory, and the files of its months."""
        places = axes.latitudes.size * axes.longitudes.size
        of_months = sum(4 * len(_common(self._hours(one), hours_of_unit(layout, number))) for one in months)
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
        hours = _common(self._hours(month), gathered.hours)
        variables = tuple(array.variable for array in layout.arrays)
        # A snapshot has what there was when it was written, however late it is read.
        as_of = read_at if layout.snapshot is None else datetime.fromisoformat(layout.snapshot.written_at)
        versions = _versions(month, hours, layout, as_of)
        self._tell_unclear_versions(layout)
        part = CdsFilePart("instant", variables, hours, versions)
        path = self.month_folder(month) / f"c{number:05d}.nc"
        before = self._read_piece(month, number)
        with replacing(path, durable_bytes=REMADE_BYTES) as temporary:
            title = f"{self.request.dataset.title.partition(' from ')[0]}, hours of a month"
            origin = f"the Zarr store {layout.shown}, of which this is a copy"
            attributes = {"Conventions": "CF-1.7", "title": title, "source": origin}
            values = {column: gathered.of(column, hours) for column in gathered.columns}
            write_cds(temporary, (part,), axes, attributes, [(hours, values)])
            if before is not None:
                # If the run is killed between file and record, the old digest must not stand for the new file.
                self._write_piece(month, number, None)
        self._keep_written(path, values, hours, versions)
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
            snapshot=layout.snapshot,
        )
        self._write_piece(month, number, piece)
        if hours == self._hours(month):
            # All of the month: when it is asked for, the store need not be opened.
            columns = tuple(variable.column for variable in variables)
            self._write(month, MonthRecord({f"{number:05d}": piece}, columns, not piece.whole))
        if before is not None and before.sha256 != piece.sha256:
            self.file_store.supersede(self._file(month, before))

    def _keep_written(self, path: Path, values: Mapping[str, Float32], hours: range, versions: tuple[str, ...]) -> None:
        """Keep what a piece of months in turn holds; only the first is looked into, which takes half of its time."""
        if self.ahead is None:
            return
        file, like = NetcdfFile(path, path), (len(hours), tuple(values), bool(versions))
        dataset = self.request.dataset
        if like not in self.ahead.contents:
            self.ahead.contents[like] = contents_of(file, dataset)
        keep_written(file, self.ahead.contents[like].at(hours, versions), values, dataset)

    def _tell_unclear_versions(self, layout: Layout) -> None:
        unclear = () if layout.stated is None else layout.stated.unclear
        for text in (f"{layout.shown}: {text}: these hours have their version by age" for text in unclear):
            if text not in _Process.told:
                _Process.told.add(text)
                self.say(text)

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
        is_complete = not known.short and sum(piece.hours for piece in known.pieces.values()) == len(self._hours(month))
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
            dataset=self.request.dataset,
            warnings=tuple(f"the Zarr store does not have {column}: it is NULL" for column in left_out),
            snapshot=next((piece.snapshot for piece in known.pieces.values()), None),
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
        pieces = {key: Piece.from_json(piece) for key, piece in value["pieces"].items()}
        return MonthRecord(pieces, tuple(value["columns"]), value["short"])

    def _write(self, month: Month, known: MonthRecord) -> None:
        pieces = {key: asdict(piece) for key, piece in known.pieces.items()}
        value = {"form": _FORM, **self._request_json, "pieces": pieces, "columns": known.columns, "short": known.short}
        self.file_store.write_record(self._note(month), value, self._files(month, known), durable_bytes=REMADE_BYTES)

    def _read_piece(self, month: Month, number: int) -> Piece | None:
        path = self._piece_note(month, number)
        value: Any = self.file_store.read_record(path)
        try:
            is_there = has_form(value, _FORM, path) and value["piece"] is not None
            return Piece.from_json(value["piece"]) if is_there else None
        except (TypeError, KeyError):
            return None

    def _write_piece(self, month: Month, number: int, piece: Piece | None) -> None:
        value = {"form": _FORM, "piece": None if piece is None else asdict(piece)}
        files = () if piece is None else (self._file(month, piece),)
        self.file_store.write_record(self._piece_note(month, number), value, files, durable_bytes=REMADE_BYTES)

    def _note(self, month: Month) -> Path:
        return self.folder / f"{self._stem(month)}.json"

    @property
    def _pin_note(self) -> Path:
        return self.folder / f"snapshot-{self._digest}.json"

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
    def _shown(self) -> str:
        """The address for messages and records."""
        return without_credentials(self.access.url)

    @property
    def _request_json(self) -> dict[str, Any]:
        return {
            "url": self._shown,
            "variables": [variable.column for variable in self.request.wanted],
            "area": self.request.area_text,
        }


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> ZarrSource:
    """Open the source described by the settings: of any store, or of one that is known by name."""
    folder = settings.files_home / "raw" / ZarrSource.name
    file_store, name, access = FileStore.of(settings), settings.source_name, access_of(settings)
    require_told(without_credentials(access.url), request.dataset)
    return ZarrSource(access, folder, request, settings.refetch, say, file_store=file_store, name=name)


def _report(before: int, total: int, read: int) -> None:
    progress.report("raw", before + read, total, "chunks")


def _common(hours: range, others: range) -> range:
    return range(max(hours.start, others.start), max(hours.start, others.start, min(hours.stop, others.stop)))


def _months_of(hours: range) -> list[Month]:
    """The months with any of these hours, ascending."""
    first, last = Month.of(time_of(hours.start)), Month.of(time_of(hours.stop - 1))
    return [Month.from_number(number) for number in range(first.number, last.number + 1)]


def _versions(month: Month, hours: range, layout: Layout, as_of: datetime) -> tuple[str, ...]:
    """The version of each hour; () if it is known of none.

    Where the store does not say, months that were young as of then are preliminary. Of a snapshot, whose day is known,
    older ones are final by age.
    """
    is_young = month.number >= Month.of(as_of).number - YOUNG_MONTHS
    by_age = PRELIMINARY if is_young else UNKNOWN_EXPVER if layout.snapshot is None else BY_AGE
    stated = layout.versions_of(hours) or (UNKNOWN_EXPVER,) * len(hours)
    found = tuple(by_age if version == UNKNOWN_EXPVER else version for version in stated)
    return () if set(found) == {UNKNOWN_EXPVER} else found
