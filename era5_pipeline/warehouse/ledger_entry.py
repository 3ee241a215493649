"""A row of the ledger: what a month in the table was made of, and how its last load went.

Not here: reading and writing the ledger (`ledger`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.data_version import version_of

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.model.data_version import Version
    from era5_pipeline.model.months import Month


@dataclass(frozen=True)
class Attempt:
    """One try to load a month; `outcome` is running, loaded, failed, or interrupted (running, its backend gone)."""

    outcome: str
    started_at: datetime
    finished_at: datetime | None
    error: str | None


@dataclass(frozen=True)
class LedgerEntry:
    """A month in the ledger. A month that was only ever tried has state "failed" or "loading", and no rows.

    `expver` counts hours per column and version; `seconds` is per stage (raw, flat, load); bytes are of files.
    `preliminary_hours` are runs per column that has some. `loaded_at` is when the rows were written, `checked_at` when
    the source was last asked and what came compared with them; `revised_at` when preliminary hours gave way to final
    ones, `revision` what that changed (see `changes`).

    Of a month that an earlier version of the pipeline loaded, the preliminary hours are not named (nor when it was
    checked): `version` and `is_preliminary` hold for it too.
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
    columns: tuple[dict[str, Any], ...]
    files: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]
    raw_bytes: int
    flat_bytes: int
    seconds: dict[str, float]
    versions: dict[str, str]
    fingerprint: str | None
    loaded_at: datetime | None
    last_attempt: Attempt | None = None
    preliminary_hours: dict[str, tuple[str, ...]] = field(default_factory=dict)
    checked_at: datetime | None = None
    revised_at: datetime | None = None
    revision: dict[str, Any] | None = None

    @property
    def version(self) -> Version:
        """Final, preliminary, mixed or unknown; of a month that was only tried: unknown."""
        return version_of(self.expver)

    @property
    def is_preliminary(self) -> bool:
        """Whether some of its hours are."""
        return self.version in ("preliminary", "mixed")

    def to_json(self) -> dict[str, Any]:
        """A JSON value, as `era5 status --json` prints it."""
        value = asdict(self)
        value["month"] = str(self.month)
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
