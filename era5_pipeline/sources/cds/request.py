"""What is asked of the Climate Data Store for a month, and what that costs there.

Here: the request as JSON, its digest, its size in fields. Not here: sending it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.atomic import digest_of
from era5_pipeline.grid import N_LATITUDES, N_LONGITUDES, STEP_DEGREES, latitudes_of, longitudes_of
from era5_pipeline.variables import VARIABLES

if TYPE_CHECKING:
    from era5_pipeline.grid import Area
    from era5_pipeline.months import Month
    from era5_pipeline.sources.protocol import Request
    from era5_pipeline.variables import Variable

DATASET = "reanalysis-era5-single-levels"
# Requests of 16,368 fields as netCDF pass, those of 17,856 exceed the cost limit (seen in August 2026); an area does
# not lower the cost.
MAX_FIELDS = 16_368
_HOURS = tuple(f"{hour:02d}:00" for hour in range(24))
_NO_CACHE = "no_cache"


def variables_of(request: Request) -> tuple[Variable, ...]:
    """The variables that a month is asked with: all six where none were named."""
    return VARIABLES if request.variables is None else request.variables


def fields_of(month: Month, variables: int) -> int:
    """Fields (one variable at one hour) of a month: what the service counts as cost."""
    return variables * month.hours


def month_inputs(month: Month, request: Request, *, no_cache: bool = False) -> dict[str, Any]:
    """The month as the service's inputs. `no_cache`: made anew, not from the service's cache of answers."""
    inputs: dict[str, Any] = {
        "product_type": ["reanalysis"],
        "variable": [variable.cds_name for variable in variables_of(request)],
        "year": [f"{month.year:04d}"],
        "month": [f"{month.month:02d}"],
        "day": [f"{day:02d}" for day in range(1, month.hours // 24 + 1)],
        "time": list(_HOURS),
        "data_format": "netcdf",
        "download_format": "unarchived",
    }
    if (area := request.area) is not None and (
        area.latitude_indices().size < N_LATITUDES or area.longitude_indices().size < N_LONGITUDES
    ):
        inputs["area"] = _on_grid(area)
    if no_cache:
        inputs[_NO_CACHE] = True
    return inputs


def _on_grid(area: Area) -> list[float]:
    """North, west, south, east moved to the outermost grid points within: the service lays its grid from the borders.

    Of an area around the globe the meridian where it begins does not come twice.
    """
    latitudes, longitudes = latitudes_of(area.latitude_indices()), longitudes_of(area.longitude_indices())
    # Half a step of slack: a border that misses its grid point by a hair must not send it once around.
    eastward = (longitudes.astype(np.float64) - area.west + STEP_DEGREES / 2) % 360.0 - STEP_DEGREES / 2
    west = round((area.west + float(eastward.min())) / STEP_DEGREES) * STEP_DEGREES
    east = west + (longitudes.size - 1) * STEP_DEGREES
    return [float(latitudes[-1]), west, float(latitudes[0]), east if east <= 360.0 else east - 360.0]


def digest_of_inputs(inputs: dict[str, Any]) -> str:
    """The same for the same data, cached or not."""
    return digest_of({name: value for name, value in inputs.items() if name != _NO_CACHE})
