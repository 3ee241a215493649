"""Separate servers for tests that stop or crash them, or fill their disks. A pytest plugin.

Such a server is a new cluster in a temporary folder, run by the same programs as a server under test (`servers`): those
of the embedded server, or of a TimescaleDB on this machine, which may run in a chroot. The server under test is only
queried for its version and programs. If its programs are inaccessible (on another machine, in a container, or another
user's), the test is skipped with the reason.

Here: creating, running and removing such servers. Not here: what tests do with them.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import psycopg
import pytest
from psycopg import pq, sql

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline.postgres.embedded.cluster import bulk_load_settings
from era5_pipeline.postgres.embedded.processes import binaries, server_account
from era5_pipeline.postgres.urls import url_parameters, without_password
from era5_pipeline_tests.servers import fresh_warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from era5_pipeline_tests.servers import Host

    Mode = Literal["fast", "immediate"]

SECONDS = 240.0
_SIGNALS: Mapping[Mode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_GB = 1 << 30
# The maximum length of a socket's path on Linux, without the final zero.
_SOCKET_PATH_BYTES = 107

_SETTINGS = {
    # Only a socket: another program could take a port between a stop and a start.
    "listen_addresses": "",
    "port": "5432",
    # A chroot often has no /dev/shm.
    "dynamic_shared_memory_type": "sysv",
    "max_connections": "40",
    # The maximum: what a test did not commit stays unwritten, and is lost in a crash.
    "wal_writer_delay": "10s",
    "checkpoint_timeout": "1h",
    "autovacuum_naptime": "1h",
    "log_line_prefix": "%m [%p] %a ",
}
# Data left unsynced by a server crash are still in the machine's memory: only a crash of the machine loses them.
_UNSYNCED = {"fsync": "off"}
_TIMESCALEDB_SETTINGS = {
    "shared_preload_libraries": "timescaledb",
    "timescaledb.telemetry_level": "off",
    "timescaledb.max_background_workers": "8",
    "max_worker_processes": "16",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "shared_buffers": "64MB",
    "max_wal_size": "4GB",
}

# Mounts (folder, options, folder, options, ...), prints "mounted", and keeps the mounts until its input ends: at the
# latest when the process that started it ends for any reason.
_MOUNTS = """
while [ $# -gt 0 ]; do mount -t tmpfs -o "$2" tmpfs "$1" || exit 1; shift 2; done
echo mounted
exec cat
"""


@dataclass(frozen=True)
class Programs:
    """A server's programs: in `folder` within the chroot `root`, to be run as `uid` and `gid` with `settings`."""

    root: Path
    folder: Path
    uid: int
    gid: int
    groups: tuple[int, ...]
    settings: Mapping[str, str]

    def command(self, program: str, *arguments: str) -> list[str]:
        """Return the command that runs the program; for root, as the server's user and in its chroot."""
        words = [str(self.folder / program), *arguments]
        if os.geteuid() != 0:
            return words
        user = (f"--userspec={self.uid}:{self.gid}", f"--groups={','.join(map(str, self.groups))}")
        return [_tool("chroot"), *user, str(self.root), *words]

    def inside_path(self, path: Path) -> str:
        """Return the path as the programs see it."""
        return f"/{path.relative_to(self.root)}"


def programs_of(host: Host) -> Programs:
    """Return the programs of a server under test; skip the test, with the reason, if they are inaccessible."""
    if host.url is None:
        account = server_account(Path("/tmp/data"))
        # The product's own settings, for a small machine.
        settings = bulk_load_settings(Machine(memory_bytes=_GB, cores=2, free_bytes=10 * _GB))
        return Programs(Path("/"), binaries(), account.uid, account.gid, (account.gid,), settings)
    settings = {} if host.license is None else _TIMESCALEDB_SETTINGS | {"timescaledb.license": host.license}
    try:
        return _running_programs(host.url, settings)
    except OSError as error:  # /proc lacks something, or hides it from this user
        pytest.skip(f"cannot inspect the processes of {without_password(host.url)}: {error}")


def _running_programs(url: str, settings: Mapping[str, str]) -> Programs:
    """Find the programs of the URL's server by the process that serves our connection."""
    shown = without_password(url)
    if not _is_local(url):
        pytest.skip(f"{shown} is not on this machine")
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_backend_pid(), current_setting('data_directory', true)").fetchone()
        assert row is not None
        pid, data_folder = row
        process = Path("/proc", str(pid))
        status = dict(line.split(":", 1) for line in (process / "status").read_text(encoding="ascii").splitlines())
        root, program, folder = ((process / name).readlink() for name in ("root", "exe", "cwd"))
        if program.name != "postgres" or (data_folder and folder != _below(root, data_folder)):
            pytest.skip(f"process {pid} on this machine is not that of {shown}: does it run in a container?")
        if (process / "ns" / "mnt").readlink() != Path("/proc/self/ns/mnt").readlink():
            pytest.skip(f"{shown} has a separate mount namespace: does it run in a container?")
        uid, gid = (int(status[name].split()[0]) for name in ("Uid", "Gid"))
        if os.geteuid() != 0 and (uid != os.geteuid() or root != Path("/")):
            pytest.skip(f"{shown} runs as another user or in a chroot: only root can run its programs")
        groups = tuple(map(int, status["Groups"].split())) or (gid,)
        return Programs(root, Path("/", program.parent.relative_to(root)), uid, gid, groups, settings)


def _is_local(url: str) -> bool:
    parameters = url_parameters(url)
    host = parameters.get("hostaddr") or parameters.get("host", "localhost")
    if host.startswith("/") or host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _tool(name: str) -> str:
    return shutil.which(name) or pytest.skip(f"needs the program {name}")


class SmallDisk:
    """A disk of the server alone, which can be filled to the last byte; `path` is where this process sees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free

    def fill(self) -> None:
        with self._ballast.open("ab") as ballast:
            piece = self.free_bytes
            while piece and self.free_bytes:
                try:
                    os.posix_fallocate(ballast.fileno(), ballast.seek(0, os.SEEK_END), min(piece, self.free_bytes))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece //= 2  # the server has used some of it meanwhile

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)


class OwnServer:
    """A server in `folder`, with its small disks by name."""

    def __init__(
        self,
        programs: Programs,
        folder: Path,
        settings: Mapping[str, str],
        namespace: list[str],
        disks: dict[str, Path],
    ) -> None:
        self._programs = programs
        self._folder = folder
        self._namespace = namespace
        self._data = folder / "data"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            **programs.settings,
            **_SETTINGS,
            **settings,
            "unix_socket_directories": programs.inside_path(folder),
        }
        self.disks = {name: SmallDisk(path) for name, path in disks.items()}

    def make(self, *options: str) -> None:
        """Create its data folder."""
        choices = ("--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=trust", "--no-sync", *options)
        command = self._programs.command("initdb", f"--pgdata={self._programs.inside_path(self._data)}", *choices)
        with self._log.open("ab") as log:
            done = subprocess.run(
                [*self._namespace, *command], env=_environment(), cwd="/", stdout=log, stderr=log, check=False
            )
        assert done.returncode == 0, self.log()

    @property
    def pid(self) -> int:
        """The process number of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        port = self._settings["port"]
        return f"postgresql://postgres@/{database}?host={quote(str(self._folder), safe='/')}&port={port}"

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def inside_path(self, path: Path) -> str:
        """Return the path as the server sees it."""
        return self._programs.inside_path(path)

    def folder_on(self, disk: str) -> str:
        """Create a folder on the disk for the server; return its path as the server sees it."""
        folder = Path(tempfile.mkdtemp(dir=self.disks[disk].path))
        os.chown(folder, self._programs.uid, self._programs.gid)
        return self.inside_path(self._folder / disk / folder.name)

    def is_running(self) -> bool:
        """Whether it accepts connections."""
        return pq.PGconn.ping(f"{self.url()}&connect_timeout=5".encode()) == pq.Ping.OK

    def start(self) -> None:
        """Start it if it does not run; returns when it accepts connections."""
        # A server that runs may be about to end, because it could not recover.
        process = self._process
        may_end = process is not None and process.poll() is None
        if process is None or not may_end:
            process = self._started()
        deadline = time.monotonic() + SECONDS
        while not self.is_running():
            if process.poll() is not None:
                assert may_end, self.log()
                may_end, process = False, self._started()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def _started(self) -> subprocess.Popen[bytes]:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = self._programs.command("postgres", "-D", self._programs.inside_path(self._data), *settings)
        with self._log.open("ab") as log:
            # A child of this process, not of pg_ctl, so that its end is noticed. Ctrl-C must not reach it.
            self._process = subprocess.Popen(
                [*self._namespace, *command],
                env=_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._process

    def stop(self, mode: Mode = "fast") -> None:
        """Stop it if it runs: fast, or immediate as in a power failure, after which it recovers from its log."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(_SIGNALS[mode])
        self._process.wait(SECONDS)

    def kill_session(self, pid: int) -> None:
        """Kill the process of one session by kill -9: the server then ends all others, and recovers from its log."""
        with psycopg.connect(self.url(), autocommit=True) as witness:
            os.kill(pid, signal.SIGKILL)
            deadline = time.monotonic() + SECONDS
            with suppress(psycopg.OperationalError):
                while time.monotonic() < deadline:
                    witness.execute("SELECT 1")
                    time.sleep(0.01)
                pytest.fail("the server did not end its other sessions")
        self.start()

    def end(self) -> None:
        """End all of its processes, by kill -9 if necessary."""
        if self._process is None:
            return
        try:
            self.stop("immediate")
        except subprocess.TimeoutExpired:
            self._process.kill()  # its children notice and end
            self._process.wait(SECONDS)


def _environment() -> dict[str, str]:
    # Without PGPORT, PGOPTIONS, ... of this process, which a server would obey.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


@contextmanager
def own_server_of(
    host: Host, *, settings: Mapping[str, str] | None = None, disk_bytes: Mapping[str, int] | None = None
) -> Iterator[OwnServer]:
    """Run a separate server with the programs of `host`; it is removed completely at the end.

    `settings` override the usual ones. `disk_bytes` gives it disks of that size by name, in memory and mounted only for
    its processes; its write-ahead log (WAL) is on the one named `wal`.
    """
    programs = programs_of(host)
    sizes = disk_bytes or {}
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="era5-own-", dir=programs.root / "tmp"))
        stack.callback(shutil.rmtree, folder)
        if os.geteuid() == 0:
            os.chown(folder, programs.uid, programs.gid)
        if len(os.fsencode(folder / ".s.PGSQL.5432")) > _SOCKET_PATH_BYTES:
            pytest.skip(f"{folder} is too long a path for a socket")
        namespace, disks = stack.enter_context(_small_disks(folder, programs, sizes)) if sizes else ([], {})
        server = OwnServer(programs, folder, settings or {}, namespace, disks)
        stack.callback(server.end)
        # Small segments, so that a small disk holds several.
        wal = (f"--waldir={programs.inside_path(folder / 'wal' / 'log')}", "--wal-segsize=1") if "wal" in sizes else ()
        server.make(*wal)
        server.start()
        yield server


@contextmanager
def _small_disks(
    folder: Path, programs: Programs, sizes: Mapping[str, int]
) -> Iterator[tuple[list[str], dict[str, Path]]]:
    """Mount disks in memory, in a separate namespace; yield the command prefix that enters it, and the disks' paths."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    arguments = []
    for name, size in sizes.items():
        (folder / name).mkdir()
        arguments += [str(folder / name), f"size={size},uid={programs.uid},gid={programs.gid},mode=0700"]
    with subprocess.Popen(
        [_tool("unshare"), "--mount", "sh", "-c", _MOUNTS, "sh", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C must not reach it: the disks must outlast the server.
        start_new_session=True,
    ) as holder:
        try:
            assert holder.stdout
            assert holder.stderr
            if holder.stdout.readline() != "mounted\n":
                pytest.skip(f"not permitted to mount a small disk: {holder.stderr.read().strip()}")
            root = Path(f"/proc/{holder.pid}/root")
            prefix = [_tool("nsenter"), f"--mount=/proc/{holder.pid}/ns/mnt"]
            yield prefix, {name: _below(root, str(folder / name)) for name in sizes}
        finally:
            assert holder.stdin
            holder.stdin.close()


@pytest.fixture(scope="module")
def own_server(host: Host) -> Iterator[OwnServer]:
    """A separate server for the module, by the programs of `host`: ids are layouts. It may be stopped and crashed."""
    with own_server_of(host, settings=_UNSYNCED) as server:
        yield server


@pytest.fixture
def own_warehouse(own_server: OwnServer) -> Iterator[Warehouse]:
    """A new database with empty tables on `own_server`, which is running."""
    own_server.start()
    with fresh_warehouse(own_server.url()) as new:
        yield new
        own_server.start()


@pytest.fixture(scope="module")
def server_on_small_disks(host: Host) -> Iterator[OwnServer]:
    """As `own_server`; its WAL is on the disk `wal`, and the tablespace `small` on the disk `tables`."""
    settings = {
        **_UNSYNCED,
        # With `minimal` some layouts write little WAL, and could not fill the disk.
        "wal_level": "replica",
        # Old WAL files are removed instead of reused, so that a full disk stays full.
        "wal_recycle": "off",
        "min_wal_size": "2MB",
        "max_wal_size": "1GB",
    }
    disk_bytes = {"wal": 96 << 20, "tables": 96 << 20}
    with own_server_of(host, settings=settings, disk_bytes=disk_bytes) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(server.folder_on("tables")))
            )
        yield server


@pytest.fixture
def warehouse_on_small_disks(server_on_small_disks: OwnServer) -> Iterator[Warehouse]:
    """A new, empty database in the tablespace `small` of that server, whose disks have free space."""
    server = server_on_small_disks
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE on_small_disks TEMPLATE template0 TABLESPACE small")
        connection.execute("CHECKPOINT")  # which frees space on the disk of the WAL
    yield Warehouse(server.url("on_small_disks"))
    for disk in server.disks.values():
        disk.empty()
    server.start()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE on_small_disks WITH (FORCE)")
