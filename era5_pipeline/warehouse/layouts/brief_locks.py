"""Changes that lock the whole table for a moment, tried again and again while readers use it.

While a session waits for such a lock, every later reader waits behind it. So each attempt waits briefly, and lets the
readers pass before the next one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg

from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.runtime.waits import waiting
from era5_pipeline.warehouse.locks import holder_of_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

_LOCK_MS = 500
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)


def change_when_unused(
    connection: psycopg.Connection[Any],
    change: Callable[[], None],
    *,
    ready: str,
    refused: str,
    timeout_seconds: float,
    on_wait: Callable[[str], None],
) -> None:
    """Call `change`, which locks the whole table, in a transaction; again while other sessions use the table.

    `ready` and `refused` begin the messages: `2023-07 is ready`, `2023-07 cannot be replaced`.

    Raises:
        MonthLockedError: naming the session that uses the table, if it did not finish in time.
    """
    deadline = time.monotonic() + timeout_seconds
    for pause in _pauses():
        reader = _attempt(connection, change)
        if reader is None:
            return
        if time.monotonic() + pause > deadline:
            raise MonthLockedError(
                f"{refused} while the table weather is in use by {reader}",
                remedy="Wait until that session ends its transaction, or end it; then run this again. "
                "The month is unchanged.",
            )
        if pause == _PAUSES_SECONDS[0]:
            on_wait(f"{ready}, but the table weather is in use by {reader}: waiting up to {timeout_seconds:g} s")
        with waiting():
            time.sleep(pause)


def _pauses() -> Iterator[float]:
    yield from _PAUSES_SECONDS
    while True:
        yield _PAUSES_SECONDS[-1]


def _attempt(connection: psycopg.Connection[Any], change: Callable[[], None]) -> str | None:
    """Call `change` in one transaction; return the session that prevents it, None if it is done."""
    try:
        with connection.transaction():
            connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
            change()
    except pg.LockNotAvailable:
        return holder_of_tables(connection)
    return None
