"""Cut the hours of one month out of a file of several months, a netCDF, a ZIP of netCDFs, or GRIB.

Values are copied as stored, with their types, attributes, compression and `expver`. For which months are requested
together see `sources.cds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np

from era5_pipeline.model.errors import BadFileError, Era5Error, disk_errors
from era5_pipeline.netcdf.archive import netcdf_files
from era5_pipeline.netcdf.cds_files import close_anyway, emptied_on_error, full_disk_named, move_into_zip
from era5_pipeline.netcdf.contents import hours_of, inspect
from era5_pipeline.netcdf.grib import read_index
from era5_pipeline.netcdf.recognise import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.netcdf.archive import NetcdfFile

_REMEDY = "Months are then requested one at a time."


@dataclass(frozen=True)
class _Member:
    """A netCDF file, the name of its time dimension, and its hours since 1970-01-01 UTC, in file order."""

    file: NetcdfFile
    dimension: str
    hours: npt.NDArray[np.int64]

    @property
    def name(self) -> str:
        """The file's name in a ZIP."""
        return PurePath(self.file.member or self.file.path.name).name


def cut_months(path: Path, months: Sequence[Month], scratch: Path) -> Iterator[tuple[Month, Path]]:
    """Write one file per month into the folder `scratch`, of the type of `path`."""
    if kind_of(path) == "grib":
        yield from _cut_messages(path, months, scratch)
        return
    members = [_member(file) for file in netcdf_files([path], scratch)]
    for month in months:
        if not any(np.isin(member.hours, hours_of(month)).any() for member in members):
            raise BadFileError(path, f"has no hour of {month}", remedy=_REMEDY)
    for month in months:
        folder = scratch / str(month)
        with disk_errors(f"{month}: cutting it out of {path.name}", scratch):
            folder.mkdir()
            # Accumulations begin at 1940-01-01 07:00: a member may start late, but has hours of each month.
            cut = [_cut(member, month, folder / member.name) for member in members]
            if members[0].file.member is None:
                yield month, cut[0]
                continue
            target = folder / path.with_suffix(".zip").name
            move_into_zip(cut, target)
        yield month, target


def _cut_messages(path: Path, months: Sequence[Month], scratch: Path) -> Iterator[tuple[Month, Path]]:
    """Copy the messages of each month."""
    index = read_index(path)
    own = {month: np.unique(index.places[np.isin(index.minutes // 60, hours_of(month))], axis=0) for month in months}
    for month, places in own.items():
        if not places.size:
            raise BadFileError(path, f"has no hour of {month}", remedy=_REMEDY)
    for month, places in own.items():
        target = scratch / str(month) / path.name
        with disk_errors(f"{month}: cutting it out of {path.name}", scratch):
            target.parent.mkdir()
            with path.open("rb") as whole, target.open("wb") as part:
                for offset, size, number, _ in places.tolist():
                    if number:
                        continue  # a field of the message before
                    whole.seek(offset)
                    part.write(whole.read(size))
        yield month, target


def _member(file: NetcdfFile) -> _Member:
    contents = inspect(file)
    for problem in contents.problems:
        raise BadFileError(file.shown, problem.text, remedy=_REMEDY)
    first = contents.fields[0]
    dimension = first.dimensions[0]
    if dimension is None or any(
        field.dimensions[0] != dimension or not np.array_equal(field.hours, first.hours) for field in contents.fields
    ):
        raise BadFileError(file.shown, "its variables do not share a dimension of time", remedy=_REMEDY)
    return _Member(file, dimension, first.hours)


def _cut(member: _Member, month: Month, target: Path) -> Path:
    positions = np.flatnonzero(np.isin(member.hours, hours_of(month)))
    if not positions.size or positions[-1] - positions[0] + 1 != positions.size:
        raise BadFileError(member.file.shown, f"its hours of {month} are missing or scattered", remedy=_REMEDY)
    hours = slice(int(positions[0]), int(positions[-1]) + 1)
    whole = part = None
    with emptied_on_error([target]), full_disk_named(target.parent):
        try:
            whole = netCDF4.Dataset(member.file.path)
            if whole.groups:
                raise BadFileError(member.file.shown, "it has groups", remedy=_REMEDY)  # noqa: TRY301
            part = netCDF4.Dataset(target, "w", format=whole.data_model)
            part.setncatts({name: whole.getncattr(name) for name in whole.ncattrs()})
            for name, dimension in whole.dimensions.items():
                size = positions.size if name == member.dimension else len(dimension)
                part.createDimension(name, None if dimension.isunlimited() else size)
            for variable in whole.variables.values():
                _copy(variable, part, {member.dimension: hours})
            part.close()
        except (Era5Error, OSError):
            raise
        except Exception as error:  # the libraries raise nearly anything for damaged files
            raise BadFileError(member.file.shown, f"cannot be copied ({error})", remedy=_REMEDY) from error
        finally:
            for dataset in (whole, part):
                if dataset is not None:
                    close_anyway(dataset)
    return target


def _copy(variable: Any, part: netCDF4.Dataset, taken: dict[str, slice]) -> None:  # noqa: ANN401  # untyped library
    """Copy a variable with its encoding, taking only the positions in `taken` along its dimensions."""
    positions = tuple(taken.get(name, slice(None)) for name in variable.dimensions)
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    values = variable[positions] if variable.dimensions else variable[...]
    filters, chunks = variable.filters() or {}, variable.chunking()
    attributes = {name: variable.getncattr(name) for name in variable.ncattrs()}
    is_text = variable.dtype is str
    options: dict[str, Any] = {}
    if variable.dimensions and not is_text and isinstance(chunks, list):
        options["chunksizes"] = [min(chunk, size) for chunk, size in zip(chunks, np.shape(values), strict=True)]
        options["fletcher32"], options["shuffle"] = bool(filters.get("fletcher32")), bool(filters.get("shuffle"))
        if any(filters.get(name) for name in ("zlib", "szip", "zstd", "bzip2", "blosc")):
            # Replace compression that this machine may be unable to write by the CDS' usual one, also lossless.
            options |= {"compression": "zlib", "complevel": filters.get("complevel") or 1}
    made = part.createVariable(
        variable.name,
        variable.datatype,
        variable.dimensions,
        fill_value=None if is_text else attributes.pop("_FillValue", None),
        endian=variable.endian() if not is_text and variable.endian() in ("little", "big") else "native",
        **options,
    )
    made.set_auto_maskandscale(False)
    made.set_auto_chartostring(False)
    attributes.pop("_FillValue", None)
    made.setncatts(attributes)
    if variable.dimensions:
        made[tuple(slice(0, size) for size in np.shape(values))] = values
    else:
        made[...] = values
