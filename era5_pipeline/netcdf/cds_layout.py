"""Write files in the layout of the Climate Data Store (CDS) since 2024, hour by hour.

Here: writing values into netCDF files, and these into ZIPs. Not here: coordinates and attributes (`cds_netcdf`), or
the source of the values.

Instant and accumulated variables together become a ZIP with one netCDF of each; one kind alone becomes a plain
netCDF. Dimensions, coordinates, types, compression and the attributes of variables are those of real files;
the caller gives the global attributes, since only the ECMWF may say that a file comes from the ECMWF. Two
things differ from the CDS: ZIP members are stored, not compressed a second time; and large variables are split
into chunks of a day and a tile instead of netCDF-C's default, so that they can be written hour by hour and
read tile by tile.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import netCDF4
import numpy as np

from era5_pipeline.netcdf.cds_netcdf import chunk_shape, create_variable, write_coordinates
from era5_pipeline.netcdf.hdf5_faults import close_anyway, emptied_on_error, full_disk_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from era5_pipeline.netcdf.cds_netcdf import Axes, CdsFilePart

    Float32 = npt.NDArray[np.float32]
    Block = tuple[range, Mapping[str, Float32]]

_COPY_BYTES = 1 << 20
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def suffix_of(parts: Sequence[CdsFilePart]) -> str:
    """The suffix of the file: `.zip` for several parts, `.nc` for one."""
    return ".zip" if len(parts) > 1 else ".nc"


def write_cds(
    target: Path, parts: Sequence[CdsFilePart], axes: Axes, attributes: Mapping[str, str], blocks: Iterable[Block]
) -> None:
    """Write `parts` into the file `target`, in one pass over `blocks`.

    Keeps one chunk of hours of every variable in memory (at most 16 MiB each, or a day), and the netCDFs of a
    ZIP on disk next to `target` until they are in it.

    Args:
        target: a netCDF if there is one part, else a ZIP of netCDFs.
        parts: the netCDFs, in this order.
        axes: the grid points.
        attributes: global attributes of each netCDF.
        blocks: hours in ascending order without gaps, and the values by column, each of shape (hours,
            latitudes, longitudes) in the variable's `file_units`; together they cover the hours of all parts.

    Raises:
        OSError: if the disk is full (HDF5 itself would not report it) or not writable.
    """
    if len(parts) == 1:
        _write_netcdfs([target], parts, axes, attributes, blocks)
        return
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as folder:
        members = [Path(folder) / part.member for part in parts]
        _write_netcdfs(members, parts, axes, attributes, blocks)
        move_into_zip(members, target)


def _write_netcdfs(
    paths: Sequence[Path],
    parts: Sequence[CdsFilePart],
    axes: Axes,
    attributes: Mapping[str, str],
    blocks: Iterable[Block],
) -> None:
    with ExitStack() as opened, emptied_on_error(paths), full_disk_named(paths[0].parent):
        files = []
        for path, part in zip(paths, parts, strict=True):
            dataset = netCDF4.Dataset(path, "w", format="NETCDF4")
            opened.callback(close_anyway, dataset)
            dataset.setncatts(attributes)
            files.append(_Netcdf(dataset, part, axes))
        for hours, fields in blocks:
            for file in files:
                file.append(hours, fields)
        for file in files:
            file.finish()


def move_into_zip(members: Sequence[Path], target: Path) -> None:
    """Move `members` into the ZIP `target`, without timestamps or owners: equal data give equal bytes."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in members:
            entry = zipfile.ZipInfo(path.name, date_time=_ZIP_EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            # zipfile must know the size beforehand to decide whether the member needs ZIP64.
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(entry, "w") as into:
                shutil.copyfileobj(source, into, _COPY_BYTES)
            path.unlink()


class _Netcdf:
    """A netCDF that is being written. Hours are buffered until they fill a chunk, so that none is compressed twice."""

    def __init__(self, dataset: netCDF4.Dataset, part: CdsFilePart, axes: Axes) -> None:
        write_coordinates(dataset, part, axes)
        self._dataset = dataset
        self._hours = part.hours
        shape = (len(part.hours), axes.latitudes.size, axes.longitudes.size)
        chunk = chunk_shape(shape)
        self._slab_hours = chunk[0]
        self._variables = {
            variable.column: create_variable(dataset, variable, axes, chunk, says_expver=part.expver != ())
            for variable in part.variables
        }
        self._slabs = {column: np.empty((chunk[0], *shape[1:]), np.float32) for column in self._variables}
        self._kept = 0
        self._written = 0

    def append(self, hours: range, fields: Mapping[str, Float32]) -> None:
        """Append the values of `hours`; hours outside the file's range are ignored."""
        start, end = max(hours.start, self._hours.start), min(hours.stop, self._hours.stop)
        while start < end:
            stop = min(end, start + self._slab_hours - self._kept)
            kept = self._kept + stop - start
            for column, slab in self._slabs.items():
                slab[self._kept : kept] = fields[column][start - hours.start : stop - hours.start]
            self._kept = kept
            if kept == self._slab_hours:
                self._flush()
            start = stop

    def finish(self) -> None:
        """Write the buffered hours, and close the file."""
        self._flush()
        self._dataset.close()

    def _flush(self) -> None:
        written = self._written + self._kept
        if self._kept:
            for column, slab in self._slabs.items():
                self._variables[column][self._written : written] = slab[: self._kept]
        self._written, self._kept = written, 0
