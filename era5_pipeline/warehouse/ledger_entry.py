"""Rows of the ledger: the origin of each part of a month in the table, and the outcome of the month's last load.

Defines the values. For reading and writing the ledger see `ledger`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.source_kinds import (
    Snapshot,
    most_doubtful,
    named_store,
    source_kind,
    version_of,
    version_of_all,
)
from era5_pipeline.model.times import describe_hours, hours_in
from era5_pipeline.model.variables import BY_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from era5_pipeline.flat.flat_month import ColumnFacts
    from era5_pipeline.model.grid import Shift
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.source_kinds import Origin, Version, VersionOfAll

PartState = Literal["loaded", "incomplete", "dropped"]
MonthState = Literal["loaded", "incomplete", "dropped", "loading", "failed"]


@dataclass(frozen=True)
class Attempt:
    """An attempt to load a month.

    `outcome` is running, loaded, failed, or interrupted: still marked as running, but its session has ended.
    """

    outcome: str
    started_at: datetime
    finished_at: datetime | None
    error: str | None


@dataclass(frozen=True)
class LedgerFile:
    """A raw file from which the month was made, or the flat file of its rows.

    Bytes of `path` that are not Unicode are escaped.
    """

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Revision:
    """The replacement of preliminary by final data: the columns that changed, and the part as it was before.

    `preliminary_hours_before` are runs of hours by column, `files_before` SHA-256 digests, `loaded_at_before` is an ISO
    time.
    """

    preliminary_hours_before: dict[str, tuple[str, ...]]
    columns_changed: tuple[str, ...]
    columns_unchanged: tuple[str, ...]
    files_before: tuple[str, ...]
    loaded_at_before: str

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the revision from the JSON of `asdict`."""
        before = {column: tuple(runs) for column, runs in value["preliminary_hours_before"].items()}
        names = ("columns_changed", "columns_unchanged", "files_before")
        lists = {name: tuple(value[name]) for name in names}
        return cls(preliminary_hours_before=before, loaded_at_before=value["loaded_at_before"], **lists)


@dataclass(frozen=True)
class Addition:
    """Columns that a later load added to a part's rows, and their origin; `loaded_at` is an ISO time.

    `snapshot` is the state of the source's store that was read, if it has several.
    """

    columns: tuple[str, ...]
    source: str
    area: str | None
    fingerprint: str
    files: tuple[LedgerFile, ...]
    flat_file: LedgerFile
    loaded_at: str
    snapshot: Snapshot | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the addition from the JSON of `asdict`."""
        files = tuple(LedgerFile(**file) for file in value["files"])
        flat_file = LedgerFile(**value["flat_file"])
        snapshot = Snapshot.from_json(value.get("snapshot"))
        own = {"columns": tuple(value["columns"]), "files": files, "flat_file": flat_file, "snapshot": snapshot}
        return cls(**{**value, **own})


@dataclass(frozen=True)
class Confirmation:
    """Another source's word on a part: its values equal those of the rows, within the quantum of each column.

    `fingerprint` is that of the source's files and `expver` its hour counts by column and version; `quanta`, in the
    table's unit, are by column, 0 if the values are equal but for their rounding. `confirmed_at` is an ISO time.
    """

    source: str
    snapshot: Snapshot | None
    fingerprint: str
    expver: dict[str, dict[str, int]]
    quanta: dict[str, float]
    confirmed_at: str

    @classmethod
    def from_json(cls, value: dict[str, Any] | None) -> Self | None:
        """Build the confirmation from the JSON of `asdict`; None from None."""
        return None if value is None else cls(**{**value, "snapshot": Snapshot.from_json(value["snapshot"])})

    def __str__(self) -> str:
        return named_store(self.source, self.snapshot)


@dataclass(frozen=True)
class LedgerEntry:
    """A part of a month in the ledger: the locations that one load brought, minus those that later loads took out.

    If `is_cut`, some were taken out: `columns`, `expver` and the sizes are then those of the part as loaded. `expver`
    has hour counts by column and version; `preliminary_hours` are runs of hours by column, for columns with any.
    `missing_hours` are runs of hours, by column, without a value at some location. `seconds` is by stage (raw, flat,
    load); `raw_bytes` and `flat_bytes` are file sizes. `flat_file` is the file of rows, which may have been removed.
    `has_summaries` says whether `weather_monthly` has the part's locations. `additions` are columns that later loads
    added to the rows; source, area, files, sizes and fingerprint are those of the other columns. `interpolated` is the
    shift of values that the store interpolated between the grid points, None on the grid; `snapshot` the state of the
    source's store that was read, if it has several.

    `confirmed` is the word of another source that the values are its own, too, within a quantum. `expver` and
    `preliminary_hours` are then those of that source, except where the rows' own source states that they are final;
    those of the rows' own files are in `columns`, and all else still describes the rows and what they were made of.

    `loaded_at` is when the rows were written; `checked_at` when the source was last asked and compared with the table;
    `revised_at` when final data last replaced preliminary data, and `revision` what that changed (see `changes`).
    """

    month: Month
    part: int
    state: PartState
    rows: int
    location_ids: LocationSet
    is_cut: bool
    hours: int
    hours_expected: int
    missing_hours: dict[str, tuple[str, ...]]
    source: str
    area: str | None
    expver: dict[str, dict[str, int]]
    columns: tuple[ColumnFacts, ...]
    files: tuple[LedgerFile, ...]
    warnings: tuple[str, ...]
    raw_bytes: int
    flat_bytes: int
    seconds: dict[str, float]
    software_versions: dict[str, str]
    fingerprint: str
    loaded_at: datetime
    flat_file: LedgerFile
    has_summaries: bool
    preliminary_hours: dict[str, tuple[str, ...]] = field(default_factory=dict)
    checked_at: datetime | None = None
    revised_at: datetime | None = None
    revision: Revision | None = None
    additions: tuple[Addition, ...] = ()
    interpolated: Shift | None = None
    snapshot: Snapshot | None = None
    confirmed: Confirmation | None = None

    @property
    def locations(self) -> int:
        """The number of locations."""
        return len(self.location_ids)

    @property
    def version(self) -> Version:
        """Final, preliminary, mixed or unknown, of the columns that are not generated; generated if all are."""
        return version_of(self.expver, generated=self.generated_columns)

    @property
    def generated_columns(self) -> frozenset[str]:
        """The columns whose source generates its data."""
        loads = ((self.source, self.first_columns), *((one.source, one.columns) for one in self.additions))
        return frozenset(column for source, own in loads if source_kind(source).is_generated for column in own)

    @property
    def origin(self) -> Origin | None:
        """Whose word it is that the values are hourly ones of ERA5: the most doubtful of its columns; None: unknown."""
        return most_doubtful(facts.origin for facts in self.columns)

    @property
    def is_preliminary(self) -> bool:
        """True if any of its hours are preliminary."""
        return self.version in ("preliminary", "mixed")

    @property
    def preliminary(self) -> frozenset[int]:
        """The hours (since 1970) that are preliminary in any column."""
        return hours_in(run for runs in self.preliminary_hours.values() for run in runs)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns with values; the others are NULL."""
        return tuple(facts.column for facts in self.columns)

    @property
    def first_columns(self) -> tuple[str, ...]:
        """The columns that came with the rows: all but the additions."""
        added = {column for addition in self.additions for column in addition.columns}
        return tuple(column for column in self.column_names if column not in added)

    @property
    def fingerprints(self) -> frozenset[str]:
        """The fingerprints of all loads that brought its columns, or confirmed them."""
        return self.own_fingerprints if self.confirmed is None else self.own_fingerprints | {self.confirmed.fingerprint}

    @property
    def own_fingerprints(self) -> frozenset[str]:
        """The fingerprints of all loads that brought its columns."""
        return frozenset({self.fingerprint, *(addition.fingerprint for addition in self.additions)})

    def is_confirmed_by(self, fingerprint: str) -> bool:
        """Return True if files with this fingerprint confirmed the values, which other files brought."""
        return self.confirmed is not None and self.confirmed.fingerprint == fingerprint

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of its columns, each once."""
        return tuple(dict.fromkeys((self.source, *(addition.source for addition in self.additions))))

    def unconfirmed(self) -> LedgerEntry:
        """The same part by the word of its own files alone."""
        if self.confirmed is None:
            return self
        return replace(
            self,
            confirmed=None,
            expver={facts.column: facts.expver for facts in self.columns},
            preliminary_hours={f.column: f.preliminary_hours for f in self.columns if f.preliminary_hours},
        )

    def of_columns(self, columns: Iterable[str]) -> LedgerEntry:
        """The same part as if it had only these columns."""
        wanted = set(columns)
        return replace(
            self,
            columns=tuple(facts for facts in self.columns if facts.column in wanted),
            additions=(),
            expver={column: of for column, of in self.expver.items() if column in wanted},
            missing_hours={column: of for column, of in self.missing_hours.items() if column in wanted},
            preliminary_hours={column: of for column, of in self.preliminary_hours.items() if column in wanted},
        )

    def to_json(self) -> dict[str, Any]:
        """Make the JSON value printed by `era5 status --json`."""
        value = {"versions" if name == "software_versions" else name: of for name, of in asdict(self).items()}
        value |= {
            "month": str(self.month),
            "locations": self.locations,
            "location_ids": [list(run) for run in self.location_ids.runs],
            "place": str(self.location_ids),
            "columns": [_in_stored_order(facts) for facts in value["columns"]],
            "version": self.version,
            "origin": self.origin,
        }
        for name in ("loaded_at", "checked_at", "revised_at"):
            value[name] = value[name].isoformat() if value[name] else None
        return value


@dataclass(frozen=True)
class LedgerMonth:
    """A month of the ledger as a whole: its state, defined in `sql/months.sql`, and its last attempted load."""

    month: Month
    state: MonthState
    rows: int
    is_preliminary: bool
    last_attempt: Attempt | None = None


@dataclass(frozen=True)
class MonthContents:
    """The contents of a month in the table, by part, its state, and the outcome of its last load.

    Without parts, the month was attempted but never loaded, or was dropped.
    """

    month: Month
    state: MonthState
    parts: tuple[LedgerEntry, ...] = ()
    last_attempt: Attempt | None = None

    @property
    def rows(self) -> int:
        """Rows in the table."""
        return sum(part.rows for part in self.parts)

    @property
    def locations(self) -> int:
        """Locations in the table; parts never overlap."""
        return sum(part.locations for part in self.parts)

    @property
    def hours(self) -> int:
        """The smallest hour count of any part."""
        return min((part.hours for part in self.parts), default=0)

    @property
    def missing_hours(self) -> dict[str, tuple[str, ...]]:
        """Runs of hours, by column, without a value at some location of a part with the column."""
        missing: dict[str, set[int]] = {}
        for part in self.parts:
            for column, runs in part.missing_hours.items():
                missing.setdefault(column, set()).update(hours_in(runs))
        return {column: describe_hours(sorted(hours)) for column, hours in missing.items()}

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of its parts, each once."""
        return tuple(dict.fromkeys(source for part in self.parts for source in part.sources))

    @property
    def version(self) -> VersionOfAll | None:
        """The version of all parts together: mixed if some hours are preliminary, None without parts."""
        if {source_kind(source).is_generated for source in self.sources} == {True, False}:
            return "partly generated"
        return version_of_all(part.version for part in self.parts)

    @property
    def origin(self) -> Origin | None:
        """Whose word it is that the values are hourly ones of ERA5: the most doubtful of its parts; None: unknown."""
        return most_doubtful(part.origin for part in self.parts)

    @property
    def is_preliminary(self) -> bool:
        """True if any part has preliminary hours."""
        return any(part.is_preliminary for part in self.parts)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns with values in any part, in table order."""
        held = {column for part in self.parts for column in part.column_names}
        return tuple(column for column in BY_COLUMN if column in held)

    @property
    def loaded_at(self) -> datetime | None:
        """The time when rows of the month were last written."""
        return max((part.loaded_at for part in self.parts), default=None)

    def covers(self, locations: LocationSet, columns: Iterable[str] = ()) -> bool:
        """Return True if complete parts with these columns hold all these locations."""
        wanted = set(columns)
        held = LocationSet(grid=locations.grid)
        for part in self.parts:
            if part.state == "loaded" and wanted <= set(part.column_names):
                held |= part.location_ids
        return locations.is_subset_of(held)

    @property
    def interpolated(self) -> tuple[Shift, ...]:
        """The shifts of its parts with values between the grid points, each once."""
        return tuple(dict.fromkeys(part.interpolated for part in self.parts if part.interpolated is not None))

    def to_json(self) -> dict[str, Any]:
        """Make the JSON value printed by `era5 status --json`: sums, then each part."""
        attempt = self.last_attempt
        return {
            "month": str(self.month),
            "state": self.state,
            "rows": self.rows,
            "locations": self.locations,
            "hours": self.hours,
            "hours_expected": self.month.hours,
            "missing_hours": {column: list(runs) for column, runs in self.missing_hours.items()},
            "source": ", ".join(self.sources) or None,
            "version": self.version,
            "origin": self.origin,
            "interpolated": [asdict(shift) for shift in self.interpolated],
            "variables": list(self.column_names),
            "loaded_at": self.loaded_at.isoformat() if self.loaded_at else None,
            "last_attempt": None
            if attempt is None
            else {
                "outcome": attempt.outcome,
                "started_at": attempt.started_at.isoformat(),
                "finished_at": attempt.finished_at.isoformat() if attempt.finished_at else None,
                "error": attempt.error,
            },
            "parts": [part.to_json() for part in self.parts],
        }


def _in_stored_order(facts: dict[str, Any]) -> dict[str, Any]:
    """Order the keys as the ledger's jsonb column does: by length, then by name."""
    return {name: facts[name] for name in sorted(facts, key=lambda name: (len(name), name))}
