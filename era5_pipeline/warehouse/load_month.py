"""Load a flat month exactly once: one transaction replaces its rows and summaries, and writes their ledger entry."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from era5_pipeline.flat.monthly import has_wind
from era5_pipeline.model.dataset import dataset_option
from era5_pipeline.model.errors import (
    Era5Error,
    MonthLockedError,
    RefusedError,
    ServerUnreachableError,
    TransientError,
    WarehouseError,
)
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.roles import require_own_code
from era5_pipeline.postgres.server_errors import LOST_REMEDY, server_errors
from era5_pipeline.runtime.progress import Counter
from era5_pipeline.warehouse import ledger
from era5_pipeline.warehouse.attempts import Heartbeat, begin_attempt, end_attempt, record_failure, settle_failures
from era5_pipeline.warehouse.beside import MergedCopy, beyond_quantum
from era5_pipeline.warehouse.changes import (
    ReplacedPart,
    columns_changed,
    has_same_content,
    kept_columns,
    losses,
    may_confirm,
    taken_from,
)
from era5_pipeline.warehouse.copy import BatchCopy, FlatCopy, location_spans
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, Replacement, Shares
from era5_pipeline.warehouse.layouts.variable_columns import add_columns, missing_variables
from era5_pipeline.warehouse.locks import holder_of_tables, month_lock
from era5_pipeline.warehouse.monthly_rows import MonthlyLoad
from era5_pipeline.warehouse.schema import Schema, ensure_schema
from era5_pipeline.warehouse.views import ensure_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

_WHOLE = "No month is left half replaced."


@dataclass(frozen=True)
class Loaded:
    """The result of a load.

    `changed` is False if the table already held exactly these rows. `confirmed` is True if they had come from other
    files: the rows were left as they were, and the ledger was updated; `confirmation` is the part as it is recorded
    since, if the files of another source have its values within a quantum. `columns_changed` are the columns with new
    values, None if the table did not hold these locations as one part. `replaced` describes the replaced rows, by part,
    and `kept_locations` is the number of the month's other locations, which stayed. `kept_columns` are other columns of
    the same rows that kept their values. `seconds` is the load alone, without waiting for another load of the month;
    `workers` is the number of connections that copied; `notes` are messages for the user. With `is_read_back`, the load
    itself has compared all rows of the table with the flat month.
    """

    rows: int
    changed: bool
    seconds: float
    layout: str
    server: str
    workers: int = 0
    notes: tuple[str, ...] = ()
    is_read_back: bool = False
    confirmed: bool = False
    confirmation: LedgerEntry | None = None
    columns_changed: tuple[str, ...] | None = None
    replaced: tuple[ReplacedPart, ...] = ()
    kept_locations: int = 0
    kept_columns: tuple[str, ...] = ()

    @property
    def replaced_rows(self) -> int:
        """The number of replaced rows."""
        return sum(part.rows for part in self.replaced)


class Alongside(Protocol):
    """Work within the transaction of a load."""

    def __call__(self, connection: psycopg.Connection[Any], *, keeps: bool) -> None:
        """Do it on the load's connection; `keeps`: the part has other columns too, which stay."""
        ...

    def holds(self, connection: psycopg.Connection[Any], part: LedgerEntry) -> bool:
        """Return True if the part's rows are there as the table has them, so that the part may stay as it is."""
        ...

    def leave(self, connection: psycopg.Connection[Any], part: LedgerEntry) -> None:
        """Give up what was to be done: the part's rows stay as they are, and are there."""
        ...


@dataclass(frozen=True)
class LoadSession:
    """A connection that loads successive months, with the table's schema, looked up once."""

    connection: psycopg.Connection[Any]
    schema: Schema


@contextmanager
def load_session(warehouse: Warehouse, lock_timeout_seconds: int = 600) -> Iterator[LoadSession]:
    """Open a session for loads, creating missing database objects."""
    with warehouse.connect() as connection:
        prepare_session(connection, lock_timeout_seconds)
        yield LoadSession(connection, ensure_schema(connection))


def load_month(
    warehouse: Warehouse,
    flat: FlatMonth,
    *,
    session: LoadSession | None = None,
    force: bool = False,
    replace_more: bool = False,
    workers: int = 1,
    batches: bool = True,
    lock_timeout_seconds: int = 600,
    on_wait: Callable[[str], None] = lambda _: None,
    alongside: Alongside | None = None,
) -> Loaded:
    """Replace the flat month's locations in `weather`, unless it already has these rows; leave others alone.

    The ledger decides: if the same files were loaded before, nothing is done; if other files have the same values, only
    the ledger is written. So it is if files of another source have them within the quantum of each variable, for which
    the rows are compared. With `force` the rows are always replaced.

    With several `workers`, that many connections share the month if the layout can still replace it as a whole;
    otherwise one connection loads it, and the result's notes say why.

    With `batches`, the columnstore gets finished batches if its version is known (`layouts.batch_load`); the notes say
    why a month was loaded as rows instead. `session` is the session to load with; None opens a new one. `alongside` is
    called at the end of the transaction, also of one that changes no rows: what it does is committed with it.
    """
    errors = partial(server_errors, f"loading {flat.month}", afterwards=_WHOLE)
    opened = load_session(warehouse, lock_timeout_seconds) if session is None else nullcontext(session)
    with errors(), opened as used:
        connection, schema = used.connection, used.schema
        with month_lock(connection, flat.month, timeout_seconds=lock_timeout_seconds, on_wait=on_wait):
            summaries = MonthlyLoad(connection, flat, lock_timeout_seconds, on_wait)
            overlapped = tuple(ledger.read_overlapping(connection, flat.month, flat.location_ids))
            load = _Load(connection, schema, flat, overlapped, summaries, errors, alongside)
            before = load.before
            if before is not None and not force and load.is_known(before):
                return load.keep_unchanged(before)
            _require_no_real_data(connection, flat)
            if not replace_more:
                load = load.keeping_other_columns()
                _require_no_losses(flat, load.compared)
            if before is not None and not force and has_same_content(load.compared[0], flat):
                return load.confirm(before)
            if before is not None and not force and load.is_within_quantum(before, warehouse, lock_timeout_seconds):
                return load.confirm_other_rows(before)
            return load.replace(warehouse, workers, lock_timeout_seconds, on_wait, batches=batches)


def _has_more_columns(before: LedgerEntry, flat: FlatMonth) -> bool:
    return not set(before.column_names) <= set(flat.column_names)


@dataclass(frozen=True)
class _Load:
    """A load of the flat month on a connection that holds the month's lock.

    `overlapped` are the month's parts with any of its locations. `kept` are columns of the part that stay beside those
    of the flat month; (): whole rows are replaced.
    """

    connection: psycopg.Connection[Any]
    schema: Schema
    flat: FlatMonth
    overlapped: tuple[LedgerEntry, ...]
    summaries: MonthlyLoad
    errors: Callable[[], AbstractContextManager[None]]
    alongside: Alongside | None
    kept: tuple[str, ...] = ()

    def keeping_other_columns(self) -> _Load:
        """The same load, but keeping the part's other columns if possible."""
        kept = () if self.before is None else kept_columns(self.before, self.flat)
        return replace(self, kept=kept, summaries=replace(self.summaries, keeps=bool(kept)))

    @property
    def compared(self) -> tuple[LedgerEntry, ...]:
        """The parts that the flat month replaces, without columns that stay."""
        return (
            tuple(part.of_columns(self.flat.column_names) for part in self.overlapped) if self.kept else self.overlapped
        )

    @property
    def before(self) -> LedgerEntry | None:
        """The part with exactly the flat month's locations; None without one."""
        return next((part for part in self.overlapped if part.location_ids == self.flat.location_ids), None)

    def is_known(self, before: LedgerEntry) -> bool:
        """Return True if the part was loaded from the flat month's files, or confirmed by them."""
        is_known = not before.is_cut and self.flat.fingerprint in before.fingerprints
        return is_known and (not self._confirms(before) or self._may_leave(before))

    def _confirms(self, before: LedgerEntry) -> bool:
        return before.is_confirmed_by(self.flat.fingerprint)

    def _may_leave(self, before: LedgerEntry) -> bool:
        """Return True unless the work alongside needs the rows themselves, which are not those of the flat month."""
        return self.alongside is None or self.alongside.holds(self.connection, before)

    def keep_unchanged(self, before: LedgerEntry) -> Loaded:
        """Only record the check: the same files were loaded before. Missing summaries are added."""
        if self._confirms(before):
            if self.alongside is not None:
                self.alongside.leave(self.connection, before)
            ledger.record_check(self.connection, before)
            settle_failures(self.connection, (self.flat.month,))
            return replace(self._loaded(), columns_changed=())
        if not (before.has_summaries or before.additions) and self.summaries.are_here and self.summaries.prepare():
            with self.connection.transaction():
                self.summaries.write(self.flat.location_ids)
                ledger.record_summaries(self.connection, before)
        if self.alongside is not None:
            with self.connection.transaction():
                self.alongside(self.connection, keeps=_has_more_columns(before, self.flat))
        ledger.record_check(self.connection, before)
        settle_failures(self.connection, (self.flat.month,))
        return self._loaded()

    def confirm(self, before: LedgerEntry) -> Loaded:
        """Write only the ledger: other files have the same content, so the rows stay. Missing summaries are added."""
        with self._attempt() as attempt:
            adds_summaries = not (before.has_summaries or self.kept) and self.summaries.prepare()
            with self.connection.transaction():
                if adds_summaries:
                    self.summaries.write(self.flat.location_ids)
                has_summaries = adds_summaries or before.has_summaries
                self._write_ledger(attempt, self.flat.rows, load_seconds=None, has_summaries=has_summaries)
                if self.alongside is not None:
                    self.alongside(self.connection, keeps=_has_more_columns(before, self.flat))
        return replace(self._loaded(), confirmed=True)

    def is_within_quantum(self, before: LedgerEntry, warehouse: Warehouse, lock_timeout_seconds: int) -> bool:
        """Return True if the flat month, of another source, has the part's values within the variables' quanta."""
        if not may_confirm(before, self.flat) or not self._may_leave(before):
            return False
        month, counter = self.flat.month, Counter("load", self.flat.rows, "rows")
        try:
            with self.errors():
                connect = partial(_connect, warehouse, month, lock_timeout_seconds)
                return beyond_quantum(connect, self.flat, counter.add) == ()
        except Era5Error as problem:
            with suppress(psycopg.Error):
                record_failure(self.connection, month, problem.message)
            raise

    def confirm_other_rows(self, before: LedgerEntry) -> Loaded:
        """Write only that the flat month confirms the part: its rows, and all that describes them, stay."""
        with self._attempt() as attempt, self.connection.transaction():
            confirmation = ledger.record_confirmation(self.connection, before, self.flat)
            end_attempt(self.connection, attempt, rows=before.rows)
            if self.alongside is not None:
                self.alongside.leave(self.connection, before)
        loaded = replace(self._loaded(), columns_changed=(), is_read_back=True)
        return replace(loaded, confirmed=True, confirmation=confirmation)

    def replace(
        self,
        warehouse: Warehouse,
        workers: int,
        lock_timeout_seconds: int,
        on_wait: Callable[[str], None],
        *,
        batches: bool,
    ) -> Loaded:
        """Copy the rows and write the ledger in one transaction, then settle the month."""
        flat, layout = self.flat, self.schema.layout
        kept = ledger.count_other_locations(self.connection, flat.month, flat.location_ids)
        can_share = layout.shares_months and not kept and not self.kept
        spans = location_spans(flat, workers) if can_share else (EVERYWHERE,)
        connect = partial(_connect, warehouse, flat.month, lock_timeout_seconds)
        started = time.monotonic()
        with self._attempt() as attempt:
            missing = missing_variables(self.connection, flat.column_names)
            add_columns(self.connection, missing, timeout_seconds=lock_timeout_seconds, on_wait=on_wait)
            self._prepare_summaries()
            if missing:
                ensure_views(self.connection)
            heartbeat, counter = Heartbeat(connect, attempt), Counter("load", flat.rows, "rows")

            def on_rows(rows: int) -> None:
                heartbeat.add(rows)
                counter.add(rows)

            def finish(rows: int) -> None:
                heartbeat.close()
                _require_all_rows(
                    self.connection, flat, rows, self.before.rows if self.before and self.kept else flat.rows
                )
                self._write_ledger(
                    attempt,
                    rows,
                    load_seconds=time.monotonic() - started,
                    has_summaries=self.summaries.is_ready,
                )
                if self.alongside is not None:
                    self.alongside(self.connection, keeps=bool(self.kept))

            with heartbeat, closing(FlatCopy(flat, spans, on_rows)) as copy:
                shares = Shares(spans, connect, copy.stop) if len(spans) > 1 else None
                own = flat.location_ids if kept else None
                as_batches = BatchCopy(copy, flat, on_rows)
                replacement = Replacement(
                    month=flat.month,
                    copy=MergedCopy(copy, flat, self.before, connect) if self.before and self.kept else copy,
                    locations=own,
                    finish=finish,
                    summarise=partial(self.summaries.write, own),
                    on_wait=on_wait,
                    lock_timeout_seconds=lock_timeout_seconds,
                    shares=shares,
                    batches=as_batches if batches and not self.kept else None,
                )
                layout.replace(self.connection, replacement)
        notes = (*_notes(flat, self.schema, workers, len(spans), kept, adds=bool(self.kept)), *self.summaries.notes)
        if as_batches.reason is not None:
            notes += (f"{flat.month}: loaded as rows, not as finished batches: {as_batches.reason}",)
        # The month is loaded even if this fails; autovacuum does the same later.
        with suppress(psycopg.Error):
            notes += layout.settle(self.connection, flat.month, replaced=bool(self.overlapped), is_whole=not kept)
        self.summaries.settle()
        return replace(
            self._loaded(),
            changed=True,
            seconds=time.monotonic() - started,
            workers=len(spans),
            notes=notes,
            is_read_back=as_batches.is_read_back,
            replaced=() if self.kept else tuple(taken_from(part, flat.location_ids) for part in self.overlapped),
            kept_locations=kept,
            kept_columns=self.kept,
        )

    def _prepare_summaries(self) -> None:
        """Prepare the summaries; if columns stay and the part's summaries cannot be extended, write none."""
        self.summaries.prepare()
        if self.kept and self.before is not None:
            has_wind_apart = has_wind({*self.kept, *self.flat.column_names}) and not any(
                has_wind(columns) for columns in (self.kept, self.flat.column_names)
            )
            if not self.before.has_summaries or has_wind_apart:
                option = dataset_option(dataset_of(self.connection))
                self.summaries.leave_out(f"some are for columns loaded before: era5 db summaries{option} adds them")

    @contextmanager
    def _attempt(self) -> Iterator[int]:
        """Begin an attempt and yield its id; record its failure if the block raises."""
        month = self.flat.month
        attempt = begin_attempt(self.connection, month)
        try:
            with self.errors():
                yield attempt
        except Era5Error as problem:
            error = name_lock_holder(self.connection, month, problem)
            # After a lost connection or on a full disk this may fail too: the attempt then shows as interrupted.
            with suppress(psycopg.Error):
                end_attempt(self.connection, attempt, error=error.message)
            raise error from problem.__cause__

    def _write_ledger(self, attempt: int, rows: int, *, load_seconds: float | None, has_summaries: bool) -> None:
        for part in self.overlapped:
            if part != self.before:
                ledger.take_out(self.connection, part, self.flat.location_ids)
        ledger.write_entry(
            self.connection,
            self.flat,
            self.before,
            server=str(self.schema.server),
            load_seconds=load_seconds,
            has_summaries=has_summaries,
            keeps=bool(self.kept),
        )
        end_attempt(self.connection, attempt, rows=rows)

    def _like_flat(self, before: LedgerEntry) -> LedgerEntry:
        """The part without the columns that stay."""
        is_beside = bool(self.kept) or self.flat.fingerprint in before.fingerprints
        return before.of_columns(self.flat.column_names) if is_beside else before

    def _loaded(self) -> Loaded:
        """The result of a load that left the rows unchanged."""
        before = self.before
        return Loaded(
            rows=self.flat.rows,
            changed=False,
            seconds=0.0,
            layout=self.schema.layout.name,
            server=str(self.schema.server),
            columns_changed=None if before is None else columns_changed(self._like_flat(before), self.flat),
        )


def _connect(warehouse: Warehouse, month: Month, lock_timeout_seconds: int, name: str) -> psycopg.Connection[Any]:
    """Open another connection for the month, named so that `era5 watch` and the server's own views show its purpose."""
    try:
        connection = warehouse.connect()
    except (ServerUnreachableError, TransientError) as error:
        # The load's first connection was there a moment ago: a server that cannot be reached was lost.
        remedy = LOST_REMEDY if isinstance(error, ServerUnreachableError) else error.remedy
        raise TransientError(f"loading {month}: {error.message}", remedy=f"{_WHOLE} {remedy}") from error
    connection.execute(
        "SELECT set_config('application_name', %s, false)", (f"{warehouse.dataset.schema} {month} {name}",)
    )
    prepare_session(connection, lock_timeout_seconds)
    return connection


def name_lock_holder(connection: psycopg.Connection[Any], month: Month, error: Era5Error) -> Era5Error:
    """Add the session that holds the lock, which PostgreSQL's error does not name; return other errors unchanged."""
    if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
        return error
    return MonthLockedError(
        f"{month} cannot be changed while its tables are locked by {holder_of_tables(connection)}",
        remedy="The month is unchanged. Wait until that session ends its transaction, or end it; then run this again.",
    )


def _notes(
    flat: FlatMonth, schema: Schema, wanted: int, used: int, kept: int, *, adds: bool = False
) -> tuple[str, ...]:
    if used >= wanted:
        return ()
    if adds and schema.layout.shares_months:
        return (f"{flat.month}: loaded by one connection, not {wanted}: its rows keep their other columns",)
    if schema.layout.shares_months and kept:
        return (
            f"{flat.month}: loaded by one connection, not {wanted}: {kept:,} other places of the month stay, and "
            "several connections could not add to its partition in one transaction",
        )
    if not schema.layout.shares_months:
        return (
            f"{flat.month}: loaded by one connection, not {wanted}: in a hypertable each would commit its share by "
            "itself, and readers would see parts of the month. Load several months at once instead.",
        )
    why = "its file is CSV" if flat.format == "csv" else f"it has {flat.rows:,} rows"
    return (f"{flat.month}: loaded by {used} of {wanted} connections, because {why}",)


def prepare_session(connection: psycopg.Connection[Any], lock_timeout_seconds: int) -> None:
    """Disable statement timeouts, set the lock timeout, and make commits wait for the disk; first check triggers.

    Users and databases may have statement and transaction timeouts; pg_dump disables them too. The lock timeout is at
    least a second, because loads hold short locks that delay each other.

    `synchronous_commit = off` is advised for bulk loads, but could lose a month already reported as loaded.
    """
    require_own_code(connection)
    connection.execute(
        "SELECT set_config(name, 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'"
    )
    connection.execute(
        "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN "
        "('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout', 'idle_session_timeout')"
    )
    connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{max(1, lock_timeout_seconds)}s",))


def _require_all_rows(connection: psycopg.Connection[Any], flat: FlatMonth, rows: int, expected: int) -> None:
    if rows != expected:
        raise WarehouseError(
            f"{flat.month}: the server took {rows} of {expected} rows",
            remedy=f"The month is unchanged. Remove any trigger or rule on {dataset_of(connection).table}, then run "
            "this again.",
        )


def _require_no_real_data(connection: psycopg.Connection[Any], flat: FlatMonth) -> None:
    """Refuse generated data in a month with real data, even elsewhere: nobody could tell them apart later."""
    if not source_kind(flat.raw.source).is_generated:
        return
    for source in ledger.sources_of(connection, flat.month):
        if not source_kind(source).is_generated:
            raise RefusedError(
                f"{flat.month}: the table holds real data (source {source}); generated sample data neither replaces "
                "real data nor is mixed with it",
                remedy="Choose the source (--source files --files-dir DIR), or another home or database.",
            )


def _require_no_losses(flat: FlatMonth, overlapped: Sequence[LedgerEntry]) -> None:
    lost = [(part, lost) for part in overlapped if (lost := losses(part, flat))]
    if not lost:
        return
    parts = "; ".join(f"{taken_from(part, flat.location_ids)} would lose {', '.join(what)}" for part, what in lost)
    raise RefusedError(
        f"{flat.month}: the table holds more than the new files: {parts}",
        remedy=f"{_how_to_lose_nothing(flat, overlapped)}, or add --replace if you mean it. The month is unchanged.",
    )


def _how_to_lose_nothing(flat: FlatMonth, overlapped: Sequence[LedgerEntry]) -> str:
    """Explain how the same load would bring all variables, if the source can be asked for others."""
    held = [column for part in overlapped for column in part.column_names]
    if source_kind(flat.raw.source).has_own_files or set(held) <= set(flat.column_names):
        return "Load the files together, so that nothing is lost (--files-dir can be given several times)"
    variable_names = flat.raw.dataset.catalogue.variable_names
    names = variable_names({*held, *flat.column_names})
    new = [column for column in flat.column_names if column not in held]
    if new and all(part.location_ids == flat.location_ids for part in overlapped):
        return (
            f"Ask for the new ones alone, and they are added to the rows (--variables {variable_names(new)}); or for "
            f"all together, so that nothing is lost (--variables {names})"
        )
    return f"Ask for all variables together, so that nothing is lost (--variables {names})"
