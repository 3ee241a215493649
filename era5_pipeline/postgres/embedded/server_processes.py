"""Processes of the embedded server, and processes that hold a lock."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil as _psutil

psutil: Any = _psutil  # it comes without types


def server_processes(data_folder: Path) -> list[int]:
    """Return every process of a PostgreSQL server on the data folder, with or without a postmaster."""
    return [pid for pid in psutil.pids() if works_on(pid, data_folder)]


def works_on(pid: int, data_folder: Path) -> bool:
    """Whether it is a live PostgreSQL process on the data folder, which is the working directory of them all."""
    try:
        process = psutil.Process(pid)
        return bool(process.name() == "postgres" and process.cwd() == str(data_folder))
    except psutil.Error:  # it ended, is a zombie, or is another user's
        return False


def number_in_use(pid: int) -> bool:
    """Whether any process, including a zombie, has this number."""
    return bool(psutil.pid_exists(pid))


def first_number(file: Path) -> int | None:
    """Read the number in the first line of a lock file; None if it does not exist, or is being written."""
    try:
        return int(file.read_text(encoding="utf-8", errors="replace").partition("\n")[0])
    except (FileNotFoundError, ValueError):
        return None


def lock_holders(descriptor: int) -> str:
    """Name the processes that lock the file, as "era5 (process 12)"; empty on systems other than Linux."""
    inode = str(os.fstat(descriptor).st_ino)
    holders = []
    with suppress(OSError):
        # 1: FLOCK  ADVISORY  READ 4711 08:01:131 0 EOF
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
                holders.append(int(fields[4]))
    return ", ".join(f"{_name_of(pid)} (process {pid})" for pid in sorted(set(holders)))


def _name_of(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "a program"
