"""ERA5 files in any layout, written for tests, and the rows expected of them, computed independently."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import netCDF4
import numpy as np
import pyarrow.parquet as pq
import pytest

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.sources.source import RawFile, RawMonth
from era5_pipeline_tests.grib_files import Form, Message, encoded, half_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.settings import FlatFormat, OffGrid

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]

# By name in the file: column, unit, paramId, and the factor and offset that convert the file's values to the table's.
VARIABLES: dict[str, tuple[str, str, int, float, float]] = {
    "t2m": ("temperature_2m", "K", 167, 1.0, -273.15),
    "u10": ("zonal_wind_10m", "m s**-1", 165, 1.0, 0.0),
    "v10": ("meridional_wind_10m", "m s**-1", 166, 1.0, 0.0),
    "tcc": ("total_cloud_cover", "(0 - 1)", 164, 1.0, 0.0),
    "tp": ("total_precipitation", "m", 228, 1000.0, 0.0),
    "sf": ("snowfall", "m of water equivalent", 144, 1000.0, 0.0),
}
COLUMNS = tuple(column for column, *_ in VARIABLES.values())
# Others of the catalogue, in real files of the tests.
OTHER_VARIABLES: dict[str, tuple[str, str, int, float, float]] = {
    "d2m": ("dewpoint_2m", "K", 168, 1.0, -273.15),
    "sp": ("surface_pressure", "Pa", 134, 0.01, 0.0),
    "ssrd": ("surface_solar_radiation_downwards", "J m**-2", 169, 1.0, 0.0),
    "u100": ("zonal_wind_100m", "m s**-1", 228246, 1.0, 0.0),
    "v100": ("meridional_wind_100m", "m s**-1", 228247, 1.0, 0.0),
    "z": ("surface_geopotential", "m**2 s**-2", 129, 1.0, 0.0),
}
ALL_VARIABLES = VARIABLES | OTHER_VARIABLES
_RANGES = {
    "t2m": (220.0, 310.0),
    "u10": (-30.0, 30.0),
    "v10": (-30.0, 30.0),
    "tcc": (0.0, 1.0),
    "tp": (0.0, 0.02),
    "sf": (0.0, 0.01),
    "d2m": (210.0, 295.0),
    "sp": (70_000.0, 103_000.0),
    "ssrd": (0.0, 3_600_000.0),
    "z": (-500.0, 20_000.0),
}
_FILL = -32767
# As the store wrote it into its files until 2024; those since have attributes of GRIB.
STORE_HISTORY = (
    "2021-11-25 16:07:23 GMT by grib_to_netcdf-2.23.0: /opt/ecmwf/mars-client/bin/grib_to_netcdf -S param -o "
    "/cache/data4/adaptor.mars.internal-1637856425.nc /cache/tmp/adaptor.mars.internal-1637856031.grib"
)


def hour(text: str) -> int:
    """Convert a time such as `2023-07-01T00` to hours since 1970."""
    return int(np.datetime64(text, "h").astype(np.int64))


def hours_from(text: str, count: int) -> Integers:
    """List `count` hours from a time such as `2023-07-01T00`."""
    return np.arange(hour(text), hour(text) + count, dtype=np.int64)


def location_id(latitude: float, longitude: float) -> int:
    """Compute the id of a grid point by the formula in the table's documentation."""
    while longitude > 180.0:
        longitude -= 360.0
    while longitude <= -180.0:
        longitude += 360.0
    latitude_index = round((latitude + 90.0) / 0.25)
    longitude_index = round((longitude + 179.75) / 0.25)
    return latitude_index * 1440 + longitude_index + 1


@dataclass(frozen=True)
class Weather:
    """Fields by short name, of shape (hour, latitude, longitude), in the units of ERA5's files.

    `hours` are since 1970, in any order; `expver` has one version per hour, None: all final.
    """

    hours: Integers
    latitudes: Floats
    longitudes: Floats
    fields: dict[str, Floats]
    expver: tuple[str, ...] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.hours.size, self.latitudes.size, self.longitudes.size


def weather(
    hours: Integers,
    latitudes: Iterable[float] = (10.5, 10.25, 10.0),
    longitudes: Iterable[float] = (20.0, 20.25, 20.5, 20.75),
    names: Sequence[str] = ("t2m",),
    *,
    seed: int = 1,
    missing: float = 0.0,
    expver: tuple[str, ...] | None = None,
) -> Weather:
    """Make random fields, in which a fraction `missing` of the values is NaN."""
    random = np.random.default_rng(seed)
    north, east = (np.array(list(degrees), dtype=np.float64) for degrees in (latitudes, longitudes))
    fields = {}
    for name in names:
        values = random.uniform(*_RANGES[name], size=(hours.size, north.size, east.size))
        values[random.random(values.shape) < missing] = np.nan
        fields[name] = values.astype(np.float32).astype(np.float64)
    return Weather(hours, north, east, fields, expver)


@dataclass(frozen=True)
class Layout:
    """The layout of files. The default is the Climate Data Store's current one."""

    name: str
    file_format: Literal[
        "NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"
    ] = "NETCDF4"
    time: Literal["valid_time", "time", "days", "scalar"] = "valid_time"
    packed: Literal["no", "i2", "u2", "float32 attributes", "as GRIB"] = "no"
    expver: Literal["absent", "scalar", "per time", "dimension", "not a coordinate"] = "per time"
    longitudes: Literal["as given", "0..360", "-180..180"] = "as given"
    south_first: bool = False
    one_variable_per_file: bool = False
    one_hour_per_file: bool = False
    zipped: bool = False
    suffix: str = ".nc"
    dimension_order: tuple[int, int, int] = (0, 1, 2)
    axis_names: tuple[str, str] = ("latitude", "longitude")
    record_dimension: bool = False
    single_points_without_dimensions: bool = False
    chunks: tuple[int, int, int] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    grib: Form | None = None

    def __str__(self) -> str:
        return self.name


CURRENT = Layout("current")
LEGACY = Layout("legacy, netCDF-3", file_format="NETCDF3_64BIT_OFFSET", time="time", packed="i2", expver="absent")
LAYOUTS = (
    CURRENT,
    Layout("current, expver scalar", expver="scalar"),
    Layout("current, expver absent", expver="absent"),
    Layout("current, expver not a coordinate", expver="not a coordinate"),
    Layout("current, variable by variable", one_variable_per_file=True),
    Layout("current, hour by hour", one_hour_per_file=True),
    Layout("current, hour by hour without time dimension", one_hour_per_file=True, time="scalar", expver="scalar"),
    Layout("current, in one ZIP", zipped=True, one_variable_per_file=True, suffix=".zip"),
    Layout("current, a ZIP that is called .nc", zipped=True),
    Layout("current, 0..360", longitudes="0..360"),
    Layout("current, -180..180", longitudes="-180..180"),
    Layout("current, south first", south_first=True),
    Layout("current, in small chunks", chunks=(5, 2, 3)),
    Layout("current, time last", dimension_order=(1, 2, 0)),
    Layout("current, lat and lon", axis_names=("lat", "lon")),
    Layout("current, without dimensions of one", single_points_without_dimensions=True),
    LEGACY,
    Layout(
        "legacy, netCDF-3 classic, unlimited time", "NETCDF3_CLASSIC", "time", "i2", "absent", record_dimension=True
    ),
    Layout("legacy, netCDF-3 with 64-bit data", "NETCDF3_64BIT_DATA", "time", "u2", "absent"),
    Layout("legacy, netCDF-4", "NETCDF4", "time", "i2", "absent"),
    Layout("legacy, netCDF-4 classic", "NETCDF4_CLASSIC", "time", "i2", "absent"),
    Layout("legacy, unsigned", "NETCDF4", "time", "u2", "absent"),
    Layout("legacy, float32 attributes", "NETCDF4", "time", "float32 attributes", "absent"),
    Layout("legacy, expver dimension", "NETCDF3_64BIT_OFFSET", "time", "i2", "dimension"),
    Layout("legacy, expver dimension, netCDF-4", "NETCDF4", "time", "i2", "dimension"),
    Layout("legacy, not packed", "NETCDF3_64BIT_OFFSET", "time", "no", "absent"),
    Layout("time in days", "NETCDF4", "days", "no", "absent"),
)
_GRIB = Layout("GRIB 1", packed="as GRIB", suffix=".grib", grib=Form())
GRIB_LAYOUTS = (
    _GRIB,
    replace(_GRIB, name="GRIB 1, 16 bits", grib=Form(bits=16)),
    replace(_GRIB, name="GRIB 1, variable by variable", one_variable_per_file=True),
    replace(_GRIB, name="GRIB 1, hour by hour", one_hour_per_file=True),
    replace(_GRIB, name="GRIB 1, in a ZIP", zipped=True, suffix=".zip"),
    replace(_GRIB, name="GRIB 1, south first", grib=Form(scan=(False, True, False, False))),
    replace(_GRIB, name="GRIB 1, by columns, from the south-east", grib=Form(scan=(True, True, True, False))),
    replace(_GRIB, name="GRIB 2", grib=Form(2)),
    replace(_GRIB, name="GRIB 2, CCSDS", grib=Form(2, packing="grid_ccsds")),
    replace(_GRIB, name="GRIB 2, back and forth", grib=Form(2, scan=(False, False, False, True))),
)


def write(folder: Path, of: Weather, layout: Layout = CURRENT, *, stem: str = "era5") -> list[Path]:
    """Write the weather into `folder` in a layout, as one file or several; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [of]
    if layout.one_variable_per_file:
        pieces = [replace(p, fields={name: p.fields[name]}) for p in pieces for name in p.fields]
    if layout.one_hour_per_file:
        pieces = [_one_hour(piece, position) for piece in pieces for position in range(of.hours.size)]
    paths = []
    for number, piece in enumerate(pieces):
        write_one, suffix = (write_grib, ".grib") if layout.grib else (write_netcdf, ".nc")
        path = folder / (f"{stem}-{number}{suffix}" if len(pieces) > 1 or layout.zipped else f"{stem}{layout.suffix}")
        paths.append(write_one(path, piece, layout))
    return [into_zip(folder / f"{stem}{layout.suffix}", paths)] if layout.zipped else paths


def into_zip(target: Path, members: Sequence[Path]) -> Path:
    """Move files into a ZIP file."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.write(member, member.name)
    for member in members:
        member.unlink()
    return target


def _one_hour(of: Weather, position: int) -> Weather:
    chosen = slice(position, position + 1)
    return Weather(
        of.hours[chosen],
        of.latitudes,
        of.longitudes,
        {name: values[chosen] for name, values in of.fields.items()},
        None if of.expver is None else of.expver[chosen],
    )


def write_netcdf(path: Path, of: Weather, layout: Layout = CURRENT) -> Path:
    """Write one netCDF file."""
    of = _arranged(of, layout)
    with netCDF4.Dataset(path, "w", format=layout.file_format) as dataset:
        dataset.setncatts({"Conventions": "CF-1.7"})
        if layout.time == "time":
            dataset.history = STORE_HISTORY
        time_name = _write_time(dataset, of, layout)
        axes = [() if layout.time == "scalar" else (time_name,)]
        standard = (("latitude", "degrees_north"), ("longitude", "degrees_east"))
        for name, (meaning, unit), degrees in zip(
            layout.axis_names, standard, (of.latitudes, of.longitudes), strict=True
        ):
            without = layout.single_points_without_dimensions and degrees.size == 1
            axes.append(() if without else (name,))
            if not without:
                dataset.createDimension(name, degrees.size)
            axis = dataset.createVariable(name, "f4" if layout.time == "time" else "f8", axes[-1])
            axis.setncatts({"units": unit, "standard_name": meaning})
            axis[...] = degrees if axes[-1] else degrees[0]
        _write_expver(dataset, of, layout, axes[0])
        for name, values in of.fields.items():
            _write_variable(dataset, name, values, of, layout, axes)
    return path


def write_grib(path: Path, of: Weather, layout: Layout) -> Path:
    """Write one GRIB file: a message for each variable and hour, totals as ERA5's forecasts of the hour before."""
    assert layout.grib
    with path.open("wb") as file:
        for name, values in of.fields.items():
            step = (11, 12) if ALL_VARIABLES[name][1].startswith(("m of", "J")) or name == "tp" else None
            for number, (at, version) in enumerate(zip(of.hours.tolist(), versions_of(of), strict=True)):
                message = Message(
                    *(ALL_VARIABLES[name][2], at, of.latitudes, of.longitudes, values[number], version, step)
                )
                file.write(encoded(message, layout.grib))
    return path


def _arranged(of: Weather, layout: Layout) -> Weather:
    """Order the coordinates, and choose their range of longitudes, as the layout has them."""
    rows = np.argsort(of.latitudes if layout.south_first else -of.latitudes)
    longitudes = of.longitudes
    if layout.longitudes == "0..360":
        longitudes = longitudes % 360.0
    elif layout.longitudes == "-180..180":
        longitudes = (longitudes + 180.0) % 360.0 - 180.0
    columns = np.argsort(longitudes) if layout.longitudes != "as given" else np.arange(longitudes.size)
    return replace(
        of,
        latitudes=of.latitudes[rows],
        longitudes=longitudes[columns],
        fields={name: values[:, rows][:, :, columns] for name, values in of.fields.items()},
    )


def _write_time(dataset: netCDF4.Dataset, of: Weather, layout: Layout) -> str:
    name = "time" if layout.time == "time" else "valid_time"
    if layout.time != "scalar":
        dataset.createDimension(name, None if layout.record_dimension else of.hours.size)
    kind, units, values = {
        "time": ("i4", "hours since 1900-01-01 00:00:00.0", of.hours + 613_608),
        "days": ("f8", "days since 1970-01-01", of.hours / 24.0),
    }.get(layout.time, ("i8", "seconds since 1970-01-01", of.hours * 3600))
    time = dataset.createVariable(name, kind, () if layout.time == "scalar" else (name,))
    calendar = "gregorian" if layout.time == "time" else "proleptic_gregorian"
    time.setncatts({"units": units, "calendar": calendar, "long_name": "time", "standard_name": "time"})
    time[...] = values[0] if layout.time == "scalar" else values
    return name


def _write_expver(dataset: netCDF4.Dataset, of: Weather, layout: Layout, time: tuple[str, ...]) -> None:
    versions = versions_of(of)
    if layout.expver == "dimension":
        dataset.createDimension("expver", 2)
        expver = dataset.createVariable("expver", "i4", ("expver",))
        expver.setncatts({"long_name": "expver"})
        expver[:] = [1, 5]
    elif layout.expver in ("per time", "not a coordinate"):
        expver = dataset.createVariable("expver", str, time)
        expver[...] = np.array(versions if time else versions[0], dtype=object)
    elif layout.expver == "scalar":
        assert len(set(versions)) == 1
        expver = dataset.createVariable("expver", str, ())
        expver[...] = np.array(versions[0], dtype=object)


def versions_of(of: Weather) -> tuple[str, ...]:
    """List one version per hour; final by default."""
    return of.expver or ("0001",) * of.hours.size


def _write_variable(
    dataset: netCDF4.Dataset, name: str, values: Floats, of: Weather, layout: Layout, axes: Sequence[tuple[str, ...]]
) -> None:
    attributes: dict[str, Any] = {
        "units": ALL_VARIABLES[name][1],
        "long_name": ALL_VARIABLES[name][0].replace("_", " "),
    }
    if layout.time != "time":
        attributes |= {"GRIB_paramId": np.int64(ALL_VARIABLES[name][2]), "GRIB_dataType": "an"}
        coordinates = "number valid_time latitude longitude"
        attributes["coordinates"] = coordinates + (" expver" if layout.expver in ("per time", "scalar") else "")
    stored, packing, kind, fill = _encoded(values, layout)
    order = [position for position in layout.dimension_order if axes[position]]
    dimensions = [axes[position][0] for position in order]
    stored = stored.transpose(layout.dimension_order).reshape(
        [len(dataset.dimensions[d]) or of.hours.size for d in dimensions]
    )
    if layout.expver == "dimension":
        final = np.array([version != "0005" for version in versions_of(of)])[:, np.newaxis, np.newaxis]
        stored = np.stack([np.where(final, stored, fill), np.where(final, fill, stored)], axis=1)
        dimensions.insert(1, "expver")
    options: dict[str, Any] = {}
    if layout.file_format == "NETCDF4" and dimensions:
        options = {"zlib": True, "complevel": 1, "shuffle": True}
        options["chunksizes"] = layout.chunks and [min(c, s) for c, s in zip(layout.chunks, stored.shape, strict=True)]
    variable = dataset.createVariable(name, kind, dimensions, fill_value=fill, **options)
    variable.set_auto_maskandscale(False)
    variable.setncatts(attributes | packing | layout.attributes)
    variable[...] = stored


def _encoded(values: Floats, layout: Layout) -> tuple[npt.NDArray[Any], dict[str, Any], str, Any]:
    """Pack the values; return them with the packing's attributes, the type, and the fill value."""
    if layout.packed == "no":
        return values.astype(np.float32), {}, "f4", np.float32(np.nan)
    scale, offset = packing_of(values, layout)
    numbers = np.rint((values - offset) / scale)
    kind, fill = ("u2", 65535) if layout.packed == "u2" else ("i2", _FILL)
    fill_value = np.dtype(kind).type(fill)
    stored = np.where(np.isnan(values), fill, numbers).astype(kind)
    number = np.float32 if layout.packed == "float32 attributes" else np.float64
    packing = {"scale_factor": number(scale), "add_offset": number(offset), "missing_value": fill_value}
    return stored, packing, kind, fill_value


def packing_of(values: Floats, layout: Layout) -> tuple[float, float]:
    """Compute scale and offset so that the range of values fills the range of packed numbers."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    scale = max((high - low) / 65533.0, 1e-9)
    if layout.packed == "float32 attributes":
        # Not finer than the offset's own rounding, which would move nearly constant fields out of the packed range.
        scale = max(scale, float(np.spacing(np.float32(max(abs(low), abs(high))))))
    offset = low if layout.packed == "u2" else low + 32766.0 * scale
    if layout.packed == "float32 attributes":
        return float(np.float32(scale)), float(np.float32(offset))
    return scale, offset


def joined_months(path: Path, name: str, *, wraps: bool) -> tuple[Path, int]:
    """Two months, the second with the packing of the first; return the number of values that do not fit its numbers.

    They wrap, as where a program casts them to 16 bits, or else the packing is that of both months.
    """
    hours = hours_from("2023-06-01T00", (30 + 31) * 24)
    shape = weather(hours).shape
    day = np.sin(np.arange(hours.size) * (2.0 * np.pi / 24.0))[:, np.newaxis, np.newaxis]
    random = np.random.default_rng(3)
    values = 285.0 + 8.0 * day + np.where(hours < hours[720], 0.0, 4.0)[:, np.newaxis, np.newaxis]
    values = values + np.cumsum(random.normal(0.0, 0.05, shape), axis=0)
    if name == "tcc":
        # Clouds come and go.
        values = random.uniform(0.0, 1.0, shape)
    of = replace(weather(hours), fields={name: values})
    first = replace(of, hours=hours[:720], fields={name: values[:720]}) if wraps else of
    scale, offset = packing_of(first.fields[name], LEGACY)
    write_netcdf(path, of, LEGACY)
    numbers = np.rint((values - offset) / scale).astype(np.int64)
    with netCDF4.Dataset(path, "a") as dataset:
        variable = dataset[name]
        variable.set_auto_maskandscale(False)
        variable.setncatts({"scale_factor": scale, "add_offset": offset})
        stored = numbers.astype(np.int16)
        variable[...] = np.where(stored == _FILL, _FILL + 1, stored)
    return path, int((stored != numbers).sum())


@dataclass(frozen=True)
class Rows:
    """Rows by location and hour; `values` by column, NaN for NULL. A column without values is NULL throughout."""

    locations: Integers
    hours: Integers
    values: dict[str, Floats]

    def sorted(self) -> Rows:
        order = np.lexsort((self.hours, self.locations))
        return Rows(self.locations[order], self.hours[order], {column: v[order] for column, v in self.values.items()})


def expected_rows(of: Weather, month: str) -> Rows:
    """Compute the rows of `month` that the weather must become: all hours and locations, in the units of the table."""
    numbers = [[location_id(north, east) for east in of.longitudes.tolist()] for north in of.latitudes.tolist()]
    locations = np.array(numbers, dtype=np.int64).reshape(-1)
    within = np.array([str(np.datetime64(int(h), "h").astype("datetime64[M]")) == month for h in of.hours], dtype=bool)
    hours = of.hours[within]
    values = {}
    for name, (column, _, _, scale, offset) in VARIABLES.items():
        if name in of.fields:
            values[column] = (of.fields[name][within] * scale + offset).reshape(-1)
    return Rows(np.tile(locations, hours.size), np.repeat(hours, locations.size), values).sorted()


def flat_rows(path: Path) -> Rows:
    """Read the rows of a flat month in Parquet, in the order of the file; default columns that it lacks are NaN."""
    table = pq.read_table(path)
    lacking = np.full(table.num_rows, np.nan)
    micros = table.column("time").cast("int64").to_numpy()
    assert (micros % 3_600_000_000 == 0).all()
    return Rows(
        table.column("location_id").to_numpy().astype(np.int64),
        micros // 3_600_000_000,
        dict.fromkeys(COLUMNS, lacking)
        | {column: table.column(column).to_numpy().astype(np.float64) for column in table.column_names[4:]},
    )


def assert_location_major(rows: Rows) -> None:
    """Each location's hours are consecutive and ascending, and no location occurs twice; so no row does."""
    changes = np.flatnonzero(np.diff(rows.locations)) + 1
    runs = rows.locations[np.concatenate([[0], changes])] if rows.locations.size else rows.locations
    assert np.unique(runs).size == runs.size, "a location occurs in two places of the file"
    ascending = np.diff(rows.hours) > 0
    ascending[changes - 1] = True
    assert ascending.all(), "hours of a location do not ascend"


def assert_same_rows(actual: Rows, expected: Rows, half_steps: dict[str, float] | None = None) -> None:
    """Equal within one step of float32, plus half a packing step for columns in `half_steps`; NULLs are the same."""
    actual = actual.sorted()
    np.testing.assert_array_equal(actual.locations, expected.locations)
    np.testing.assert_array_equal(actual.hours, expected.hours)
    for column in sorted({*COLUMNS, *actual.values, *expected.values}):
        stored = actual.values[column]
        wanted = expected.values.get(column)
        if wanted is None:
            assert np.isnan(stored).all(), f"{column} has values that no file has"
            continue
        np.testing.assert_array_equal(np.isnan(stored), np.isnan(wanted), err_msg=column)
        step = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
        apart = np.abs(stored - wanted) - (half_steps or {}).get(column, 0.0)
        worst = np.nanmax(apart - step, initial=-np.inf)
        assert worst <= 0.0, f"{column} differs by {worst:g} more than one step"


def half_steps_of(of: Weather, layout: Layout) -> dict[str, float]:
    """Compute half the packing step of each column in a file of this layout, in the units of the table."""
    if layout.packed == "no":
        return {}
    if layout.grib:
        return {
            VARIABLES[name][0]: 1.0001 * half_step(values, layout.grib) * VARIABLES[name][3]
            for name, values in of.fields.items()
        }
    return {
        VARIABLES[name][0]: 0.5001 * packing_of(values, layout)[0] * VARIABLES[name][3]
        for name, values in of.fields.items()
    }


def raw_month(
    paths: Iterable[Path],
    month: str,
    *,
    variables: tuple[str, ...] | None = None,
    area: str | None = None,
    off_grid: OffGrid = "refuse",
) -> RawMonth:
    """Describe the files as a source would."""
    files = tuple(RawFile(path, sha256_of(path), path.stat().st_size) for path in paths)
    return RawMonth(Month.parse(month), "files", files, variables, area, off_grid=off_grid)


def flatten(
    paths: Iterable[Path],
    month: str,
    home: Path,
    *,
    flat_format: FlatFormat = "parquet",
    variables: tuple[str, ...] | None = None,
    area: str | None = None,
    off_grid: OffGrid = "refuse",
) -> FlatMonth:
    """Flatten these files into a folder below `home`."""
    raw = raw_month(paths, month, variables=variables, area=area, off_grid=off_grid)
    return flatten_month(raw, home / "flat", home=home, flat_format=flat_format)


@contextmanager
def without_pictures() -> Iterator[None]:
    """Do not draw the preview map, which takes longer than flattening a small month."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("era5_pipeline.draw.maps.preview_map", lambda snapshot: b"")
        yield


def left_behind(home: Path) -> list[str]:
    """List what must not remain below a home: temporary files, and everything in scratch folders."""
    return [
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.name.endswith(".part") or path.parent.name == "scratch"
    ]


@contextmanager
def full_disk(size: int) -> Iterator[Path]:
    """Mount a file system of `size` bytes; skip the test if that is not possible."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk to fill")
    folder = Path(tempfile.mkdtemp(prefix="era5-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        still_in_use = subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode
        if still_in_use:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
        assert not still_in_use, "a file on the full disk was not closed"
