"""How far a load is, told to its attempt in the ledger while the load's own transaction is still open.

The server's own progress of COPY counts no rows of a hypertable, and knows nothing of a COPY into the columnstore.
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
    """Notes rows once a second, on a connection and in a thread of its own: a dead network must not delay a load.

    As a context manager it ends before the load's last transaction, which writes the same row. What goes wrong here
    does not stop a load. One of less than a second makes no connection.
    """

    def __init__(self, connect: Callable[[str], psycopg.Connection[Any]], attempt: int) -> None:
        self._connect = connect
        self._attempt = attempt
        self._rows = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def add(self, rows: int) -> None:
        """Count so many more rows as sent."""
        with self._lock:
            self._rows += rows

    def close(self) -> None:
        """Note nothing more. Who is still being connected is not waited for: it then changes nothing."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _beat(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        noted = 0
        try:
            while not self._over.wait(_SECONDS):
                if (rows := self._rows) == noted:
                    continue
                if connection is None:
                    connection = self._connect("progress")
                    # Never in the way of the load, and not worth a sync of the disk.
                    connection.execute("SET lock_timeout = '100ms'; SET synchronous_commit = off")
                if not self._over.is_set():
                    connection.execute(
                        "UPDATE era5.load_attempt SET rows = %s WHERE id = %s AND outcome = 'running'",
                        (rows, self._attempt),
                    )
                noted = rows
        except (psycopg.Error, Era5Error):
            return  # a server that is short of connections is not asked again
        finally:
            if connection is not None:
                connection.close()
