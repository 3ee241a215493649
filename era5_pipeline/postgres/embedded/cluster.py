"""A PostgreSQL data folder and the server on it: made, configured, started and stopped.

Here: what has to be right before PostgreSQL's programs are let at the folder, and afterwards. Not here: who
uses the server, and hence when it starts and stops (`embedded`). Callers have seen to it that nobody else
starts or stops it meanwhile.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from psycopg import pq

from era5_pipeline.model.errors import Era5Error, LocalDiskError, ServerUnsuitableError, WarehouseError, disk_errors
from era5_pipeline.postgres.doctor.machine import Machine
from era5_pipeline.postgres.embedded.server_account import MAJOR_VERSION, server_account
from era5_pipeline.postgres.embedded.server_processes import first_number, number_in_use, server_processes, works_on
from era5_pipeline.postgres.embedded.socket_folder import PORT, SocketFolder
from era5_pipeline.postgres.embedded.tuning import bulk_load_settings, write_settings
from era5_pipeline.runtime.supervisor import LogFile

if TYPE_CHECKING:
    from era5_pipeline.postgres.embedded.server_account import Account

_SUPERUSER = "postgres"

# Crash recovery replays up to max_wal_size, and a stop writes out up to shared_buffers: minutes on a slow
# disk.
_START_SECONDS = 300
# A backend whose postmaster was killed notices when it next waits for anything.
_ORPHAN_SECONDS = 2.0
_POLL_SECONDS = 0.05

# Sorting, and thereby the indexes, must not depend on the machine's locale: it is PostgreSQL's own. Whoever
# comes through the socket is its folder's owner; and nobody comes from elsewhere without a password.
_INITDB_OPTIONS = (
    *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *(f"--username={_SUPERUSER}", "--auth-local=trust", "--auth-host=scram-sha-256"),
)


class Cluster:
    """The server in the folder `postgres` of `home`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log = LogFile(home / "postgres.log")

    @property
    def data_folder(self) -> Path:
        """The data folder, symbolic links resolved."""
        return self._home.resolve() / "postgres"

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self._log.path

    @property
    def _socket_folder(self) -> SocketFolder:
        return SocketFolder(self.data_folder)

    @property
    def _pid_file(self) -> Path:
        return self.data_folder / "postmaster.pid"

    def url(self, database: str) -> str:
        """Return the libpq URL of `database`: the same whether the server runs or not."""
        name = quote(database, safe="")
        return f"postgresql://{_SUPERUSER}@/{name}?host={self._socket_folder.path}&port={PORT}"

    def is_running(self) -> bool:
        """Whether the server accepts connections."""
        if not self._socket_folder.is_owned():
            return False
        # An attempt to connect, not a look at the processes, where a killed server's zombie is one.
        # libpq's ping counts a server that has no connection free as running; a session would not.
        conninfo = f"{self.url('postgres')}&connect_timeout=5"
        return pq.PGconn.ping(conninfo.encode()) == pq.Ping.OK

    def bring_up(self) -> None:
        """Start the server if it does not run; make the data folder where it is missing.

        Raises:
            LocalDiskError: if the disk is full or not writable.
            ServerUnsuitableError: if the data folder is of another major version.
            WarehouseError: if the server cannot be started.
        """
        if self.is_running():
            return
        with disk_errors("starting the embedded PostgreSQL", self._home):
            account = server_account(self.data_folder)
            self._check_data_folder(account)
            if self._wait_for_previous_processes():
                return
            if not (self.data_folder / "PG_VERSION").exists():
                self._initialize(account)
            self._remove_stale_locks()
            self._socket_folder.make(account)
            self._configure(account)
            self._launch(account)

    def shut_down(self, wait_seconds: float) -> bool:
        """Stop the server if it runs; gives whether it did.

        Raises:
            WarehouseError: if it does not stop in time.
        """
        postmaster = self._postmaster()
        if postmaster is None:
            return False
        with suppress(ProcessLookupError):
            # The "fast" shutdown: sessions are cut off, a checkpoint is written, nothing committed is lost.
            os.kill(postmaster, signal.SIGINT)
        deadline = time.monotonic() + wait_seconds
        while self._postmaster() is not None:
            if time.monotonic() > deadline:
                raise WarehouseError(
                    f"the embedded PostgreSQL in {self._home} does not stop within {wait_seconds:g} s",
                    remedy=f"It is still writing, and stops when done. What it says: {self.log_path}",
                )
            time.sleep(_POLL_SECONDS)
        self._socket_folder.remove()
        return True

    def _postmaster(self) -> int | None:
        """Return the number of the server's first process, if it runs."""
        pid = first_number(self._pid_file)
        return pid if pid is not None and works_on(pid, self.data_folder) else None

    def _check_data_folder(self, account: Account) -> None:
        """Refuse a data folder that this server could not, or must not, run on."""
        if not self.data_folder.exists():
            return
        try:
            version = (self.data_folder / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if any(self.data_folder.iterdir()):
                raise WarehouseError(
                    f"{self.data_folder} holds files, but no PostgreSQL",
                    remedy="Move them away, or set ERA5_HOME to another folder.",
                ) from None
            return
        if version != str(MAJOR_VERSION):
            raise ServerUnsuitableError(
                f"{self.data_folder} was made by PostgreSQL {version}; the embedded one is {MAJOR_VERSION}",
                remedy=f"Upgrade it (pg_dump, or pg_upgrade of version {MAJOR_VERSION}), or move it away and load "
                "the months again.",
            )
        owner = self.data_folder.stat().st_uid
        if owner != account.uid:
            raise WarehouseError(
                f"{self.data_folder} belongs to user number {owner}; the server would run as {account.uid}",
                remedy="Run as the user who made it, or set ERA5_HOME to another folder.",
            )

    def _wait_for_previous_processes(self) -> bool:
        """Wait until no process works on the data folder; or True if the server turns out to run after all.

        It has processes and does not answer when who started it was killed meanwhile, while it stops, and
        when its postmaster was killed and other processes of it have not noticed yet. Two servers on one
        folder destroy it.
        """
        begin = time.monotonic()
        while processes := server_processes(self.data_folder):
            if self.is_running():
                return True
            waited = time.monotonic() - begin
            if self._postmaster() is None and waited > _ORPHAN_SECONDS:
                for pid in processes:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)  # as in any crash, what was committed is in the log
            if waited > _START_SECONDS:
                raise self._failure(f"neither answers nor ends (process {processes[0]})")
            time.sleep(_POLL_SECONDS)
        return False

    def _initialize(self, account: Account) -> None:
        """Make the data folder, under another name until it is whole."""
        parent = self.data_folder.parent
        for remains in parent.glob(".postgres-new-*"):
            shutil.rmtree(remains, ignore_errors=True)
        # A name of its own: whoever was killed in here may have left an initdb that is still at work.
        fresh = Path(tempfile.mkdtemp(prefix=".postgres-new-", dir=parent))
        os.chown(fresh, account.uid, account.gid)
        try:
            made = account.run(("initdb", *_INITDB_OPTIONS), fresh, self._log)
            if not made:
                raise self._failure("its data folder cannot be made")
            fresh.rename(self.data_folder)
            _sync_folder(parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _remove_stale_locks(self) -> None:
        """Remove a killed server's lock files if its process number is in use again.

        No process works on the data folder (`_wait_for_previous_processes`). PostgreSQL cannot tell that from a number,
        and would refuse to start: for a zombie that nobody waits for, or another program after a restart of
        the machine.
        """
        for file in (self._pid_file, self._socket_folder.lock):
            pid = first_number(file)
            if pid is not None and number_in_use(pid):
                file.unlink(missing_ok=True)

    def _configure(self, account: Account) -> None:
        ours = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self._socket_folder.path),
            "unix_socket_permissions": "0700",
        }
        write_settings(bulk_load_settings(Machine.here(self.data_folder)) | ours, self.data_folder, account)

    def _launch(self, account: Account) -> None:
        command = ("pg_ctl", "start", "--silent", "--wait", f"--timeout={_START_SECONDS}")
        if not account.run(command, self.data_folder, self._log) or not self.is_running():
            raise self._failure("cannot be started")

    def _failure(self, problem: str) -> Era5Error:
        said = self._log.last_lines()
        if os.strerror(errno.ENOSPC) in said:
            return LocalDiskError(
                f"the embedded PostgreSQL {problem}: no space is left in {self._home}:\n{said}",
                remedy="Free space there, or set ERA5_HOME to a folder on a larger disk.",
            )
        return WarehouseError(
            f"the embedded PostgreSQL {problem}; its last lines:\n{said}",
            remedy=f"Correct what they say, then try again. The whole log: {self.log_path}",
        )


def _sync_folder(folder: Path) -> None:
    """Make a rename in it durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
