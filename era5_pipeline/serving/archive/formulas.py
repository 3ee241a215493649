"""Quantities computed from columns of the table: wind, humidity, radiation, evapotranspiration, weather codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.serving.archive.sun import SunOfPlace

    Floats = npt.NDArray[np.float32]
    Doubles = npt.NDArray[np.float64]

# Formulas and constants are those of Open-Meteo (Magnus' formula for humidity, FAO 56 for the vapour pressure deficit,
# Stull for the wet bulb, Steadman for the apparent temperature), in float32 as there. Arguments are in the table's
# units, (n,); NaN gives NaN.


_SECONDS = np.float32(3600)
_CALM = np.float32(270)
# cm of snow per mm of water: fresh snow is seven times as deep as its water.
_SNOW = np.float32(0.7)
# WMO codes by the lowest rate of the hour: snow in cm, precipitation in mm, cloud cover in percent.
_SNOW_CODES = ((0.01, 71), (0.2, 73), (0.8, 75))
_RAIN_CODES = ((0.01, 51), (0.5, 53), (1.0, 55), (1.3, 61), (2.5, 63), (7.6, 65))
_CLOUD_CODES = ((20, 1), (50, 2), (80, 3))


def percent(fraction: Floats) -> Floats:
    """A fraction of one, in percent."""
    return fraction * np.float32(100)


def snow_height(water_mm: Floats) -> Floats:
    """The depth of fresh snow in cm, from its water equivalent in mm."""
    return water_mm * _SNOW


def rain(precipitation_mm: Floats, snow_water_mm: Floats) -> Floats:
    """Precipitation that is not snow, in mm."""
    found: Floats = np.maximum(precipitation_mm - snow_water_mm, np.float32(0))
    return found


def snow_depth(water_mm: Floats, density: Floats) -> Floats:
    """The depth of lying snow in m, from its water equivalent in mm and its density in kg/m3."""
    return water_mm / density


def wind_speed(eastward: Floats, northward: Floats) -> Floats:
    """Wind speed in m/s, from its components in m/s."""
    return np.sqrt(eastward * eastward + northward * northward)


def wind_direction(eastward: Floats, northward: Floats) -> Floats:
    """The direction from which wind comes, in degrees: east is 90, north 360, calm 270."""
    # Adding zero makes -0.0 positive, for which arctan2 would give 0 instead of 360.
    degrees = np.degrees(np.arctan2(eastward + np.float32(0), northward)) + np.float32(180)
    found: Floats = np.where((eastward == 0) & (northward == 0), _CALM, degrees)
    return found


def relative_humidity(temperature: Floats, dew_point: Floats) -> Floats:
    """Relative humidity in percent, 0 to 100, from temperature and dew point in degC."""
    slope, zero = np.float32(17.625), np.float32(243.04)
    ratio = np.exp(slope * dew_point / (zero + dew_point)) / np.exp(slope * temperature / (zero + temperature))
    found: Floats = np.clip(np.float32(100) * ratio, np.float32(0), np.float32(100))
    return found


def vapour_pressure_deficit(temperature: Floats, dew_point: Floats) -> Floats:
    """The vapour pressure missing to saturation, in kPa, from temperature and dew point in degC."""
    deficit = _saturation_pressure(temperature) - _saturation_pressure(dew_point)
    found: Floats = np.maximum(deficit, np.float32(0))
    return found


def _saturation_pressure(temperature: Floats) -> Floats:
    return np.float32(0.6108) * np.exp(np.float32(17.27) * temperature / (temperature + np.float32(237.3)))


def wet_bulb(temperature: Floats, dew_point: Floats) -> Floats:
    """The wet-bulb temperature in degC, by Stull's approximation, from temperature and dew point in degC."""
    humidity = relative_humidity(temperature, dew_point)
    found = (
        temperature * np.arctan(np.float32(0.151977) * np.sqrt(humidity + np.float32(8.313659)))
        + np.arctan(temperature + humidity)
        - np.arctan(humidity - np.float32(1.676331))
        + np.float32(0.00391838) * humidity ** np.float32(1.5) * np.arctan(np.float32(0.023101) * humidity)
        - np.float32(4.686035)
    )
    lower: Floats = np.minimum(found, temperature)
    return lower


def apparent_temperature(
    temperature: Floats, dew_point: Floats, eastward: Floats, northward: Floats, radiation: Floats
) -> Floats:
    """The apparent temperature in degC, with humidity, wind and sunlight.

    From temperature and dew point in degC, wind at 10 m in m/s, and sunlight of the hour in J/m2.
    """
    wind = wind_speed(eastward, northward) * np.float32(0.75)
    pressure = (
        relative_humidity(temperature, dew_point)
        / np.float32(100)
        * np.float32(6.105)
        * np.exp(np.float32(17.27) * temperature / (np.float32(237.7) + temperature))
    )
    absorbed = np.maximum(np.float32(0.1) * (mean_watts(radiation) - np.float32(550)), np.float32(0))
    found: Floats = (
        temperature
        + np.float32(0.348) * pressure
        - np.float32(0.7) * wind
        + np.float32(0.7) * absorbed / (wind + np.float32(10))
        - np.float32(4.25)
    )
    return found


def mean_watts(joules: Floats) -> Floats:
    """The mean over an hour in W/m2, from the hour's sum in J/m2."""
    return joules / _SECONDS


def diffuse_watts(all_joules: Floats, direct_joules: Floats) -> Floats:
    """Diffuse sunlight in W/m2, the mean over an hour: the total minus the direct part, both in J/m2."""
    return mean_watts(all_joules) - mean_watts(direct_joules)


def degree_days(temperature: Floats) -> Floats:
    """An hour's share of growing degree days: between 0 and 50 degC, a 24th of it."""
    return np.clip(temperature, np.float32(0), np.float32(50)) / np.float32(24)


def weather_code(cloud: Floats, precipitation_mm: Floats, snow_water_mm: Floats) -> Floats:
    """The WMO code of the hour's weather: snow, else rain or drizzle, else the cloud cover."""
    found = _by_least(percent(cloud), _CLOUD_CODES)
    wet = _by_least(precipitation_mm, _RAIN_CODES)
    snowy = _by_least(snow_height(snow_water_mm), _SNOW_CODES)
    found = np.where(wet > 0, wet, found)
    found = np.where(snowy > 0, snowy, found)
    unknown = np.isnan(cloud) | np.isnan(precipitation_mm) | np.isnan(snow_water_mm)
    return np.where(unknown, np.float32(np.nan), found).astype(np.float32)


def _by_least(values: Floats, codes: tuple[tuple[float, int], ...]) -> Floats:
    """The code of the highest bound that a value reaches; 0 below all of them."""
    bounds = np.array([bound for bound, _ in codes], dtype=np.float32)
    found: Floats = np.array([0, *(code for _, code in codes)], dtype=np.float32)[
        np.searchsorted(bounds, values, side="right")
    ]
    return found


# --- Reference evapotranspiration of grass by FAO Irrigation and Drainage Paper 56 (Penman-Monteith), hour by hour ---
#
# Numbers in comments are its equations. They need the hour's mean of temperature, humidity and wind, for which ERA5 has
# the value at the end of the hour.


_HOURS = 24
# From the wind at 10 m to that at 2 m (47).
_TO_TWO_METRES = 4.87 / np.log(67.8 * 10 - 5.42)
_STEFAN_BOLTZMANN = 4.903e-9 / _HOURS  # MJ/K4/m2 an hour
_REFLECTED = 0.23
# Below a mean height of 0.3 radians the sun says too little about the sky.
_LOW_SUN = np.sin(0.3)
# The share of clear-sky sunlight that reaches the ground: its lower limit, and the value used where the sun never
# rises.
_LEAST_SHARE, _DARK_SHARE = 0.3, 0.5


def et0_of_hours(
    sun: SunOfPlace,
    temperature: Floats,
    dew_point: Floats,
    eastward: Floats,
    northward: Floats,
    sunlight: Floats,
    pressure: Floats,
) -> Floats:
    """The evapotranspiration of each hour that ends at a time (24 n,), in mm, at least 0.

    From temperature and dew point in degC, wind at 10 m in m/s, sunlight of the hour in J/m2, surface pressure in hPa.
    At night, the clearness of the sky follows from the sunlight of the local day.
    """
    celsius, dew, kilopascals = (one.astype(np.float64) for one in (temperature, dew_point, pressure / 10))
    radiation = np.maximum(sunlight.astype(np.float64) / 1e6, 0)
    above, sine = sun.above_the_atmosphere()
    # The height of the ground from its pressure (7), and clear-sky sunlight (37).
    height = 293 / 0.0065 * (1 - (kilopascals / 101.3) ** (1 / 5.26))
    clear = (0.75 + 2e-5 * height) * above
    share = _clear_share(radiation, clear, sine)
    wind = np.hypot(eastward.astype(np.float64), northward.astype(np.float64)) * _TO_TWO_METRES
    found = penman_monteith(celsius, _saturation(dew), wind, radiation, share, kilopascals, is_day=above > 0)
    return np.maximum(found, 0).astype(np.float32)


def penman_monteith(
    temperature: Doubles,
    vapour: Doubles,
    wind: Doubles,
    radiation: Doubles,
    clear_share: Doubles,
    pressure: Doubles,
    *,
    is_day: npt.NDArray[np.bool_],
) -> Doubles:
    """The evapotranspiration of an hour in mm (53).

    From temperature in degC, vapour pressure in kPa, wind at 2 m in m/s, sunlight in MJ/m2, its share of clear-sky
    sunlight, and pressure in kPa.
    """
    saturated = _saturation(temperature)
    slope = 4098 * saturated / (temperature + 237.3) ** 2  # (13)
    psychrometric = 0.665e-3 * pressure  # (8)
    thermal = (  # (39)
        _STEFAN_BOLTZMANN * (temperature + 273.16) ** 4 * (0.34 - 0.14 * np.sqrt(vapour)) * (1.35 * clear_share - 0.35)
    )
    net = (1 - _REFLECTED) * radiation - thermal  # (38), (40)
    into_soil = np.where(is_day, 0.1, 0.5) * net  # (45), (46)
    drying = psychrometric * 37 / (temperature + 273) * wind * (saturated - vapour)
    return (0.408 * slope * (net - into_soil) + drying) / (slope + psychrometric * (1 + 0.34 * wind))


def _clear_share(radiation: Doubles, clear: Doubles, sine: Doubles) -> Doubles:
    """The share of clear-sky sunlight that arrives: in the hour if the sun is high, else over its local day."""
    known = ~np.isnan(radiation) & ~np.isnan(clear)
    of_day, clear_of_day = (
        np.where(known, one, 0).reshape(-1, _HOURS).sum(axis=1).repeat(_HOURS) for one in (radiation, clear)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(sine >= _LOW_SUN, radiation / clear, of_day / clear_of_day)
    share = np.where(clear_of_day > 0, share, _DARK_SHARE)
    return np.clip(share, _LEAST_SHARE, 1)


def _saturation(temperature: Doubles) -> Doubles:
    """The vapour pressure of saturated air in kPa (11)."""
    found: Doubles = 0.6108 * np.exp(17.27 * temperature / (temperature + 237.3))
    return found
