"""The embedded PostgreSQL's settings for what this project does, by the machine it runs on: which, why and where."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil as _psutil

from era5_pipeline.atomic import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.warehouse.server_account import Account

psutil: Any = _psutil  # it comes without types

_MB = 1 << 20
_GB = 1 << 30


@dataclass(frozen=True)
class Machine:
    """What the server may count on."""

    memory_bytes: int
    cores: int
    free_bytes: int

    @classmethod
    def here(cls, folder: Path) -> Machine:
        """Measure this machine, or the part of it that a container was given, and the disk of `folder`."""
        memory = min(int(psutil.virtual_memory().total), *_cgroup_memory_limits())
        return cls(memory, os.cpu_count() or 1, shutil.disk_usage(folder).free)


def bulk_load_settings(machine: Machine) -> dict[str, str]:
    """PostgreSQL's settings for loading months in bulk and reading series, at no cost to what is durable.

    They are what the studies of bulk loads agree on. What those also try, and this leaves alone: fsync,
    full_page_writes and synchronous_commit, of which the first two can cost the whole database in a power
    failure, and the third gains nothing at one commit a month.
    """
    return {
        # Well above the default of 128 MB, for indexes and what is asked again. More is better left to the page
        # cache: COPY passes by in a ring of 16 MB, the flattening needs memory too, and a backend that has
        # touched all of it looks as large.
        "shared_buffers": _megabytes(min(machine.memory_bytes // 4, 1 * _GB)),
        "effective_cache_size": _megabytes(machine.memory_bytes // 2),
        # Sorts of one query, of which an aggregate over many months has some in each parallel worker.
        "work_mem": _megabytes(_between(4 * _MB, machine.memory_bytes // 256, 64 * _MB)),
        # Building indexes and vacuuming: one at a time.
        "maintenance_work_mem": _megabytes(_between(64 * _MB, machine.memory_bytes // 16, _GB)),
        # Nobody replicates this server, so what is loaded into a table made in the same transaction is synced
        # instead of logged: half the writing. `minimal` demands that there be no senders.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        # Loads that are logged all the same, at 2 million rows a second of 77 bytes, would fill the default
        # of 1 GB, and thereby start a checkpoint, every seven seconds. The studies of bulk loads take 16 GB
        # and more; the log keeps the place, hence a tenth of what is free.
        "max_wal_size": _megabytes(_between(_GB, machine.free_bytes // 10, 8 * _GB)),
        "checkpoint_timeout": "15min",
        "checkpoint_completion_target": "0.9",
        # No wal_compression: the packaged build has no lz4, and its own pglz takes much more processor time.
        # A study of a large installation had 870 records a second with jit, and 1,500 without.
        "jit": "off",
        "max_parallel_workers": str(machine.cores),
        "max_parallel_workers_per_gather": str(_between(1, machine.cores // 2, 8)),
        "max_worker_processes": str(max(8, machine.cores)),
        "max_connections": "100",
        # A query over all years locks each month's partition and its index: over 2,000.
        "max_locks_per_transaction": "512",
        "autovacuum": "on",
        # Hours are UTC here, whatever the machine's clock shows.
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %a ",
    }


def write_settings(settings: Mapping[str, str], data_folder: Path, account: Account) -> None:
    """Write `era5.conf` into the data folder, and have `postgresql.conf` include it.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    lines = ["# Written anew at each start. Your own settings: in postgresql.conf, below what includes this."]
    lines += [f"{name} = {_quoted_value(value)}" for name, value in settings.items()]
    path = data_folder / "era5.conf"
    with replacing(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
        os.chown(temporary, account.uid, account.gid)
    include = f"include_if_exists = '{path.name}'"
    main = data_folder / "postgresql.conf"
    text = main.read_text(encoding="utf-8", errors="surrogateescape")
    if include not in text.splitlines():
        with main.open("a", encoding="utf-8") as file:
            file.write(("" if text.endswith("\n") else "\n") + include + "\n")


def _cgroup_memory_limits() -> list[int]:
    """Read what a container may use, if this is one and says so (version 2 and 1 of control groups)."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return limits


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(value, most))


def _megabytes(count: int) -> str:
    return f"{count // _MB}MB"


def _quoted_value(value: str) -> str:
    """Quote a value for postgresql.conf."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
