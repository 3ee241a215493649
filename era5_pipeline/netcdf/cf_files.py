"""Write gridded variables as CF netCDF, box by box: hours x latitudes x longitudes.

Creates dimensions, coordinates, types and compression. Variable names and attributes are the caller's. For files in the
layout of the Climate Data Store see `cds_files`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
from typing_extensions import override

from era5_pipeline.netcdf.cds_files import close_anyway, create_compressed, emptied_on_error, full_disk_named

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    import numpy.typing as npt

    Attributes = Mapping[str, str]

DIMENSIONS = ("time", "latitude", "longitude")
# Hours fit into 4 bytes, and CF before 1.9 has no 8-byte integers.
TIME_UNITS = "hours since 1970-01-01 00:00:00"
CALENDAR = "proleptic_gregorian"
COORDINATE_ATTRIBUTES = {
    "time": {"standard_name": "time", "long_name": "time (UTC)", "axis": "T"},
    "latitude": {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north", "axis": "Y"},
    "longitude": {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east", "axis": "X"},
}
_TIME_CHUNK = 1 << 14


class CfNetcdf(AbstractContextManager["CfNetcdf"]):
    """A netCDF-4 file being written; as a context manager, it truncates and closes the file on an error.

    `hours` (since 1970) and degrees are the axes; `variables` are the attributes by name, for float32, NaN where
    missing. `chunk` is the chunk shape in hours, latitudes and longitudes: boxes should consist of whole chunks.
    `expver` (hours,) is the version of each hour.
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
            # Exits in reverse order: check the disk while it is full, then truncate the file, then close it.
            stack.callback(close_anyway, self._dataset)
            stack.enter_context(emptied_on_error([path]))
            stack.enter_context(full_disk_named(path.parent, path))
            self._dataset.setncatts(attributes)
            self._write_axes(hours, latitudes, longitudes)
            versions = self._dataset.createVariable("expver", str, ("time",))
            versions.setncatts(expver_attributes)
            versions[:] = expver.astype(object)
            for name, of_variable in variables.items():
                attributes_of = {**of_variable, "coordinates": "expver"}
                create_compressed(self._dataset, name, DIMENSIONS, chunk, attributes_of)
            self._guard = stack.pop_all()

    def _write_axes(
        self, hours: range, latitudes: npt.NDArray[np.float64], longitudes: npt.NDArray[np.float64]
    ) -> None:
        # Unlimited, for tools that append along time.
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

    def write(self, name: str, first: tuple[int, int, int], values: npt.NDArray[np.float32]) -> None:
        """Write a box of a variable; `first` is the (hour, latitude, longitude) index of its corner."""
        hour, row, column = first
        hours, rows, columns = values.shape
        self._dataset[name][hour : hour + hours, row : row + rows, column : column + columns] = values

    def finish(self, attributes: Attributes) -> None:
        """Add global attributes and close the file."""
        self._dataset.setncatts(attributes)
        self._dataset.close()

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.__exit__(kind, error, trace)
