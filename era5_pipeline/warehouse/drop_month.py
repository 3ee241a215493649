"""Remove a month, or some of its locations: one transaction deletes rows and summaries and records it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse import ledger
from era5_pipeline.warehouse.changes import taken_from
from era5_pipeline.warehouse.layouts.layout import Removal
from era5_pipeline.warehouse.load_month import name_lock_holder, prepare_session
from era5_pipeline.warehouse.locks import month_lock
from era5_pipeline.warehouse.monthly_rows import delete_summaries
from era5_pipeline.warehouse.schema import existing_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import psycopg

    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.changes import ReplacedPart


@dataclass(frozen=True)
class DroppedMonth:
    """The parts of a month that a drop removes, and the number of remaining locations."""

    month: Month
    parts: tuple[ReplacedPart, ...]
    kept_locations: int

    @property
    def rows(self) -> int:
        """The number of rows removed."""
        return sum(part.rows for part in self.parts)


def what_would_go(
    connection: psycopg.Connection[Any], months: tuple[Month, ...], locations: LocationSet | None
) -> tuple[DroppedMonth, ...]:
    """Find what dropping these locations (None: all) would remove. Months without any of them are skipped."""
    held = {contents.month: contents.parts for contents in ledger.read_ledger(connection)}
    found = []
    for month in months:
        parts = [part for part in held.get(month, ()) if locations is None or part.location_ids.overlaps(locations)]
        if parts:
            gone = _gone(part.location_ids for part in parts) if locations is None else locations
            kept = 0 if locations is None else sum(len(part.location_ids - locations) for part in held[month])
            found.append(DroppedMonth(month, tuple(taken_from(part, gone) for part in parts), kept))
    return tuple(found)


def drop_month(
    warehouse: Warehouse,
    month: Month,
    locations: LocationSet | None = None,
    *,
    lock_timeout_seconds: int = 600,
    on_wait: Callable[[str], None] = lambda _: None,
    alongside: Callable[[psycopg.Connection[Any], LocationSet], None] | None = None,
) -> DroppedMonth:
    """Delete the month's rows of these locations (None: all); the ledger keeps an entry of what was dropped.

    Readers see the rows until the commit. `alongside` is called with the removed locations at the end of the
    transaction: what it does is committed with it.
    """
    errors = partial(server_errors, f"dropping {month}", afterwards="The month is unchanged.")
    with errors(), warehouse.connect() as connection:
        prepare_session(connection, lock_timeout_seconds)
        layout = existing_layout(connection)
        if layout is None:
            return DroppedMonth(month, (), 0)
        with month_lock(connection, month, timeout_seconds=lock_timeout_seconds, on_wait=on_wait):
            parts = ledger.read_overlapping(connection, month, locations)
            if not parts:
                return DroppedMonth(month, (), 0)
            gone = _gone(part.location_ids for part in parts)
            gone = gone if locations is None else gone & locations
            kept = ledger.count_other_locations(connection, month, gone)

            def finish() -> None:
                for part in parts:
                    ledger.take_out(connection, part, gone, dropped=True)
                if alongside is not None:
                    alongside(connection, gone)

            own = gone if kept else None
            removal = Removal(
                month=month,
                locations=own,
                finish=finish,
                summarise=partial(delete_summaries, connection, month, own),
                on_wait=on_wait,
                lock_timeout_seconds=lock_timeout_seconds,
            )
            try:
                with errors():
                    layout.remove(connection, removal)
            except Era5Error as error:
                raise name_lock_holder(connection, month, error) from error.__cause__
            return DroppedMonth(month, tuple(taken_from(part, gone) for part in parts), kept)


def _gone(sets: Iterable[LocationSet]) -> LocationSet:
    return reduce(or_, sets)
