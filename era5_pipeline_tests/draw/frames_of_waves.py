"""Hours of waves on a rectangle, one of them without a value, for the tests of animations."""

from __future__ import annotations

import numpy as np

from era5_pipeline.draw.animation import HourFrames, survey
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import GridWindow
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hour_of
from era5_pipeline.model.variables import BY_COLUMN

FIRST_HOUR = hour_of(Month.parse("2023-07").start)
EMPTY = 3


def frames_of_waves(area: str, count: int, column: str = "temperature_2m") -> HourFrames:
    """So many hours from July 2023 on; the fourth has no value, nor has the south-western corner."""
    window = GridWindow.of_area(Area.parse(area))
    east, north = np.deg2rad(window.longitudes[None, None]), np.deg2rad(window.latitudes[::-1][None, :, None])
    number = np.arange(count)[:, None, None]
    values = (20 * np.cos(2 * north) * np.cos(3 * east + number / 5) + 3 * np.sin(40 * east)).astype(np.float32)
    if column == "total_precipitation":
        values = np.maximum(values, 0.0)
    values[EMPTY] = np.nan
    values[:, :4, :4] = np.nan
    counts, scale_values = survey(values)
    return HourFrames(
        variable=BY_COLUMN[column],
        hours=tuple(range(FIRST_HOUR, FIRST_HOUR + count)),
        window=window,
        points=window.rows * window.columns,
        values=values,
        scale_values=scale_values,
        is_empty=counts == 0,
        notes=("no value in the south-western corner",),
        credit="a credit line",
    )
