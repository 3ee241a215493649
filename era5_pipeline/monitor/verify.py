"""Compare a month's table, summaries, lake and kept files with its ledger entry (`era5 verify`).

The rows are read once, and each column's digest is compared with that of the ledger, which the load wrote in its own
transaction. Nothing is changed or locked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from psycopg import sql

from era5_pipeline.flat.checks import raw_outcomes
from era5_pipeline.flat.flat_month import month_fingerprint
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.flat.storage import StoredMonth
from era5_pipeline.lake.open_lake import open_lake, wants_lake
from era5_pipeline.model.errors import InputError
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.times import SECONDS_PER_HOUR
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.read.fetch import fetch_packed, packed, since_1970
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.sources.source import RawMonth
from era5_pipeline.warehouse.layouts.layout import month_where, table_of
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table
from era5_pipeline.warehouse.ledger import read_overlapping
from era5_pipeline.warehouse.monthly_backfill import count_other_summaries
from era5_pipeline.warehouse.monthly_tables import has_summaries_table
from era5_pipeline.warehouse.verify import PartRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import psycopg

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# Rows read at a time: some tens of megabytes.
_ROWS_AT_ONCE = 1_000_000
# A load may end between reading the ledger and the rows: the month is then read again.
_MOST_READS = 3
_FIRST = Month(1940, 1)


@dataclass(frozen=True)
class VerifiedMonth:
    """What was compared of a month, and each difference, in words."""

    month: Month
    rows: int
    compared: tuple[str, ...]
    differences: tuple[str, ...]


def months_in_table(connection: psycopg.Connection[Any], last: Month) -> tuple[Month, ...]:
    """The months, up to ERA5's last, with any row in the table, whatever the ledger says."""
    with server_errors("looking for months in the table"):
        return tuple(
            month
            for month in month_range(_FIRST, last)
            if connection.execute(
                sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})").format(table_of(connection), month_where(month))
            ).fetchone()
            == (True,)
        )


def verify_month(connection: psycopg.Connection[Any], settings: Settings, month: Month) -> VerifiedMonth:
    """Compare the month's table rows and summaries, lake and kept files with the ledger."""
    with server_errors(f"verifying {month}"):
        for _ in range(_MOST_READS):
            parts = read_overlapping(connection, month)
            differences = [*_in_table(connection, month, parts), *_in_summaries(connection, parts)]
            if read_overlapping(connection, month) == parts:
                break
    compared = ["rows", *(["summaries"] if any(part.has_summaries for part in parts) else [])]
    if wants_lake(settings):
        compared.append("lake")
        differences += _in_lake(connection, settings, month)
    kept = StoredMonth.of(settings, month)
    for name, found in (("flat file", _in_flat_file(kept, parts)), ("raw files", _in_raw_files(kept, settings, parts))):
        if found is not None:
            compared.append(name)
            differences += found
    return VerifiedMonth(month, sum(part.rows for part in parts), tuple(compared), tuple(differences))


def _in_table(connection: psycopg.Connection[Any], month: Month, parts: Sequence[LedgerEntry]) -> Iterator[str]:
    """The differences between the table's rows and the ledger: rows, and the digest of each column."""
    columns = [variable.column for variable in variables_in_table(connection)]
    found, done, expected = PartRows(parts), 0, sum(part.rows for part in parts)
    unwritten: dict[tuple[int, str], int] = defaultdict(int)
    for rows in _blocks(connection, month, parts, columns):
        found.add(rows)
        for part in parts:
            for column in set(columns) - set(part.column_names):
                values = rows.filter(found.own(rows, part)).column(column).to_numpy()
                unwritten[part.part, column] += int(np.count_nonzero(~np.isnan(values)))
        done += rows.num_rows
        progress.report("verify", done, max(done, expected), "rows")
    strangers = done - found.total
    if strangers:
        yield f"{month}: {strangers:,} rows in the table at places of which the ledger has no part"
    yield from found.differences(month, "table")
    for (number, column), count in unwritten.items():
        if count:
            yield f"{month}, part {number}: {count:,} values of {column} in the table, which no load brought"


def _blocks(
    connection: psycopg.Connection[Any], month: Month, parts: Sequence[LedgerEntry], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The month's rows in the table, in blocks of locations; also those of locations in no part."""
    ids = np.sort(np.concatenate([part.location_ids.ids() for part in parts])) if parts else np.empty(0, np.int64)
    bounds = [None, *(int(one) for one in ids[:: max(1, _ROWS_AT_ONCE // month.hours)][1:]), None]
    packs = [
        sql.SQL("string_agg(int4send(location_id), '')"),
        sql.SQL("string_agg(timestamptz_send(time), '')"),
        *map(packed, columns),
    ]
    for first, end in pairwise(bounds):
        where = [month_where(month)]
        where += [] if first is None else [sql.SQL("location_id >= {}").format(sql.Literal(first))]
        where += [] if end is None else [sql.SQL("location_id < {}").format(sql.Literal(end))]
        query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(packs), table_of(connection), sql.SQL(" AND ").join(where)
        )
        locations, times, *values = fetch_packed(connection, query, {}, ("i4", "i8", *("f4" for _ in columns)))
        if locations.size:
            hours = since_1970(times.astype(np.int64), SECONDS_PER_HOUR)
            found = {
                "location_id": locations.astype(np.int32),
                "time": hours.astype("datetime64[h]").astype("datetime64[s]"),
            }
            found |= {column: of.astype(np.float32) for column, of in zip(columns, values, strict=True)}
            yield pa.table(found)


def _in_summaries(connection: psycopg.Connection[Any], parts: Sequence[LedgerEntry]) -> Iterator[str]:
    for part in parts:
        if part.has_summaries:
            places = count_other_summaries(connection, part) if has_summaries_table(connection) else part.locations
            if places:
                named = f"{part.month}, part {part.part}"
                yield f"{named}: the summaries of some places ({places:,}) are not those of their hours"


def _in_lake(connection: psycopg.Connection[Any], settings: Settings, month: Month) -> tuple[str, ...]:
    from era5_pipeline.lake.upkeep import LakeVerifier, read_both  # noqa: PLC0415  # only with the extra lake

    lake = open_lake(settings)
    table, held = read_both(connection, lake)
    verifier = LakeVerifier(lake, table)
    return tuple(line for contents in held if contents.month == month for line in verifier.differences(contents))


def _in_flat_file(kept: StoredMonth, parts: Sequence[LedgerEntry]) -> list[str] | None:
    """The differences of the month's flat file from its own facts and the ledger; None if none is kept here."""
    flat = kept.stored_flat()
    part = None if flat is None else _part_with(parts, flat.fingerprint)
    if flat is None or part is None or not all(file.path.is_file() for file in flat.files):
        return None
    found = [
        f"{flat.month}: the flat file {file.path} is not the one that was written"
        for file in flat.files
        if sha256_of(file.path) != file.sha256
    ]
    recorded = {facts.column: facts.digest for facts in part.columns}
    others = [facts.column for facts in flat.columns if recorded.get(facts.column) != facts.digest]
    if others and not part.is_confirmed_by(flat.fingerprint):
        found.append(f"{flat.month}: other values of {', '.join(others)} in the flat file than in the ledger")
    return found


def _in_raw_files(kept: StoredMonth, settings: Settings, parts: Sequence[LedgerEntry]) -> list[str] | None:
    """What today's rules refuse of the files that the month was loaded from; None if they are not kept here."""
    manifest = kept.read_manifest()
    raw = None if manifest is None else RawMonth.from_json(manifest["raw"])
    part = None if raw is None else _part_with(parts, month_fingerprint(raw))
    if raw is None or part is None or not all(file.path.is_file() for file in raw.files):
        return None
    scratch: Path = settings.files_home
    try:
        inventory = take_inventory(raw, scratch)
    except InputError as error:
        return [f"{raw.month}: the files that it was loaded from would be refused today: {error.message}"]
    outcomes = raw_outcomes(raw, inventory, allow_incomplete=part.state == "incomplete")
    return [f"what was loaded would be refused today: {one.description}" for one in outcomes if not one.passed]


def _part_with(parts: Sequence[LedgerEntry], fingerprint: str) -> LedgerEntry | None:
    return next((part for part in parts if fingerprint in part.fingerprints), None)
