"""One load of a month at a time: an advisory lock a month, and who holds it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg

from era5_pipeline.errors import MonthLockedError
from era5_pipeline.warehouse.schema import LOCK_CLASS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from era5_pipeline.months import Month


@contextmanager
def month_lock(
    connection: psycopg.Connection[Any],
    month: Month,
    *,
    timeout_seconds: int,
    on_wait: Callable[[str], None],
) -> Iterator[None]:
    """Hold the month's lock. It belongs to the session: it ends with the connection, however that ends.

    Where another session holds it, `on_wait` is told who, and this one waits up to `timeout_seconds`.

    Raises:
        MonthLockedError: naming the holder, if it did not finish in time.
    """
    key = (LOCK_CLASS, month.number)
    row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", key).fetchone()
    if row != (True,):
        holder = _holder(connection, key)
        locked = MonthLockedError(
            f"{month} is being loaded by {holder}",
            remedy="Wait until that load is done, or end it; then run this one again. The month is as it was.",
        )
        if timeout_seconds == 0:
            raise locked
        on_wait(f"{month} is being loaded by {holder}: waiting up to {timeout_seconds} s")
        try:
            with connection.transaction():
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{timeout_seconds}s",))
                connection.execute("SELECT pg_advisory_lock(%s, %s)", key)
        except pg.LockNotAvailable:
            raise locked from None
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", key)


def _holder(connection: psycopg.Connection[Any], key: tuple[int, int]) -> str:
    row = connection.execute(
        "SELECT a.pid, a.usename, coalesce(host(a.client_addr), 'this machine'), "
        "to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') "
        "FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        "WHERE l.locktype = 'advisory' AND l.classid = %s AND l.objid = %s AND l.granted",
        key,
    ).fetchone()
    if row is None:
        return "a session that has just ended"
    pid, user, host, since = row
    return f"session {pid} of {user} from {host} (connected since {since} UTC)"
