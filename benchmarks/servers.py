"""Where a suite measures: a temporary database with a given layout, or a server with given settings."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import psycopg
from psycopg import pq, sql

from benchmarks.cells import CannotRunError, Laps, Measured
from benchmarks.processes import running
from era5_pipeline.postgres.connect import DAGSTER_SUFFIX, Warehouse, ensure_database
from era5_pipeline.postgres.embedded.cluster import write_settings
from era5_pipeline.postgres.embedded.data_folder import PORT, SocketFolder
from era5_pipeline.postgres.embedded.processes import Account, binaries, server_account
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.server_version import describe_server
from era5_pipeline.postgres.urls import with_database
from era5_pipeline.runtime.supervisor import LogFile, terminate_with_parent
from era5_pipeline.warehouse.layouts import LAYOUTS, Layout
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, CopyInto, LocationSpan, Replacement, Shares
from era5_pipeline.warehouse.layouts.variable_columns import add_columns, missing_variables
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable

# --- A temporary database to load into, with the table in one of the layouts that the server offers ---


# Layouts by the value of `SHOW timescaledb.license`.
_OFFERED = {None: ("partitions",), "apache": ("hypertable",), "timescale": ("columnstore", "calendar hypertable")}

ROWS = sql.SQL("SELECT count(*) FROM weather")
# Loads of fewer rows are trials.
SYNCED_ROWS = 10_000
_PREFIX = "era5_bench_"
_COMMENT = "Temporary, of era5 bench run: dropped when it ends"
# A run creates its database, and drops abandoned ones, under this lock.
_LOCK = 7215436109


def number_of(connection: psycopg.Connection[Any], query: sql.SQL | sql.Composed) -> int:
    """The whole number that a query answers with."""
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


@dataclass(frozen=True)
class Target:
    """The database; `offered` are the layouts of its server, starting with the default one.

    `syncs`: flush earlier writes to disk before a measurement, which takes seconds on a busy machine and is useless for
    loads of a few thousand rows.
    """

    warehouse: Warehouse
    offered: tuple[str, ...]
    syncs: bool = True

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection; server errors are raised as `Era5Error`."""
        with server_errors("measuring"), self.warehouse.connect() as connection:
            yield connection

    @property
    def layout(self) -> Layout:
        """The server's default layout."""
        return LAYOUTS[self.offered[0]]

    def make_table(self, layout: Layout, variables: Iterable[Variable] = ()) -> None:
        """Create an empty `weather` in this layout, with columns for these variables too; the ledger is empty."""
        if layout.name not in self.offered:
            raise CannotRunError(f"layout {layout.name}: this server offers {' and '.join(self.offered)}")
        with self.connect() as connection:
            connection.execute("DROP TABLE IF EXISTS weather CASCADE")
            layout.create(connection)
            missing = missing_variables(connection, (variable.column for variable in variables))
            add_columns(connection, missing, timeout_seconds=0, on_wait=lambda _: None)
            connection.execute("TRUNCATE era5.ledger, era5.load_attempt")

    def require_rows(self, wanted: int) -> int:
        """Require that this many rows are visible in the table; return their number."""
        with self.connect() as connection:
            found = number_of(connection, ROWS)
        if found != wanted:
            raise CannotRunError(f"{found:,} of {wanted:,} rows are visible through the table")
        return wanted

    def bytes(self) -> int:
        """The bytes of the table with its indexes."""
        with self.connect() as connection:
            return read_space(connection).bytes

    def calm(self) -> None:
        """Flush what earlier work left in memory to disk, so that the measurement does not wait for it.

        Skips the checkpoint if this user may not order one. `sync` is for a server on this machine.
        """
        if not self.syncs:
            return
        with self.connect() as connection, suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute("CHECKPOINT")
        os.sync()

    def fill(
        self,
        layout: Layout,
        month: Month,
        method: AbstractContextManager[CopyInto],
        rows: int,
        *,
        spans: tuple[LocationSpan, ...] = (EVERYWHERE,),
        variables: Iterable[Variable] = (),
    ) -> Measured:
        """Load the month with a copy method into a new table of the layout, like a normal load but without the ledger.

        The table has columns for `variables` in addition to the default ones. It has `rows` rows afterwards. There are
        two times: until the rows are visible and settled (`seconds`), and of the COPY alone (`copy_seconds`; the
        longest if there are several connections).
        """
        self.make_table(layout, variables)
        self.calm()
        copies = [0.0]

        def timed(*arguments: Any, **options: Any) -> int:  # noqa: ANN401  # those of `copy`
            clock = Laps()
            try:
                return copy(*arguments, **options)
            finally:
                copies.append(clock.lap())

        clock = Laps()
        with method as copy:
            self.replace(layout, month, timed, spans=spans)
        seconds = clock.lap()
        return Measured(self.require_rows(rows), {"seconds": seconds, "copy_seconds": max(copies)})

    def replace(
        self,
        layout: Layout,
        month: Month,
        copy: CopyInto,
        *,
        spans: tuple[LocationSpan, ...] = (EVERYWHERE,),
        replaced: bool = False,
    ) -> None:
        """Load the month with `copy` into the existing table, and settle it; `replaced`: the table held the month."""
        shares = Shares(spans, connect=lambda _: self.warehouse.connect()) if len(spans) > 1 else None
        replacement = Replacement(month, copy, shares=shares)
        with self.connect() as connection:
            layout.replace(connection, replacement)
            layout.settle(connection, month, replaced=replaced, is_whole=True)


@contextmanager
def new_target(warehouse: Warehouse, *, syncs: bool = True) -> Iterator[Target]:
    """Create a database beside that of `warehouse`, with TimescaleDB if the server offers it; drop it afterwards.

    Databases left by killed runs are dropped too: a run keeps a connection to its own, and a comment identifies them.
    """
    name = f"{_PREFIX}{os.getpid()}"
    temporary = Warehouse(with_database(warehouse.url, name))
    with server_errors("creating a database to measure in"), warehouse.connect() as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        _drop_abandoned(connection)
        _drop(connection, name)
        ensure_database(temporary.url)
        # Before the comment: the lock is that of one database, and a run that began in another takes for abandoned what
        # has the comment and no connection.
        keeper = temporary.connect()
        connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(_COMMENT)))
    try:
        with keeper:
            with server_errors("measuring"), temporary.connect() as connection:
                ensure_schema(connection)  # creates the extension, and the ledger's schema
                license_name = describe_server(connection).license
            yield Target(temporary, _OFFERED[license_name], syncs)
    finally:
        with server_errors("dropping the database that was measured in"), warehouse.connect() as connection:
            _drop(connection, name)
            _drop(connection, name + DAGSTER_SUFFIX)  # made by `era5 up`


def _drop_abandoned(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        "SELECT datname FROM pg_database d WHERE starts_with(datname, %s) "
        "AND shobj_description(d.oid, 'pg_database') = %s "
        "AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = d.oid) "
        "AND pg_has_role(d.datdba, 'USAGE')",
        (_PREFIX, _COMMENT),
    ).fetchall()
    for (name,) in rows:
        _drop(connection, name)


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


# --- A PostgreSQL server with given settings, in a temporary folder: started, measured, and discarded ---
#
# It runs the embedded server's programs, with PostgreSQL's own default settings and the given ones, and listens only on
# a Unix socket. If this process is killed, the kernel stops the server; the next run removes its folder.


_INITDB = ("initdb", "--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=trust", "--no-sync")
_OWN_SETTINGS = {"listen_addresses": "", "port": str(PORT), "timezone": "UTC", "max_connections": "50"}
_START_SECONDS = 120.0
_POLL_SECONDS = 0.05


@contextmanager
def own_server(folder: Path, settings: Mapping[str, str], *, syncs: bool = True) -> Iterator[Target]:
    """Run a new server with these settings while the context is open, on a data folder in `folder`."""
    data, log = folder / "data", LogFile(folder / "server.log")
    data.mkdir(mode=0o700, parents=True)
    account = server_account(data)
    os.chown(data, account.uid, account.gid)
    sockets = SocketFolder(data.resolve())
    sockets.make(account)
    try:
        if not account.run(_INITDB, data, log):
            raise CannotRunError(f"a server could not be created: {log.last_lines()}")
        write_settings({**_OWN_SETTINGS, "unix_socket_directories": str(sockets.path), **settings}, data, account)
        url = f"postgresql://postgres@/postgres?host={sockets.path}&port={PORT}"
        with log.opened() as output, _postgres(data, account, output) as process:
            _await(url, process, log)
            yield Target(Warehouse(url), ("partitions",), syncs)
    finally:
        sockets.remove()
        shutil.rmtree(data, ignore_errors=True)


def _postgres(data: Path, account: Account, output: BinaryIO) -> AbstractContextManager[subprocess.Popen[bytes]]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    as_user = {"user": account.uid, "group": account.gid, "extra_groups": ()} if os.geteuid() == 0 else {}
    return running(
        (str(binaries() / "postgres"), "-D", str(data.resolve())),
        signal.SIGQUIT,  # "immediate": its data are discarded
        env=env | {"LC_ALL": "C"},
        cwd=data,
        stdout=output,
        stderr=subprocess.STDOUT,
        preexec_fn=terminate_with_parent(os.getpid()),  # it only makes system calls
        **as_user,
    )


def _await(url: str, process: subprocess.Popen[bytes], log: LogFile) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while pq.PGconn.ping(url.encode()) != pq.Ping.OK:
        if process.poll() is not None or time.monotonic() > deadline:
            raise CannotRunError(f"the server did not start: {log.last_lines()}")
        time.sleep(_POLL_SECONDS)
