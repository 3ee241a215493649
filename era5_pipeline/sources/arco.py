"""The source `arco`: months from ARCO-ERA5, Google's public copy of ERA5 as Zarr, without a key or a queue."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from era5_pipeline.model.errors import NoDataError, NotYetAvailableError
from era5_pipeline.model.grid import Area, latitude_indices, longitude_indices
from era5_pipeline.model.source_kinds import FINAL, PRELIMINARY
from era5_pipeline.model.times import hour_of
from era5_pipeline.netcdf.cds_files import Axes, CdsFilePart, write_cds
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.runtime.files import digest_of, has_form, replacing, sha256_of
from era5_pipeline.sources.source import RawFile, RawMonth, Request, Source, locked_month
from era5_pipeline.sources.zarr.arco_store import ZarrStore, open_store
from era5_pipeline.sources.zarr.store import without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.cds_files import Block

_FORM = 1
# Hours of one variable per read: 33 MB for the globe.
_BLOCK_HOURS = 8
_HOUR = timedelta(hours=1)
_ATTRIBUTES = {
    "Conventions": "CF-1.7",
    "title": "ERA5 hourly data on single levels, a day of it",
    "source": "ARCO-ERA5, of which this is a copy",
}


@dataclass(frozen=True)
class Day:
    """The file of one day. It may change until it is `final` (no preliminary hours) and `whole` (no gaps).

    `final_until` and `available_until`: the last days that the store announced when it was fetched, `YYYY-MM-DD`.
    """

    name: str
    sha256: str
    bytes: int
    hours: int
    final: bool
    whole: bool
    final_until: str
    available_until: str


@dataclass(frozen=True)
class _MonthRecord:
    """The record of a month: its days' files, and whether hours were found missing (`short`)."""

    days: Mapping[str, Day]
    short: bool = False


@dataclass(frozen=True)
class ArcoSource(Source):
    """Months of the store at `url`, kept in `folder`; with `refetch`, days that may have changed are fetched again.

    `file_store` has durable copies of finished days, if a store is set, so that another machine can continue.
    """

    url: str
    folder: Path
    request: Request = field(default_factory=Request)
    refetch: bool = False
    say: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    file_store: FileStore = LOCAL
    name: str = "arco"

    @override
    def fetch(self, month: Month) -> RawMonth:
        """Fetch the month, except complete days in the folder; with `refetch`, except final ones only."""
        lasts = "it reads a day at a time, and gives up after six failures in a row"
        with locked_month(month, self.folder / f"{self._stem(month)}.lock", self.say, lasts):
            known = self._read(month)
            if not self.refetch and self._is_complete(month, known) and self._has_files(month, known):
                self.file_store.share_record(self._note(month), self._files(month, known))
                return self._raw_month(month, known)
            store = open_store(self.url, month, self.say, self.sleep)
            self._require_extent(month, store)
            store.require(self._variables)
            known = self._fetch_days(month, store, replace(known, short=False))
            return self._raw_month(month, known)

    @override
    def known(self, month: Month) -> RawMonth | None:
        """Return the complete month that was recorded, without looking for its files; None if it was not."""
        known = self._read(month)
        return None if self.refetch or not self._is_complete(month, known) else self._raw_month(month, known)

    @override
    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """Record whether the days were complete; those with gaps are fetched again next time."""
        known = self._read(raw.month)
        if known.days and known.short is is_complete:
            self._write(raw.month, replace(known, short=not is_complete))

    @override
    def invalidate(self, raw: RawMonth) -> None:
        """Invalidate all days of the month."""
        if self._read(raw.month).days:
            self._write(raw.month, _MonthRecord({}))

    @property
    def _variables(self) -> tuple[Variable, ...]:
        return self.request.wanted

    def _fetch_days(self, month: Month, store: ZarrStore, known: _MonthRecord) -> _MonthRecord:
        first = hour_of(month.start)
        last = min(first + month.hours, hour_of(store.extent.last) + 1)
        for start in range(first, last, 24):
            hours = range(start, min(start + 24, last))
            key = f"{month}-{(start - first) // 24 + 1:02d}"
            day = known.days.get(key)
            if day is None or not self._can_keep(month, day, len(hours)):
                known = self._fetch_day(month, known, key, hours, store)
            progress.report("raw", hours.stop - first, last - first, "hours")
        return known

    def _can_keep(self, month: Month, day: Day, hours: int) -> bool:
        is_good = day.whole and day.hours == hours and (day.final or not self.refetch)
        return is_good and self.file_store.obtain(self._file(month, day))

    def _fetch_day(self, month: Month, known: _MonthRecord, key: str, hours: range, store: ZarrStore) -> _MonthRecord:
        axes = Axes.of(self.request.area or Area.parse("global"))
        final = hour_of(store.extent.last_final)
        versions = tuple(FINAL if hour <= final else PRELIMINARY for hour in hours)
        part = CdsFilePart("instant", self._variables, hours, versions)
        path = self._days(month) / f"{key}.nc"
        lacking: list[str] = []
        before = known.days.get(key)
        with replacing(path) as temporary:
            write_cds(temporary, (part,), axes, _ATTRIBUTES, self._blocks(axes, hours, store, lacking))
            if key in known.days:
                # If the run is killed between file and record, the old digest must not stand for the new file.
                known = replace(known, days={name: day for name, day in known.days.items() if name != key})
                self._write(month, known)
        if lacking:
            self.say(f"{key}: the store lacks values of {', '.join(sorted(set(lacking)))} at some hours of the day")
        day = Day(
            name=path.name,
            sha256=sha256_of(path),
            bytes=path.stat().st_size,
            hours=len(hours),
            final=hours[-1] <= final,
            whole=not lacking,
            final_until=f"{store.extent.last_final:%Y-%m-%d}",
            available_until=f"{store.extent.last:%Y-%m-%d}",
        )
        known = replace(known, days={**known.days, key: day})
        self._write(month, known, [self._file(month, day)])
        if before is not None and before.sha256 != day.sha256:
            self.file_store.supersede(self._file(month, before))
        return known

    def _blocks(self, axes: Axes, hours: range, store: ZarrStore, lacking: list[str]) -> Iterator[Block]:
        rows = _positions(store.latitude_index, latitude_indices(axes.latitudes))
        columns = _positions(store.longitude_index, longitude_indices(axes.longitudes))
        for start in hours[::_BLOCK_HOURS]:
            block = range(start, min(start + _BLOCK_HOURS, hours.stop))
            fields = {}
            for variable in self._variables:
                # Cut out immediately: a chunk holds an hour of the whole globe.
                values = store.read(variable, block)[:, rows][:, :, columns]
                due = np.array(block) >= hour_of(variable.first_valid)
                if _has_gaps(values[due], variable):
                    lacking.append(variable.cds_name)
                fields[variable.column] = values
            yield block, fields

    def _require_extent(self, month: Month, store: ZarrStore) -> None:
        if month.start > store.extent.last:
            latest = f"{store.extent.last:%Y-%m-%d %H:00}"
            raise NotYetAvailableError(
                f"{month} is not available yet in {store.url}: the latest hour there is {latest}",
                remedy="The store is updated from time to time; the source cds has newer months.",
            )
        if month.end <= store.extent.first:
            raise NoDataError(
                f"{month}: {store.url} begins on {store.extent.first:%Y-%m-%d}", remedy="Ask for a later month."
            )

    def _is_complete(self, month: Month, known: _MonthRecord) -> bool:
        return not known.short and sum(day.hours for day in known.days.values()) == month.hours

    def _has_files(self, month: Month, known: _MonthRecord) -> bool:
        return all(self.file_store.obtain(file) for file in self._files(month, known))

    def _raw_month(self, month: Month, known: _MonthRecord) -> RawMonth:
        return RawMonth(
            month=month,
            source=self.name,
            files=self._files(month, known),
            variables=tuple(variable.column for variable in self._variables),
            area=self.request.area_text,
        )

    def _files(self, month: Month, known: _MonthRecord) -> tuple[RawFile, ...]:
        return tuple(self._file(month, known.days[key]) for key in sorted(known.days))

    def _file(self, month: Month, day: Day) -> RawFile:
        return RawFile(self._days(month) / day.name, day.sha256, day.bytes)

    def _read(self, month: Month) -> _MonthRecord:
        value: Any = self.file_store.read_record(self._note(month))
        try:
            if not has_form(value, _FORM, self._note(month)):
                return _MonthRecord({})
            return _MonthRecord({key: Day(**day) for key, day in value["days"].items()}, value["short"])
        except (TypeError, KeyError):
            return _MonthRecord({})

    def _write(self, month: Month, known: _MonthRecord, files: Iterable[RawFile] = ()) -> None:
        days = {key: day.__dict__ for key, day in known.days.items()}
        value = {"form": _FORM, **self._request_json, "days": days, "short": known.short}
        self.file_store.write_record(self._note(month), value, files)

    def _note(self, month: Month) -> Path:
        return self.folder / f"{self._stem(month)}.json"

    def _days(self, month: Month) -> Path:
        return self.folder / self._stem(month)

    def _stem(self, month: Month) -> str:
        return f"{month}-{digest_of(self._request_json)[:12]}"

    @property
    def _request_json(self) -> dict[str, Any]:
        return {
            "url": without_password(self.url),
            "variables": [variable.column for variable in self._variables],
            "area": self.request.area_text,
        }


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> ArcoSource:
    """Open the source described by the settings."""
    folder = settings.home / "raw" / ArcoSource.name
    file_store = FileStore.of(settings)
    return ArcoSource(settings.arco_url, folder, request, refetch=settings.refetch, say=say, file_store=file_store)


def _has_gaps(values: np.ndarray, variable: Variable) -> bool:
    """Return True if values (hour, latitude, longitude) that ERA5 has are missing, as far as can be told."""
    missing = np.isnan(values)
    if variable.extent == "everywhere":
        return bool(missing.any())
    # At sea, the same places have values at all hours.
    return variable.extent == "sea" and bool((missing != missing[:1]).any())


def _positions(held: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The index in `held` of each value of `wanted`."""
    order = np.argsort(held)
    found: np.ndarray = order[np.searchsorted(held, wanted, sorter=order)]
    return found
