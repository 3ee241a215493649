"""Tests of `flat/tiles`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.flat import tiles
from era5_pipeline.flat.inventory import Inventory, Piece
from era5_pipeline.flat.tiles import Tile, cut_tiles, tile_size
from era5_pipeline.model.errors import InputError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import describe_hours, hours_in
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.contents import Field, hours_of
from era5_pipeline_tests.era5_files import (
    CURRENT,
    GRIB_LAYOUTS,
    LAYOUTS,
    LEGACY,
    Layout,
    Rows,
    Weather,
    assert_location_major,
    assert_same_rows,
    expected_rows,
    flat_rows,
    flatten,
    half_steps_of,
    hours_from,
    location_id,
    packing_of,
    weather,
    write,
    write_netcdf,
)

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatMonth

MONTH = Month(2023, 7)
FILE = NetcdfFile(None, None)  # type: ignore[arg-type]
INSTEAD_OF_GLOBAL = Area.parse("global")


def field_of(
    latitudes: npt.ArrayLike, longitudes: npt.ArrayLike, chunks: tuple[int, int, int] = (0, 0, 0), hours: int = 24
) -> Field:
    return Field(
        column="temperature_2m",
        name="t2m",
        hours=hours_of(MONTH)[:hours],
        expver=np.full(hours, "0001"),
        latitude_index=np.asarray(latitudes, dtype=np.int32),
        longitude_index=np.asarray(longitudes, dtype=np.int32),
        half_step=0.0,
        chunks=chunks,
        dimensions=("time", "latitude", "longitude"),
    )


def inventory_of(*fields: Field, area: Area = INSTEAD_OF_GLOBAL) -> Inventory:
    pieces = tuple(Piece(FILE, field) for field in fields)
    return Inventory(MONTH, pieces, (), area.latitude_indices(), area.longitude_indices())


def assert_tiles_cover_each_point_once(inventory: Inventory) -> list[Tile]:
    found = list(cut_tiles(inventory))
    times = np.zeros(inventory.coverage.shape, dtype=int)
    for tile in found:
        for axis in (tile.latitude_index, tile.longitude_index):
            assert (np.diff(axis) > 0).all(), "the axes of a tile ascend"
        assert inventory.coverage[np.ix_(tile.latitude_index, tile.longitude_index)].any(), "no tile is empty"
        times[np.ix_(tile.latitude_index, tile.longitude_index)] += 1
    assert (times[inventory.coverage] == 1).all(), "each point that is covered lies in one tile"
    return found


@st.composite
def fields(draw: st.DrawFn) -> Field:
    """Any rectangle, also across the antimeridian, in either direction; full circles also with 0 and 360."""
    south = draw(st.integers(0, 715))
    latitudes = np.arange(south, south + draw(st.integers(1, 6)))
    west, width = draw(st.integers(0, 1439)), draw(st.one_of(st.integers(1, 12), st.just(1440)))
    longitudes = (west + np.arange(width)) % 1440
    if width == 1440 and draw(st.booleans()):
        longitudes = np.append(longitudes, longitudes[0])
    chunks = draw(st.tuples(*(st.integers(0, 20) for _ in range(3))))
    return field_of(latitudes[::-1] if draw(st.booleans()) else latitudes, longitudes, chunks, draw(st.integers(1, 48)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(fields(), min_size=1, max_size=3),
    st.integers(1, 5000),
    st.sampled_from(["global", "90/170/0/-170", "20/0/-20/0.5", "90/-180/-90/179"]),
)
def test_tiles_cover_each_point_once_and_have_a_limited_size(held: list[Field], target: int, area: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TARGET_POINT_HOURS", target)
        patch.setattr(tiles, "LARGEST_POINT_HOURS", 3 * target)
        inventory = inventory_of(*held, area=Area.parse(area))
        if not inventory.coverage.any():
            return
        for tile in assert_tiles_cover_each_point_once(inventory):
            point_hours = tile.latitude_index.size * tile.longitude_index.size * inventory.hours.size
            assert point_hours <= max(3 * target, inventory.hours.size)


def test_tiles_end_at_chunk_borders_of_the_file() -> None:
    field = field_of(np.arange(720, -1, -1), np.arange(1440), (24, 91, 180), hours=744)
    height_of_chunk, width_of_chunk = 91, 180
    for tile in cut_tiles(inventory_of(field)):
        rows = 720 - tile.latitude_index  # rows in the file, from north to south
        assert rows.min() % height_of_chunk == 0
        assert (rows.max() + 1) % height_of_chunk == 0 or rows.max() == 720
        assert tile.longitude_index.min() % width_of_chunk == 0
        assert (tile.longitude_index.max() + 1) % width_of_chunk == 0


@pytest.mark.parametrize(
    "chunks", [(0, 0, 0), (24, 91, 180), (124, 121, 240), (12, 361, 720), (1, 721, 1440), (744, 10, 10), (744, 1, 1)]
)
def test_a_global_month_is_cut_into_tiles_of_which_two_fit_into_memory(chunks: tuple[int, int, int]) -> None:
    field = field_of(np.arange(720, -1, -1), np.arange(1440), chunks, hours=744)
    width, height = tile_size(field, 744)
    assert width * height * 744 <= tiles.LARGEST_POINT_HOURS
    # Not so small either that a month has thousands of tiles.
    assert width * height * 744 >= tiles.TARGET_POINT_HOURS / 2
    assert_tiles_cover_each_point_once(inventory_of(field))


def test_a_small_month_is_one_tile() -> None:
    (tile,) = cut_tiles(inventory_of(field_of([10, 9, 8], [1438, 1439, 0, 1], hours=744)))
    assert tile.latitude_index.tolist() == [8, 9, 10]
    assert tile.longitude_index.tolist() == [0, 1, 1438, 1439]


HOURS = hours_from("2023-07-01T00", 6)
FINAL, PRELIMINARY = ("0001",) * 6, ("0005",) * 6


pytestmark = pytest.mark.usefixtures("no_pictures")


def same_with(of: Weather, change: npt.NDArray[np.float64] | float, expver: tuple[str, ...] | None = None) -> Weather:
    return replace(of, fields={name: values + change for name, values in of.fields.items()}, expver=expver or of.expver)


def expvers(flat: FlatMonth) -> dict[str, int]:
    (column,) = flat.columns
    return column.expver


# ---- overlapping files


@pytest.mark.parametrize("one", [CURRENT, LEGACY], ids=str)
@pytest.mark.parametrize("other", [CURRENT, LEGACY], ids=str)
def test_files_that_agree_within_their_packing_may_overlap(tmp_path: Path, one: Layout, other: Layout) -> None:
    """Also near 0 degC, where float32 is coarser for the kelvin of the file than for the table's degrees."""
    hours = hours_from("2023-07-01T00", 300)
    of = weather(hours, names=["t2m", "tp"])
    of.fields["t2m"][:] = 273.15 + np.random.default_rng(1).normal(0, 0.2, of.shape)
    # Packed over another range, the same values get other numbers.
    half = replace(of, hours=hours[:150], fields={name: values[:150] for name, values in of.fields.items()})
    paths = [write_netcdf(tmp_path / "a.nc", of, one), write_netcdf(tmp_path / "b.nc", half, other)]
    flat = flatten(paths, "2023-07", tmp_path)
    slack = half_steps_of(of, LEGACY)
    slack["temperature_2m"] += 2e-5  # rounding of float32 near 273.15
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"), slack)


def test_among_agreeing_files_the_finer_packing_is_used(tmp_path: Path) -> None:
    of = weather(HOURS, names=["u10"])
    paths = [
        write_netcdf(tmp_path / "a.nc", of, LEGACY),
        write_netcdf(tmp_path / "b.nc", of, replace(CURRENT, expver="absent")),
    ]
    flat = flatten(paths, "2023-07", tmp_path)
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"))


@pytest.mark.parametrize("expver", [FINAL, PRELIMINARY], ids=["final", "preliminary"])
@pytest.mark.parametrize("turned", [False, True])
def test_files_that_contradict_each_other_are_named_with_the_first_place(
    tmp_path: Path, expver: tuple[str, ...], *, turned: bool
) -> None:
    of = weather(HOURS, [10.0, 9.75, 9.5], [20.0, 20.25], ["u10"], expver=expver)
    change = np.zeros(of.shape)
    change[4, 1, 1] = 0.01
    change[5, 2, 1] = 0.01
    contents = [of, same_with(of, change)]
    names = ["a.nc", "b.nc"]
    paths = [
        write_netcdf(tmp_path / name, content)
        for name, content in zip(names, reversed(contents) if turned else contents, strict=True)
    ]
    third = write_netcdf(tmp_path / "c.nc", replace(of, hours=of.hours + 10))
    with pytest.raises(InputError, match=r"a\.nc and .*b\.nc contradict") as raised:
        flatten([paths[0], third, paths[1]], "2023-07", tmp_path)
    text = str(raised.value)
    assert all(str(path) in text for path in paths)
    assert str(third) not in text
    assert "zonal_wind_10m" in text
    assert "latitude 9.75, longitude 20.25, 2023-07-01T04:00Z" in text
    value = of.fields["u10"][4, 1, 1]
    assert f"{np.float32(value):g}" in text
    assert f"{np.float32(value + 0.01):g}" in text
    assert raised.value.remedy
    assert not (tmp_path / "flat").exists() or list((tmp_path / "flat").iterdir()) == []


@pytest.mark.parametrize(("halves", "agree"), [(0.9, True), (-0.9, True), (1.2, False), (-1.2, False)])
def test_differences_below_half_a_packing_step_are_no_contradiction(
    tmp_path: Path, halves: float, *, agree: bool
) -> None:
    of = weather(HOURS, names=["u10"])
    scale, offset = packing_of(of.fields["u10"], LEGACY)
    unpacked = replace(of, fields={"u10": np.rint((of.fields["u10"] - offset) / scale) * scale + offset})
    paths = [
        write_netcdf(tmp_path / "a.nc", of, LEGACY),
        write_netcdf(tmp_path / "b.nc", same_with(unpacked, halves * scale / 2)),
    ]
    if agree:
        flatten(paths, "2023-07", tmp_path)
    else:
        with pytest.raises(InputError, match="contradict"):
            flatten(paths, "2023-07", tmp_path)


# ---- one file that holds a place or an hour twice


GLOBAL = {"from 0 to 360": [0.0, 0.25, 359.75, 360.0], "from -180 to 180": [-180.0, -179.75, 179.75, 180.0]}


def with_first_meridian_at_the_end(longitudes: list[float]) -> tuple[Weather, Weather]:
    """The weather of a file whose last meridian is its first, with the same values; and without it."""
    of = weather(HOURS, longitudes=longitudes, names=["u10"])
    of.fields["u10"][:, :, -1] = of.fields["u10"][:, :, 0]
    return of, replace(of, longitudes=of.longitudes[:-1], fields={"u10": of.fields["u10"][:, :, :-1]})


def joined(of: Weather, *others: Weather) -> Weather:
    """Join hours as programs do that append files along time, whether or not they overlap."""
    every = [of, *others]
    return replace(
        of,
        hours=np.concatenate([one.hours for one in every]),
        fields={name: np.concatenate([one.fields[name] for one in every]) for name in of.fields},
        expver=None if of.expver is None else tuple(version for one in every for version in one.expver or ()),
    )


@pytest.mark.parametrize(
    "layout", [CURRENT, LEGACY, replace(CURRENT, chunks=(3, 2, 2))], ids=["one", "packed", "tiles"]
)
@pytest.mark.parametrize("longitudes", GLOBAL.values(), ids=GLOBAL)
def test_a_meridian_twice_is_one_if_its_values_are_equal_and_else_a_contradiction(
    tmp_path: Path, longitudes: list[float], layout: Layout
) -> None:
    twice, once = with_first_meridian_at_the_end(longitudes)
    flat = flatten([write_netcdf(tmp_path / "a.nc", twice, layout)], "2023-07", tmp_path)
    assert_same_rows(flat_rows(flat.path), expected_rows(once, "2023-07"), half_steps_of(twice, layout))
    twice.fields["u10"][4, 1, -1] += 0.01
    path = write_netcdf(tmp_path / "b.nc", twice, layout)
    assert_contradicts_itself(path, f"latitude 10.25, longitude {longitudes[-1] % 360:g}, 2023-07-01T04:00Z", tmp_path)


@pytest.mark.parametrize("layout", [CURRENT, LEGACY, GRIB_LAYOUTS[0]], ids=["current", "packed", "GRIB"])
def test_an_hour_twice_is_one_if_its_values_are_equal_and_else_a_contradiction(tmp_path: Path, layout: Layout) -> None:
    of = weather(HOURS, names=["u10"])
    again = replace(of, hours=of.hours[2:4], fields={"u10": of.fields["u10"][2:4]})
    flat = flatten(write(tmp_path, joined(of, again, again), layout), "2023-07", tmp_path)
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"), half_steps_of(of, layout))
    assert flat.hours == HOURS.size
    change = np.zeros(of.shape)
    change[3, 1, 2] = 1.0
    (path,) = write(tmp_path, joined(of, same_with(of, change)), layout, stem="other")
    assert_contradicts_itself(path, "latitude 10.25, longitude 20.5, 2023-07-01T03:00Z", tmp_path)


def assert_contradicts_itself(path: Path, where: str, folder: Path) -> None:
    with pytest.raises(InputError) as raised:
        flatten([path], "2023-07", folder)
    assert f"{path} contradicts itself, with two values at {where}" in str(raised.value)
    assert "from before they were joined" in (raised.value.remedy or "")


def test_parts_that_were_joined_fill_each_others_gaps(tmp_path: Path) -> None:
    """As `xr.concat` writes files of two areas: each hour twice, with missing values at the other's places."""
    of = weather(HOURS, names=["u10"])
    west, east = (
        np.where(np.arange(4) < 2, *values)[np.newaxis, np.newaxis] for values in ((0.0, np.nan), (np.nan, 0.0))
    )
    path = write_netcdf(tmp_path / "a.nc", joined(same_with(of, west), same_with(of, east)))
    flat = flatten([path], "2023-07", tmp_path)
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"))


# ---- versions


@pytest.mark.parametrize("names", ["ab", "ba", "joined"])
def test_final_wins_over_preliminary_and_does_not_contradict_it(tmp_path: Path, names: str) -> None:
    final = weather(HOURS[:4], names=["u10"], seed=1, expver=FINAL[:4])
    preliminary = weather(HOURS, names=["u10"], seed=2, expver=PRELIMINARY)
    held = dict(zip(names, (final, preliminary), strict=True)) if len(names) == 2 else {"a": joined(preliminary, final)}
    flat = flatten([write_netcdf(tmp_path / f"{name}.nc", of) for name, of in held.items()], "2023-07", tmp_path)
    both = np.concatenate([final.fields["u10"], preliminary.fields["u10"][4:]])
    assert_same_rows(flat_rows(flat.path), expected_rows(replace(preliminary, fields={"u10": both}), "2023-07"))
    assert expvers(flat) == {"0001": 4, "0005": 2}
    assert flat.preliminary_hours == {"zonal_wind_10m": ("2023-07-01T04 to 2023-07-01T05",)}
    assert flat.version == "mixed"


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.expver == "dimension"], ids=str)
def test_an_expver_dimension_is_taken_final_first_and_never_summed(tmp_path: Path, layout: Layout) -> None:
    versions = ("0001", "0001", "0005", "0005", "0005", "0001")
    of = weather(HOURS, names=["u10", "tp"], expver=versions)
    flat = flatten([write_netcdf(tmp_path / "a.nc", of, layout)], "2023-07", tmp_path)
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"), half_steps_of(of, layout))
    assert flat.expver == {column: {"0001": 3, "0005": 3} for column in ("zonal_wind_10m", "total_precipitation")}
    assert [column.missing for column in flat.columns] == [0, 0]
    runs = ("2023-07-01T02 to 2023-07-01T04",)
    assert flat.preliminary_hours == {"zonal_wind_10m": runs, "total_precipitation": runs}


def test_where_both_versions_have_a_value_the_final_one_is_used(tmp_path: Path) -> None:
    import netCDF4

    of = weather(HOURS, names=["u10"], expver=("0001",) * 6)
    layout = replace(LEGACY, expver="dimension", packed="no")
    path = write_netcdf(tmp_path / "a.nc", of, layout)
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["u10"][:, 1] = 5.0
    flat = flatten([path], "2023-07", tmp_path)
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"))
    assert expvers(flat) == {"0001": 6}


@pytest.mark.parametrize(
    ("layout", "versions", "counts", "version"),
    [
        (CURRENT, ("0001", "0005", "0001", "0005", "0005", "0001"), {"0001": 3, "0005": 3}, "mixed"),
        (CURRENT, FINAL, {"0001": 6}, "final"),
        (replace(CURRENT, expver="scalar"), PRELIMINARY, {"0005": 6}, "preliminary"),
        (replace(CURRENT, expver="absent"), PRELIMINARY, {"unknown": 6}, "unknown"),
        (replace(CURRENT, expver="not a coordinate"), PRELIMINARY, {"0005": 6}, "preliminary"),
        (replace(CURRENT, expver="not a coordinate"), ("0001",) * 2 + ("0005",) * 4, {"0001": 2, "0005": 4}, "mixed"),
        (LEGACY, None, {"unknown": 6}, "unknown"),
    ],
)
def test_hours_are_counted_by_version(
    tmp_path: Path, layout: Layout, versions: tuple[str, ...] | None, counts: dict[str, int], version: str
) -> None:
    of = weather(HOURS, names=["u10"], expver=versions)
    flat = flatten([write_netcdf(tmp_path / "a.nc", of, layout)], "2023-07", tmp_path)
    assert expvers(flat) == counts
    assert flat.version == version
    hours = [int(hour) for hour, said in zip(HOURS, versions or (), strict=False) if said == "0005"]
    runs = describe_hours(hours) if "0005" in counts else ()
    assert flat.preliminary_hours == ({"zonal_wind_10m": runs} if runs else {})
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"), half_steps_of(of, layout))


def test_versions_are_counted_per_variable(tmp_path: Path) -> None:
    """As in the month where final data end: accumulations lag the others by some hours."""
    instant = weather(HOURS, names=["t2m"], expver=PRELIMINARY)
    accumulated = weather(HOURS, names=["tp"], expver=("0001",) * 4 + ("0005",) * 2)
    paths = [write_netcdf(tmp_path / "a.nc", instant), write_netcdf(tmp_path / "b.nc", accumulated)]
    flat = flatten(paths, "2023-07", tmp_path)
    assert flat.expver == {"temperature_2m": {"0005": 6}, "total_precipitation": {"0001": 4, "0005": 2}}
    assert flat.preliminary_hours == {
        "temperature_2m": ("2023-07-01T00 to 2023-07-01T05",),
        "total_precipitation": ("2023-07-01T04 to 2023-07-01T05",),
    }
    assert flat.version == "mixed"


# ---- any number of files that overlap in any way


@st.composite
def files_of(draw: st.DrawFn) -> list[Weather]:
    """Cutouts of two data sets, final and preliminary, of 4 x 4 points across the antimeridian and 8 hours."""
    north = np.array([10.5, 10.25, 10.0, 9.75])
    east = np.array([179.5, 179.75, 180.0, -179.75])
    random = np.random.default_rng(draw(st.integers(0, 5)))
    truths = {version: random.normal(size=(8, 4, 4)).astype(np.float32).astype(float) for version in ("0001", "0005")}
    found = []
    for _ in range(draw(st.integers(1, 4))):
        hours = np.array(draw(st.permutations(range(8)))[: draw(st.integers(1, 8))])
        south, tall = draw(st.integers(0, 3)), draw(st.integers(1, 4))
        west, wide = draw(st.integers(0, 3)), draw(st.integers(1, 4))
        versions = tuple(draw(st.sampled_from(["0001", "0005"])) for _ in hours)
        values = np.stack([truths[version][hour] for version, hour in zip(versions, hours, strict=True)])
        values = np.where(random.random(values.shape) < draw(st.sampled_from([0.0, 0.3, 1.0])), np.nan, values)
        window = values[:, south : south + tall, west : west + wide]
        axes = (north[south : south + tall], east[west : west + wide])
        found.append(Weather(HOURS[0] + hours, *axes, {"u10": window}, versions))
    return found


@settings(max_examples=20, deadline=None)
@given(files_of())
def test_any_overlapping_files_give_final_then_preliminary_then_null(
    tmp_path_factory: pytest.TempPathFactory, held: list[Weather]
) -> None:
    folder = tmp_path_factory.mktemp("merged")
    paths = [write_netcdf(folder / f"{number}.nc", of) for number, of in enumerate(held)]
    flat = flatten(paths, "2023-07", folder)

    cells: dict[tuple[int, int], dict[str, float]] = {}
    for of in held:
        assert of.expver is not None
        for (hour, row, column), value in np.ndenumerate(of.fields["u10"]):
            place = location_id(float(of.latitudes[row]), float(of.longitudes[column]))
            given_here = cells.setdefault((place, int(of.hours[hour])), {})
            if not np.isnan(value):
                given_here[of.expver[hour]] = value
    keys = sorted(cells)
    chosen = [min(cells[key].items(), default=("", np.nan)) for key in keys]
    places, hours = {place for place, _ in keys}, {hour for _, hour in keys}
    expected = Rows(
        np.array([place for place, _ in keys]),
        np.array([hour for _, hour in keys]),
        {"zonal_wind_10m": np.array([value for _, value in chosen])},
    )
    rows = flat_rows(flat.path)
    assert_location_major(rows)
    assert_same_rows(rows, expected)
    (facts,) = flat.columns
    assert (flat.rows, flat.locations, flat.hours) == (len(keys), len(places), len(hours))
    assert flat.location_id_sum == sum(place for place, _ in keys)
    assert facts.values == sum(version != "" for version, _ in chosen)
    assert facts.missing == len(places) * len(hours) - facts.values
    assert (facts.first_missing is None) == (facts.missing == 0)
    assert facts.expver == {
        version: len({hour for (_, hour), (of, _) in zip(keys, chosen, strict=True) if of == version})
        for version in sorted({of for of, _ in chosen if of})
    }
    assert hours_in(facts.preliminary_hours) == {
        hour for (_, hour), (of, _) in zip(keys, chosen, strict=True) if of == "0005"
    }
    shutil.rmtree(folder)
