"""The grid cell of a point with its share of land, and the time zone of a point."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

import numpy as np

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import EARTH_RADIUS_KM, ERA5_GRID, ERA5_LAND_GRID, distances_km

if TYPE_CHECKING:
    from datetime import date

    import numpy.typing as npt

    from era5_pipeline.model.grid import Grid, Location

# --- The grid cell of a point: the nearest grid point, or the nearest one that is on land, and its share of land ---
#
# A cell is the square of one step around its grid point. `land_percent.npz` holds the land share of each cell of ERA5's
# grid, computed from the GSHHG shorelines by `era5_pipeline_tests/make_land.py`; of other grids it is not known. Lakes,
# and rivers drawn as polygons, count as water, as in ERA5's own land-sea mask; so does the Caspian Sea. Antarctic ice
# shelves count as land.


CellChoice = Literal["nearest", "land"]

LAND_PERCENT = Path(__file__).parent / "data" / "land_percent.npz"
# Minimum land share for a cell to count as land.
LAND_ENOUGH = 0.5
# Search radius for the nearest land or sea cell.
_FURTHEST_KM = 100.0


@dataclass(frozen=True)
class Cell:
    """A grid point and the land share of its cell, 0 to 1; None if it is not known."""

    location: Location
    land_share: float | None

    @property
    def land_words(self) -> str | None:
        """The land and water shares of the cell, in words; None if they are not known."""
        return None if self.land_share is None else land_words(self.land_share)


def land_words(share: float) -> str:
    """The land and water shares of a cell in words: `all land`, `all water` or `62 % land, 38 % water`."""
    if share in (0.0, 1.0):
        return "all land" if share else "all water"
    percent = min(max(round(share * 100), 1), 99)
    return f"{percent} % land, {100 - percent} % water"


def cell_of(latitude: float, longitude: float, choice: CellChoice = "nearest", grid: Grid = ERA5_GRID) -> Cell:
    """Return the cell of a point in degrees; longitude in [-180, 360].

    `nearest` picks the nearest grid point; `land` picks the nearest one, by great-circle distance, whose cell is at
    least half land; of ERA5-Land's grid, the nearest one with values.
    """
    nearest = cell_at(grid.nearest_location(latitude, longitude))
    if choice == "nearest" or (land := _land_of(grid)).flat[nearest.location.location_id - 1]:
        return nearest
    found = _nearest_of(land, latitude, longitude, grid)
    if found is None:
        raise UsageError(
            f"no cell within {_FURTHEST_KM:.0f} km of {latitude:g}, {longitude:g} is at least half land",
            remedy="Ask for the nearest cell instead, or for another place.",
        )
    return found


def sea_cell_of(latitude: float, longitude: float, grid: Grid = ERA5_GRID) -> Cell | None:
    """The nearest cell to a point (degrees) that is more than half water; None if none is within reach."""
    return _nearest_of(~_land_of(grid), latitude, longitude, grid)


def cell_at(location: Location) -> Cell:
    """The cell of a grid point."""
    if location.grid != ERA5_GRID:
        return Cell(location, None)
    return Cell(location, int(land_percent().reshape(-1)[location.location_id - 1]) / 100)


@cache
def _land_of(grid: Grid) -> npt.NDArray[np.bool_]:
    """Which cells of a grid are land, (rows, columns): by their share of it, or, of ERA5-Land, those with values."""
    if grid == ERA5_LAND_GRID:
        from era5_pipeline.model.land_mask import land_mask  # noqa: PLC0415  # which imports all data sets

        return land_mask()
    if grid != ERA5_GRID:
        raise UsageError(
            f"which cells of {grid} are land is not known", remedy="Ask for the nearest cell, or for another place."
        )
    return land_percent() >= 100 * LAND_ENOUGH


@cache
def land_percent() -> npt.NDArray[np.uint8]:
    """The land share of each cell of ERA5's grid in percent, (rows, columns): 0 and 100 are exact."""
    with np.load(LAND_PERCENT) as file:
        percent: npt.NDArray[np.uint8] = file["percent"]
    return percent


def _nearest_of(allowed: npt.NDArray[np.bool_], latitude: float, longitude: float, grid: Grid) -> Cell | None:
    """The allowed cell, from a (rows, columns) mask, nearest to a point; None if none is within `_FURTHEST_KM`."""
    reach = float(np.rad2deg(_FURTHEST_KM / EARTH_RADIUS_KM))
    degrees = grid.latitudes_of(np.arange(grid.rows)).astype(np.float64)
    rows = np.flatnonzero(np.abs(degrees - latitude) <= reach + grid.step_degrees)
    row_of, column_of = np.nonzero(allowed[rows])
    if not row_of.size:
        return None
    distances = distances_km(latitude, longitude, degrees[rows[row_of]], grid.longitudes_of(column_of))
    best = int(np.argmin(distances))
    if distances[best] > _FURTHEST_KM:
        return None
    row, column = int(rows[row_of[best]]), int(column_of[best])
    return cell_at(grid.location(int(grid.location_ids(row, column))))


# --- Time zones: the zone of a point, and the one fixed UTC offset that stands for a zone in a long record ---
#
# Most zones have changed their UTC offset since 1940, and summer time moves it twice a year. Local days of a record
# therefore use one fixed offset: the smallest that the zone kept for two months in the last year of the period, which
# is its standard time. Years with a different offset are listed.
#
# The rules' own word for it does not serve: by them Ireland's standard time is that of its summer. Morocco sets its
# clocks back for the five or six weeks around Ramadan, which is not standard time.

_FEWEST_DAYS = 60


@dataclass(frozen=True)
class StandardOffset:
    """The fixed UTC offset of a zone, in minutes, and the years of the period in which it was different."""

    minutes: int
    other_years: tuple[int, ...]


def zone_of(latitude: float, longitude: float) -> str:
    """The IANA zone of a point in degrees; longitude in [-180, 360].

    At sea it is a whole-hour zone, whose sign is inverted: Etc/GMT-7 is seven hours ahead of UTC.
    """
    from tzfpy import get_tz  # noqa: PLC0415  # loads its polygons

    # `get_tz` returns an empty string for longitudes beyond 180.
    return get_tz((longitude + 180.0) % 360.0 - 180.0, latitude)


def standard_offset(zone: str, first_year: int, last_year: int) -> StandardOffset:
    """Return the standard offset of the zone in `last_year`, and the years since `first_year` with a different one.

    For a period that ends mid-year, `last_year` is its `last_full_year`.
    """
    rules = read_zone(zone)
    standard = _winter_offset(rules, last_year)
    others = tuple(year for year in range(first_year, last_year) if _winter_offset(rules, year) != standard)
    return StandardOffset(round(standard.total_seconds() / 60), others)


def last_full_year(first_year: int, end: date) -> int:
    """The last full year of a period that ends before `end`, a date or time; its first year if none is full."""
    return max(end.year - 1, first_year)


def read_zone(zone: str) -> ZoneInfo:
    """The rules of a zone of the IANA database."""
    try:
        return ZoneInfo(zone)
    except (KeyError, OSError, ValueError):  # a folder of zones, such as Asia, raises OSError
        raise UsageError(
            f"{zone!r} is not a time zone", remedy="Give a name of the IANA database, such as Asia/Jakarta."
        ) from None


def _winter_offset(rules: ZoneInfo, year: int) -> timedelta:
    """The smallest UTC offset that lasts for two months, at least a day of them in the year.

    That is standard time, if the zone has summer time.
    """
    first = datetime(year, 1, 1, 12, tzinfo=UTC) - timedelta(days=_FEWEST_DAYS - 1)
    days = (datetime(year, 12, 31, 12, tzinfo=UTC) - first).days + _FEWEST_DAYS
    offsets = [(first + timedelta(days=day)).astimezone(rules).utcoffset() for day in range(days)]
    lasting = [offset for offset, run in groupby(offsets) if len(list(run)) >= _FEWEST_DAYS]
    return min(offset for offset in lasting or offsets if offset is not None)
