"""Decide which months are due, and with which settings: the newest, those to revise, and the current one.

Decides from the ledger and the time; the months are run by `defs.schedules` and `era5 revise`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error, UsageError
from era5_pipeline.model.grid import points_text
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import YOUNG_MONTHS, names_of, require_dataset, source_kind
from era5_pipeline.sources.open_source import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents

    # By source and columns.
    FinalMonths = dict[tuple[str, tuple[str, ...]], frozenset[Month]]

# The most missed months to catch up on. Beyond a year, use a backfill.
_MAX_MISSED_MONTHS = 12
# Days from a month's request until its absence is reported: the service sometimes publishes late, and requests wait in
# a queue.
_GRACE_DAYS = 2
_log = logging.getLogger(__name__)


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
    """Require a source that publishes and revises months, and those of the data set."""
    if not source_kind(settings.source_name).is_service:
        raise UsageError(
            f"the source {settings.source_name} does not publish new months",
            remedy=f"Set ERA5_SOURCE to {names_of(services=True)}, or load what you have: era5 load.",
        )
    for name in settings.source_names:
        require_dataset(name, settings.wanted_dataset)


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
    """Parts of months that a source may have in a better form by now: requested again, as they were loaded.

    They have preliminary hours old enough to be final; or, of several sources, one before the part's own has the month
    in final form, which that one then gives.
    """
    final: FinalMonths = {}
    preliminary = {(part.month, part.part) for part in parts_to_revise(contents, now, settings.revise_after_months)}
    found = []
    for month in sorted(contents, key=lambda one: one.month):
        for part in sorted(month.parts, key=lambda one: one.part):
            earlier = final_in_earlier_source(settings, part, final)
            if earlier is None and (part.month, part.part) not in preliminary:
                continue
            where = f", {part.location_ids}," if len(month.parts) > 1 else ""
            is_from = f"is from {part.source}, and {earlier} has it in final form"
            reason = f"{part.month}{where} {'holds preliminary hours' if part.is_preliminary else is_from}"
            found.append(Update(part.month, reason, _same_request(settings, part, earlier)))
    return tuple(found)


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


def final_in_earlier_source(settings: Settings, part: LedgerEntry, final: FinalMonths) -> str | None:
    """The first of several sources before the part's own that has its month in final form; None: no such source.

    A source that has confirmed the part counts as its own. It must have all columns of the part. `final` keeps what
    each source has said of columns, which takes a look at its store; one that does not answer has nothing.
    """
    names = settings.source_names
    if part.source not in names:
        return None
    own = {part.source, *(() if part.confirmed is None else (part.confirmed.source,))}
    for name in names[: min(names.index(one) for one in own.intersection(names))]:
        asked = (name, part.column_names)
        if asked not in final:
            final[asked] = frozenset()
            of_columns = settings.model_copy(update={"variables": ",".join(part.column_names)})
            with suppress(Era5Error):
                final[asked] = source_of(of_columns.of_source(name), _log.warning).final_months()
        if part.month in final[asked] and part.location_ids.is_rectangle:
            return name
    return None


def _same_request(settings: Settings, entry: LedgerEntry, name: str | None) -> dict[str, Any]:
    """Overrides that repeat the part's own request, so that today's settings do not change its area.

    `name` is the source to ask, None for that of the part.
    """
    overrides: dict[str, Any] = {"refetch": True, "source": name or entry.source}
    wanted_area = None if settings.wanted_area is None else str(settings.wanted_area)
    if name is not None and source_kind(entry.source).is_series:
        overrides["area"] = str(entry.location_ids.hull)
    elif entry.area != wanted_area:
        overrides["area"] = entry.area or "global"
    if name is None and source_kind(entry.source).is_series:
        overrides["point"] = points_text(map(entry.location_ids.grid.location, entry.location_ids.ids().tolist()))
    held = list(entry.column_names)
    wanted = [variable.column for variable in settings.variables_to_load]
    if held != wanted:
        overrides["variables"] = ",".join(held)
    if entry.state == "incomplete":
        overrides["allow_incomplete"] = True
    return overrides
