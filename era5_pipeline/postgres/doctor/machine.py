"""What a server may count on, memory, cores and disk: measured on this machine, or unknown.

Here: measuring, and telling whether a server is on this machine at all. Not here: which settings follow (`advice`).
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil as _psutil

psutil: Any = _psutil  # it comes without types


@dataclass(frozen=True)
class Machine:
    """What the server may count on, in bytes and numbers; None: not known. `free_bytes` is of the disk of its log."""

    memory_bytes: int | None
    cores: int | None
    free_bytes: int | None

    @classmethod
    def here(cls, folder: Path | None) -> Machine:
        """Measure this machine, or the part of it that a container was given, and the disk of `folder`."""
        memory = min(int(psutil.virtual_memory().total), *_cgroup_memory_limits())
        return cls(memory, os.cpu_count() or 1, None if folder is None else shutil.disk_usage(folder).free)


def is_session_here(pid: int, user: str, database: str, client_port: int | None) -> bool:
    """Whether the server's process `pid` of a session is one of this machine.

    An address does not tell: behind a loopback port may be a tunnel or a container. A PostgreSQL process of that number
    does, if its title names the same user, database and client port (None: a Unix socket).
    """
    try:
        process = psutil.Process(pid)
        name, title = str(process.name()), " ".join(process.cmdline())
    except psutil.Error:  # there is none, or whose it is may not be seen
        return False
    client = "[local]" if client_port is None else f"({client_port})"
    return name == "postgres" and f"{user} {database} " in title and client in title


def log_folder(pid: int, data_folder: str | None) -> Path | None:
    """The folder of the write-ahead log of the server that `pid`, of this machine, belongs to; None: out of reach.

    `data_folder` is what the server calls its folder, where it tells.
    """
    # Every process of a server works in the data folder; through /proc that is found even where the server sees
    # other paths than we do. It takes the server's user or root.
    folders = [Path(f"/proc/{pid}/cwd"), *([Path(data_folder)] if data_folder else [])]
    for folder in (path for parent in folders for path in (parent / "pg_wal", parent)):
        with suppress(OSError):
            shutil.disk_usage(folder)
            return folder
    return None


def _cgroup_memory_limits() -> list[int]:
    """Read what a container may use, if this is one and says so (version 2 and 1 of control groups)."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return limits
