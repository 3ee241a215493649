"""What is asked of the Climate Data Store for a month, and what that costs there.

Here: the request as JSON, its digest, its size in fields. Not here: sending it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from era5_pipeline.atomic import digest_of
from era5_pipeline.grid import N_LATITUDES, N_LONGITUDES, STEP_DEGREES
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
    if (area := request.area) is not None:
        borders = _on_grid(area)
        if area.longitude_indices().size == N_LONGITUDES:  # the meridian where it begins is not to come twice
            borders[3] = borders[1] + 360.0 - STEP_DEGREES
        if area.latitude_indices().size < N_LATITUDES or area.longitude_indices().size < N_LONGITUDES:
            inputs["area"] = borders
    if no_cache:
        inputs[_NO_CACHE] = True
    return inputs


def _on_grid(area: Area) -> list[float]:
    """North, west, south, east moved inwards to grid points: the service lays its grid from the borders it is given."""
    borders = (math.floor, math.ceil, math.ceil, math.floor)
    degrees = (area.north, area.west, area.south, area.east)
    return [
        inwards(round(value / STEP_DEGREES, 6)) * STEP_DEGREES for inwards, value in zip(borders, degrees, strict=True)
    ]


def digest_of_inputs(inputs: dict[str, Any]) -> str:
    """The same for the same data, cached or not."""
    return digest_of({name: value for name, value in inputs.items() if name != _NO_CACHE})
