"""The summaries of one load: what it needs made beforehand, and its rows, in its own transaction.

Summaries are no reason to refuse a load: where they cannot be written, the load says so, and those of its locations
are deleted, so that none are of other hours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg

from era5_pipeline.warehouse.monthly.monthly_rows import (
    analyze_summaries,
    delete_summaries,
    merge_summaries,
    replace_summaries,
)
from era5_pipeline.warehouse.monthly.monthly_table import has_summaries_table, is_ready, make_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.location_set import LocationSet

_ANALYZED_LOCATIONS = 1000


@dataclass
class MonthlyLoad:
    """The summaries of the flat month, to be written on this connection; `notes` are messages for the user."""

    connection: psycopg.Connection[Any]
    flat: FlatMonth
    lock_timeout_seconds: float
    on_wait: Callable[[str], None]
    is_ready: bool = False
    # Those of other columns of the same locations stay.
    keeps: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def are_here(self) -> bool:
        """Whether the file of summaries is on this machine: it may have been removed after an earlier load."""
        return self.flat.summaries is not None and self.flat.summaries.path.is_file()

    def prepare(self) -> bool:
        """Make the partition and the columns that the summaries need; return whether they can be written.

        Raises:
            MonthLockedError: if other sessions used the table for too long.
            psycopg.Error: if the server refuses otherwise than for want of a privilege.
        """
        if self.flat.summaries is None:
            self._note("its flat file has none: era5 db summaries adds them")
        elif is_ready(self.connection, self.flat.month, self.flat.column_names):
            self.is_ready = True
        elif not has_summaries_table(self.connection):
            self._note("their table is missing, and this user may not create it: let its owner run era5 db init")
        else:
            try:
                make_ready(
                    self.connection,
                    self.flat.month,
                    self.flat.column_names,
                    timeout_seconds=self.lock_timeout_seconds,
                    on_wait=self.on_wait,
                )
            except pg.InsufficientPrivilege as error:
                reason = str(error).splitlines()[0]
                self._note(
                    f"{reason}: let the table's owner run era5 db init --roles, then load the month with --force"
                )
            else:
                self.is_ready = True
        return self.is_ready

    def write(self, locations: LocationSet | None) -> None:
        """Within the load's transaction, replace the month's summaries of these locations, None: all."""
        if self.is_ready and self.keeps:
            merge_summaries(self.connection, self.flat)
        elif self.is_ready:
            replace_summaries(self.connection, self.flat, locations)
        elif self.keeps:
            delete_summaries(self.connection, self.flat.month, self.flat.location_ids)
        else:
            delete_summaries(self.connection, self.flat.month, locations)

    def leave_out(self, reason: str) -> None:
        """Write none; those of the locations are deleted."""
        if self.is_ready:
            self.is_ready = False
            self._note(reason)

    def settle(self) -> None:
        """After the commit of many rows, update the statistics of the table. Of few, autovacuum does."""
        if self.is_ready and self.flat.locations >= _ANALYZED_LOCATIONS:
            analyze_summaries(self.connection, self.flat.month)

    def _note(self, reason: str) -> None:
        self.notes = (f"{self.flat.month}: loaded without monthly summaries: {reason}",)
