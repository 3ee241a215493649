"""Record the progress of a load in its attempt in the ledger, while the load's own transaction is still open.

The server's own progress view of COPY counts no rows of a hypertable, and does not show a COPY into the columnstore.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import psycopg

from era5_pipeline.model.errors import Era5Error

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 1.0


class Heartbeat:
    """Record the rows sent so far, once a second.

    It has its own connection and thread, so that a dead network does not delay the load, and its errors do not stop the
    load. A load of less than a second opens no connection. It must be closed before the load's last transaction, which
    writes the same row.
    """

    def __init__(self, connect: Callable[[str], psycopg.Connection[Any]], attempt: int) -> None:
        self._connect = connect
        self._attempt = attempt
        self._rows = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def add(self, rows: int) -> None:
        """Count more rows as sent."""
        with self._lock:
            self._rows += rows

    def close(self) -> None:
        """Record nothing more. A connection attempt under way is not waited for: it will change nothing."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        recorded = 0
        try:
            while not self._closed.wait(_SECONDS):
                if (rows := self._rows) == recorded:
                    continue
                if connection is None:
                    connection = self._connect("progress")
                    # It must not delay the load, and is not worth a sync of the disk.
                    connection.execute("SET lock_timeout = '100ms'; SET synchronous_commit = off")
                if not self._closed.is_set():
                    connection.execute(
                        "UPDATE era5.load_attempt SET rows = %s WHERE id = %s AND outcome = 'running'",
                        (rows, self._attempt),
                    )
                recorded = rows
        except (psycopg.Error, Era5Error):
            return  # no retry: the server may be short of connections
        finally:
            if connection is not None:
                connection.close()
