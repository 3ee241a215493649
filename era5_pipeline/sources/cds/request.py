"""The request for a month as the Climate Data Store takes it: its inputs, their digest, its cost in fields.

Not here: sending it (`service`).
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.grid import N_LATITUDES, N_LONGITUDES, STEP_DEGREES, latitudes_of, longitudes_of
from era5_pipeline.runtime.files import digest_of

if TYPE_CHECKING:
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.months import Month
    from era5_pipeline.sources.source import Request

DATASET = "reanalysis-era5-single-levels"
# Requests of 16,368 fields as netCDF are accepted, those of 17,856 exceed the cost limit (seen in August 2026); a
# smaller area does not lower the cost.
MAX_FIELDS = 16_368
_LONGEST_MONTH_HOURS = 744
_HOURS = tuple(f"{hour:02d}:00" for hour in range(24))


def portions_of(request: Request) -> tuple[Request, ...]:
    """Divide the variables into as few requests of a month as the cost limit allows, of about equally many each.

    A month of 31 days may have 22 variables. Divided by the longest month, so that every month is divided alike.
    """
    variables = request.wanted
    count = -(-len(variables) // (MAX_FIELDS // _LONGEST_MONTH_HOURS))
    if count <= 1:
        return (request,)
    borders = [len(variables) * number // count for number in range(count + 1)]
    return tuple(replace(request, variables=variables[first:end]) for first, end in pairwise(borders))


def fields_of(month: Month, variables: int) -> int:
    """The number of fields (one variable at one hour) of a month, which the service counts as its cost."""
    return variables * month.hours


def fresh_time_order() -> tuple[str, ...]:
    """The 24 hours of `time` in a random order, which makes the service retrieve the data again.

    The service caches its answers, for all users, by the request as it was sent; the order of `time` is part of the
    cache's key (that of days is not). It has no switch for a fresh retrieval: it refuses `no_cache: true`, and a text
    as its value would be part of a key again (read in cads-adaptors, and tried on the service's own code).
    """
    hours = list(_HOURS)
    while tuple(hours) == _HOURS:
        random.shuffle(hours)  # no secret: one of 24! orders
    return tuple(hours)


def month_inputs(month: Month, request: Request, *, time_order: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The inputs for a month; `time_order`: from `fresh_time_order`, for a fresh retrieval."""
    inputs: dict[str, Any] = {
        "product_type": ["reanalysis"],
        "variable": [variable.cds_name for variable in request.wanted],
        "year": [f"{month.year:04d}"],
        "month": [f"{month.month:02d}"],
        "day": [f"{day:02d}" for day in range(1, month.hours // 24 + 1)],
        "time": list(_HOURS if time_order is None else time_order),
        "data_format": "netcdf",
        "download_format": "unarchived",
    }
    if (area := request.area) is not None and (
        area.latitude_indices().size < N_LATITUDES or area.longitude_indices().size < N_LONGITUDES
    ):
        inputs["area"] = _on_grid(area)
    return inputs


def _on_grid(area: Area) -> list[float]:
    """North, west, south, east moved to the outermost grid points within: the service lays its grid from the borders.

    For an area all around the globe, the first meridian is not repeated at its end.
    """
    latitudes, longitudes = latitudes_of(area.latitude_indices()), longitudes_of(area.longitude_indices())
    # Half a step of slack: a border slightly off its grid point must not move that point by 360 degrees.
    eastward = (longitudes.astype(np.float64) - area.west + STEP_DEGREES / 2) % 360.0 - STEP_DEGREES / 2
    west = round((area.west + float(eastward.min())) / STEP_DEGREES) * STEP_DEGREES
    east = west + (longitudes.size - 1) * STEP_DEGREES
    return [float(latitudes[-1]), west, float(latitudes[0]), east if east <= 360.0 else east - 360.0]


def digest_of_inputs(inputs: dict[str, Any]) -> str:
    """The digest of the inputs, independent of the order of the hours."""
    return digest_of({**inputs, "time": sorted(inputs["time"])})
