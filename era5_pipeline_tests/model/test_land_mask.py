"""Tests of `model/land_mask`, and of the program that makes its file."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pytest

from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.grid import ERA5_LAND_GRID, Grid
from era5_pipeline.model.land_mask import LAND_MASK, land_mask, mask_of, nearest_land
from era5_pipeline_tests import make_land_mask

if TYPE_CHECKING:
    from pathlib import Path

# Of the bits, row by row from the south, each row from 179.9 W: those of t2m in the monthly means of February 2025.
SHA256 = "32fab8933c53956f3b045a30fb348b56460ea271083e413f3624750ea7250d5d"


def has_values(latitude: float, longitude: float) -> bool:
    nearest = ERA5_LAND_GRID.nearest_location(latitude, longitude)
    return bool(land_mask().flat[nearest.location_id - 1])


def test_a_third_of_the_grid_has_values() -> None:
    mask = land_mask()
    assert mask.shape == (1801, 3600)
    assert mask.dtype == np.bool_
    assert mask.sum() == 2_212_863
    assert (mask[1500:].sum(), mask[:301].sum()) == (383_866, 668_672)  # from 60 N and 60 S to the poles
    rows = np.flatnonzero(mask.any(axis=1))
    assert ERA5_LAND_GRID.latitudes_of(rows[[0, -1]]) == pytest.approx([-90.0, 83.5])
    assert hashlib.sha256(np.packbits(mask)).hexdigest() == SHA256
    assert LAND_MASK.stat().st_size < 200_000


@pytest.mark.parametrize(
    ("name", "latitude", "longitude", "expected"),
    [
        ("Lake Victoria", -1.0, 33.0, True),
        ("Lake Superior", 47.5, -88.0, True),
        ("Lake Baikal", 53.5, 108.0, True),
        ("the Caspian Sea", 41.0, 51.0, True),
        ("Lake Titicaca", -15.8, -69.4, True),
        ("Malta", 35.9, 14.4, True),
        ("Singapore", 1.35, 103.8, True),
        ("Tahiti", -17.6, -149.4, True),
        ("the Ross ice shelf", -80.0, -175.0, True),
        ("Taveuni, Fiji, on the antimeridian", -16.8, -179.9, True),
        ("the South Pole", -90.0, 0.0, True),
        ("Bermuda", 32.3, -64.8, False),
        ("Male", 4.2, 73.5, False),
        ("the IJsselmeer", 52.8, 5.3, False),
        ("the Atlantic", 30.0, -40.0, False),
        ("the North Pole", 90.0, 0.0, False),
    ],
)
def test_known_places_have_values_or_none(name: str, latitude: float, longitude: float, expected: bool) -> None:
    assert has_values(latitude, longitude) is expected, name


@pytest.mark.parametrize(
    ("latitude", "longitude", "nearest"),
    [(-6.2, 106.8, "-6.2/106.8"), (-5.8, 107.2, "-6/107.1"), (-16.8, 179.9, "-16.9/180"), (90.0, 0.0, "83.5/-36.6")],
)
def test_the_nearest_land_of_a_place_at_sea(latitude: float, longitude: float, nearest: str) -> None:
    place = ERA5_LAND_GRID.nearest_location(latitude, longitude)
    found = nearest_land(place)
    assert str(found) == nearest
    assert has_values(found.latitude, found.longitude)
    assert found == place or not has_values(latitude, longitude)


def test_the_mask_cannot_be_changed_by_who_reads_it() -> None:
    with pytest.raises(ValueError, match="read-only"):
        land_mask()[0, 0] = False


def write_globe(path: Path, values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    """A file of times on the whole grid, (time, 1801, 3600), as the store lays it out: from the north, 0 to 359.9."""
    with netCDF4.Dataset(path, "w") as file:
        for name, degrees in (("latitude", np.linspace(90, -90, 1801)), ("longitude", np.arange(3600) / 10)):
            file.createDimension(name, degrees.size)
            file.createVariable(name, "f8", (name,))[:] = degrees
        file.createDimension("valid_time", len(values))
        t2m = file.createVariable("t2m", "f4", ("valid_time", "latitude", "longitude"), zlib=True, complevel=1)
        t2m[:] = values


def test_the_file_is_what_its_program_makes_of_a_file_of_the_store(tmp_path: Path) -> None:
    of_store = np.roll(land_mask()[::-1], -1799, axis=1)  # column 0 is 179.9 W
    write_globe(tmp_path / "globe.nc", np.where(of_store, np.float32(280), np.float32(np.nan))[np.newaxis])
    make_land_mask.main(tmp_path / "globe.nc", tmp_path / "mask.npz")
    with np.load(tmp_path / "mask.npz") as made, np.load(LAND_MASK) as kept:
        assert (made["bits"] == kept["bits"]).all()


def test_times_with_values_at_different_points_make_no_mask(tmp_path: Path) -> None:
    values = np.full((2, 1801, 3600), np.nan, dtype=np.float32)
    values[1, 900, 1800] = 280
    write_globe(tmp_path / "globe.nc", values)
    with pytest.raises(SystemExit, match="different points"):
        make_land_mask.main(tmp_path / "globe.nc", tmp_path / "mask.npz")
    assert not (tmp_path / "mask.npz").exists()


def test_data_sets_of_the_globe_have_no_mask() -> None:
    assert mask_of(ERA5) is None
    assert mask_of(ERA5_LAND) is land_mask()
    with pytest.raises(ValueError, match="no mask of test's 1 degree grid"):
        mask_of(replace(ERA5_LAND, grid=Grid("test", 1.0, 181, 360)))
