"""Faults during loads on real servers, on every layout: the month is unchanged, and the next load succeeds.

Here: servers that stop, crash and run out of disk; loaders that are killed; networks that are cut or go silent; locks
that others hold. More faults on the loader's side of the connection are in `test_load_interrupted`.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import (
    Era5Error,
    MonthLockedError,
    ServerUnreachableError,
    TransientError,
    WarehouseError,
)
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.urls import database_of, url_parameters, with_database
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.locks import month_lock
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.monthly import assert_monthly
from era5_pipeline_tests.warehouse.loads import (
    Reader,
    copying_sessions,
    end_session,
    loading,
    loading_process,
    wait_until,
)
from era5_pipeline_tests.warehouse.test_load_month import entry_of, last_attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.own_servers import OwnServer
    from era5_pipeline_tests.warehouse.loads import Load

JULY = "2023-07"
INTERRUPTED = ("interrupted", None)
# How long a load may take to give up, in addition to its lock timeout.
SECONDS_TO_GIVE_UP = 60.0
MOST_SECONDS_OF_SILENCE = 600
MOMENTS = 8


@dataclass(frozen=True)
class Held:
    """The month as the warehouse holds it before a load fails."""

    warehouse: Warehouse
    flat: FlatMonth
    entry: LedgerEntry
    tables: set[str]

    def assert_unharmed(self, attempt: tuple[str, str | None] | None) -> None:
        """Rows, summaries and ledger are unchanged; the ledger's last attempt is this one (None: unchanged too)."""
        assert_holds(self.warehouse, self.flat)
        assert_monthly(self.warehouse)
        if attempt is None:
            assert entry_of(self.warehouse, JULY) == self.entry
            return
        # Until the server has noticed that the loader is gone, the attempt shows as running.
        wait_until(lambda: last_attempt(self.warehouse, JULY)[0] != "running")
        assert last_attempt(self.warehouse, JULY) == attempt
        assert entry_of(self.warehouse, JULY) == self.entry

    def assert_refused(self, load: Load, session: int, new: FlatMonth) -> None:
        """The load gave up on what the session holds, harmed nothing, and does not stop the next one."""
        error = error_of(load, MonthLockedError)
        assert f"session {session} of " in error.message
        self.assert_unharmed(("failed", error.message))
        self.assert_can_be_replaced(new)

    def assert_can_be_replaced(self, new: FlatMonth) -> None:
        """The next load succeeds, leaves nothing behind, and another one finds nothing to do."""
        loaded = load_month(self.warehouse, new)
        assert (loaded.changed, loaded.rows, loaded.replaced_rows) == (True, new.rows, self.flat.rows)
        assert_loaded(self.warehouse, new)
        assert tables(self.warehouse) == self.tables


def holding(warehouse: Warehouse, flat: FlatMonth) -> Held:
    load_month(warehouse, flat)
    return Held(warehouse, flat, entry_of(warehouse, JULY), tables(warehouse))


def assert_loaded(warehouse: Warehouse, flat: FlatMonth, *, neighbour: FlatMonth | None = None) -> None:
    assert_holds(warehouse, *filter(None, (neighbour, flat)))
    assert_monthly(warehouse)
    assert last_attempt(warehouse, JULY) == ("loaded", None)
    assert not load_month(warehouse, flat).changed


def tables(warehouse: Warehouse) -> set[str]:
    """List the tables in the schemas where a user would see leftovers."""
    with psycopg.connect(warehouse.url) as connection:
        return {
            row[0]
            for row in connection.execute(
                "SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE nspname IN ('era5', 'era5_loads', 'public') AND relkind IN ('r', 'p')"
            )
        }


def assert_ends(load: Load, warehouse: Warehouse) -> None:
    """The load ends by itself; if not, the failure says which sessions it waits for."""
    deadline = time.monotonic() + SECONDS_TO_GIVE_UP
    while load.is_running() and time.monotonic() < deadline:
        time.sleep(0.01)
    if load.is_running():
        with psycopg.connect(warehouse.url) as connection:
            waiting = connection.execute(
                "SELECT pid, pg_blocking_pids(pid), query FROM pg_stat_activity "
                "WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
            ).fetchall()
        pytest.fail(f"after {SECONDS_TO_GIVE_UP:g} s these sessions still wait for others: {waiting}")


def error_of(load: Load, *kinds: type[Era5Error]) -> Era5Error:
    """Return the load's error, which is of exactly one of these classes and worded for users."""
    wait_until(lambda: not load.is_running(), SECONDS_TO_GIVE_UP)
    with pytest.raises(Era5Error) as caught:
        load.result()
    error = caught.value
    assert type(error) in kinds, error
    assert JULY in error.message
    assert "\n" not in error.message
    assert re.search(r"[a-z]{3}.*\.$", error.remedy), "a sentence that says what to do"
    assert not re.search(r"Traceback|psycopg|File \"|object at 0x|<class", str(error)), error
    return error


@contextmanager
def session_with(warehouse: Warehouse, statement: LiteralString) -> Iterator[psycopg.Connection]:
    """Open another session, in a transaction that has run the statement."""
    with closing(psycopg.connect(warehouse.url)) as connection:
        connection.execute(statement)
        yield connection


def locks_of(warehouse: Warehouse, session: int, table: str) -> list[str]:
    """List the modes of locks on the table that the session holds or waits for."""
    with psycopg.connect(warehouse.url) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT mode FROM pg_locks WHERE pid = %s AND relation = to_regclass(%s)", (session, table)
            )
        ]


def holders_of_months(warehouse: Warehouse) -> list[int]:
    """List the pids of sessions that hold a month's lock."""
    with psycopg.connect(warehouse.url) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND granted "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                (ERA5.lock_class,),
            )
        ]


def waiting_for(warehouse: Warehouse, table: str) -> list[int]:
    """List the pids of sessions that wait for a lock on the table."""
    with psycopg.connect(warehouse.url) as connection:
        return [
            row[0]
            for row in connection.execute(
                "SELECT pid FROM pg_locks WHERE relation = to_regclass(%s) AND NOT granted "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                (table,),
            )
        ]


@pytest.fixture(scope="session")
def old(flat_months: FlatMonths) -> FlatMonth:
    return flat_months(points=(1, 2))


@pytest.fixture(scope="session")
def wide(flat_months: FlatMonths) -> FlatMonth:
    """148,800 rows with all variables: enough to fill a small disk even when compressed."""
    return flat_months(points=(10, 20), names=("t2m", "u10", "v10", "tcc", "tp", "sf"))


# --- the server ---


def stop(server: OwnServer, session: int) -> None:
    server.stop("fast")


def crash(server: OwnServer, session: int) -> None:
    server.stop("immediate")


def kill_session(server: OwnServer, session: int) -> None:
    server.kill_session(session)


@pytest.mark.parametrize(
    ("fault", "workers"),
    [(stop, 1), (crash, 1), (kill_session, 1), (kill_session, 2)],
    ids=lambda value: str(getattr(value, "__name__", value)),
)
def test_the_server_or_session_ends_during_copy(
    own_server: OwnServer,
    own_warehouse: Warehouse,
    old: FlatMonth,
    large: FlatMonth,
    fault: Callable[[OwnServer, int], None],
    workers: int,
) -> None:
    month = holding(own_warehouse, old)
    with loading(own_warehouse, large, pause=True, workers=workers) as load:
        fault(own_server, copying_sessions(own_warehouse)[0])
        load.resume()
        error = error_of(load, TransientError)
    assert error.message.startswith("loading 2023-07: ")
    # The second of two connections may be opened while the server recovers.
    said = ("The connection to the server was lost: run it again.", "The server is starting or stopping: try again")
    assert error.remedy.startswith(tuple(f"No month is left half replaced. {one}" for one in said[:workers]))
    own_server.start()
    month.assert_unharmed(INTERRUPTED)
    own_server.stop()
    own_server.start()
    month.assert_unharmed(INTERRUPTED)
    month.assert_can_be_replaced(large)


# With the minimal log, what is larger than 2 MB is written to its files at the commit, what is smaller to the log.
@pytest.mark.parametrize("points", [(1, 2), (5, 20)], ids=["small", "large"])
@pytest.mark.parametrize("commit", ["on", "off"])
def test_a_loaded_month_survives_a_crash_of_the_server(
    own_server: OwnServer, own_warehouse: Warehouse, flat_months: FlatMonths, points: tuple[int, int], commit: str
) -> None:
    """Whatever the database's setting of synchronous_commit; for a first load and for a replacement."""
    neighbour = flat_months("2023-06")
    load_month(own_warehouse, neighbour)
    with psycopg.connect(own_warehouse.url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("ALTER DATABASE {} SET synchronous_commit = {}").format(
                sql.Identifier(database_of(own_warehouse.url)), sql.Literal(commit)
            )
        )
        connection.execute("CHECKPOINT")
    for seed in (1, 2):
        flat = flat_months(points=points, names=("t2m",), seed=seed)
        assert load_month(own_warehouse, flat).changed
        own_server.stop("immediate")
        own_server.start()
        assert_loaded(own_warehouse, flat, neighbour=neighbour)


def test_rows_and_ledger_agree_at_whatever_moment_the_server_crashes(
    own_server: OwnServer, own_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    flats = [flat_months(points=(4, 5), seed=seed) for seed in (1, 2)]
    began = time.monotonic()
    load_month(own_warehouse, flats[0])
    seconds = time.monotonic() - began
    failed = 0
    for moment in range(MOMENTS):
        (new,) = (flat for flat in flats if flat.fingerprint != entry_of(own_warehouse, JULY).fingerprint)
        with loading(own_warehouse, new) as load:
            time.sleep(seconds * moment / MOMENTS)
            own_server.stop("immediate")
            wait_until(lambda load=load: not load.is_running())  # type: ignore[misc]
        own_server.start()
        try:
            held = [new] if load.result().changed else []
        except (TransientError, ServerUnreachableError):
            # If only the commit's answer was lost, the month is loaded; what counts is that it is whole.
            failed += 1
            held = [flat for flat in flats if flat.fingerprint == entry_of(own_warehouse, JULY).fingerprint]
        assert_holds(own_warehouse, *held)
        assert_monthly(own_warehouse)
        load_month(own_warehouse, new)
        assert_loaded(own_warehouse, new)
    assert failed, "no crash happened during a load"


def test_the_servers_disk_fills_up_during_copy(
    server_on_small_disks: OwnServer, warehouse_on_small_disks: Warehouse, old: FlatMonth, wide: FlatMonth
) -> None:
    disk = server_on_small_disks.disks["tables"]
    month = holding(warehouse_on_small_disks, old)
    with loading(warehouse_on_small_disks, wide, pause=True) as load:
        disk.fill()
        load.resume()
        error = error_of(load, WarehouseError)
    assert error.message.startswith("loading 2023-07: could not extend file")
    assert error.message.endswith("No space left on device")
    assert error.remedy.startswith("No month is left half replaced. Free space on the database server's disk")
    month.assert_unharmed(("failed", error.message))
    disk.empty()
    month.assert_can_be_replaced(wide)


def test_the_servers_wal_disk_fills_up_during_copy(
    server_on_small_disks: OwnServer, warehouse_on_small_disks: Warehouse, old: FlatMonth, wide: FlatMonth
) -> None:
    """The server then ends itself, and restarts when there is space: the loader sees a lost connection.

    If it needs a new file of its log while it could still undo the step, it reports an error instead.
    """
    server, disk = server_on_small_disks, server_on_small_disks.disks["wal"]
    month = holding(warehouse_on_small_disks, old)
    said = len(server.log())
    with loading(warehouse_on_small_disks, wide, pause=True) as load:
        disk.fill()
        load.resume()
        error = error_of(load, TransientError, WarehouseError)
    ended_itself = re.search("PANIC: .*No space left on device", server.log()[said:])
    assert ended_itself or error.message.endswith("No space left on device")
    disk.empty()
    if ended_itself:
        server.start()
        # It may restart by itself, a bit later.
        wait_until(lambda: "ready to accept connections" in server.log()[said:])
    month.assert_unharmed(INTERRUPTED if ended_itself else ("failed", error.message))
    month.assert_can_be_replaced(wide)


# --- the loader ---


def test_the_loader_is_killed_during_copy(warehouse: Warehouse, old: FlatMonth, large: FlatMonth) -> None:
    month = holding(warehouse, old)
    with loading_process(warehouse, large) as process:
        assert last_attempt(warehouse, JULY) == ("running", None)
        process.kill()
        process.wait()
    month.assert_unharmed(INTERRUPTED)
    month.assert_can_be_replaced(large)


# The lock allows reading the ledger but not writing it: a load that has copied all rows waits for it before its commit.
LEDGER_LOCKED: LiteralString = "LOCK TABLE era5.ledger IN SHARE MODE"


@pytest.mark.parametrize("workers", [1, 2])
def test_the_loader_is_killed_between_copy_and_commit(
    warehouse: Warehouse, old: FlatMonth, large: FlatMonth, workers: int
) -> None:
    month = holding(warehouse, old)
    with (
        session_with(warehouse, LEDGER_LOCKED),
        loading_process(warehouse, large, pause=False, workers=workers) as process,
    ):
        # A busy machine takes long to start it.
        wait_until(lambda: bool(waiting_for(warehouse, "era5.ledger")), 60)
        process.kill()
        process.wait()
    month.assert_unharmed(INTERRUPTED)
    month.assert_can_be_replaced(large)


def test_the_server_crashes_between_copy_and_commit(
    own_server: OwnServer, own_warehouse: Warehouse, old: FlatMonth, large: FlatMonth
) -> None:
    month = holding(own_warehouse, old)
    with session_with(own_warehouse, LEDGER_LOCKED), loading(own_warehouse, large) as load:
        wait_until(lambda: bool(waiting_for(own_warehouse, "era5.ledger")))
        own_server.stop("immediate")
        error_of(load, TransientError)
    own_server.start()
    month.assert_unharmed(INTERRUPTED)
    month.assert_can_be_replaced(large)


# --- locks ---


def test_a_load_gives_up_on_a_ledger_that_stays_locked(warehouse: Warehouse, old: FlatMonth, large: FlatMonth) -> None:
    month = holding(warehouse, old)
    with (
        loading(warehouse, large, pause=True, lock_timeout_seconds=1) as load,
        session_with(warehouse, LEDGER_LOCKED) as holder,
    ):
        session = holder.info.backend_pid
        load.resume()
        assert_ends(load, warehouse)
    month.assert_refused(load, session, large)


def test_a_load_gives_up_on_a_month_that_stays_locked(warehouse: Warehouse, old: FlatMonth, large: FlatMonth) -> None:
    month = holding(warehouse, old)
    with (
        warehouse.connect() as holder,
        month_lock(holder, Month.parse(JULY), timeout_seconds=0, on_wait=lambda _: None),
        loading(warehouse, large, lock_timeout_seconds=1) as load,
    ):
        error = error_of(load, MonthLockedError)
        assert error.message.startswith(f"2023-07 is being loaded by session {holder.info.backend_pid} of ")
        assert load.said == [f"{error.message}: waiting up to 1 s"]
    month.assert_unharmed(None)
    month.assert_can_be_replaced(large)


def test_a_load_gives_up_on_a_table_that_is_locked_when_it_starts(
    warehouse: Warehouse, old: FlatMonth, large: FlatMonth
) -> None:
    month = holding(warehouse, old)
    with (
        session_with(warehouse, "LOCK TABLE weather IN ACCESS EXCLUSIVE MODE") as holder,
        loading(warehouse, large, lock_timeout_seconds=1) as load,
    ):
        session = holder.info.backend_pid
        try:
            assert_ends(load, warehouse)
        finally:
            holder.close()  # before the load is waited for
    month.assert_refused(load, session, large)


def test_a_load_succeeds_or_is_refused_as_a_whole_if_the_table_is_locked_at_its_end(
    warehouse: Warehouse, old: FlatMonth, large: FlatMonth
) -> None:
    """It depends on who gets the lock first. In no case does the load wait without end."""
    month = holding(warehouse, old)
    with (
        loading(warehouse, large, pause=True, lock_timeout_seconds=1) as load,
        psycopg.connect(warehouse.url) as other,
    ):
        session = other.info.backend_pid
        other.pgconn.send_query(b"BEGIN; LOCK TABLE weather IN ACCESS EXCLUSIVE MODE")  # does not wait for the result
        wait_until(lambda: "AccessExclusiveLock" in locks_of(warehouse, session, "weather"))
        load.resume()
        try:
            assert_ends(load, warehouse)
        finally:
            end_session(other, warehouse.url)
    try:
        assert load.result().changed
    except MonthLockedError:
        month.assert_refused(load, session, large)
    else:
        assert_loaded(warehouse, large)
        assert tables(warehouse) == month.tables


# --- the network ---


class Network:
    """A network between a loader and its server that can be cut or go silent."""

    def __init__(self, url: str) -> None:
        self._server = url_parameters(url)
        self._listener = socket.socket()
        # Small buffers, so that the loader soon notices when the network accepts nothing more.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self._lock = threading.Lock()
        self._carried: list[_Carried] = []
        self._carries = threading.Event()
        self._carries.set()
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    def url(self, **options: str) -> str:
        """Return the server's URL through this network, with options of libpq."""
        here = {"host": "127.0.0.1", "port": str(self._listener.getsockname()[1])}
        parameters = {name: value for name, value in self._server.items() if name != "hostaddr"} | here | options
        return with_database(make_conninfo(**parameters), parameters["dbname"])

    def go_silent(self) -> None:
        """Forward nothing more, without closing any connection."""
        self._carries.clear()

    def cut(self) -> None:
        """Reset the connections at both ends; a connection that is accepted meanwhile stays."""
        with self._lock:
            cut, self._carried = self._carried, []
        for carried in cut:
            carried.is_cut.set()
        self._carries.set()
        for carried in cut:
            carried.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        _join(self._acceptor)  # from here on there are no new connections
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                # Closing resets the connection. After an orderly close with a full window, the other end may wait a
                # minute for more.
                near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                carried = _Carried(near, self._connect(), self._carries)
                with self._lock:
                    self._carried.append(carried)

    def _connect(self) -> socket.socket:
        host, port = self._server.get("host", "localhost"), self._server.get("port", "5432")
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        end = socket.socket(socket.AF_UNIX)
        end.connect(f"{host}/.s.PGSQL.{port}")
        return end


class _Carried:
    """A connection through a network: two threads carry its bytes while `carries` is set, until it is cut."""

    def __init__(self, near: socket.socket, far: socket.socket, carries: threading.Event) -> None:
        self.is_cut = threading.Event()
        self._carries = carries
        self._ends = (near, far)
        # A thread that waits in a call does not always notice that another has shut the socket down.
        for end in self._ends:
            end.settimeout(0.1)
        self._threads = [threading.Thread(target=self._carry, args=ends) for ends in ((near, far), (far, near))]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for thread in self._threads:
            _join(thread)
        for end in self._ends:
            end.close()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # closed
            while not self.is_cut.is_set():
                try:
                    data = memoryview(source.recv(1 << 16))
                except TimeoutError:
                    continue
                if not data:
                    break
                self._carries.wait()
                while data and not self.is_cut.is_set():
                    with suppress(TimeoutError):
                        data = data[sink.send(data) :]
        self._carries.wait()  # an end is not heard of, either
        with suppress(OSError):  # it has ended
            sink.shutdown(socket.SHUT_RDWR)


def _join(thread: threading.Thread) -> None:
    thread.join(SECONDS_TO_GIVE_UP)
    assert not thread.is_alive()


@contextmanager
def network_to(warehouse: Warehouse) -> Iterator[Network]:
    network = Network(warehouse.url)
    try:
        yield network
    finally:
        network.close()


def test_the_network_is_cut_during_copy(warehouse: Warehouse, old: FlatMonth, large: FlatMonth) -> None:
    month = holding(warehouse, old)
    with network_to(warehouse) as network, loading(Warehouse(network.url()), large, pause=True) as load:
        network.cut()
        load.resume()
        error = error_of(load, TransientError)
    assert error.remedy.endswith("The connection to the server was lost: run it again.")
    month.assert_unharmed(INTERRUPTED)
    month.assert_can_be_replaced(large)


def test_one_of_several_connections_is_cut_during_copy(warehouse: Warehouse, old: FlatMonth, large: FlatMonth) -> None:
    month = holding(warehouse, old)
    with loading(warehouse, large, pause=True, workers=2) as load:
        with psycopg.connect(warehouse.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (copying_sessions(warehouse)[-1],))
        load.resume()
        error = error_of(load, TransientError)
    # If the connection cut was a worker's, the load's own connection recorded the failure.
    wait_until(lambda: last_attempt(warehouse, JULY)[0] != "running")
    assert last_attempt(warehouse, JULY) in (INTERRUPTED, ("failed", error.message))
    month.assert_unharmed(last_attempt(warehouse, JULY))
    month.assert_can_be_replaced(large)


def test_the_connection_goes_silent_during_copy(warehouse: Warehouse, old: FlatMonth, wide: FlatMonth) -> None:
    """A loader with tcp_user_timeout gives up; until the server does too, the month stays locked.

    The month is wide because the network still takes in what fits its buffers.
    """
    month = holding(warehouse, old)
    with network_to(warehouse) as network:
        with loading(Warehouse(network.url(tcp_user_timeout="1000")), wide, pause=True) as load:
            (holder,) = holders_of_months(warehouse)
            network.go_silent()
            load.resume()
            error_of(load, TransientError)
        assert last_attempt(warehouse, JULY) == ("running", None)
        with pytest.raises(MonthLockedError, match=f"^2023-07 is being loaded by session {holder} of "):
            load_month(warehouse, wide, lock_timeout_seconds=1)
        network.cut()
        month.assert_unharmed(INTERRUPTED)
    month.assert_can_be_replaced(wide)


def test_connections_detect_a_silent_network_by_default(database_url: str) -> None:
    """By default the system would wait for two hours before it checks whether the server still exists."""
    with network_to(Warehouse(database_url)) as network, Warehouse(network.url()).connect() as connection:
        end = socket.socket(fileno=os.dup(connection.fileno()))
        with end:
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= MOST_SECONDS_OF_SILENCE
            assert 0 < end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= MOST_SECONDS_OF_SILENCE * 1000


# --- readers ---


def test_a_reader_sees_every_version_of_the_month_whole_and_in_order(
    own_warehouse: Warehouse, old: FlatMonth, large: FlatMonth
) -> None:
    load_month(own_warehouse, old)
    with Reader(own_warehouse) as reader:
        for flat in (large, None, old, large):
            if flat is None:
                drop_month(own_warehouse, old.month)
            else:
                load_month(own_warehouse, flat)
            seen = len(reader.counts)
            wait_until(lambda seen=seen: len(reader.counts) > seen + 1 or reader.error is not None)  # type: ignore[misc]
    assert reader.error is None
    assert [count for count, _ in groupby(reader.counts)] == [old.rows, large.rows, 0, old.rows, large.rows]
