"""What one netCDF file holds of our variables.

Here: names, units, dimensions, `expver`, packing; legacy and current layouts alike. Values are not read here, only
coordinates. Not here: which coordinate is which axis (`axes`), which month needs what (`inventory`), or reading values
(`reading`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from era5_pipeline.model.hours import as_datetime64, from_datetime64, hours_of_month
from era5_pipeline.model.variables import BY_NAME_IN_FILE, BY_SHORT_NAME, Variable
from era5_pipeline.netcdf.axes import (
    AGAIN,
    FIRST_HOUR,
    ProblemError,
    horizontal_axis,
    hours_along,
    indices_along,
    time_axis,
    times_along,
)
from era5_pipeline.netcdf.classic import required_bytes

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.axes import ProblemKind

UNKNOWN_EXPVER = "unknown"
_EXPVER = "expver"


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
    months = np.unique(as_datetime64(hours).astype("datetime64[M]"))
    return tuple(str(month) for month in months)


def hours_of(month: Month) -> npt.NDArray[np.int64]:
    """All hours of the month, (n,) int64, since 1970-01-01 UTC."""
    return np.array(hours_of_month(month), dtype=np.int64)


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
                Problem(file.shown, "unreadable", f"cannot be read, it is cut off or damaged ({reason})", AGAIN),
            ),
        )
    with dataset:
        # Tools that rewrite files drop the attribute by which xarray knows it for a coordinate.
        return _inspect_dataset(dataset.set_coords([_EXPVER] if _EXPVER in dataset.data_vars else []), file.shown)


def _require_whole(path: Path) -> None:
    required, size = required_bytes(path), path.stat().st_size
    if required is not None and size < required:
        raise ValueError(f"{size} of {required} bytes")


def _inspect_dataset(dataset: xr.Dataset, shown: str) -> Contents:
    fields: list[Field] = []
    problems: list[Problem] = []
    for name, variable in _ours(dataset):
        array = dataset[name]
        try:
            _require_units(array, str(name), variable)
            fields.extend(_fields(array, str(name), variable, hours_along(array)))
        except ProblemError as error:
            months = _months_if_known(array)
            problem = Problem(shown, error.kind, error.text, error.remedy, months)
            if problem not in problems:  # one grid off 0.25 degrees is one problem, not one per variable
                problems.append(problem)
        except Exception as error:  # noqa: BLE001  # reading coordinates of a damaged file raises nearly anything
            problems.append(Problem(shown, "unreadable", f"{name} cannot be read ({error})", AGAIN))
    if not fields and not problems:
        held = ", ".join(sorted(str(name) for name in dataset.data_vars)) or "nothing"
        text = f"holds none of our variables ({', '.join(BY_SHORT_NAME)}); it holds {held}"
        problems.append(Problem(shown, "nothing", text, "Move it out of the folder, or add one that does."))
    return Contents(tuple(fields), tuple(problems))


def _months_if_known(array: xr.DataArray) -> tuple[str, ...]:
    try:
        hours = from_datetime64(times_along(array))
    except ProblemError:
        return ()
    return months_of(hours[hours >= FIRST_HOUR])


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


def _fields(array: xr.DataArray, name: str, variable: Variable, hours: npt.NDArray[np.int64]) -> Iterator[Field]:
    latitude = horizontal_axis(array, "latitude")
    longitude = horizontal_axis(array, "longitude")
    time_dimension = time_axis(array).dims
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
        latitude_index=indices_along(latitude, "latitude"),
        longitude_index=indices_along(longitude, "longitude"),
        half_step=0.5 * abs(float(array.encoding.get("scale_factor", 0.0)) * variable.scale),
        chunks=(_size(chunksizes, axes[0]), _size(chunksizes, axes[1]), _size(chunksizes, axes[2])),
        dimensions=(axes[0], axes[1], axes[2]),
    )
    if _EXPVER in array.dims:
        versions = array.coords[_EXPVER].values if _EXPVER in array.coords else ()
        if len(versions) != array.sizes[_EXPVER]:
            raise ProblemError("dimensions", f"{name} has an expver dimension without values", AGAIN)
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
        raise ProblemError("dimensions", f"{array.name} has {texts.size} versions (expver) for {size} times", AGAIN)
    return np.full(size, texts[0]) if texts.size == 1 else texts


def expver_text(value: object) -> str:
    """`1`, `"1"` and `"0001"` as "0001"; what is no number as it is."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    text = text.strip().removesuffix(".0")
    return f"{int(text):04d}" if text.isdigit() else text or UNKNOWN_EXPVER
