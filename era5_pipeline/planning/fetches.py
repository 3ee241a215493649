"""Places that are loaded because they were asked for: by which command, each once, and what became of them.

A place is loaded by `era5 load` in a process of its own. Until that has brought all of the place, a record in the home
says so: the months that an interrupted load has left are not all that there is. Commands with `--fetch` and `era5 serve
--fetch` share the records, and for each place a lock, which the one that loads it holds.
"""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.errors import NoDataError, ServerUnsuitableError
from era5_pipeline.model.grid import ERA5_GRID, Grid
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.words import counted
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.read.held import hours_held, months_held
from era5_pipeline.runtime.files import read_json, write_json
from era5_pipeline.warehouse.schema import ensure_schema, require_may_load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import psycopg

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.settings import Settings

_ERA5 = (sys.executable, "-c", "from era5_pipeline.cli import main; main()")
# A failed load is tried again after this time, and after twice the time for each further failure, up to five hours.
_PAUSE_SECONDS = 600.0
_MOST_FAILURES = 6


def fetch_command(location: Location) -> tuple[str, ...]:
    """The command that loads all hours of the location that its sources have."""
    return (*_ERA5, "load", "--lat", f"{location.latitude}", "--lon", f"{location.longitude}", "--yes")


def announcement(months: int) -> str:
    """The message with which a load states how many months its sources have of the place."""
    return f"the sources have {counted(months, 'month')} of this place"


def announced_months(log: str) -> int | None:
    """The number of months in the last announcement of a log; None without one."""
    found = re.findall(r"^era5: the sources have ([\d,]+) months? of this place$", log, re.MULTILINE)
    return int(found[-1].replace(",", "")) if found else None


def fetch_environment(settings: Settings) -> Mapping[str, str]:
    """This process's environment, with the database of the loader (ERA5_FETCH_DATABASE_URL) if one is set."""
    url = settings.fetch_database_url
    return os.environ if url is None else {**os.environ, "ERA5_DATABASE_URL": url.get_secret_value()}


def require_loader(settings: Settings) -> None:
    """Require that the loader may load; create what a first load would: the embedded server, database and tables."""
    url = settings.fetch_database_url
    loader = settings if url is None else settings.model_copy(update={"database_url": url})
    with open_warehouse(loader, create=True) as warehouse, warehouse.connect() as connection:
        try:
            require_may_load(connection)
            ensure_schema(connection)
        except ServerUnsuitableError as error:
            raise type(error)(
                f"places cannot be fetched: {error.message}",
                remedy=error.remedy.replace("ERA5_DATABASE_URL", "ERA5_FETCH_DATABASE_URL"),
            ) from error


def is_held(connection: psycopg.Connection[Any], location: Location) -> bool:
    """Return True if the table holds anything of the location, by the ledger or, without one, by its rows."""
    if months_held(connection, LocationSet.of_location(location)):
        return True
    try:
        return hours_held(connection, location.location_id) is not None
    except NoDataError:
        return False


@dataclass(frozen=True)
class PlaceFetch:
    """A place whose load has been asked for, and is not complete.

    Times are in seconds since 1970. `months` is the number that the load brings, None as long as it has not said so.
    Of the loads that failed, `exit_code` is of the last one, which ended at `failed_at`.
    """

    location_id: int
    asked_at: float
    state: Literal["waiting", "loading", "failed"] = "waiting"
    months: int | None = None
    failures: int = 0
    exit_code: int = 0
    failed_at: float = 0.0
    grid: Grid = field(default=ERA5_GRID, repr=False)

    @property
    def location(self) -> Location:
        """The grid point."""
        return self.grid.location(self.location_id)

    @property
    def next_try(self) -> float:
        """When a failed load is tried again."""
        return self.failed_at + _PAUSE_SECONDS * 2.0 ** (self.failures - 1)


class FetchFolder:
    """The records and locks of fetches of a data set in a home."""

    def __init__(self, home: Path, dataset: Dataset = ERA5) -> None:
        self.path = home / "fetch" if dataset == ERA5 else home / "fetch" / dataset.name
        self._grid = dataset.grid

    def lock_of(self, location: Location) -> Path:
        """The file that is locked while the location is loaded."""
        return self.path / f"{location.location_id}.lock"

    def find(self, location: Location) -> PlaceFetch | None:
        """The record of a location; None if its load is complete, or was never asked for."""
        return self._read(self._record_of(location.location_id))

    def unfinished(self) -> list[PlaceFetch]:
        """All records, in the order in which the places were asked for."""
        found = map(self._read, self.path.glob("[0-9]*.json"))
        return sorted((one for one in found if one is not None), key=lambda one: (one.asked_at, one.location_id))

    def write(self, fetch: PlaceFetch) -> None:
        """Write the record of a place."""
        record = {name: value for name, value in asdict(fetch).items() if name != "grid"}
        write_json(self._record_of(fetch.location_id), record)

    def end(self, fetch: PlaceFetch, exit_code: int) -> PlaceFetch | None:
        """Record that the load has ended; return the record of a failure that is tried again, else None."""
        failed = replace(fetch, state="failed", failures=fetch.failures + 1, exit_code=exit_code, failed_at=time.time())
        if exit_code and failed.failures < _MOST_FAILURES:
            self.write(failed)
            return failed
        self._record_of(fetch.location_id).unlink(missing_ok=True)
        return None

    def is_needed(self, location: Location, *, is_held: bool) -> bool:
        """Return True if the location is to be loaded before it is read: nothing is held of it, or not yet all."""
        fetch = self.find(location)
        return not is_held or (fetch is not None and fetch.state != "failed")

    def _record_of(self, location_id: int) -> Path:
        return self.path / f"{location_id}.json"

    def _read(self, path: Path) -> PlaceFetch | None:
        try:
            return PlaceFetch(**read_json(path), grid=self._grid)
        except TypeError:  # none, or of another version of this package: it is made again
            return None
