"""The look of each variable in pictures: title, unit, kind of colour scale, colours; numbers and units as text.

A few variables have a style of their own; for any other of the catalogue it follows from unit, step type and bounds.
The range of a scale is chosen in `draw/colour_scales`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from era5_pipeline.model.variables import Variable


# thermal: around freezing; symmetric: around zero; fraction: 0 to 1; amount: fixed steps of mm, white for dry;
# cyclic: the points of the compass; plain: the range of the values, from zero if they come close to it.
Scale = Literal["thermal", "symmetric", "fraction", "amount", "cyclic", "plain"]

NO_DATA = "#e4e4e4"
NO_DATA_ON_LAND = "#cbc9c4"
INK, FAINT = "#1a1a1a", "#707070"
# Keywords of texts in the PNG file of a preview map: its description in words, and the height of its title in pixels.
TEXT_OF_PREVIEW, TITLE_OF_PREVIEW = "Description", "Title height"


@dataclass(frozen=True)
class VariableStyle:
    """Title, unit, kind of colour scale, colours of the scale, and colour of lines."""

    title: str
    unit: str
    scale: Scale
    colours: str | tuple[str, ...]
    line: str


_CLOUDS = ("#3f6490", "#7391b1", "#adc2d4", "#e0e7ee", "#ffffff")
# North, east, south, west, and north again; coastlines are visible on all of them.
_COMPASS = ("#6f8fc9", "#86bf7f", "#f4cf63", "#d9728a", "#6f8fc9")
_RAIN = ("#d9f0c8", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#5e3c99", "#b02a8f")
_SNOW = ("#dfe5f2", "#b3cde3", "#8c96c6", "#8856a7", "#9e1f86", "#e7298a", "#f7a1c4")
_STYLES = {
    "temperature_2m": VariableStyle("2 m temperature", "°C", "thermal", "RdBu_r", "#b2182b"),
    "dewpoint_2m": VariableStyle("2 m dew point", "°C", "thermal", "RdBu_r", "#01665e"),
    "zonal_wind_10m": VariableStyle("10 m wind, eastward", "m s⁻¹", "symmetric", "PuOr_r", "#b35806"),
    "meridional_wind_10m": VariableStyle("10 m wind, northward", "m s⁻¹", "symmetric", "PuOr_r", "#542788"),
    "zonal_wind_100m": VariableStyle("100 m wind, eastward", "m s⁻¹", "symmetric", "PuOr_r", "#b35806"),
    "meridional_wind_100m": VariableStyle("100 m wind, northward", "m s⁻¹", "symmetric", "PuOr_r", "#542788"),
    "total_cloud_cover": VariableStyle("Total cloud cover", "fraction", "fraction", _CLOUDS, "#46698e"),
    "total_precipitation": VariableStyle("Precipitation", "mm", "amount", _RAIN, "#1d6fa5"),
    "snowfall": VariableStyle("Snowfall, water equivalent", "mm", "amount", _SNOW, "#6f4a9b"),
}

# By unit of the table: colours of a scale from zero or the lowest value, and of lines.
_PLAIN: dict[str, tuple[str, str]] = {
    "hPa": ("viridis", "#2f4b7c"),
    "m/s": ("YlGnBu", "#1b7f79"),
    "m": ("YlOrBr", "#8c510a"),
    "mm": ("PuBu", "#4a6fa5"),
    "J/m2": ("YlOrRd", "#c4600b"),
    "W/m2": ("YlOrRd", "#c4600b"),
    "J/kg": ("YlOrRd", "#a63603"),
    "kg/m2": ("GnBu", "#1d6fa5"),
    "kg/m2/s": ("YlGnBu", "#1d6fa5"),
    "kg/m3": ("PuBu", "#6f4a9b"),
    "m3/m3": ("YlGnBu", "#5a7d2a"),
    "m2/m2": ("YlGn", "#31803a"),
}
# The same for values of either sign.
_SYMMETRIC: dict[str, tuple[str, str]] = {
    "mm": ("BrBG", "#01665e"),
    "kg/m2/s": ("BrBG", "#01665e"),
    "J/m2": ("RdBu_r", "#a50f4e"),
    "W/m2": ("RdBu_r", "#a50f4e"),
}
# Differences of variables with one sign: water and plants from brown to green, energy from blue to red.
_DIFFERENCES = {
    **dict.fromkeys(("mm", "m", "m3/m3", "m2/m2", "kg/m2", "kg/m2/s"), "BrBG"),
    **dict.fromkeys(("J/m2", "W/m2", "J/kg", "K"), "RdBu_r"),
}
# Words for abbreviations in column names.
_WORDS = {"toa": "TOA", "dewpoint": "dew point", "zonal": "eastward", "meridional": "northward"}
_HEIGHT = re.compile(r"^(.*)_(\d+m)$")


def style_of(variable: Variable) -> VariableStyle:
    """The style of a variable, of the catalogue or any other with a unit, step type and bounds."""
    if variable.column in _STYLES:
        return _STYLES[variable.column]
    title, unit = title_of(variable.column), unit_text(variable.unit)
    match variable.unit:
        case "degrees":
            # The same colour at 0 and 360.
            return VariableStyle(title, unit, "cyclic", _COMPASS, "#5e4fa2")
        case "degC":
            return VariableStyle(title, unit, "thermal", "RdBu_r", "#b2182b")
        case "fraction":
            is_bright = "cloud" in variable.column or "ice" in variable.column or "albedo" in variable.column
            colours: str | tuple[str, ...] = _CLOUDS if is_bright else "YlGnBu"
            return VariableStyle(title, unit, "fraction", colours, "#46698e")
    if is_signed(variable):
        colours, line = _SYMMETRIC.get(variable.unit, ("PuOr_r", "#542788"))
        return VariableStyle(title, unit, "symmetric", colours, line)
    if variable.unit == "mm" and variable.step_type == "accum":
        is_snow = "snow" in variable.column
        return VariableStyle(title, unit, "amount", _SNOW if is_snow else _RAIN, "#6f4a9b" if is_snow else "#1d6fa5")
    colours, line = _PLAIN.get(variable.unit, ("viridis", "#2f4b7c"))
    return VariableStyle(title, unit, "plain", colours, line)


def difference_style(variable: Variable) -> VariableStyle:
    """The style of differences between values of a variable: colours around zero, brown to green for water."""
    style = style_of(variable)
    match style.scale:
        case "thermal" | "symmetric":
            colours = style.colours
        case "amount":
            colours = "BrBG"
        case _:
            colours = _DIFFERENCES.get(variable.unit, "PuOr_r")
    return replace(style, scale="symmetric", colours=colours)


def variable_title(variable: Variable) -> str:
    """The name of a variable in figures."""
    return style_of(variable).title


def is_signed(variable: Variable) -> bool:
    """Return True if values have either sign, like wind or flux; not if zero depends on the unit, as for degC."""
    least, most = sorted((-variable.minimum, variable.maximum))
    # For variables of one sign, the bounds allow a little of the other: files are packed.
    return variable.unit not in {"degC", "K"} and least > 0.1 * most


def title_of(column: str) -> str:
    """A column's name as a title: `wind_gust_10m` is "10 m wind gust"."""
    height = ""
    if match := _HEIGHT.match(column):
        column, height = match[1], f"{match[2][:-1]} m "
    text = f"{height}{' '.join(_WORDS.get(word, word) for word in column.split('_'))}"
    return text[:1].upper() + text[1:]


def unit_text(unit: str) -> str:
    """A unit of the table as text: `kg/m2/s` is kg m⁻² s⁻¹, `degC` is °C, and the unit 1 is empty."""
    if unit in {"degC", "1"}:
        return "°C" if unit == "degC" else ""
    above, *below = unit.split("/")
    raised = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    words = [re.sub(r"\d+$", lambda power: power[0].translate(raised), word) for word in above.split()]
    for word in below:
        match = re.fullmatch(r"(\D+)(\d*)", word)
        words.append(word if match is None else f"{match[1]}⁻{(match[2] or '1').translate(raised)}")
    return " ".join(words)


def axis_label(name: str, unit: str) -> str:
    """The label of an axis: what it shows, and the unit, if it has one: `Temperature (°C)`."""
    return f"{name} ({unit})" if unit else name


# From Okabe and Ito's palette, for variables that share axes.
LINES = ("#b2182b", "#0072B2", "#009E73", "#E69F00")

_OF_THE_HOUR = {
    "accum": " in the hour before",
    "avg": ", mean of the hour before",
    "max": ", highest of the hour before",
    "min": ", lowest of the hour before",
}


def unit_of_hour(variable: Variable, power: int = 0) -> str:
    """The unit with the time that an hourly value covers: "mm in the hour before"; `power` as in `with_power`."""
    text = with_power(style_of(variable).unit, power) + _OF_THE_HOUR.get(variable.step_type, "")
    return text.removeprefix(", ").strip()


def number_text(value: float, power: int = 0) -> str:
    """A number as a label, divided by a power of ten."""
    # Adding 0 turns -0 into 0.
    return f"{round(value / 10.0**power, 6) + 0.0:g}".replace("-", "\u2212")


def power_of(largest: float) -> int:
    """The power of ten, in steps of three, to divide numbers by so that their labels are short; mostly 0."""
    if not math.isfinite(largest) or largest == 0.0 or 0.02 <= abs(largest) < 20_000:
        return 0
    return 3 * math.floor(math.log10(abs(largest)) / 3)


def with_power(unit: str, power: int) -> str:
    """A unit for numbers divided by a power of ten: `10⁶ J m⁻²`."""
    raised = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised} {unit}".strip() if power else unit
