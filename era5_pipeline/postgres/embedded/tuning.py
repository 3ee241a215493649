"""Settings of the embedded PostgreSQL, and writing them.

Here: settings that are right because only this project uses the server. Not here: the advice for any server
(`doctor.advice`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from era5_pipeline.postgres.doctor.advice import advise
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from era5_pipeline.postgres.doctor.machine import Machine
    from era5_pipeline.postgres.embedded.server_account import Account


# The packaged build has no lz4, and PostgreSQL's own pglz takes much more processor time.
_NOT_BUILT_IN = {"wal_compression"}


def bulk_load_settings(machine: Machine) -> dict[str, str]:
    """Return the settings for loading months in bulk and reading series, without any loss of durability.

    They are the profile safe plus the minimal log of the profile bulk. They do not set fsync, full_page_writes and
    synchronous_commit: with one of the first two off, a power failure can destroy the whole database; turning the third
    off gains nothing at one commit a month.
    """
    advised = {advice.name: advice.value for advice in advise("safe", machine) if advice.name not in _NOT_BUILT_IN}
    return {name: value for name, value in advised.items() if value is not None} | {
        # This server has no replicas, so rows that are loaded into a table created in the same transaction are synced
        # instead of logged: half the writing. `minimal` requires that there are no senders.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_connections": "100",
        # Times are UTC, whatever the machine's time zone.
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %a ",
    }


def write_settings(settings: Mapping[str, str], data_folder: Path, account: Account) -> None:
    """Write `era5.conf` into the data folder, and include it in `postgresql.conf`.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    lines = [
        "# Overwritten at each start. Your own settings: in postgresql.conf, below the line that includes this file."
    ]
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


def _quoted_value(value: str) -> str:
    """Quote a value for postgresql.conf."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
