"""Generated weather: fields on a grid that look like weather, computed by formulae in numpy.

Every field is a function of place and time only, so that neighbouring areas and months fit together. Climate by
latitude, season, trend, daily cycle and travelling waves are sums of products of a latitude factor and a factor of
longitude and time: one matrix product per field and hour. Everything else follows from temperature, wind and cloud.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.variables import DEFAULT_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.variables import Variable

    Float64 = npt.NDArray[np.float64]
    Float32 = npt.NDArray[np.float32]
    Int64 = npt.NDArray[np.int64]

# Part of the names of generated files: increase it with every change of the formulae.
FORMULAE_VERSION = 2

KELVIN = 273.15
HOURS_1940_TO_1970 = 10_958 * 24
_WARMING_PER_HOUR = 1.1 / (85 * 365.25 * 24)
_LOWS, _CLUSTERS = 40, 60
_RAIN_BEGINS = 1.05  # in the sum for cloud, where 0 is clear and 1 overcast
_VALUES_PER_BLOCK = 1 << 19


class SampleWeather:
    """Fields on `latitudes`, shape (y,), and `longitudes`, shape (x,), of the grid, in degrees."""

    def __init__(self, latitudes: Float64, longitudes: Float64, grid: Grid = ERA5_GRID) -> None:
        # Counted in whole grid steps, so that -90 and 270 degrees are the same number.
        steps = np.rint(longitudes / grid.step_degrees).astype(np.int64) % grid.columns
        self._longitude = np.radians(steps * grid.step_degrees)
        self._latitude = np.radians(latitudes)[:, np.newaxis]
        sine, cosine = np.sin(self._latitude), np.maximum(np.cos(self._latitude), 0)

        # Forty waves at the scale of lows and highs, and sixty down to that of clusters of thunderstorms.
        # RandomState: numpy guarantees that its numbers never change; those of Generator may.
        random = np.random.RandomState(1940)

        def draw(lows: tuple[float, float], clusters: tuple[float, float]) -> Float64:
            return np.concatenate([random.uniform(*lows, _LOWS), random.uniform(*clusters, _CLUSTERS)])

        zonal = np.exp(draw((1.0, 2.5), (2.0, 4.6))).astype(np.int64)
        meridional = draw((3, 10), (5, 60)) * random.choice([-1, 1], zonal.size)
        centre = draw((20, 70), (0, 65)) * random.choice([-1, 1], zonal.size)
        # Westerlies carry weather eastward, trade winds westward; each wave adds its own speed.
        own = 2 * np.pi / (24 * draw((3, 9), (3, 9)))
        self._frequency = np.where(np.abs(centre) > 28, 0.008 * zonal + own, -0.004 * zonal - own)
        self._phase = draw((0, 2 * np.pi), (0, 2 * np.pi))
        self._around = np.exp(1j * zonal[:, np.newaxis] * self._longitude).astype(np.complex64)

        # Waves vanish at the poles, where a field has a single value.
        strength = _bell(self._latitude, centre, 20) * (1 - sine**10)
        speed = strength * np.repeat([4, 1.15], [_LOWS, _CLUSTERS]) / np.hypot(zonal, meridional)
        overcast = strength * np.repeat([0.22, 0.185], [_LOWS, _CLUSTERS])
        storms, trades = _bell(np.abs(self._latitude), 48, 14), _bell(np.abs(self._latitude), 20, 10)
        rain_belt = _bell(self._latitude, 0, 10)
        warmth = 53 * cosine**1.2 - 25 - 14 * np.maximum(-sine, 0) ** 6
        cloudiness = 0.45 + 0.3 * storms - 0.3 * trades + 0.25 * rain_belt
        self._daily = (5 * cosine).astype(np.float32)
        self._rain_per_hour = (8e-3 * (0.15 + 0.85 * cosine**2)).astype(np.float32)

        def factors(amplitude: Float64, lead: float, *climate: npt.NDArray[np.floating] | int) -> Float32:
            """Factors by latitude: of the cosines and sines of the waves, a constant, season, trend and time of day."""
            angle = meridional * self._latitude + lead
            parts = amplitude * np.cos(angle), -amplitude * np.sin(angle), *climate
            return np.hstack([part + np.zeros_like(sine) for part in parts]).astype(np.float32)

        # Wind circles the lows; air from the equator is warm; clouds bring rain behind it, and showers by day.
        self._celsius = factors(1.4 * sine * speed * zonal, 2.5, warmth, 16 * sine, 1, self._daily)
        self._eastward = factors(speed * meridional, -1.6, (8 * storms - 6 * trades) * cosine, -3 * sine * storms, 0, 0)
        self._northward = factors(1.5 * speed * zonal, 1.6, -4 * sine * trades, 3 * rain_belt, 0, 0)
        self._cloud = factors(overcast, -0.9, cloudiness, 2 * sine * rain_belt, 0, 0.15 * cosine**4)

    @property
    def hours_at_once(self) -> int:
        """Hours per call of `at` for which its arrays fit in the processor's cache."""
        rows: int = max(self._daily.size, self._frequency.size * 2)
        return max(1, _VALUES_PER_BLOCK // (rows * len(self._longitude)))

    def at(self, hours: Int64, variables: Sequence[Variable] = DEFAULT_VARIABLES) -> dict[str, Float32]:
        """Compute the fields of the default variables and of `variables` at `hours` (t,), since 1970-01-01T00:00 UTC.

        Returns:
            By column of the table, shape (t, y, x), in the units of ERA5's files (K, m/s, fraction, m), each
            field packed by `pack`; NaN where ERA5 has no values.
        """
        moved = np.exp(1j * (self._phase - hours[:, np.newaxis] * self._frequency)).astype(np.complex64)
        waves = moved[:, :, np.newaxis] * self._around
        day = np.cos(self._hour_angle(hours, 15)).astype(np.float32)
        climate = np.ones((len(hours), 4, len(self._longitude)), np.float32)
        climate[:, 1] = -np.cos(2 * np.pi * (hours / 24 - 20) / 365.25)[:, np.newaxis]
        climate[:, 2] = ((hours + HOURS_1940_TO_1970) * _WARMING_PER_HOUR)[:, np.newaxis]
        climate[:, 3] = day
        factors = np.concatenate([waves.real, waves.imag, climate], axis=1)

        celsius, cloud = self._celsius @ factors, self._cloud @ factors
        rain = np.maximum(cloud - np.float32(_RAIN_BEGINS), 0) ** 2
        rain = pack(rain * self._rain_per_hour, from_zero=True)
        np.clip(cloud, 0, 1, out=cloud)
        celsius -= cloud * (0.6 * self._daily * day[:, np.newaxis])  # clouds dim the day and warm the night
        # All snow at -1 degC, all rain at 1.5. Of the packed rain: of the unpacked, it might exceed it by half a step.
        snow = rain * np.clip((np.float32(1.5) - celsius) / np.float32(2.5), 0, 1)
        fields = {
            "temperature_2m": pack(celsius + np.float32(KELVIN)),
            "zonal_wind_10m": pack(self._eastward @ factors),
            "meridional_wind_10m": pack(self._northward @ factors),
            "total_cloud_cover": pack(cloud),
            "total_precipitation": rain,
            "snowfall": pack(snow, from_zero=True),
        }
        if others := [variable for variable in variables if variable.column not in fields]:
            weather = Weather(self._sun(hours), *fields.values())
            height = np.sin(2 * self._longitude + 3 * np.sin(self._latitude))
            is_sea = height + np.cos(5 * self._longitude) * np.sin(7 * self._latitude) < 0.4
            for variable in others:
                field = field_of(variable, weather)
                if variable.extent == "sea":
                    field[:, ~is_sea] = np.nan
                fields[variable.column] = field if np.isnan(field).any() else pack(field)
        return fields

    def _hour_angle(self, hours: Int64, peak: float) -> Float64:
        """Compute the hour angle in radians, shape (t, x), 0 where local solar time is `peak`."""
        angle: Float64 = (hours % 24 - peak)[:, np.newaxis] * (2 * np.pi / 24) + self._longitude
        return angle

    def _sun(self, hours: Int64) -> Float32:
        """Compute the sine of the sun's height, shape (t, y, x); 0 at night."""
        declination = np.radians(-23.44) * np.cos(2 * np.pi * (hours / 24 + 10) / 365.25)[:, np.newaxis, np.newaxis]
        noon = np.cos(self._latitude) * np.cos(declination) * np.cos(self._hour_angle(hours, 12))[:, np.newaxis]
        above: Float32 = np.maximum(np.sin(self._latitude) * np.sin(declination) + noon, 0).astype(np.float32)
        return above


def _bell(latitude: Float64, centre: float, width: float) -> Float64:
    bell: Float64 = np.exp(-(((latitude - np.radians(centre)) / np.radians(width)) ** 2))
    return bell


@dataclass(frozen=True, eq=False)
class Weather:
    """The sine of the sun's height, and the default fields in the units of files: (hour, latitude, longitude) each."""

    sun: Float32
    kelvin: Float32
    zonal: Float32
    meridional: Float32
    cloud: Float32
    rain: Float32
    snow: Float32


# Of a column in which the pattern is found, the first that is: in the unit of the table, but W/m2 and N/m2 also for
# their sums over an hour, and mm for flows of water. All have the right sign and size, and follow the weather.
_FORMULAE: dict[str, Callable[[Weather], npt.NDArray[np.floating]]] = {
    "dewpoint": lambda w: w.kelvin - KELVIN - 2 - 9 * (1 - w.cloud),
    "maximum_temperature": lambda w: w.kelvin - KELVIN + 0.4,
    "minimum_temperature": lambda w: w.kelvin - KELVIN - 0.4,
    "skin_temperature": lambda w: w.kelvin - KELVIN + 6 * w.sun - 1,
    "sea_surface": lambda w: np.maximum(0.5 * (w.kelvin - KELVIN) + 12, -1.8),
    "temperature": lambda w: 0.8 * (w.kelvin - KELVIN) + 2,
    "sea_ice": lambda w: np.clip(-0.1 * (w.kelvin - KELVIN), 0, 1),
    "pressure": lambda w: 1018 - 14 * w.cloud,
    "gust": lambda w: 1.6 * np.hypot(w.zonal, w.meridional) + 1,
    "zonal": lambda w: 1.3 * w.zonal,
    "meridional": lambda w: 1.3 * w.meridional,
    "incident_solar|top_downward": lambda w: 1361 * w.sun,
    "solar|short_wave": lambda w: 1000 * w.sun * (1 - 0.7 * w.cloud),
    "top_net": lambda w: -3.4e-8 * w.kelvin**4,
    "net_thermal|net_long": lambda w: -8e-9 * w.kelvin**4 * (1.75 - w.cloud),
    "thermal|long_wave": lambda w: 8e-9 * w.kelvin**4 * (5.25 + w.cloud),
    "evaporation": lambda w: -0.3 * w.sun * (1 - 0.5 * w.cloud),
    "(convective|large_scale)_snow": lambda w: 500 * w.snow,
    "snowfall": lambda w: 1000 * w.snow,
    "(convective|large_scale)_(precip|rain)": lambda w: 500 * w.rain,
    "precipitation": lambda w: 1000 * w.rain,
    "ozone": lambda w: 0.006 + 0.001 * w.cloud,
    "boundary_layer_height": lambda w: 150 + 1500 * w.sun * (1 - 0.5 * w.cloud),
    "cloud_base": lambda w: np.where(w.cloud > 0.05, 3400 - 3000 * w.cloud, np.nan),
    "inhibition": lambda w: np.where(w.cloud > 0.3, 100 - 100 * w.cloud, np.nan),
}
# Of others, from clear to overcast sky, by unit; 0 to 0.3 in units that are missing here.
_TYPICAL: dict[str, tuple[float, float]] = {
    "J/kg": (0, 1500), "J/m2": (30, -60), "K": (10, 40), "W/m2": (30, -60), "fraction": (0, 0.9),
    "kg/m/s": (-100, 200), "kg/m3": (120, 300), "m/s": (0.1, 1.5), "m2/m2": (1, 3), "m2/s2": (100, 900),
}  # fmt: skip


def field_of(variable: Variable, weather: Weather) -> Float32:
    """The variable in its file unit, (hour, latitude, longitude); NaN where there is no such thing."""
    low, high = _TYPICAL.get(variable.unit, (0, 0.3))
    formulae = (formula for pattern, formula in _FORMULAE.items() if re.search(pattern, variable.column))
    field = next(formulae, lambda w: low + (high - low) * w.cloud)(weather)
    field = field * {"J/m2": 3600, "N s/m2": 3600, "kg/m2/s": 1 / 3600}.get(variable.unit, 1)
    field = np.clip(field, variable.minimum, variable.maximum)
    in_file: Float32 = ((field - variable.offset) / variable.scale).astype(np.float32)
    return in_file


def pack(values: Float32, *, from_zero: bool = False) -> Float32:
    """Round `values`, shape (t, y, x), in place to the precision of GRIB's simple packing in 16 bits.

    A field (one hour) becomes reference + n * 2**E: the reference is its minimum, or 0 if `from_zero`, so that 0 stays
    exactly 0; n an integer from 0 to 65535, E the smallest integer with which its maximum can be reached. Small areas
    thus keep more digits.
    """
    highest = values.max(axis=(1, 2), keepdims=True)
    lowest = np.zeros_like(highest) if from_zero else values.min(axis=(1, 2), keepdims=True)
    # The inverse of the step must fit in a float32; no weather needs smaller steps.
    exponent = np.ceil(np.log2(np.maximum((highest.astype(np.float64) - lowest) / 65_535, 2.0**-120)))
    values -= lowest
    values *= np.exp2(-exponent).astype(np.float32)
    np.rint(values, out=values)
    values *= np.exp2(exponent).astype(np.float32)
    values += lowest
    return values
