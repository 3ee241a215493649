"""What a flat month changes of the month in the table, as far as the ledger tells: nothing, some columns, its version.

Here: comparing. Not here: the table itself (`verify`), or writing anything (`ledger`, `load`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.model.data_version import PRELIMINARY
from era5_pipeline.model.source_kinds import source_kind

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry


def has_same_content(before: LedgerEntry, flat: FlatMonth) -> bool:
    """Whether the table holds these very rows, bit by bit, whatever files they came from; False where it is unknown.

    The digests tell rows from other rows by location and hour too (see `digests`), so that counts are enough besides.
    """
    return (
        before.rows == flat.rows
        and before.locations == flat.locations
        and before.hours == flat.hours
        and before.missing_hours == flat.missing_hours
        and _values(before) == {facts.column: facts.values for facts in flat.columns}
        and columns_changed(before, flat) == ()
    )


def columns_changed(before: LedgerEntry, flat: FlatMonth) -> tuple[str, ...] | None:
    """Columns that are not as they were, or only now or only then have values; None: that is not known.

    It is not known of months that earlier versions of the pipeline loaded or flattened: these made no digests.
    """
    if before.fingerprint == flat.fingerprint:
        return ()
    old = {facts["column"]: facts.get("digest") for facts in before.columns}
    new = {facts.column: facts.digest for facts in flat.columns}
    if None in old.values() or None in new.values():
        return None
    return tuple(column for column in {**new, **old} if new.get(column) != old.get(column))


def revision_by(before: LedgerEntry, flat: FlatMonth) -> dict[str, Any] | None:
    """What is to be kept of the entry where final data take the place of preliminary ones; None where they do not.

    They do where a month of the same source (the services count as one), area and variables has no fewer values than
    before, and fewer of its hours are preliminary.
    """
    if (
        not before.is_preliminary
        or source_kind(flat.raw.source).is_generated
        or not _is_same_data(before.source, flat.raw.source)
        or before.area != flat.raw.area
        or _values(before).keys() != {facts.column for facts in flat.columns}
        or any(facts.values < _values(before)[facts.column] for facts in flat.columns)
        or _preliminary(flat.expver) >= _preliminary(before.expver)
    ):
        return None
    changed = columns_changed(before, flat)
    return {
        "preliminary_hours_before": {column: list(runs) for column, runs in before.preliminary_hours.items()},
        "columns_changed": None if changed is None else list(changed),
        "columns_unchanged": None if changed is None else [c for c in flat.expver if c not in changed],
        "files_before": [file["sha256"] for file in before.files],
        "loaded_at_before": None if before.loaded_at is None else before.loaded_at.isoformat(),
    }


def _is_same_data(source: str | None, other: str) -> bool:
    """Whether both sources give the same data: services do."""
    return source == other or (source_kind(source).is_service and source_kind(other).is_service)


def _values(entry: LedgerEntry) -> dict[str, int]:
    return {facts["column"]: facts["values"] for facts in entry.columns}


def _preliminary(expver: dict[str, dict[str, int]]) -> int:
    """Hours of all columns together that are preliminary."""
    return sum(counts.get(PRELIMINARY, 0) for counts in expver.values())
