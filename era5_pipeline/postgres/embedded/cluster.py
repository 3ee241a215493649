"""Create, configure, start and stop the embedded server on its data folder."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import psycopg
from psycopg import pq, sql

from era5_pipeline.model.errors import Era5Error, LocalDiskError, UsageError, WarehouseError, disk_errors, disk_remedy
from era5_pipeline.postgres.doctor.advice import advised_amounts, size
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline.postgres.embedded.data_folder import PORT, SUPERUSER, SocketFolder, initialize, require_usable
from era5_pipeline.postgres.embedded.processes import (
    first_number,
    is_being_started,
    number_in_use,
    server_account,
    server_processes,
    works_on,
)
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.files import replacing
from era5_pipeline.runtime.supervisor import LogFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from era5_pipeline.postgres.embedded.processes import Account

_MB, _GB = 1 << 20, 1 << 30


def bulk_load_settings(machine: Machine) -> dict[str, str]:
    """Return the settings for bulk loads and series queries, with full durability.

    They are the amounts that `era5 doctor` advises, the minimal log, and what a server alone on its machine can have of
    memory and cores. They do not set fsync, full_page_writes and synchronous_commit: with one of the first two off,
    a power failure can destroy the whole database; turning the third off gains nothing at one commit a month.
    """
    cores, memory = machine.cores or 1, machine.memory_bytes
    shares = (
        {}
        if memory is None
        else {
            "effective_cache_size": size(max(_MB, memory // 2)),
            "work_mem": size(max(4 * _MB, min(memory // 256, 64 * _MB))),
            "maintenance_work_mem": size(max(64 * _MB, min(memory // 16, _GB))),
        }
    )
    return advised_amounts(machine) | {
        **shares,
        "checkpoint_timeout": "15min",
        "max_parallel_workers": str(cores),
        "max_parallel_workers_per_gather": str(max(1, min(cores // 2, 8))),
        "max_worker_processes": str(max(8, cores)),
        "jit": "off",
        # This server has no replicas, so rows that are loaded into a table created in the same transaction are synced
        # instead of logged: half the writing. `minimal` requires that there are no senders.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_connections": "100",
        # Times are in UTC, whatever the machine's time zone.
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %a ",
    }


def write_settings(settings: Mapping[str, str], data_folder: Path, account: Account) -> None:
    """Write `era5.conf` into the data folder, and include it in `postgresql.conf`."""
    lines = [
        "# Overwritten at each start. Your own settings: in postgresql.conf, below the line that includes this file."
    ]
    for name, value in settings.items():
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{quoted}'")
    path = data_folder / "era5.conf"
    with replacing(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        os.chown(temporary, account.uid, account.gid)
    include = f"include_if_exists = '{path.name}'"
    main = data_folder / "postgresql.conf"
    text = main.read_text(encoding="utf-8", errors="surrogateescape")
    if include not in text.splitlines():
        with main.open("a", encoding="utf-8") as file:
            file.write(("" if text.endswith("\n") else "\n") + include + "\n")


LOOPBACK = "127.0.0.1"
_PASSWORD_BYTES = 24


def is_free(port: int) -> bool:
    """Return True if a server can listen on this loopback port."""
    with socket.socket() as probe:
        # As PostgreSQL does: ignore connections of a server that has just stopped.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def require_free(port: int) -> None:
    """Require that a server can listen on the port."""
    if not is_free(port):
        raise UsageError(
            f"port {port} of {LOOPBACK} is in use",
            remedy="Stop what uses it, or choose another: era5 db start --port N.",
        )


_log = logging.getLogger(__name__)

# Crash recovery replays up to max_wal_size, and a server that is still stopping writes up to shared_buffers: minutes on
# a slow disk.
START_SECONDS = 300
# A backend whose postmaster was killed ends when it next waits for anything.
_ORPHAN_SECONDS = 2.0
_POLL_SECONDS = 0.05
# Warn after this: a start takes half a second, creating a data folder two.
_SLOW_SECONDS = 10.0


class Cluster:
    """The server with its data folder `postgres` in `home`; what changes it is called with the start-stop lock held.

    Clients that cannot use its Unix socket have a TCP port and a password, which are kept in files below the home: the
    port until `era5 db stop`, the password, generated once, forever.
    """

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._port_file, self._password_file = self._home / "postgres.port", self._home / "postgres.password"
        self._log = LogFile(self._home / "postgres.log")

    @property
    def data_folder(self) -> Path:
        """The data folder, with symbolic links resolved."""
        return self._home.resolve() / "postgres"

    @property
    def log_path(self) -> Path:
        """The server's log file."""
        return self._log.path

    @property
    def _socket_folder(self) -> SocketFolder:
        return SocketFolder(self.data_folder)

    @property
    def _pid_file(self) -> Path:
        return self.data_folder / "postmaster.pid"

    @property
    def _chosen_port(self) -> int | None:
        """The port to listen on from the next start; None: no TCP."""
        try:
            return int(self._port_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def _password(self) -> str:
        """Return the password of TCP clients, generating it at the first call."""
        with disk_errors("keeping the server's password", self._password_file):
            if not self._password_file.exists():
                # Create the file privately too: `replacing` only makes its folder private (mkstemp).
                with replacing(self._password_file) as temporary:
                    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                    with os.fdopen(descriptor, "w", encoding="ascii") as file:
                        file.write(secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
            return self._password_file.read_text(encoding="ascii").strip()

    def url(self, database: str) -> str:
        """Return the libpq URL of `database`, whether or not the server runs."""
        name = quote(database, safe="")
        return f"postgresql://{SUPERUSER}@/{name}?host={self._socket_folder.path}&port={PORT}"

    def exists(self) -> bool:
        """Return True if a PostgreSQL data folder exists."""
        with disk_errors("opening the embedded PostgreSQL", self._home):
            try:
                (self.data_folder / "PG_VERSION").stat()
            except FileNotFoundError:
                return False
            except NotADirectoryError:
                raise not_a_folder(self._home) from None
        return True

    def is_running(self) -> bool:
        """Return True if the server accepts connections."""
        if not self._socket_folder.is_owned():
            return False
        # Use libpq's ping: a killed server's zombie is a process too, and a connection would fail if a running server
        # has no free one.
        conninfo = f"{self.url('postgres')}&connect_timeout=5"
        return pq.PGconn.ping(conninfo.encode()) == pq.Ping.OK

    def listening_port(self) -> int | None:
        """The TCP port of the running server; None without one, or if the server does not run."""
        if self._postmaster() is None:
            return None
        try:
            lines = self._pid_file.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return None
        # Lines: process id, data folder, start time, port, socket folder, address.
        has_address = len(lines) > 5 and lines[5].strip() != ""
        return int(lines[3]) if has_address else None

    def tcp_url(self, database: str) -> str:
        """Return the URL of `database` on the running server's TCP port, with the password."""
        port = self.listening_port()
        if port is None:
            raise UsageError(
                f"the embedded PostgreSQL in {self._home} does not listen on a port",
                remedy="Start it with a port, for example: era5 db start --port 5433.",
            )
        return f"postgresql://{SUPERUSER}:{self._password()}@{LOOPBACK}:{port}/{quote(database, safe='')}"

    def choose_port(self, port: int | None) -> None:
        """Store the port for all starts to come; None disables TCP."""
        if port is None:
            self._port_file.unlink(missing_ok=True)
            return
        with replacing(self._port_file) as temporary:
            temporary.write_text(f"{port}\n", encoding="ascii")

    def set_password(self) -> None:
        """Set the password for TCP clients on the running server, which receives only its SCRAM verifier."""
        user = SUPERUSER
        with (
            server_errors("setting the server's password"),
            psycopg.connect(self.url("postgres"), autocommit=True) as connection,
        ):
            verifier = connection.pgconn.encrypt_password(self._password().encode(), user.encode(), b"scram-sha-256")
            connection.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(user), sql.Literal(verifier.decode()))
            )

    def bring_up(self) -> None:
        """Start the server if needed, creating a missing data folder."""
        if self.is_running():
            return
        with disk_errors("starting the embedded PostgreSQL", self._home):
            account = server_account(self.data_folder)
            require_usable(self.data_folder, account)
            if self._wait_for_previous_processes():
                return
            is_new = not (self.data_folder / "PG_VERSION").exists()
            if is_new and not initialize(self.data_folder, account, self._log):
                raise self._failure("cannot create its data folder")
            self._remove_stale_lock()
            self._socket_folder.make(account)
            port = self._port()
            self._socket_folder.clear(PORT if port is None else port)
            self._configure(account, port)
            command = ("pg_ctl", "start", "--silent", "--wait", f"--timeout={START_SECONDS}")
            wait = SlowWait("is starting, or recovering from a crash", START_SECONDS)
            started = account.run(command, self.data_folder, self._log, pause=wait.pause)
            if not started or not self.is_running():
                raise self._failure("did not start")

    def shut_down(self, wait_seconds: float) -> bool:
        """Stop the server; return whether it was running."""
        postmaster = self._postmaster()
        if postmaster is None:
            return False
        with suppress(ProcessLookupError):
            # The "fast" shutdown: sessions are ended, a checkpoint is written, nothing committed is lost.
            os.kill(postmaster, signal.SIGINT)
        wait = SlowWait("writes its memory to disk before it stops", wait_seconds)
        # Watch the process, not its file: PostgreSQL removes that before it frees its memory and ends.
        while works_on(postmaster, self.data_folder):
            if wait.seconds > wait_seconds:
                raise WarehouseError(
                    f"the embedded PostgreSQL in {self._home} did not stop within {wait_seconds:g} s",
                    remedy=f"It is still writing, and stops when done. Its log: {self.log_path}",
                )
            wait.pause()
        self._socket_folder.remove()
        return True

    def _postmaster(self) -> int | None:
        """Return the process id of the postmaster, if it runs."""
        pid = first_number(self._pid_file)
        return pid if pid is not None and works_on(pid, self.data_folder) else None

    def _wait_for_previous_processes(self) -> bool:
        """Wait until no process uses the data folder; return True if the server accepts connections instead.

        Processes that do not accept connections remain if the command that started or stopped the server was killed
        midway, or if the postmaster was killed and its children have not noticed yet. Two servers on one folder would
        destroy it.
        """
        wait = SlowWait("is still starting or stopping", START_SECONDS)
        while True:
            # First, since the server that it starts appears before it ends.
            is_starting = is_being_started(self.data_folder)
            processes = server_processes(self.data_folder)
            if not is_starting and not processes:
                return False
            if self.is_running():
                return True
            if not is_starting and self._postmaster() is None and wait.seconds > _ORPHAN_SECONDS:
                for pid in processes:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)  # what was committed is in the log, as after any crash
            if wait.seconds > START_SECONDS:
                which = f"process {processes[0]}" if processes else "pg_ctl"
                raise self._failure(f"neither accepts connections nor ends ({which})")
            wait.pause()

    def _remove_stale_lock(self) -> None:
        """Remove a killed server's lock file if another process reuses its process id.

        No process uses the data folder (`_wait_for_previous_processes`). PostgreSQL only checks whether the id is in
        use, even by a zombie or by another program after a reboot, and would not start.
        """
        pid = first_number(self._pid_file)
        if pid is not None and number_in_use(pid) and not works_on(pid, self.data_folder):
            self._pid_file.unlink(missing_ok=True)

    def _port(self) -> int | None:
        """The port to listen on; None, with a warning, if another program has taken it since it was chosen."""
        port = self._chosen_port
        if port is not None and not is_free(port):
            _log.warning("port %d is in use: the embedded PostgreSQL starts without it (era5 db start --port N)", port)
            return None
        return port

    def _configure(self, account: Account, port: int | None) -> None:
        ours = {
            "listen_addresses": "" if port is None else LOOPBACK,
            "port": str(PORT if port is None else port),
            "password_encryption": "scram-sha-256",
            "unix_socket_directories": str(self._socket_folder.path),
            "unix_socket_permissions": "0700",
        }
        write_settings(bulk_load_settings(Machine.here(self.data_folder)) | ours, self.data_folder, account)

    def _failure(self, problem: str) -> Era5Error:
        last_lines = self._log.last_lines()
        for number in (errno.EACCES, errno.EROFS):
            if os.strerror(number) in last_lines:
                return LocalDiskError(
                    f"the embedded PostgreSQL {problem}: {os.strerror(number)} in {self._home}:\n{last_lines}",
                    remedy=str(disk_remedy(OSError(number, os.strerror(number)))),
                )
        if os.strerror(errno.ENOSPC) in last_lines:
            return LocalDiskError(
                f"the embedded PostgreSQL {problem}: no space is left in {self._home}:\n{last_lines}",
                remedy="Free space there, or set ERA5_HOME to a folder on a larger disk.",
            )
        return WarehouseError(
            f"the embedded PostgreSQL {problem}; the last lines of its log:\n{last_lines}",
            remedy=f"Fix what they report, then try again. The whole log: {self.log_path}",
        )


class SlowWait:
    """A wait that, once it takes several seconds, warns why and how long it may last.

    It warns without a thread: a server is also stopped while Python ends, which then starts none.
    """

    def __init__(self, why: str, up_to_seconds: float) -> None:
        self._warning: str | None = f"the embedded PostgreSQL {why}: waiting up to {up_to_seconds:g} s"
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds waited so far."""
        return time.monotonic() - self._begin

    def pause(self) -> None:
        """Sleep for a moment, before another look."""
        time.sleep(_POLL_SECONDS)
        if self._warning is not None and self.seconds > _SLOW_SECONDS:
            _log.warning(self._warning)
            self._warning = None


def not_a_folder(home: Path) -> UsageError:
    """Build the error for a home that is a file, or lies below one."""
    return UsageError(f"ERA5_HOME: {home} is not a folder", remedy="Set ERA5_HOME to a folder.")
