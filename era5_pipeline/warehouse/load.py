"""A flat month into the table, exactly once: one transaction replaces the month and writes its ledger row."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from era5_pipeline.errors import Era5Error, RefusedError, WarehouseError
from era5_pipeline.warehouse import ledger
from era5_pipeline.warehouse.copying import copy_flat
from era5_pipeline.warehouse.failures import server_errors
from era5_pipeline.warehouse.layouts.protocol import Replacement
from era5_pipeline.warehouse.locks import month_lock
from era5_pipeline.warehouse.schema import Schema, ensure_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.facts import FlatMonth
    from era5_pipeline.warehouse.connect import Warehouse

GENERATED_SOURCE = "sample"


@dataclass(frozen=True)
class Loaded:
    """What a load did.

    `changed` is False where the table held this very month already; `replaced_rows` were there before. `seconds` is the
    load alone, without waiting for another load of the month.
    """

    rows: int
    changed: bool
    replaced_rows: int
    replaced_source: str | None
    seconds: float
    layout: str
    server: str


def load_month(
    warehouse: Warehouse,
    flat: FlatMonth,
    *,
    force: bool = False,
    lock_timeout_seconds: int = 600,
    on_wait: Callable[[str], None] = lambda _: None,
) -> Loaded:
    """Replace the month in `weather` by the flat month, unless it is there already (`force`: even then).

    Raises:
        RefusedError: if generated data would replace real data (unless `force`).
        MonthLockedError: if another load of the month, or a reader in the way, did not finish in time.
        TransientError: if the connection was lost; the month is as it was.
        WarehouseError: if the server refused; the month is as it was.
    """
    errors = partial(server_errors, f"loading {flat.month}", afterwards="No month is left half replaced.")
    with errors(), warehouse.connect() as connection:
        _take_time(connection)
        schema = ensure_schema(connection)
        with month_lock(connection, flat.month, timeout_seconds=lock_timeout_seconds, on_wait=on_wait):
            before = ledger.read_entry(connection, flat.month)
            if before is not None and not force:
                if before.fingerprint == flat.fingerprint:
                    return _result(schema, before.rows, before, 0.0, changed=False)
                _require_no_real_data_lost(flat, before)
            started = time.monotonic()
            attempt = ledger.begin_attempt(connection, flat.month)

            def finish(rows: int) -> None:
                _require_all_rows(flat, rows)
                ledger.write_entry(connection, flat, server=str(schema.server), load_seconds=time.monotonic() - started)
                ledger.end_attempt(connection, attempt, rows=rows)

            replacement = Replacement(flat.month, partial(copy_flat, flat), finish, on_wait, lock_timeout_seconds)
            try:
                with errors():
                    rows = schema.layout.replace(connection, replacement)
            except Era5Error as error:
                # A lost connection or a full disk may refuse this note too: the attempt then shows as interrupted.
                with suppress(psycopg.Error):
                    ledger.end_attempt(connection, attempt, error=error.message)
                raise
            # The month is there by now, whatever becomes of this; autovacuum comes by in any case.
            with suppress(psycopg.Error):
                schema.layout.settle(connection, flat.month)
            return _result(schema, rows, before, time.monotonic() - started, changed=True)


def _take_time(connection: psycopg.Connection[Any]) -> None:
    """Lift the limits that a user or database may have on the time of a statement or transaction, as pg_dump does."""
    connection.execute(
        "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN "
        "('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')"
    )


def _require_all_rows(flat: FlatMonth, rows: int) -> None:
    if rows != flat.rows:
        raise WarehouseError(
            f"{flat.month}: the server took {rows} of {flat.rows} rows",
            remedy="The month is as it was before. Is there a trigger or rule on weather? Run it again.",
        )


def _require_no_real_data_lost(flat: FlatMonth, before: ledger.Entry) -> None:
    if flat.raw.source == GENERATED_SOURCE and before.source != GENERATED_SOURCE:
        raise RefusedError(
            f"{flat.month}: the table holds real data (source {before.source}); generated sample data would replace it",
            remedy="Choose the source (--source files --files-dir DIR), another database, or --force if you mean it.",
        )


def _result(schema: Schema, rows: int, before: ledger.Entry | None, seconds: float, *, changed: bool) -> Loaded:
    return Loaded(
        rows=rows,
        changed=changed,
        replaced_rows=before.rows if before else 0,
        replaced_source=before.source if before else None,
        seconds=seconds,
        layout=schema.layout.name,
        server=str(schema.server),
    )
