"""The embedded server's data folder and the folder of its Unix socket."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from era5_pipeline.model.errors import ServerUnsuitableError, WarehouseError
from era5_pipeline.postgres.embedded.processes import MAJOR_VERSION
from era5_pipeline.runtime.files import read_json, sync, write_json

if TYPE_CHECKING:
    from era5_pipeline.postgres.embedded.processes import Account
    from era5_pipeline.runtime.supervisor import LogFile

# --- The embedded server's data folder: created completely or not at all, and refused if the server must not use it ---
#
# Each home with a created data folder is recorded in a file of the user (`known_homes`), so that a command run in
# another folder can suggest it.


SUPERUSER = "postgres"
# Sort order, and so the indexes, must not depend on the machine's locale: use PostgreSQL's built-in one. Only the owner
# of the socket's folder can connect through it; other connections need a password.
_INITDB_OPTIONS = (
    *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    *(f"--username={SUPERUSER}", "--auth-local=trust", "--auth-host=scram-sha-256"),
)


def require_usable(folder: Path, account: Account) -> None:
    """Check that the embedded server can run on the data folder and may, if it exists."""
    if not folder.exists():
        return
    try:
        version = (folder / "PG_VERSION").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        if any(folder.iterdir()):
            raise WarehouseError(
                f"{folder} holds files that are not PostgreSQL's",
                remedy="Move them away, or set ERA5_HOME to another folder.",
            ) from None
        return
    if version != str(MAJOR_VERSION):
        raise ServerUnsuitableError(
            f"{folder} was created by PostgreSQL {version}; the embedded server is {MAJOR_VERSION}",
            remedy=f"Upgrade it (pg_dump, or pg_upgrade of version {MAJOR_VERSION}), or move it away and load "
            "the months again.",
        )
    owner = folder.stat().st_uid
    if owner != account.uid:
        raise WarehouseError(
            f"{folder} belongs to user number {owner}; the server would run as {account.uid}",
            remedy="Run as the user who created it, or set ERA5_HOME to another folder.",
        )


def initialize(folder: Path, account: Account, log: LogFile) -> bool:
    """Create the data folder, under a temporary name until complete; False if initdb failed (see its log)."""
    parent = folder.parent
    _remove_unfinished(parent)
    # A unique name: an initdb whose parent was killed may still be running.
    fresh = Path(tempfile.mkdtemp(prefix=".postgres-new-", dir=parent))
    os.chown(fresh, account.uid, account.gid)
    try:
        if not account.run(("initdb", *_INITDB_OPTIONS), fresh, log):
            return False
        fresh.rename(folder)
        sync(parent)
        _note_home(parent)
        return True
    finally:
        # Again: the orphaned initdb may have kept writing during the first removal, and has ended by now.
        _remove_unfinished(parent)


def _remove_unfinished(parent: Path) -> None:
    """Remove data folders that were never completed; the caller holds the creation lock."""
    for folder in parent.glob(".postgres-new-*"):
        shutil.rmtree(folder, ignore_errors=True)


def known_homes(near: Path) -> tuple[Path, ...]:
    """Homes (ERA5_HOME) with a data folder: recorded ones of this user, and those in or above `near`.

    The nearest come first. Only a hint for users: unreadable ones are skipped.
    """
    found: dict[Path, None] = {}
    with suppress(OSError):
        around = [folder / ".era5" for folder in (near, *near.parents)]
        candidates = [home for one in around for home in (one, *sorted(one.glob("*/")))]
        for home in (*candidates, *_noted_homes()):
            if (home / "postgres" / "PG_VERSION").is_file():
                found.setdefault(home)
    return tuple(found)


def _note_home(home: Path) -> None:
    # Only a hint: skip it if the user's folder is not writable.
    with suppress(OSError):
        noted = [one for one in _noted_homes() if (one / "postgres" / "PG_VERSION").is_file()]
        if home not in noted:
            path = _homes_file()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, [str(one) for one in (*noted, home)])


def _noted_homes() -> list[Path]:
    try:
        return [Path(one) for one in read_json(_homes_file())]
    except (OSError, ValueError, TypeError):
        return []


def _homes_file() -> Path:
    """The user's file of homes, a JSON list, in the XDG state folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "era5-pipeline" / "homes.json"


# Part of the socket's name. A server that also listens on another port names its socket after that port, with a link
# under this name, so that socket URLs stay valid.
PORT = 5432
_LONGEST_NAME = ".s.PGSQL.65535"

# The maximum length of a socket's path on macOS, without the final zero; on Linux it is four bytes longer.
_SOCKET_PATH_BYTES = 103
# Not $TMPDIR: every process must find the same folder, whatever its environment.
_SHORT_FOLDER = Path("/tmp")  # noqa: S108  # the folder in it is private, and rejected if it is not


class SocketFolder:
    """The folder that contains the socket of the server on `data_folder`."""

    def __init__(self, data_folder: Path) -> None:
        self._data_folder = data_folder
        path = os.fsencode(data_folder / _LONGEST_NAME)
        # libpq separates hosts by commas, SQLAlchemy the port by a colon, and not every client unescapes the URL: the
        # socket's path must not contain characters that need escaping.
        if len(path) <= _SOCKET_PATH_BYTES and quote(path) == os.fsdecode(path):
            self.path = data_folder
        else:
            digest = hashlib.sha256(os.fsencode(data_folder)).hexdigest()[:16]
            self.path = _SHORT_FOLDER / f"era5-{digest}"

    def clear(self, port: int) -> None:
        """Remove sockets and locks of a killed server, and prepare the link to the socket of `port`.

        Call it only while no process uses the data folder. PostgreSQL only checks whether a lock's process id is in
        use, even by a zombie or by another program after a reboot, and would not start.
        """
        for left in self.path.glob(".s.PGSQL.*"):
            left.unlink(missing_ok=True)
        if port != PORT:
            (self.path / f".s.PGSQL.{PORT}").symlink_to(f".s.PGSQL.{port}")

    def make(self, account: Account) -> None:
        """Create the folder for the server of `account`."""
        if self.path == self._data_folder:
            return
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
            os.chown(self.path, account.uid, account.gid)
        if not self.is_owned():
            raise WarehouseError(
                f"{self.path}, for the server's socket, is not a private folder of user number {account.uid}",
                remedy="Remove it, or set ERA5_HOME to a folder with a short path of plain characters.",
            )

    def remove(self) -> None:
        """Remove the link, and the folder unless it is the data folder; the server has removed its socket."""
        link = self.path / f".s.PGSQL.{PORT}"
        if link.is_symlink():
            link.unlink()
        if self.path != self._data_folder:
            with suppress(OSError):
                self.path.rmdir()

    def is_owned(self) -> bool:
        """Return True if it is the data folder, or private with the same owner.

        Users who may write to the folder could put a socket of their own there; users who may enter it could connect.
        """
        if self.path == self._data_folder:
            return True
        try:
            data, found = self._data_folder.stat(), self.path.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == data.st_uid and not found.st_mode & 0o077
