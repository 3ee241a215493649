"""Find our variables in one netCDF file, in legacy and current layouts.

Handles names, units, dimensions, `expver` and packing; reads only coordinates. For identifying the axes see `axes`, for
what a month needs `flat.inventory`, for reading values `field_reader`.
"""

from __future__ import annotations

import re
import shlex
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import xarray as xr

from era5_pipeline.model.dataset import DATASETS, ERA5
from era5_pipeline.model.grid import Shift  # noqa: TC001  # pydantic reads a kept `Problem`
from era5_pipeline.model.times import as_datetime64, from_datetime64, hour_of, hours_of_month
from era5_pipeline.model.variables import QUANTITIES, Variable, why_unsupported
from era5_pipeline.netcdf import axes, refusals
from era5_pipeline.netcdf.recognise import is_hdf5
from era5_pipeline.netcdf.signs import Told, told_by

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import numpy.typing as npt

    from era5_pipeline.model.dataset import Accumulation, Dataset
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.source_kinds import Origin
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.refusals import Aggregate

UNKNOWN_EXPVER = "unknown"
_PARAMETER = "GRIB_paramId"
# Packed numbers of more bytes do not overflow.
_PACKED_BYTES = 2
_EXPVER = "expver"
_GET_WHOLE = (
    "Download it from the Climate Data Store, or copy all of it into one file (nccopy IN OUT); or move it out of the "
    "folder."
)
_LEVELS = ("pressure_level", "isobaricInhPa", "level", "plev", "model_level", "hybrid")
TYPES_OF_LEVEL = {
    "isobaricInhPa": "pressure levels",
    "isobaricInPa": "pressure levels",
    "hybrid": "model levels",
}
_HORIZONTAL: tuple[Literal["latitude", "longitude"], ...] = ("latitude", "longitude")
# Stands for the folder of the files in a command that loads them; who knows it puts it there.
FOLDER = "DIR"
_FLUXES = frozenset(
    unit for name in ("energy_flux", "mass_flux", "stress", "speed") for unit in QUANTITIES[name].file_units
)


@dataclass(frozen=True)
class Problem:
    """Why a file, or a variable in it, cannot be used.

    `months` are the affected months, if known; `columns` the affected variables, () for the whole file. `area` is the
    one to request instead, if the points are not those of the grid, and `otherwise` what the remedy says besides; with
    a `shift` the variables are among the file's fields too, for users who take each value to its nearest point. They
    also are if the problem `is_of_origin`: the file says that its values are not hourly ones of the data set, and the
    user may know better; and if it `lacks_accumulation`: nothing tells over what amounts run, and the user may say.
    `wanted` is the name of the data set that was asked for; `instead` says how the values are loaded into the table of
    the other one that they are of, if they can be.
    """

    file: str
    kind: axes.ProblemKind
    text: str
    remedy: str
    months: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    area: str | None = None
    shift: Shift | None = None
    is_of_origin: bool = False
    otherwise: str = ""
    lacks_accumulation: bool = False
    wanted: str = ERA5.name
    instead: str | None = None

    def concerns(self, month: Month, columns: Iterable[str]) -> bool:
        """Return True if the problem affects the month and at least one of these columns."""
        return (not self.months or str(month) in self.months) and (
            not self.columns or not set(self.columns).isdisjoint(columns)
        )

    @property
    def may_be_era5(self) -> bool:
        """True if the file has variables of the catalogue, or its variables are unknown."""
        return bool(self.columns) or self.kind in ("unreadable", "library")

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


@dataclass(frozen=True)
class Field:
    """One variable in one netCDF file; if expver is a dimension, one version of it.

    `hours` (n,) int64 are hours since 1970-01-01 UTC in file order; `expver` (n,) is the version of each, "unknown" if
    the file does not say; `latitude_index`, `longitude_index` are grid indices in file order; `expver_position` is the
    position along an expver dimension; `half_step` is half the packing step in the table's unit, 0 if not packed;
    `chunks` are the file's own along (time, latitude, longitude), 0 if contiguous; `dimensions` are the names of these
    three, None for a single value without a dimension; `states_step_type`: whether the file's step type says that its
    values are hourly; `shift` is that of values between the grid points, whose indices are then the nearest. `origin`
    says whether the file shows that its values are of the data set; if it says otherwise, only the user's word can be
    trusted. `packed_range` is the range of values that its packed numbers can express, in the table's unit; 0 if it is
    not packed into 16 bits or fewer. `accumulation` says over what an accumulated value runs: the hour that ends, or
    the day since 00 UTC; None: the file does not tell, and the user must.
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
    states_step_type: bool = False
    shift: Shift | None = None
    origin: Origin = "stated"
    packed_range: float = 0.0
    accumulation: Accumulation | None = "hour"

    @cached_property
    def months(self) -> tuple[str, ...]:
        """The months, `YYYY-MM`, with any of its hours."""
        return months_of(self.hours)

    def positions_in(self, month: Month) -> npt.NDArray[np.intp]:
        """The positions in the file, (n,) ascending, of the month's hours."""
        first = hour_of(month.start)
        if self._is_in_order:
            # A point series has every hour since 1940, and this runs for each of its months.
            return np.arange(*np.searchsorted(self.hours, (first, first + month.hours)))
        return np.flatnonzero((self.hours >= first) & (self.hours < first + month.hours))

    @cached_property
    def _is_in_order(self) -> bool:
        return bool((np.diff(self.hours) > 0).all())

    @property
    def is_from_the_north(self) -> bool:
        """True if latitudes descend, as in files of the CDS; those of the table ascend."""
        return bool(self.latitude_index[0] > self.latitude_index[-1])


@dataclass(frozen=True)
class Contents:
    """The usable fields of one netCDF file, and the problems of the unusable ones; shifted fields have one, too.

    `left_out` are variables that are not in the catalogue, and why the table cannot hold them.
    """

    fields: tuple[Field, ...]
    problems: tuple[Problem, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def at(self, hours: range, versions: tuple[str, ...]) -> Contents:
        """The contents of a file that differs only in its hours (since 1970) and their versions, () if it states none.

        It has as many hours, in one file each time and without an expver dimension.
        """
        of_hours = np.array(hours, dtype=np.int64)
        of_versions = np.array(versions) if versions else _repeated(UNKNOWN_EXPVER, of_hours.size)
        return replace(self, fields=tuple(replace(one, hours=of_hours, expver=of_versions) for one in self.fields))


def months_of(hours: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """The distinct months, `YYYY-MM`, of these hours since 1970-01-01 UTC."""
    months = np.unique(as_datetime64(hours).astype("datetime64[M]"))
    return tuple(str(month) for month in months)


def distinct_texts(texts: npt.NDArray[np.str_]) -> list[str]:
    """The distinct texts, such as versions by hour, ascending."""
    if texts.size and (texts == texts[0]).all():  # nearly always, and found in a tenth of the time
        return [str(texts[0])]
    return [str(text) for text in np.unique(texts)]


def hours_of(month: Month) -> npt.NDArray[np.int64]:
    """All hours of the month, (n,) int64, since 1970-01-01 UTC."""
    return np.array(hours_of_month(month), dtype=np.int64)


def open_netcdf(file: NetcdfFile) -> xr.Dataset:
    """Open with CF decoding (masks, scales, times), without reading values yet."""
    return xr.open_dataset(file.path, engine="netcdf4", decode_timedelta=False, cache=False)


def inspect(file: NetcdfFile, dataset: Dataset = ERA5) -> Contents:
    """Find variables of the data set in a netCDF file. An unusable file never raises, but gives a `Problem`."""
    with warnings.catch_warnings():
        # xarray's, of what it cannot decode: what matters is a problem.
        warnings.simplefilter("ignore", RuntimeWarning)
        return _inspect(file, dataset)


def _inspect(file: NetcdfFile, dataset: Dataset) -> Contents:
    try:
        required, size = refusals.required_bytes(file.path), file.path.stat().st_size
        if required is not None and size < required:
            raise ValueError(f"{size} of {required} bytes")  # noqa: TRY301  # a damaged file, as the library says of others
        unwritten = refusals.require_own_data(file.path, dataset.grid, is_hdf5=is_hdf5(file.path))
        opened = open_netcdf(file)
    except refusals.ForeignDataError as error:
        return Contents(fields=(), problems=(Problem(file.shown, "unreadable", str(error), _GET_WHOLE),))
    except Exception as error:  # noqa: BLE001  # the libraries raise nearly anything for damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        reason = reason.replace(str(file.path), file.source.name)
        text = f"cannot be read, it is cut off or damaged ({reason})"
        return Contents(fields=(), problems=(Problem(file.shown, "unreadable", text, axes.AGAIN),))
    with opened:
        # Tools that rewrite files drop the attribute by which xarray recognises expver as a coordinate.
        coordinates = [_EXPVER] if _EXPVER in opened.data_vars else []
        held = opened.set_coords(coordinates)
        named = ((array, _variable_of(array, dataset)) for array in held.data_vars.values())
        ours = [(array, variable) for array, variable in named if variable is not None]
        return describe_fields(
            ours, held.data_vars.values(), file.shown, held.attrs, unwritten, dataset=dataset
        ).contents


def _variable_of(array: xr.DataArray, dataset: Dataset) -> Variable | None:
    """The variable of an array by its name; by its number, if ERA5 gives the name to another than the data set does."""
    catalogue, name = dataset.catalogue, str(array.name)
    number = array.attrs.get(_PARAMETER)
    if number is not None and catalogue.base is not None:
        of_era5 = catalogue.base.by_name_in_file.get(name)
        if of_era5 is not None and of_era5.param_id == int(number) and of_era5.param_id in catalogue.by_param_id:
            return catalogue.by_param_id[of_era5.param_id]
    return catalogue.by_name_in_file.get(name)


@dataclass(frozen=True)
class Described:
    """The contents of a file, and which of its fields come from which array."""

    contents: Contents
    by_array: tuple[tuple[xr.DataArray, tuple[Field, ...]], ...]


def describe_fields(
    arrays: Iterable[tuple[xr.DataArray, Variable]],
    held: Collection[xr.DataArray],
    shown: str,
    of_file: Mapping[str, Any],
    unwritten: frozenset[str] = frozenset(),
    *,
    dataset: Dataset = ERA5,
) -> Described:
    """Describe variables of the data set in a file, by their axes and attributes, and say which cannot be used.

    `held` are all its variables, `of_file` are its own attributes, `unwritten` the variables without values.
    """
    of_all = _OfFile.described(of_file, shown, dataset)
    found: list[tuple[xr.DataArray, tuple[Field, ...]]] = []
    problems: list[Problem] = []
    for array, variable in arrays:
        name = array.name
        try:
            _require_written(array, unwritten)
            fields, problem = _fields_of(array, variable, of_all)
            found.append((array, fields))
            if problem is not None:
                problems.append(_problem(of_all, array, variable, problem))
        except axes.ProblemError as error:
            problems.append(_problem(of_all, array, variable, error))
        except Exception as error:  # noqa: BLE001  # reading coordinates of a damaged file raises nearly anything
            problems.append(
                Problem(shown, "unreadable", f"{name} cannot be read ({error})", axes.AGAIN, columns=(variable.column,))
            )
    if not found and not problems:
        of = "the catalogue" if dataset == ERA5 else dataset.short_title
        text = f"holds none of the variables of {of}; it holds {_described(held, dataset)}"
        remedy = "Move it out of the folder, or add one that does (era5 variables lists them)."
        problems.append(Problem(shown, "nothing", text, remedy))
    fields = tuple(one for _, of_array in found for one in of_array)
    return Described(Contents(fields, tuple(_merged(problems)), tuple(_left_out(held, dataset))), tuple(found))


@dataclass(frozen=True)
class _OfFile:
    """Name and attributes of a file, which hold for all its variables, and what they state of the `dataset` asked for.

    `is_stated`: they show that all are of it; otherwise a variable's own attributes may.
    """

    dataset: Dataset
    shown: str
    attributes: Mapping[str, Any]
    aggregates: tuple[Aggregate, ...]
    is_stated: bool

    @classmethod
    def described(cls, attributes: Mapping[str, Any], shown: str, dataset: Dataset) -> _OfFile:
        aggregates = refusals.aggregates_stated_by(attributes, dataset)
        is_stated = refusals.states_dataset(attributes, Path(shown).name, dataset)
        return cls(dataset, shown, attributes, aggregates, is_stated)

    def told_by(self, array: xr.DataArray, variable: Variable) -> Told:
        """The data set and accumulation of a variable by the signs in its file; none for a data set without signs."""
        if self.dataset not in DATASETS.values():
            return Told(None, None, ())
        degrees = []
        for what in _HORIZONTAL:
            with suppress(axes.ProblemError):
                degrees.append(axes.degrees_of(axes.horizontal_axis(array, what), what))
        return told_by(array.attrs, self.attributes, Path(self.shown).name, variable.column, degrees)


def _problem(of_all: _OfFile, array: xr.DataArray, variable: Variable, error: axes.ProblemError) -> Problem:
    months, columns = _months_if_known(array), (variable.column,)
    return Problem(
        *(of_all.shown, error.kind, error.text, error.remedy, months, columns),
        *(error.area, error.shift, error.is_of_origin, error.remedy, error.lacks_accumulation),
        wanted=of_all.dataset.name,
        instead=error.instead,
    )


def _merged(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Merge equal problems: points off the grid are one problem, not one per variable."""
    columns: dict[Problem, list[str]] = {}
    for problem in problems:
        columns.setdefault(replace(problem, columns=()), []).extend(problem.columns)
    merged = [replace(problem, columns=tuple(own)) for problem, own in columns.items()]
    for problem in merged:
        # One command for all variables of the file, whose months may differ.
        same = [other for other in merged if (other.area, other.shift) == (problem.area, problem.shift)]
        yield _with_remedy(problem, same)


def _with_remedy(problem: Problem, same: Sequence[Problem]) -> Problem:
    """The problem with its whole remedy; `same` are all of the file, or of several, that one command is for."""
    told = _requesting_on_grid(problem, same) if problem.area else problem
    return replace(told, remedy=f"{told.instead} {told.remedy}") if told.instead else told


def _requesting_on_grid(problem: Problem, same: Sequence[Problem]) -> Problem:
    """The problem of points off the grid with its remedy: the command for the area of the grid around them, or else.

    `same` are all problems with these points, this one among them.
    """
    months = [month for other in same for month in other.months]
    columns = dict.fromkeys(column for other in same for column in other.columns)
    dataset = DATASETS.get(problem.wanted, ERA5)
    words = ["era5", "load", *_option(dataset)]
    if months:
        words += ["--from", min(months), "--to", max(months)]
    names = dataset.catalogue.variable_names(columns)
    words += ["--source", "cds", "--area", str(problem.area), "--variables", names]
    otherwise = f" ({problem.otherwise})" if problem.shift is None else f"; or {problem.otherwise}"
    return replace(problem, remedy=f"Request it on the grid: {shlex.join(words)}{otherwise}.")


def _option(dataset: Dataset) -> list[str]:
    return [] if dataset == ERA5 else ["--dataset", dataset.name]


# The most files of one problem that are named.
_SHOWN_FILES = 3


def together(problems: Iterable[Problem]) -> list[Problem]:
    """Unite equal problems of several files: one with the months and variables of all, whose `file` names the files."""
    groups: dict[Problem, list[Problem]] = {}
    for problem in problems:
        remedy = "" if problem.area else problem.remedy
        alike = replace(problem, file="", remedy=remedy, months=(), columns=())
        groups.setdefault(alike, []).append(problem)
    return [_united(same) for same in groups.values()]


def _united(same: Sequence[Problem]) -> Problem:
    files = list(dict.fromkeys(problem.file for problem in same))
    shown = [files[0], *(name.rpartition("/")[2] for name in files[1:_SHOWN_FILES])]
    more = len(files) - len(shown)
    united = replace(
        same[0],
        file=", ".join(shown) + (f" and {more:,} more" if more else ""),
        months=tuple(sorted({month for problem in same for month in problem.months})),
        columns=tuple(dict.fromkeys(column for problem in same for column in problem.columns)),
    )
    return _with_remedy(united, same) if united.area and len(same) > 1 else united


def _described(held: Collection[xr.DataArray], dataset: Dataset) -> str:
    """Names of the variables in the file, and why the first known one cannot be used."""
    names = ", ".join(sorted(str(array.name) for array in held)) or "nothing"
    return names + next((f" ({name} {why})" for name, why in sorted(_left_out(held, dataset))), "")


def _left_out(held: Iterable[xr.DataArray], dataset: Dataset) -> Iterator[tuple[str, str]]:
    for array in held:
        if array.name not in dataset.catalogue.by_name_in_file and (why := _why_left_out(array)) is not None:
            yield str(array.name), why


def _why_left_out(array: xr.DataArray) -> str | None:
    """Say why the table cannot hold a variable that is not in the catalogue; None if it is unknown."""
    if (levels := levels_of(array) or "").startswith("model"):
        return f"is at {levels}: the table holds single levels, one value for each place and hour"
    return why_unsupported(str(array.name).casefold())


def _months_if_known(array: xr.DataArray) -> tuple[str, ...]:
    try:
        hours = from_datetime64(axes.times_along(array))
    except axes.ProblemError:
        return ()
    return months_of(hours[hours >= axes.FIRST_HOUR])


def _fields_of(
    array: xr.DataArray, variable: Variable, of_all: _OfFile
) -> tuple[tuple[Field, ...], axes.ProblemError | None]:
    """The fields of one variable: one, or one for each version of an expver dimension.

    Also their problem if they can be used only where the user says so: if they are shifted, not of the data set by the
    file's word, or nothing tells over what amounts run.
    """
    told = of_all.told_by(array, variable)
    try:
        fields, problem = _fields_by_rules(array, variable, of_all, told)
    except axes.ProblemError as error:
        raise replace(error, instead=_instead(array, of_all, told)) from None
    return fields, None if problem is None else replace(problem, instead=_instead(array, of_all, told))


def _instead(array: xr.DataArray, of_all: _OfFile, told: Told) -> str | None:
    """How the values are loaded into the table of the other data set that they are of; None if they cannot be."""
    other = told.dataset
    if other is None or other == of_all.dataset or (variable := _variable_of(array, other)) is None:
        return None
    try:
        fields, problem = _fields_by_rules(
            array, variable, _OfFile.described(of_all.attributes, of_all.shown, other), told
        )
    except axes.ProblemError:
        return None
    if (problem is not None and problem.shift is None) or any(map(_may_be_means, fields)):
        return None
    words = ["era5", "load", *_option(other), "--source", "files", "--files-dir", FOLDER]
    return f"Load it as {other.short_title}: {' '.join(words)}{'' if problem is None else ' --off-grid nearest'}."


def _may_be_means(field: Field) -> bool:
    """Return True for several values, all at the same hour of the day, that are not declared to be hourly."""
    return field.hours.size > 1 and not field.states_step_type and np.unique(field.hours % 24).size == 1


def _fields_by_rules(
    array: xr.DataArray, variable: Variable, of_all: _OfFile, told: Told
) -> tuple[tuple[Field, ...], axes.ProblemError | None]:
    """The fields of one variable and their problem, by the rules of the data set that is asked for."""
    dataset = of_all.dataset
    _require_units(array, variable, dataset)
    latitude, longitude = (axes.horizontal_axis(array, what, dataset) for what in _HORIZONTAL)
    # Before checking times: those of means may be off the hour, a symptom that hides the cause.
    doubt = refusals.contradiction(array, variable, of_all.aggregates, latitude, longitude, dataset)
    is_stated = of_all.is_stated or refusals.variable_states_dataset(array.attrs)
    origin: Origin = "stated" if is_stated else "not stated"
    if doubt is None:
        fields, problem = _fields_on(array, variable, latitude, longitude, dataset, origin, told)
        if told.dataset is None or told.dataset == dataset:
            return fields, problem
        doubt = refusals.other_dataset(told.dataset, told.signs[0].evidence, dataset)
    with suppress(axes.ProblemError):
        fields, problem = _fields_on(array, variable, latitude, longitude, dataset, "trusted", told)
        if problem is None:
            return fields, doubt
    # Something else is wrong with it, too: the user's word would not help.
    raise axes.ProblemError(doubt.kind, doubt.text, axes.get_hours(dataset))


def _fields_on(
    array: xr.DataArray,
    variable: Variable,
    latitude: xr.DataArray,
    longitude: xr.DataArray,
    dataset: Dataset,
    origin: Origin,
    told: Told,
) -> tuple[tuple[Field, ...], axes.ProblemError | None]:
    """The fields of one variable on these axes, and their problem: shifted, or over what amounts run is not told."""
    hours = axes.hours_along(array, dataset)
    dimensions = (_dimension(axes.time_axis(array)), _dimension(latitude), _dimension(longitude))
    known = {*axes.time_axis(array).dims, *latitude.dims, *longitude.dims, _EXPVER}
    _require_single_level(array, known, dataset)
    is_stated = refusals.is_stated(array.attrs, dataset)
    indices = axes.horizontal_indices(latitude, longitude, dataset, is_stated=is_stated)
    accumulation = _accumulation_of(variable, dataset, told)
    problem = indices.off_grid
    if accumulation is None:
        if problem is not None:
            raise axes.ProblemError(problem.kind, problem.text, axes.get_hours(dataset), problem.area)
        problem = _lacking_accumulation(array, dataset)
    field = Field(
        column=variable.column,
        name=str(array.name),
        hours=hours,
        expver=_repeated(UNKNOWN_EXPVER, hours.size),
        latitude_index=indices.latitude,
        longitude_index=indices.longitude,
        half_step=0.5 * abs(_scale_factor(array) * variable.scale),
        chunks=_chunks(array, dimensions),
        dimensions=dimensions,
        states_step_type=refusals.STEP_TYPE in array.attrs,
        shift=None if indices.off_grid is None else indices.off_grid.shift,
        origin=origin,
        packed_range=_packed_range(array, variable),
        accumulation=accumulation,
    )
    if _EXPVER not in array.dims:
        return (replace(field, expver=_expver_of_hours(array, hours.size)),), problem
    fields = tuple(
        replace(field, expver=_repeated(version, hours.size), expver_position=position)
        for position, version in enumerate(_expver_along(array))
    )
    return fields, problem


def _accumulation_of(variable: Variable, dataset: Dataset, told: Told) -> Accumulation | None:
    """Over what an accumulated value runs; None if nothing tells. Whatever does not accumulate is of its hour."""
    if variable.step_type != "accum" or dataset.accumulation == "hour":
        return "hour"
    return told.accumulation if told.dataset == dataset else None


def _lacking_accumulation(array: xr.DataArray, dataset: Dataset) -> axes.ProblemError:
    text = (
        f"does not tell whether {array.name} is the sum since 00 UTC, as in {dataset.short_title}'s own files, or the "
        "amount of each hour"
    )
    remedy = (
        "Say it: --accumulation day (ERA5_ACCUMULATION=day) for sums since 00 UTC, --accumulation hour for amounts of "
        "hours. The numbers are checked against it."
    )
    return axes.ProblemError("time", text, remedy, lacks_accumulation=True)


def _require_units(array: xr.DataArray, variable: Variable, dataset: Dataset) -> None:
    units = str(array.attrs.get("units", "")).strip()
    # NCAR's files use the numbers of ECMWF's table 128, which equal the paramIds.
    number = array.attrs.get(_PARAMETER, array.attrs.get("ecmwf_parameter"))
    long_name = str(array.attrs.get("long_name") or array.attrs.get("standard_name") or "").replace("_", " ").strip()
    # Without a number, only the long name reveals a 100 m wind stored under the name of the 10 m wind.
    catalogue = dataset.catalogue
    named = catalogue.by_long_name.get(long_name.casefold(), variable) if number is None else variable
    if units in variable.file_units and named is variable and (number is None or int(number) == variable.param_id):
        return
    wanted = variable.file_units[0]
    if named is variable and (number is None or int(number) == variable.param_id):
        other_name = "" if long_name.casefold() == variable.long_name.casefold() else long_name
        text = f"{array.name} is {f'{other_name} ' if other_name else ''}in {units or 'no units'}, not in {wanted}"
        if variable.step_type == "accum" and units in _FLUXES:
            total = "the total of the hour" if dataset.accumulation == "hour" else "the sum since 00 UTC"
            text = f"{array.name} is in {units}, a mean flux; {dataset.short_title} has {total}, in {wanted}"
    else:
        other = named if number is None else catalogue.by_param_id.get(int(number))
        parameter = long_name if number is None else f"parameter {number}"
        parameter += f", {other.long_name}" if other is not None and number is not None else ""
        described = variable.description.lower().partition(",")[0]
        text = f"{array.name} is {parameter}, not {described} (parameter {variable.param_id})"
    remedy = f"Request {variable.cds_name} of {dataset.cds_name}, or move the file out of the folder."
    raise axes.ProblemError("units", text, remedy)


def _require_written(array: xr.DataArray, unwritten: frozenset[str]) -> None:
    if array.name in unwritten and array.size:
        # The library returns fill values for them, or zeros in a file without a fill value.
        text = f"{array.name} has no values: {array.size:,} are declared, and none was ever written"
        raise axes.ProblemError("unreadable", text, axes.AGAIN)


def _scale_factor(array: xr.DataArray) -> float:
    """The factor of packed values, 0 if they are not packed; refuse a factor or offset that is not usable."""
    packing = {name: array.encoding.get(name) for name in ("scale_factor", "add_offset")}
    numbers = {name: float(np.asarray(value).item()) for name, value in packing.items() if value is not None}
    for name, number in numbers.items():
        if not np.isfinite(number) or (name == "scale_factor" and number == 0.0):
            raise axes.ProblemError(
                "packing", f"{array.name} has {name} {number:g}: its values cannot be unpacked", axes.AGAIN
            )
    return numbers.get("scale_factor", 0.0)


def levels_of(array: xr.DataArray) -> str | None:
    """Name the levels that the values are at, by type or coordinate: `model levels (level)`; None for single levels."""
    if (stated := TYPES_OF_LEVEL.get(str(array.attrs.get("GRIB_typeOfLevel")))) is not None:
        return stated
    name = next((name for name in _LEVELS if name in array.coords or name in array.dims), None)
    if name is None:
        return None
    attributes = array.coords[name].attrs if name in array.coords else {}
    said = " ".join(map(str, (name, attributes.get("long_name"), attributes.get("standard_name"))))
    kind = "model" if re.search(r"model[ _]level|hybrid", said, re.IGNORECASE) else "pressure"
    return f"{kind} levels ({name})"


def _packed_range(array: xr.DataArray, variable: Variable) -> float:
    stored = np.dtype(array.encoding.get("dtype", np.float32))
    if stored.kind not in "iu" or stored.itemsize > _PACKED_BYTES:
        return 0.0
    return float(abs(_scale_factor(array) * variable.scale) * 2.0 ** (8 * stored.itemsize))


def _require_single_level(array: xr.DataArray, known_dimensions: set[Hashable], dataset: Dataset) -> None:
    if (levels := levels_of(array)) is not None:
        raise axes.ProblemError(
            "dimensions",
            f"{array.name} is at {levels}: the table holds single levels",
            f"Request the variable of {dataset.cds_name}, or move the file out of the folder.",
        )
    for dimension, size in array.sizes.items():
        if dimension not in known_dimensions and size != 1:
            raise axes.ProblemError(
                "dimensions",
                f"{array.name} has {size} values along {dimension}, one was expected",
                "Request single levels, product type reanalysis (no ensemble members).",
            )


def _dimension(axis: xr.DataArray) -> str | None:
    return str(axis.dims[0]) if axis.dims else None


def _chunks(array: xr.DataArray, dimensions: tuple[str | None, str | None, str | None]) -> tuple[int, int, int]:
    sizes = dict(zip(map(str, array.dims), array.encoding.get("chunksizes") or (), strict=False))
    time, latitude, longitude = (0 if name is None else int(sizes.get(name, 0)) for name in dimensions)
    return time, latitude, longitude


def _expver_along(array: xr.DataArray) -> list[str]:
    """The versions along an expver dimension."""
    if array.sizes[_EXPVER] > refusals.MOST_VERSIONS:
        raise axes.ProblemError(
            "dimensions", f"{array.name} has {array.sizes[_EXPVER]:,} versions along expver", axes.AGAIN
        )
    versions = array.coords[_EXPVER].values if _EXPVER in array.coords else ()
    if len(versions) != array.sizes[_EXPVER]:
        raise axes.ProblemError("dimensions", f"{array.name} has an expver dimension without values", axes.AGAIN)
    return [expver_text(version) for version in versions]


def _expver_of_hours(array: xr.DataArray, size: int) -> npt.NDArray[np.str_]:
    """The version of each hour (size,), if expver is a coordinate along time or missing."""
    if _EXPVER not in array.coords:
        return _repeated(UNKNOWN_EXPVER, size)
    # Decoding joins characters to texts, so the size is the number of texts.
    held = array.coords[_EXPVER].size
    if held not in (1, size):
        raise axes.ProblemError("dimensions", f"{array.name} has {held} versions (expver) for {size} times", axes.AGAIN)
    values = np.atleast_1d(array.coords[_EXPVER].values)
    # Each of the few versions once, not each of up to a million hours.
    found = values.reshape(-1).tolist()
    text_of = {value: expver_text(value) for value in set(found)}
    texts = np.array([text_of[value] for value in found])
    return _repeated(texts[0], size) if texts.size == 1 else texts


def _repeated(version: str, size: int) -> npt.NDArray[np.str_]:
    """The version of each of `size` hours, stored once."""
    return np.broadcast_to(np.str_(version), size)


def expver_text(value: object) -> str:
    """Write the version as four digits (`1`, `"1"` and `"0001"` give "0001"); other text unchanged."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    text = text.strip().removesuffix(".0")
    return f"{int(text):04d}" if text.isdigit() else text or UNKNOWN_EXPVER
