"""Decide which months are due, and with which settings: the newest, those to revise, and the current one.

Decides from the ledger and the time; the months are run by `defs.schedules` and `era5 revise`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Location, points_text
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import YOUNG_MONTHS, names_of, source_kind
from era5_pipeline.model.variables import DEFAULT_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents

# The most missed months to catch up on. Beyond a year, use a backfill.
_MAX_MISSED_MONTHS = 12
# Days from a month's request until its absence is reported: the service sometimes publishes late, and requests wait in
# a queue.
_GRACE_DAYS = 2


@dataclass(frozen=True)
class Update:
    """A month that is due; `overrides` are the settings (fields of `Era5Resource`) that differ in its run."""

    month: Month
    reason: str
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Freshness:
    """The newest complete month in the table, None without one, and the newest that it should hold by now."""

    newest: Month | None
    due: Month

    @property
    def overdue_months(self) -> int | None:
        """The number of months missing since the newest one; None without one."""
        return None if self.newest is None else max(0, self.due.number - self.newest.number)

    @property
    def is_fresh(self) -> bool:
        """True if the newest month is there."""
        return self.overdue_months == 0

    def __str__(self) -> str:
        if self.newest is None:
            return f"the table holds no complete month; {self.due} is due"
        if self.is_fresh:
            return f"{self.newest} is loaded; the newest complete month that is due is {self.due}"
        return f"{self.due} is due, and the newest complete month in the table is {self.newest}"


def require_updatable_source(settings: Settings) -> None:
    """Require a source that publishes and revises months."""
    if not source_kind(settings.source_name).is_service:
        raise UsageError(
            f"the source {settings.source_name} does not publish new months",
            remedy=f"Set ERA5_SOURCE to {names_of(services=True)}, or load what you have: era5 load.",
        )


def newest_months(settings: Settings, contents: Sequence[MonthContents], now: datetime) -> tuple[Update, ...]:
    """The newest complete month, and those missing between it and the newest month in the table."""
    newest = newest_complete_month(now, settings.available_after_days)
    held = [entry.month for entry in contents if entry.rows]
    first = Month.from_number(max(held, default=newest).number + 1) if held and max(held) < newest else newest
    if newest.number - first.number >= _MAX_MISSED_MONTHS:
        first = newest
    months = [Month.from_number(number) for number in range(first.number, newest.number + 1)]
    return tuple(
        Update(month, f"{month} is complete, but not in the table")
        for month in months
        if needs_loading(settings, contents, month)
    )


def current_month(settings: Settings, contents: Sequence[MonthContents], now: datetime) -> tuple[Update, ...]:
    """The month in progress, if some of it is available; otherwise empty."""
    month = Month.of(now - timedelta(days=settings.available_after_days))
    if month == newest_complete_month(now, settings.available_after_days) and not needs_loading(
        settings, contents, month
    ):
        return ()
    return (Update(month, f"{month} as far as it is available", {"refetch": True, "allow_incomplete": True}),)


def revisions(settings: Settings, contents: Sequence[MonthContents], now: datetime) -> tuple[Update, ...]:
    """Parts of months with preliminary hours old enough to be final: requested again, as they were loaded."""
    parts = {month.month: len(month.parts) for month in contents}
    return tuple(
        Update(
            part.month,
            f"{part.month}{f', {part.location_ids},' if parts[part.month] > 1 else ''} holds preliminary hours",
            _same_request(settings, part),
        )
        for part in parts_to_revise(contents, now, settings.revise_after_months)
    )


def newest_complete_month(now: datetime, available_after_days: int) -> Month:
    """Find the newest month that ended at least `available_after_days` before `now`."""
    return Month.from_number(Month.of(now - timedelta(days=available_after_days)).number - 1)


def due_month(now: datetime, available_after_days: int) -> Month:
    """Find the newest month that the table should hold by now: available, with the time to load it passed."""
    return newest_complete_month(now, available_after_days + _GRACE_DAYS)


def needs_loading(settings: Settings, contents: Iterable[MonthContents], month: Month) -> bool:
    """Return True if the table is missing the month, or a part of what the settings ask for.

    If no area or point is requested, the month is held once all its parts are complete.
    """
    held = next((one for one in contents if one.month == month), None)
    if held is None:
        return True
    locations = settings.wanted_locations
    if locations is None:
        return held.state != "loaded"
    columns = [variable.column for variable in settings.wanted_variables or ()]
    return not held.covers(locations, columns)


def parts_to_revise(contents: Iterable[MonthContents], now: datetime, after_months: int) -> tuple[LedgerEntry, ...]:
    """List parts with preliminary hours whose month ended at least `after_months` calendar months before `now`.

    Only parts from the services are listed: other sources have no newer data.
    """
    parts = [part for month in contents for part in month.parts if part.is_preliminary]
    due = [part for part in parts if _is_old_enough(part, now, after_months)]
    return tuple(sorted(due, key=lambda part: (part.month, part.part)))


def _is_old_enough(part: LedgerEntry, now: datetime, after_months: int) -> bool:
    kind = source_kind(part.source)
    # Younger months of a source without versions would count as preliminary again.
    months = max(after_months, YOUNG_MONTHS) if kind.states_no_version else after_months
    # A month that ended n months before the current month began has a number that is lower by n + 1.
    return kind.is_service and part.month.number <= Month.of(now).number - 1 - months


def _same_request(settings: Settings, entry: LedgerEntry) -> dict[str, Any]:
    """Overrides that repeat the part's own request, so that today's settings do not change its area."""
    overrides: dict[str, Any] = {"refetch": True, "source": entry.source}
    wanted_area = None if settings.wanted_area is None else str(settings.wanted_area)
    if entry.area != wanted_area:
        overrides["area"] = entry.area or "global"
    if source_kind(entry.source).is_series:
        overrides["point"] = points_text(map(Location.of_id, entry.location_ids.ids().tolist()))
    held = list(entry.column_names)
    wanted = [variable.column for variable in settings.wanted_variables or DEFAULT_VARIABLES]
    if held != wanted:
        overrides["variables"] = ",".join(held)
    if entry.state == "incomplete":
        overrides["allow_incomplete"] = True
    return overrides
