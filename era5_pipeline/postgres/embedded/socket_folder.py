"""The folder of the embedded server's Unix socket: the data folder, or a private folder with a shorter path."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from era5_pipeline.model.errors import WarehouseError

if TYPE_CHECKING:
    from era5_pipeline.postgres.embedded.server_account import Account

# Part of the socket's name. A server that also listens on another port has a socket of that name, and a link to it of
# this one: URLs of the socket stay valid.
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
        # libpq separates hosts by commas, SQLAlchemy the port by a colon, and not every client unescapes the URL: so
        # the socket's path has no character that would have to be escaped.
        if len(path) <= _SOCKET_PATH_BYTES and quote(path) == os.fsdecode(path):
            self.path = data_folder
        else:
            digest = hashlib.sha256(os.fsencode(data_folder)).hexdigest()[:16]
            self.path = _SHORT_FOLDER / f"era5-{digest}"

    def clear(self, port: int) -> None:
        """Remove sockets and locks that a killed server left, and prepare the link to the socket of `port`.

        To be called while no process works on the data folder. PostgreSQL sees of a lock only that its process number
        is in use, by a zombie or by another program after a restart of the machine, and would not start.
        """
        for left in self.path.glob(".s.PGSQL.*"):
            left.unlink(missing_ok=True)
        if port != PORT:
            (self.path / f".s.PGSQL.{PORT}").symlink_to(f".s.PGSQL.{port}")

    def make(self, account: Account) -> None:
        """Create the folder for the server of `account`.

        Raises:
            WarehouseError: if the folder exists and is not private.
        """
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
        """Whether it is the data folder, or is private and has the same owner.

        Users who may write to the folder could put a socket of their own there; users who may enter it could connect.
        """
        if self.path == self._data_folder:
            return True
        try:
            data, found = self._data_folder.stat(), self.path.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == data.st_uid and not found.st_mode & 0o077
