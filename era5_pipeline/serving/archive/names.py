"""Variables of an answer by name: Open-Meteo's current and earlier names, and their numbers in FlatBuffers."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive.daily import DAILY
from era5_pipeline.serving.archive.hourly import HOURLY

if TYPE_CHECKING:
    from era5_pipeline.serving.archive.hourly import ArchiveVariable
    from era5_pipeline.serving.archive.times import Kind


# Spellings before 2024; an answer repeats the requested name.
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
# Variables of Open-Meteo that cannot be derived from ERA5's single levels, and why.
_NOT_HERE = (
    (
        r"terrestrial_radiation.*|.*_normal_irradiance.*|sunshine_duration|global_tilted_irradiance.*|"
        r".*_radiation_instant",
        "is sunlight at a moment or on a tilted plane; ERA5 has sums over hours on the horizontal plane",
    ),
    (r"moon.*", "describes the moon, which is not computed here"),
    (r"(wind_|swell_)?wave_.*|.*_wave_.*", "describes ocean waves, which the table does not hold"),
    (r"soil_moisture_index_.*", "needs the type of soil, which the table does not hold"),
    (r".*_spread", "belongs to the ensemble, which the table does not hold"),
    (
        r"leaf_wetness_probability.*|showers.*|.*_probability.*",
        "comes from a model of its own, and is not a variable of ERA5",
    ),
    (r"temperature_.*hPa|.*_\d+hPa", "is at a pressure level; the table holds single levels"),
    (r".*_(80|120|180|200)m.*", "is at a height that ERA5's single levels lack: there are 2, 10 and 100 m"),
)
_SHOWN = 3
_OFFERED: dict[Kind, dict[str, ArchiveVariable]] = {"hourly": HOURLY, "daily": DAILY}


def current_name(name: str) -> str:
    """Open-Meteo's current name of a variable."""
    for earlier, later in _EARLIER:
        name = name.replace(earlier, later)
    return name


def find_variable(name: str, kind: Kind) -> ArchiveVariable:
    """The variable of hours or of days of this name."""
    today = current_name(name)
    if today in _OFFERED[kind]:
        return _OFFERED[kind][today]
    why = next((f": {today} {why}" for pattern, why in _NOT_HERE if re.fullmatch(pattern, today)), "")
    raise UsageError(
        f"Cannot initialize {kind} variable from invalid String value {name}{why}", remedy=_remedy(today, kind)
    )


def _remedy(name: str, kind: Kind) -> str:
    known = _OFFERED[kind]
    if any(name in others for others in _OFFERED.values()):
        return f"It is {'a daily' if kind == 'hourly' else 'an hourly'} variable: ask for it there."
    if near := difflib.get_close_matches(name, known, n=_SHOWN, cutoff=0.7):
        return f"Did you mean {' or '.join(near)}?"
    if made := [one for one, variable in known.items() if name in variable.columns]:
        return f"The column {name} answers {', '.join(made[:_SHOWN])}."
    return f"Leave it out; docs/http.md lists the {len(known)} {kind} variables."


# --- The numbers of our variables in Open-Meteo's FlatBuffers ---
#
# They, and those of units and models, are those of the published schema: `flatbuffers/weather_api.fbs` of
# github.com/open-meteo/sdk at f6513f45.


_VARIABLES = {
    "apparent_temperature": 1,
    "cloud_cover": 3,
    "cloud_cover_high": 4,
    "cloud_cover_low": 5,
    "cloud_cover_mid": 6,
    "daylight_duration": 7,
    "dew_point": 8,
    "diffuse_radiation": 9,
    "direct_radiation": 13,
    "et0_fao_evapotranspiration": 15,
    "growing_degree_days_base_0_limit_50": 18,
    "is_day": 19,
    "precipitation": 24,
    "precipitation_hours": 25,
    "pressure_msl": 27,
    "rain": 28,
    "relative_humidity": 29,
    "shortwave_radiation": 32,
    "snow_depth": 35,
    "snowfall": 37,
    "snowfall_water_equivalent": 39,
    "sunrise": 40,
    "sunset": 41,
    "soil_moisture": 42,
    "soil_temperature": 44,
    "surface_pressure": 45,
    "temperature": 47,
    "total_column_integrated_water_vapour": 50,
    "vapour_pressure_deficit": 54,
    "weather_code": 56,
    "wind_direction": 57,
    "wind_gusts": 58,
    "wind_speed": 59,
    "wet_bulb_temperature": 62,
    "boundary_layer_height": 113,
    "sea_surface_temperature": 133,
    "wind_u_component": 149,
    "wind_v_component": 150,
}
_AGGREGATIONS = {"min": 1, "max": 2, "mean": 3, "dominant": 9, "sum": 10}
# Sums of hours whose names do not say so.
_SUMS = {"et0_fao_evapotranspiration"}
_NAME = re.compile(
    r"(?P<variable>.+?)(_(?P<altitude>\d+)m|_(?P<depth>\d+)_to_(?P<depth_to>\d+)cm)?"
    rf"(_(?P<aggregation>{'|'.join(_AGGREGATIONS)}))?"
)


@dataclass(frozen=True)
class VariableFields:
    """A variable in the schema: its number, height in m, depths in cm, and the aggregation of hours to a day."""

    variable: int
    altitude: int = 0
    depth: int = 0
    depth_to: int = 0
    aggregation: int = 0


@lru_cache(maxsize=512)
def variable_fields(name: str, kind: Kind) -> VariableFields:
    """The fields of a variable of hours or days, by its requested name."""
    today = current_name(name)
    found = _NAME.fullmatch(today)
    parts = found.groupdict() if found and today not in _VARIABLES else {"variable": today}
    aggregation = _AGGREGATIONS.get(parts.get("aggregation") or "", 0)
    if kind == "daily" and today in _SUMS:
        aggregation = _AGGREGATIONS["sum"]
    altitude, depth, depth_to = (int(parts.get(part) or 0) for part in ("altitude", "depth", "depth_to"))
    return VariableFields(_VARIABLES[str(parts["variable"])], altitude, depth, depth_to, aggregation)
