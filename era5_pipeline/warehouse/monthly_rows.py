"""A load's summaries in the table: prepare, replace, delete and count them for the load's locations."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from psycopg import errors as pg
from psycopg import sql

from era5_pipeline.flat.monthly import summaries_schema, summary_columns
from era5_pipeline.model.dataset import dataset_option
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.warehouse.binary_copy import binary_copy
from era5_pipeline.warehouse.layouts.layout import index_new_pages, locations_where
from era5_pipeline.warehouse.monthly_tables import (
    has_summaries_table,
    has_year,
    is_ready,
    last_hour_name,
    last_hours_of,
    make_ready,
    year_partition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import date

    from era5_pipeline.flat.flat_month import FlatFile, FlatMonth
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.months import Month

# All of it happens in the transaction that replaces or removes the hours, so that hours, summaries and ledger always
# belong to the same load.


_MERGED, _MERGED_HOURS = sql.Identifier("pg_temp", "era5_summary"), sql.Identifier("pg_temp", "era5_last_hour")


def replace_summaries(connection: psycopg.Connection[Any], flat: FlatMonth, locations: LocationSet | None) -> None:
    """Within a transaction, delete the month's summaries of these locations (None: all), and copy the file's.

    The partition of the month's year must exist with all columns.
    """
    _delete(connection, flat.month, locations)
    if flat.summaries is None:
        return
    schema, last_hours = summaries_schema(flat.column_names), _LastHours(flat)
    own = [name for name in schema.names if name not in last_hours.firsts]
    partition = year_partition(connection, flat.month)
    # Read the file once, keeping the other table's share meanwhile, a few bytes per location.
    batches = (last_hours.taken_from(batch).select(own) for batch in _batches(flat.summaries, schema))
    _copy(connection, partition, own, batches)
    index_new_pages(connection, partition)
    _copy(connection, last_hours_of(connection), last_hours.columns, iter(last_hours.batches))


def merge_summaries(connection: psycopg.Connection[Any], flat: FlatMonth) -> None:
    """Within a transaction, write the file's summaries into its locations' rows, keeping their other columns.

    Each location must have a row, and the partition of the month's year must exist with all columns.
    """
    if flat.summaries is None:
        return
    schema, last_hours = summaries_schema(flat.column_names), _LastHours(flat)
    keys = ("location_id", "month")
    own = [name for name in schema.names if name not in last_hours.firsts]
    partition = year_partition(connection, flat.month)
    connection.execute(sql.SQL("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP").format(_MERGED, partition))
    batches = (last_hours.taken_from(batch).select(own) for batch in _batches(flat.summaries, schema))
    _copy(connection, _MERGED, own, batches)
    connection.execute(
        sql.SQL("UPDATE {} s SET {} FROM {} n WHERE s.location_id = n.location_id AND s.month = n.month").format(
            partition,
            sql.SQL(", ").join(sql.SQL("{0} = n.{0}").format(sql.Identifier(name)) for name in own if name not in keys),
            _MERGED,
        )
    )
    index_new_pages(connection, partition)
    values = [sql.Identifier(name) for name in last_hours.columns[2:]]
    if not values:
        return
    columns = [sql.Identifier(name) for name in last_hours.columns]
    connection.execute(
        sql.SQL("UPDATE {} SET {} WHERE {}").format(
            last_hours_of(connection),
            sql.SQL(", ").join(sql.SQL("{} = NULL").format(value) for value in values),
            _where(month_before(flat.month), flat.location_ids),
        )
    )
    connection.execute(
        sql.SQL("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP").format(_MERGED_HOURS, last_hours_of(connection))
    )
    _copy(connection, _MERGED_HOURS, last_hours.columns, iter(last_hours.batches))
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT (month, location_id) DO UPDATE SET {}").format(
            last_hours_of(connection),
            sql.SQL(", ").join(columns),
            sql.SQL(", ").join(columns),
            _MERGED_HOURS,
            sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(value) for value in values),
        )
    )


def month_before(month: Month) -> date:
    """The first day of the previous month, to which the first hour of this one belongs."""
    return (month.start - timedelta(hours=1)).date().replace(day=1)


def _copy(
    connection: psycopg.Connection[Any],
    table: sql.Identifier,
    columns: Iterable[str],
    batches: Iterator[pa.RecordBatch],
) -> None:
    """COPY the batches, if any, into these columns of the table."""
    first = next(batches, None)
    if first is None:
        return
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        table, sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for chunk in binary_copy(first.schema, chain((first,), batches)):
            copy.write(chunk)


class _LastHours:
    """Rows of the table of last hours: each location's first hour, if present, under the previous month."""

    def __init__(self, flat: FlatMonth) -> None:
        firsts = [column for column in summary_columns(flat.column_names) if column.statistic == "first"]
        self.firsts = [column.name for column in firsts]
        self.columns = ["month", "location_id", *map(last_hour_name, firsts)]
        self.batches: list[pa.RecordBatch] = []
        self._month = pa.scalar(month_before(flat.month), pa.date32())

    def taken_from(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the batch's first hours, and return the batch."""
        values = [batch.column(name) for name in self.firsts]
        if any(one.null_count < batch.num_rows for one in values):
            arrays = [pa.repeat(self._month, batch.num_rows), batch.column("location_id"), *values]
            is_there = reduce(pc.or_, (pc.is_valid(one) for one in values))
            self.batches.append(pa.record_batch(arrays, self.columns).filter(is_there))
        return batch


def _batches(file: FlatFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the summaries from the file, which must have these columns."""
    try:
        with pq.ParquetFile(file.path, pre_buffer=False) as rows:
            if not rows.schema_arrow.equals(schema):
                raise ValueError(f"its columns are {', '.join(rows.schema_arrow.names)}")  # noqa: TRY301
            yield from rows.iter_batches(use_threads=False)
    except (OSError, ValueError) as error:
        raise BadFileError(file.path, f"is damaged ({error})", remedy="Run the month again with --force.") from error


def delete_summaries(connection: psycopg.Connection[Any], month: Month, locations: LocationSet | None) -> None:
    """Within a transaction, delete the month's summaries of these locations (None: all), and its last hours."""
    if has_year(connection, month):
        _delete(connection, month, locations)


def _delete(connection: psycopg.Connection[Any], month: Month, locations: LocationSet | None) -> None:
    for table, of in (
        (last_hours_of(connection), month_before(month)),
        (year_partition(connection, month), month.start.date()),
    ):
        connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(table, _where(of, locations)))


def count_summaries(connection: psycopg.Connection[Any], month: Month, locations: LocationSet) -> int:
    """Count the locations with a summary of the month."""
    if not has_year(connection, month):
        return 0
    row = connection.execute(
        sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
            year_partition(connection, month), _where(month.start.date(), locations)
        )
    ).fetchone()
    return int(row[0]) if row is not None else 0


def analyze_summaries(connection: psycopg.Connection[Any], month: Month) -> None:
    """After the commit, update the planner's row count. Autovacuum would do so later, and for every column."""
    with suppress(psycopg.Error):
        connection.execute(
            sql.SQL("ANALYZE (SKIP_LOCKED) {} (location_id, month)").format(year_partition(connection, month))
        )


def _where(month: date, locations: LocationSet | None) -> sql.Composable:
    of_month = sql.SQL("month = {}").format(sql.Literal(month))
    return of_month if locations is None else sql.SQL("{} AND {}").format(of_month, locations_where(locations))


# --- The summaries of one load: prepared beforehand, and written in its transaction ---
#
# Summaries are no reason to refuse a load: if they cannot be written, the load says so and deletes those of its
# locations, so that none belong to other hours.


_ANALYZED_LOCATIONS = 1000


@dataclass
class MonthlyLoad:
    """The flat month's summaries, to be written on this connection; `notes` are messages for the user."""

    connection: psycopg.Connection[Any]
    flat: FlatMonth
    lock_timeout_seconds: float
    on_wait: Callable[[str], None]
    is_ready: bool = False
    # Keep summaries of other columns of the same locations.
    keeps: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def are_here(self) -> bool:
        """True if the summary file is on this machine: it may have been removed after an earlier load."""
        return self.flat.summaries is not None and self.flat.summaries.path.is_file()

    def prepare(self) -> bool:
        """Create the partition and columns for the summaries; return whether they can be written."""
        option = dataset_option(dataset_of(self.connection))
        if self.flat.summaries is None:
            self._note(f"its flat file has none: era5 db summaries{option} adds them")
        elif is_ready(self.connection, self.flat.month, self.flat.column_names):
            self.is_ready = True
        elif not has_summaries_table(self.connection):
            self._note(
                f"their table is missing, and this user may not create it: let its owner run era5 db init{option}"
            )
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
                    f"{reason}: let the table's owner run era5 db init{option} --roles, then load the month with "
                    "--force"
                )
            else:
                self.is_ready = True
        return self.is_ready

    def write(self, locations: LocationSet | None) -> None:
        """Within the load's transaction, replace the month's summaries of these locations (None: all)."""
        if self.is_ready and self.keeps:
            merge_summaries(self.connection, self.flat)
        elif self.is_ready:
            replace_summaries(self.connection, self.flat, locations)
        elif self.keeps:
            delete_summaries(self.connection, self.flat.month, self.flat.location_ids)
        else:
            delete_summaries(self.connection, self.flat.month, locations)

    def leave_out(self, reason: str) -> None:
        """Write no summaries, and delete those of the locations."""
        if self.is_ready:
            self.is_ready = False
            self._note(reason)

    def settle(self) -> None:
        """After the commit of many rows, update the table's statistics. For few rows, autovacuum does."""
        if self.is_ready and self.flat.locations >= _ANALYZED_LOCATIONS:
            analyze_summaries(self.connection, self.flat.month)

    def _note(self, reason: str) -> None:
        self.notes = (f"{self.flat.month}: loaded without monthly summaries: {reason}",)
