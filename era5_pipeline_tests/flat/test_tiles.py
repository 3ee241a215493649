from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.flat import tiles
from era5_pipeline.flat.inventory import Inventory, Piece
from era5_pipeline.flat.tiles import Tile, cut_tiles, tile_size
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.contents import Field, hours_of

if TYPE_CHECKING:
    import numpy.typing as npt

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


@settings(max_examples=150, deadline=None)
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


def test_locations_missing_from_the_largest_file_get_tiles_too() -> None:
    large, small = field_of(np.arange(10), np.arange(10)), field_of([50, 51], [5, 900])
    assert_tiles_cover_each_point_once(inventory_of(large, small))
