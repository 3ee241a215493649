"""The ledger: what each month in the table was made of, and which loads were tried."""

from __future__ import annotations

from dataclasses import asdict, fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from era5_pipeline import __version__
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.changes import has_same_content, revision_by
from era5_pipeline.warehouse.ledger_entry import Attempt, LedgerEntry

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.flat.flat_month import FlatMonth

# Those that a ledger of an earlier version lacks.
_LATER_COLUMNS = ("preliminary_hours", "version", "checked_at", "revised_at", "revision")
# What shaped the rows besides the files.
_LIBRARIES = ("xarray", "dask", "netCDF4", "numpy", "pyarrow", "pgpq", "psycopg")


_FIELDS = frozenset(one.name for one in fields(LedgerEntry))


def _state(flat: FlatMonth) -> str:
    whole = not flat.missing_hours and all(not facts.missing for facts in flat.columns)
    return "loaded" if whole else "incomplete"


def _storable(text: str) -> str:
    """The text with what is no Unicode (a file's name may have it) written as escapes: the server takes no other."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def ensure_columns(connection: psycopg.Connection[Any]) -> None:
    """Give a ledger that an earlier version of the pipeline made the columns that it lacks; its rows stay.

    Raises:
        psycopg.Error: whatever the server says; the user must own the ledger.
    """
    row = connection.execute(
        "SELECT count(*) FROM pg_attribute WHERE attrelid = 'era5.ledger'::regclass AND attname = ANY(%s) "
        "AND NOT attisdropped",
        (list(_LATER_COLUMNS),),
    ).fetchone()
    if row != (len(_LATER_COLUMNS),):
        # In one transaction: of two loads that both find it old, the second waits, and finds everything there.
        connection.execute(read_sql("schema"))


def write_entry(
    connection: psycopg.Connection[Any],
    flat: FlatMonth,
    before: LedgerEntry | None,
    *,
    server: str,
    load_seconds: float | None,
) -> None:
    """Put the month into the ledger in the place of `before`, within the transaction that loads it.

    `load_seconds` None: its rows were left as they were; when they were loaded, and what that took, are kept.
    """
    kept_rows = before if load_seconds is None else None
    if kept_rows is not None:
        load_seconds = kept_rows.seconds.get("load")
    revised_at, revision = _revision(before, flat)
    values: dict[str, Any] = {
        "month": flat.month.start.date(),
        "state": _state(flat),
        "rows": flat.rows,
        "locations": flat.locations,
        "hours": flat.hours,
        "hours_expected": flat.hours_expected,
        "missing_hours": list(flat.missing_hours),
        "source": flat.raw.source,
        "area": flat.raw.area,
        "expver": Jsonb(flat.expver),
        "columns": Jsonb([asdict(facts) for facts in flat.columns]),
        "files": Jsonb(
            [{"path": _storable(str(f.path)), "sha256": f.sha256, "bytes": f.bytes} for f in flat.raw.files]
        ),
        "warnings": [_storable(text) for text in flat.raw.warnings],
        "raw_bytes": flat.raw.bytes,
        "flat_bytes": flat.bytes,
        "seconds": Jsonb({"raw": flat.raw_seconds, "flat": flat.seconds, "load": load_seconds}),
        "versions": Jsonb(
            {"era5-pipeline": __version__, "server": server, **{name: version(name) for name in _LIBRARIES}}
        ),
        "fingerprint": flat.fingerprint,
        "preliminary_hours": Jsonb(flat.preliminary_hours),
        "version": flat.version,
        "loaded_at": sql.SQL("now()") if kept_rows is None else kept_rows.loaded_at,
        "checked_at": sql.SQL("now()"),
        "revised_at": revised_at,
        "revision": None if revision is None else Jsonb(revision),
    }
    connection.execute("DELETE FROM era5.ledger WHERE month = %s", (values["month"],))
    connection.execute(
        sql.SQL("INSERT INTO era5.ledger ({}) VALUES ({})").format(
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(v if isinstance(v, sql.SQL) else sql.Placeholder(name) for name, v in values.items()),
        ),
        {name: value for name, value in values.items() if not isinstance(value, sql.SQL)},
    )


def _revision(before: LedgerEntry | None, flat: FlatMonth) -> tuple[datetime | sql.SQL | None, dict[str, Any] | None]:
    """When final data took the place of preliminary ones, and what of: now, or as `before` has it, or never."""
    if before is None:
        return None, None
    revision = revision_by(before, flat)
    if revision is not None:
        return sql.SQL("now()"), revision
    return (before.revised_at, before.revision) if has_same_content(before, flat) else (None, None)


def note_check(connection: psycopg.Connection[Any], month: Month) -> None:
    """Note that the source was asked about the month just now, and has it as the table does."""
    connection.execute("UPDATE era5.ledger SET checked_at = now() WHERE month = %s", (month.start.date(),))


def read_ledger(connection: psycopg.Connection[Any]) -> list[LedgerEntry]:
    """Every month that the table holds or that was tried, in order. A database without a ledger has none.

    Raises:
        Era5Error: as `server_errors` says.
    """
    with server_errors("reading the ledger"):
        return _read_ledger(connection)


def _read_ledger(connection: psycopg.Connection[Any]) -> list[LedgerEntry]:
    if connection.execute("SELECT to_regclass('era5.load_attempt')").fetchone() == (None,):
        return []
    with connection.cursor(row_factory=dict_row) as cursor:
        loaded = {row["month"]: row for row in cursor.execute("SELECT * FROM era5.ledger")}
        # Of others' sessions, the server may tell the number alone.
        attempts = {
            row.pop("month"): Attempt(**row)
            for row in cursor.execute(
                "SELECT DISTINCT ON (month) month, started_at, finished_at, error, "
                "CASE WHEN outcome = 'running' AND NOT EXISTS (SELECT FROM pg_stat_activity s "
                "WHERE s.pid = a.backend_pid AND coalesce(s.backend_start = a.backend_start, true)) THEN 'interrupted' "
                "ELSE outcome END AS outcome FROM era5.load_attempt a ORDER BY month, id DESC"
            )
        }
    entries = []
    for day in sorted(loaded.keys() | attempts.keys()):
        month, attempt = Month(day.year, day.month), attempts.get(day)
        entries.append(_entry(month, loaded[day], attempt) if day in loaded else _only_tried(month, attempt))
    return entries


def read_entry(connection: psycopg.Connection[Any], month: Month) -> LedgerEntry | None:
    """The month's entry; None where the table does not hold it."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT * FROM era5.ledger WHERE month = %s", (month.start.date(),)).fetchone()
    return None if row is None else _entry(month, row, None)


def _entry(month: Month, row: dict[str, Any], attempt: Attempt | None) -> LedgerEntry:
    held = {name: value for name, value in row.items() if name in _FIELDS}
    tuples = {name: tuple(row[name]) for name in ("missing_hours", "columns", "files", "warnings")}
    preliminary = {column: tuple(runs) for column, runs in row.get("preliminary_hours", {}).items()}
    return LedgerEntry(**{**held, **tuples, "preliminary_hours": preliminary, "month": month, "last_attempt": attempt})


def _only_tried(month: Month, attempt: Attempt | None) -> LedgerEntry:
    return LedgerEntry(
        month=month,
        state="loading" if attempt is not None and attempt.outcome == "running" else "failed",
        rows=0,
        locations=0,
        hours=0,
        hours_expected=month.hours,
        missing_hours=(),
        source=None,
        area=None,
        expver={},
        columns=(),
        files=(),
        warnings=(),
        raw_bytes=0,
        flat_bytes=0,
        seconds={},
        versions={},
        fingerprint=None,
        loaded_at=None,
        last_attempt=attempt,
    )


def begin_attempt(connection: psycopg.Connection[Any], month: Month) -> int:
    """Note, committed at once, that a load of the month begins on this connection."""
    row = connection.execute(
        "INSERT INTO era5.load_attempt (month, backend_start) VALUES "
        "(%s, (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())) RETURNING id",
        (month.start.date(),),
    ).fetchone()
    return int(row[0]) if row else 0


def end_attempt(
    connection: psycopg.Connection[Any], attempt: int, *, rows: int | None = None, error: str | None = None
) -> None:
    """Note how the attempt ended; within the transaction of the load if it succeeded."""
    connection.execute(
        "UPDATE era5.load_attempt SET finished_at = clock_timestamp(), outcome = %s, rows = %s, error = %s "
        "WHERE id = %s",
        ("loaded" if error is None else "failed", rows, error, attempt),
    )
