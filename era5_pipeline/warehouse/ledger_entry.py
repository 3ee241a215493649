"""A row of the ledger: what a month in the table was made of, and how its last load ended.

Here: the values. Not here: reading and writing the ledger (`ledger`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.data_version import version_of

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.flat.flat_month import ColumnFacts
    from era5_pipeline.model.data_version import Version
    from era5_pipeline.model.months import Month


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
    """A raw file that the month was made of. Bytes of `path` that are no Unicode are written as escapes."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class LedgerEntry:
    """A month in the ledger. A month that was attempted and never loaded has state "failed" or "loading", and no rows.

    `expver` counts hours by column and version; `preliminary_hours` are runs of hours by column, for the columns that
    have some. `seconds` is by stage (raw, flat, load); `raw_bytes` and `flat_bytes` are sizes of files.

    `loaded_at` is when the rows were written; `checked_at` when the source was last asked, and its answer compared with
    the table; `revised_at` when final data last replaced preliminary data, and `revision` what that changed
    (see `changes`).
    """

    month: Month
    state: str
    rows: int
    locations: int
    hours: int
    hours_expected: int
    missing_hours: tuple[str, ...]
    source: str | None
    area: str | None
    expver: dict[str, dict[str, int]]
    columns: tuple[ColumnFacts, ...]
    files: tuple[LedgerFile, ...]
    warnings: tuple[str, ...]
    raw_bytes: int
    flat_bytes: int
    seconds: dict[str, float]
    software_versions: dict[str, str]
    fingerprint: str | None
    loaded_at: datetime | None
    last_attempt: Attempt | None = None
    preliminary_hours: dict[str, tuple[str, ...]] = field(default_factory=dict)
    checked_at: datetime | None = None
    revised_at: datetime | None = None
    revision: dict[str, Any] | None = None

    @property
    def version(self) -> Version:
        """Final, preliminary, mixed or unknown; unknown for a month that was never loaded."""
        return version_of(self.expver)

    @property
    def is_preliminary(self) -> bool:
        """Whether any of its hours are preliminary."""
        return self.version in ("preliminary", "mixed")

    def to_json(self) -> dict[str, Any]:
        """Make the JSON value that `era5 status --json` prints."""
        value = {_json_name(name): field_value for name, field_value in asdict(self).items()}
        value["month"] = str(self.month)
        value["columns"] = [_in_stored_order(facts) for facts in value["columns"]]
        value["version"] = self.version if self.rows else None
        for name in ("loaded_at", "checked_at", "revised_at"):
            value[name] = value[name].isoformat() if value[name] else None
        if self.last_attempt is not None:
            value["last_attempt"] = {
                **value["last_attempt"],
                "started_at": self.last_attempt.started_at.isoformat(),
                "finished_at": self.last_attempt.finished_at.isoformat() if self.last_attempt.finished_at else None,
            }
        return value


def _json_name(field_name: str) -> str:
    return "versions" if field_name == "software_versions" else field_name


def _in_stored_order(facts: dict[str, Any]) -> dict[str, Any]:
    """Order the keys as the ledger's jsonb column does: by length, then by name."""
    return {name: facts[name] for name in sorted(facts, key=lambda name: (len(name), name))}
