"""Read and write the ledger: the origin of each part of a month in the table, and the attempted loads."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from era5_pipeline.flat.flat_month import ColumnFacts
from era5_pipeline.model.grid import Shift
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.source_kinds import Snapshot, most_doubtful, source_kind, version_of
from era5_pipeline.model.times import hour_of, hours_of_month
from era5_pipeline.model.variables import BY_COLUMN, in_table_order
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.attempts import with_outcomes
from era5_pipeline.warehouse.changes import has_same_content, missing_hours_of, revision_by
from era5_pipeline.warehouse.layouts.layout import locations_where, month_where, table_of
from era5_pipeline.warehouse.ledger_entry import (
    Addition,
    Attempt,
    Confirmation,
    LedgerEntry,
    LedgerFile,
    LedgerMonth,
    MonthContents,
    Revision,
)

if TYPE_CHECKING:
    from datetime import date, datetime

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.variables import Variable

# Libraries whose versions are recorded with the month: they shape its rows.
_LIBRARIES = ("xarray", "dask", "netCDF4", "numpy", "pyarrow", "pgpq", "psycopg")
_FIELDS = frozenset(field.name for field in fields(LedgerEntry))
# Columns in which the entry of dropped locations differs from that of their former part.
_OF_DROPPED = ("part", "state", "rows", "locations", "location_ids", "is_cut", "dropped_at")


def read_ledger(connection: psycopg.Connection[Any]) -> list[MonthContents]:
    """Read every month in the table or with an attempted load, in order; empty without a ledger."""
    with server_errors("reading the ledger"):
        months = read_months(connection)
        parts: dict[Month, list[LedgerEntry]] = {one.month: [] for one in months}
        for entry in _select(connection, sql.SQL("dropped_at IS NULL"), {}) if months else ():
            parts.setdefault(entry.month, []).append(entry)
    return [MonthContents(one.month, one.state, tuple(parts[one.month]), one.last_attempt) for one in months]


def read_months(connection: psycopg.Connection[Any]) -> tuple[LedgerMonth, ...]:
    """Read the state of every month in the table or with an attempted load, in order; empty without a ledger."""
    if connection.execute(dataset_of(connection).sql("SELECT to_regclass('{schema}.load_attempt')")).fetchone() == (
        None,
    ):
        return ()
    return tuple(
        LedgerMonth(_month_of(day), state, rows, is_preliminary, None if attempt[0] is None else Attempt(*attempt))
        for day, state, rows, is_preliminary, *attempt in connection.execute(
            with_outcomes("months", dataset_of(connection))
        )
    )


def read_overlapping(
    connection: psycopg.Connection[Any], month: Month, locations: LocationSet | None = None
) -> list[LedgerEntry]:
    """Read the parts of the month with any of these locations; None: all its parts."""
    if locations is None:
        return _select(connection, sql.SQL("month = %(month)s AND dropped_at IS NULL"), {"month": month.start.date()})
    return _select(
        connection,
        sql.SQL("month = %(month)s AND dropped_at IS NULL AND location_ids && %(locations)s::int4multirange"),
        {"month": month.start.date(), "locations": locations.multirange},
    )


def sources_of(connection: psycopg.Connection[Any], month: Month) -> tuple[str, ...]:
    """Name the sources of the month's parts."""
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT DISTINCT source FROM {schema}.ledger WHERE month = %s AND dropped_at IS NULL ORDER BY source"
        ),
        (month.start.date(),),
    ).fetchall()
    return tuple(source for (source,) in rows)


def count_other_locations(connection: psycopg.Connection[Any], month: Month, locations: LocationSet) -> int:
    """Count the month's other locations in the table."""
    row = connection.execute(
        dataset_of(connection).sql(
            "SELECT coalesce(sum(upper(run) - lower(run)), 0) FROM {schema}.ledger, "
            "unnest(location_ids - %s::int4multirange) run WHERE month = %s AND dropped_at IS NULL"
        ),
        (locations.multirange, month.start.date()),
    ).fetchone()
    return int(row[0]) if row is not None else 0


def write_entry(
    connection: psycopg.Connection[Any],
    flat: FlatMonth,
    before: LedgerEntry | None,
    *,
    server: str,
    load_seconds: float | None,
    has_summaries: bool = False,
    keeps: bool = False,
) -> None:
    """Write the part's entry, within the load's transaction; no other part has its locations any more.

    `before` is the entry of the same locations that it replaces, if any. `load_seconds` is None if the rows were left
    unchanged: the entry then keeps when they were loaded, and how long that took. With `keeps`, the flat month's
    columns are added to the other columns of `before`, which stay.
    """
    kept_rows = before if load_seconds is None else None
    if kept_rows is not None:
        load_seconds = kept_rows.seconds.get("load")
    revised_at, revision = _revision(before.of_columns(flat.column_names) if before and keeps else before, flat)
    month = flat.month.start.date()
    values: dict[str, Any] = {
        "additions": Jsonb([]),
        "month": month,
        "part": _next_part(connection, flat.month) if before is None else before.part,
        "state": flat.state,
        "rows": flat.rows,
        "locations": flat.locations,
        "location_ids": flat.location_ids.multirange,
        "hours": flat.hours,
        "hours_expected": flat.hours_expected,
        "missing_hours": Jsonb(missing_hours_of(flat)),
        "source": flat.raw.source,
        "area": flat.raw.area,
        "expver": Jsonb(flat.expver),
        "columns": Jsonb([asdict(facts) for facts in flat.columns]),
        "files": Jsonb(list(map(asdict, _files_of(flat)))),
        "warnings": [_storable(text) for text in flat.warnings],
        "raw_bytes": flat.raw.bytes,
        "flat_bytes": flat.row_bytes,
        "flat_file": Jsonb(asdict(_flat_file_of(flat))),
        "seconds": Jsonb({"raw": flat.raw_seconds, "flat": flat.seconds, "load": load_seconds}),
        "versions": Jsonb({"era5-pipeline": __version__, "server": server, **_library_versions()}),
        "fingerprint": flat.fingerprint,
        "preliminary_hours": Jsonb(flat.preliminary_hours),
        "version": flat.version,
        "loaded_at": sql.SQL("now()") if kept_rows is None else kept_rows.loaded_at,
        "checked_at": sql.SQL("now()"),
        "revised_at": revised_at,
        "revision": _as_jsonb(revision),
        "has_summaries": has_summaries,
        "interpolated": _as_jsonb(flat.shift),
        "origin": flat.origin,
        "snapshot": _as_jsonb(flat.raw.snapshot),
    }
    if before is not None and keeps:
        values |= _with_kept_columns(connection, before, flat)
    connection.execute(
        dataset_of(connection).sql("DELETE FROM {schema}.ledger WHERE month = %s AND part = %s"),
        (month, values["part"]),
    )
    connection.execute(
        sql.SQL(dataset_of(connection).sql("INSERT INTO {schema}.ledger ({}) VALUES ({})")).format(
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(v if isinstance(v, sql.SQL) else sql.Placeholder(name) for name, v in values.items()),
        ),
        {name: value for name, value in values.items() if not isinstance(value, sql.SQL)},
    )


def _as_jsonb(record: Confirmation | Revision | Shift | Snapshot | None) -> Jsonb | None:
    return None if record is None else Jsonb(asdict(record))


def _with_kept_columns(connection: psycopg.Connection[Any], before: LedgerEntry, flat: FlatMonth) -> dict[str, Any]:
    """The values of the part's entry that differ if its other columns stay."""
    own = set(flat.column_names)
    if before.confirmed is not None and not own.isdisjoint(before.confirmed.quanta):
        before = before.unconfirmed()
    kept = before.of_columns(column for column in before.column_names if column not in own)
    by_column = {facts.column: facts for facts in (*kept.columns, *flat.columns)}
    missing = kept.missing_hours | missing_hours_of(flat)
    expver = kept.expver | flat.expver
    generated = {*(before.generated_columns - own), *(own if source_kind(flat.raw.source).is_generated else ())}
    values: dict[str, Any] = {
        "state": "incomplete" if missing else "loaded",
        "rows": before.rows,
        "hours": before.hours,
        "missing_hours": Jsonb(missing),
        "expver": Jsonb(expver),
        "columns": Jsonb([asdict(by_column[variable.column]) for variable in in_table_order(by_column)]),
        "preliminary_hours": Jsonb(kept.preliminary_hours | flat.preliminary_hours),
        "version": version_of(expver, generated=generated),
        "origin": most_doubtful(facts.origin for facts in by_column.values()),
        "warnings": list(dict.fromkeys((*before.warnings, *map(_storable, flat.warnings)))),
        "confirmed": _as_jsonb(before.confirmed),
    }
    additions = [addition for addition in before.additions if not own & set(addition.columns)]
    if own != set(before.first_columns):
        row = connection.execute("SELECT now()").fetchone()
        additions.append(
            Addition(
                columns=flat.column_names,
                source=flat.raw.source,
                area=flat.raw.area,
                fingerprint=flat.fingerprint,
                files=_files_of(flat),
                flat_file=_flat_file_of(flat),
                loaded_at=row[0].isoformat() if row is not None else "",
                snapshot=flat.raw.snapshot,
            )
        )
        values |= {
            "source": before.source,
            "area": before.area,
            "files": Jsonb(list(map(asdict, before.files))),
            "raw_bytes": before.raw_bytes,
            "flat_bytes": before.flat_bytes,
            "flat_file": Jsonb(asdict(before.flat_file)),
            "seconds": Jsonb(before.seconds),
            "fingerprint": before.fingerprint,
            "snapshot": _as_jsonb(before.snapshot),
            "revised_at": before.revised_at,
            "revision": _as_jsonb(before.revision),
        }
    return values | {"additions": Jsonb(list(map(asdict, additions)))}


def _files_of(flat: FlatMonth) -> tuple[LedgerFile, ...]:
    return tuple(LedgerFile(_storable(file.shown), file.bytes, file.sha256) for file in flat.raw.files)


def _flat_file_of(flat: FlatMonth) -> LedgerFile:
    return LedgerFile(_storable(str(flat.path)), flat.bytes, flat.sha256)


def take_out(
    connection: psycopg.Connection[Any], entry: LedgerEntry, locations: LocationSet, *, dropped: bool = False
) -> None:
    """Remove these locations from the part's entry, within the transaction that removes or replaces their rows.

    An entry without remaining locations is deleted. With `dropped`, an entry of the removed ones stays as history.
    """
    taken, left = entry.location_ids & locations, entry.location_ids - locations
    month = entry.month.start.date()
    key = {"month": month, "part": entry.part}
    rows_left = _rows_of(connection, entry, left)
    if dropped and left:
        names = [name for name in _columns_of_ledger(connection) if name not in _OF_DROPPED]
        connection.execute(
            sql.SQL(
                dataset_of(connection).sql(
                    "INSERT INTO {schema}.ledger ({names}, {own}) "
                    "SELECT {names}, %(new)s, 'dropped', %(rows)s, %(locations)s, %(ids)s::int4multirange, true, now() "
                    "FROM {schema}.ledger WHERE month = %(month)s AND part = %(part)s"
                )
            ).format(
                names=sql.SQL(", ").join(map(sql.Identifier, names)),
                own=sql.SQL(", ").join(map(sql.Identifier, _OF_DROPPED)),
            ),
            {
                **key,
                "new": _next_part(connection, entry.month),
                "rows": entry.rows - rows_left,
                "locations": len(taken),
                "ids": taken.multirange,
            },
        )
    elif dropped:
        connection.execute(
            dataset_of(connection).sql(
                "UPDATE {schema}.ledger SET state = 'dropped', dropped_at = now() "
                "WHERE month = %(month)s AND part = %(part)s"
            ),
            key,
        )
        return
    if not left:
        connection.execute(
            dataset_of(connection).sql("DELETE FROM {schema}.ledger WHERE month = %(month)s AND part = %(part)s"), key
        )
        return
    connection.execute(
        dataset_of(connection).sql(
            "UPDATE {schema}.ledger SET location_ids = %(ids)s::int4multirange, locations = %(locations)s, "
            "rows = %(rows)s, is_cut = true WHERE month = %(month)s AND part = %(part)s"
        ),
        {**key, "ids": left.multirange, "locations": len(left), "rows": rows_left},
    )
    if entry.state == "incomplete":
        _count_gaps(connection, entry, left)


def _rows_of(connection: psycopg.Connection[Any], entry: LedgerEntry, locations: LocationSet) -> int:
    """The row count of some locations of the part: counted in the table only if locations have different hours."""
    if not locations:
        return 0
    if entry.rows == entry.locations * entry.hours:
        return len(locations) * entry.hours
    row = connection.execute(
        sql.SQL("SELECT count(*) FROM {} WHERE {} AND {}").format(
            table_of(connection), month_where(entry.month), locations_where(locations)
        )
    ).fetchone()
    return int(row[0]) if row is not None else 0


def _count_gaps(connection: psycopg.Connection[Any], entry: LedgerEntry, locations: LocationSet) -> None:
    """Check whether an incomplete part has gaps at the remaining locations, and record it as loaded if not."""
    known = dataset_of(connection).catalogue.by_column
    columns = [facts.column for facts in entry.columns if facts.column in known]
    row = connection.execute(
        sql.SQL("SELECT {} FROM {} WHERE {} AND {}").format(
            sql.SQL(", ").join(_values_and_locations(known[column]) for column in columns),
            table_of(connection),
            month_where(entry.month),
            locations_where(locations),
        )
    ).fetchone()
    hours = hours_of_month(entry.month)
    expected = [sum(hour >= hour_of(known[column].first_valid) for hour in hours) for column in columns]
    if row is not None and all(
        values >= due * (len(locations) if places is None else places)
        for due, values, places in zip(expected, row[::2], row[1::2], strict=True)
    ):
        connection.execute(
            dataset_of(connection).sql(
                "UPDATE {schema}.ledger SET state = 'loaded', missing_hours = '{}' WHERE month = %s AND part = %s"
            ),
            (entry.month.start.date(), entry.part),
        )


def _values_and_locations(variable: Variable) -> sql.Composed:
    """The expressions for the number of values, and of locations that should have one (NULL: all)."""
    column = sql.Identifier(variable.column)
    if variable.extent == "sea":
        return sql.SQL("count({0}), count(DISTINCT location_id) FILTER (WHERE {0} IS NOT NULL)").format(column)
    # For variables that exist only sometimes, every row counts.
    return sql.SQL("count({}), NULL::bigint").format(sql.SQL("*") if variable.extent == "sometimes" else column)


def _columns_of_ledger(connection: psycopg.Connection[Any]) -> list[str]:
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT attname FROM pg_attribute "
            "WHERE attrelid = '{schema}.ledger'::regclass AND attnum > 0 AND NOT attisdropped"
        )
    ).fetchall()
    return [name for (name,) in rows]


def _next_part(connection: psycopg.Connection[Any], month: Month) -> int:
    row = connection.execute(
        dataset_of(connection).sql("SELECT coalesce(max(part), 0) + 1 FROM {schema}.ledger WHERE month = %s"),
        (month.start.date(),),
    ).fetchone()
    return int(row[0]) if row is not None else 1


def _select(
    connection: psycopg.Connection[Any], where: sql.Composable, parameters: dict[str, Any]
) -> list[LedgerEntry]:
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            sql.SQL(dataset_of(connection).sql("SELECT * FROM {schema}.ledger WHERE {} ORDER BY month, part")).format(
                where
            ),
            parameters,
        ).fetchall()
    return [_entry(row, dataset_of(connection).grid) for row in rows]


def record_check(connection: psycopg.Connection[Any], entry: LedgerEntry) -> None:
    """Record that the source was just asked about the part, and matches the table."""
    connection.execute(
        dataset_of(connection).sql("UPDATE {schema}.ledger SET checked_at = now() WHERE month = %s AND part = %s"),
        (entry.month.start.date(), entry.part),
    )


def record_confirmation(connection: psycopg.Connection[Any], entry: LedgerEntry, flat: FlatMonth) -> LedgerEntry:
    """Record that the flat month, of another source, has the part's values within a quantum; return the new entry.

    All that describes the rows stays. Their version becomes that of the flat month, but of columns that are final by
    the word of their own source.
    """
    row = connection.execute("SELECT now()").fetchone()
    final = {column for column, counts in entry.expver.items() if version_of({column: counts}) == "final"}
    confirmed = replace(
        entry,
        confirmed=Confirmation(
            source=flat.raw.source,
            snapshot=flat.raw.snapshot,
            fingerprint=flat.fingerprint,
            expver=flat.expver,
            quanta={column: BY_COLUMN[column].quantum for column in flat.column_names},
            confirmed_at=row[0].isoformat() if row is not None else "",
        ),
        expver={column: counts if column in final else flat.expver[column] for column, counts in entry.expver.items()},
        preliminary_hours={column: of for column, of in flat.preliminary_hours.items() if column not in final},
    )
    connection.execute(
        dataset_of(connection).sql(
            "UPDATE {schema}.ledger SET confirmed = %s, expver = %s, preliminary_hours = %s, version = %s, "
            "checked_at = now() WHERE month = %s AND part = %s"
        ),
        (
            _as_jsonb(confirmed.confirmed),
            Jsonb(confirmed.expver),
            Jsonb(confirmed.preliminary_hours),
            confirmed.version,
            entry.month.start.date(),
            entry.part,
        ),
    )
    return confirmed


def record_summaries(connection: psycopg.Connection[Any], entry: LedgerEntry) -> None:
    """Record, within the transaction that writes them, that the part has summaries."""
    connection.execute(
        dataset_of(connection).sql("UPDATE {schema}.ledger SET has_summaries = true WHERE month = %s AND part = %s"),
        (entry.month.start.date(), entry.part),
    )


def _month_of(day: date) -> Month:
    return Month(day.year, day.month)


def _entry(row: dict[str, Any], grid: Grid) -> LedgerEntry:
    read = {name: value for name, value in row.items() if name in _FIELDS}
    read |= {
        "month": _month_of(row["month"]),
        "location_ids": LocationSet.of_ranges(row["location_ids"], grid),
        "missing_hours": {column: tuple(runs) for column, runs in row["missing_hours"].items()},
        "columns": tuple(map(ColumnFacts.from_json, row["columns"])),
        "files": tuple(LedgerFile(**file) for file in row["files"]),
        "warnings": tuple(row["warnings"]),
        "software_versions": row["versions"],
        "preliminary_hours": {column: tuple(runs) for column, runs in row["preliminary_hours"].items()},
        "revision": None if row["revision"] is None else Revision.from_json(row["revision"]),
        "flat_file": LedgerFile(**row["flat_file"]),
        "additions": tuple(map(Addition.from_json, row["additions"])),
        "interpolated": Shift.from_json(row["interpolated"]),
        "snapshot": Snapshot.from_json(row["snapshot"]),
        "confirmed": Confirmation.from_json(row["confirmed"]),
    }
    return LedgerEntry(**read)


def _storable(text: str) -> str:
    """Escape what is not valid Unicode, as in file names: the server would reject it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@cache
def _library_versions() -> dict[str, str]:
    return {name: found for name in _LIBRARIES if (found := _version(name)) is not None}


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:  # pgpq, which not every system has
        return None


def _revision(before: LedgerEntry | None, flat: FlatMonth) -> tuple[datetime | sql.SQL | None, Revision | None]:
    """Return when final data replaced preliminary data, and what changed: now, as recorded in `before`, or never."""
    if before is None:
        return None, None
    revision = revision_by(before, flat)
    if revision is not None:
        return sql.SQL("now()"), revision
    return (before.revised_at, before.revision) if has_same_content(before, flat) else (None, None)
