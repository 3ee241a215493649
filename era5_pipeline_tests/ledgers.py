"""Ledger entries for tests of the code that decides by them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from era5_pipeline.flat.flat_month import ColumnFacts
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline.warehouse.ledger_entry import Attempt, Confirmation, LedgerEntry, LedgerFile, MonthContents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.ledger_entry import MonthState, PartState


ONE_PLACE = LocationSet(((1, 2),))


def column_facts(column: str, *, values: int = 100) -> ColumnFacts:
    """Build the facts of a column with that many values and none missing."""
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
        missing_hours=(),
    )


def entry(
    month: Month,
    *,
    state: PartState = "loaded",
    rows: int = 100,
    hours: int | None = None,
    source: str = "cds",
    area: str | None = None,
    columns: Iterable[str] = DEFAULT_COLUMNS,
    preliminary: Mapping[str, tuple[str, ...]] | None = None,
    locations: LocationSet = ONE_PLACE,
    part: int = 1,
    is_cut: bool = False,
    confirmed_by: str | None = None,
) -> LedgerEntry:
    """Build the entry of a part of a month in the table; `preliminary` are runs of preliminary hours by column."""
    return LedgerEntry(
        month=month,
        part=part,
        state=state,
        rows=rows,
        location_ids=locations,
        is_cut=is_cut,
        hours=month.hours if hours is None else hours,
        hours_expected=month.hours,
        missing_hours={},
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
        flat_file=LedgerFile("flat.parquet", 1, "x"),
        has_summaries=True,
        preliminary_hours=dict(preliminary or {}),
        confirmed=None
        if confirmed_by is None
        else Confirmation(confirmed_by, None, "y", {}, {}, "2026-02-01T00:00:00Z"),
    )


def held(month: Month, **of_entry: Any) -> MonthContents:
    """Build the contents of a month in the table that has one part: `entry` says what may be given."""
    return contents_of(entry(month, **of_entry))


def contents_of(*parts: LedgerEntry) -> MonthContents:
    """Build the contents of a month in the table that has these parts."""
    state: MonthState = "loaded" if all(part.state == "loaded" for part in parts) else "incomplete"
    return MonthContents(parts[0].month, state, parts)


def not_held(month: Month, outcome: str = "failed") -> MonthContents:
    """Build the contents of a month that was attempted and never loaded."""
    state: MonthState = "loading" if outcome == "running" else "failed"
    return MonthContents(month, state, (), Attempt(outcome, datetime(2026, 1, 1, tzinfo=UTC), None, None))
