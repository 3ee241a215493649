"""One load of a month at a time: an advisory lock per month, and the name of the session that holds a lock."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg

from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.runtime.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import psycopg

    from era5_pipeline.model.months import Month

# The second key of an advisory lock while tables are created; for a month it is the month's number. The first is the
# class of the data set.
SCHEMA_LOCK = 0

# From weakest to strongest.
_MODES = (
    *("AccessShareLock", "RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock"),
    *("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"),
)
# The session of a granted lock. Locks belong to one database, but pg_locks shows those of all databases.
_SESSION = (
    "SELECT a.pid, a.usename, host(a.client_addr), a.backend_start FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
    "WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def schema_lock_key(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """The key of the advisory lock under which the tables of the connection's data set are created."""
    return dataset_of(connection).lock_class, SCHEMA_LOCK


@contextmanager
def month_lock(
    connection: psycopg.Connection[Any],
    month: Month,
    *,
    timeout_seconds: int,
    on_wait: Callable[[str], None],
) -> Iterator[None]:
    """Hold the month's lock within the context; it also ends with the connection, in whatever way.

    If another session holds it, `on_wait` is called with a message that names that session, and this one waits up to
    `timeout_seconds`.
    """
    key = (dataset_of(connection).lock_class, month.number)
    row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", key).fetchone()
    if row != (True,):
        holder = _holder(connection, key)
        locked = MonthLockedError(
            f"{month} is being loaded by {holder}",
            remedy="Wait until that load is done, or end it; then run this one again. The month is unchanged.",
        )
        if timeout_seconds == 0:
            raise locked
        on_wait(f"{month} is being loaded by {holder}: waiting up to {timeout_seconds} s")
        try:
            with waiting(), connection.transaction():
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{timeout_seconds}s",))
                connection.execute("SELECT pg_advisory_lock(%s, %s)", key)
        except pg.LockNotAvailable:
            raise locked from None
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", key)


def require_no_loads(connection: psycopg.Connection[Any], problem: str) -> None:
    """Require that no other session loads a month: a running load was started by an older version."""
    row = connection.execute(
        f"{_SESSION} AND l.locktype = 'advisory' AND l.classid = %s AND l.objid <> %s AND l.objsubid = 2 "
        "AND l.pid <> pg_backend_pid() ORDER BY a.backend_start LIMIT 1",
        schema_lock_key(connection),
    ).fetchone()
    if row is not None:
        raise MonthLockedError(
            f"{problem}: a month is being loaded by {describe_session(*row)}",
            remedy="Wait until that load is done, or end it; then run this again. Nothing was changed.",
        )


def _holder(connection: psycopg.Connection[Any], key: tuple[int, int]) -> str:
    row = connection.execute(
        f"{_SESSION} AND l.locktype = 'advisory' AND l.classid = %s AND l.objid = %s AND l.objsubid = 2", key
    ).fetchone()
    return "a session that has just ended" if row is None else describe_session(*row)


def holder_of_tables(connection: psycopg.Connection[Any]) -> str:
    """Name the other session that locks `weather`, its partitions or chunks, or the ledger.

    Of several, choose the strongest lock, then the oldest transaction.
    """
    # Within a transaction, the server shows the sessions as of the first query.
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(
        # Reads catalogues only: functions that open the table would wait for its lock too.
        dataset_of(connection).sql(
            "WITH RECURSIVE parts (oid) AS (SELECT to_regclass('{weather}')::oid "
            "UNION SELECT inhrelid FROM pg_inherits JOIN parts ON inhparent = oid), "
            "ours (oid) AS (SELECT oid FROM parts UNION SELECT c.oid FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('{schema}', '{schema}_loads')) "
            f"{_SESSION} AND l.locktype = 'relation' AND a.pid <> pg_backend_pid() "
            "AND l.relation IN (SELECT oid FROM ours) "
            # Autovacuum workers yield by themselves: name one only if no session holds a lock.
            "ORDER BY a.backend_type IS DISTINCT FROM 'autovacuum worker' DESC, "
            "array_position(%s, l.mode) DESC, a.xact_start LIMIT 1"
        ),
        (list(_MODES),),
    ).fetchone()
    return "a session that has just ended" if row is None else describe_session(*row)


def describe_session(pid: int, user: str | None, address: str | None, since: datetime | None) -> str:
    """Describe a session with all details that the server shows (fewer for other users' sessions)."""
    words = [f"session {pid}"]
    if user is not None:
        words.append(f"of {user}")
    if since is not None:
        # A session with a start time but no address uses a Unix socket.
        words.append(f"from {address or 'the server itself'} (connected since {since:%Y-%m-%d %H:%M:%S} UTC)")
    return " ".join(words)
