"""The hourly variables of an answer: Open-Meteo's names, the columns of the table behind them, and formulas.

A variable is included if the catalogue has its columns. Others of Open-Meteo are refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.serving.archive import formulas, units
from era5_pipeline.serving.archive.formulas import et0_of_hours
from era5_pipeline.serving.archive.sun import SunOfPlace

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.serving.archive.units import Unit

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class HourlyVariable:
    """One variable: its unit before conversion, its columns, and its formula.

    `formula` takes the values (n,) of the columns, in the table's units, preceded by a `SunOfPlace` if `by_sun`.
    `rule` describes it in docs/http.md.
    """

    name: str
    unit: Unit
    columns: tuple[str, ...]
    formula: Callable[..., Floats]
    rule: str
    by_sun: bool = False


def _as_it_is(values: Floats) -> Floats:
    return values


_T, _D = "temperature_2m", "dewpoint_2m"
_U, _V = "zonal_wind_10m", "meridional_wind_10m"
_U100, _V100 = "zonal_wind_100m", "meridional_wind_100m"
_RAIN, _SNOW, _CLOUD = "total_precipitation", "snowfall", "total_cloud_cover"
_SUN, _DIRECT = "surface_solar_radiation_downwards", "surface_direct_solar_radiation"
_SOIL = {"0_to_7cm": 1, "7_to_28cm": 2, "28_to_100cm": 3, "100_to_255cm": 4}
_TOP_METRE = ("0_to_7cm", "7_to_28cm", "28_to_100cm")
_AS_IT_IS = "as in the table"


def _top_metre(first: Floats, second: Floats, third: Floats) -> Floats:
    """The mean of the soil's three upper layers, each by its thickness."""
    found: Floats = first * np.float32(0.07) + second * np.float32(0.21) + third * np.float32(0.72)
    return found


_ALL = (
    HourlyVariable("temperature_2m", units.CELSIUS, (_T,), _as_it_is, f"{_AS_IT_IS}, not corrected for height"),
    HourlyVariable(
        "relative_humidity_2m",
        units.PERCENT,
        (_T, _D),
        formulas.relative_humidity,
        "100 exp(17.625 d / (243.04 + d)) / exp(17.625 t / (243.04 + t)), within 0 to 100",
    ),
    HourlyVariable("dew_point_2m", units.CELSIUS, (_D,), _as_it_is, _AS_IT_IS),
    HourlyVariable(
        "apparent_temperature",
        units.CELSIUS,
        (_T, _D, _U, _V, _SUN),
        formulas.apparent_temperature,
        "t + 0.348 e - 0.7 w + 0.7 q / (w + 10) - 4.25: vapour pressure e hPa, w 0.75 of the wind, q = max(0, 0.1 "
        "(sunlight W/m² - 550))",
    ),
    HourlyVariable("wet_bulb_temperature_2m", units.CELSIUS, (_T, _D), formulas.wet_bulb, "by Stull's approximation"),
    HourlyVariable(
        "vapour_pressure_deficit",
        units.KILOPASCALS,
        (_T, _D),
        formulas.vapour_pressure_deficit,
        "0.6108 exp(17.27 t / (t + 237.3)), less the same of the dew point; not below 0",
    ),
    HourlyVariable("precipitation", units.MILLIMETRES, (_RAIN,), _as_it_is, "of the hour before, with snow"),
    HourlyVariable("rain", units.MILLIMETRES, (_RAIN, _SNOW), formulas.rain, "precipitation less snow, not below 0"),
    HourlyVariable("snowfall", units.CENTIMETRES, (_SNOW,), formulas.snow_height, "mm of water times 0.7"),
    HourlyVariable("snowfall_water_equivalent", units.MILLIMETRES, (_SNOW,), _as_it_is, _AS_IT_IS),
    HourlyVariable(
        "snow_depth",
        units.METRES,
        ("snow_depth_water_equivalent", "snow_density"),
        formulas.snow_depth,
        "mm of water divided by kg/m³",
    ),
    HourlyVariable(
        "weather_code",
        units.WEATHER_CODE,
        (_CLOUD, _RAIN, _SNOW),
        formulas.weather_code,
        "snow from 0.01, 0.2, 0.8 cm: 71, 73, 75; else precipitation from 0.01, 0.5, 1, 1.3, 2.5, 7.6 mm: 51, 53, 55, "
        "61, 63, 65; else cloud below 20, 50, 80 %: 0, 1, 2; else 3",
    ),
    HourlyVariable("cloud_cover", units.PERCENT, (_CLOUD,), formulas.percent, "times 100"),
    *(
        HourlyVariable(f"cloud_cover_{name}", units.PERCENT, (column,), formulas.percent, "times 100")
        for name, column in (("low", "low_cloud_cover"), ("mid", "medium_cloud_cover"), ("high", "high_cloud_cover"))
    ),
    HourlyVariable("pressure_msl", units.HECTOPASCALS, ("mean_sea_level_pressure",), _as_it_is, _AS_IT_IS),
    HourlyVariable(
        "surface_pressure",
        units.HECTOPASCALS,
        ("surface_pressure",),
        _as_it_is,
        f"{_AS_IT_IS}: at the height of the model's ground",
    ),
    *(
        HourlyVariable(f"wind_speed_{height}", units.METRES_PER_SECOND, columns, formulas.wind_speed, "√(u² + v²)")
        for height, columns in (("10m", (_U, _V)), ("100m", (_U100, _V100)))
    ),
    *(
        HourlyVariable(
            f"wind_direction_{height}",
            units.DEGREES,
            columns,
            formulas.wind_direction,
            "atan2(u, v) + 180: where it comes from; north 360, calm 270",
        )
        for height, columns in (("10m", (_U, _V)), ("100m", (_U100, _V100)))
    ),
    *(
        HourlyVariable(f"wind_{letter}_component_{height}", units.METRES_PER_SECOND, (column,), _as_it_is, _AS_IT_IS)
        for letter, height, column in (("u", "10m", _U), ("v", "10m", _V), ("u", "100m", _U100), ("v", "100m", _V100))
    ),
    HourlyVariable(
        "wind_gusts_10m", units.METRES_PER_SECOND, ("instantaneous_wind_gust_10m",), _as_it_is, "at the time itself"
    ),
    HourlyVariable(
        "shortwave_radiation", units.WATTS_PER_SQUARE_METRE, (_SUN,), formulas.mean_watts, "J/m² / 3600, hour before"
    ),
    HourlyVariable(
        "direct_radiation", units.WATTS_PER_SQUARE_METRE, (_DIRECT,), formulas.mean_watts, "J/m² / 3600, hour before"
    ),
    HourlyVariable(
        "diffuse_radiation",
        units.WATTS_PER_SQUARE_METRE,
        (_SUN, _DIRECT),
        formulas.diffuse_watts,
        "shortwave less direct",
    ),
    HourlyVariable(
        "et0_fao_evapotranspiration",
        units.MILLIMETRES,
        (_T, _D, _U, _V, _SUN, "surface_pressure"),
        et0_of_hours,
        "FAO 56, Penman-Monteith for grass, of the hour before; not below 0",
        by_sun=True,
    ),
    HourlyVariable("is_day", units.NUMBER, (), SunOfPlace.is_day, "1 if the sun is up at the time, or 0", by_sun=True),
    *(
        HourlyVariable(
            f"soil_temperature_{depth}", units.CELSIUS, (f"soil_temperature_level_{level}",), _as_it_is, _AS_IT_IS
        )
        for depth, level in _SOIL.items()
    ),
    HourlyVariable(
        "soil_temperature_0_to_100cm",
        units.CELSIUS,
        tuple(f"soil_temperature_level_{_SOIL[depth]}" for depth in _TOP_METRE),
        _top_metre,
        "0.07, 0.21 and 0.72 of the three layers",
    ),
    *(
        HourlyVariable(
            f"soil_moisture_{depth}",
            units.CUBIC_METRES_PER_CUBIC_METRE,
            (f"volumetric_soil_water_layer_{level}",),
            _as_it_is,
            _AS_IT_IS,
        )
        for depth, level in _SOIL.items()
    ),
    HourlyVariable(
        "soil_moisture_0_to_100cm",
        units.CUBIC_METRES_PER_CUBIC_METRE,
        tuple(f"volumetric_soil_water_layer_{_SOIL[depth]}" for depth in _TOP_METRE),
        _top_metre,
        "0.07, 0.21 and 0.72 of the three layers",
    ),
    HourlyVariable("sea_surface_temperature", units.CELSIUS, ("sea_surface_temperature",), _as_it_is, _AS_IT_IS),
    HourlyVariable("boundary_layer_height", units.METRES, ("boundary_layer_height",), _as_it_is, _AS_IT_IS),
    HourlyVariable(
        "total_column_integrated_water_vapour",
        units.KILOGRAMS_PER_SQUARE_METRE,
        ("total_column_water_vapour",),
        _as_it_is,
        _AS_IT_IS,
    ),
    HourlyVariable(
        "growing_degree_days_base_0_limit_50",
        units.GROWING_DEGREE_DAYS,
        (_T,),
        formulas.degree_days,
        "t within 0 to 50, divided by 24",
    ),
)

HOURLY = {variable.name: variable for variable in _ALL}
