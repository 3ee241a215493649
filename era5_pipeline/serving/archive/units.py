"""Units of an answer: their names, decimals, conversion to the requested ones, and rounding.

Names, decimals and factors are Open-Meteo's. Values are float32, as there, and rounded once, when written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    AnyValues = npt.NDArray[Any]

TemperatureUnit = Literal["celsius", "fahrenheit"]
WindSpeedUnit = Literal["kmh", "ms", "mph", "kn"]
PrecipitationUnit = Literal["mm", "inch"]


@dataclass(frozen=True)
class Unit:
    """A unit as named in an answer, the decimals of its values, and its number in FlatBuffers (see `names`)."""

    name: str
    decimals: int
    number: int


CELSIUS = Unit("°C", 1, 1)
FAHRENHEIT = Unit("°F", 1, 9)
METRES_PER_SECOND = Unit("m/s", 2, 28)
KILOMETRES_PER_HOUR = Unit("km/h", 1, 24)
MILES_PER_HOUR = Unit("mp/h", 1, 31)
KNOTS = Unit("kn", 1, 25)
MILLIMETRES = Unit("mm", 2, 32)
CENTIMETRES = Unit("cm", 2, 2)
METRES = Unit("m", 2, 29)
INCHES = Unit("inch", 3, 18)
FEET = Unit("ft", 3, 10)
PERCENT = Unit("%", 0, 35)
DEGREES = Unit("°", 0, 5)
HECTOPASCALS = Unit("hPa", 1, 16)
KILOPASCALS = Unit("kPa", 2, 22)
WATTS_PER_SQUARE_METRE = Unit("W/m²", 1, 39)
MEGAJOULES_PER_SQUARE_METRE = Unit("MJ/m²", 2, 26)
CUBIC_METRES_PER_CUBIC_METRE = Unit("m³/m³", 3, 3)
KILOGRAMS_PER_SQUARE_METRE = Unit("kg/m²", 2, 23)
HOURS = Unit("h", 1, 17)
SECONDS = Unit("s", 2, 36)
NUMBER = Unit("", 0, 6)
# Of moments, by the format of times.
MOMENT, UNIX_MOMENT = Unit("iso8601", 0, 19), Unit("unixtime", 0, 37)
WEATHER_CODE = Unit("wmo code", 0, 40)
GROWING_DEGREE_DAYS = Unit("GGDc", 2, 12)

_WIND = {
    "kmh": (KILOMETRES_PER_HOUR, np.float32(3.6)),
    "ms": (METRES_PER_SECOND, np.float32(1)),
    "mph": (MILES_PER_HOUR, np.float32(2.237)),
    "kn": (KNOTS, np.float32(1.94384)),
}
# Where inches are requested, the unit that replaces a unit of length, with a divisor or a factor.
_TO_INCHES = {
    MILLIMETRES: (INCHES, np.float32(25.4)),
    CENTIMETRES: (INCHES, np.float32(2.54)),
}
_FEET_IN_A_METRE = np.float32(3.280839895)


@dataclass(frozen=True)
class UnitChoice:
    """The requested units; the defaults are Open-Meteo's."""

    temperature: TemperatureUnit = "celsius"
    wind_speed: WindSpeedUnit = "kmh"
    precipitation: PrecipitationUnit = "mm"

    def convert(self, values: AnyValues, unit: Unit) -> tuple[AnyValues, Unit]:
        """The values (n,) converted from `unit` to the requested unit, and that unit; moments stay as they are."""
        if unit == CELSIUS and self.temperature == "fahrenheit":
            return values * np.float32(9) / np.float32(5) + np.float32(32), FAHRENHEIT
        if unit == METRES_PER_SECOND:
            wanted, factor = _WIND[self.wind_speed]
            return values * factor, wanted
        if self.precipitation == "inch":
            if unit in _TO_INCHES:
                wanted, divisor = _TO_INCHES[unit]
                return values / divisor, wanted
            if unit == METRES:
                return values * _FEET_IN_A_METRE, FEET
        return values, unit


def rounded(values: Floats, decimals: int) -> npt.NDArray[np.float64]:
    """The values (n,) with this many decimals, rounded half away from zero in float32; NaN stays, -0 becomes 0.

    Each is the float64 nearest to the decimal number, so its shortest form has these decimals.
    """
    factor = np.float32(10**decimals)
    scaled = np.abs(values) * factor
    whole = np.trunc(scaled)
    # Adding 0.5 first would round up values just below a half.
    whole += scaled - whole >= np.float32(0.5)
    return np.copysign(whole, values).astype(np.float64) / float(factor) + 0.0
