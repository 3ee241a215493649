"""Decide which months are due, and with which settings: the newest ones, those to revise, the current one.

Here: the decision, from the ledger and the time. Not here: running them (`defs.schedules`, `era5 revise`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import names_of, source_kind
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.warehouse.revisions import months_to_revise, needs_loading, newest_complete_month

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# Catch up on missed months, up to a year. If more are missing, that is the job of a backfill.
_MAX_MISSED_MONTHS = 12


@dataclass(frozen=True)
class Update:
    """A month that is due; `overrides` are the settings (fields of `Era5Resource`) in which its run differs."""

    month: Month
    reason: str
    overrides: Mapping[str, Any] = field(default_factory=dict)


def require_updatable_source(settings: Settings) -> None:
    """Require a source that publishes and revises months.

    Raises:
        UsageError: if the source does not.
    """
    if not source_kind(settings.source_name).is_service:
        raise UsageError(
            f"the source {settings.source_name} does not publish new months",
            remedy=f"Set ERA5_SOURCE to {names_of(services=True)}, or load what you have: era5 load.",
        )


def newest_months(settings: Settings, entries: Sequence[LedgerEntry], now: datetime) -> tuple[Update, ...]:
    """The newest complete month, and the missing ones between it and the newest month in the table."""
    newest = newest_complete_month(now, settings.available_after_days)
    held = [entry.month for entry in entries if entry.rows]
    first = Month.from_number(max(held, default=newest).number + 1) if held and max(held) < newest else newest
    if newest.number - first.number >= _MAX_MISSED_MONTHS:
        first = newest
    months = [Month.from_number(number) for number in range(first.number, newest.number + 1)]
    return tuple(
        Update(month, f"{month} is complete, and not in the table") for month in months if needs_loading(entries, month)
    )


def current_month(settings: Settings, entries: Sequence[LedgerEntry], now: datetime) -> tuple[Update, ...]:
    """The month that is not complete yet, as far as it is available; none while nothing of it is available."""
    month = Month.of(now - timedelta(days=settings.available_after_days))
    if month == newest_complete_month(now, settings.available_after_days) and not needs_loading(entries, month):
        return ()
    return (Update(month, f"{month} as far as it is available", {"refetch": True, "allow_incomplete": True}),)


def revisions(settings: Settings, entries: Sequence[LedgerEntry], now: datetime) -> tuple[Update, ...]:
    """Months with preliminary hours that are old enough to be final: requested again, as they were loaded."""
    by_month = {entry.month: entry for entry in entries}
    return tuple(
        Update(month, f"{month} holds preliminary hours", _same_request(settings, by_month[month]))
        for month in months_to_revise(entries, now, settings.revise_after_months)
    )


def _same_request(settings: Settings, entry: LedgerEntry) -> dict[str, Any]:
    """Overrides that repeat the month's own request, so that other settings of today do not change its area."""
    overrides: dict[str, Any] = {"refetch": True, "source": entry.source}
    wanted_area = None if settings.wanted_area is None else str(settings.wanted_area)
    if entry.area != wanted_area:
        overrides["area"] = entry.area or "global"
    held = [facts.column for facts in entry.columns]
    wanted = list(BY_COLUMN) if settings.wanted_variables is None else [v.column for v in settings.wanted_variables]
    if held != wanted:
        overrides["variables"] = ",".join(held)
    if entry.state == "incomplete":
        overrides["allow_incomplete"] = True
    return overrides
