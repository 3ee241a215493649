"""Whether the disks have room for a run, asked before it starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import LocalDiskError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# What else happens on the disk meanwhile: the log of the server, temporary files of others.
_RESERVE_BYTES = 1_000_000_000


def require_space(needed: Mapping[str, int], folders: Mapping[str, Path]) -> None:
    """Require that each disk has the bytes that the largest suite needs at a time.

    `needed` is by suite; `folders` are the folders written to: the benchmark's own, and the server's where it is on
    this machine.

    Raises:
        LocalDiskError: if one has less; it names the suite, what it needs, and what there is.
    """
    suite, most = max(needed.items(), key=lambda one: one[1], default=("", 0))
    for what, folder in folders.items():
        free = shutil.disk_usage(folder).free
        if free < most + _RESERVE_BYTES:
            raise LocalDiskError(
                f"the suite {suite} needs about {_gigabytes(most + _RESERVE_BYTES)} for {what}, and {folder} has "
                f"{_gigabytes(free)} free",
                remedy="Free space there, or measure with fewer --rows (or --batches).",
            )


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:,.1f} GB"
