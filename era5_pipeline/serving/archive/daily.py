"""The daily variables of an answer: each aggregates an hourly one over the 24 hours 00 to 23 of a local day.

A day with a missing hour is NaN. Hours are not shifted: the precipitation at 00:00, of the hour before, counts for the
day that then begins, as with Open-Meteo (and unlike `era5 climate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.serving.archive import formulas, units
from era5_pipeline.serving.archive.hourly import HOURLY
from era5_pipeline.serving.archive.sun import SunOfPlace

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.serving.archive.units import Unit

    Floats = npt.NDArray[np.float32]

_HOURS = 24
# An hour with more precipitation than this, in mm, counts as wet.
_WET = np.float32(0.001)


@dataclass(frozen=True)
class DailyVariable:
    """One variable: its unit before conversion, its columns, and its formula.

    `formula` takes the values (24 n,) of the columns, in the table's units, preceded by a `SunOfPlace` if `by_sun`, and
    returns those of n days. int64 values are moments. `rule` describes it in docs/http.md.
    """

    name: str
    unit: Unit
    columns: tuple[str, ...]
    formula: Callable[..., Floats | npt.NDArray[np.int64]]
    rule: str
    by_sun: bool = False


def _days(hours: Floats) -> npt.NDArray[np.float64]:
    """The hours (24 n,) as days (n, 24), in float64, so that sums do not depend on the order."""
    return hours.astype(np.float64).reshape(-1, _HOURS)


def _mean(hours: Floats) -> Floats:
    return _single(_days(hours).mean(axis=1))


def _highest(hours: Floats) -> Floats:
    return _single(_days(hours).max(axis=1))


def _lowest(hours: Floats) -> Floats:
    return _single(_days(hours).min(axis=1))


def _sum(hours: Floats) -> Floats:
    return _single(_days(hours).sum(axis=1))


def _single(of_days: npt.NDArray[np.float64]) -> Floats:
    return of_days.astype(np.float32)


_AGGREGATES: dict[str, Callable[[Floats], Floats]] = {"mean": _mean, "max": _highest, "min": _lowest, "sum": _sum}
_IN_WORDS = {"mean": "mean", "max": "highest", "min": "lowest", "sum": "sum"}


def _of(hourly_name: str, kind: str, name: str | None = None) -> DailyVariable:
    """An aggregate of an hourly variable; named after both if no name is given."""
    hourly, aggregate = HOURLY[hourly_name], _AGGREGATES[kind]

    def formula(*arguments: object) -> Floats:
        return aggregate(hourly.formula(*arguments))

    rule = f"{_IN_WORDS[kind]} of {hourly_name}"
    return DailyVariable(name or f"{hourly_name}_{kind}", hourly.unit, hourly.columns, formula, rule, hourly.by_sun)


def _dominant(eastward: Floats, northward: Floats) -> Floats:
    return formulas.wind_direction(_sum(eastward), _sum(northward))


def _megajoules(joules: Floats) -> Floats:
    return _single(_days(joules).sum(axis=1) / 1e6)


def _wet_hours(precipitation_mm: Floats) -> Floats:
    wet = np.where(np.isnan(precipitation_mm), np.float32(np.nan), precipitation_mm > _WET)
    return _sum(wet.astype(np.float32))


_ALL_THREE = ("mean", "max", "min")
_ALL = (
    *(_of("temperature_2m", kind) for kind in _ALL_THREE),
    *(_of("apparent_temperature", kind) for kind in _ALL_THREE),
    *(_of("dew_point_2m", kind) for kind in _ALL_THREE),
    *(_of("relative_humidity_2m", kind) for kind in _ALL_THREE),
    *(_of("wet_bulb_temperature_2m", kind) for kind in _ALL_THREE),
    _of("vapour_pressure_deficit", "max"),
    *(_of(name, "sum") for name in ("precipitation", "rain", "snowfall", "snowfall_water_equivalent")),
    DailyVariable(
        "precipitation_hours",
        units.HOURS,
        HOURLY["precipitation"].columns,
        _wet_hours,
        "hours with more than 0.001 mm of precipitation",
    ),
    *(_of("snow_depth", kind) for kind in _ALL_THREE),
    _of("weather_code", "max", "weather_code"),
    *(_of("cloud_cover", kind) for kind in _ALL_THREE),
    *(_of("pressure_msl", kind) for kind in _ALL_THREE),
    *(_of("surface_pressure", kind) for kind in _ALL_THREE),
    *(_of(f"wind_speed_{height}", kind) for height in ("10m", "100m") for kind in _ALL_THREE),
    *(
        DailyVariable(
            f"wind_direction_{height}_dominant",
            units.DEGREES,
            HOURLY[f"wind_direction_{height}"].columns,
            _dominant,
            "direction of the sum of u and v",
        )
        for height in ("10m", "100m")
    ),
    *(_of("wind_gusts_10m", kind) for kind in _ALL_THREE),
    DailyVariable(
        "shortwave_radiation_sum",
        units.MEGAJOULES_PER_SQUARE_METRE,
        HOURLY["shortwave_radiation"].columns,
        _megajoules,
        "sum of shortwave_radiation",
    ),
    *(
        _of(f"soil_{what}_{depth}", "mean")
        for what in ("temperature", "moisture")
        for depth in ("0_to_7cm", "7_to_28cm", "28_to_100cm", "100_to_255cm", "0_to_100cm")
    ),
    *(_of("sea_surface_temperature", kind) for kind in _ALL_THREE),
    _of("et0_fao_evapotranspiration", "sum", "et0_fao_evapotranspiration"),
    _of("et0_fao_evapotranspiration", "sum"),
    DailyVariable(
        "sunrise",
        units.MOMENT,
        (),
        SunOfPlace.sunrise,
        "when the sun's upper edge rises; 00:00 if it stays up, or down",
        by_sun=True,
    ),
    DailyVariable(
        "sunset",
        units.MOMENT,
        (),
        SunOfPlace.sunset,
        "when it sets; 00:00 of the next day if it stays up, of this day if it stays down",
        by_sun=True,
    ),
    DailyVariable(
        "daylight_duration", units.SECONDS, (), SunOfPlace.daylight, "time from sunrise to sunset", by_sun=True
    ),
    _of("growing_degree_days_base_0_limit_50", "sum", "growing_degree_days_base_0_limit_50"),
)

DAILY = {variable.name: variable for variable in _ALL}
