"""Where the embedded server's Unix socket is: in the data folder, or in a private folder with a shorter path."""

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

PORT = 5432  # of the socket's name only: the server does not listen on the network

# What a socket's address holds on macOS, less the final zero; Linux takes four bytes more.
_SOCKET_PATH_BYTES = 103
# Not $TMPDIR: every process has to come to the same folder, whatever its environment.
_SHORT_FOLDER = Path("/tmp")  # noqa: S108  # the folder in it is made private, and refused if it is not


class SocketFolder:
    """The folder of the socket of the server on `data_folder`."""

    def __init__(self, data_folder: Path) -> None:
        self._data_folder = data_folder
        path = os.fsencode(data_folder / f".s.PGSQL.{PORT}")
        # A comma separates hosts for libpq, a colon the port for SQLAlchemy, and not everyone who is handed
        # the URL unescapes it: the socket's path has none of what would have to be escaped.
        if len(path) <= _SOCKET_PATH_BYTES and quote(path) == os.fsdecode(path):
            self.path = data_folder
        else:
            digest = hashlib.sha256(os.fsencode(data_folder)).hexdigest()[:16]
            self.path = _SHORT_FOLDER / f"era5-{digest}"

    @property
    def lock(self) -> Path:
        """The lock file that the server puts beside its socket."""
        return self.path / f".s.PGSQL.{PORT}.lock"

    def make(self, account: Account) -> None:
        """Make the folder for the server of `account`.

        Raises:
            WarehouseError: if others could have put something there.
        """
        if self.path == self._data_folder:
            return
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
            os.chown(self.path, account.uid, account.gid)
        if not self.is_owned():
            raise WarehouseError(
                f"{self.path}, for the server's socket, is no private folder of user number {account.uid}",
                remedy="Remove it, or set ERA5_HOME to a folder with a short and plain path.",
            )

    def remove(self) -> None:
        """Remove the folder if it was made for the socket alone."""
        if self.path != self._data_folder:
            with suppress(OSError):
                self.path.rmdir()

    def is_owned(self) -> bool:
        """Whether it is the data folder, or belongs to its owner, and is private.

        In one where others may write, they could put up a server of theirs; who may enter, ours lets in.
        """
        if self.path == self._data_folder:
            return True
        try:
            data, found = self._data_folder.stat(), self.path.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(found.st_mode) and found.st_uid == data.st_uid and not found.st_mode & 0o077
