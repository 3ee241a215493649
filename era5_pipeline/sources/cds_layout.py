"""Writes files as the Climate Data Store (CDS) lays them out since 2024, hour by hour.

Here: netCDF and ZIP, and the coordinates of an area. Not here: where the values come from.

Instant and accumulated variables together become a ZIP with one netCDF each; one kind alone becomes a plain
netCDF. Dimensions, coordinates, types, compression and the attributes of variables are those of real files;
the global attributes are the caller's, since only the ECMWF may say that a file comes from the ECMWF. Two
things differ from the CDS: members of the ZIP are stored, not deflated once more; and large variables are cut
into chunks of a day and a tile instead of netCDF-C's default, so that they can be written as they come and
read by tile.
"""

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

from era5_pipeline.grid import N_LONGITUDES, STEP_DEGREES, latitudes_of, longitudes_of
from era5_pipeline.versions import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from era5_pipeline.grid import Area
    from era5_pipeline.variables import StepType, Variable

    Float32 = npt.NDArray[np.float32]
    Float64 = npt.NDArray[np.float64]
    Block = tuple[range, Mapping[str, Float32]]

# netCDF-C's default size of a chunk: a variable up to it is one chunk, in the CDS' files as in these.
_ONE_CHUNK_BYTES = 16 << 20
_CHUNK_HOURS, _CHUNK_LATITUDES, _CHUNK_LONGITUDES = 24, 91, 180
_DIMENSIONS = ("valid_time", "latitude", "longitude")
# More than any single write of HDF5's here can have failed for.
_PROBE_BYTES = 16 << 20
_COPY_BYTES = 1 << 20
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
# By name in the file: ecCodes' name, short name and CF name, which no other table of ours has.
_ECCODES_NAMES = {
    "t2m": ("2 metre temperature", "2t", "unknown"),
    "u10": ("10 metre U wind component", "10u", "unknown"),
    "v10": ("10 metre V wind component", "10v", "unknown"),
    "tcc": ("Total cloud cover", "tcc", "cloud_area_fraction"),
    "tp": ("Total precipitation", "tp", "unknown"),
    "sf": ("Snowfall", "sf", "lwe_thickness_of_snowfall_amount"),
}


@dataclass(frozen=True)
class Axes:
    """The grid points of a file, degrees: `latitudes` north to south, `longitudes` west to east."""

    latitudes: Float64
    longitudes: Float64

    @classmethod
    def of(cls, area: Area) -> Self:
        """Take the points of `area` in the CDS' order and spelling.

        Longitudes count on from the western border (170 to 190 across the antimeridian); where that would
        pass 360, they are given in -180 to 180. The whole circle is 0 to 359.75.
        """
        latitudes = np.asarray(latitudes_of(area.latitude_indices()[::-1]), dtype=np.float64)
        degrees = np.asarray(longitudes_of(area.longitude_indices()), dtype=np.float64)
        if degrees.size == N_LONGITUDES:
            return cls(latitudes, np.arange(N_LONGITUDES, dtype=np.float64) * STEP_DEGREES)
        # Half a step of slack: a border that misses its grid point by a hair must not send it once around.
        eastward = np.sort((degrees - area.west + STEP_DEGREES / 2) % 360.0) - STEP_DEGREES / 2
        longitudes = np.rint((area.west + eastward) / STEP_DEGREES) * STEP_DEGREES
        return cls(latitudes, longitudes if longitudes[-1] <= 360.0 else np.sort(degrees))


@dataclass(frozen=True)
class Part:
    """What one netCDF holds: variables of one step type, at `hours` (since 1970-01-01T00:00 UTC).

    `expver` is the version of each hour; None: all final, empty: the file does not say.
    """

    step_type: StepType
    variables: tuple[Variable, ...]
    hours: range
    expver: tuple[str, ...] | None = None

    @property
    def member(self) -> str:
        """Its name within a ZIP."""
        return f"data_stream-oper_stepType-{self.step_type}.nc"


def suffix_of(parts: Sequence[Part]) -> str:
    """Name the ending of the file, `.zip` or `.nc`."""
    return ".zip" if len(parts) > 1 else ".nc"


def write_cds(
    target: Path, parts: Sequence[Part], axes: Axes, attributes: Mapping[str, str], blocks: Iterable[Block]
) -> None:
    """Write `parts` into the file `target`, from one pass over `blocks`.

    Keeps one chunk of hours of every variable in memory (at most 16 MiB each, or a day), and the netCDFs of a
    ZIP on disk beside `target` until they are in it.

    Args:
        target: a netCDF if `parts` is one, else a ZIP of netCDFs.
        parts: what to write, in this order.
        axes: the grid.
        attributes: global attributes of each netCDF.
        blocks: hours in ascending order without gaps, and the fields by column, each of shape (hours,
            latitudes, longitudes) in the variable's `file_units`; they cover the hours of all parts.

    Raises:
        OSError: if the disk is full (HDF5 by itself would not say so) or not writable.
    """
    if len(parts) == 1:
        _write_netcdfs([target], parts, axes, attributes, blocks)
        return
    with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as folder:
        members = [Path(folder) / part.member for part in parts]
        _write_netcdfs(members, parts, axes, attributes, blocks)
        _move_into_zip(members, target)


def _write_netcdfs(
    paths: Sequence[Path],
    parts: Sequence[Part],
    axes: Axes,
    attributes: Mapping[str, str],
    blocks: Iterable[Block],
) -> None:
    with ExitStack() as opened, _emptied_on_error(paths), _disk_asked(paths[0].parent):
        files = []
        for path, part in zip(paths, parts, strict=True):
            dataset = netCDF4.Dataset(path, "w", format="NETCDF4")
            opened.callback(_close_anyway, dataset)
            dataset.setncatts(attributes)
            files.append(_Netcdf(dataset, part, axes))
        for hours, fields in blocks:
            for file in files:
                file.append(hours, fields)
        for file in files:
            file.finish()


def _close_anyway(dataset: netCDF4.Dataset) -> None:
    if dataset.isopen():
        with suppress(RuntimeError, OSError):
            dataset.close()


@contextmanager
def _emptied_on_error(paths: Sequence[Path]) -> Iterator[None]:
    """Make room before closing: HDF5 cannot close a file that it has no room for, and keeps it open."""
    try:
        yield
    except BaseException:
        for path in paths:
            with suppress(FileNotFoundError):
                os.truncate(path, 0)
        raise


@contextmanager
def _disk_asked(folder: Path) -> Iterator[None]:
    """Where netCDF fails, see whether the disk is full: HDF5 says "HDF error" whatever happened."""
    try:
        yield
    except (RuntimeError, OSError):
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE_BYTES))
        raise


def _move_into_zip(members: Sequence[Path], target: Path) -> None:
    """Make `target` a ZIP of `members`, with nothing in it that depends on when or by whom; remove them."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in members:
            entry = zipfile.ZipInfo(path.name, date_time=_ZIP_EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            # Known beforehand, so that zipfile can tell whether the member needs ZIP64.
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(entry, "w") as into:
                shutil.copyfileobj(source, into, _COPY_BYTES)
            path.unlink()


class _Netcdf:
    """One netCDF being written. Hours are kept until they fill a chunk: none is compressed twice."""

    def __init__(self, dataset: netCDF4.Dataset, part: Part, axes: Axes) -> None:
        _write_coordinates(dataset, part, axes)
        self._dataset = dataset
        self._hours = part.hours
        shape = (len(part.hours), axes.latitudes.size, axes.longitudes.size)
        chunk = _chunk_shape(shape)
        self._slab_hours = chunk[0]
        self._variables = {
            variable.column: _create_variable(dataset, variable, axes, chunk, says_expver=part.expver != ())
            for variable in part.variables
        }
        self._slabs = {column: np.empty((chunk[0], *shape[1:]), np.float32) for column in self._variables}
        self._kept = 0
        self._written = 0

    def append(self, hours: range, fields: Mapping[str, Float32]) -> None:
        """Take the fields of `hours`; those before the file's first hour or after its last are passed over."""
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
        """Write the hours that are kept, and close the file."""
        self._flush()
        self._dataset.close()

    def _flush(self) -> None:
        written = self._written + self._kept
        if self._kept:
            for column, slab in self._slabs.items():
                self._variables[column][self._written : written] = slab[: self._kept]
        self._written, self._kept = written, 0


def _chunk_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    hours, latitudes, longitudes = shape
    if 4 * hours * latitudes * longitudes <= _ONE_CHUNK_BYTES:
        return shape
    return min(hours, _CHUNK_HOURS), min(latitudes, _CHUNK_LATITUDES), min(longitudes, _CHUNK_LONGITUDES)


def _write_coordinates(dataset: netCDF4.Dataset, part: Part, axes: Axes) -> None:
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
    valid_time[:] = np.array(part.hours, dtype=np.int64) * 3600
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
        # With a single time it has no dimension, in the CDS' files too.
        expver = dataset.createVariable("expver", str, ("valid_time",) if len(part.hours) > 1 else ())
        expver[...] = np.array(versions, dtype=object).reshape(expver.shape)


def _create_variable(
    dataset: netCDF4.Dataset, variable: Variable, axes: Axes, chunk: tuple[int, int, int], *, says_expver: bool
) -> netCDF4.Variable[np.float32]:
    created = dataset.createVariable(
        variable.short_name,
        "f4",
        _DIMENSIONS,
        compression="zlib",
        complevel=1,
        shuffle=True,
        chunksizes=chunk,
        fill_value=np.nan,
        # Chunks come whole: kept in HDF5's cache (64 MiB per variable), they would only take memory.
        chunk_cache=1,
    )
    created.setncatts(_variable_attributes(variable, axes))
    created.coordinates = "number valid_time latitude longitude" + (" expver" if says_expver else "")
    return created


def _variable_attributes(variable: Variable, axes: Axes) -> dict[str, str | float | np.int64]:
    """Return the attributes, in the CDS' order, as ecCodes and cfgrib give them."""
    name, short_name, cf_name = _ECCODES_NAMES[variable.short_name]
    units = variable.file_units[0]
    return {
        "GRIB_paramId": np.int64(variable.param_id),
        "GRIB_dataType": "an" if variable.step_type == "instant" else "fc",
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
