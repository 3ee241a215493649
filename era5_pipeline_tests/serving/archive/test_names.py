"""Tests of `serving/archive/names`."""

from __future__ import annotations

from typing import Any

import pytest
from openmeteo_sdk.Aggregation import Aggregation
from openmeteo_sdk.Unit import Unit as SdkUnit
from openmeteo_sdk.Variable import Variable

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive import units
from era5_pipeline.serving.archive.daily import DAILY
from era5_pipeline.serving.archive.hourly import HOURLY
from era5_pipeline.serving.archive.names import find_variable, variable_fields
from era5_pipeline.serving.archive.units import Unit


@pytest.mark.parametrize(
    ("earlier", "name"),
    [
        ("windspeed_10m", "wind_speed_10m"),
        ("winddirection_100m", "wind_direction_100m"),
        ("windgusts_10m", "wind_gusts_10m"),
        ("relativehumidity_2m", "relative_humidity_2m"),
        ("dewpoint_2m", "dew_point_2m"),
        ("cloudcover_low", "cloud_cover_low"),
        ("weathercode", "weather_code"),
        ("vapor_pressure_deficit", "vapour_pressure_deficit"),
        ("temperature_2m", "temperature_2m"),
    ],
)
def test_an_earlier_name_finds_the_variable(earlier: str, name: str) -> None:
    assert find_variable(earlier, "hourly").name == name
    assert find_variable("windspeed_10m_max", "daily").name == "wind_speed_10m_max"


@pytest.mark.parametrize(
    ("name", "reason", "remedy"),
    [
        ("temperatur_2m", "from invalid String value temperatur_2m", "Did you mean temperature_2m"),
        ("sunshine_duration", "is sunlight at a moment or on a tilted plane", "Leave it out"),
        ("moon_phase", "describes the moon", "Leave it out"),
        ("wave_height", "describes ocean waves", "Leave it out"),
        ("soil_moisture_index_0_to_7cm", "needs the type of soil", ""),
        ("temperature_850hPa", "is at a pressure level", ""),
        ("wind_speed_80m", "is at a height that ERA5's single levels lack", ""),
        ("temperature_2m_max", "from invalid String value", "It is a daily variable"),
        ("total_precipitation", "from invalid String value total_precipitation", "precipitation"),
        ("mean_sea_level_pressure", "from invalid String value", "pressure_msl"),
        ("'; DROP TABLE weather; --", "from invalid String value '; DROP", "docs/http.md"),
    ],
)
def test_what_is_not_here_is_refused_by_name_with_the_reason(name: str, reason: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_variable(name, "hourly")
    assert refused.value.message.startswith(f"Cannot initialize hourly variable from invalid String value {name}")
    assert reason in refused.value.message
    assert remedy in refused.value.remedy


@pytest.mark.parametrize(
    ("name", "said"), [("sunshine_duration", "on a tilted plane"), ("temperature_2m", "an hourly variable")]
)
def test_a_daily_variable_that_is_not_here_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_variable(name, "daily")
    assert said in str(refused.value)


# The unit that the schema names for one of ours.
SDK_UNITS = {
    "°C": "celsius",
    "°F": "fahrenheit",
    "m/s": "metre_per_second",
    "km/h": "kilometres_per_hour",
    "mp/h": "miles_per_hour",
    "kn": "knots",
    "mm": "millimetre",
    "cm": "centimetre",
    "m": "metre",
    "inch": "inch",
    "ft": "feet",
    "%": "percentage",
    "°": "degree_direction",
    "hPa": "hectopascal",
    "kPa": "kilopascal",
    "W/m²": "watt_per_square_metre",
    "MJ/m²": "megajoule_per_square_metre",
    "m³/m³": "cubic_metre_per_cubic_metre",
    "kg/m²": "kilogram_per_square_metre",
    "h": "hours",
    "iso8601": "iso8601",
    "unixtime": "unix_time",
    "s": "seconds",
    "": "dimensionless_integer",
    "wmo code": "wmo_code",
    "GGDc": "gdd_celsius",
}


@pytest.mark.parametrize(("kind", "offered"), [("hourly", HOURLY), ("daily", DAILY)])
def test_every_variable_has_the_number_that_the_schema_names(kind: str, offered: dict[str, Any]) -> None:
    names = {number: name for name, number in vars(Variable).items() if isinstance(number, int)}
    for name in offered:
        fields = variable_fields(name, kind)
        variable = names[fields.variable]
        assert name.startswith(variable), (name, variable)
        rest = name.removeprefix(variable)
        assert (f"_{fields.altitude}m" in rest) == bool(fields.altitude), name
        assert (f"_{fields.depth}_to_{fields.depth_to}cm" in rest) == bool(fields.depth_to), name
        says = {"minimum": "_min", "maximum": "_max", "mean": "_mean", "sum": "_sum", "dominant": "_dominant"}
        aggregation = next(word for word, number in vars(Aggregation).items() if number == fields.aggregation)
        if name != "et0_fao_evapotranspiration":
            assert rest.endswith(says.get(aggregation, "")), name
            assert (aggregation == "none") == (not rest.endswith(tuple(says.values()))), name


@pytest.mark.parametrize("unit", sorted({one for one in vars(units).values() if isinstance(one, Unit)}, key=str))
def test_every_unit_has_the_number_that_the_schema_names(unit: Unit) -> None:
    assert unit.number == getattr(SdkUnit, SDK_UNITS[unit.name])
