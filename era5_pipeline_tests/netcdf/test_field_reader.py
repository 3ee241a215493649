"""`netcdf.field_reader`, by libhdf5 and by `netcdf.raw_chunks`: the same values of the same files."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import netCDF4
import numpy as np
import pytest
from dask.base import compute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from era5_pipeline.netcdf import field_reader
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.contents import Field, inspect
from era5_pipeline.netcdf.field_reader import FieldReader, contents_of, keep_written, open_reader
from era5_pipeline.netcdf.raw_chunks import RawChunks
from era5_pipeline_tests.era5_files import (
    CURRENT,
    LAYOUTS,
    LEGACY,
    VARIABLES,
    Layout,
    half_steps_of,
    hours_from,
    weather,
    write_netcdf,
)

if TYPE_CHECKING:
    import numpy.typing as npt

HOURS = hours_from("2023-07-01T00", 12)
ALL = slice(None)


def read(
    path: Path, hours: Any = ALL, latitudes: Any = ALL, longitudes: Any = ALL, position: int = 0
) -> npt.NDArray[Any]:
    """The values (hour, latitude, longitude): the same bits by the library, at once and with dask, and by chunks."""
    file = NetcdfFile(path, path)
    field = inspect(file).fields[position]
    axes: tuple[npt.NDArray[Any], ...] = (field.hours, field.latitude_index, field.longitude_index)
    chosen = [np.arange(len(axis))[which] for axis, which in zip(axes, (hours, latitudes, longitudes), strict=True)]
    at_once, by_chunks = (computed(file, field, chosen, by_chunks=way) for way in (False, True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("era5_pipeline.netcdf.field_reader._FEW_VALUES", 0)
        with_dask = computed(file, field, chosen, by_chunks=False)
    for other in (at_once, with_dask):
        np.testing.assert_array_equal(other.view(np.uint32), by_chunks.view(np.uint32))
    return by_chunks


def computed(
    file: NetcdfFile, field: Field, positions: list[npt.NDArray[np.intp]], *, by_chunks: bool
) -> npt.NDArray[np.float32]:
    with closing(FieldReader(file, by_chunks=by_chunks)) as reader:
        (values,) = compute(reader.values(field, *positions))  # type: ignore[no-untyped-call]
    assert values.dtype == np.float32
    return np.ascontiguousarray(values.transpose(2, 0, 1))


def in_units_of_the_table(name: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    *_, scale, offset = VARIABLES[name]
    return values * scale + offset


# Of other units, of another scale, and in the units of the table.
_NAMES = ("t2m", "tp", "u10")
_ONE_FILE = [layout for layout in LAYOUTS if not (layout.zipped or layout.one_hour_per_file)]


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        *((layout, name) for layout in _ONE_FILE for name in _NAMES),
        *((layout, name) for layout in (CURRENT, LEGACY) for name in VARIABLES if name not in _NAMES),
    ],
    ids=str,
)
def test_values_equal_those_of_the_file_in_units_of_the_table(tmp_path: Path, layout: Layout, name: str) -> None:
    of = weather(HOURS, names=[name], missing=0.1)
    values = read(write_netcdf(tmp_path / "x.nc", of, layout))
    expected = in_units_of_the_table(name, of.fields[name])
    if layout.south_first:
        expected = expected[:, ::-1]
    np.testing.assert_array_equal(np.isnan(values), np.isnan(expected))
    slack = half_steps_of(of, layout).get(VARIABLES[name][0], 0.0)
    step = np.spacing(np.abs(expected).astype(np.float32))
    assert np.nanmax(np.abs(values - expected) - step) <= slack


def test_conversion_is_done_in_float64_and_rounded_once(tmp_path: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 500))
    values = read(write_netcdf(tmp_path / "x.nc", of))
    np.testing.assert_array_equal(values, (of.fields["t2m"] - 273.15).astype(np.float32))


@pytest.mark.parametrize("packed", ["i2", "u2", "float32 attributes"])
def test_packed_values_are_unpacked_in_float64_whatever_the_type_of_their_attributes(
    tmp_path: Path, packed: Any
) -> None:
    path = write_netcdf(
        tmp_path / "x.nc", weather(HOURS, names=["tp"]), replace(LEGACY, file_format="NETCDF4", packed=packed)
    )
    with netCDF4.Dataset(path) as dataset:
        variable = dataset["tp"]
        variable.set_auto_maskandscale(False)
        stored = variable[...].astype(np.float64)
        expected = (stored * np.float64(variable.scale_factor) + np.float64(variable.add_offset)) * 1000.0
    np.testing.assert_array_equal(read(path), expected.astype(np.float32))


def test_signed_numbers_marked_unsigned_are_read_as_unsigned(tmp_path: Path) -> None:
    """netCDF-3 has no unsigned types: the attribute _Unsigned marks them."""
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS), LEGACY)
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["t2m"].setncatts({"_Unsigned": "true", "scale_factor": 0.01, "add_offset": 0.0})
        dataset["t2m"].set_auto_maskandscale(False)
        dataset["t2m"][...] = np.full(dataset["t2m"].shape, -36536, dtype=np.int64).astype(np.int16)
    np.testing.assert_allclose(read(path), 290.0 - 273.15, atol=0.01)


def test_fillvalue_and_missing_value_both_become_nan(tmp_path: Path) -> None:
    path = write_netcdf(
        tmp_path / "x.nc", weather(HOURS), replace(CURRENT, attributes={"missing_value": np.float32(1e20)})
    )
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["t2m"].set_auto_mask(False)
        dataset["t2m"][0, 0, 0] = 1e20
        dataset["t2m"][1, 0, 0] = np.nan
    values = read(path)
    assert np.isnan(values[:2, 0, 0]).all()
    assert np.isnan(values).sum() == 2


positions = st.sets(st.integers(0, 11), min_size=1).map(sorted)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hours=positions, latitudes=positions, longitudes=positions)
def test_any_ascending_positions_can_be_read(
    tmp_path: Path, hours: list[int], latitudes: list[int], longitudes: list[int]
) -> None:
    path = tmp_path / "x.nc"
    axis = [10 - n / 4 for n in range(12)]
    of = weather(HOURS, axis, axis[::-1], ["u10"])
    if not path.exists():
        write_netcdf(path, of, replace(CURRENT, chunks=(5, 4, 3)))
    values = read(path, hours, latitudes, longitudes)
    np.testing.assert_array_equal(values, of.fields["u10"][np.ix_(hours, latitudes, longitudes)].astype(np.float32))


TYPES = {"float32": ("<f4", None), "int16": ("<i2", None), "int16 as unsigned": ("<i2", "true")}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_chunk_by_chunk_every_bit_is_as_by_libhdf5(tmp_path: Path, data: st.DataObject) -> None:
    """Any stored numbers, fill values, packing, chunks, filters and positions."""
    name, unsigned = TYPES[data.draw(st.sampled_from(sorted(TYPES)))]
    dtype = np.dtype(name)
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=3, max_size=3)))
    chunk = tuple(data.draw(st.integers(1, size)) for size in shape)
    stored = np.frombuffer(data.draw(st.binary(min_size=4 * 6**3, max_size=4 * 6**3)), dtype=dtype)[: np.prod(shape)]
    attributes: dict[str, Any] = {"_Unsigned": unsigned} if unsigned else {}
    if data.draw(st.booleans()):
        attributes |= {"scale_factor": 0.017, "add_offset": -3.5}
    if data.draw(st.booleans()):
        attributes["missing_value"] = stored[data.draw(st.integers(0, stored.size - 1))]
    with (
        tempfile.TemporaryDirectory(dir=tmp_path) as folder,
        netCDF4.Dataset(Path(folder) / "x.nc", "w") as dataset,
    ):
        for name, size in zip(("time", "latitude", "longitude"), shape, strict=True):
            dataset.createDimension(name, size)
        variable = dataset.createVariable(
            "x", dtype, ("time", "latitude", "longitude"), chunksizes=chunk, zlib=True,
            complevel=data.draw(st.sampled_from((1, 4, 9))), shuffle=data.draw(st.booleans()),
        )  # fmt: skip
        variable.set_auto_maskandscale(False)
        variable[...] = stored.reshape(shape)
        variable.setncatts(attributes)
        dataset.sync()
        path = Path(folder) / "x.nc"
        field = Field(
            column=data.draw(st.sampled_from(["temperature_2m", "zonal_wind_10m", "total_precipitation"])),
            name="x",
            hours=np.arange(shape[0]),
            expver=np.full(shape[0], "0001"),
            latitude_index=np.arange(shape[1], dtype=np.int32),
            longitude_index=np.arange(shape[2], dtype=np.int32),
            half_step=0.0,
            chunks=(chunk[0], chunk[1], chunk[2]),
            dimensions=("time", "latitude", "longitude"),
        )
        chosen = [np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))) for size in shape]
        assert RawChunks.find(path, field) is not None
        with np.errstate(all="ignore"):
            by_library, by_chunks = (
                computed(NetcdfFile(path, path), field, chosen, by_chunks=way).view(np.uint32) for way in (False, True)
            )
    np.testing.assert_array_equal(by_library, by_chunks)


def test_a_damaged_chunk_is_refused(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(hours_from("2023-07-01T00", 40)), replace(CURRENT, chunks=(5, 3, 4)))
    file = NetcdfFile(path, path)
    (field,) = inspect(file).fields
    chunks = RawChunks.find(path, field)
    assert chunks is not None
    start, size = int(chunks.starts[3, 0, 0]), int(chunks.sizes[3, 0, 0])
    whole = path.read_bytes()
    # The header and the checksum of zlib are at its ends.
    for position in (
        *range(start, start + 8),
        *range(start + 8, start + size - 8, 4),
        *range(start + size - 8, start + size),
    ):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        with pytest.raises((RuntimeError, OSError, ValueError)):
            read(path)
    path.write_bytes(whole[: start + size // 2])
    with pytest.raises((RuntimeError, OSError, ValueError)):
        chunks._inflated((3, 0, 0))


def test_either_version_of_an_expver_dimension_can_be_read(tmp_path: Path) -> None:
    of = weather(HOURS, names=["u10"], expver=("0001",) * 5 + ("0005",) * 7)
    layout = replace(LEGACY, expver="dimension", packed="no")
    path = write_netcdf(tmp_path / "x.nc", of, layout)
    final, preliminary = read(path, position=0), read(path, position=1)
    np.testing.assert_array_equal(final[:5], of.fields["u10"][:5].astype(np.float32))
    np.testing.assert_array_equal(preliminary[5:], of.fields["u10"][5:].astype(np.float32))
    assert np.isnan(final[5:]).all()
    assert np.isnan(preliminary[:5]).all()


def test_a_single_place_and_hour_without_dimensions(tmp_path: Path) -> None:
    of = weather(HOURS[:1], [10.0], [20.0], ["u10"])
    without = replace(CURRENT, time="scalar", expver="scalar", single_points_without_dimensions=True)
    values = read(write_netcdf(tmp_path / "x.nc", of, without))
    np.testing.assert_array_equal(values, of.fields["u10"].astype(np.float32))


def test_dask_chunks_end_at_chunk_borders_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("era5_pipeline.netcdf.field_reader._DASK_CHUNK_VALUES", 120)
    monkeypatch.setattr("era5_pipeline.netcdf.field_reader._FEW_VALUES", 0)
    path = write_netcdf(tmp_path / "x.nc", weather(hours_from("2023-07-01T00", 40)), replace(CURRENT, chunks=(5, 3, 4)))
    file = NetcdfFile(path, path)
    (field,) = inspect(file).fields
    with closing(FieldReader(file, by_chunks=False)) as reader:
        lazy = reader.values(field, np.arange(3, 33), np.arange(3), np.arange(4))
        assert isinstance(lazy, da.Array)
        assert lazy.chunks == ((3,), (4,), (7, 10, 10, 3))
        (values,) = compute(lazy)  # type: ignore[no-untyped-call]
        assert values.shape == (3, 4, 30)


def test_a_file_of_very_many_chunks_is_left_to_libhdf5(tmp_path: Path) -> None:
    """Each of its months would have to look at all of them."""
    of = weather(hours_from("2023-01-01T00", 10_001), [10.0], [20.0])
    path = write_netcdf(tmp_path / "x.nc", of, replace(CURRENT, chunks=(1, 1, 1)))
    (field,) = inspect(NetcdfFile(path, path)).fields
    assert RawChunks.find(path, field) is None


def test_the_chunk_cache_of_hdf5_is_limited(tmp_path: Path) -> None:
    """The default is 64 MB for each variable of each open file: a month in daily files would take many gigabytes."""
    read(write_netcdf(tmp_path / "x.nc", weather(HOURS)))
    assert netCDF4.get_chunk_cache()[0] <= 1 << 20


def test_contents_are_kept_until_the_file_changes_or_too_many_hours_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = field_reader._KeptContents()
    monkeypatch.setattr(kept, "_MOST_HOURS", 2 * (HOURS.size + kept._HOURS_OF_A_FILE))
    monkeypatch.setattr(field_reader, "_kept", kept)
    paths = [write_netcdf(tmp_path / f"{number}.nc", weather(HOURS, seed=number)) for number in range(3)]
    first, second, third = (NetcdfFile(path, path) for path in paths)
    contents = contents_of(first), contents_of(second)
    assert contents_of(first) is contents[0]
    contents_of(third)
    assert contents_of(first) is contents[0]  # the second was used before it
    assert contents_of(second) is not contents[1]
    write_netcdf(paths[0], weather(HOURS[:6], seed=4))
    assert contents_of(first).fields[0].hours.size == 6


def test_values_just_written_need_not_be_read_until_the_file_changes(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS, names=["t2m"]))
    file = NetcdfFile(path, path)
    contents = inspect(file)
    (field,) = contents.fields
    stored = np.full((field.hours.size, field.latitude_index.size, field.longitude_index.size), 280, np.float32)
    everything = [np.arange(size) for size in stored.shape]
    from_the_file = read(path)

    def opened() -> npt.NDArray[Any]:
        with closing(open_reader(file, by_chunks=False)) as reader:
            (values,) = compute(reader.values(field, *everything))  # type: ignore[no-untyped-call]
        return np.asarray(values.transpose(2, 0, 1))

    keep_written(file, contents, {"temperature_2m": stored})
    stored[:] = 0  # a copy is kept
    np.testing.assert_allclose(opened(), 280 - 273.15, rtol=1e-6)
    np.testing.assert_array_equal(opened(), from_the_file)  # once
    keep_written(file, contents, {"temperature_2m": stored})
    os.utime(path, ns=(0, 0))
    np.testing.assert_array_equal(opened(), from_the_file)


def test_contents_at_other_hours_are_those_of_a_file_with_them(tmp_path: Path) -> None:
    one = write_netcdf(tmp_path / "one.nc", weather(hours_from("2023-07-01T00", 12)))
    other = write_netcdf(tmp_path / "other.nc", weather(hours_from("2024-02-28T20", 12)))
    contents, hours = inspect(NetcdfFile(one, one)), range(474_764, 474_776)
    for shifted, inspected in zip(
        contents.at(hours, ("0001",) * 12).fields, inspect(NetcdfFile(other, other)).fields, strict=True
    ):
        assert shifted.months == inspected.months == ("2024-02",)
        np.testing.assert_array_equal(shifted.hours, inspected.hours)
        np.testing.assert_array_equal(shifted.expver, inspected.expver)
    assert contents.at(hours, ()).fields[0].expver.tolist() == ["unknown"] * 12
