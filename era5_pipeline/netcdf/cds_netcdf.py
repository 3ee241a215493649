"""Coordinates, types and attributes of a netCDF file as the Climate Data Store (CDS) has written it since 2024.

Not here: the values, or several files in a ZIP (`cds_layout`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from era5_pipeline.model.data_version import FINAL
from era5_pipeline.model.grid import N_LONGITUDES, STEP_DEGREES, latitudes_of, longitudes_of
from era5_pipeline.model.hours import SECONDS_PER_HOUR

if TYPE_CHECKING:
    import netCDF4
    import numpy.typing as npt

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import StepType, Variable

    Float64 = npt.NDArray[np.float64]

# netCDF-C's default chunk size: a variable up to this size is one chunk, in the CDS' files as in these.
_ONE_CHUNK_BYTES = 16 << 20
_CHUNK_HOURS, _CHUNK_LATITUDES, _CHUNK_LONGITUDES = 24, 91, 180
_DIMENSIONS = ("valid_time", "latitude", "longitude")
# By name in the file: ecCodes' short name and CF name, which the catalogue does not have.
_ECCODES_NAMES = {
    "t2m": ("2t", "unknown"),
    "u10": ("10u", "unknown"),
    "v10": ("10v", "unknown"),
    "tcc": ("tcc", "cloud_area_fraction"),
    "tp": ("tp", "unknown"),
    "sf": ("sf", "lwe_thickness_of_snowfall_amount"),
}


@dataclass(frozen=True)
class Axes:
    """The grid points of a file, degrees: `latitudes` north to south, `longitudes` west to east."""

    latitudes: Float64
    longitudes: Float64

    @classmethod
    def of(cls, area: Area) -> Self:
        """The points of `area`, in the order and notation of the CDS.

        Longitudes increase from the western border (170 to 190 across the antimeridian); where that would
        exceed 360, they are given in -180 to 180. The full circle is 0 to 359.75.
        """
        latitudes = np.asarray(latitudes_of(area.latitude_indices()[::-1]), dtype=np.float64)
        degrees = np.asarray(longitudes_of(area.longitude_indices()), dtype=np.float64)
        if degrees.size == N_LONGITUDES:
            return cls(latitudes, np.arange(N_LONGITUDES, dtype=np.float64) * STEP_DEGREES)
        # Half a step of tolerance: rounding of the border must not move its grid point by 360 degrees.
        eastward = np.sort((degrees - area.west + STEP_DEGREES / 2) % 360.0) - STEP_DEGREES / 2
        longitudes = np.rint((area.west + eastward) / STEP_DEGREES) * STEP_DEGREES
        return cls(latitudes, longitudes if longitudes[-1] <= 360.0 else np.sort(degrees))


@dataclass(frozen=True)
class CdsFilePart:
    """The contents of one netCDF file: variables of one step type, at `hours` (since 1970-01-01T00:00 UTC).

    `expver` is the version of each hour; None: all are final, empty: the file has no expver.
    """

    step_type: StepType
    variables: tuple[Variable, ...]
    hours: range
    expver: tuple[str, ...] | None = None

    @property
    def member(self) -> str:
        """The file's name as a ZIP member."""
        return f"data_stream-oper_stepType-{self.step_type}.nc"


def chunk_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The chunk shape of a variable of this shape (hours, latitudes, longitudes); a small one is a single chunk."""
    hours, latitudes, longitudes = shape
    if 4 * hours * latitudes * longitudes <= _ONE_CHUNK_BYTES:
        return shape
    return min(hours, _CHUNK_HOURS), min(latitudes, _CHUNK_LATITUDES), min(longitudes, _CHUNK_LONGITUDES)


def write_coordinates(dataset: netCDF4.Dataset, part: CdsFilePart, axes: Axes) -> None:
    """Create the dimensions, and write all coordinates."""
    sizes = (len(part.hours), axes.latitudes.size, axes.longitudes.size)
    for name, size in zip(_DIMENSIONS, sizes, strict=True):
        dataset.createDimension(name, size)
    number = dataset.createVariable("number", "i8", ())
    number.setncatts({"long_name": "ensemble member numerical id", "units": "1", "standard_name": "realization"})
    number[...] = 0
    valid_time = dataset.createVariable("valid_time", "i8", ("valid_time",))
    valid_time.setncatts(
        {
            "long_name": "time",
            "standard_name": "time",
            "units": "seconds since 1970-01-01",
            "calendar": "proleptic_gregorian",
        }
    )
    valid_time[:] = np.array(part.hours, dtype=np.int64) * SECONDS_PER_HOUR
    latitude = dataset.createVariable("latitude", "f8", ("latitude",), fill_value=np.nan)
    latitude.setncatts(
        {
            "units": "degrees_north",
            "standard_name": "latitude",
            "long_name": "latitude",
            "stored_direction": "decreasing",
        }
    )
    latitude[:] = axes.latitudes
    longitude = dataset.createVariable("longitude", "f8", ("longitude",), fill_value=np.nan)
    longitude.setncatts({"units": "degrees_east", "standard_name": "longitude", "long_name": "longitude"})
    longitude[:] = axes.longitudes
    versions = (FINAL,) * len(part.hours) if part.expver is None else part.expver
    if versions:
        # With a single time, expver has no dimension in the CDS' files either.
        expver = dataset.createVariable("expver", str, ("valid_time",) if len(part.hours) > 1 else ())
        expver[...] = np.array(versions, dtype=object).reshape(expver.shape)


def create_variable(
    dataset: netCDF4.Dataset, variable: Variable, axes: Axes, chunk: tuple[int, int, int], *, says_expver: bool
) -> netCDF4.Variable[np.float32]:
    """Create a variable with its attributes, to be written one chunk of hours at a time."""
    created = dataset.createVariable(
        variable.short_name,
        "f4",
        _DIMENSIONS,
        compression="zlib",
        complevel=1,
        shuffle=True,
        chunksizes=chunk,
        fill_value=np.nan,
        # Chunks are written whole: HDF5's cache (64 MiB per variable) would only take memory.
        chunk_cache=1,
    )
    created.setncatts(_variable_attributes(variable, axes))
    created.coordinates = "number valid_time latitude longitude" + (" expver" if says_expver else "")
    return created


def _variable_attributes(variable: Variable, axes: Axes) -> dict[str, str | float | np.int64]:
    """The attributes as ecCodes and cfgrib write them, in the CDS' order."""
    name = variable.long_name
    short_name, cf_name = _ECCODES_NAMES.get(variable.short_name, (variable.short_name, "unknown"))
    units = variable.file_units[0]
    return {
        "GRIB_paramId": np.int64(variable.param_id),
        "GRIB_dataType": "an" if variable.first_valid.hour == 0 else "fc",
        "GRIB_numberOfPoints": np.int64(axes.latitudes.size * axes.longitudes.size),
        "GRIB_typeOfLevel": "surface",
        "GRIB_stepUnits": np.int64(1),
        "GRIB_stepType": variable.step_type,
        "GRIB_gridType": "regular_ll",
        "GRIB_uvRelativeToGrid": np.int64(0),
        "GRIB_NV": np.int64(0),
        "GRIB_Nx": np.int64(axes.longitudes.size),
        "GRIB_Ny": np.int64(axes.latitudes.size),
        "GRIB_cfName": cf_name,
        "GRIB_cfVarName": variable.short_name,
        "GRIB_gridDefinitionDescription": "Latitude/Longitude Grid",
        "GRIB_iDirectionIncrementInDegrees": STEP_DEGREES,
        "GRIB_iScansNegatively": np.int64(0),
        "GRIB_jDirectionIncrementInDegrees": STEP_DEGREES,
        "GRIB_jPointsAreConsecutive": np.int64(0),
        "GRIB_jScansPositively": np.int64(0),
        "GRIB_latitudeOfFirstGridPointInDegrees": float(axes.latitudes[0]),
        "GRIB_latitudeOfLastGridPointInDegrees": float(axes.latitudes[-1]),
        "GRIB_longitudeOfFirstGridPointInDegrees": float(axes.longitudes[0]),
        "GRIB_longitudeOfLastGridPointInDegrees": float(axes.longitudes[-1]),
        "GRIB_missingValue": float(np.finfo(np.float32).max),
        "GRIB_name": name,
        "GRIB_shortName": short_name,
        "GRIB_totalNumber": np.int64(0),
        "GRIB_units": units,
        "long_name": name,
        "units": units,
        "standard_name": cf_name,
        "GRIB_surface": 0.0,
    }
