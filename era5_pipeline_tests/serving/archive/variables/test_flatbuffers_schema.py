"""The numbers of variables and units, compared with those of Open-Meteo's SDK."""

from __future__ import annotations

from typing import Any

import pytest
from openmeteo_sdk.Aggregation import Aggregation
from openmeteo_sdk.Unit import Unit as SdkUnit
from openmeteo_sdk.Variable import Variable

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive.variables import answer_units as units
from era5_pipeline.serving.archive.variables.answer_units import Unit
from era5_pipeline.serving.archive.variables.daily_variables import DAILY
from era5_pipeline.serving.archive.variables.flatbuffers_schema import unit_number, variable_fields
from era5_pipeline.serving.archive.variables.hourly_variables import HOURLY

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
    assert unit_number(unit) == getattr(SdkUnit, SDK_UNITS[unit.name])


def test_a_variable_and_a_unit_that_the_schema_lacks_are_refused() -> None:
    with pytest.raises(UsageError, match="no variable convective_snow_2m"):
        variable_fields("convective_snow_2m", "hourly")
    with pytest.raises(UsageError, match="no unit furlong"):
        unit_number(Unit("furlong", 1))
