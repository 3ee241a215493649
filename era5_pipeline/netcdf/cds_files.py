"""Write files in the layout of the Climate Data Store (CDS) since 2024: grids hour by hour, and hours of one point."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import netCDF4
import numpy as np

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.source_kinds import FINAL, PRELIMINARY
from era5_pipeline.model.times import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Area, Grid, Location
    from era5_pipeline.model.variables import StepType, Variable

    Float64 = npt.NDArray[np.float64]
    Float32 = npt.NDArray[np.float32]
    Block = tuple[range, Mapping[str, Float32]]

# --- Disk errors in HDF5, which reports them all as "HDF error", and cannot close a file on a full disk ---


# Larger than any single HDF5 write here: if this fits, the disk was not full.
_PROBE_BYTES = 16 << 20


def close_anyway(dataset: netCDF4.Dataset) -> None:
    """Close the file if it is open, ignoring failure: another error is already being reported."""
    if dataset.isopen():
        with suppress(RuntimeError, OSError):
            dataset.close()


@contextmanager
def emptied_on_error(paths: Sequence[Path]) -> Iterator[None]:
    """On an error, truncate the files before closing them: otherwise HDF5 cannot close them on a full disk."""
    try:
        yield
    except BaseException:
        for path in paths:
            with suppress(FileNotFoundError):
                os.truncate(path, 0)
        raise


@contextmanager
def full_disk_named(folder: Path, written: Path | None = None) -> Iterator[None]:
    """If netCDF fails, check whether the disk is full, or the file `written` has reached its size limit."""
    try:
        yield
    except (RuntimeError, OSError):
        size = written.stat().st_size if written is not None else 0
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.truncate(size + _PROBE_BYTES)  # takes no space, and fails beyond a file size limit
            probe.write(bytes(_PROBE_BYTES))
        raise


# --- Coordinates, types and attributes of netCDF files as written by the Climate Data Store (CDS) since 2024 ---


# netCDF-C's default chunk size: variables up to this size are one chunk, here as in the CDS' files.
_ONE_CHUNK_BYTES = 16 << 20
_CHUNK_HOURS, _CHUNK_LATITUDES, _CHUNK_LONGITUDES = 24, 91, 180
_DIMENSIONS = ("valid_time", "latitude", "longitude")
_TIME_CODING = {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}
# By name in the file: ecCodes' short name and CF name, which are not in the catalogue.
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
    """The points of the grid in a file, degrees: `latitudes` north to south, `longitudes` west to east."""

    latitudes: Float64
    longitudes: Float64
    grid: Grid

    @classmethod
    def of(cls, area: Area) -> Self:
        """The points of `area` in the CDS' order and notation.

        Longitudes increase from the western border (170 to 190 across the antimeridian); if that would exceed 360,
        they are given in -180 to 180. The full circle is 0 to 359.75.
        """
        grid, step = area.grid, area.grid.step_degrees
        latitudes = np.asarray(grid.latitudes_of(area.latitude_indices()[::-1]), dtype=np.float64)
        degrees = np.asarray(grid.longitudes_of(area.longitude_indices()), dtype=np.float64)
        if degrees.size == grid.columns:
            return cls(latitudes, np.arange(grid.columns, dtype=np.float64) * step, grid)
        # Half a step of tolerance, so that rounding at the border cannot move its grid point by 360 degrees.
        eastward = np.sort((degrees - area.west + step / 2) % 360.0) - step / 2
        longitudes = np.rint((area.west + eastward) / step) * step
        return cls(latitudes, longitudes if longitudes[-1] <= 360.0 else np.sort(degrees), grid)


@dataclass(frozen=True)
class CdsFilePart:
    """The contents of one netCDF file: variables of one step type, at `hours` (since 1970-01-01T00:00 UTC).

    `expver` is the version of each hour; None: all are final; empty: the file has no expver.
    """

    step_type: StepType
    variables: tuple[Variable, ...]
    hours: range
    expver: tuple[str, ...] | None = None

    @property
    def member(self) -> str:
        """The file's name in a ZIP."""
        return f"data_stream-oper_stepType-{self.step_type}.nc"


def chunk_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The chunk shape of a variable of this shape (hours, latitudes, longitudes); a small one gets a single chunk."""
    hours, latitudes, longitudes = shape
    if 4 * hours * latitudes * longitudes <= _ONE_CHUNK_BYTES:
        return shape
    return min(hours, _CHUNK_HOURS), min(latitudes, _CHUNK_LATITUDES), min(longitudes, _CHUNK_LONGITUDES)


def write_coordinates(dataset: netCDF4.Dataset, part: CdsFilePart, axes: Axes) -> None:
    """Create the dimensions and write all coordinates."""
    sizes = (len(part.hours), axes.latitudes.size, axes.longitudes.size)
    for name, size in zip(_DIMENSIONS, sizes, strict=True):
        dataset.createDimension(name, size)
    times = np.array(part.hours, dtype=np.int64) * SECONDS_PER_HOUR
    named = {"long_name": "ensemble member numerical id", "units": "1", "standard_name": "realization"}
    timed = {"long_name": "time", "standard_name": "time", **_TIME_CODING}
    north = {"units": "degrees_north", "standard_name": "latitude", "long_name": "latitude"}
    east = {"units": "degrees_east", "standard_name": "longitude", "long_name": "longitude"}
    for name, kind, values, attributes in (
        ("number", "i8", np.int64(0), named),
        ("valid_time", "i8", times, timed),
        ("latitude", "f8", axes.latitudes, north | {"stored_direction": "decreasing"}),
        ("longitude", "f8", axes.longitudes, east),
    ):
        dimensions = (name,) if values.ndim else ()
        variable = dataset.createVariable(name, kind, dimensions, fill_value=np.nan if kind == "f8" else None)
        variable.setncatts(attributes)
        variable[...] = values
    versions = (FINAL,) * len(part.hours) if part.expver is None else part.expver
    if versions:
        # With a single time, expver has no dimension, as in the CDS' files.
        expver = dataset.createVariable("expver", str, ("valid_time",) if len(part.hours) > 1 else ())
        expver[...] = np.array(versions, dtype=object).reshape(expver.shape)


def create_variable(
    dataset: netCDF4.Dataset, variable: Variable, axes: Axes, chunk: tuple[int, int, int], *, says_expver: bool
) -> netCDF4.Variable[np.float32]:
    """Create a variable with its attributes, to be written one chunk of hours at a time."""
    coordinates = "number valid_time latitude longitude" + (" expver" if says_expver else "")
    attributes = {**_variable_attributes(variable, axes), "coordinates": coordinates}
    return create_compressed(dataset, variable.short_name, _DIMENSIONS, chunk, attributes)


def create_compressed(
    dataset: netCDF4.Dataset,
    name: str,
    dimensions: tuple[str, ...],
    chunk: tuple[int, int, int],
    attributes: Mapping[str, object],
) -> netCDF4.Variable[np.float32]:
    """Create a variable for float32, NaN where missing, in compressed chunks."""
    created = dataset.createVariable(
        name,
        "f4",
        dimensions,
        compression="zlib",
        complevel=1,
        shuffle=True,
        chunksizes=chunk,
        fill_value=np.float32(np.nan),
        # Chunks are written whole: HDF5's cache (64 MiB per variable) would only waste memory.
        chunk_cache=1,
    )
    created.setncatts(attributes)
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
        "GRIB_iDirectionIncrementInDegrees": axes.grid.step_degrees,
        "GRIB_iScansNegatively": np.int64(0),
        "GRIB_jDirectionIncrementInDegrees": axes.grid.step_degrees,
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


# --- Write files in the CDS' layout since 2024, hour by hour ---
#
# Instant and accumulated variables together become a ZIP with one netCDF each; one kind alone becomes a plain netCDF.
# Dimensions, coordinates, types, compression and variable attributes match real files; the caller provides the global
# attributes, since only ECMWF may say that a file comes from ECMWF. Two things differ from the CDS: ZIP members are
# stored, not compressed a second time; and large variables are chunked by day and tile instead of netCDF-C's default,
# so that they can be written hour by hour and read tile by tile.


_COPY_BYTES = 1 << 20
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def suffix_of(parts: Sequence[CdsFilePart]) -> str:
    """The suffix of the file: `.zip` for several parts, `.nc` for one."""
    return ".zip" if len(parts) > 1 else ".nc"


def write_cds(
    target: Path, parts: Sequence[CdsFilePart], axes: Axes, attributes: Mapping[str, str], blocks: Iterable[Block]
) -> None:
    """Write `parts` into the file `target`, in one pass over `blocks`.

    Keeps one chunk of hours of every variable in memory (at most 16 MiB each, or a day), and a ZIP's netCDFs on disk
    next to `target` until they are in it.

    Args:
        target: a netCDF for one part, otherwise a ZIP of netCDFs.
        parts: the netCDFs, in this order.
        axes: the grid points.
        attributes: global attributes of each netCDF.
        blocks: ascending hours without gaps, and the values by column, each of shape (hours,
            latitudes, longitudes) in the variable's `file_units`; together they cover the hours of all parts.
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
            # zipfile needs the size in advance to decide on ZIP64.
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(entry, "w") as into:
                shutil.copyfileobj(source, into, _COPY_BYTES)
            path.unlink()


class _Netcdf:
    """A netCDF being written. Hours are buffered until they fill a chunk, so that no chunk is compressed twice."""

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
            held = slice(start - hours.start, stop - hours.start)
            if stop - start == self._slab_hours:
                # Whole chunks are not buffered: the memory of the slabs is then never used.
                self._write({column: fields[column][held] for column in self._variables}, stop - start)
            else:
                for column, slab in self._slabs.items():
                    slab[self._kept : self._kept + stop - start] = fields[column][held]
                self._kept += stop - start
                if self._kept == self._slab_hours:
                    self._flush()
            start = stop

    def finish(self) -> None:
        """Write the buffered hours and close the file."""
        self._flush()
        self._dataset.close()

    def _flush(self) -> None:
        if self._kept:
            self._write(self._slabs, self._kept)
        self._kept = 0

    def _write(self, values: Mapping[str, Float32], hours: int) -> None:
        written = self._written + hours
        for column, of_column in values.items():
            self._variables[column][self._written : written] = of_column[:hours]
        self._written = written


# --- Write hours of one point as netCDF: latitude and longitude are scalars, as in the CDS' point series ---
#
# Equal values give equal bytes with any version of the libraries: netCDF-3 files do not contain versions.


_TIME = "valid_time"
# The file grows as it is written. Spare space would leave bytes of earlier files beyond the end.
_FIRST_BYTES = 1


def point_netcdf(
    place: Location,
    hours: npt.NDArray[np.int64],
    values: Mapping[str, npt.NDArray[np.float32]],
    *,
    preliminary: bool,
    of: Dataset = ERA5,
) -> bytes:
    """Return a netCDF with `hours` (n,), since 1970-01-01, at the place, of a data set.

    `values` (n,) by column are in file units, NaN where missing. With `preliminary` the file says so (`expver`);
    otherwise it states no version.
    """
    dataset = netCDF4.Dataset("point.nc", "w", format="NETCDF3_CLASSIC", memory=_FIRST_BYTES)
    dataset.set_fill_off()
    dataset.Conventions = "CF-1.7"
    # "A month of ERA5 hourly time-series data on single levels"
    dataset.title = f"A month of {of.title.partition(' from ')[0].replace('hourly', 'hourly time-series')}"
    if of != ERA5:
        dataset.source = of.cds_series_name
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
        variable = of.catalogue.by_column[column]
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
        dataset[of.catalogue.by_column[column].short_name][:] = of_column
    return bytes(dataset.close())
