"""Where ERA5-Land has values: on land, lakes, islands and ice shelves; the same points at all hours, in all variables.

`land_mask.npz` is made from a file of the whole grid by `era5_pipeline_tests/make_land_mask.py`. It is no map of land:
Malta and Tahiti have values, Bermuda and Male have none.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.grid import distances_km
from era5_pipeline.model.location_set import LocationSet

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Area, Location

LAND_MASK = Path(__file__).parent / "data" / "land_mask.npz"


@cache
def land_mask() -> npt.NDArray[np.bool_]:
    """Which points of ERA5-Land's grid have values, (1801, 3600), by latitude and longitude index."""
    with np.load(LAND_MASK) as file:
        mask = np.unpackbits(file["bits"], axis=1, count=ERA5_LAND.grid.columns).view(np.bool_)
    mask.flags.writeable = False
    return mask


def mask_of(dataset: Dataset) -> npt.NDArray[np.bool_] | None:
    """The points at which a data set has values, (rows, columns); None: at all of its grid."""
    if not dataset.is_land_only:
        return None
    if dataset.grid != ERA5_LAND.grid:
        raise ValueError(f"no mask of {dataset.grid}")
    return land_mask()


def has_values_at(dataset: Dataset, location: Location) -> bool:
    """Return True if a data set has values at a point of its grid."""
    mask = mask_of(dataset)
    return mask is None or bool(mask.flat[location.location_id - 1])


def points_of(dataset: Dataset, area: Area) -> LocationSet:
    """The grid points of an area at which a data set has values."""
    points, mask = LocationSet.of_area(area), mask_of(dataset)
    return points if mask is None else points & LocationSet.of_coverage(mask, dataset.grid)


def nearest_land(place: Location) -> Location:
    """The point of ERA5-Land's grid with values that is nearest to another of its points, or that one itself."""
    grid = ERA5_LAND.grid
    if land_mask().flat[place.location_id - 1]:
        return place
    rows, columns = np.nonzero(land_mask())
    away = distances_km(place.latitude, place.longitude, grid.latitudes_of(rows), grid.longitudes_of(columns))
    nearest = int(np.argmin(away))
    return grid.location(int(grid.location_ids(rows[nearest], columns[nearest])))
