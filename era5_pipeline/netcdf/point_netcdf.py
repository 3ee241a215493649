"""Write hours of one point as netCDF: latitude and longitude are scalars, as in the point series of the CDS.

Equal values give equal bytes, in whatever versions of the libraries: netCDF-3 states no versions. Here: the bytes. Not
here: which hours (`sources.point`), or point series as CSV (`point_csv`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import netCDF4
import numpy as np

from era5_pipeline.model.data_version import PRELIMINARY
from era5_pipeline.model.variables import BY_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from era5_pipeline.model.grid import Location

_TIME = "valid_time"
# The file grows by what is written. With room to spare, its bytes beyond the end would be those of earlier files.
_FIRST_BYTES = 1


def point_netcdf(
    place: Location, hours: npt.NDArray[np.int64], values: Mapping[str, npt.NDArray[np.float32]], *, preliminary: bool
) -> bytes:
    """The netCDF of `hours` (n,), since 1970-01-01, at the place.

    `values` (n,) by column are in the units of files, NaN where missing. `preliminary`: the file says so (`expver`);
    else it states no version.
    """
    dataset = netCDF4.Dataset("point.nc", "w", format="NETCDF3_CLASSIC", memory=_FIRST_BYTES)
    dataset.set_fill_off()
    dataset.Conventions = "CF-1.7"
    dataset.title = "A month of ERA5 hourly time-series data on single levels"
    dataset.createDimension(_TIME, hours.size)
    time = dataset.createVariable(_TIME, "i4", (_TIME,))
    time.setncatts({"units": "hours since 1970-01-01", "standard_name": "time", "calendar": "proleptic_gregorian"})
    for name, degrees, units in (
        ("latitude", place.latitude, "degrees_north"),
        ("longitude", place.longitude, "degrees_east"),
    ):
        coordinate = dataset.createVariable(name, "f8", ())
        coordinate.setncatts({"units": units, "standard_name": name})
        coordinate[...] = degrees
    if preliminary:
        dataset.createVariable("expver", "i4", ())[...] = int(PRELIMINARY)
    for column in values:
        variable = BY_COLUMN[column]
        stored = dataset.createVariable(variable.short_name, "f4", (_TIME,), fill_value=np.float32(np.nan))
        stored.setncatts(
            {
                "units": variable.file_units[0],
                "long_name": variable.long_name,
                "GRIB_paramId": np.int32(variable.param_id),
                "coordinates": "latitude longitude expver" if preliminary else "latitude longitude",
            }
        )
    time[:] = hours
    for column, of_column in values.items():
        dataset[BY_COLUMN[column].short_name][:] = of_column
    return bytes(dataset.close())
