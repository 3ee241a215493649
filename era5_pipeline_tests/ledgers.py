"""Made-up ledger entries, for what decides by them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.warehouse.ledger_entry import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from era5_pipeline.model.months import Month


def entry(
    month: Month,
    *,
    state: str = "loaded",
    rows: int = 100,
    hours: int | None = None,
    source: str = "cds",
    area: str | None = None,
    columns: Iterable[str] = tuple(BY_COLUMN),
    preliminary: Mapping[str, tuple[str, ...]] | None = None,
) -> LedgerEntry:
    """A month in the table; `preliminary` are runs of hours by column."""
    return LedgerEntry(
        month=month,
        state=state,
        rows=rows,
        locations=1,
        hours=month.hours if hours is None else hours,
        hours_expected=month.hours,
        missing_hours=(),
        source=source,
        area=area,
        expver={column: {"0005" if column in (preliminary or {}) else "0001": month.hours} for column in columns},
        columns=tuple({"column": column} for column in columns),
        files=(),
        warnings=(),
        raw_bytes=1,
        flat_bytes=1,
        seconds={},
        versions={},
        fingerprint="x",
        loaded_at=datetime(2026, 1, 1, tzinfo=UTC),
        preliminary_hours=dict(preliminary or {}),
    )
