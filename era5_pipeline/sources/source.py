"""The protocol of all sources: raw files of a month with their provenance; and the lock against duplicate requests."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TextIO

from era5_pipeline.model.dataset import ERA5, Accumulation, Dataset, dataset_named
from era5_pipeline.model.errors import UsageError, disk_errors
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import SOURCE_OF_FOLDERS, Snapshot, require_dataset, source_kind
from era5_pipeline.runtime.files import digest_of
from era5_pipeline.runtime.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from era5_pipeline.model.errors import Era5Error
    from era5_pipeline.model.grid import Area, Location
    from era5_pipeline.model.settings import OffGrid, Settings
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.contents import Problem


@dataclass(frozen=True)
class RawFile:
    """One file on disk (netCDF, or a ZIP of netCDF); `origin` is the address it was copied from, if any."""

    path: Path
    sha256: str
    bytes: int
    origin: str | None = None

    @property
    def shown(self) -> str:
        """The file's name for the user: the path, or the address."""
        return self.origin or str(self.path)

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value."""
        value = {**asdict(self), "path": str(self.path)}
        return value if self.origin is not None else {name: of for name, of in value.items() if name != "origin"}


@dataclass(frozen=True)
class RawMonth:
    """All files with data of `month`, and the request that they answer.

    `variables` are the columns to take; None: the default ones found in the files. The month must have them all, unless
    `is_open`. `area` is the rectangle to keep, None: everything. `warnings` tell the user which files were not used,
    and why. `points` are the requested points, if the source is asked for points. `off_grid` says what is done with
    values between the grid points, if the files have any: `nearest` takes them to the nearest points. `trusts_files`:
    by the user's word, the values are hourly ones of ERA5, although files say otherwise. `snapshot` is the state of the
    source's store that was read, if it has several; the same values of another one are the same month. `accumulation`
    is over what amounts run by the user's word, if some files do not tell.
    """

    month: Month
    source: str
    files: tuple[RawFile, ...]
    variables: tuple[str, ...] | None = None
    area: str | None = None
    warnings: tuple[str, ...] = ()
    points: str | None = None
    # Not in the fingerprint: it decides whether a month is refused, not its rows.
    is_open: bool = False
    off_grid: OffGrid = "refuse"
    trusts_files: bool = False
    snapshot: Snapshot | None = None
    dataset: Dataset = ERA5
    accumulation: Accumulation | None = None

    @property
    def wanted_columns(self) -> tuple[str, ...]:
        """The columns to take from the files, if present."""
        return self.dataset.catalogue.default_columns if self.variables is None else self.variables

    @property
    def bytes(self) -> int:
        """Total size of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def fingerprint(self) -> str:
        """Digest of the contents and the request, independent of file names."""
        # Only if they are set: months that were loaded before there was such a choice stay as they are.
        choices: dict[str, object] = {} if self.off_grid == "refuse" else {"off_grid": self.off_grid}
        choices |= {"trusts_files": True} if self.trusts_files else {}
        choices |= {} if self.dataset == ERA5 else {"dataset": self.dataset.name}
        choices |= {} if self.accumulation is None else {"accumulation": self.accumulation}
        return digest_of(
            {
                "month": self.month.key,
                "source": self.source,
                "sha256": sorted(file.sha256 for file in self.files),
                "variables": self.variables,
                "area": self.area,
                **choices,
            }
        )

    def permits(self, problem: Problem) -> bool:
        """Return True if the values that the problem is about are taken nevertheless, as the user asked."""
        return (
            (problem.shift is not None and self.off_grid == "nearest")
            or (problem.is_of_origin and self.trusts_files)
            or (problem.lacks_accumulation and self.accumulation is not None)
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value; `from_json` is the inverse."""
        value = asdict(self)
        value["month"] = self.month.key
        value["files"] = [file.to_json() for file in self.files]
        del value["dataset"]
        if self.accumulation is None:
            del value["accumulation"]
        return value if self.dataset == ERA5 else {**value, "dataset": self.dataset.name}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Convert from a JSON value of `to_json`."""
        return cls(
            month=Month.parse(value["month"]),
            source=value["source"],
            files=tuple(RawFile(Path(f["path"]), f["sha256"], f["bytes"], f.get("origin")) for f in value["files"]),
            variables=None if value["variables"] is None else tuple(value["variables"]),
            area=value["area"],
            warnings=tuple(value["warnings"]),
            points=value.get("points"),
            is_open=value.get("is_open", False),
            off_grid=value.get("off_grid", "refuse"),
            trusts_files=value.get("trusts_files", False),
            snapshot=Snapshot.from_json(value.get("snapshot")),
            dataset=dataset_named(value.get("dataset", ERA5.name)),
            accumulation=value.get("accumulation"),
        )


class Source(Protocol):
    """A data source: provides a month's raw files with their provenance."""

    @property
    def name(self) -> str:
        """The name in the ledger."""

    @property
    def dataset(self) -> Dataset:
        """The data set of its months: by default ERA5."""
        return ERA5

    def fetch(self, month: Month, together: Collection[Month] = ()) -> RawMonth:
        """Make the month's raw files available on local disk.

        `together` are months that the caller fetches too, this one among them: the source may get their files in one
        go. Empty: the caller did not say.

        Raises:
            InputError: if the source has no data for the month, or its files are unusable.
            NotYetAvailableError: if it will have the month later.
            SourceError: if the service refuses.
            TransientError: if the service could not be reached.
            LocalDiskError: if the disk is full.
        """

    def in_turn(self) -> AbstractContextManager[Self]:
        """The source for months that are fetched one after another: it may keep open, and fetch ahead, what they need.

        By default it does neither.
        """
        return nullcontext(self)

    def request_groups(self, months: Sequence[Month]) -> Iterator[tuple[Month, ...]]:
        """Divide ascending months into those that one request covers, as `together` of `fetch`, in order.

        A group is formed when it is asked for, by what the source knows then. By default each month is one alone.
        """
        return ((month,) for month in months)

    def offered_months(self, now: datetime, available_after_days: int) -> tuple[Month, ...]:
        """The complete months that it offers, ascending: by default all of its data set that ended so many days ago."""
        newest = Month.of(now - timedelta(days=available_after_days)).number
        return tuple(Month.from_number(number) for number in range(self.dataset.first_month.number, newest))

    def state(self) -> Snapshot | None:
        """The newest state of its store, if that has several; by default none."""
        return None

    def final_months(self) -> frozenset[Month]:
        """The months that it offers in final form, as far as it can tell without a request; by default none."""
        return frozenset()

    def request_ahead(self, group: tuple[Month, ...]) -> None:
        """Send the request of a group without waiting for it, if the source has a queue; errors are left to `fetch`."""
        return None  # noqa: RET501 (type checkers take a method without a body for an abstract one)

    def known(self, month: Month) -> RawMonth | None:
        """Return what `fetch` would, without calling a service; None if unknown.

        Used to detect changes. The files may no longer exist.
        """

    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """Record whether the files hold the complete month; an incomplete one is fetched again next time.

        By default nothing is recorded: the same files would come again.
        """
        return None  # noqa: RET501 (as above)

    def invalidate(self, raw: RawMonth) -> None:
        """Invalidate unusable files, or files with impossible values; the month is fetched again next time."""
        self.record_completeness(raw, is_complete=False)


@dataclass(frozen=True)
class Request:
    """The variables, and the area or points, to fetch for any month; and the format, if the source has several.

    `named` and `is_open` are as in `VariableChoice`.
    """

    variables: tuple[Variable, ...] | None = None
    area: Area | None = None
    points: tuple[Location, ...] = ()
    named: frozenset[str] = frozenset()
    is_open: bool = False
    data_format: Literal["netcdf", "grib"] = "netcdf"
    dataset: Dataset = ERA5

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Build the request from the settings."""
        choice, name, dataset = settings.variable_choice, settings.source_name, settings.wanted_dataset
        for one in settings.source_names:
            require_dataset(one, dataset)
        for is_set, option, variable, why in (
            (settings.trust_files, "--trust-files", "ERA5_TRUST_FILES", "itself says what it has"),
            (settings.off_grid != "refuse", "--off-grid", "ERA5_OFF_GRID", "has values on the grid only"),
            (settings.accumulation is not None, "--accumulation", "ERA5_ACCUMULATION", "itself says what it has"),
        ):
            if is_set and not source_kind(name).has_own_files:
                given = f"{option} {settings.off_grid}" if option == "--off-grid" else option
                raise UsageError(
                    f"{given} is for your own files: the source {name} {why}",
                    remedy=f"Leave it out ({option}, {variable}), or load files: --source {SOURCE_OF_FOLDERS} "
                    "--files-dir DIR.",
                )
        area, points = settings.wanted_area, settings.wanted_points
        if settings.accumulation is not None and dataset.accumulation == "hour":
            raise UsageError(
                f"--accumulation is for files that do not tell: amounts of {dataset.short_title} are those of hours",
                remedy="Leave it out (--accumulation, ERA5_ACCUMULATION), or add --dataset era5-land.",
            )
        if choice is None:
            return cls(None, area, points, data_format=settings.cds_format, dataset=dataset)
        return cls(choice.variables, area, points, choice.named, choice.is_open, settings.cds_format, dataset)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The requested columns; None: the default ones that the source has."""
        return None if self.variables is None else tuple(variable.column for variable in self.variables)

    @property
    def wanted(self) -> tuple[Variable, ...]:
        """The variables to fetch: those named, or the default ones."""
        return self.dataset.catalogue.default_variables if self.variables is None else self.variables

    def requires(self, variable: Variable) -> bool:
        """Return True if the user names the variable, so that a month without it is refused."""
        return self.variables is not None and (not self.is_open or variable.column in self.named)

    @property
    def area_text(self) -> str | None:
        """The area as text; None: everything."""
        return None if self.area is None else str(self.area)


@dataclass(frozen=True)
class Refusal:
    """Why a month cannot be loaded: its `error`, and the problem of a file that is the reason, if one is."""

    error: Era5Error
    problem: Problem | None = None


@dataclass(frozen=True)
class FolderUse:
    """What a load of some months does with the files of a folder.

    `files` are all data files; `by_month` those that each month is loaded from, or refused for; `passed_over` says why
    others are not used; `others` counts files in other formats, by format.
    """

    files: tuple[str, ...] = ()
    by_month: Mapping[Month, tuple[str, ...]] = field(default_factory=dict)
    passed_over: tuple[tuple[str, Problem], ...] = ()
    others: Mapping[str, int] = field(default_factory=dict)


# --- Per-month lock against duplicate requests: without it, two runs would both send one and write the same files ---


@contextmanager
def try_lock_month(subject: Month | str, lock: Path) -> Iterator[bool]:
    """Take the lock if it is free, without waiting; yield whether it is held."""
    with _opened(subject, lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


@contextmanager
def locked_month(subject: Month | str, lock: Path, say: Callable[[str], None], lasts: str) -> Iterator[None]:
    """Hold the lock, waiting until other runs release it; it ends with the process at the latest.

    `lasts` tells the user how long that run may take.
    """
    with _opened(subject, lock) as file:
        with suppress(OSError):  # some network file systems have no locks
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{subject}: another run is fetching it, waiting until that ends ({lasts})")
                with waiting():
                    fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(subject: Month | str, lock: Path) -> TextIO:
    with disk_errors(f"{subject}: fetching", lock.parent):
        lock.parent.mkdir(parents=True, exist_ok=True)
        return lock.open("w")
