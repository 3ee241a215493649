"""The source `arco`: a month as one netCDF a day, cut to the area, in the layout of the Climate Data Store.

Here: which days are to be fetched, and their files. A run that was killed goes on with the next day. Not here: the
store (`store`), or netCDF (`sources.cds_layout`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.data_version import FINAL, PRELIMINARY
from era5_pipeline.model.errors import NoDataError, NotYetAvailableError
from era5_pipeline.model.grid import Area, latitude_indices, longitude_indices
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.netcdf.cds_layout import write_cds
from era5_pipeline.netcdf.cds_netcdf import Axes, CdsFilePart
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import digest_of, read_json, replacing, sha256_of, write_json
from era5_pipeline.sources.arco.zarr_store import Store, open_store, shown_url
from era5_pipeline.sources.month_lock import alone
from era5_pipeline.sources.source import RawFile, RawMonth, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.cds_layout import Block

_FORM = 1
# Hours of one variable that are read at a time: 33 MB of the globe.
_BLOCK_HOURS = 8
_HOUR = timedelta(hours=1)
_ATTRIBUTES = {
    "Conventions": "CF-1.7",
    "title": "ERA5 hourly data on single levels, a day of it",
    "source": "ARCO-ERA5, of which this is a copy",
}


@dataclass(frozen=True)
class Day:
    """The file of a day: `final` and `whole` say whether it can still change.

    `final_until`, `available_until` are what the store promised when it was fetched, `YYYY-MM-DD`.
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
class _Known:
    """What is known of a month: its days' files, and whether their hours are all there."""

    days: Mapping[str, Day]
    short: bool = False


@dataclass(frozen=True)
class ArcoSource:
    """Months of the store at `url`, kept in `folder`; `refetch`: days that may have changed are fetched anew."""

    url: str
    folder: Path
    request: Request = field(default_factory=Request)
    refetch: bool = False
    say: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    name: str = "arco"

    def fetch(self, month: Month) -> RawMonth:
        """See `Source`: days that are here are kept, if they were final and whole, or nobody asks for them anew.

        Raises:
            NotYetAvailableError: if the store does not reach to the month yet.
            NoDataError: if it begins later.
            SourceError, TransientError, UsageError: see `store`.
            LocalDiskError: if there is no room.
        """
        with alone(month, self.folder / f"{self._stem(month)}.lock", self.say):
            known = self._read(month)
            if not self.refetch and self._is_complete(month, known) and self._files_are_here(month, known):
                return self._raw_month(month, known)
            store = open_store(self.url, month, self.say, self.sleep)
            self._require_extent(month, store)
            store.require(self._variables)
            known = self._fetch_days(month, store, replace(known, short=False))
            return self._raw_month(month, known)

    def known(self, month: Month) -> RawMonth | None:
        """See `Source`: told by what was written down, so the files themselves may have been removed."""
        known = self._read(month)
        return None if self.refetch or not self._is_complete(month, known) else self._raw_month(month, known)

    def judged(self, raw: RawMonth, *, whole: bool) -> None:
        """See `Source`: days that lack something are fetched anew the next time."""
        known = self._read(raw.month)
        if known.days and known.short is whole:
            self._write(raw.month, replace(known, short=not whole))

    def distrust(self, raw: RawMonth) -> None:
        """See `Source`: all its days."""
        if self._read(raw.month).days:
            self._write(raw.month, _Known({}))

    @property
    def _variables(self) -> tuple[Variable, ...]:
        return VARIABLES if self.request.variables is None else self.request.variables

    def _fetch_days(self, month: Month, store: Store, known: _Known) -> _Known:
        first = _hour(month.start)
        last = min(first + month.hours, _hour(store.extent.last) + 1)
        for start in range(first, last, 24):
            hours = range(start, min(start + 24, last))
            key = f"{month}-{(start - first) // 24 + 1:02d}"
            day = known.days.get(key)
            if day is None or not self._may_stay(month, day, len(hours)):
                known = self._with_day(month, known, key, hours, store)
            progress.report("raw", hours.stop - first, last - first, "hours")
        return known

    def _may_stay(self, month: Month, day: Day, hours: int) -> bool:
        path = self._days(month) / day.name
        here = path.is_file() and path.stat().st_size == day.bytes
        return here and day.whole and day.hours == hours and (day.final or not self.refetch)

    def _with_day(self, month: Month, known: _Known, key: str, hours: range, store: Store) -> _Known:
        axes = Axes.of(self.request.area or Area.parse("global"))
        final = _hour(store.extent.last_final)
        versions = tuple(FINAL if hour <= final else PRELIMINARY for hour in hours)
        part = CdsFilePart("instant", self._variables, hours, versions)
        path = self._days(month) / f"{key}.nc"
        lacking: list[str] = []
        with replacing(path) as temporary:
            write_cds(temporary, (part,), axes, _ATTRIBUTES, self._blocks(axes, hours, store, lacking))
            if key in known.days:
                # Killed between the file and the note, the old digest must not stand for the new file.
                known = replace(known, days={name: day for name, day in known.days.items() if name != key})
                self._write(month, known)
        if lacking:
            self.say(f"{key}: the store has no values of {', '.join(sorted(set(lacking)))} at some hours of the day")
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
        self._write(month, known)
        return known

    def _blocks(self, axes: Axes, hours: range, store: Store, lacking: list[str]) -> Iterator[Block]:
        rows = _positions(store.latitude_index, latitude_indices(axes.latitudes))
        columns = _positions(store.longitude_index, longitude_indices(axes.longitudes))
        for start in hours[::_BLOCK_HOURS]:
            block = range(start, min(start + _BLOCK_HOURS, hours.stop))
            fields = {}
            for variable in self._variables:
                # Cut at once: a chunk is an hour of the globe, however small the area.
                values = store.read(variable, block)[:, rows][:, :, columns]
                due = np.array(block) >= _hour(variable.first_valid)
                if np.isnan(values[due]).any():
                    lacking.append(variable.cds_name)
                fields[variable.column] = values
            yield block, fields

    def _require_extent(self, month: Month, store: Store) -> None:
        if month.start > store.extent.last:
            latest = f"{store.extent.last:%Y-%m-%d %H:00}"
            raise NotYetAvailableError(
                f"{month} is not available yet in {store.url}: the latest hour there is {latest}",
                remedy="The store is brought up to date now and then; the source cds has newer months.",
            )
        if month.end <= store.extent.first:
            raise NoDataError(
                f"{month}: {store.url} begins with {store.extent.first:%Y-%m-%d}", remedy="Ask for a later month."
            )

    def _is_complete(self, month: Month, known: _Known) -> bool:
        return not known.short and sum(day.hours for day in known.days.values()) == month.hours

    def _files_are_here(self, month: Month, known: _Known) -> bool:
        paths = ((self._days(month) / day.name, day.bytes) for day in known.days.values())
        return all(path.is_file() and path.stat().st_size == size for path, size in paths)

    def _raw_month(self, month: Month, known: _Known) -> RawMonth:
        days = [known.days[key] for key in sorted(known.days)]
        return RawMonth(
            month=month,
            source=self.name,
            files=tuple(RawFile(self._days(month) / day.name, day.sha256, day.bytes) for day in days),
            variables=tuple(variable.column for variable in self._variables),
            area=self.request.area_text,
        )

    def _read(self, month: Month) -> _Known:
        value: Any = read_json(self._note(month))
        try:
            if value["form"] != _FORM:
                return _Known({})
            return _Known({key: Day(**day) for key, day in value["days"].items()}, value["short"])
        except (TypeError, KeyError):
            return _Known({})

    def _write(self, month: Month, known: _Known) -> None:
        days = {key: day.__dict__ for key, day in known.days.items()}
        write_json(self._note(month), {"form": _FORM, **self._asked, "days": days, "short": known.short})

    def _note(self, month: Month) -> Path:
        return self.folder / f"{self._stem(month)}.json"

    def _days(self, month: Month) -> Path:
        return self.folder / self._stem(month)

    def _stem(self, month: Month) -> str:
        return f"{month}-{digest_of(self._asked)[:12]}"

    @property
    def _asked(self) -> dict[str, Any]:
        return {
            "url": shown_url(self.url),
            "variables": [variable.column for variable in self._variables],
            "area": self.request.area_text,
        }


def _hour(time: datetime) -> int:
    """Hours since 1970-01-01 UTC."""
    return int(time.timestamp()) // 3600


def _positions(held: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where in `held` each of `wanted` is."""
    order = np.argsort(held)
    found: np.ndarray = order[np.searchsorted(held, wanted, sorter=order)]
    return found
