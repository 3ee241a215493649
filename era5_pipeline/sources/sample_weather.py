"""Generated weather: fields on ERA5's grid that look like weather, computed by formulae in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import STEP_DEGREES
from era5_pipeline.model.variables import DEFAULT_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable

    Float64 = npt.NDArray[np.float64]
    Int64 = npt.NDArray[np.int64]
    Float32 = npt.NDArray[np.float32]

# --- Travelling waves of generated weather: lows, highs and clusters of thunderstorms, and their latitude factors ---


@dataclass(frozen=True)
class Waves:
    """Travelling waves, arrays of shape (n,): radians, and radians per hour."""

    zonal: Int64
    meridional: Float64
    centre: Float64
    width: Float64
    frequency: Float64
    phase: Float64
    speed: Float64
    cloud: Float64
    cloud_lead: Float64

    @classmethod
    def draw(cls) -> Waves:
        """Draw forty waves at the scale of lows and highs, and eighty down to that of thunderstorm clusters."""
        # RandomState: numpy guarantees that its numbers never change; those of Generator may.
        random = np.random.RandomState(1940)
        lows, clusters = 40, 80
        zonal = np.concatenate(
            [random.randint(2, 13, lows), np.exp(random.uniform(np.log(3), np.log(100), clusters))]
        ).astype(np.int64)
        sign = random.choice([-1.0, 1.0], (2, lows + clusters))
        meridional = sign[0] * np.concatenate([random.uniform(3, 10, lows), random.uniform(5, 60, clusters)])
        centre = np.concatenate([random.uniform(20, 70, lows), random.uniform(0, 65, clusters)])
        width = np.radians(np.concatenate([random.uniform(12, 22, lows), random.uniform(15, 30, clusters)]))
        # Westerlies carry weather eastward, trade winds westward; each wave adds its own speed.
        eastward = centre > 28
        own = 2 * np.pi / (24 * random.uniform(3, 9, lows + clusters))
        return cls(
            zonal=zonal,
            meridional=meridional,
            centre=np.radians(sign[1] * centre),
            width=width,
            frequency=np.where(eastward, 0.008 * zonal + own, -0.004 * zonal - own),
            phase=random.uniform(0, 2 * np.pi, lows + clusters),
            speed=np.repeat([4.0, 1.0], [lows, clusters]),
            cloud=np.repeat([0.22, 0.16], [lows, clusters]),
            cloud_lead=random.uniform(-0.6, 0.6, lows + clusters) - 0.9,
        )


def wave_terms(latitude: Float64, waves: Waves) -> dict[str, Float64]:
    """Compute the latitude factors of the waves' cosines and sines, shape (y, 2 n) each.

    The wind comes from a stream function, so that it circles highs and lows; air from the equator is warm. All factors
    vanish at the poles, where a field has a single value.
    """
    from_centre = (latitude - waves.centre) / waves.width
    bell = np.exp(-(from_centre**2))
    sine, cosine = np.sin(latitude), np.maximum(np.cos(latitude), 0)
    # The taper, 1 - sine**10, is near 1 up to 60 degrees and 0 at the poles, where this form has no 0 / 0.
    taper_by_cosine = cosine * sum(sine ** (2 * n) for n in range(5))
    taper = taper_by_cosine * cosine
    height = waves.speed / np.hypot(waves.zonal, waves.meridional)
    slope = bell * (-2 * from_centre / waves.width * taper - 10 * sine**9 * cosine)
    northward = height * waves.zonal * bell * taper_by_cosine
    phase = waves.meridional * latitude
    quarter = np.pi / 2
    return {
        "t": _shifted(0.9 * sine * northward, phase + quarter + 0.9),
        "u": _shifted(-height * slope, phase) + _shifted(height * waves.meridional * bell * taper, phase - quarter),
        "v": _shifted(northward, phase + quarter),
        "c": _shifted(waves.cloud * bell * taper, phase + waves.cloud_lead),
    }


def _shifted(amplitude: Float64, phase: Float64) -> Float64:
    """Compute the factors of cos(a) and sin(a) in amplitude * cos(a + phase): shape (y, n) becomes (y, 2 n)."""
    return np.hstack([amplitude * np.cos(phase), -amplitude * np.sin(phase)])


# --- Generated fields of non-default variables, from temperature, cloud and wind of the same hour ---
#
# They have the right sign, size and unit, and follow the weather (warm days have warm soil, clouds dim the sun); no
# more than that. Those without their own formula are scaled from cloud cover, within the typical range of their unit.


_SECONDS = 3600.0
_SUN = 1361.0  # W/m2 at the top of the atmosphere
_STEFAN_BOLTZMANN = 5.67e-8
_KELVIN = 273.15


@dataclass(frozen=True, eq=False)
class Weather:
    """Fields, (hour, latitude, longitude): degC, fractions, m/s, m of rain; the sine of the sun's height.

    `is_sea` (latitude, longitude) marks the sea around invented continents.
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
        """Wind speed, m/s."""
        return np.hypot(self.zonal, self.meridional)

    @property
    def solar(self) -> Float32:
        """Downward solar radiation at the surface, W/m2."""
        return _float32(0.75 * _SUN * self.sun * (1 - 0.7 * self.cloud))

    @property
    def thermal(self) -> Float32:
        """Thermal radiation of a black surface at this temperature, W/m2."""
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
# Range of a field without a formula, from clear to overcast sky, by the table's unit.
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
    """The variable in its file unit, (hour, latitude, longitude); NaN where ERA5 has no value."""
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
    """The mask of the sea, (latitude, longitude), from angles in radians of shapes (y, 1) and (x,)."""
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


# --- Generated weather: the default fields on ERA5's grid, computed by formulae in numpy ---
#
# Every field is a function of place and time only, so that neighbouring areas and months fit together. Its linear part
# (climate by latitude, season, trend, daily cycle, travelling waves) is a sum of products of a latitude factor and a
# factor of longitude and time: one matrix product per field and hour. The rest follows from those sums: cloud is
# clipped to 0 and 1, rain falls where the sum exceeds overcast, as snow where it is cold.


# Part of the names of generated files: increase it with every change of the formulae.
FORMULAE_VERSION = 1

KELVIN = 273.15
WARMING_PER_YEAR = 1.1 / 85.0
HOURS_PER_YEAR = 365.25 * 24.0
HOURS_1940_TO_1970 = 10_958 * 24
LARGEST_PACKED = 65_535
# The inverse of the step must fit in a float32; no weather needs smaller steps.
_SMALLEST_EXPONENT = -120

# In the sum for cloud, below 0 is clear and above 1 overcast; rain begins above this.
_RAIN_BEGINS = 1.05
_SHADE = 0.6  # fraction by which an overcast sky reduces the daily cycle of temperature
# Temperatures in degrees Celsius between which snow turns to rain.
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
        """Hours per call of `at` for which its arrays fit in the processor's cache."""
        rows: int = max(self._daily.size, self._frequency.size * 2)
        return max(1, _VALUES_PER_BLOCK // (rows * len(self._longitude)))

    def at(self, hours: Int64, variables: Sequence[Variable] = DEFAULT_VARIABLES) -> dict[str, Float32]:
        """Compute the fields of the default variables and of `variables` at `hours` (t,), since 1970-01-01T00:00 UTC.

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
        # Snow is a fraction of the packed precipitation; from the unpacked one, it might exceed it by half a step.
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
        """Compute the longitude and time factors, shape (t, terms, x), in the order of `_by_latitude`."""
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
    # frexp gives 0.5 <= mantissa < 1: only exact powers of two need no rounding up.
    exponent = np.maximum(exponent - (mantissa == 0.5), _SMALLEST_EXPONENT)
    values -= lowest
    values *= np.ldexp(np.float32(1), -exponent)
    np.rint(values, out=values)
    values *= np.ldexp(np.float32(1), exponent)
    values += lowest
    return values


def _solar_angle(hours: Int64, longitude: Float64, *, peak: float) -> Float64:
    """Compute the hour angle in radians, shape (t, x), 0 where local solar time is `peak`."""
    hour_of_day = (hours % 24).astype(np.float64)[:, np.newaxis]
    return (hour_of_day - peak) * (2 * np.pi / 24) + longitude


def _bump(latitude: Float64, centre: float, width: float) -> Float64:
    """Compute a bell curve over latitude in each hemisphere; `centre` and `width` in degrees."""
    bell: Float64 = np.exp(-(((np.abs(latitude) - np.radians(centre)) / np.radians(width)) ** 2))
    return bell


def _climate(latitude: Float64, daily: Float32) -> dict[str, Float64]:
    """Compute the latitude factors, shape (y, 5): of 1, season, trend, daily cycle of temperature and of showers.

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
