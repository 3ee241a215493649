"""Memory, cores and disk of the server's machine: measured if it is this machine, else unknown.

Here: measuring, and checking whether a server is on this machine. Not here: which settings follow (`advice`).
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
    """Resources of the server's machine; None: unknown. `free_bytes` is of the disk of its write-ahead log."""

    memory_bytes: int | None
    cores: int | None
    free_bytes: int | None

    @classmethod
    def here(cls, folder: Path | None) -> Machine:
        """Measure this machine, or the limits of this container, and the free disk of `folder`."""
        memory = min(int(psutil.virtual_memory().total), *_cgroup_memory_limits())
        return cls(memory, os.cpu_count() or 1, None if folder is None else shutil.disk_usage(folder).free)


def is_session_here(pid: int, user: str, database: str, client_port: int | None) -> bool:
    """Whether the process `pid` of a session's server runs on this machine.

    The address does not decide that: a loopback port may lead to a tunnel or a container. A PostgreSQL process of that
    number does, if its title names the same user, database and client port (None: a Unix socket).
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
    """Read the memory limits of this container, if there are any (control groups version 2 and 1)."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return limits
