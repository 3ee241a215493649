"""Variables of an answer by name: today's names of Open-Meteo, its earlier ones, and why others are refused."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, TypeVar

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.serving.archive.variables.daily_variables import DAILY
from era5_pipeline.serving.archive.variables.hourly_variables import HOURLY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.serving.archive.variables.daily_variables import DailyVariable
    from era5_pipeline.serving.archive.variables.hourly_variables import HourlyVariable

_Kind = TypeVar("_Kind")

# How names were written before 2024; an answer repeats the name that was asked for.
_EARLIER = (
    ("relativehumidity", "relative_humidity"),
    ("dewpoint", "dew_point"),
    ("cloudcover", "cloud_cover"),
    ("windspeed", "wind_speed"),
    ("winddirection", "wind_direction"),
    ("windgusts", "wind_gusts"),
    ("weathercode", "weather_code"),
    ("vapor_pressure", "vapour_pressure"),
)
# Variables of Open-Meteo that are not made of columns of ERA5's single levels, and why.
_NOT_HERE = (
    (
        r"terrestrial_radiation.*|.*_normal_irradiance.*|sunshine_duration|global_tilted_irradiance.*|"
        r".*_radiation_instant",
        "is of sunlight at a moment or on another plane, of which ERA5 has the sums of hours on the horizontal one",
    ),
    (r"moon.*", "is of the moon, which is not computed here"),
    (r"(wind_|swell_)?wave_.*|.*_wave_.*", "is of ocean waves, which the table does not hold"),
    (r"soil_moisture_index_.*", "needs the type of soil, which the table does not hold"),
    (r".*_spread", "is of the ensemble, which the table does not hold"),
    (r"leaf_wetness_probability.*|showers.*|.*_probability.*", "is of a model of its own, and no variable of ERA5"),
    (r"temperature_.*hPa|.*_\d+hPa", "is at a pressure level; the table holds single levels"),
    (r".*_(80|120|180|200)m.*", "is at a height that ERA5's single levels lack: there are 2, 10 and 100 m"),
)
_SHOWN = 3


def find_hourly(name: str) -> HourlyVariable:
    """The hourly variable of this name.

    Raises:
        UsageError: if there is none; the message says why, or which are like it.
    """
    return _find(name, HOURLY, DAILY, "hourly")


def find_daily(name: str) -> DailyVariable:
    """The daily variable of this name.

    Raises:
        UsageError: if there is none; the message says why, or which are like it.
    """
    return _find(name, DAILY, HOURLY, "daily")


def name_of_today(name: str) -> str:
    """The name that Open-Meteo gives a variable today."""
    for earlier, later in _EARLIER:
        name = name.replace(earlier, later)
    return name


def _find(name: str, known: Mapping[str, _Kind], others: Mapping[str, object], kind: str) -> _Kind:
    today = name_of_today(name)
    if today in known:
        return known[today]
    raise UsageError(
        f"Cannot initialize {kind} variable from invalid String value {name}{_why(today)}",
        remedy=_remedy(today, known, others, kind),
    )


def _why(name: str) -> str:
    for pattern, why in _NOT_HERE:
        if re.fullmatch(pattern, name):
            return f": {name} {why}"
    return ""


def _remedy(name: str, known: Mapping[str, object], others: Mapping[str, object], kind: str) -> str:
    if name in others:
        return f"It is {'a daily' if kind == 'hourly' else 'an hourly'} variable: ask for it there."
    near = difflib.get_close_matches(name, known, n=_SHOWN, cutoff=0.7)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    if name in BY_COLUMN:
        made = [one for one, variable in known.items() if name in getattr(variable, "columns", ())]
        if made:
            return f"The column {name} answers {', '.join(made[:_SHOWN])}."
    return f"Leave it out; docs/http.md lists the {len(known)} {kind} variables."
