"""Snapshots of the lake's table: what each brought, and which are kept for readers and for time travel."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

# Properties of a snapshot: what the commit put into the table.
MONTH, SOURCE, VERSION, FINGERPRINT = "era5.month", "era5.source", "era5.version", "era5.fingerprint"
INTERPOLATED, ORIGIN, SOURCE_SNAPSHOT = "era5.interpolated", "era5.origin", "era5.source_snapshot"
# Each commit writes all snapshots again, so it takes as long as there are many.
_NEWEST, _REPLACING = 10, 100


@dataclass(frozen=True)
class LakeSnapshot:
    """A snapshot: when it was made, the month that it brought, and the rows and bytes of the table by then.

    `source` and `version` (final, preliminary, mixed, unknown, generated) are of that month; None: rows were dropped.
    """

    snapshot_id: int
    made: datetime
    month: str
    source: str | None
    version: str | None
    rows: int
    bytes: int


def list_snapshots(table: Table) -> tuple[LakeSnapshot, ...]:
    """The snapshots that are kept, from the oldest to the newest."""
    found = []
    for snapshot in table.metadata.snapshots:
        said = {} if snapshot.summary is None else snapshot.summary.additional_properties
        found.append(
            LakeSnapshot(
                snapshot.snapshot_id,
                datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
                said.get(MONTH, ""),
                said.get(SOURCE),
                said.get(VERSION),
                int(said.get("total-records", 0)),
                int(said.get("total-files-size", 0)),
            )
        )
    return tuple(found)


def superfluous(snapshots: Iterable[Snapshot]) -> list[int]:
    """The ids of those that a commit removes from the table.

    Kept are the newest ten, and the last hundred that replaced or removed rows, each with the one before it: in no
    other can these rows be read. What was only added is in every later snapshot.
    """
    ordered = _in_order(snapshots)
    kept = {one.snapshot_id for one in ordered[-_NEWEST:]}
    for one in [one for one in ordered if one.summary is not None and one.summary.operation is Operation.OVERWRITE][
        -_REPLACING:
    ]:
        kept |= {one.snapshot_id, one.parent_snapshot_id or one.snapshot_id}
    return [one.snapshot_id for one in ordered if one.snapshot_id not in kept]


def superseded_before(snapshots: Iterable[Snapshot], moment: datetime) -> list[int]:
    """The ids of those that another followed before this moment: never the newest."""
    return [
        one.snapshot_id
        for one, later in pairwise(_in_order(snapshots))
        if later.timestamp_ms < moment.timestamp() * 1000
    ]


def _in_order(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    return sorted(snapshots, key=lambda one: one.sequence_number or 0)
