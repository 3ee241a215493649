"""The inputs of a request to the Climate Data Store for months, their digest, and their cost in fields.

For sending it see `service`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.months import Month
from era5_pipeline.runtime.files import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from era5_pipeline.model.grid import Area
    from era5_pipeline.sources.source import Request

_LONGEST_MONTH_HOURS = 744
# Months become final two to three months after their end. Until then the service's cache may hold a preliminary
# result: they are requested alone, with their own order of hours.
_RECENT = timedelta(days=125)
# Size limit, in bytes of float32, of a result with several months, which is then cut into monthly files.
_MAX_BYTES_TOGETHER = 500_000_000
_HOURS = tuple(f"{hour:02d}:00" for hour in range(24))


def portions_of(request: Request) -> tuple[Request, ...]:
    """Split the variables into as few requests for a month as the cost limit allows, of similar size.

    A month of 31 days may have 22 variables of ERA5. The longest month decides, so that all months are split alike.
    """
    variables = request.wanted
    count = -(-len(variables) // (request.dataset.cds_max_fields // _LONGEST_MONTH_HOURS))
    if count <= 1:
        return (request,)
    borders = [len(variables) * number // count for number in range(count + 1)]
    return tuple(replace(request, variables=variables[first:end]) for first, end in pairwise(borders))


def may_be_preliminary(month: Month, now: datetime) -> bool:
    """Return True if the month's data may have been replaced recently, or will be."""
    return now - month.end < _RECENT


def months_a_request(request: Request) -> int:
    """The number of months per request: a divisor of 12; 1 unless the area is small.

    Three for the six default variables: 3 x 6 x 744 fields are 13,392 of the 16,368 allowed. The service multiplies the
    listed months by the listed days, counting days that a month does not have, so a fourth month does not fit.
    Months of sums since 00 UTC also need the hour before them, and are requested alone.
    """
    area, fields = request.area, len(request.wanted) * _LONGEST_MONTH_HOURS
    if area is None or request.dataset.accumulation == "day":
        return 1
    locations = area.latitude_indices().size * area.longitude_indices().size
    most = min(12, request.dataset.cds_max_fields // fields, _MAX_BYTES_TOGETHER // (4 * fields * max(1, locations)))
    # Equal parts of the year: with five allowed, three requests of four instead of two of five and one of two.
    return 12 // -(-12 // most) if most > 1 else 1


def months_together(month: Month, request: Request, now: datetime) -> tuple[Month, ...]:
    """The months requested together with this one, ascending: a fixed part of its year, or the month alone.

    Alone if one of them may be preliminary. Fixed, so that all processes split a year alike.
    """
    size = months_a_request(request)
    first = month.number - (month.month - 1) % size
    months = tuple(Month.from_number(number) for number in range(first, first + size))
    return (month,) if may_be_preliminary(months[-1], now) else months


def fields_of(month: Month, variables: int) -> int:
    """The number of fields (one variable at one hour) of a month, by which the service measures cost."""
    return variables * month.hours


def fresh_time_order() -> tuple[str, ...]:
    """Return the 24 hours of `time` in random order, which makes the service retrieve the data again.

    The service caches results, for all users, by the request as sent; the order of `time` is part of the cache key
    (that of days is not). It has no switch for a fresh retrieval: it refuses `no_cache: true`, and a text as the value
    would be part of a key again (read in cads-adaptors, and tried on the service's own code).
    """
    hours = list(_HOURS)
    while tuple(hours) == _HOURS:
        random.shuffle(hours)  # not a secret
    return tuple(hours)


def month_inputs(month: Month, request: Request, *, time_order: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The inputs for a month; `time_order`, from `fresh_time_order`, asks for a fresh retrieval."""
    return inputs_of((month,), request, time_order=time_order)


def inputs_of(
    months: Sequence[Month], request: Request, *, time_order: tuple[str, ...] | None = None
) -> dict[str, Any]:
    """The inputs for months of one year; `time_order` as in `month_inputs`."""
    days = range(1, max(month.hours for month in months) // 24 + 1)
    return _inputs(months[0].year, [month.month for month in months], days, time_order or _HOURS, request)


def summed_before(month: Month, request: Request) -> Request | None:
    """The request for sums since 00 UTC in the hour before the month, of which the amounts of its first hour are left.

    None: no such sums are wanted, or the data set begins with the month.
    """
    dataset = request.dataset
    sums = tuple(variable for variable in request.wanted if variable.step_type == "accum")
    if dataset.accumulation != "day" or not sums or month <= dataset.first_month:
        return None
    return replace(request, variables=sums)


def hour_before_inputs(month: Month, request: Request, *, time_order: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The inputs for the hour before a month; `time_order` asks for the whole day, in an order not asked for before."""
    day = month.start - timedelta(days=1)
    return _inputs(day.year, [day.month], [day.day], time_order or _HOURS[-1:], request)


def _inputs(
    year: int, months: Iterable[int], days: Iterable[int], hours: Iterable[str], request: Request
) -> dict[str, Any]:
    product_type = request.dataset.cds_product_type
    inputs: dict[str, Any] = {} if product_type is None else {"product_type": [product_type]}
    inputs |= {
        "variable": [variable.cds_name for variable in request.wanted],
        "year": [f"{year:04d}"],
        "month": [f"{month:02d}" for month in months],
        "day": [f"{day:02d}" for day in days],
        "time": list(hours),
        "data_format": request.data_format,
        "download_format": "unarchived",
    }
    if (area := request.area) is not None and (
        area.latitude_indices().size < area.grid.rows or area.longitude_indices().size < area.grid.columns
    ):
        inputs["area"] = _on_grid(area)
    return inputs


def _on_grid(area: Area) -> list[float]:
    """North, west, south, east shrunk to grid points: the service starts its grid at the borders.

    For an area around the whole globe, the first meridian is not repeated at the end.
    """
    grid, step = area.grid, area.grid.step_degrees
    latitudes, longitudes = grid.latitudes_of(area.latitude_indices()), grid.longitudes_of(area.longitude_indices())
    # Half a step of slack: a border slightly off its grid point must not shift that point by 360 degrees.
    eastward = (longitudes.astype(np.float64) - area.west + step / 2) % 360.0 - step / 2
    west = round((area.west + float(eastward.min())) / step) * step
    east = west + (longitudes.size - 1) * step
    borders = (float(latitudes[-1]), west, float(latitudes[0]), east if east <= 360.0 else east - 360.0)
    return [round(degrees, grid.decimals) for degrees in borders]


def digest_of_inputs(inputs: dict[str, Any]) -> str:
    """Compute the digest of the inputs, ignoring the order of the hours."""
    return digest_of({**inputs, "time": sorted(inputs["time"])})
