"""A PostgreSQL server with settings of its own, in a temporary folder: started, measured, and thrown away.

It is that of the embedded server's programs, with PostgreSQL's own default settings and the given ones. It listens on a
Unix socket only. If this process is killed, the kernel ends the server; the next run removes its folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from psycopg import pq

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.target import Target
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.server_account import binaries, server_account
from era5_pipeline.postgres.embedded.socket_folder import PORT, SocketFolder
from era5_pipeline.runtime.log_file import LogFile
from era5_pipeline.runtime.supervisor import die_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from era5_pipeline.postgres.embedded.server_account import Account

_INITDB = ("initdb", "--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=trust", "--no-sync")
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.05


class ServerTemplate:
    """A data folder that is created once, and copied for each server."""

    def __init__(self, folder: Path, *, syncs: bool = True) -> None:
        self._folder = folder
        self._syncs = syncs
        self._log = LogFile(folder / "server.log")
        self._started = 0

    @contextmanager
    def server(self, settings: Mapping[str, str]) -> Iterator[Target]:
        """Run a new server with these settings as long as the context is open.

        Raises:
            CannotRunError: if it does not start.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        account = server_account(self._folder / "data")
        template = self._template(account)
        self._started += 1
        data = self._folder / f"data-{self._started}"
        shutil.copytree(template, data, copy_function=shutil.copy2)
        _give(data, account)
        sockets = SocketFolder(data.resolve())
        sockets.make(account)
        try:
            _write_settings(data, sockets, settings)
            with self._running(data, sockets, account) as url:
                yield Target(Warehouse(url), ("partitions",), self._syncs)
        finally:
            sockets.remove()
            shutil.rmtree(data, ignore_errors=True)

    def _template(self, account: Account) -> Path:
        template = self._folder / "data"
        if not (template / "PG_VERSION").exists():
            template.mkdir(mode=0o700)
            os.chown(template, account.uid, account.gid)
            if not account.run(_INITDB, template, self._log):
                raise CannotRunError(f"a server could not be created: {self._log.last_lines()}")
        return template

    @contextmanager
    def _running(self, data: Path, sockets: SocketFolder, account: Account) -> Iterator[str]:
        url = f"postgresql://postgres@/postgres?host={sockets.path}&port={PORT}"
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        root = os.geteuid() == 0
        with self._log.opened() as log:
            process = subprocess.Popen(  # noqa: S603  # a program of the package
                (str(binaries() / "postgres"), "-D", str(data.resolve())),
                env=env | {"LC_ALL": "C"},
                cwd=data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=account.uid if root else None,
                group=account.gid if root else None,
                extra_groups=() if root else None,
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509  # it only makes system calls
            )
        try:
            self._await(url, process)
            yield url
        finally:
            # "Immediate": nothing of it is kept.
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_SECONDS)

    def _await(self, url: str, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while pq.PGconn.ping(url.encode()) != pq.Ping.OK:
            if process.poll() is not None or time.monotonic() > deadline:
                raise CannotRunError(f"the server did not start: {self._log.last_lines()}")
            time.sleep(_POLL_SECONDS)


def _give(folder: Path, account: Account) -> None:
    """Let the account own the folder and all in it."""
    if os.geteuid() != 0:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _write_settings(data: Path, sockets: SocketFolder, settings: Mapping[str, str]) -> None:
    own = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": str(sockets.path),
        "timezone": "UTC",
        "max_connections": "50",
    }
    lines = [f"{name} = '{value}'" for name, value in (own | dict(settings)).items()]
    with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("\n".join(["", *lines, ""]))
