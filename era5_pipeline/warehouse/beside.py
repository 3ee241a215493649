"""A flat month beside the rows of its part: merged with their other columns, or compared within a quantum.

The flat month is copied into a temporary table of another session and joined there with the part's rows, which works
on every layout and for both forms of flat files.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.model.errors import RefusedError, WarehouseError
from era5_pipeline.model.variables import BY_COLUMN, ROUNDINGS
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.warehouse.copy import FlatCopy, location_spans
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, LocationSpan, locations_where, month_where, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import psycopg

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

    Connect = Callable[[str], psycopg.Connection[Any]]

_GATHERED_BYTES = 1 << 18
# A temporary table, which ends with the session.
_NEW_ROWS = sql.Identifier("pg_temp", "era5_new_rows")
# Rows that are compared at a time, which bounds the temporary table: about a gigabyte.
_COMPARED_ROWS = 1 << 24


def _copy_beside(connection: psycopg.Connection[Any], copy: FlatCopy, span: LocationSpan = EVERYWHERE) -> None:
    """Copy the flat month's rows in the span into the session's temporary table, which is empty or not there yet."""
    connection.execute(sql.SQL("CREATE TEMP TABLE IF NOT EXISTS {} (LIKE {})").format(_NEW_ROWS, table_of(connection)))
    copy(connection, _NEW_ROWS, freeze=False, span=span)
    connection.execute(sql.SQL("ANALYZE {}").format(_NEW_ROWS))


def _rows_of_part(
    connection: psycopg.Connection[Any], flat: FlatMonth, span: LocationSpan = EVERYWHERE
) -> sql.Composed:
    """The table's rows `o` at the flat month's locations in the span."""
    where = [month_where(flat.month), locations_where(flat.location_ids)]
    where += [] if span.first is None else [sql.SQL("location_id >= {}").format(sql.Literal(span.first))]
    where += [] if span.end is None else [sql.SQL("location_id < {}").format(sql.Literal(span.end))]
    return sql.SQL("(SELECT * FROM {} WHERE {}) o").format(table_of(connection), sql.SQL(" AND ").join(where))


def _joined(rows: sql.Composed) -> sql.Composed:
    """The rows `o` of the table, each beside its new row `n`."""
    return sql.SQL("{} LEFT JOIN {} n USING (location_id, time)").format(rows, _NEW_ROWS)


class MergedCopy:
    """Copies a part's rows with new columns from the flat month and their other columns unchanged (a `CopyInto`).

    What is copied into the table is as dense and ordered as after a first load. UPDATE would leave as many dead rows,
    and decompress the columnstore.
    """

    def __init__(
        self,
        copy: FlatCopy,
        flat: FlatMonth,
        before: LedgerEntry,
        connect: Connect,
    ) -> None:
        self._copy = copy
        self._flat = flat
        self._before = before
        self._connect = connect

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """COPY the merged rows into `table`; return the number of accepted rows."""
        options = sql.SQL("FORMAT binary, FREEZE true" if freeze else "FORMAT binary")
        with self._connect("merge") as reading:
            _copy_beside(reading, self._copy, span)
            columns = self._columns(reading)
            # Use one snapshot for the counts and the rows.
            with reading.transaction():
                reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                self._require_same_rows(reading)
                own = {*self._flat.column_names}
                merged = sql.SQL("COPY (SELECT {} FROM {} ORDER BY o.location_id, o.time) TO STDOUT (FORMAT binary)")
                values = (sql.Identifier("n" if name in own else "o", name) for name in columns)
                source = merged.format(sql.SQL(", ").join(values), _joined(_rows_of_part(connection, self._flat)))
                target = sql.SQL("COPY {} ({}) FROM STDIN ({})").format(
                    table, sql.SQL(", ").join(map(sql.Identifier, columns)), options
                )
                with reading.cursor() as from_, connection.cursor() as into:
                    with from_.copy(source) as old, into.copy(target) as new:
                        for chunk in _batched(old):
                            new.write(chunk)
                    return into.rowcount

    def _columns(self, connection: psycopg.Connection[Any]) -> list[str]:
        """All writable columns, including those that others added to the table."""
        rows = connection.execute(
            dataset_of(connection).sql(
                "SELECT attname FROM pg_attribute WHERE attrelid = '{weather}'::regclass AND attnum > 0 "
                "AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
            )
        ).fetchall()
        return [name for (name,) in rows]

    def _require_same_rows(self, connection: psycopg.Connection[Any]) -> None:
        month, old = self._flat.month, _rows_of_part(connection, self._flat)
        # If every place has every hour of the month in both, equal row counts mean the same rows.
        is_whole = self._flat.rows == self._before.rows == self._flat.locations * month.hours
        counted = sql.SQL("SELECT count(*), {} FROM {}").format(
            sql.Literal(self._flat.rows) if is_whole else sql.SQL("count(n.location_id)"),
            old if is_whole else _joined(old),
        )
        row = connection.execute(counted).fetchone()
        rows, matched = row if row is not None else (0, 0)
        if rows != self._before.rows:
            raise WarehouseError(
                f"{month}: the table holds {rows:,} rows of these places, and the ledger says {self._before.rows:,}",
                remedy="The table was changed outside the pipeline: load all variables of the month together, "
                "with --force --replace. The month is unchanged.",
            )
        if matched != self._flat.rows:
            names = self._flat.raw.dataset.catalogue.variable_names(
                {*self._before.column_names, *self._flat.column_names}
            )
            raise RefusedError(
                f"{month}: {self._flat.rows - matched:,} of the {self._flat.rows:,} new rows are for hours that the "
                "table does not have at these places: variables can only be added to existing rows",
                remedy=f"Load all variables together (--variables {names}). The month is unchanged.",
            )


def _batched(copy: Iterable[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    """Batch the rows that a COPY sends one by one."""
    gathered = bytearray()
    for row in copy:
        gathered += row
        if len(gathered) >= _GATHERED_BYTES:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def beyond_quantum(
    connect: Connect, flat: FlatMonth, on_rows: Callable[[int], None] = lambda _: None
) -> tuple[str, ...] | None:
    """The columns of which a value of the table is not that of the flat month, within the variable's quantum.

    A value on one side alone is none of the other's. None if the table does not have the same rows. Reads the table
    once, and changes nothing.
    """
    columns = flat.column_names
    differ = [
        sql.SQL("count(*) FILTER (WHERE {})").format(_differs(f"o.{column}", f"n.{column}", BY_COLUMN[column].quantum))
        for column in columns
    ]
    counts = [0] * (2 + len(columns))
    with connect("compare") as session:
        for span in location_spans(flat, -(-flat.rows // _COMPARED_ROWS)):
            with closing(FlatCopy(flat, (span,), on_rows)) as copy:
                _copy_beside(session, copy, span)
            query = sql.SQL("SELECT count(*), count(n.location_id), {} FROM {}").format(
                sql.SQL(", ").join(differ), _joined(_rows_of_part(session, flat, span))
            )
            row = session.execute(query).fetchone()
            counts = [sum(both) for both in zip(counts, row or (), strict=True)]
            session.execute(sql.SQL("TRUNCATE {}").format(_NEW_ROWS))
    if counts[:2] != [flat.rows] * 2:
        return None
    return tuple(column for column, count in zip(columns, counts[2:], strict=True) if count)


def _differs(one: str, other: str, quantum: float) -> sql.Composed:
    """The condition for two values of float32 (`table.column`) that are not the same number within the quantum.

    NULL equals NULL alone, and NaN NaN alone, which PostgreSQL takes for the greatest number.
    """
    a, b = (sql.Identifier(*name.split(".")) for name in (one, other))
    return sql.SQL(
        "{a} IS DISTINCT FROM {b} AND (abs({a}::float8 - {b}::float8) < 'Infinity' AND abs({a}::float8 - {b}::float8) "
        "<= {quantum}::float8 + {roundings}::float8 * greatest(abs({a}::float8), abs({b}::float8))) IS NOT TRUE"
    ).format(a=a, b=b, quantum=sql.Literal(quantum), roundings=sql.Literal(ROUNDINGS))
