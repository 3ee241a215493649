"""How far a load is, told to its attempt in the ledger while the load's own transaction is still open.

The server's own progress of COPY counts no rows of a hypertable, and knows nothing of a COPY into the columnstore.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

import psycopg

from era5_pipeline.errors import Era5Error

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 1.0


class Heartbeat:
    """Notes rows on a connection of its own, once a second; a load of less than that makes no connection.

    As a context manager it ends before the load's last transaction, which writes the same row. What goes wrong here
    does not stop a load.
    """

    def __init__(self, connect: Callable[[str], psycopg.Connection[Any]], attempt: int) -> None:
        self._connect = connect
        self._attempt = attempt
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()
        self._rows = 0
        self._next = time.monotonic() + _SECONDS

    def add(self, rows: int) -> None:
        """Count so many more rows as sent."""
        with self._lock:
            self._rows += rows
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + _SECONDS
            try:
                self._note()
            except (psycopg.Error, Era5Error):
                self._next = float("inf")  # a server that is short of connections is not asked again

    def _note(self) -> None:
        if self._connection is None:
            self._connection = self._connect("progress")
            # Never in the way of the load, and not worth a sync of the disk.
            self._connection.execute("SET lock_timeout = '100ms'; SET synchronous_commit = off")
        self._connection.execute(
            "UPDATE era5.load_attempt SET rows = %s WHERE id = %s AND outcome = 'running'", (self._rows, self._attempt)
        )

    def close(self) -> None:
        """Note nothing more."""
        with self._lock:
            self._next = float("inf")
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
