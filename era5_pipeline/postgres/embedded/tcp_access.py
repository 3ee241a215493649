"""Access to the embedded server by TCP, for clients that cannot use its Unix socket: the port and the password.

Both are kept in files below the home: the port until `era5 db stop`, the password, which is generated once, for ever.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from typing import TYPE_CHECKING

from psycopg import sql

from era5_pipeline.model.errors import UsageError, disk_errors
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

LOOPBACK = "127.0.0.1"
_PASSWORD_BYTES = 24


class TcpAccess:
    """Port and password of the server whose home is `home`."""

    def __init__(self, home: Path) -> None:
        self._port = home / "postgres.port"
        self._password = home / "postgres.password"

    @property
    def port(self) -> int | None:
        """The port to listen on from the next start on; None: no TCP."""
        try:
            return int(self._port.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None

    def choose(self, port: int) -> None:
        """Keep the port for this and later starts, until `forget`."""
        with replacing(self._port) as temporary:
            temporary.write_text(f"{port}\n", encoding="ascii")

    def forget(self) -> None:
        """Listen on no port from the next start on."""
        self._port.unlink(missing_ok=True)

    def password(self) -> str:
        """Return the password, which is generated at the first call.

        Raises:
            LocalDiskError: if its file cannot be read or written.
        """
        with disk_errors("keeping the server's password", self._password):
            if not self._password.exists():
                # mkstemp, by which the folder of `replacing` is made, leaves it private; the file must be so too.
                with replacing(self._password) as temporary:
                    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                    with os.fdopen(descriptor, "w", encoding="ascii") as file:
                        file.write(secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
            return self._password.read_text(encoding="ascii").strip()

    def set_password(self, connection: psycopg.Connection, user: str) -> None:
        """Let the server require the password of `user`; the server receives only its SCRAM verifier."""
        verifier = connection.pgconn.encrypt_password(self.password().encode(), user.encode(), b"scram-sha-256")
        connection.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(user), sql.Literal(verifier.decode()))
        )


def is_free(port: int) -> bool:
    """Whether a server can listen on the port, of the loopback interface."""
    with socket.socket() as probe:
        # As PostgreSQL does: connections of a server that has just stopped do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def require_free(port: int) -> None:
    """Require that a server can listen on the port.

    Raises:
        UsageError: if it is in use.
    """
    if not is_free(port):
        raise UsageError(
            f"port {port} of {LOOPBACK} is in use",
            remedy="Stop what uses it, or choose another: era5 db start --port N.",
        )
