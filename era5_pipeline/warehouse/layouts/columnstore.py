"""TimescaleDB's columnstore, in the Community edition: a month takes a quarter of the space and reads as fast.

Each calendar month has one chunk, with one batch per location (`segmentby`) and its hours in order (`orderby`). Flat
files are location-major, so since TimescaleDB 2.21 COPY can write batches directly (direct compress). Older versions
compress the heap rows afterwards, at about half the rate (`era5 bench run layouts` measures rates and bytes of each).

A month is replaced by DELETE and COPY in one transaction, during which readers never wait. The space of deleted batches
is freed afterwards.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import errors as pg
from psycopg import sql

from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.warehouse.layouts.hypertable import (
    chunks_of,
    create_hypertable,
    make_calendar_chunk,
    tables_of,
    vacuum_failed_loads,
)
from era5_pipeline.warehouse.layouts.layout import delete_rows, month_where, table_of, vacuum

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model.months import Month
    from era5_pipeline.warehouse.layouts.layout import Removal, Replacement

_SEGMENT_BY = "location_id,latitude,longitude"
_ORDER_BY = "time"
# The names of these settings changed in TimescaleDB 2.18; the old ones are deprecated.
_COLUMNSTORE_VERSION = (2, 18)

_OLD_NAMES = ("compress", "compress_segmentby", "compress_orderby")

_DIRECT_SETTINGS = {
    "enable_direct_compress_copy": "on",
    # The rows are sorted already: sorting again would cost a third of the rate, and if declared unsorted, each batch
    # would hold one row.
    "enable_direct_compress_copy_client_sorted": "on",
}
_LOAD_SETTINGS = {
    # The DELETE decompresses batches with rows of two months, in chunks that they share. 0: no limit.
    "max_tuples_decompressed_per_dml_transaction": "0",
}

# VACUUM FULL blocks the month's readers: 0.4 s for 85 MB, half of it free. Larger chunks keep their free space for the
# month's next replacement.
_MAX_COMPACTED_BYTES = 128 * (1 << 20)
_COMPACT_LOCK_MS = 200


@dataclass(frozen=True)
class Columnstore:
    """A compressed chunk for each calendar month; with `direct`, COPY compresses if the server's version can."""

    direct: bool = True

    name: ClassVar[str] = "columnstore"
    # Each connection would commit its share separately, showing readers parts of the month.
    shares_months: ClassVar[bool] = False

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Create the hypertable. It needs no index: each compressed chunk has one on its `segmentby` columns."""
        new = _version(connection) >= _COLUMNSTORE_VERSION
        names = ("enable_columnstore", "segmentby", "orderby") if new else _OLD_NAMES
        with connection.transaction():
            create_hypertable(connection)
            connection.execute(
                sql.SQL(
                    dataset_of(connection).sql(
                        "ALTER TABLE {weather} SET (timescaledb.{}, timescaledb.{} = {}, timescaledb.{} = {})"
                    )
                ).format(
                    *(sql.SQL(names[0]), sql.SQL(names[1]), sql.Literal(_SEGMENT_BY)),
                    *(sql.SQL(names[2]), sql.Literal(_ORDER_BY)),
                )
            )

    def replace(self, connection: psycopg.Connection[Any], replacement: Replacement) -> int:
        """DELETE the old rows and COPY the new ones, directly into batches if supported."""
        month = replacement.month
        make_calendar_chunk(connection, month)
        vacuum_failed_loads(connection, month)
        if self.direct and replacement.batches:
            self._make_batch_table(connection, month)
        with connection.transaction():
            apply_settings(connection, _LOAD_SETTINGS)
            if self.direct:
                self.compress_directly(connection)
            delete_rows(connection, month, replacement.locations, by_ids=True)
            rows = None
            if self.direct and replacement.batches:
                rows = replacement.batches(connection, replacement.locations)
            if rows is None:
                rows = replacement.copy(connection, table_of(connection), freeze=False)  # hypertables refuse FREEZE
            replacement.summarise()
            replacement.finish(rows)
        return rows

    def _make_batch_table(self, connection: psycopg.Connection[Any], month: Month) -> None:
        """Let the server make the new chunk's table of batches in an earlier transaction than that of the load.

        A COPY into a table of its own transaction never goes back to pages with room: values took 0.4 bytes a row more.
        A row that is deleted again makes the table; `compress_chunk` would too, but its chunks are aggregated without
        parallel workers.
        """
        row = connection.execute(
            "SELECT bool_or(is_compressed) FROM timescaledb_information.chunks "
            "WHERE format('%%I.%%I', chunk_schema, chunk_name)::regclass = ANY (%s::regclass[])",
            ([chunk.as_string(connection) for chunk in chunks_of(connection, month)],),
        ).fetchone()
        if row is None or row[0]:
            return
        # A constraint or trigger of the user's may refuse the row: the table is then made by the load.
        with suppress(pg.Error), connection.transaction():
            self.compress_directly(connection)
            # It has no location, which distinguishes it from all others of the month.
            with (
                connection.cursor() as cursor,
                cursor.copy(dataset_of(connection).sql("COPY {weather} (time) FROM STDIN")) as copy,
            ):
                copy.write_row((month.start,))
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE location_id IS NULL AND {}").format(
                    table_of(connection), month_where(month)
                )
            )

    @staticmethod
    def compress_directly(connection: psycopg.Connection[Any]) -> None:
        """Let each COPY of this transaction write batches, if the server can."""
        apply_settings(connection, _DIRECT_SETTINGS)

    def remove(self, connection: psycopg.Connection[Any], removal: Removal) -> None:
        """DELETE the rows' batches. VACUUM returns the space at the end of the chunk; gaps before it are reused."""
        with connection.transaction():
            apply_settings(connection, _LOAD_SETTINGS)
            removal.delete(connection, by_ids=True)
        vacuum(
            connection,
            lambda: (table for chunk in chunks_of(connection, removal.month) for table in tables_of(connection, chunk)),
        )

    def settle(
        self, connection: psycopg.Connection[Any], month: Month, *, replaced: bool, is_whole: bool
    ) -> tuple[str, ...]:
        """Compress remaining rows, vacuum, analyze, and free the space of a replaced month.

        If other locations stay, the space of deleted batches is left for later ones: rewriting the chunk of 7.4 million
        rows to replace a hundredth of them took 3 s.
        """
        notes = []
        for chunk in chunks_of(connection, month):
            name = chunk.as_string(connection)
            # Uncompressed rows: from a version without direct compress, or inserted by others.
            if connection.execute("SELECT pg_relation_size(%s::regclass) > 0", (name,)).fetchone() == (True,):
                connection.execute("SELECT compress_chunk(%s::regclass, if_not_compressed => true)", (name,))
            for table in tables_of(connection, chunk):
                connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(table))
            if replaced and is_whole and not _compact(connection, chunk):
                tables = ", ".join(table.as_string(connection) for table in tables_of(connection, chunk))
                notes.append(
                    f"{month}: the space of the replaced rows is kept for its next replacement; to free it, when "
                    f"readers of the month can wait: VACUUM FULL {tables};"
                )
        return tuple(notes)


def apply_settings(connection: psycopg.Connection[Any], settings: dict[str, str]) -> None:
    """Apply the settings known to this TimescaleDB version, for the transaction."""
    for name, value in settings.items():
        connection.execute(
            "SELECT set_config(name, %s, true) FROM pg_settings WHERE name = %s", (value, f"timescaledb.{name}")
        )


def _version(connection: psycopg.Connection[Any]) -> tuple[int, ...]:
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchone()
    return tuple(int(part) for part in str(row[0] if row else "0").split("-")[0].split(".")[:2])


def _compact(connection: psycopg.Connection[Any], chunk: sql.Identifier) -> bool:
    """Free the chunk's unused space unless readers would wait long; return whether it was done."""
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT total_bytes FROM chunks_detailed_size('{weather}') "
            "WHERE format('%%I.%%I', chunk_schema, chunk_name)::regclass = %s::regclass"
        ),
        (chunk.as_string(connection),),
    ).fetchone()
    if row is None or row[0] > _MAX_COMPACTED_BYTES:
        return False
    (before,) = connection.execute("SHOW lock_timeout").fetchone() or ("0",)
    try:
        # While this waits for the lock, every later reader waits behind it, so give up soon.
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{_COMPACT_LOCK_MS}ms",))
        for table in tables_of(connection, chunk):
            connection.execute(sql.SQL("VACUUM FULL {}").format(table))
    except pg.LockNotAvailable:
        return False
    finally:
        with suppress(pg.Error):
            connection.execute("SELECT set_config('lock_timeout', %s, false)", (before,))
    return True
