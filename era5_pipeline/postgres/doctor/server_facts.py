"""Facts about a server and its machine that the advice depends on: read once, without changing anything."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil as _psutil
from psycopg.rows import class_row, dict_row

from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.postgres.server_version import describe_server
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import psycopg

    from era5_pipeline.postgres.server_version import Server

psutil: Any = _psutil  # psutil has no type annotations


@dataclass(frozen=True)
class Machine:
    """Resources of the server's machine; None: unknown. `free_bytes` is for the disk of the write-ahead log."""

    memory_bytes: int | None
    cores: int | None
    free_bytes: int | None

    @classmethod
    def here(cls, folder: Path | None) -> Machine:
        """Measure this machine (or the container's limits) and the free disk of `folder`."""
        memory = min([int(psutil.virtual_memory().total), *_cgroup_memory_limits()])
        return cls(memory, os.cpu_count() or 1, None if folder is None else shutil.disk_usage(folder).free)


def is_session_here(pid: int, user: str, database: str, client_port: int | None) -> bool:
    """Return True if the process `pid` of a session's server runs on this machine.

    The address cannot tell: a loopback port may lead to a tunnel or a container. The process can, if it is a PostgreSQL
    process whose title names the same user, database and client port (None: a Unix socket).
    """
    try:
        process = psutil.Process(pid)
        name, title = str(process.name()), " ".join(process.cmdline())
    except psutil.Error:  # it does not exist, or may not be inspected
        return False
    client = "[local]" if client_port is None else f"({client_port})"
    return name == "postgres" and f"{user} {database} " in title and client in title


def log_folder(pid: int, data_folder: str | None) -> Path | None:
    """Return the folder of the write-ahead log of the server with process `pid` on this machine; None: inaccessible.

    `data_folder` is the server's own path of its data folder, if known.
    """
    # The data folder is the working directory of every process of a server; /proc finds it even if the server sees
    # other paths than this process. That needs the server's user or root.
    folders = [Path(f"/proc/{pid}/cwd"), *([Path(data_folder)] if data_folder else [])]
    for folder in (path for parent in folders for path in (parent / "pg_wal", parent)):
        with suppress(OSError):
            shutil.disk_usage(folder)
            return folder
    return None


def _cgroup_memory_limits() -> list[int]:
    """Read the memory limits of this container, if any (control groups version 2 and 1)."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return limits


_CHECKPOINTER_VERSION = 17  # since then, checkpoints have their own view
_CHECKPOINTS = "SELECT num_timed, num_requested FROM pg_stat_checkpointer"
_CHECKPOINTS_BEFORE = "SELECT checkpoints_timed, checkpoints_req FROM pg_stat_bgwriter"


@dataclass(frozen=True)
class ServerSetting:
    """A setting, as `sql/doctor_settings.sql` returns it; `sourcefile` is None if hidden from this user."""

    name: str
    setting: str
    shown: str
    amount: float | None
    context: str
    enumvals: list[str] | None
    source: str
    sourcefile: str | None
    pending_restart: bool
    alterable: bool


@dataclass(frozen=True)
class ServerFacts:
    """The requested settings that the server has, and the other facts, by their names in `sql/doctor_facts.sql`.

    Nothing is known of the server's machine if it is not this one.
    """

    server: Server
    machine: Machine
    settings: Mapping[str, ServerSetting]
    others: Mapping[str, Any]


def read_server_facts(connection: psycopg.Connection[Any], names: Collection[str]) -> ServerFacts:
    """Read the facts, and the settings with these names."""
    with server_errors("reading the server's settings"), connection.transaction():
        # So that not even a mistake in these queries can change anything.
        connection.execute("SET TRANSACTION READ ONLY")
        # Without an encoding (SQL_ASCII databases), psycopg would return bytes instead of text.
        connection.execute("SET LOCAL client_encoding = 'UTF8'")
        server = describe_server(connection)
        checkpoints = _CHECKPOINTS if server.version >= _CHECKPOINTER_VERSION else _CHECKPOINTS_BEFORE
        with connection.cursor(row_factory=class_row(ServerSetting)) as cursor:
            settings = cursor.execute(read_sql("doctor_settings"), (list(names),)).fetchall()
        with connection.cursor(row_factory=dict_row) as cursor:
            (others,) = cursor.execute(read_sql("doctor_facts").replace("{checkpoints}", checkpoints)).fetchall()
    # While the session exists, as its process leads to the machine.
    session = (others[name] for name in ("pid", "session_user", "database", "client_port"))
    is_here = is_session_here(*session)
    machine = Machine.here(log_folder(others["pid"], others["data_folder"])) if is_here else Machine(None, None, None)
    return ServerFacts(server, machine, {setting.name: setting for setting in settings}, others)
