"""Which months of the ledger are to be asked for anew, and which is the newest that can be asked for.

Here: deciding by dates and what the ledger says. Not here: how they are asked for (`era5_pipeline.updates`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import source_kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from era5_pipeline.warehouse.ledger_entry import LedgerEntry


def newest_complete_month(now: datetime, available_after_days: int) -> Month:
    """The newest month whose end lies at least so many days before `now`."""
    return Month.from_number(Month.of(now - timedelta(days=available_after_days)).number - 1)


def needs_loading(entries: Iterable[LedgerEntry], month: Month) -> bool:
    """Whether the table lacks the month, or some of it."""
    return not any(entry.month == month and entry.state == "loaded" for entry in entries)


def months_to_revise(entries: Iterable[LedgerEntry], now: datetime, after_months: int) -> tuple[Month, ...]:
    """Months in the table with preliminary hours that ended at least `after_months` calendar months before `now`."""
    # A month that ended n months before the present one began is n + 1 numbers behind it.
    newest = Month.of(now).number - 1 - after_months
    return tuple(
        sorted(
            entry.month
            for entry in entries
            if entry.rows
            and entry.is_preliminary
            and source_kind(entry.source).is_service
            and entry.month.number <= newest
        )
    )
