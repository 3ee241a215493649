"""Compare a month's table rows with its flat file: row count, each column's count, range and checksum, summaries.

And rows of a month, read from wherever they are, with the digests of the ledger (`PartRows`).
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from era5_pipeline.flat.checks import Difference
from era5_pipeline.flat.flat_month import FLAT_FORM
from era5_pipeline.flat.statistics import digest_of_rows, digest_text
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.layouts.layout import locations_where, month_where, table_of
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table
from era5_pipeline.warehouse.ledger import count_other_locations, read_overlapping
from era5_pipeline.warehouse.monthly_rows import count_summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg

    from era5_pipeline.flat.checks import DifferenceKind, Number
    from era5_pipeline.flat.flat_month import ColumnFacts, FlatMonth
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

    # The compared quantity and its column; None: whole rows.
    Measure = tuple[DifferenceKind, str | None]

# The largest power of two in a bigint.
_BIGINT_LIMIT = 2.0**62


def verify_month(
    warehouse: Warehouse,
    flat: FlatMonth,
    *,
    connection: psycopg.Connection[Any] | None = None,
    is_read_back: bool = False,
) -> tuple[Difference, ...]:
    """Find every difference between the table and the flat month; an empty tuple means they are equal.

    If the ledger has other locations of the month too, only rows of the flat month's locations are compared. Scans the
    month once. The checksum is exact and independent of row order (see `checksum_of`). `connection` is the connection
    to use; None opens a new one. With `is_read_back`, the load has compared all rows itself, and only summaries are
    counted.
    """
    opened = warehouse.connect() if connection is None else nullcontext(connection)
    with server_errors(f"verifying {flat.month}"), opened as used:
        columns = [variable.column for variable in variables_in_table(used)]
        part = _part_of(used, flat)
        facts = _facts_of_rows(flat, part)
        expected: dict[Measure, Number] = {}
        actual: dict[Measure, Number] = {}
        if not is_read_back:
            expected = _measures_of_file(flat, columns, facts)
            actual = _measures_of_table(used, flat, columns, facts)
        if expected and part is not None and len(facts) > len(flat.columns) and part.rows != flat.rows:
            # The part has hours that are not in the file: only the ledger knows the row count.
            expected["rows", None] = part.rows
            del expected["sum of location_id", None]
        if part is not None and part.has_summaries:
            expected["summaries", None] = flat.locations
            actual["summaries", None] = count_summaries(used, flat.month, flat.location_ids)
    return tuple(
        Difference(kind, column, table=actual[kind, column], file=value)
        for (kind, column), value in expected.items()
        if actual[kind, column] != value
    )


def _part_of(connection: psycopg.Connection[Any], flat: FlatMonth) -> LedgerEntry | None:
    """The ledger's part with exactly the flat month's locations."""
    if connection.execute(
        dataset_of(connection).sql("SELECT to_regclass('{schema}.ledger') IS NOT NULL")
    ).fetchone() != (True,):
        return None
    parts = read_overlapping(connection, flat.month, flat.location_ids)
    return next((part for part in parts if part.location_ids == flat.location_ids), None)


def _facts_of_rows(flat: FlatMonth, part: LedgerEntry | None) -> tuple[ColumnFacts, ...]:
    """The facts of the rows that the table should hold: of the part's own, if the flat month only confirmed them."""
    if part is None:
        return flat.columns
    if part.is_confirmed_by(flat.fingerprint) and not part.is_cut:
        return part.columns
    return (*flat.columns, *_facts_of_other_loads(part, flat))


def _facts_of_other_loads(part: LedgerEntry, flat: FlatMonth) -> tuple[ColumnFacts, ...]:
    """The facts of columns that other loads brought to the same rows, if this load is one of the part's."""
    if part.is_cut or not part.additions or flat.fingerprint not in part.fingerprints:
        return ()
    return tuple(facts for facts in part.columns if facts.column not in flat.column_names)


def _measures_of_file(flat: FlatMonth, columns: Iterable[str], held: Iterable[ColumnFacts]) -> dict[Measure, Number]:
    measures: dict[Measure, Number] = {("rows", None): flat.rows, ("sum of location_id", None): flat.location_id_sum}
    # Columns that no load of these rows brought are entirely NULL.
    measures |= {("values", column): 0 for column in columns}
    for facts in held:
        measures["values", facts.column] = facts.values
        measures["minimum", facts.column] = facts.minimum
        measures["maximum", facts.column] = facts.maximum
        measures["checksum", facts.column] = facts.checksum
    return measures


def _measures_of_table(
    connection: psycopg.Connection[Any], flat: FlatMonth, columns: Iterable[str], held: Iterable[ColumnFacts]
) -> dict[Measure, Number]:
    aggregates: dict[Measure, sql.Composable] = {
        ("rows", None): sql.SQL("count(*)"),
        ("sum of location_id", None): sql.SQL("coalesce(sum(location_id), 0)::bigint"),
    }
    for name in columns:
        aggregates["values", name] = sql.SQL("count({})").format(sql.Identifier(name))
    for facts in held:
        column, scale = sql.Identifier(facts.column), BY_COLUMN[facts.column].checksum_scale
        aggregates["minimum", facts.column] = sql.SQL("min({})").format(column)
        aggregates["maximum", facts.column] = sql.SQL("max({})").format(column)
        # NaN and values too large for a bigint are excluded: they show in minimum and maximum.
        aggregates["checksum", facts.column] = sql.SQL(
            "coalesce(sum(CASE WHEN abs({0}) < {2} THEN floor({0}::float8 * {1})::bigint END), 0)::numeric"
        ).format(column, sql.Literal(scale), sql.Literal(_BIGINT_LIMIT / scale))
    where = month_where(flat.month)
    has_ledger = connection.execute(
        dataset_of(connection).sql("SELECT to_regclass('{schema}.ledger') IS NOT NULL")
    ).fetchone() == (True,)
    if has_ledger and count_other_locations(connection, flat.month, flat.location_ids):
        where += sql.SQL(" AND ") + locations_where(flat.location_ids)
    # Binary results, because text would round float4 to fewer digits than it has.
    row = connection.execute(
        sql.SQL("SELECT {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(aggregates.values()), table_of(connection), where
        ),
        binary=True,
    ).fetchone()
    return dict(zip(aggregates, row or (), strict=True))


# --- Rows of a month, of the table or the lake, compared with the ledger ---


class PartRows:
    """Row counts and digests of a month's parts, added up from its rows in any order.

    A part of which later loads took locations has no digests: its rows are counted.
    """

    def __init__(self, parts: Sequence[LedgerEntry]) -> None:
        self._parts = parts
        self._rows: dict[int, int] = defaultdict(int)
        self._digests: dict[tuple[int, str], int] = defaultdict(int)

    @property
    def total(self) -> int:
        """The rows that belong to a part."""
        return sum(self._rows.values())

    def add(self, batch: pa.Table) -> None:
        """Add rows: columns location_id, time and those of variables, NULL or NaN where missing."""
        for part in self._parts:
            own = batch.filter(self.own(batch, part))
            self._rows[part.part] += own.num_rows
            if part.is_cut or not own.num_rows:
                continue
            times, ids = own.column("time").to_numpy(), own.column("location_id").to_numpy()
            for facts in part.columns:
                if facts.column in own.column_names:
                    values = pc.fill_null(own.column(facts.column), np.float32("nan")).to_numpy()
                    self._digests[part.part, facts.column] += digest_of_rows(times, ids, values)

    @staticmethod
    def own(batch: pa.Table, part: LedgerEntry) -> pa.Array:
        """Which of the rows belong to the part."""
        ids = batch.column("location_id").to_numpy()
        if not part.location_ids.count_between(int(ids.min(initial=1)), int(ids.max(initial=1))):
            return pa.array(np.zeros(ids.size, dtype=bool))
        return pa.array(np.isin(ids, part.location_ids.ids()))

    def differences(self, month: Month, where: str) -> Iterator[str]:
        """A line for each difference of the rows `where` they were read from the ledger."""
        for part in self._parts:
            named = f"{month}, part {part.part}"
            if self._rows[part.part] != part.rows:
                yield f"{named}: {self._rows[part.part]:,} rows in the {where}, {part.rows:,} in the ledger"
            elif not part.is_cut:
                for facts in part.columns:
                    if digest_text(FLAT_FORM + self._digests[part.part, facts.column]) != facts.digest:
                        yield f"{named}: other values of {facts.column} in the {where}"
