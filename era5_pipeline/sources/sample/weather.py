"""Generated weather: the default fields on ERA5's grid that look like weather, computed by formulae in numpy.

Every field is a function of place and time only, so that neighbouring areas and months fit together. Its linear part
(climate by latitude, season, trend, daily cycle, travelling waves) is a sum of products of a factor of latitude and a
factor of longitude and time: one matrix product per field and hour. The rest follows from those sums: cloud is clipped
to 0 and 1, rain falls where the sum exceeds overcast, and as snow where it is cold. Not here: the waves (`waves`), the
fields of other variables, which follow from these (`derived_fields`), or the files (`sample_source`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import STEP_DEGREES
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.sources.sample.derived_fields import Weather, field_of, invented_sea
from era5_pipeline.sources.sample.waves import Waves, wave_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    Float32 = npt.NDArray[np.float32]
    Float64 = npt.NDArray[np.float64]
    Int64 = npt.NDArray[np.int64]

# Part of the name of a generated file: increase it with every change of the formulae.
FORMULAE_VERSION = 1

KELVIN = 273.15
WARMING_PER_YEAR = 1.1 / 85.0
HOURS_PER_YEAR = 365.25 * 24.0
HOURS_1940_TO_1970 = 10_958 * 24
LARGEST_PACKED = 65_535
# The inverse of the step must be a float32; no weather needs smaller steps.
_SMALLEST_EXPONENT = -120

# The sum for cloud is clear sky below 0 and overcast above 1; rain begins above this.
_RAIN_BEGINS = 1.05
_SHADE = 0.6  # fraction by which an overcast sky reduces the daily cycle of temperature
# Temperatures, in degrees Celsius, between which snow gives way to rain.
_ALL_SNOW, _ALL_RAIN = -1.0, 1.5
_VALUES_PER_BLOCK = 1 << 19


class SampleWeather:
    """Fields on the grid of `latitudes`, shape (y,), and `longitudes`, shape (x,), in degrees."""

    def __init__(self, latitudes: Float64, longitudes: Float64) -> None:
        waves = Waves.draw()
        self._frequency, self._phase = waves.frequency, waves.phase
        # Counted in whole grid steps, so that -90 and 270 degrees are the same number.
        steps = np.rint(longitudes / STEP_DEGREES).astype(np.int64) % round(360 / STEP_DEGREES)
        self._longitude = np.radians(steps * STEP_DEGREES)
        self._around = np.exp(1j * waves.zonal[:, np.newaxis] * self._longitude).astype(np.complex64)

        latitude = np.radians(latitudes)[:, np.newaxis]
        self._latitude = latitude
        self._daily = (5.0 * np.cos(latitude)).astype(np.float32)
        self._rain_per_hour = (8e-3 * (0.15 + 0.85 * np.cos(latitude) ** 2)).astype(np.float32)
        climate = _climate(latitude, self._daily)
        of_waves = wave_terms(latitude, waves)
        self._by_latitude = {name: np.hstack([of_waves[name], climate[name]]).astype(np.float32) for name in climate}

    @property
    def hours_at_once(self) -> int:
        """The number of hours per call of `at` with which its arrays stay in the processor's cache."""
        rows: int = max(self._daily.size, self._frequency.size * 2)
        return max(1, _VALUES_PER_BLOCK // (rows * len(self._longitude)))

    def at(self, hours: Int64, variables: Sequence[Variable] = DEFAULT_VARIABLES) -> dict[str, Float32]:
        """Compute the fields of the default variables, and of these, at `hours`, (t,), from 1970-01-01T00:00 UTC on.

        Returns:
            By column of the table, shape (t, y, x), in the units of ERA5's files (K, m/s, fraction, m), each
            field packed by `pack`; NaN where ERA5 has no values.
        """
        by_longitude = self._by_longitude(hours)
        celsius = self._by_latitude["t"] @ by_longitude
        cloud = self._by_latitude["c"] @ by_longitude

        rain = cloud - np.float32(_RAIN_BEGINS)
        np.maximum(rain, 0, out=rain)
        rain *= rain
        rain *= self._rain_per_hour
        np.clip(cloud, 0, 1, out=cloud)

        afternoon = np.cos(_solar_angle(hours, self._longitude, peak=15.0)).astype(np.float32)
        celsius -= cloud * (np.float32(_SHADE) * self._daily * afternoon[:, np.newaxis, :])
        # Snow is a fraction of the packed precipitation: of the unpacked one, it might exceed it by half a step.
        precipitation = pack(rain, from_zero=True)
        snow = np.clip((_ALL_RAIN - celsius) / np.float32(_ALL_RAIN - _ALL_SNOW), 0, 1)
        snow *= precipitation
        celsius += np.float32(KELVIN)
        fields = {
            "temperature_2m": pack(celsius),
            "zonal_wind_10m": pack(self._by_latitude["u"] @ by_longitude),
            "meridional_wind_10m": pack(self._by_latitude["v"] @ by_longitude),
            "total_cloud_cover": pack(cloud),
            "total_precipitation": precipitation,
            "snowfall": pack(snow, from_zero=True),
        }
        others = [variable for variable in variables if variable.column not in fields]
        if others:
            weather = Weather(
                celsius=fields["temperature_2m"] - np.float32(KELVIN),
                cloud=fields["total_cloud_cover"],
                zonal=fields["zonal_wind_10m"],
                meridional=fields["meridional_wind_10m"],
                rain=fields["total_precipitation"],
                sun=self._sun(hours),
                is_sea=invented_sea(self._latitude, self._longitude),
            )
            for variable in others:
                field = field_of(variable, weather)
                fields[variable.column] = field if np.isnan(field).any() else pack(field)
        return fields

    def _sun(self, hours: Int64) -> Float32:
        """Compute the sine of the sun's height, shape (t, y, x); 0 at night."""
        angle = _solar_angle(hours, self._longitude, peak=12.0)[:, np.newaxis, :]
        declination = np.radians(-23.44) * np.cos(2 * np.pi * (hours / 24 + 10) / 365.25)[:, np.newaxis, np.newaxis]
        height = np.sin(self._latitude) * np.sin(declination) + (
            np.cos(self._latitude) * np.cos(declination) * np.cos(angle)
        )
        above: Float32 = np.maximum(height, 0).astype(np.float32)
        return above

    def _by_longitude(self, hours: Int64) -> Float32:
        """Compute the factors of longitude and time, shape (t, terms, x), in the order of `_by_latitude`."""
        n_waves, n_longitudes = self._around.shape
        factors = np.empty((len(hours), 2 * n_waves + 5, n_longitudes), dtype=np.float32)
        moved = np.exp(1j * (self._phase - hours[:, np.newaxis] * self._frequency)).astype(np.complex64)
        waves = moved[:, :, np.newaxis] * self._around
        factors[:, :n_waves] = waves.real
        factors[:, n_waves : 2 * n_waves] = waves.imag
        season = -np.cos(2 * np.pi * (hours / 24 - 20) / 365.25)
        factors[:, -5] = 1
        factors[:, -4] = season[:, np.newaxis]
        factors[:, -3] = ((hours + HOURS_1940_TO_1970) * (WARMING_PER_YEAR / HOURS_PER_YEAR))[:, np.newaxis]
        factors[:, -2] = np.cos(_solar_angle(hours, self._longitude, peak=15.0))
        factors[:, -1] = np.cos(_solar_angle(hours, self._longitude, peak=17.0))
        return factors


def pack(values: Float32, *, from_zero: bool = False) -> Float32:
    """Round `values`, shape (t, y, x), in place to the precision of GRIB's simple packing in 16 bits.

    A field (one hour) becomes reference + n * 2**E: the reference is its minimum, n an integer from 0 to 65535,
    E the smallest integer with which its maximum can be reached. Small areas thus keep more digits.

    Args:
        values: the fields; overwritten.
        from_zero: take 0 as the reference, so that 0 stays exactly 0 and larger values stay larger.

    Returns:
        `values`.
    """
    highest = values.max(axis=(1, 2), keepdims=True)
    lowest = np.zeros_like(highest) if from_zero else values.min(axis=(1, 2), keepdims=True)
    mantissa, exponent = np.frexp((highest.astype(np.float64) - lowest) / LARGEST_PACKED)
    # frexp gives 0.5 <= mantissa < 1: only an exact power of two needs no rounding up.
    exponent = np.maximum(exponent - (mantissa == 0.5), _SMALLEST_EXPONENT)
    values -= lowest
    values *= np.ldexp(np.float32(1), -exponent)
    np.rint(values, out=values)
    values *= np.ldexp(np.float32(1), exponent)
    values += lowest
    return values


def _solar_angle(hours: Int64, longitude: Float64, *, peak: float) -> Float64:
    """Compute the hour angle in radians, shape (t, x), which is 0 where local solar time is `peak`."""
    hour_of_day = (hours % 24).astype(np.float64)[:, np.newaxis]
    return (hour_of_day - peak) * (2 * np.pi / 24) + longitude


def _bump(latitude: Float64, centre: float, width: float) -> Float64:
    """Compute a bell curve over latitude in each hemisphere; `centre` and `width` in degrees."""
    bell: Float64 = np.exp(-(((np.abs(latitude) - np.radians(centre)) / np.radians(width)) ** 2))
    return bell


def _climate(latitude: Float64, daily: Float32) -> dict[str, Float64]:
    """Compute the factors of latitude, shape (y, 5): of 1, season, trend, daily cycle of temperature and of showers.

    Season is 1 in late July and -1 in late January.
    """
    sine, cosine = np.sin(latitude), np.maximum(np.cos(latitude), 0)
    storms, rain_belt = _bump(latitude, 48, 14), np.exp(-((latitude / np.radians(10)) ** 2))
    none = np.zeros_like(latitude)
    return {
        "t": np.hstack(
            [
                -25 + 53 * cosine**1.2 - 14 * np.maximum(-sine, 0) ** 6,
                16 * sine,
                np.ones_like(latitude),
                daily,
                none,
            ]
        ),
        "u": np.hstack(
            [
                (8 * storms - 6 * _bump(latitude, 15, 11) - 2 * _bump(latitude, 72, 9)) * cosine,
                -3 * sine * storms,
                none,
                none,
                none,
            ]
        ),
        "v": np.hstack(
            [
                -3 * np.sin(2 * latitude) * np.exp(-((latitude / np.radians(25)) ** 2)),
                3 * rain_belt,
                none,
                none,
                none,
            ]
        ),
        "c": np.hstack(
            [
                0.45 + 0.30 * _bump(latitude, 60, 15) - 0.30 * _bump(latitude, 25, 9) + 0.25 * rain_belt,
                0.35 * rain_belt * latitude / np.radians(10),
                none,
                none,
                0.15 * np.exp(-((latitude / np.radians(35)) ** 2)) * cosine,
            ]
        ),
    }
