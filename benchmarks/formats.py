"""A day of the globe flattened from each format of the store: netCDF-4, GRIB 1, and GRIB 2 with CCSDS packing."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from benchmarks.cells import CannotRunError, Measured, PlannedCell, rate_ratio
from benchmarks.generated import area_of
from benchmarks.suite import FILE_ROW_BYTES
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.model.grid import N_LOCATIONS, Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_NAME_IN_FILE, in_table_order
from era5_pipeline.netcdf.archive import NetcdfFile, scratch_folder
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline.netcdf.grib import ec_codes, inspect_grib
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import RawFile, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from benchmarks.cells import Entries
    from benchmarks.suite import BenchContext
    from era5_pipeline.sources.source import RawMonth

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
        area = Area.parse("global") if self.rows >= _HOURS * N_LOCATIONS else area_of(self.rows / _HOURS)
        request = Request(in_table_order(_COLUMNS), area)
        return SampleSource(self.folder / "raw", request, _HOURS).fetch(_MONTH)

    def grib(self, edition: int, packing: str) -> RawMonth:
        """The same fields, written by ecCodes as the archive does: a message for each variable and hour."""
        path = self.folder / f"{edition}.grib"
        if not path.exists():
            with xr.open_dataset(self.netcdf.files[0].path) as dataset, path.open("wb") as file:
                for name, variable in dataset.data_vars.items():
                    for number in range(variable.shape[0]):
                        message = _Message(dataset, str(name), number, edition, packing)
                        file.write(message.encoded())
        return replace(self.netcdf, files=(RawFile(path, sha256_of(path), path.stat().st_size),))


@dataclass(frozen=True)
class _Message:
    dataset: xr.Dataset
    name: str
    number: int
    edition: int
    packing: str

    def encoded(self) -> bytes:
        eccodes = ec_codes()
        handle = eccodes.codes_grib_new_from_samples(f"regular_ll_sfc_grib{self.edition}")
        try:
            for name, value in self._keys().items():
                eccodes.codes_set(handle, name, value)
            values = self.dataset[self.name][self.number].to_numpy()
            eccodes.codes_set_values(handle, values.astype(np.float64).reshape(-1))
            return bytes(eccodes.codes_get_message(handle))
        finally:
            eccodes.codes_release(handle)

    def _keys(self) -> dict[str, Any]:
        north, east = (self.dataset[axis].to_numpy() for axis in ("latitude", "longitude"))
        return {
            "setLocalDefinition": 1,
            "localDefinitionNumber": 1,
            "class": "ea",
            "stream": "oper",
            "expver": "0001",
            "dataType": "an",
            "paramId": BY_NAME_IN_FILE[self.name].param_id,
            "dataDate": int(f"{_MONTH.year}{_MONTH.month:02d}01"),
            "dataTime": 100 * self.number,
            "Ni": east.size,
            "Nj": north.size,
            "latitudeOfFirstGridPointInDegrees": float(north[0]),
            "latitudeOfLastGridPointInDegrees": float(north[-1]),
            "longitudeOfFirstGridPointInDegrees": float(east[0] % 360.0),
            "longitudeOfLastGridPointInDegrees": float(east[-1] % 360.0),
            "iDirectionIncrementInDegrees": 0.25,
            "jDirectionIncrementInDegrees": 0.25,
            "packingType": self.packing,
            "bitsPerValue": 16,
        }


def _seconds_to_describe(raw: RawMonth) -> float:
    """The seconds of finding out what the file holds, with nothing kept from before."""
    (path,) = (file.path for file in raw.files)
    is_grib = path.suffix == ".grib"
    started = time.monotonic()
    contents = inspect_grib(NetcdfFile(path, path, kind="grib")) if is_grib else inspect(NetcdfFile(path, path))
    seconds = time.monotonic() - started
    assert not contents.problems  # noqa: S101  # generated
    return seconds


@contextmanager
def formats_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each format."""
    day = _Day(context.folder / "day", context.rows)
    raws: dict[str, Callable[[], RawMonth]] = {
        NETCDF_4: lambda: day.netcdf,
        GRIB_1: partial(day.grib, 1, "grid_simple"),
        GRIB_2: partial(day.grib, 2, "grid_ccsds"),
    }

    def measure(name: str) -> Measured:
        if name != NETCDF_4 and find_spec("eccodes") is None:
            raise CannotRunError("the library eccodes is not installed")
        raw = raws[name]()
        home = context.folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        describe_seconds = _seconds_to_describe(raw)
        with scratch_folder(home) as scratch:
            inventory = take_inventory(raw, scratch)
            started = time.monotonic()
            flat = flatten_month(raw, home / "flat", home=home, flat_format="parquet", inventory=inventory)
            seconds = time.monotonic() - started
        size = sum(file.bytes for file in raw.files)
        values = flat.rows * len(_COLUMNS)
        figures = {
            "seconds": seconds,
            "values_per_s": values / seconds,
            "bytes_per_value": size / values,
            "describe_seconds": describe_seconds,
        }
        return Measured(flat.rows, figures, notes={"describe_seconds": "apart, once for a file: of GRIB its index"})

    yield [PlannedCell(name, context.rows, {}, partial(measure, name)) for name in raws]
    shutil.rmtree(day.folder, ignore_errors=True)


def formats_ratios(entries: Entries) -> dict[str, float | None]:
    """How fast GRIB is flattened, relative to netCDF-4 with the same fields."""
    return {
        "grib_1_to_netcdf": rate_ratio(entries, GRIB_1, NETCDF_4),
        "grib_2_to_netcdf": rate_ratio(entries, GRIB_2, NETCDF_4),
    }


def formats_bytes(context: BenchContext) -> int:
    """Bytes on disk for the day in each format, and flattened."""
    return 4 * context.rows * FILE_ROW_BYTES
