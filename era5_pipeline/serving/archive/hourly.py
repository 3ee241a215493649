"""The hourly variables of an answer: Open-Meteo's names, the columns of the table behind them, and formulas.

A variable is included if the catalogue has its columns. Others of Open-Meteo are refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.serving.archive import formulas, units
from era5_pipeline.serving.archive.sun import SunOfPlace

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.serving.archive.units import Unit

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ArchiveVariable:
    """A variable of hours or of days: its unit before conversion, its columns, what it is, and its formula.

    `formula` takes the values (24 n,) of the columns at all hours, in the table's units, preceded by a `SunOfPlace` if
    `by_sun`, and returns as many, or those of n days; int64 values are moments. `rule` describes it in docs/http.md.
    """

    name: str
    unit: Unit
    columns: tuple[str, ...]
    rule: str = "as in the table"
    formula: Callable[..., Floats | npt.NDArray[np.int64]] = lambda values: values
    by_sun: bool = False


_T, _D = "temperature_2m", "dewpoint_2m"
_U, _V = "zonal_wind_10m", "meridional_wind_10m"
_U100, _V100 = "zonal_wind_100m", "meridional_wind_100m"
_RAIN, _SNOW, _CLOUD = "total_precipitation", "snowfall", "total_cloud_cover"
_SUN, _DIRECT = "surface_solar_radiation_downwards", "surface_direct_solar_radiation"
_WIND = (("10m", (_U, _V)), ("100m", (_U100, _V100)))
_SOIL = {"0_to_7cm": 1, "7_to_28cm": 2, "28_to_100cm": 3, "100_to_255cm": 4}


def _top_metre(first: Floats, second: Floats, third: Floats) -> Floats:
    """The mean of the soil's three upper layers, each by its thickness."""
    found: Floats = first * np.float32(0.07) + second * np.float32(0.21) + third * np.float32(0.72)
    return found


def _of_soil(what: str, unit: Unit, column: str) -> tuple[ArchiveVariable, ...]:
    """Each layer of the soil, and the mean of the top metre; `column` is that of a layer, without its number."""
    columns = tuple(f"{column}_{number}" for number in _SOIL.values())
    layers = (ArchiveVariable(f"soil_{what}_{depth}", unit, (one,)) for depth, one in zip(_SOIL, columns, strict=True))
    rule = "0.07, 0.21 and 0.72 of the three layers"
    return (*layers, ArchiveVariable(f"soil_{what}_0_to_100cm", unit, columns[:3], rule, _top_metre))


_ALL = (
    ArchiveVariable("temperature_2m", units.CELSIUS, (_T,), "as in the table, not corrected for height"),
    ArchiveVariable(
        "relative_humidity_2m",
        units.PERCENT,
        (_T, _D),
        "100 exp(17.625 d / (243.04 + d)) / exp(17.625 t / (243.04 + t)), within 0 to 100",
        formulas.relative_humidity,
    ),
    ArchiveVariable("dew_point_2m", units.CELSIUS, (_D,)),
    ArchiveVariable(
        "apparent_temperature",
        units.CELSIUS,
        (_T, _D, _U, _V, _SUN),
        "t + 0.348 e - 0.7 w + 0.7 q / (w + 10) - 4.25: vapour pressure e hPa, w 0.75 of the wind, q = max(0, 0.1 "
        "(sunlight W/m² - 550))",
        formulas.apparent_temperature,
    ),
    ArchiveVariable("wet_bulb_temperature_2m", units.CELSIUS, (_T, _D), "by Stull's approximation", formulas.wet_bulb),
    ArchiveVariable(
        "vapour_pressure_deficit",
        units.KILOPASCALS,
        (_T, _D),
        "0.6108 exp(17.27 t / (t + 237.3)), less the same of the dew point; not below 0",
        formulas.vapour_pressure_deficit,
    ),
    ArchiveVariable("precipitation", units.MILLIMETRES, (_RAIN,), "of the hour before, with snow"),
    ArchiveVariable("rain", units.MILLIMETRES, (_RAIN, _SNOW), "precipitation less snow, not below 0", formulas.rain),
    ArchiveVariable("snowfall", units.CENTIMETRES, (_SNOW,), "mm of water times 0.7", formulas.snow_height),
    ArchiveVariable("snowfall_water_equivalent", units.MILLIMETRES, (_SNOW,)),
    ArchiveVariable(
        "snow_depth",
        units.METRES,
        ("snow_depth_water_equivalent", "snow_density"),
        "mm of water divided by kg/m³",
        formulas.snow_depth,
    ),
    ArchiveVariable(
        "weather_code",
        units.WEATHER_CODE,
        (_CLOUD, _RAIN, _SNOW),
        "snow from 0.01, 0.2, 0.8 cm: 71, 73, 75; else precipitation from 0.01, 0.5, 1, 1.3, 2.5, 7.6 mm: 51, 53, 55, "
        "61, 63, 65; else cloud below 20, 50, 80 %: 0, 1, 2; else 3",
        formulas.weather_code,
    ),
    *(
        ArchiveVariable(name, units.PERCENT, (column,), "times 100", formulas.percent)
        for name, column in (
            ("cloud_cover", _CLOUD),
            ("cloud_cover_low", "low_cloud_cover"),
            ("cloud_cover_mid", "medium_cloud_cover"),
            ("cloud_cover_high", "high_cloud_cover"),
        )
    ),
    ArchiveVariable("pressure_msl", units.HECTOPASCALS, ("mean_sea_level_pressure",)),
    ArchiveVariable(
        "surface_pressure",
        units.HECTOPASCALS,
        ("surface_pressure",),
        "as in the table: at the height of the model's ground",
    ),
    *(
        ArchiveVariable(f"wind_speed_{height}", units.METRES_PER_SECOND, columns, "√(u² + v²)", formulas.wind_speed)
        for height, columns in _WIND
    ),
    *(
        ArchiveVariable(
            f"wind_direction_{height}",
            units.DEGREES,
            columns,
            "atan2(u, v) + 180: where it comes from; north 360, calm 270",
            formulas.wind_direction,
        )
        for height, columns in _WIND
    ),
    *(
        ArchiveVariable(f"wind_{letter}_component_{height}", units.METRES_PER_SECOND, (column,))
        for height, columns in _WIND
        for letter, column in zip("uv", columns, strict=True)
    ),
    ArchiveVariable("wind_gusts_10m", units.METRES_PER_SECOND, ("instantaneous_wind_gust_10m",), "at the time itself"),
    *(
        ArchiveVariable(name, units.WATTS_PER_SQUARE_METRE, (column,), "J/m² / 3600, hour before", formulas.mean_watts)
        for name, column in (("shortwave_radiation", _SUN), ("direct_radiation", _DIRECT))
    ),
    ArchiveVariable(
        "diffuse_radiation",
        units.WATTS_PER_SQUARE_METRE,
        (_SUN, _DIRECT),
        "shortwave less direct",
        formulas.diffuse_watts,
    ),
    ArchiveVariable(
        "et0_fao_evapotranspiration",
        units.MILLIMETRES,
        (_T, _D, _U, _V, _SUN, "surface_pressure"),
        "FAO 56, Penman-Monteith for grass, of the hour before; not below 0",
        formulas.et0_of_hours,
        by_sun=True,
    ),
    ArchiveVariable("is_day", units.NUMBER, (), "1 if the sun is up at the time, or 0", SunOfPlace.is_day, by_sun=True),
    *_of_soil("temperature", units.CELSIUS, "soil_temperature_level"),
    *_of_soil("moisture", units.CUBIC_METRES_PER_CUBIC_METRE, "volumetric_soil_water_layer"),
    ArchiveVariable("sea_surface_temperature", units.CELSIUS, ("sea_surface_temperature",)),
    ArchiveVariable("boundary_layer_height", units.METRES, ("boundary_layer_height",)),
    ArchiveVariable(
        "total_column_integrated_water_vapour", units.KILOGRAMS_PER_SQUARE_METRE, ("total_column_water_vapour",)
    ),
    ArchiveVariable(
        "growing_degree_days_base_0_limit_50",
        units.GROWING_DEGREE_DAYS,
        (_T,),
        "t within 0 to 50, divided by 24",
        formulas.degree_days,
    ),
)

HOURLY = {variable.name: variable for variable in _ALL}
