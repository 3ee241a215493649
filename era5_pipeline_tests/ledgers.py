"""Ledger entries for tests of the code that decides by them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from era5_pipeline.flat.flat_month import ColumnFacts
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.warehouse.ledger_entry import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from era5_pipeline.model.months import Month


def column_facts(column: str, *, values: int = 100) -> ColumnFacts:
    """Build the facts of a column with so many values, and nothing missing."""
    return ColumnFacts(
        column=column,
        values=values,
        minimum=0.0,
        maximum=1.0,
        mean=0.5,
        checksum=0,
        hours=1,
        locations=values,
        expver={"0001": 1},
        missing=0,
        first_missing=None,
        out_of_bounds=0,
        first_out_of_bounds=None,
        preliminary_hours=(),
        digest="0" * 16,
    )


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
    """Build the entry of a month in the table; `preliminary` are runs of preliminary hours by column."""
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
        columns=tuple(map(column_facts, columns)),
        files=(),
        warnings=(),
        raw_bytes=1,
        flat_bytes=1,
        seconds={},
        software_versions={},
        fingerprint="x",
        loaded_at=datetime(2026, 1, 1, tzinfo=UTC),
        preliminary_hours=dict(preliminary or {}),
    )
