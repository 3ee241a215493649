"""Attempts to load a month: recorded before the load begins, with progress, so that interrupted ones show."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month


def begin_attempt(connection: psycopg.Connection[Any], month: Month) -> int:
    """Record and commit that this connection begins to load the month; return the attempt's id."""
    row = connection.execute(
        dataset_of(connection).sql(
            "INSERT INTO {schema}.load_attempt (month, backend_start) VALUES "
            "(%s, (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())) RETURNING id"
        ),
        (month.start.date(),),
    ).fetchone()
    return int(row[0]) if row else 0


def end_attempt(
    connection: psycopg.Connection[Any], attempt: int, *, rows: int | None = None, error: str | None = None
) -> None:
    """Record how the attempt ended; if successful, within the load's transaction."""
    connection.execute(
        dataset_of(connection).sql(
            "UPDATE {schema}.load_attempt SET finished_at = clock_timestamp(), outcome = %s, rows = %s, error = %s "
            "WHERE id = %s"
        ),
        ("loaded" if error is None else "failed", rows, error, attempt),
    )


def record_failure(connection: psycopg.Connection[Any], month: Month, error: str) -> None:
    """Record an attempt that failed before the load itself: in the source, or during flattening."""
    connection.execute(
        dataset_of(connection).sql(
            "INSERT INTO {schema}.load_attempt (month, finished_at, outcome, error) "
            "VALUES (%s, clock_timestamp(), 'failed', %s)"
        ),
        (month.start.date(), error),
    )


def settle_failures(connection: psycopg.Connection[Any], months: Iterable[Month]) -> None:
    """Record that months whose last attempt failed are correctly loaded now."""
    connection.execute(
        dataset_of(connection).sql(
            "INSERT INTO {schema}.load_attempt (month, finished_at, outcome) "
            "SELECT month, clock_timestamp(), 'loaded' FROM (SELECT DISTINCT ON (month) month, outcome "
            "FROM {schema}.load_attempt WHERE month = ANY (%s) ORDER BY month, id DESC) last WHERE outcome = 'failed'"
        ),
        ([month.start.date() for month in months],),
    )


def with_outcomes(name: str, dataset: Dataset) -> sql.Composed:
    """The statement of this name in `sql/`, with the expression for the outcome of an attempt `a`."""
    return sql.SQL(read_sql(name, dataset)).format(outcome=sql.SQL(read_sql("attempt_outcome")))


# --- Record a load's progress in its ledger attempt, while the load's own transaction is still open ---
#
# PostgreSQL's COPY progress view does not count rows of a hypertable or show a COPY into the columnstore.


_SECONDS = 1.0


class Heartbeat:
    """Records the rows sent so far, once a second.

    It has its own connection and thread, so that a dead network does not delay the load, and its errors do not stop it.
    Loads of less than a second open no connection. Close it before the load's last transaction, which writes the same
    row.
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
        """Stop recording, without waiting for a connection attempt under way: it will change nothing."""
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
                    # It must not delay the load, and is not worth a disk sync.
                    connection.execute("SET lock_timeout = '100ms'; SET synchronous_commit = off")
                if not self._closed.is_set():
                    connection.execute(
                        dataset_of(connection).sql(
                            "UPDATE {schema}.load_attempt SET rows = %s WHERE id = %s AND outcome = 'running'"
                        ),
                        (rows, self._attempt),
                    )
                recorded = rows
        except (psycopg.Error, Era5Error):
            return  # no retry: the server may be out of connections
        finally:
            if connection is not None:
                connection.close()
