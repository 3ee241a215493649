"""Compare a flat month with the ledger's entry of the month in the table: same content, changed columns, a revision.

Here: comparing facts. Not here: reading the table itself (`verify`), or writing (`ledger`, `load_month`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.model.data_version import PRELIMINARY
from era5_pipeline.model.source_kinds import source_kind

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry


def has_same_content(before: LedgerEntry, flat: FlatMonth) -> bool:
    """Whether the table holds exactly these rows, bit by bit, whatever files they came from.

    The digests depend on each row's location and hour too (see `digests`); besides them, comparing counts is enough.
    """
    return (
        before.rows == flat.rows
        and before.locations == flat.locations
        and before.hours == flat.hours
        and before.missing_hours == flat.missing_hours
        and _values(before) == {facts.column: facts.values for facts in flat.columns}
        and columns_changed(before, flat) == ()
    )


def columns_changed(before: LedgerEntry, flat: FlatMonth) -> tuple[str, ...]:
    """Name the columns whose values differ, or that only the flat month or only the table has."""
    old = {facts.column: facts.digest for facts in before.columns}
    new = {facts.column: facts.digest for facts in flat.columns}
    return tuple(column for column in {**new, **old} if new.get(column) != old.get(column))


def revision_by(before: LedgerEntry, flat: FlatMonth) -> dict[str, Any] | None:
    """Describe the revision if final data replace preliminary data; None if they do not.

    They do if the flat month is of the same source (the services count as one), area and variables, has no fewer values
    than before, and fewer of its hours are preliminary.
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
        "columns_changed": list(changed),
        "columns_unchanged": [column for column in flat.expver if column not in changed],
        "files_before": [file.sha256 for file in before.files],
        "loaded_at_before": None if before.loaded_at is None else before.loaded_at.isoformat(),
    }


def _is_same_data(source: str | None, other: str) -> bool:
    """Whether both sources give the same data: services do."""
    return source == other or (source_kind(source).is_service and source_kind(other).is_service)


def _values(entry: LedgerEntry) -> dict[str, int]:
    return {facts.column: facts.values for facts in entry.columns}


def _preliminary(expver: dict[str, dict[str, int]]) -> int:
    """Count the preliminary hours of all columns together."""
    return sum(counts.get(PRELIMINARY, 0) for counts in expver.values())
