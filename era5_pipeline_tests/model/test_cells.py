"""Tests of `model/cells`."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.draw.outlines import polygons_within, read_shores
from era5_pipeline.model.cells import (
    Cell,
    CellChoice,
    cell_of,
    land_percent,
    last_full_year,
    sea_cell_of,
    standard_offset,
    zone_of,
)
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import ERA5_GRID, ERA5_LAND_GRID, Grid, Location, distances_km
from era5_pipeline.model.land_mask import land_mask, nearest_land
from era5_pipeline.model.places import find_place
from era5_pipeline_tests import make_land

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.draw.outlines import FloatArray


@pytest.mark.parametrize(
    ("name", "latitude", "longitude", "least", "most"),
    [
        ("Jakarta", -6.25, 106.75, 0.95, 1.0),
        ("the port of Jakarta", -6.0, 107.0, 0.05, 0.95),
        ("the Pacific", 0.0, -140.0, 0.0, 0.0),
        ("the Sahara", 25.0, 10.0, 1.0, 1.0),
        ("the Caspian Sea, a lake", 42.0, 51.0, 0.0, 0.0),
        ("Lake Victoria", -1.0, 33.0, 0.0, 0.0),
        ("Manitoulin, an island in Lake Huron", 45.75, -82.25, 0.5, 1.0),
        ("the South Pole", -90.0, 0.0, 1.0, 1.0),
        ("the Ross ice shelf", -81.0, -175.0, 1.0, 1.0),
        ("the North Pole", 90.0, 0.0, 0.0, 0.0),
        ("Chukotka, on the date line", 67.0, 180.0, 1.0, 1.0),
        ("Greenwich", 51.5, 0.0, 0.95, 1.0),
        ("Nauru, 21 km2 of a cell of 770 km2", -0.5, 167.0, 0.01, 0.06),
    ],
)
def test_known_places_have_the_share_of_land_that_maps_show(
    name: str, latitude: float, longitude: float, least: float, most: float
) -> None:
    share = cell_of(latitude, longitude).land_share
    assert share is not None
    assert least <= share <= most, name


def test_every_cell_has_a_percentage_and_the_globe_has_its_share_of_land() -> None:
    percent = land_percent()
    assert percent.shape == (721, 1440)
    assert percent.max() == 100
    weights = np.cos(np.deg2rad(ERA5_GRID.latitudes_of(np.arange(721))))
    # The globe is 29.2 % land; lakes are about 1.8 % of that, ice shelves 1.5 million km2 beside it.
    assert np.average(percent.mean(axis=1), weights=weights) == pytest.approx(28.9, abs=0.4)


def test_the_share_is_the_area_of_the_shorelines_in_the_cell() -> None:
    """On 80 coasts and shores of lakes, the same shorelines are clipped to the cell, and their areas are added up."""
    mixed = np.flatnonzero((land_percent() > 0) & (land_percent() < 100))
    shores = read_shores("i")
    for row, column in zip(*np.divmod(np.random.default_rng(15).choice(mixed, 80, replace=False), 1440), strict=True):
        latitude, longitude = float(ERA5_GRID.latitudes_of(row)), float(ERA5_GRID.longitudes_of(column))
        window = (longitude - 0.125, longitude + 0.125, latitude - 0.125, latitude + 0.125)
        land = 0.0
        for number, ring in polygons_within(shores.outlines, np.ones(len(shores.level), dtype=np.bool_), window):
            # Level 1 is land, 2 a lake, 3 an island in it, 4 a pond there, 5 Antarctica.
            land += _area(ring) * (1 if shores.level[number] % 2 == 1 else -1)
        assert land_percent()[row, column] == pytest.approx(100 * land / 0.25**2, abs=1.2), (latitude, longitude)


def test_the_file_is_what_its_script_makes(tmp_path: Path) -> None:
    make_land.main(tmp_path / "land.npz")
    with np.load(tmp_path / "land.npz") as made:
        assert (made["percent"] == land_percent()).all()


def _area(ring: FloatArray) -> float:
    x, y = ring.astype(np.float64).T
    x, y = x - x[0], y - y[0]
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


@pytest.mark.parametrize(
    ("latitude", "longitude"),
    [
        (1.29, 103.85),
        (21.3, -157.85),
        (64.135, -21.895),
        (-16.85, 179.97),
        (-16.85, -179.95),
        (53.5, 108.0),
        (68.9, -179.9),
    ],
)
def test_the_nearest_land_cell_is_the_nearest_of_all_that_are_half_land(latitude: float, longitude: float) -> None:
    found = cell_of(latitude, longitude, "land")
    rows, columns = np.nonzero(land_percent() >= 50)
    distances = distances_km(latitude, longitude, ERA5_GRID.latitudes_of(rows), ERA5_GRID.longitudes_of(columns))
    best = int(distances.argmin())
    assert found.location.location_id == rows[best] * 1440 + columns[best] + 1
    assert found.land_share == land_percent()[rows[best], columns[best]] / 100 >= 0.5
    assert (cell_of(latitude, longitude, "nearest").land_share or 0.0) < 0.5


def test_a_cell_that_is_land_stays_the_nearest() -> None:
    assert cell_of(-6.21, 106.85, "land") == cell_of(-6.21, 106.85)


@pytest.mark.parametrize("point", [(0.0, -140.0), (90.0, 0.0), (-0.52, 166.93)])
def test_no_land_near_is_said(point: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="no cell within 100 km") as caught:
        cell_of(*point, "land")
    assert "nearest cell" in caught.value.remedy


@pytest.mark.parametrize("choice", ["nearest", "land"])
@pytest.mark.parametrize("point", [(91.0, 0.0), (-90.5, 0.0), (0.0, 361.0), (0.0, -181.0), (float("nan"), 0.0)])
def test_impossible_coordinates_are_refused(point: tuple[float, float], choice: CellChoice) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        cell_of(*point, choice)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "all water"),
        (1.0, "all land"),
        (0.62, "62 % land, 38 % water"),
        (0.001, "1 % land, 99 % water"),
        (0.999, "99 % land, 1 % water"),
    ],
)
def test_the_share_in_words(share: float, words: str) -> None:
    assert Cell(Location(1, -90.0, -179.75), share).land_words == words


@pytest.fixture(autouse=True)
def _locked_zones() -> Iterator[None]:
    """The zones of the package tzdata, whose version is locked, and not those of this machine."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=before)
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.parametrize(
    ("latitude", "longitude", "zone"),
    [
        (-6.2, 106.8, "Asia/Jakarta"),
        (51.48, -0.05, "Europe/London"),
        # The same meridian, in the other count of degrees.
        (51.48, 359.95, "Europe/London"),
        (40.7, 286.0, "America/New_York"),
        # At sea: the sign of these zones is inverted.
        (0.0, -140.0, "Etc/GMT+9"),
        (0.0, 220.0, "Etc/GMT+9"),
        (-16.8, 179.95, "Pacific/Fiji"),
        (-90.0, 0.0, "Antarctica/McMurdo"),
    ],
)
def test_a_point_has_a_zone(latitude: float, longitude: float, zone: str) -> None:
    assert zone_of(latitude, longitude) == zone


@pytest.mark.parametrize("longitude", [-180.0, 180.0, 0.0, 360.0])
@pytest.mark.parametrize("latitude", [-90.0, 0.0, 67.0, 90.0])
def test_poles_and_date_line_have_a_zone_that_exists(latitude: float, longitude: float) -> None:
    assert zone_of(latitude, longitude) in zoneinfo.available_timezones()


@pytest.mark.parametrize("name", ["Jakarta", "Reykjavik", "Ho Chi Minh City", "Kathmandu", "Suva", "Cape Town"])
def test_a_city_lies_in_the_zone_of_its_table(name: str) -> None:
    place = find_place(name)
    assert zone_of(place.latitude, place.longitude) == place.time_zone


@pytest.mark.parametrize(
    ("zone", "years", "minutes"),
    [
        ("Asia/Jakarta", (1991, 2020), 420),
        ("Europe/Berlin", (1991, 2020), 60),
        # By its rules the summer's time is standard, and the winter's an hour less.
        ("Europe/Dublin", (1991, 2020), 0),
        # Standard time, but for the weeks around Ramadan.
        ("Africa/Casablanca", (1991, 2019), 60),
        ("Africa/Casablanca", (1991, 2020), 60),
        ("Africa/El_Aaiun", (1991, 2023), 60),
        # Before 2018 it had summer time, except in Ramadan.
        ("Africa/Casablanca", (1991, 2016), 0),
        # Egypt's summer time of 2014 began in May, and paused in Ramadan.
        ("Africa/Cairo", (1991, 2014), 120),
        # Summer is in January.
        ("Australia/Sydney", (2001, 2020), 600),
        ("Australia/Lord_Howe", (2001, 2020), 630),
        ("America/Santiago", (2001, 2020), -240),
        ("Pacific/Auckland", (2001, 2020), 720),
        ("Antarctica/Troll", (2006, 2020), 0),
        ("America/New_York", (1991, 2020), -300),
        ("Asia/Kathmandu", (1991, 2020), 345),
        ("America/St_Johns", (1991, 2020), -210),
        ("Etc/GMT+9", (1940, 2025), -540),
    ],
)
def test_the_offset_is_the_standard_time_of_the_last_year(zone: str, years: tuple[int, int], minutes: int) -> None:
    assert standard_offset(zone, *years).minutes == minutes


@pytest.mark.parametrize(
    ("end", "year"),
    [
        (date(2024, 1, 1), 2023),
        (date(2023, 12, 31), 2022),
        (datetime(2024, 1, 1, tzinfo=UTC), 2023),
        (datetime(2023, 12, 31, 23, tzinfo=UTC), 2022),
        (date(2020, 6, 1), 2020),
    ],
)
def test_the_last_full_year_ends_with_the_period_or_is_its_first(end: date, year: int) -> None:
    assert last_full_year(2020, end) == year


@pytest.mark.parametrize(
    ("zone", "years", "minutes", "other_years"),
    [
        # Jakarta has had UTC+7 since 1964; Japan's time, +9, in the war, +7:30 and +8 after it.
        ("Asia/Jakarta", (1940, 2025), 420, range(1940, 1964)),
        ("Asia/Jakarta", (1964, 2025), 420, ()),
        # Moscow was four hours ahead from the spring of 2011 to the autumn of 2014.
        ("Europe/Moscow", (2005, 2020), 180, (2012, 2013)),
        # Venezuela was four and a half hours behind from December 2007 to May 2016: the least offset of those years.
        ("America/Caracas", (2000, 2020), -240, range(2007, 2017)),
        # Clocks go back in Ramadan.
        ("Africa/Casablanca", (2010, 2024), 60, range(2010, 2019)),
        # London kept summer time all winter in 1941 to 1944, and British Standard Time in 1969 and 1970.
        ("Europe/London", (1940, 2020), 0, (1941, 1942, 1943, 1944, 1969, 1970)),
    ],
)
def test_years_in_which_the_offset_was_another_are_listed(
    zone: str, years: tuple[int, int], minutes: int, other_years: Sequence[int]
) -> None:
    found = standard_offset(zone, *years)
    assert (found.minutes, found.other_years) == (minutes, tuple(other_years))


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Europe/Berlin", "Europe/Dublin", "America/Coyhaique"])
def test_the_offset_is_the_least_of_every_hour_of_the_year(zone: str) -> None:
    hours = (datetime(2019, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(365 * 24))
    offsets = [hour.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset() for hour in hours]
    least = min(offset for offset in offsets if offset is not None)
    assert standard_offset(zone, 2019, 2019).minutes * 60 == least.total_seconds()


@pytest.mark.parametrize(
    "zone", ["Asia", "Asia/Nowhere", "", "../etc/passwd", "Asia/Jakarta\x00", "asia/jakarta; DROP"]
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="is not a time zone") as caught:
        standard_offset(zone, 1991, 2020)
    assert "Asia/Jakarta" in caught.value.remedy


def test_a_cell_of_another_grid_is_the_nearest_and_its_share_of_land_is_not_known() -> None:
    grid = Grid("made up", 1.0, 181, 360)
    found = cell_of(9.918, -179.97, grid=grid)
    assert found.location == grid.nearest_location(9.918, -179.97)
    assert (found.land_share, found.land_words) == (None, None)
    with pytest.raises(UsageError, match=re.escape(f"which cells of {grid} are land is not known")):
        cell_of(9.918, 9.918, "land", grid)
    with pytest.raises(UsageError, match="is not known"):
        sea_cell_of(9.918, 9.918, grid)


def test_land_of_era5_lands_grid_is_where_it_has_values() -> None:
    on_land = cell_of(10.04, 9.96, "land", ERA5_LAND_GRID)
    assert (on_land.location.latitude, on_land.location.longitude, on_land.land_share) == (10.0, 10.0, None)
    # Off Lagos: the nearest point is at sea.
    at_sea, beside = cell_of(6.3, 3.4, grid=ERA5_LAND_GRID), cell_of(6.3, 3.4, "land", ERA5_LAND_GRID)
    assert not land_mask().flat[at_sea.location.location_id - 1]
    assert beside.location == nearest_land(at_sea.location) != at_sea.location
    sea = sea_cell_of(6.5, 3.4, ERA5_LAND_GRID)
    assert sea is not None
    assert not land_mask().flat[sea.location.location_id - 1]
    with pytest.raises(UsageError, match="no cell within 100 km"):
        cell_of(0, -30, "land", ERA5_LAND_GRID)
