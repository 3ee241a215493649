"""The sun over a place: sunrise and sunset, whether it is up, and the sunlight above the atmosphere.

Its position follows the equations of NOAA's solar calculator, after Meeus, Astronomical Algorithms; sunlight above the
atmosphere over an hour is equation 28 of FAO Irrigation and Drainage Paper 56. Everything is computed as whole arrays
in float64: of the libraries, astral computes one moment after another, and pvlib brings far more than the sun.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Moments = npt.NDArray[np.int64]

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
# At sunrise and sunset the centre of the sun is this far from the zenith: its radius, and refraction.
_HORIZON = np.cos(np.radians(90.833))
_SECONDS_A_DEGREE = _DAY / 360
# 2000-01-01 12:00 UTC in seconds since 1970, the origin of the centuries in the equations.
_EPOCH, _CENTURY = 946_728_000, 36_525 * _DAY
_SOLAR_CONSTANT = 0.0820  # MJ/m2/min
_ROUNDS = 3


@dataclass(frozen=True)
class SunOfPlace:
    """The sun at a place over some days: `midnight` begins the first, `first_hour` is the first of `24 * days` hours.

    Both are seconds since 1970 in UTC; they differ if the zone's offset has a fraction of an hour.
    """

    latitude: float
    longitude: float
    midnight: int
    first_hour: int
    days: int

    def sunrise(self) -> Moments:
        """Sunrise on each day (n,), in seconds since 1970; 00:00 if the sun stays up, or down."""
        return self._rise_and_set[0]

    def sunset(self) -> Moments:
        """Sunset on each day (n,); 24:00 if the sun stays up, 00:00 if it stays down."""
        return self._rise_and_set[1]

    def daylight(self) -> npt.NDArray[np.float32]:
        """The time from sunrise to sunset in seconds: 0 to 86,400."""
        rises, sets = self._rise_and_set
        return (sets - rises).astype(np.float32)

    def is_day(self) -> npt.NDArray[np.float32]:
        """Return True if the sun is up at each hour (24 n,): 1 or 0."""
        declination, equation, _ = _position(self._hours)
        angle = self._hour_angle(self._hours, equation)
        height = self._sine * np.sin(declination) + self._cosine * np.cos(declination) * np.cos(angle)
        found: npt.NDArray[np.float32] = (height > _HORIZON).astype(np.float32)
        return found

    def above_the_atmosphere(self) -> tuple[Floats, Floats]:
        """Sunlight on a horizontal plane over each hour that ends at a time (24 n,), in MJ/m2, and its mean sine."""
        middles = self._hours - _HOUR / 2
        declination, equation, distance = _position(middles)
        angle, half = self._hour_angle(middles, equation), np.pi / 24
        flat, steep = self._sine * np.sin(declination), self._cosine * np.cos(declination)
        with np.errstate(divide="ignore"):
            at_horizon = -flat / steep
        sunset = np.arccos(np.clip(at_horizon, -1, 1))
        # If the sun stays up, no sunset limits the day.
        latest = np.where(at_horizon <= -1, np.inf, sunset)
        first, last = (np.clip(angle + change, -latest, latest) for change in (-half, half))
        sine = ((last - first) * flat + steep * (np.sin(last) - np.sin(first))) / (2 * half)
        sine = np.maximum(sine, 0)
        return 60 * _SOLAR_CONSTANT / distance**2 * sine, sine

    @property
    def _sine(self) -> float:
        return float(np.sin(np.radians(self.latitude)))

    @property
    def _cosine(self) -> float:
        return float(np.cos(np.radians(self.latitude)))

    @property
    def _hours(self) -> Floats:
        return self.first_hour + np.arange(24 * self.days, dtype=np.float64) * _HOUR

    def _hour_angle(self, seconds: Floats, equation: Floats) -> Floats:
        """The angle since solar noon in radians, -pi to pi."""
        degrees = (seconds + equation) / _SECONDS_A_DEGREE + self.longitude
        return np.radians(degrees % 360 - 180)

    @cached_property
    def _rise_and_set(self) -> tuple[Moments, Moments]:
        midnights = self.midnight + np.arange(self.days, dtype=np.float64) * _DAY
        # Noon by the mean sun on the local day; successive ones are whole days apart.
        mean_noon = midnights + (_DAY / 2 - self.longitude * _SECONDS_A_DEGREE - self.midnight) % _DAY
        declination, equation, _ = _position(mean_noon)
        at_noon = self._cosine_at_horizon(declination)
        found = []
        for sign in (-1, 1):
            moment = mean_noon
            for _ in range(_ROUNDS):
                declination, equation, _ = _position(moment)
                angle = np.degrees(np.arccos(np.clip(self._cosine_at_horizon(declination), -1, 1)))
                moment = mean_noon - equation + sign * angle * _SECONDS_A_DEGREE
            moment = np.where(at_noon >= 1, midnights, moment)
            moment = np.where(at_noon <= -1, midnights + (_DAY if sign > 0 else 0), moment)
            found.append(np.rint(moment).astype(np.int64))
        return found[0], found[1]

    def _cosine_at_horizon(self, declination: Floats) -> Floats:
        """The cosine of the hour angle of sunrise and sunset: above 1 the sun stays down, below -1 it stays up."""
        with np.errstate(divide="ignore"):
            found: Floats = (_HORIZON - self._sine * np.sin(declination)) / (self._cosine * np.cos(declination))
        return found


def _position(seconds: Floats) -> tuple[Floats, Floats, Floats]:
    """The sun's declination in radians, the equation of time in seconds, and its distance in astronomical units."""
    t = (seconds - _EPOCH) / _CENTURY
    longitude = np.radians((280.46646 + t * (36_000.76983 + 0.0003032 * t)) % 360)
    anomaly = np.radians((357.52911 + t * (35_999.05029 - 0.0001537 * t)) % 360)
    eccentricity = 0.016708634 - t * (0.000042037 + 0.0000001267 * t)
    centre = np.radians(
        np.sin(anomaly) * (1.914602 - t * (0.004817 + 0.000014 * t))
        + np.sin(2 * anomaly) * (0.019993 - 0.000101 * t)
        + np.sin(3 * anomaly) * 0.000289
    )
    node = np.radians(125.04 - 1934.136 * t)
    apparent = longitude + centre - np.radians(0.00569 + 0.00478 * np.sin(node))
    obliquity = np.radians(
        23 + (26 + (21.448 - t * (46.815 + t * (0.00059 - 0.001813 * t))) / 60) / 60 + 0.00256 * np.cos(node)
    )
    declination = np.arcsin(np.sin(obliquity) * np.sin(apparent))
    y = np.tan(obliquity / 2) ** 2
    equation = (
        y * np.sin(2 * longitude)
        - 2 * eccentricity * np.sin(anomaly)
        + 4 * eccentricity * y * np.sin(anomaly) * np.cos(2 * longitude)
        - 0.5 * y**2 * np.sin(4 * longitude)
        - 1.25 * eccentricity**2 * np.sin(2 * anomaly)
    )
    distance = 1.000001018 * (1 - eccentricity**2) / (1 + eccentricity * np.cos(anomaly + centre))
    return declination, np.degrees(equation) * 4 * _MINUTE, distance
