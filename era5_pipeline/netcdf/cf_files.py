"""Write variables on the grid as netCDF by the CF conventions, box by box: hours x latitudes x longitudes.

Here: dimensions, coordinates, types and compression. Not here: names and attributes of variables, which are the
caller's; or files in the layout of the Climate Data Store (`cds_netcdf`).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import netCDF4
import numpy as np

from era5_pipeline.netcdf.cds_files import close_anyway, emptied_on_error, full_disk_named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    import numpy.typing as npt

    Attributes = Mapping[str, str]

DIMENSIONS = ("time", "latitude", "longitude")
# Hours fit into 4 bytes, and CF before 1.9 has no integers of 8.
TIME_UNITS = "hours since 1970-01-01 00:00:00"
CALENDAR = "proleptic_gregorian"
COORDINATE_ATTRIBUTES = {
    "time": {"standard_name": "time", "long_name": "time (UTC)", "axis": "T"},
    "latitude": {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north", "axis": "Y"},
    "longitude": {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east", "axis": "X"},
}
_TIME_CHUNK = 1 << 14


class CfNetcdf:
    """A netCDF-4 file that is being written; as a context manager it is emptied and closed on an error.

    `hours` (since 1970) and degrees are the axes; `variables` are attributes by name, of float32, NaN where missing.
    `chunk` are the hours, latitudes and longitudes of a chunk: boxes should consist of whole ones. `expver` (hours,) is
    the version of each hour.

    Raises:
        OSError: if the disk is full (HDF5 itself would not report it) or not writable.
    """

    def __init__(
        self,
        path: Path,
        hours: range,
        latitudes: npt.NDArray[np.float64],
        longitudes: npt.NDArray[np.float64],
        variables: Mapping[str, Attributes],
        chunk: tuple[int, int, int],
        attributes: Attributes,
        expver: npt.NDArray[np.str_],
        expver_attributes: Attributes,
    ) -> None:
        self._dataset = netCDF4.Dataset(path, "w", format="NETCDF4")
        with ExitStack() as stack:
            # The last is left first: the disk is looked at while it is full, then the file is emptied, then closed.
            stack.callback(close_anyway, self._dataset)
            stack.enter_context(emptied_on_error([path]))
            stack.enter_context(full_disk_named(path.parent, path))
            self._dataset.setncatts(attributes)
            self._write_axes(hours, latitudes, longitudes)
            versions = self._dataset.createVariable("expver", str, ("time",))
            versions.setncatts(expver_attributes)
            versions[:] = expver.astype(object)
            for name, of_variable in variables.items():
                self._create(name, of_variable, chunk)
            self._guard = stack.pop_all()

    def _write_axes(
        self, hours: range, latitudes: npt.NDArray[np.float64], longitudes: npt.NDArray[np.float64]
    ) -> None:
        # Not limited, so that tools that append along the time do.
        self._dataset.createDimension("time", None)
        self._dataset.createDimension("latitude", latitudes.size)
        self._dataset.createDimension("longitude", longitudes.size)
        time = self._dataset.createVariable("time", "i4", ("time",), chunksizes=(min(len(hours), _TIME_CHUNK),))
        time.setncatts(COORDINATE_ATTRIBUTES["time"] | {"units": TIME_UNITS, "calendar": CALENDAR})
        time[:] = np.arange(hours.start, hours.stop, dtype=np.int32)
        for name, degrees in (("latitude", latitudes), ("longitude", longitudes)):
            coordinate = self._dataset.createVariable(name, "f8", (name,))
            coordinate.setncatts(COORDINATE_ATTRIBUTES[name])
            coordinate[:] = degrees

    def _create(self, name: str, attributes: Attributes, chunk: tuple[int, int, int]) -> None:
        created = self._dataset.createVariable(
            name,
            "f4",
            DIMENSIONS,
            compression="zlib",
            complevel=1,
            shuffle=True,
            chunksizes=chunk,
            fill_value=np.float32(np.nan),
            # Chunks are written whole: HDF5's cache (64 MiB per variable) would only take memory.
            chunk_cache=1,
        )
        created.setncatts({**attributes, "coordinates": "expver"})

    def write(self, name: str, first: tuple[int, int, int], values: npt.NDArray[np.float32]) -> None:
        """Write a box of a variable whose corner is at this hour, latitude and longitude, by index."""
        hour, row, column = first
        hours, rows, columns = values.shape
        self._dataset[name][hour : hour + hours, row : row + rows, column : column + columns] = values

    def finish(self, attributes: Attributes) -> None:
        """Add attributes of the file, and close it."""
        self._dataset.setncatts(attributes)
        self._dataset.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.__exit__(kind, error, trace)
