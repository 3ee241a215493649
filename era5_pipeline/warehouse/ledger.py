"""Read and write the ledger: what each month in the table was made of, and which loads were attempted."""

from __future__ import annotations

from dataclasses import asdict, fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from era5_pipeline import __version__
from era5_pipeline.flat.flat_month import ColumnFacts
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.changes import has_same_content, revision_by
from era5_pipeline.warehouse.ledger_entry import Attempt, LedgerEntry, LedgerFile

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.flat.flat_month import FlatMonth

# Libraries whose versions are recorded with the month: they shape its rows.
_LIBRARIES = ("xarray", "dask", "netCDF4", "numpy", "pyarrow", "pgpq", "psycopg")
_FIELDS = frozenset(field.name for field in fields(LedgerEntry))


def read_ledger(connection: psycopg.Connection[Any]) -> list[LedgerEntry]:
    """Read every month that the table holds or whose load was attempted, in order; none without a ledger.

    Raises:
        Era5Error: as `server_errors` says.
    """
    with server_errors("reading the ledger"):
        if connection.execute("SELECT to_regclass('era5.load_attempt')").fetchone() == (None,):
            return []
        with connection.cursor(row_factory=dict_row) as cursor:
            loaded = {row["month"]: row for row in cursor.execute("SELECT * FROM era5.ledger")}
        attempts = _last_attempts(connection)
    entries = []
    for day in sorted(loaded.keys() | attempts.keys()):
        month, attempt = Month(day.year, day.month), attempts.get(day)
        entries.append(_entry(month, loaded[day], attempt) if day in loaded else _never_loaded(month, attempt))
    return entries


def read_entry(connection: psycopg.Connection[Any], month: Month) -> LedgerEntry | None:
    """Read the month's entry, without its last attempt; None if the table does not hold the month."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT * FROM era5.ledger WHERE month = %s", (month.start.date(),)).fetchone()
    return None if row is None else _entry(month, row, None)


def write_entry(
    connection: psycopg.Connection[Any],
    flat: FlatMonth,
    before: LedgerEntry | None,
    *,
    server: str,
    load_seconds: float | None,
) -> None:
    """Write the month's entry in place of `before`, within the transaction that loads the month.

    `load_seconds` is None if the rows were left as they were: the entry then keeps when they were loaded, and how long
    that took.
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
        "files": Jsonb([asdict(LedgerFile(_storable(str(f.path)), f.bytes, f.sha256)) for f in flat.raw.files]),
        "warnings": [_storable(text) for text in flat.raw.warnings],
        "raw_bytes": flat.raw.bytes,
        "flat_bytes": flat.bytes,
        "seconds": Jsonb({"raw": flat.raw_seconds, "flat": flat.seconds, "load": load_seconds}),
        "versions": Jsonb(_software_versions(server)),
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


def record_check(connection: psycopg.Connection[Any], month: Month) -> None:
    """Record that the source was asked about the month just now, and has it as the table does."""
    connection.execute("UPDATE era5.ledger SET checked_at = now() WHERE month = %s", (month.start.date(),))


def begin_attempt(connection: psycopg.Connection[Any], month: Month) -> int:
    """Record, committed at once, that this connection begins to load the month; return the attempt's id."""
    row = connection.execute(
        "INSERT INTO era5.load_attempt (month, backend_start) VALUES "
        "(%s, (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())) RETURNING id",
        (month.start.date(),),
    ).fetchone()
    return int(row[0]) if row else 0


def end_attempt(
    connection: psycopg.Connection[Any], attempt: int, *, rows: int | None = None, error: str | None = None
) -> None:
    """Record how the attempt ended; if it succeeded, within the transaction of the load."""
    connection.execute(
        "UPDATE era5.load_attempt SET finished_at = clock_timestamp(), outcome = %s, rows = %s, error = %s "
        "WHERE id = %s",
        ("loaded" if error is None else "failed", rows, error, attempt),
    )


def _last_attempts(connection: psycopg.Connection[Any]) -> dict[Any, Attempt]:
    """Read the last attempt of each month, by the month's first day."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return {
            row.pop("month"): Attempt(**row)
            for row in cursor.execute(
                # Of other users' sessions, the server may show the pid alone: their backend_start is then NULL.
                "SELECT DISTINCT ON (month) month, started_at, finished_at, error, "
                "CASE WHEN outcome = 'running' AND NOT EXISTS (SELECT FROM pg_stat_activity s "
                "WHERE s.pid = a.backend_pid AND coalesce(s.backend_start = a.backend_start, true)) THEN 'interrupted' "
                "ELSE outcome END AS outcome FROM era5.load_attempt a ORDER BY month, id DESC"
            )
        }


def _entry(month: Month, row: dict[str, Any], attempt: Attempt | None) -> LedgerEntry:
    read = {name: value for name, value in row.items() if name in _FIELDS}
    read |= {
        "month": month,
        "missing_hours": tuple(row["missing_hours"]),
        "columns": tuple(map(ColumnFacts.from_json, row["columns"])),
        "files": tuple(LedgerFile(**file) for file in row["files"]),
        "warnings": tuple(row["warnings"]),
        "software_versions": row["versions"],
        "last_attempt": attempt,
        "preliminary_hours": {column: tuple(runs) for column, runs in row["preliminary_hours"].items()},
    }
    return LedgerEntry(**read)


def _never_loaded(month: Month, attempt: Attempt | None) -> LedgerEntry:
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
        software_versions={},
        fingerprint=None,
        loaded_at=None,
        last_attempt=attempt,
    )


def _state(flat: FlatMonth) -> str:
    is_complete = not flat.missing_hours and all(not facts.missing for facts in flat.columns)
    return "loaded" if is_complete else "incomplete"


def _storable(text: str) -> str:
    """Write what is no Unicode (a file's name may contain it) as escapes: the server accepts nothing else."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _software_versions(server: str) -> dict[str, str]:
    return {"era5-pipeline": __version__, "server": server, **{name: version(name) for name in _LIBRARIES}}


def _revision(before: LedgerEntry | None, flat: FlatMonth) -> tuple[datetime | sql.SQL | None, dict[str, Any] | None]:
    """Tell when final data replaced preliminary data and what that changed: now, as `before` says, or never."""
    if before is None:
        return None, None
    revision = revision_by(before, flat)
    if revision is not None:
        return sql.SQL("now()"), revision
    return (before.revised_at, before.revision) if has_same_content(before, flat) else (None, None)
