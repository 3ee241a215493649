"""Zarr stores of generated weather, cut in three ways, on a part of the grid; served by `arco_store.served` or from S3.

All hold the same values. The grid is a crop: nothing about a store depends on how much of the globe it has.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec, ZstdCodec
from zarr.errors import ZarrUserWarning

from era5_pipeline.model.times import hour_of
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.sources.sample_weather import SampleWeather

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy.typing as npt
    from pyarrow import fs

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.months import Month

    Floats = npt.NDArray[np.float32]
    Places = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

# North to south, west to east: across Greenwich.
LATITUDES = np.arange(52.0, 46.9, -0.25)
LONGITUDES = np.arange(-2.5, 2.6, 0.25)
COLUMNS = ("temperature_2m", "total_precipitation")


@dataclass(frozen=True)
class Cut:
    """How a store is cut and named: `chunk` and `shard` are hours x latitudes x longitudes."""

    zarr_format: Literal[2, 3]
    chunk: tuple[int, int, int]
    shard: tuple[int, int, int] | None = None
    consolidated: bool = False
    # Names of the dimensions in the order of the arrays; `what` each is.
    names: tuple[str, str, str] = ("time", "latitude", "longitude")
    order: tuple[int, int, int] = (0, 1, 2)
    short_names: bool = True
    is_ascending: bool = False
    is_eastward: bool = False
    compressor: Any = None
    serializer: Any = "auto"
    dtype: str = "f4"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    group_attributes: Mapping[str, Any] = field(default_factory=dict)


# An hour a chunk, as Google's; cut in space and time, with other names and another order of axes; sharded.
HOURLY = Cut(2, (1, 721, 1440), consolidated=True, short_names=False, is_eastward=True, compressor=Blosc())
BOXES = Cut(
    3,
    (4320, 64, 64),
    names=("valid_time", "lat", "lon"),
    order=(2, 1, 0),
    is_ascending=True,
    compressor=BloscCodec(cname="lz4", shuffle="shuffle"),
)
SHARDED = Cut(
    3,
    (24, 8, 8),
    (720, 32, 32),
    consolidated=True,
    names=("t", "y", "x"),
    order=(1, 2, 0),
    compressor=ZstdCodec(level=1, checksum=True),
)
CUTS = {"hourly": HOURLY, "boxes": BOXES, "sharded": SHARDED}
# As Earthmover's Icechunk repository, with shorter chunks in time: `write_repository` encodes them as it does.
TEMPORAL = Cut(3, (364, 12, 12), names=("valid_time", "latitude", "longitude"))
SPATIAL = Cut(3, (1, 721, 1440), names=("valid_time", "latitude", "longitude"))


def hours_between(first: Month, last: Month) -> range:
    return range(hour_of(first.start), hour_of(last.end))


def weather(hours: range, columns: tuple[str, ...] = COLUMNS) -> dict[str, Floats]:
    """The values of all stores: a day of generated weather, repeated, and changed by the number of the hour."""
    day = np.arange(hour_of_day_zero := 438_000, hour_of_day_zero + 24)
    of_day = SampleWeather(LATITUDES, LONGITUDES).at(day, [BY_COLUMN[column] for column in columns])
    numbers = np.arange(hours.start, hours.stop)
    factor = 1 + (numbers % 512)[:, None, None] / 102_400
    return {column: (of_day[column][numbers % 24] * factor).astype(np.float32) for column in columns}


def write_store(
    folder: Path,
    cut: Cut,
    hours: range,
    columns: tuple[str, ...] = COLUMNS,
    values: Mapping[str, Floats] | None = None,
    places: Places = (LATITUDES, LONGITUDES),
) -> None:
    """Write a store with `hours`; `values` (hour, latitude, longitude) are those of `weather` unless given."""
    group = zarr.open_group(str(folder), mode="w", zarr_format=cut.zarr_format)
    fill_group(group, cut, hours, columns, values, places)
    if cut.consolidated:
        with warnings.catch_warnings():
            # In format 3 they are an addition to the specification; xarray and others write and read them.
            warnings.simplefilter("ignore", ZarrUserWarning)
            zarr.consolidate_metadata(str(folder), zarr_format=cut.zarr_format)


def write_repository(
    folder: Path,
    hours: range,
    columns: tuple[str, ...] = COLUMNS,
    values: Mapping[str, Floats] | None = None,
    also: Callable[[Any], None] = lambda _: None,
    **groups: Cut,
) -> str:
    """Write a state of an Icechunk repository with these groups of `single`; return the id of its snapshot.

    By default the group is `temporal`. A repository that exists gets one more state. `also` changes the session before
    it is committed.
    """
    import icechunk  # not on every Python
    from zarr.codecs.numcodecs import PCodec  # the same

    icechunk.set_logs_filter("error")
    repository = icechunk.Repository.open_or_create(icechunk.local_filesystem_storage(str(folder)))
    session = repository.writable_session("main")
    for name, cut in (groups or {"temporal": TEMPORAL}).items():
        group = zarr.open_group(session.store, path=f"single/{name}", mode="w", zarr_format=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZarrUserWarning)  # as Earthmover's; the specification lacks it
            fill_group(group, dataclasses.replace(cut, serializer=PCodec(level=8)), hours, columns, values)
    also(session)
    return str(session.commit(f"hours to {hours.stop}"))


def fill_group(
    group: zarr.Group,
    cut: Cut,
    hours: range,
    columns: tuple[str, ...] = COLUMNS,
    values: Mapping[str, Floats] | None = None,
    places: Places = (LATITUDES, LONGITUDES),
) -> None:
    """Create the arrays of a store in an empty group, and write their values."""
    group.attrs.put(dict(cut.group_attributes))
    latitudes = places[0][::-1] if cut.is_ascending else places[0]
    longitudes = np.sort(places[1] % 360) if cut.is_eastward else places[1]
    axes = (
        (np.array(hours) - hours[0], {"units": f"hours since {np.datetime64(hours[0], 'h').astype('M8[s]')}"}),
        (latitudes, {"units": "degrees_north"}),
        (longitudes, {"units": "degrees_east"}),
    )
    for name, (axis, attributes) in zip(cut.names, axes, strict=True):
        _create(group, cut, name, axis.shape, axis.shape, None, axis.dtype, (name,), attributes, None)[:] = axis
    values = weather(hours, columns) if values is None else values
    for column in columns:
        variable = BY_COLUMN[column]
        data = values[column]
        if cut.is_ascending:
            data = data[:, ::-1]
        if cut.is_eastward:
            data = data[:, :, np.argsort(places[1] % 360)]
        array = _create(
            group,
            cut,
            variable.short_name if cut.short_names else variable.cds_name,
            tuple(data.shape[axis] for axis in cut.order),
            tuple(
                min(cut.chunk[axis], data.shape[axis]) if cut.shard is None else cut.chunk[axis] for axis in cut.order
            ),
            None if cut.shard is None else tuple(cut.shard[axis] for axis in cut.order),
            np.dtype(cut.dtype),
            tuple(cut.names[axis] for axis in cut.order),
            {"units": variable.file_units[0], "GRIB_paramId": variable.param_id, **cut.attributes},
            cut.compressor,
        )
        turned = data.transpose(cut.order)
        if "scale_factor" in cut.attributes:
            packed = (turned - cut.attributes["add_offset"]) / cut.attributes["scale_factor"]
            turned = np.where(np.isnan(packed), cut.attributes.get("_FillValue", 0), np.rint(packed)).astype(cut.dtype)
        array[...] = turned


def _create(
    group: zarr.Group,
    cut: Cut,
    name: str,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    shards: tuple[int, ...] | None,
    dtype: np.dtype[Any],
    dimensions: tuple[str, ...],
    attributes: Mapping[str, Any],
    compressor: Any,
) -> Any:
    options: dict[str, Any] = {"dimension_names": dimensions} if cut.zarr_format == 3 else {}
    array = group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        shards=shards,
        dtype=dtype,
        fill_value=np.nan if dtype.kind == "f" else 0,
        compressors=_compressors(cut, dtype, compressor),
        serializer=cut.serializer if dtype.kind == "f" and len(shape) == 3 else "auto",
        **options,
    )
    named = {"_ARRAY_DIMENSIONS": list(dimensions)} if cut.zarr_format == 2 else {}
    array.attrs.update({**named, **attributes})
    return array


def _compressors(cut: Cut, dtype: np.dtype[Any], compressor: Any) -> Any:
    if cut.serializer != "auto" and dtype.kind == "f":
        return None  # it compresses itself
    return "auto" if compressor is None else compressor


def expected(column: str, hours: range, area: Area | None = None) -> Floats:
    """The values (hour, latitude, longitude), north to south and west to east, cut to the area."""
    values = weather(hours)[column]
    if area is None:
        return values
    rows = (area.north >= LATITUDES) & (area.south <= LATITUDES)
    columns = (area.west <= LONGITUDES) & (area.east >= LONGITUDES)
    return values[:, rows][:, :, columns]


def chunks_in(folder: Path) -> list[Path]:
    """The files of the store that hold values of our variables."""
    names = ("c", *map(str, range(10)))
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not path.name.startswith((".", "zarr.json"))
        and path.relative_to(folder).parts[0]
        not in ("time", "latitude", "longitude", "valid_time", *"tyx", "lat", "lon")
        and path.relative_to(folder).parts[1].startswith(names)
    )


def set_fill_value(folder: Path, fill: Any) -> None:
    """Change what the arrays of a store are filled with where they have no chunk."""
    for path in (*folder.rglob(".zarray"), *folder.rglob("zarr.json")):
        value = json.loads(path.read_text())
        if len(value.get("shape", ())) == 3:
            value["fill_value"] = fill
            path.write_text(json.dumps(value))


def upload(folder: Path, client: fs.S3FileSystem, address: str) -> None:
    """Copy a store to `s3://bucket/prefix`."""
    place = address.removeprefix("s3://")
    for path in folder.rglob("*"):
        if path.is_file():
            with client.open_output_stream(f"{place}/{path.relative_to(folder).as_posix()}") as stream:
                stream.write(path.read_bytes())


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
