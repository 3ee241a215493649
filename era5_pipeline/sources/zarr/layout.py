"""Layout of a Zarr store of ERA5: variables, axes, hours, chunks and shards; no values are read.

Metadata are read by known names: most stores cannot be listed. Variables and axes are identified as those of files are
(`netcdf.contents`). Which chunks are read when is in `reading`.
"""

from __future__ import annotations

import json
import math
import struct
import warnings
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
import zarr
from zarr.errors import ZarrUserWarning
from zarr.storage import StorePath

from era5_pipeline.model.errors import Era5Error, SourceError
from era5_pipeline.model.source_kinds import FINAL, PRELIMINARY
from era5_pipeline.model.times import describe_hours, hour_of
from era5_pipeline.netcdf.axes import FIRST_HOUR, ProblemError, time_axis
from era5_pipeline.netcdf.cds_files import Axes
from era5_pipeline.netcdf.contents import UNKNOWN_EXPVER, describe_fields
from era5_pipeline.netcdf.decoding import Decoding
from era5_pipeline.sources.zarr.codecs import use_checked_blosc
from era5_pipeline.sources.zarr.icechunk_objects import REMEDY as ICECHUNK_REMEDY
from era5_pipeline.sources.zarr.icechunk_objects import is_icechunk
from era5_pipeline.sources.zarr.objects import ForbiddenError
from era5_pipeline.sources.zarr.stated_versions import VERSION_ARRAYS, StatedVersions, stated_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Area, Grid
    from era5_pipeline.model.source_kinds import Snapshot
    from era5_pipeline.model.variables import Catalogue, Variable
    from era5_pipeline.netcdf.contents import Field
    from era5_pipeline.sources.zarr.store import ReadOnlyStore

    Floats = npt.NDArray[np.float32]
    Indices = npt.NDArray[np.int32]

_OTHER_STORE = "Take another store, or another group of it, with ERA5's hourly values on its grid (docs/sources.md)."
_CONSOLIDATED_2, _GROUP_2, _ROOT_3 = ".zmetadata", ".zgroup", "zarr.json"
# Objects of Icechunk repositories of the formats 2 and 1.
_OF_ICECHUNK = ("repo", "refs/branch.main/ref.json")
# Names of arrays without values of ours that say what the others mean; those of dimensions come from the arrays.
_COORDINATES = ("valid_time", "time", "latitude", "longitude")


@dataclass(frozen=True)
class Metadata:
    """The metadata of a store: those of its arrays by path, as zarr reads them, and the group's attributes."""

    arrays: Mapping[str, dict[str, Any]]
    attributes: Mapping[str, Any]


def read_metadata(store: ReadOnlyStore, variables: Sequence[Variable]) -> Metadata:
    """Read the metadata; without consolidated ones, those of `variables` and their axes, by the names they may have."""
    forbidden: list[ForbiddenError] = []

    def read(key: str) -> dict[str, Any] | None:
        try:
            content = store.read(key)
        except ForbiddenError as error:
            # Absent, for a server that does not tell; if nothing else is found either, this is the reason.
            forbidden.append(error)
            return None
        if content is None:
            return None
        try:
            value = json.loads(content)
        except ValueError as error:
            raise SourceError(
                f"{store.shown}: {key} is not JSON: it is cut off or damaged", remedy=store.remedy
            ) from error
        if not isinstance(value, dict):
            raise SourceError(f"{store.shown}: {key} is not the metadata of a Zarr store", remedy=store.remedy)
        return value

    if (value := read(_CONSOLIDATED_2)) is not None:
        return _of_format_2(value.get("metadata", {}))
    if (value := read(_ROOT_3)) is not None:
        if value.get("zarr_format") != 3 or value.get("node_type") != "group":
            raise SourceError(f"{store.shown} is not a group of Zarr arrays", remedy=store.remedy)
        inline = (value.get("consolidated_metadata") or {}).get("metadata")
        arrays = inline if inline is not None else _by_names(variables, lambda name: read(f"{name}/{_ROOT_3}"))
        held = {path: one for path, one in arrays.items() if one.get("node_type") == "array"}
        return Metadata(held, value.get("attributes") or {})
    if read(_GROUP_2) is not None:

        def array_of(name: str) -> dict[str, Any] | None:
            array = read(f"{name}/.zarray")
            return None if array is None else {**array, "attributes": read(f"{name}/.zattrs") or {}}

        return Metadata(_by_names(variables, array_of), read(".zattrs") or {})
    if forbidden:
        raise forbidden[0]
    if not is_icechunk(store.shown) and any(store.read(name) is not None for name in _OF_ICECHUNK):
        raise SourceError(
            f"{store.shown} is an Icechunk repository, and its address does not say so",
            remedy=ICECHUNK_REMEDY,
        )
    raise SourceError(
        f"there is no Zarr store at {store.shown}: it has no {_CONSOLIDATED_2}, {_ROOT_3} or {_GROUP_2}",
        remedy=store.remedy,
    )


def _of_format_2(entries: Mapping[str, Any]) -> Metadata:
    arrays = {
        key.removesuffix("/.zarray"): {**value, "attributes": entries.get(key.replace(".zarray", ".zattrs")) or {}}
        for key, value in entries.items()
        if key.endswith("/.zarray")
    }
    return Metadata(arrays, entries.get(".zattrs") or {})


def _by_names(variables: Sequence[Variable], read: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401  # a function
    arrays: dict[str, dict[str, Any]] = {}
    for variable in variables:
        for name in variable.names_in_files:
            if (found := read(name)) is not None:
                arrays[name] = found
                break
    dimensions = [name for array in arrays.values() for name in _dimensions_of(array)]
    for name in dict.fromkeys([*dimensions, *VERSION_ARRAYS] if arrays else ()):
        if name not in arrays and (found := read(name)) is not None:
            arrays[name] = found
    return arrays


def _dimensions_of(array: Mapping[str, Any]) -> tuple[str, ...]:
    named = array.get("dimension_names") or (array.get("attributes") or {}).get("_ARRAY_DIMENSIONS") or ()
    return tuple(map(str, named))


@dataclass(frozen=True, eq=False)
class ChunkGrid:
    """How an array of one of our variables is cut.

    `chunk` is what one request brings, hours x latitudes x longitudes; `shard` the object that has it: the chunk
    itself, unless chunks share an object. A decoded number has `item_bytes`.
    """

    variable: Variable
    name: str
    chunk: tuple[int, int, int]
    shard: tuple[int, int, int]
    item_bytes: int

    def bytes_of(self, chunk: tuple[int, int, int]) -> int:
        """Decoded bytes of a chunk of that shape."""
        return math.prod(chunk) * self.item_bytes


@dataclass(frozen=True, eq=False)
class Geometry:
    """Arrays of our variables on one set of axes.

    `hours` are those with data, since 1970-01-01 UTC; the first is at `first_position` of the time axis.
    `latitude_index` and `longitude_index` are indices of the grid by position.
    """

    arrays: tuple[ChunkGrid, ...]
    hours: range
    first_position: int
    latitude_index: Indices
    longitude_index: Indices
    grid: Grid

    @property
    def time_chunk(self) -> int:
        """Hours of the longest chunk, or shard."""
        return max(array.shard[0] for array in self.arrays)

    def position_of(self, hour: int) -> int:
        """The position of the hour on the time axis."""
        return hour - self.hours.start + self.first_position

    def hour_at(self, position: int) -> int:
        """The hour at the position of the time axis."""
        return position - self.first_position + self.hours.start


@dataclass(frozen=True, eq=False)
class StoredArray(ChunkGrid):
    """An array of one of our variables; `axes` are the positions of time, latitude, longitude among its dimensions."""

    array: zarr.Array[Any]
    axes: tuple[int, int, int]
    decoding: Decoding

    def read(self, hours: slice, rows: slice, columns: slice) -> Floats:
        """Read values by position, as (hour, latitude, longitude), in the units of ERA5's files; missing ones are NaN.

        Raises:
            Era5Error: of the store; any other error is one of decoding.
        """
        selection: list[Any] = [0] * self.array.ndim
        for axis, part in zip(self.axes, (hours, rows, columns), strict=True):
            selection[axis] = part
        stored = np.asarray(self.array.get_basic_selection(tuple(selection)))
        order = np.argsort(np.argsort(self.axes))
        return self.decoding.decode(stored.transpose(order))

    def key_at(self, hour: int, row: int, column: int) -> str:
        """The key of the object with the value at these positions."""
        coordinates = [0] * self.array.ndim
        for axis, position, size in zip(self.axes, (hour, row, column), self.shard, strict=True):
            coordinates[axis] = position // size
        return f"{self.name}/{self.array.metadata.encode_chunk_key(tuple(coordinates))}"


@dataclass(frozen=True, eq=False)
class Layout(Geometry):
    """The geometry of our variables in a store, and the arrays themselves.

    `stated` are the versions by its arrays; `final_until` is the first hour that is not final, by the attributes of
    ARCO-ERA5. None: the store does not say. `snapshot` is the state of the store, if it has several.
    """

    shown: str
    arrays: tuple[StoredArray, ...]
    stated: StatedVersions | None
    final_until: int | None
    snapshot: Snapshot | None = None

    def versions_of(self, hours: range) -> tuple[str, ...]:
        """The version of each hour, "unknown" where the store does not say; () if it never does."""
        first = self.position_of(hours.start)
        stated = () if self.stated is None else self.stated.at(range(first, first + len(hours)))
        if self.final_until is None or set(stated) - {UNKNOWN_EXPVER}:
            return stated
        return tuple(FINAL if hour < self.final_until else PRELIMINARY for hour in hours)

    def axes_of(self, area: Area | None) -> Axes:
        """The area's points, or without an area all that the store has."""
        if area is None:
            grid = self.grid
            latitudes = np.asarray(grid.latitudes_of(np.unique(self.latitude_index)[::-1]), dtype=np.float64)
            longitudes = np.unique(self.longitude_index)
            if longitudes.size == grid.columns:
                return Axes(latitudes, np.arange(grid.columns, dtype=np.float64) * grid.step_degrees, grid)
            return Axes(latitudes, np.asarray(grid.longitudes_of(longitudes), dtype=np.float64), grid)
        lacking = set(area.latitude_indices().tolist()) - set(self.latitude_index.tolist())
        if not lacking:
            lacking = set(area.longitude_indices().tolist()) - set(self.longitude_index.tolist())
        if lacking:
            raise SourceError(
                f"{self.shown} does not have all places of the area {area}: it has {self._place}",
                remedy="Give an area within it (--area), or leave it out for all places of the store.",
            )
        return Axes.of(area)

    @property
    def _place(self) -> str:
        latitudes = self.grid.latitudes_of(self.latitude_index)
        longitudes = self.grid.longitudes_of(self.longitude_index)
        return f"{latitudes.min():g} to {latitudes.max():g} N, {longitudes.min():g} to {longitudes.max():g} E"


def open_layout(
    store: ReadOnlyStore, variables: Sequence[Variable], required: Iterable[Variable], dataset: Dataset
) -> tuple[Layout, tuple[Variable, ...]]:
    """Read metadata and axes; return the layout of those `variables` that the store has, and those it does not have."""
    use_checked_blosc()
    # First of all: without a repository, or a network, it is the snapshot that cannot be read, not some object in it.
    snapshot = store.snapshot()
    metadata = read_metadata(store, variables)
    found = _our_arrays(metadata, variables, dataset.catalogue)
    lacking = tuple(variable for variable in variables if variable not in found.values())
    if not found:
        raise SourceError(
            f"{store.shown} has none of {', '.join(variable.cds_name for variable in variables)}; it has "
            f"{', '.join(sorted(metadata.arrays)[:20]) or 'no array of a known name'}",
            remedy=store.remedy,
        )
    if needed := [variable.cds_name for variable in required if variable in lacking]:
        raise SourceError(
            f"{store.shown} has no {', '.join(needed)}",
            remedy="Name only the others in --variables; the columns of these stay NULL.",
        )
    try:
        return _layout_of(store, metadata, found, snapshot, dataset), lacking
    except (KeyError, ValueError, TypeError, IndexError) as error:
        said = " ".join(str(error).split())
        raise SourceError(f"{store.shown} cannot be read as ERA5 ({said})", remedy=store.remedy) from error


def _our_arrays(metadata: Metadata, variables: Sequence[Variable], catalogue: Catalogue) -> dict[str, Variable]:
    """Our variables by path: by a name that files or requests use, else by ECMWF's number or name."""
    wanted = {variable.column for variable in variables}
    arrays = {path: one for path, one in metadata.arrays.items() if len(one.get("shape", ())) >= 2}
    found: dict[str, Variable] = {}

    def take(path: str, variable: Variable | None) -> None:
        if variable is not None and variable.column in wanted and variable not in found.values():
            found[path] = variable

    for path in arrays:
        take(path, catalogue.by_name_in_file.get(path))
    for path, array in arrays.items():
        attributes = array.get("attributes") or {}
        number, long_name = attributes.get("GRIB_paramId"), str(attributes.get("long_name", ""))
        by_id, by_long_name = catalogue.by_param_id, catalogue.by_long_name
        take(path, by_id.get(number) if isinstance(number, int) else by_long_name.get(long_name.casefold()))
    return dict(sorted(found.items(), key=lambda item: catalogue.variables.index(item[1])))


def _layout_of(
    store: ReadOnlyStore, metadata: Metadata, found: Mapping[str, Variable], snapshot: Snapshot | None, dataset: Dataset
) -> Layout:
    dimensions = {path: _dimensions_of(metadata.arrays[path]) for path in found}
    if unnamed := [path for path, names in dimensions.items() if len(names) != len(metadata.arrays[path]["shape"])]:
        raise SourceError(f"{store.shown} does not name the dimensions of {unnamed[0]}", remedy=store.remedy)
    names = dict.fromkeys((*(name for of_one in dimensions.values() for name in of_one), *_COORDINATES))
    axes = _read_axes(store, metadata, [name for name in names if name in metadata.arrays and name not in found])
    described = []
    for path, variable in found.items():
        attributes = dict(metadata.arrays[path].get("attributes") or {})
        shape = tuple(int(size) for size in metadata.arrays[path]["shape"])
        coordinates = {name: axis for name, axis in axes.variables.items() if set(axis.dims) <= set(dimensions[path])}
        # Without values: only axes and attributes are described.
        values = np.broadcast_to(np.float32(0), shape)
        one = xr.DataArray(values, coordinates, dimensions[path], path.rpartition("/")[2], attributes)
        one.encoding.update({name: attributes[name] for name in ("scale_factor", "add_offset") if name in attributes})
        described.append((_since_1940(one), variable))
    held = [xr.DataArray(name=path) for path in metadata.arrays]
    contents = describe_fields(described, held, store.shown, dict(metadata.attributes), dataset=dataset)
    if problems := contents.contents.problems:
        raise SourceError(f"{store.shown}: {problems[0].text}", remedy=_OTHER_STORE)
    fields = []
    for array, of_array in contents.by_array:
        if len(of_array) != 1:
            raise SourceError(f"{store.shown}: {array.name} has versions along expver", remedy=store.remedy)
        fields.append(of_array[0])
    first = fields[0]
    hours = _consecutive(store, first)
    for field in fields[1:]:
        if not all(
            np.array_equal(getattr(first, name), getattr(field, name))
            for name in ("hours", "latitude_index", "longitude_index")
        ):
            raise SourceError(
                f"{store.shown}: {first.name} and {field.name} are on different axes",
                remedy="Load them one after the other: name one in --variables.",
            )
    size = metadata.arrays[next(iter(found))]["shape"][next(iter(dimensions.values())).index(str(first.dimensions[0]))]
    arrays = tuple(
        _stored_array(store, path, metadata.arrays[path], dimensions[path], field, variable)
        for (path, variable), field in zip(found.items(), fields, strict=True)
    )
    with_data, final_until = _with_data(metadata.attributes, hours)
    return Layout(
        shown=store.shown,
        arrays=arrays,
        hours=with_data,
        first_position=int(size) - len(hours) + with_data.start - hours.start,
        stated=_stated_versions(store, metadata, str(first.dimensions[0]), int(size)),
        final_until=final_until,
        snapshot=snapshot,
        latitude_index=first.latitude_index,
        longitude_index=first.longitude_index,
        grid=dataset.grid,
    )


def _read_axes(store: ReadOnlyStore, metadata: Metadata, names: Sequence[str]) -> xr.Dataset:
    """The coordinates, read whole and decoded. A time that has another name than usual is marked as one."""
    held: dict[str, xr.Variable] = {}
    for name in names:
        value = metadata.arrays[name]
        if len(value["shape"]) > 1:
            continue
        before = set(store.absent)
        array = _open_array(store, name, value)
        try:
            read = np.asarray(array[...])
        except Era5Error:
            raise
        except Exception as error:  # each codec raises its own for a damaged chunk
            said = " ".join(str(error).split())
            raise SourceError(
                f"{store.shown}: its axis {name} cannot be decoded, a chunk of it is damaged ({said})",
                remedy="Run it again. If that does not help, tell whoever keeps the store.",
            ) from error
        if read.size > 1 and store.absent - before:
            raise SourceError(f"{store.shown} lacks values of its axis {name}", remedy=store.remedy)
        held[name] = xr.Variable(_dimensions_of(value), read, dict(value.get("attributes") or {}))
        held[name].attrs.pop("_ARRAY_DIMENSIONS", None)
    decoded = xr.decode_cf(xr.Dataset(held), decode_timedelta=False).reset_coords()
    times = [name for name, axis in decoded.variables.items() if np.issubdtype(axis.dtype, np.datetime64)]
    if len(times) == 1:
        decoded.variables[times[0]].attrs.setdefault("standard_name", "time")
    return decoded


def _stated_versions(store: ReadOnlyStore, metadata: Metadata, time: str, hours: int) -> StatedVersions | None:
    """The versions by the store's arrays, for the axis `time` of so many hours; None without such arrays."""
    found = {name: metadata.arrays[name] for name in VERSION_ARRAYS if name in metadata.arrays}
    arrays = (
        stated_array(
            name, _open_array(store, name, value), _dimensions_of(value), time, hours, store.absent.__contains__
        )
        for name, value in found.items()
    )
    return StatedVersions(tuple(arrays)) if found else None


def _open_array(store: ReadOnlyStore, name: str, value: Mapping[str, Any]) -> zarr.Array[Any]:
    with warnings.catch_warnings():
        # Codecs of numcodecs are not in the specification of format 3; what is read is compared with the bounds.
        warnings.simplefilter("ignore", ZarrUserWarning)
        return zarr.Array.from_dict(StorePath(store, name), dict(value))


def _since_1940(array: xr.DataArray) -> xr.DataArray:
    """The array from ERA5's first hour on: some stores have a longer time axis."""
    try:
        time = time_axis(array)
    except ProblemError:
        return array  # said when it is described
    if time.ndim != 1:
        return array
    first = np.datetime64(FIRST_HOUR, "h")
    begun = np.flatnonzero(time.values >= first)
    return array.isel({time.dims[0]: slice(int(begun[0]) if begun.size else array.sizes[time.dims[0]], None)})


def _consecutive(store: ReadOnlyStore, field: Field) -> range:
    steps = np.diff(field.hours)
    if (steps == 1).all():
        return range(int(field.hours[0]), int(field.hours[-1]) + 1)
    after = int(field.hours[int(np.flatnonzero(steps != 1)[0])])
    (text,) = describe_hours([after])
    raise SourceError(
        f"{store.shown} does not have every hour in ascending order: {text} is followed by another than the next",
        remedy="Load from a store of hourly data; parts of a store that lack hours can be files (--source files).",
    )


def _with_data(attributes: Mapping[str, Any], hours: range) -> tuple[range, int | None]:
    """The hours with data, and the first that is not final: ARCO-ERA5's time axis is longer, its attributes say both.

    None: the attributes do not say.
    """

    def end_of(name: str) -> int | None:
        text = str(attributes.get(name, ""))[:10]
        try:
            day = datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            return None
        return hour_of(day + timedelta(days=1))

    final = end_of("valid_time_stop")
    if final is None:
        return hours, None
    end = max(final, end_of("valid_time_stop_era5t") or final)
    first = end_of("valid_time_start")
    start = hours.start if first is None else first - 24
    return range(max(hours.start, start), min(hours.stop, end)), final


def _stored_array(
    store: ReadOnlyStore,
    path: str,
    value: Mapping[str, Any],
    dimensions: tuple[str, ...],
    field: Field,
    variable: Variable,
) -> StoredArray:
    attributes = _numeric_fills(value.get("attributes") or {})
    dtype = _open_array(store, path, value).dtype
    if dtype.kind not in "fiu":
        raise SourceError(f"{store.shown}: {path} holds {dtype}, not numbers", remedy=store.remedy)
    is_format_2, fill = value["zarr_format"] == 2, value.get("fill_value")
    if dtype.kind == "f":
        # A chunk that is absent is missing values, whatever the store fills it with; zarr says so only by the fill
        # value. In format 2 that is also the mark of a missing value, as xarray has it; but zarr's own default is 0.
        if is_format_2 and fill not in (None, 0, 0.0) and "_FillValue" not in attributes:
            attributes["_FillValue"] = float(fill)
        replaced: Any = "NaN"
    else:
        limits = np.iinfo(dtype)
        stated = attributes.get("_FillValue", attributes.get("missing_value", fill if is_format_2 else None))
        # Without a mark of missing values, one that packing leaves out: were it used, it would be missing, never wrong.
        replaced = (
            int(np.atleast_1d(stated)[0]) if stated is not None else int(limits.min if limits.min else limits.max)
        )
        attributes["_FillValue"] = replaced
    array = _open_array(store, path, {**value, "fill_value": replaced})
    axes = tuple(dimensions.index(str(name)) if name is not None else -1 for name in field.dimensions)
    if -1 in axes:
        raise SourceError(f"{store.shown}: {path} is not along time, latitude and longitude", remedy=store.remedy)

    def along(sizes: tuple[int, ...]) -> tuple[int, int, int]:
        time, latitude, longitude = (int(sizes[axis]) for axis in axes)
        return time, latitude, longitude

    return StoredArray(
        variable=variable,
        name=path,
        array=array,
        axes=(axes[0], axes[1], axes[2]),
        chunk=along(array.chunks),
        shard=along(array.shards or array.chunks),
        item_bytes=int(dtype.itemsize),
        decoding=Decoding.of(attributes, None),
    )


def _numeric_fills(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with marks of missing values as numbers: JSON has no NaN, and xarray writes bytes as text."""
    numeric = dict(attributes)
    for name in ("_FillValue", "missing_value"):
        if isinstance(text := numeric.get(name), str):
            try:
                numeric[name] = float(text)
            except ValueError:
                (numeric[name],) = struct.unpack("<d", b64decode(text))
    return numeric
