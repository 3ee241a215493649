"""The daily variables of an answer: each aggregates an hourly one over the 24 hours 00 to 23 of a local day.

A day with a missing hour is NaN. Hours are not shifted: the precipitation at 00:00, of the hour before, counts for the
day that then begins, as with Open-Meteo (and unlike `era5 climate`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.serving.archive import formulas, units
from era5_pipeline.serving.archive.hourly import HOURLY, ArchiveVariable
from era5_pipeline.serving.archive.sun import SunOfPlace

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

_HOURS = 24
# An hour with more precipitation than this, in mm, counts as wet.
_WET = np.float32(0.001)


_IN_WORDS = {"mean": "mean", "max": "highest", "min": "lowest", "sum": "sum"}


def _aggregate(hours: npt.NDArray[Any], kind: str) -> Floats:
    """The hours (24 n,) as one value for each day, in float64, so that sums do not depend on the order."""
    found: Floats = getattr(hours.astype(np.float64).reshape(-1, _HOURS), kind)(axis=1).astype(np.float32)
    return found


def _of(hourly_name: str, kind: str, name: str | None = None) -> ArchiveVariable:
    """An aggregate of an hourly variable; named after both if no name is given."""
    hourly = HOURLY[hourly_name]

    def formula(*arguments: object) -> Floats:
        return _aggregate(hourly.formula(*arguments), kind)

    rule = f"{_IN_WORDS[kind]} of {hourly_name}"
    return ArchiveVariable(name or f"{hourly_name}_{kind}", hourly.unit, hourly.columns, rule, formula, hourly.by_sun)


def _all_three(*names: str) -> tuple[ArchiveVariable, ...]:
    return tuple(_of(name, kind) for name in names for kind in ("mean", "max", "min"))


def _dominant(eastward: Floats, northward: Floats) -> Floats:
    return formulas.wind_direction(_aggregate(eastward, "sum"), _aggregate(northward, "sum"))


def _wet_hours(precipitation_mm: Floats) -> Floats:
    wet = np.where(np.isnan(precipitation_mm), np.float32(np.nan), precipitation_mm > _WET)
    return _aggregate(wet.astype(np.float32), "sum")


_ALL = (
    *_all_three("temperature_2m", "apparent_temperature", "dew_point_2m", "relative_humidity_2m"),
    *_all_three("wet_bulb_temperature_2m"),
    _of("vapour_pressure_deficit", "max"),
    *(_of(name, "sum") for name in ("precipitation", "rain", "snowfall", "snowfall_water_equivalent")),
    ArchiveVariable(
        "precipitation_hours",
        units.HOURS,
        HOURLY["precipitation"].columns,
        "hours with more than 0.001 mm of precipitation",
        _wet_hours,
    ),
    *_all_three("snow_depth"),
    _of("weather_code", "max", "weather_code"),
    *_all_three("cloud_cover", "pressure_msl", "surface_pressure", "wind_speed_10m", "wind_speed_100m"),
    *(
        ArchiveVariable(
            f"wind_direction_{height}_dominant",
            units.DEGREES,
            HOURLY[f"wind_direction_{height}"].columns,
            "direction of the sum of u and v",
            _dominant,
        )
        for height in ("10m", "100m")
    ),
    *_all_three("wind_gusts_10m"),
    ArchiveVariable(
        "shortwave_radiation_sum",
        units.MEGAJOULES_PER_SQUARE_METRE,
        HOURLY["shortwave_radiation"].columns,
        "sum of shortwave_radiation",
        lambda joules: _aggregate(joules.astype(np.float64) / 1e6, "sum"),
    ),
    *(_of(name, "mean") for name in HOURLY if name.startswith("soil_")),
    *_all_three("sea_surface_temperature"),
    _of("et0_fao_evapotranspiration", "sum", "et0_fao_evapotranspiration"),
    _of("et0_fao_evapotranspiration", "sum"),
    ArchiveVariable(
        "sunrise",
        units.MOMENT,
        (),
        "when the sun's upper edge rises; 00:00 if it stays up, or down",
        SunOfPlace.sunrise,
        by_sun=True,
    ),
    ArchiveVariable(
        "sunset",
        units.MOMENT,
        (),
        "when it sets; 00:00 of the next day if it stays up, of this day if it stays down",
        SunOfPlace.sunset,
        by_sun=True,
    ),
    ArchiveVariable(
        "daylight_duration", units.SECONDS, (), "time from sunrise to sunset", SunOfPlace.daylight, by_sun=True
    ),
    _of("growing_degree_days_base_0_limit_50", "sum", "growing_degree_days_base_0_limit_50"),
)

DAILY = {variable.name: variable for variable in _ALL}
