"""A flat month into the table, exactly once: one transaction replaces the month and writes its ledger row."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from era5_pipeline.model.errors import Era5Error, MonthLockedError, RefusedError, WarehouseError
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.progress import Counter
from era5_pipeline.warehouse import ledger
from era5_pipeline.warehouse.changes import GENERATED_SOURCE, columns_changed, has_same_content
from era5_pipeline.warehouse.copy import FlatCopy, location_spans
from era5_pipeline.warehouse.heartbeat import Heartbeat
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, Replacement
from era5_pipeline.warehouse.locks import holder_of_tables, month_lock
from era5_pipeline.warehouse.schema import Schema, ensure_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry


@dataclass(frozen=True)
class Loaded:
    """What a load did.

    `changed` is False where the table held these very rows already; `confirmed` where the files are others than then:
    the rows were left as they were, and the ledger was brought up to date. `columns_changed` are those whose values
    differ from before; None: there was nothing before, or it is not known. `replaced_rows` were there before. `seconds`
    is the load alone, without waiting for another load of the month; `workers` the connections that copied; `notes`
    what the user should know besides.
    """

    rows: int
    changed: bool
    replaced_rows: int
    replaced_source: str | None
    seconds: float
    layout: str
    server: str
    workers: int = 0
    notes: tuple[str, ...] = ()
    confirmed: bool = False
    columns_changed: tuple[str, ...] | None = None


class _StoppedError(Exception):
    """Another connection's share of the month has failed: this one need not go on."""


def load_month(
    warehouse: Warehouse,
    flat: FlatMonth,
    *,
    force: bool = False,
    workers: int = 1,
    lock_timeout_seconds: int = 600,
    on_wait: Callable[[str], None] = lambda _: None,
) -> Loaded:
    """Replace the month in `weather` by the flat month, unless it is there already (`force`: even then).

    By the ledger: of the same files, nothing is done; of other files with the same values, the ledger alone is written.

    With several `workers` the month is shared out to as many connections, where the layout can still replace it as a
    whole; elsewhere one loads it, and the result's notes say why.

    Raises:
        RefusedError: if generated data would replace real data (unless `force`).
        MonthLockedError: if another load of the month, or a reader in the way, did not finish in time.
        TransientError: if the connection was lost; the month is as it was.
        WarehouseError: if the server refused; the month is as it was.
    """
    errors = partial(server_errors, f"loading {flat.month}", afterwards="No month is left half replaced.")
    with errors(), warehouse.connect() as connection:
        _take_time(connection, lock_timeout_seconds)
        schema = ensure_schema(connection)
        with month_lock(connection, flat.month, timeout_seconds=lock_timeout_seconds, on_wait=on_wait):
            before = ledger.read_entry(connection, flat.month)
            if before is not None and not force:
                if before.fingerprint == flat.fingerprint:
                    ledger.note_check(connection, flat.month)
                    return _result(schema, flat, before, 0.0, changed=False)
                _require_no_real_data_lost(flat, before)
                if has_same_content(before, flat):
                    with _attempt(connection, flat.month, errors) as attempt, connection.transaction():
                        # What the rows are made of now; they stay.
                        ledger.write_entry(connection, flat, before, server=str(schema.server), load_seconds=None)
                        ledger.end_attempt(connection, attempt, rows=flat.rows)
                    return replace(_result(schema, flat, before, 0.0, changed=False), confirmed=True)
            spans = location_spans(flat, workers) if schema.layout.shares_months else (EVERYWHERE,)
            started = time.monotonic()
            connect = partial(_connect, warehouse, flat.month, lock_timeout_seconds)
            with _attempt(connection, flat.month, errors) as attempt:
                heartbeat = Heartbeat(connect, attempt)

                def finish(rows: int) -> None:
                    heartbeat.close()
                    _require_all_rows(flat, rows)
                    seconds = time.monotonic() - started
                    ledger.write_entry(connection, flat, before, server=str(schema.server), load_seconds=seconds)
                    ledger.end_attempt(connection, attempt, rows=rows)

                on_rows, stop = _counting(flat, heartbeat)
                with heartbeat, closing(FlatCopy(flat, spans, on_rows)) as copy:
                    replacement = Replacement(
                        month=flat.month,
                        copy=copy,
                        finish=finish,
                        on_wait=on_wait,
                        patience_seconds=lock_timeout_seconds,
                        spans=spans,
                        connect=connect,
                        stop=stop,
                    )
                    schema.layout.replace(connection, replacement)
            notes = _notes(flat, schema, workers, len(spans))
            # The month is there by now, whatever becomes of this; autovacuum comes by in any case.
            with suppress(psycopg.Error):
                notes += schema.layout.settle(connection, flat.month, replaced=before is not None)
            return replace(
                _result(schema, flat, before, time.monotonic() - started, changed=True),
                workers=len(spans),
                notes=notes,
            )


@contextmanager
def _attempt(
    connection: psycopg.Connection[Any], month: Month, errors: Callable[[], AbstractContextManager[None]]
) -> Iterator[int]:
    """An attempt, by its number; one that fails within is noted as such."""
    attempt = ledger.begin_attempt(connection, month)
    try:
        with errors():
            yield attempt
    except Era5Error as problem:
        error = _naming_holder(connection, month, problem)
        # A lost connection or a full disk may refuse this note too: the attempt then shows as interrupted.
        with suppress(psycopg.Error):
            ledger.end_attempt(connection, attempt, error=error.message)
        raise error from problem.__cause__


def _counting(flat: FlatMonth, heartbeat: Heartbeat) -> tuple[Callable[[int], None], Callable[[], None]]:
    """What is told of rows sent, by any connection; and what makes it raise, so that all of them end."""
    counter = Counter("load", flat.rows, "rows")
    stopped = threading.Event()

    def on_rows(rows: int) -> None:
        if stopped.is_set():
            raise _StoppedError
        heartbeat.add(rows)
        counter.add(rows)

    return on_rows, stopped.set


def _connect(warehouse: Warehouse, month: Month, lock_timeout_seconds: int, name: str) -> psycopg.Connection[Any]:
    """Another connection for the month, which `era5 watch` and the server's own views tell by its name."""
    connection = warehouse.connect()
    connection.execute("SELECT set_config('application_name', %s, false)", (f"era5 {month} {name}",))
    _take_time(connection, lock_timeout_seconds)
    return connection


def _naming_holder(connection: psycopg.Connection[Any], month: Month, error: Era5Error) -> Era5Error:
    """Who has the lock that was not to be had, which PostgreSQL does not say; any other error as it is."""
    if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
        return error
    return MonthLockedError(
        f"{month} cannot be loaded while its tables are locked by {holder_of_tables(connection)}",
        remedy="The month is as it was. Wait until that session ends its transaction, or end it; then run this again.",
    )


def _notes(flat: FlatMonth, schema: Schema, wanted: int, used: int) -> tuple[str, ...]:
    if used >= wanted:
        return ()
    if not schema.layout.shares_months:
        return (
            f"{flat.month}: loaded by one connection, not {wanted}: in a hypertable each would commit its share by "
            "itself, and readers would see parts of the month. Load several months at once instead.",
        )
    why = "its file is CSV" if flat.format == "csv" else f"it has {flat.rows:,} rows"
    return (f"{flat.month}: loaded by {used} of {wanted} connections, because {why}",)


def _take_time(connection: psycopg.Connection[Any], lock_timeout_seconds: int) -> None:
    """Lift the limits that a user or database may have on the time of a statement or transaction, as pg_dump does.

    But for locks, which somebody may hold for ever. Under a second, those that loads have of each other would count.

    And have commits wait for the disk, where they need not (`synchronous_commit = off` is advised for bulk loads): a
    month that was called loaded is then never lost.
    """
    connection.execute(
        "SELECT set_config(name, 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"
    )
    connection.execute(
        "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN "
        "('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')"
    )
    connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{max(1, lock_timeout_seconds)}s",))


def _require_all_rows(flat: FlatMonth, rows: int) -> None:
    if rows != flat.rows:
        raise WarehouseError(
            f"{flat.month}: the server took {rows} of {flat.rows} rows",
            remedy="The month is as it was before. Is there a trigger or rule on weather? Run it again.",
        )


def _require_no_real_data_lost(flat: FlatMonth, before: LedgerEntry) -> None:
    if flat.raw.source == GENERATED_SOURCE and before.source != GENERATED_SOURCE:
        raise RefusedError(
            f"{flat.month}: the table holds real data (source {before.source}); generated sample data would replace it",
            remedy="Choose the source (--source files --files-dir DIR), another database, or --force if you mean it.",
        )


def _result(schema: Schema, flat: FlatMonth, before: LedgerEntry | None, seconds: float, *, changed: bool) -> Loaded:
    return Loaded(
        rows=flat.rows,
        changed=changed,
        replaced_rows=before.rows if before else 0,
        replaced_source=before.source if before else None,
        seconds=seconds,
        layout=schema.layout.name,
        server=str(schema.server),
        columns_changed=None if before is None else columns_changed(before, flat),
    )
