"""Refuse HDF5 files that the library would never finish reading, before it opens them.

HDF5 stores texts, and the list of a variable's axes, in "global heaps", which have no checksum. If an object in one has
size zero, the library rereads it forever, in C, where neither a signal nor a thread can stop it. This module finds
unsound heaps, and reads such files in a process that can be killed. Source: HDF5 File Format Specification 3.0, III.E.
The other structures that damage can reach have checksums, or the library refuses them itself.
"""

from __future__ import annotations

import os
import re
import resource
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import h5py

# Signature and version of a heap.
_MAGIC = b"GCOL\x01"
# Header size of a heap and of each object in it; the last eight bytes are the size.
_HEADER_BYTES = 16
# A heap has 4 kB, or the size of its largest object.
_LARGEST_HEAP_BYTES = 64 << 20
_BLOCK_BYTES = 4 << 20
# A variable's reference to a text: its length, and the position of its heap.
_REFERENCE = struct.Struct("<IQI")

# Limit of processor time, so that no file is refused because the machine is busy. Imports take half a second, texts
# milliseconds.
_TRIAL_SECONDS = 5
_LONGEST_TRIAL_SECONDS = 600
_TRIAL = "import sys; from era5_pipeline.netcdf import heaps; heaps.read_texts(sys.argv[1], int(sys.argv[2]))"


def require_readable_heaps(path: Path) -> None:
    """Check that HDF5 can read the texts of the file at `path`.

    A file that looks damaged (its values may just resemble a heap) is read in a separate process first.
    """
    at = _find_broken_heap(path)
    if at is None:
        return
    try:
        tried = subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", _TRIAL, str(path), str(_TRIAL_SECONDS)],
            check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=_LONGEST_TRIAL_SECONDS,
        )  # fmt: skip
        is_readable = tried.returncode == 0
    except subprocess.TimeoutExpired:
        is_readable = False
    if not is_readable:
        raise ValueError(f"the texts at byte {at:,} of it are broken")


def read_texts(path: str, seconds: int) -> None:
    """Read all texts of the file as the pipeline does; the process ends after `seconds` of processor time."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    import h5py  # noqa: PLC0415  # only imported by the trial process
    import netCDF4  # noqa: PLC0415

    def attributes(_: str, item: h5py.Group | h5py.Dataset) -> None:
        list(item.attrs.items())

    # Test both libraries, as each bundles its own version of HDF5.
    with h5py.File(path, "r", locking=False) as file:
        attributes("/", file)
        file.visititems(attributes)
    with netCDF4.Dataset(path) as dataset:
        for variable in dataset.variables.values():
            for name in variable.ncattrs():
                variable.getncattr(name)
            if variable.dtype is str:
                variable[...]


def require_texts_within(item: h5py.Dataset, path: Path) -> None:
    """Check that the texts of a variable are no longer than the file: HDF5 would allocate gigabytes for one."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = 0
        for start, stored in _stored_parts(item):
            references = os.pread(file.fileno(), min(stored, size), start)
            whole = len(references) - len(references) % _REFERENCE.size
            length += sum(one for one, _, _ in _REFERENCE.iter_unpack(references[:whole]))
    if length > size:
        raise ValueError(f"the texts of {item.name.lstrip('/')} have {length:,} bytes, more than the file")


def _stored_parts(item: h5py.Dataset) -> list[tuple[int, int]]:
    """Positions and sizes in bytes of a data set's values in the file; empty if they are compressed."""
    if item.id.get_create_plist().get_nfilters():
        return []
    if item.chunks is None:
        start = item.id.get_offset()
        return [] if start is None else [(start, item.id.get_storage_size())]
    parts: list[tuple[int, int]] = []
    item.id.chunk_iter(lambda chunk: parts.append((chunk.byte_offset, chunk.size)))
    return parts


def _find_broken_heap(path: Path) -> int | None:
    """The position of the first unsound heap, if any."""
    with path.open("rb") as file:
        descriptor = file.fileno()
        superblock = os.pread(descriptor, _HEADER_BYTES, 0)
        # Sizes take eight bytes in all files written by netCDF.
        if superblock[14 if superblock[8] < 2 else 10] != 8:
            return 0
        size = os.fstat(descriptor).st_size
        for at in _heaps(descriptor, size):
            if not _is_intact(descriptor, at, size):
                return at
    return None


def _heaps(descriptor: int, size: int) -> Iterator[int]:
    """The positions of all heaps, and of values that look like the start of one."""
    # Search the whole file, because the pointers to heaps may be damaged themselves.
    for start in range(0, size, _BLOCK_BYTES):
        block = os.pread(descriptor, _BLOCK_BYTES + len(_MAGIC) - 1, start)
        # A third faster than `bytes.find`, for so short a text in compressed data.
        yield from (start + found.start() for found in re.finditer(_MAGIC, block))


def _is_intact(descriptor: int, start: int, size: int) -> bool:
    """Return True if the objects of the heap fill it without gaps."""
    heap = os.pread(descriptor, _HEADER_BYTES, start)
    length = _size_at(heap, 0) if len(heap) == _HEADER_BYTES else 0
    if not _HEADER_BYTES < length <= min(_LARGEST_HEAP_BYTES, size - start):
        return False
    heap = os.pread(descriptor, length, start)
    at = _HEADER_BYTES
    # A remainder too small for an object is unused.
    while at + _HEADER_BYTES <= length:
        (index,) = struct.unpack_from("<H", heap, at)
        taken = _size_at(heap, at)
        # Object 0 is the free space, whose size includes its header.
        if index:
            taken = _HEADER_BYTES + taken + -taken % 8
        if not _HEADER_BYTES <= taken <= length - at:
            return False
        at += taken
    return True


def _size_at(heap: bytes, at: int) -> int:
    return int.from_bytes(heap[at + 8 : at + _HEADER_BYTES], "little")
