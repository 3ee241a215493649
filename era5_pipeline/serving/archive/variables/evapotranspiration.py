"""Reference evapotranspiration of grass by FAO Irrigation and Drainage Paper 56 (Penman-Monteith), hour by hour.

Numbers in comments are its equations. It wants the hour's mean of temperature, humidity and wind, of which ERA5 has the
value at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.serving.archive.variables.sun import SunOfPlace

    Doubles = npt.NDArray[np.float64]
    Floats = npt.NDArray[np.float32]

_HOURS = 24
# From the wind at 10 m to that at 2 m (47).
_TO_TWO_METRES = 4.87 / np.log(67.8 * 10 - 5.42)
_STEFAN_BOLTZMANN = 4.903e-9 / _HOURS  # MJ/K4/m2 an hour
_REFLECTED = 0.23
# Below a mean height of 0.3 radians the sun says too little of the sky.
_LOW_SUN = np.sin(0.3)
# The share of clear-sky sunlight that reaches the ground: its range, and what stands for it where no sun rises.
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
    """The evapotranspiration of each hour that ends at a time (24 n,), in mm, not below 0.

    Of temperature and dew point in degC, wind at 10 m in m/s, sunlight of the hour in J/m2, surface pressure in hPa.
    How clear the sky is at night follows from the sunlight of the local day.
    """
    celsius, dew, kilopascals = (one.astype(np.float64) for one in (temperature, dew_point, pressure / 10))
    radiation = np.maximum(sunlight.astype(np.float64) / 1e6, 0)
    above, sine = sun.above_the_atmosphere()
    # The height of the ground from its pressure (7), and sunlight without clouds (37).
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

    Of temperature in degC, vapour pressure in kPa, wind at 2 m in m/s, sunlight in MJ/m2, its share of that without
    clouds, and pressure in kPa.
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
    """The share of clear-sky sunlight that arrives: of the hour where the sun is high, else of its local day."""
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
