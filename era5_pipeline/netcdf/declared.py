"""Refuse files that keep their data elsewhere, or declare more than ERA5 can have, before any value is read.

An HDF5 file may name other files, even pipes and devices, as the place of its values; and a file of a few kilobytes may
declare axes of a hundred gigabytes. Here: what the file's structure says. Not here: whether it is cut off (`classic`),
or its variables (`contents`).
"""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

import netCDF4

from era5_pipeline.model.grid import N_LATITUDES, N_LONGITUDES
from era5_pipeline.netcdf.heaps import require_readable_heaps, require_texts_within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import h5py

# Hours of 160 years: ERA5 begins in 1940.
MOST_HOURS = 160 * 366 * 24
# Of one file: final, preliminary, and those of experiments.
MOST_VERSIONS = 10
# HDF5 reads a chunk whole; the largest that ERA5 can have is a month of the globe in float32 (3.1 GB).
_LARGEST_CHUNK_BYTES = 744 * N_LATITUDES * N_LONGITUDES * 4
# What HDF5 needs besides the values is far less; small files are not worth a look.
_OTHER_BYTES = 64 << 20
# On disk: files with holes. File systems that compress reach a tenth, not a thousandth.
_LEAST_ON_DISK = 0.001
_BLOCK_BYTES = 512


class ForeignDataError(Exception):
    """The file's values are not in the file, or cannot be; the text continues `<file>: `."""


def require_own_data(path: Path, *, is_hdf5: bool) -> frozenset[str]:
    """Check that all values are in the file itself, and no more of them than ERA5 can have.

    Returns the names of variables of which values are declared and none was ever written.

    Raises:
        ForeignDataError: if not, saying where they are or how many.
        ValueError: if the file is damaged such that HDF5 would never end.
        OSError, RuntimeError: what the libraries raise for damaged files.
    """
    stat = path.stat()
    on_disk = stat.st_blocks * _BLOCK_BYTES
    if stat.st_size > _OTHER_BYTES and 0 < on_disk < stat.st_size * _LEAST_ON_DISK:
        raise ForeignDataError(f"is nearly empty: of its {stat.st_size:,} bytes {on_disk:,} were ever written")
    unwritten = _require_own_datasets(path) if is_hdf5 else frozenset()
    with netCDF4.Dataset(path) as dataset:
        held = 0
        for name, variable in dataset.variables.items():
            # Axes are read whole; a variable along one axis alone is a series.
            if variable.ndim == 1 and variable.size > MOST_HOURS:
                raise ForeignDataError(
                    f"declares {variable.size:,} values of {name}, where ERA5 has at most {MOST_HOURS:,}"
                )
            held += _bytes_of(variable)
    if stat.st_size > 2 * held + _OTHER_BYTES:
        raise ForeignDataError(f"has {stat.st_size:,} bytes, and its variables take {held:,}")
    return unwritten


def _bytes_of(variable: netCDF4.Variable[Any]) -> int:
    """The bytes that the variable takes at most, its chunks written whole."""
    width = 64 if variable.dtype is str else variable.dtype.itemsize
    chunks = variable.chunking()
    if not isinstance(chunks, list):
        return int(variable.size) * width
    chunk = prod(chunks) * width
    if chunk > _LARGEST_CHUNK_BYTES:
        raise ForeignDataError(
            f"keeps {variable.name} in chunks of {chunk:,} bytes, which are read whole; at most "
            f"{_LARGEST_CHUNK_BYTES:,} can be (rewrite it with smaller ones: nccopy -c)"
        )
    return chunk * prod(ceil(size / part) for size, part in zip(variable.shape, chunks, strict=True))


def _require_own_datasets(path: Path) -> frozenset[str]:
    import h5py  # noqa: PLC0415  # takes a third of a second, and most commands open no file

    require_readable_heaps(path)
    unwritten = set()
    with h5py.File(path, "r", locking=False) as file:
        for name, item in _items(file):
            if item.external:
                raise ForeignDataError(f"does not hold the values of {name} itself: they are in {item.external[0][0]}")
            if item.is_virtual:
                raise ForeignDataError(f"does not hold the values of {name} itself: it is a view of other files")
            if (texts := h5py.check_string_dtype(item.dtype)) is not None and texts.length is None:
                require_texts_within(item, path)
            if item.size and not item.id.get_storage_size():
                unwritten.add(name)
    return frozenset(unwritten)


def _items(group: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    """The data sets of a file, by name; no link is followed.

    Raises:
        ForeignDataError: if there is a link, or a group is in itself: the netCDF library would never end, and abort.
    """
    import h5py  # noqa: PLC0415  # see above

    groups, seen = [group], {h5py.h5o.get_info(group.id).addr}
    while groups:
        folder = groups.pop()
        for name in folder:
            link = folder.get(name, getlink=True)
            shown = f"{folder.name.rstrip('/')}/{name}".lstrip("/")
            if isinstance(link, h5py.ExternalLink):
                raise ForeignDataError(f"does not hold {shown} itself: it is a link to the file {link.filename}")
            if isinstance(link, h5py.SoftLink):
                raise ForeignDataError(f"does not hold {shown} itself: it is a link to {link.path}")
            item = folder[name]
            if isinstance(item, h5py.Dataset):
                yield shown, item
            elif isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address in seen:
                    raise ForeignDataError(f"holds the group {shown} more than once")
                seen.add(address)
                groups.append(item)
