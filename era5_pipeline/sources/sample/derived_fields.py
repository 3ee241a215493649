"""Generated fields of variables beyond the default ones, from temperature, cloud and wind of the same hour.

They have the right sign, size and unit, and go with the weather (warm days have warm soil, clouds dim the sun); nothing
more is claimed. Those without a formula of their own are a share of cloud, within what is typical of their unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    Float32 = npt.NDArray[np.float32]

_SECONDS = 3600.0
_SUN = 1361.0  # W/m2 at the top of the atmosphere
_STEFAN_BOLTZMANN = 5.67e-8
_KELVIN = 273.15


@dataclass(frozen=True, eq=False)
class Weather:
    """Fields of some hours, (hour, latitude, longitude): degC, fractions, m/s, m of rain; the sine of the sun's height.

    `is_sea` (latitude, longitude) says which places are sea: on invented continents, which are none of the Earth's.
    """

    celsius: Float32
    cloud: Float32
    zonal: Float32
    meridional: Float32
    rain: Float32
    sun: Float32
    is_sea: npt.NDArray[np.bool_]

    @property
    def speed(self) -> Float32:
        """The speed of the wind."""
        return np.hypot(self.zonal, self.meridional)

    @property
    def solar(self) -> Float32:
        """Solar radiation downwards at the surface, W/m2."""
        return _float32(0.75 * _SUN * self.sun * (1 - 0.7 * self.cloud))

    @property
    def thermal(self) -> Float32:
        """Thermal radiation that a black surface of this temperature gives off, W/m2."""
        return _float32(_STEFAN_BOLTZMANN * (self.celsius.astype(np.float64) + _KELVIN) ** 4)


# Fields in the unit of the table, by short name.
_FORMULAE: dict[str, Callable[[Weather], Float32]] = {
    "d2m": lambda w: w.celsius - 2 - 9 * (1 - w.cloud),
    "mx2t": lambda w: w.celsius + 0.4,
    "mn2t": lambda w: w.celsius - 0.4,
    "skt": lambda w: w.celsius + 6 * w.sun - 1,
    "sst": lambda w: np.maximum(0.5 * w.celsius + 12, -1.8),
    "siconc": lambda w: np.clip(-0.1 * w.celsius, 0, 1),
    "msl": lambda w: 1018 - 14 * w.cloud,
    "sp": lambda w: 1005 - 14 * w.cloud,
    "u100": lambda w: 1.4 * w.zonal,
    "v100": lambda w: 1.4 * w.meridional,
    "u10n": lambda w: 1.05 * w.zonal,
    "v10n": lambda w: 1.05 * w.meridional,
    "fg10": lambda w: 1.6 * w.speed + 1,
    "i10fg": lambda w: 1.5 * w.speed,
    "ssrd": lambda w: _SECONDS * w.solar,
    "ssr": lambda w: 0.85 * _SECONDS * w.solar,
    "fdir": lambda w: _SECONDS * w.solar * (1 - w.cloud),
    "tisr": lambda w: _SECONDS * _SUN * w.sun,
    "tsr": lambda w: 0.7 * _SECONDS * _SUN * w.sun,
    "strd": lambda w: _SECONDS * w.thermal * (0.75 + 0.15 * w.cloud),
    "str": lambda w: -_SECONDS * w.thermal * (0.25 - 0.15 * w.cloud),
    "ttr": lambda w: -_SECONDS * w.thermal * (0.65 - 0.1 * w.cloud),
    "avg_sdswrf": lambda w: w.solar,
    "avg_tprate": lambda w: w.rain * 1000 / _SECONDS,
    "cp": lambda w: 600 * w.rain,
    "lsp": lambda w: 400 * w.rain,
    "e": lambda w: -0.3 * w.sun * (1 - 0.5 * w.cloud),
    "pev": lambda w: -0.6 * w.sun * (1 - 0.5 * w.cloud),
    "tco3": lambda w: 0.006 + 0.001 * w.cloud,
    "blh": lambda w: 150 + 1500 * w.sun * (1 - 0.5 * w.cloud),
    "cbh": lambda w: np.where(w.cloud > 0.05, 400 + 3000 * (1 - w.cloud), np.nan),
    "cin": lambda w: np.where(w.cloud > 0.3, 100 * (1 - w.cloud), np.nan),
}
# What a field without a formula ranges between from a clear to an overcast sky, by the unit of the table.
_TYPICAL: dict[str, tuple[float, float]] = {
    "1": (0.01, 0.03),
    "J/kg": (0.0, 1500.0),
    "J/m2": (1.0e5, -2.0e5),
    "K": (10.0, 40.0),
    "N s/m2": (-200.0, 400.0),
    "N/m2": (-0.1, 0.3),
    "W/m2": (30.0, -60.0),
    "fraction": (0.0, 0.9),
    "hPa": (1015.0, 1000.0),
    "kg/m/s": (-100.0, 200.0),
    "kg/m2": (0.1, 0.5),
    "kg/m2/s": (0.0, 1.0e-4),
    "kg/m3": (120.0, 300.0),
    "m": (0.1, 0.9),
    "m/s": (0.1, 1.5),
    "m2/m2": (1.0, 3.0),
    "m2/s2": (100.0, 900.0),
    "m3/m3": (0.15, 0.45),
    "mm": (0.0, 0.4),
}


def field_of(variable: Variable, weather: Weather) -> Float32:
    """The variable in the unit of its files, (hour, latitude, longitude); NaN where ERA5 has none."""
    if variable.short_name in _FORMULAE:
        stored = _FORMULAE[variable.short_name](weather)
    elif variable.unit == "degC":
        stored = 0.8 * weather.celsius + 2
    else:
        stored = _share_of_cloud(variable, weather)
    stored = np.clip(stored, variable.minimum, variable.maximum)
    if variable.extent == "sea":
        stored = np.where(weather.is_sea, stored, np.nan)
    return _float32((stored - variable.offset) / variable.scale)


def invented_sea(latitudes: npt.NDArray[np.float64], longitudes: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which places are sea, (latitude, longitude), from angles in radians of shapes (y, 1) and (x,)."""
    height = np.sin(2 * longitudes + 3 * np.sin(latitudes)) + np.cos(5 * longitudes) * np.sin(7 * latitudes)
    sea: npt.NDArray[np.bool_] = height < 0.4
    return sea


def _share_of_cloud(variable: Variable, weather: Weather) -> Float32:
    within = (0.25, 0.75)
    low, high = _TYPICAL.get(
        variable.unit, tuple(variable.minimum + (variable.maximum - variable.minimum) * share for share in within)
    )
    return _float32(low + (high - low) * weather.cloud)


def _float32(values: npt.NDArray[np.floating]) -> Float32:
    return values.astype(np.float32)
