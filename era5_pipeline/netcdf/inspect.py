"""What one netCDF file holds of our variables, its axes found by meaning.

Here: names, units, dimensions, `expver`, packing; legacy and current layouts alike. Values are not read here, only
coordinates. Not here: which month needs what (`inventory`), or reading values (`era5_pipeline.flatten`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import xarray as xr

from era5_pipeline import grid
from era5_pipeline.months import FIRST_YEAR, Month
from era5_pipeline.netcdf.classic import required_bytes
from era5_pipeline.variables import BY_NAME_IN_FILE, BY_SHORT_NAME, Variable

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.netcdf.archive import NetcdfFile

ProblemKind = Literal["unreadable", "grid", "units", "dimensions", "time", "nothing"]

UNKNOWN_EXPVER = "unknown"
_EXPVER = "expver"
_BEGIN = int(np.datetime64(f"{FIRST_YEAR}-01-01", "h").astype(np.int64))
_TIME_NAMES = ("valid_time", "time")
_LATITUDE = ("degrees_north", "degree_north", "degrees_n", "latitude")
_LONGITUDE = ("degrees_east", "degree_east", "degrees_e", "longitude")


class ProblemError(Exception):
    """Raised within this module to leave the inspection of a variable or file."""

    def __init__(self, kind: ProblemKind, text: str, remedy: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.remedy = remedy


@dataclass(frozen=True)
class Problem:
    """Why a file, or a variable in it, cannot be used. `months` are those it would have served, if known."""

    file: str
    kind: ProblemKind
    text: str
    remedy: str
    months: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


@dataclass(frozen=True)
class Field:
    """One variable in one netCDF file, at one `expver` class where that is a dimension.

    `hours` (n,) int64 are hours since 1970-01-01 UTC in file order; `expver` (n,) is the version of each, "unknown"
    where the file does not say; `latitude_index`, `longitude_index` are grid indices in file order; `expver_position`
    selects in an expver dimension; `half_step` is half the packing step in the stored unit, 0 where not packed;
    `chunks` are the file's own along (time, latitude, longitude), 0 where contiguous, and `dimensions` the names of the
    three, None where the file has a single value without a dimension.
    """

    column: str
    name: str
    hours: npt.NDArray[np.int64]
    expver: npt.NDArray[np.str_]
    latitude_index: npt.NDArray[np.int32]
    longitude_index: npt.NDArray[np.int32]
    half_step: float
    chunks: tuple[int, int, int]
    dimensions: tuple[str | None, str | None, str | None]
    expver_position: int | None = None

    @property
    def months(self) -> tuple[str, ...]:
        """The months it has hours of."""
        return months_of(self.hours)


@dataclass(frozen=True)
class Contents:
    """What one netCDF file holds: usable fields, and what stands in the way of others."""

    fields: tuple[Field, ...]
    problems: tuple[Problem, ...]


def months_of(hours: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """The distinct months, `YYYY-MM`, of hours since 1970-01-01 UTC."""
    months = np.unique(hours.astype("datetime64[h]").astype("datetime64[M]"))
    return tuple(str(month) for month in months)


def hours_of(month: Month) -> npt.NDArray[np.int64]:
    """All hours of the month, (n,) int64, since 1970-01-01 UTC."""
    first = int(month.start.timestamp()) // 3600
    return np.arange(first, first + month.hours, dtype=np.int64)


def open_netcdf(file: NetcdfFile) -> xr.Dataset:
    """Open with CF decoding (masked, scaled, times), values untouched until asked for.

    Raises:
        OSError, ValueError, RuntimeError: whatever the library says of a file that it cannot read.
    """
    return xr.open_dataset(file.path, engine="netcdf4", decode_timedelta=False, cache=False)


def inspect(file: NetcdfFile) -> Contents:
    """Find our variables in a netCDF file. Never raises for what the file is: that is a `Problem`."""
    try:
        _require_whole(file.path)
        dataset = open_netcdf(file)
    except Exception as error:  # noqa: BLE001  # the libraries raise nearly anything for damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        reason = reason.replace(str(file.path), file.source.name)
        return Contents(
            fields=(),
            problems=(
                Problem(file.shown, "unreadable", f"cannot be read, it is cut off or damaged ({reason})", _AGAIN),
            ),
        )
    with dataset:
        # Tools that rewrite files drop the attribute by which xarray knows it for a coordinate.
        return _inspect_dataset(dataset.set_coords([_EXPVER] if _EXPVER in dataset.data_vars else []), file.shown)


def _require_whole(path: Path) -> None:
    required, size = required_bytes(path), path.stat().st_size
    if required is not None and size < required:
        raise ValueError(f"{size} of {required} bytes")


_AGAIN = "Download it again, or move it out of the folder."
_ON_GRID = (
    "Ask the Climate Data Store for reanalysis-era5-single-levels with area borders on multiples of 0.25 degrees "
    "(ERA5-Land and regridded or shifted files do not fit this table)."
)


def _inspect_dataset(dataset: xr.Dataset, shown: str) -> Contents:
    fields: list[Field] = []
    problems: list[Problem] = []
    for name, variable in _ours(dataset):
        array = dataset[name]
        try:
            _require_units(array, str(name), variable)
            fields.extend(_fields(array, str(name), variable, _hours(array)))
        except ProblemError as error:
            months = _months_if_known(array)
            problem = Problem(shown, error.kind, error.text, error.remedy, months)
            if problem not in problems:  # one grid off 0.25 degrees is one problem, not one per variable
                problems.append(problem)
        except Exception as error:  # noqa: BLE001  # reading coordinates of a damaged file raises nearly anything
            problems.append(Problem(shown, "unreadable", f"{name} cannot be read ({error})", _AGAIN))
    if not fields and not problems:
        held = ", ".join(sorted(str(name) for name in dataset.data_vars)) or "nothing"
        text = f"holds none of our variables ({', '.join(BY_SHORT_NAME)}); it holds {held}"
        problems.append(Problem(shown, "nothing", text, "Move it out of the folder, or add one that does."))
    return Contents(tuple(fields), tuple(problems))


def _months_if_known(array: xr.DataArray) -> tuple[str, ...]:
    try:
        hours = _times(array).astype("datetime64[h]").astype(np.int64)
    except ProblemError:
        return ()
    return months_of(hours[hours >= _BEGIN])


def _ours(dataset: xr.Dataset) -> Iterator[tuple[Hashable, Variable]]:
    for name in dataset.data_vars:
        variable = BY_NAME_IN_FILE.get(str(name))
        if variable is not None:
            yield name, variable


def _require_units(array: xr.DataArray, name: str, variable: Variable) -> None:
    units = str(array.attrs.get("units", "")).strip()
    # NCAR's files number the parameters of ECMWF's table 128, which are paramIds as they are.
    number = array.attrs.get("GRIB_paramId", array.attrs.get("ecmwf_parameter"))
    if units in variable.file_units and (number is None or int(number) == variable.param_id):
        return
    what = str(array.attrs.get("long_name") or array.attrs.get("standard_name") or "").replace("_", " ").strip()
    is_what = f"{name} is {what} in {units or 'no units'}" if what else f"{name} is in {units or 'no units'}"
    if units in variable.file_units:
        is_what = f"{name} is parameter {number}"
    raise ProblemError(
        "units",
        f"{is_what}, not {variable.description.lower().partition(',')[0]} "
        f"(parameter {variable.param_id}, in {' or '.join(variable.file_units)})",
        f"Ask for {variable.cds_name} of reanalysis-era5-single-levels, or move the file out of the folder.",
    )


def _is(coordinate: xr.DataArray, words: tuple[str, ...]) -> bool:
    meanings = (coordinate.attrs.get("units"), coordinate.attrs.get("standard_name"), coordinate.name)
    return any(str(meaning).lower() in words for meaning in meanings if meaning is not None)


def _coordinate(array: xr.DataArray, words: tuple[str, ...], what: str) -> xr.DataArray:
    found: list[xr.DataArray] = [coordinate for coordinate in array.coords.values() if _is(coordinate, words)]
    if not found:
        raise ProblemError("dimensions", f"{array.name} has no {what}", "Ask for a plain latitude-longitude grid.")
    if len(found) > 1 or found[0].ndim > 1:
        raise ProblemError(
            "dimensions", f"{array.name} is not on a latitude-longitude grid ({what} is two-dimensional)", _ON_GRID
        )
    return found[0]


def _time(array: xr.DataArray) -> xr.DataArray:
    times: list[xr.DataArray] = [array.coords[name] for name in _TIME_NAMES if name in array.coords]
    times += [c for c in array.coords.values() if c.name not in _TIME_NAMES and c.attrs.get("standard_name") == "time"]
    # With both, valid_time is the time of the value; in cfgrib's files `time` may be that of the forecast.
    times = [c.squeeze(drop=True) if c.ndim > 1 else c for c in times if np.issubdtype(c.dtype, np.datetime64)]
    if not times or times[0].ndim > 1:
        raise ProblemError(
            "dimensions", f"{array.name} has no time coordinate that can be read", "Ask for hourly data with times."
        )
    return times[0]


def _times(array: xr.DataArray) -> npt.NDArray[np.datetime64]:
    """The times, to the second: days as fractions miss the hour by a few nanoseconds."""
    times = np.atleast_1d(_time(array).values).astype("datetime64[ms]")
    if np.isnat(times).any():
        raise ProblemError("time", "its time coordinate holds fill values", _AGAIN)
    return (times + np.timedelta64(500, "ms")).astype("datetime64[s]")


def _hours(array: xr.DataArray) -> npt.NDArray[np.int64]:
    times = _times(array)
    if not times.size:
        raise ProblemError("time", f"{array.name} has no times, writing the file was not finished", _AGAIN)
    hours = times.astype("datetime64[h]")
    off = times != hours
    if off.any():
        raise ProblemError("time", f"time {times[off][0]} is not on the hour", "Ask for hourly data, on the hour.")
    numbers = hours.astype(np.int64)
    if numbers.min() < _BEGIN:
        raise ProblemError("time", f"time {hours.min()}:00 is before ERA5 begins, {FIRST_YEAR}", _AGAIN)
    distinct, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        twice = distinct[counts > 1][0].astype("datetime64[h]")
        raise ProblemError("time", f"time {twice}:00 occurs more than once", "Download it again without doubles.")
    return numbers


def _indices(coordinate: xr.DataArray, what: Literal["latitude", "longitude"]) -> npt.NDArray[np.int32]:
    degrees = np.atleast_1d(np.asarray(coordinate.values, dtype=np.float64))
    # netCDF's default fill value is 9.97e36 and often not declared; no degree is near it.
    if not (np.abs(degrees) < 1e6).any():
        raise ProblemError("grid", f"{what} holds only fill values", _AGAIN)
    try:
        indices = grid.latitude_indices(degrees) if what == "latitude" else grid.longitude_indices(degrees)
    except ValueError as error:
        raise ProblemError("grid", str(error), _ON_GRID) from None
    # Some global files repeat the first meridian as the last one (0 and 360): the first of the two is kept.
    if np.unique(np.rint(degrees / grid.STEP_DEGREES)).size != degrees.size:
        raise ProblemError("grid", f"a {what} occurs more than once", _AGAIN)
    return indices


def _fields(array: xr.DataArray, name: str, variable: Variable, hours: npt.NDArray[np.int64]) -> Iterator[Field]:
    latitude = _coordinate(array, _LATITUDE, "latitude")
    longitude = _coordinate(array, _LONGITUDE, "longitude")
    time_dimension = _time(array).dims
    known = {*time_dimension, *latitude.dims, *longitude.dims, _EXPVER}
    for dimension, size in array.sizes.items():
        if dimension not in known and size != 1:
            raise ProblemError(
                "dimensions",
                f"{name} has {size} values along {dimension}, one was expected",
                "Ask for single levels, product type reanalysis (no ensemble members).",
            )
    chunksizes = dict(zip(map(str, array.dims), array.encoding.get("chunksizes") or (), strict=False))
    axes = [str(dims[0]) if dims else None for dims in (time_dimension, latitude.dims, longitude.dims)]
    field = Field(
        column=variable.column,
        name=name,
        hours=hours,
        expver=np.full(hours.shape, UNKNOWN_EXPVER),
        latitude_index=_indices(latitude, "latitude"),
        longitude_index=_indices(longitude, "longitude"),
        half_step=0.5 * abs(float(array.encoding.get("scale_factor", 0.0)) * variable.scale),
        chunks=(_size(chunksizes, axes[0]), _size(chunksizes, axes[1]), _size(chunksizes, axes[2])),
        dimensions=(axes[0], axes[1], axes[2]),
    )
    if _EXPVER in array.dims:
        versions = array.coords[_EXPVER].values if _EXPVER in array.coords else ()
        if len(versions) != array.sizes[_EXPVER]:
            raise ProblemError("dimensions", f"{name} has an expver dimension without values", _AGAIN)
        for position, version in enumerate(versions):
            yield replace(field, expver=np.full(hours.shape, expver_text(version)), expver_position=position)
    else:
        yield replace(field, expver=_expver(array, hours.size))


def _size(chunksizes: dict[str, int], axis: str | None) -> int:
    return 0 if axis is None else int(chunksizes.get(axis, 0))


def _expver(array: xr.DataArray, size: int) -> npt.NDArray[np.str_]:
    if _EXPVER not in array.coords:
        return np.full(size, UNKNOWN_EXPVER)
    values = np.atleast_1d(array.coords[_EXPVER].values)
    texts = np.array([expver_text(value) for value in values.reshape(-1)])
    if texts.size not in (1, size):
        raise ProblemError("dimensions", f"{array.name} has {texts.size} versions (expver) for {size} times", _AGAIN)
    return np.full(size, texts[0]) if texts.size == 1 else texts


def expver_text(value: object) -> str:
    """`1`, `"1"` and `"0001"` as "0001"; what is no number as it is."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    text = text.strip().removesuffix(".0")
    return f"{int(text):04d}" if text.isdigit() else text or UNKNOWN_EXPVER
