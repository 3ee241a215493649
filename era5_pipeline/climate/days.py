"""Hours grouped into days at one fixed offset from UTC, and daily values.

Temperature and wind are instantaneous. Precipitation is the total of the hour before its time, so the value at 24:00
belongs to the day that ends then. A day without all of its 24 hours has no daily value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from era5_pipeline.climate.answer import ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    import numpy.typing as npt

    from era5_pipeline.climate.answer import Element

    FloatArray = npt.NDArray[np.float64]

HOURS_PER_DAY = 24
_MINUTES_PER_DAY = 24 * 60

# Columns of hours, as in the table weather; for an area, the mean wind speed of its points replaces the two components.
TEMPERATURE = "temperature_2m"
PRECIPITATION = "total_precipitation"
ZONAL, MERIDIONAL = "zonal_wind_10m", "meridional_wind_10m"
WIND_SPEED = "wind_speed_10m"
_COLUMNS: dict[Element, str] = {"temperature": TEMPERATURE, "precipitation": PRECIPITATION, "wind": WIND_SPEED}


@dataclass(frozen=True, eq=False)
class DayHours:
    """The hours of each day: `values` of an element (n, 24) in float64, NaN for a missing hour, on `dates` (n,).

    Column 0 holds the instant from 00:00 to before 01:00 of the day; for precipitation, the total from 00:00 to 01:00
    (if the offset has a fraction of an hour: of the hour that begins then).
    """

    dates: pd.DatetimeIndex
    values: Mapping[Element, FloatArray]
    offset_minutes: int

    @property
    def elements(self) -> tuple[Element, ...]:
        """The elements with any value."""
        return tuple(element for element in ELEMENTS if element in self.values)

    def within(self, first: date | None, last: date | None) -> DayHours:
        """The days from `first` to `last`, both included; None: no limit."""
        wanted = np.ones(len(self.dates), dtype=np.bool_)
        if first is not None:
            wanted &= self.dates >= pd.Timestamp(first)
        if last is not None:
            wanted &= self.dates <= pd.Timestamp(last)
        kept = {element: values[wanted] for element, values in self.values.items()}
        return DayHours(
            self.dates[wanted],
            {element: values for element, values in kept.items() if np.isfinite(values).any()},
            self.offset_minutes,
        )


def hours_by_day(hours: pd.DataFrame, offset_minutes: int = 0) -> DayHours:
    """Arrange hours by the days at an offset (local time minus UTC), from the first to the last instant.

    `hours` has an ascending UTC DatetimeIndex, and any of the columns of this module; others are ignored.
    """
    minutes = (
        pd.DatetimeIndex(hours.index).tz_convert(None).to_numpy().astype("datetime64[m]").astype(np.int64)
        + offset_minutes
    )
    first, last = int(minutes[0] // _MINUTES_PER_DAY), int(minutes[-1] // _MINUTES_PER_DAY)
    known = {*_COLUMNS.values(), ZONAL, MERIDIONAL}.intersection(hours.columns)
    columns = {name: hours[name].to_numpy(dtype=np.float64) for name in known}
    given = {element: columns[name] for element, name in _COLUMNS.items() if name in columns}
    if "wind" not in given and ZONAL in columns and MERIDIONAL in columns:
        given["wind"] = np.hypot(columns[ZONAL], columns[MERIDIONAL])
    values: dict[Element, FloatArray] = {}
    for element, of_hours in given.items():
        # A total belongs where its hour begins.
        begins = minutes - 60 if element == "precipitation" else minutes
        slots = begins // 60 - first * HOURS_PER_DAY
        inside = (slots >= 0) & np.isfinite(of_hours)
        if not inside.any():
            continue
        filled = np.full((last - first + 1) * HOURS_PER_DAY, np.nan)
        filled[slots[inside]] = of_hours[inside]
        values[element] = filled.reshape(-1, HOURS_PER_DAY)
    dates = pd.DatetimeIndex(np.arange(first, last + 1).astype("datetime64[D]"), name="date")
    return DayHours(dates, values, offset_minutes)


def daily_values(days: DayHours) -> pd.DataFrame:
    """The table of days, as `ClimateAnswer.daily` describes it, from the first to the last day with a value."""
    columns: dict[str, FloatArray] = {}
    if "temperature" in days.values:
        of_hours = days.values["temperature"]
        columns["mean_temperature"] = of_hours.mean(axis=1)
        columns["min_temperature"] = of_hours.min(axis=1)
        columns["max_temperature"] = of_hours.max(axis=1)
    if "precipitation" in days.values:
        columns["precipitation"] = days.values["precipitation"].sum(axis=1)
    if "wind" in days.values:
        columns["max_wind_speed"] = days.values["wind"].max(axis=1)
    table = pd.DataFrame(columns, index=days.dates)
    whole = np.flatnonzero(table.notna().any(axis=1).to_numpy())
    return table.iloc[whole[0] : whole[-1] + 1] if whole.size else table.iloc[:0]
