"""Faults of the disk while HDF5 writes: it reports each as "HDF error", and cannot close a file on a full disk."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import netCDF4

# Larger than any single write of HDF5 here: if this fits, the disk was not full.
_PROBE_BYTES = 16 << 20


def close_anyway(dataset: netCDF4.Dataset) -> None:
    """Close the file, if it is open; that it fails is no news after another error."""
    if dataset.isopen():
        with suppress(RuntimeError, OSError):
            dataset.close()


@contextmanager
def emptied_on_error(paths: Sequence[Path]) -> Iterator[None]:
    """On an error, empty the files before they are closed: on a full disk HDF5 cannot close them otherwise."""
    try:
        yield
    except BaseException:
        for path in paths:
            with suppress(FileNotFoundError):
                os.truncate(path, 0)
        raise


@contextmanager
def full_disk_named(folder: Path, written: Path | None = None) -> Iterator[None]:
    """When netCDF fails, check whether the disk is full, or the file `written` as large as it may be.

    Raises:
        OSError: if it is; otherwise what netCDF raised.
    """
    try:
        yield
    except (RuntimeError, OSError):
        size = written.stat().st_size if written is not None else 0
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.truncate(size + _PROBE_BYTES)  # takes no room, and fails beyond a limit of file sizes
            probe.write(bytes(_PROBE_BYTES))
        raise
