"""A day of the globe flattened from each format of the store: netCDF-4, GRIB 1, and GRIB 2 with CCSDS packing."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from benchmarks.cells import Laps, Measured, PlannedCell, missing_library, planned, rate_ratios
from benchmarks.generated import area_of, flattened, generated_files
from benchmarks.suite import BenchContext, Suite, disk
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_NAME_IN_FILE, in_table_order
from era5_pipeline.netcdf.archive import NetcdfFile, scratch_folder
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline.netcdf.grib import ec_codes, inspect_grib
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.sources.source import RawFile, RawMonth

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NETCDF_4, GRIB_1, GRIB_2 = "netCDF-4", "GRIB 1, 16 bits", "GRIB 2, CCSDS, 16 bits"
_MONTH, _HOURS = Month(2023, 7), 24
_COLUMNS = ("temperature_2m", "zonal_wind_10m")


@dataclass(frozen=True)
class _Day:
    """The hours in each format, made when first needed, in `folder`."""

    folder: Path
    rows: int

    @cached_property
    def netcdf(self) -> RawMonth:
        area = Area.parse("global") if self.rows >= _HOURS * ERA5_GRID.locations else area_of(self.rows / _HOURS)
        return generated_files(self.folder, _MONTH, area, in_table_order(_COLUMNS), _HOURS)

    def grib(self, edition: int, packing: str) -> RawMonth:
        """The same fields, written by ecCodes as the archive does: a message for each variable and hour."""
        path = self.folder / f"{edition}.grib"
        if not path.exists():
            with xr.open_dataset(self.netcdf.files[0].path) as dataset, path.open("wb") as file:
                for variable in dataset.data_vars.values():
                    for number in range(variable.shape[0]):
                        file.write(_message(variable[number], number, edition, packing))
        return replace(self.netcdf, files=(RawFile(path, sha256_of(path), path.stat().st_size),))


def _message(values: xr.DataArray, hour: int, edition: int, packing: str) -> bytes:
    """A field (latitude, longitude) at an hour of the first day, encoded by ecCodes as the archive does."""
    north, east = values["latitude"].to_numpy(), values["longitude"].to_numpy()
    keys = {
        "setLocalDefinition": 1,
        "localDefinitionNumber": 1,
        "class": "ea",
        "stream": "oper",
        "expver": "0001",
        "dataType": "an",
        "paramId": BY_NAME_IN_FILE[str(values.name)].param_id,
        "dataDate": int(f"{_MONTH.year}{_MONTH.month:02d}01"),
        "dataTime": 100 * hour,
        "Ni": east.size,
        "Nj": north.size,
        "latitudeOfFirstGridPointInDegrees": float(north[0]),
        "latitudeOfLastGridPointInDegrees": float(north[-1]),
        "longitudeOfFirstGridPointInDegrees": float(east[0] % 360.0),
        "longitudeOfLastGridPointInDegrees": float(east[-1] % 360.0),
        "iDirectionIncrementInDegrees": 0.25,
        "jDirectionIncrementInDegrees": 0.25,
        "packingType": packing,
        "bitsPerValue": 16,
    }
    eccodes = ec_codes()
    handle = eccodes.codes_grib_new_from_samples(f"regular_ll_sfc_grib{edition}")
    try:
        for name, value in keys.items():
            eccodes.codes_set(handle, name, value)
        eccodes.codes_set_values(handle, values.to_numpy().astype(np.float64).reshape(-1))
        return bytes(eccodes.codes_get_message(handle))
    finally:
        eccodes.codes_release(handle)


def _seconds_to_describe(raw: RawMonth) -> float:
    """The seconds of finding out what the file holds, with nothing kept from before."""
    (path,) = (file.path for file in raw.files)
    is_grib = path.suffix == ".grib"
    clock = Laps()
    contents = inspect_grib(NetcdfFile(path, path, kind="grib")) if is_grib else inspect(NetcdfFile(path, path))
    seconds = clock.lap()
    assert not contents.problems  # noqa: S101  # generated
    return seconds


def _formats_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each format."""
    day = _Day(context.folder / "day", context.rows)
    raws: dict[str, Callable[[], RawMonth]] = {
        NETCDF_4: lambda: day.netcdf,
        GRIB_1: partial(day.grib, 1, "grid_simple"),
        GRIB_2: partial(day.grib, 2, "grid_ccsds"),
    }

    def measure(name: str) -> Measured:
        raw, home = raws[name](), context.folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        describe_seconds = _seconds_to_describe(raw)
        with scratch_folder(home) as scratch:
            inventory = take_inventory(raw, scratch)
            clock = Laps()
            flat = flattened(raw, home, inventory=inventory)
            seconds = clock.lap()
        values = flat.rows * len(_COLUMNS)
        figures = {"seconds": seconds, "values_per_s": values / seconds, "describe_seconds": describe_seconds}
        figures["bytes_per_value"] = sum(file.bytes for file in raw.files) / values
        return Measured(flat.rows, figures, notes={"describe_seconds": "apart, once for a file: of GRIB its index"})

    needs_eccodes = partial(missing_library, ("eccodes",))
    return planned({NETCDF_4: partial(measure, NETCDF_4)}, context.rows) + planned(
        {name: partial(measure, name) for name in (GRIB_1, GRIB_2)}, context.rows, needs_eccodes
    )


FORMATS = Suite(
    name="formats",
    summary="a day of the globe from netCDF-4, GRIB 1 and GRIB 2",
    load="24 hours of the globe, two variables",
    plan=_formats_cells,
    rows=_HOURS * ERA5_GRID.locations,
    repeats=5,
    bytes=disk(0, 4),
    # How fast GRIB is flattened, relative to netCDF-4 with the same fields.
    ratios=rate_ratios({"grib_1_to_netcdf": (GRIB_1, NETCDF_4), "grib_2_to_netcdf": (GRIB_2, NETCDF_4)}),
)
