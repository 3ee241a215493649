from __future__ import annotations

import pytest

from era5_pipeline.model.cf_names import STANDARD_NAMES, cf_unit
from era5_pipeline.model.derived_variables import (
    DERIVED,
    find_column,
    find_columns,
    holds,
    is_direction,
    ordered,
    stored_columns,
)
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import BY_COLUMN, find_variables

SPEED, DIRECTION = (DERIVED[f"wind_{name}_10m"].variable for name in ("speed", "direction"))
U, V = "zonal_wind_10m", "meridional_wind_10m"


def test_names_are_found_beside_those_of_the_catalogue() -> None:
    assert find_column(" Wind_Speed_10m ") == SPEED
    assert find_column("t2m") is BY_COLUMN["temperature_2m"]
    assert [one.column for one in find_columns("wind_direction_10m, v10,wind_speed_10m,t2m")] == [
        "temperature_2m",
        V,
        "wind_speed_10m",
        "wind_direction_10m",
    ]
    assert [one.column for one in find_columns("default,wind_speed_100m")][-1] == "wind_speed_100m"
    assert find_columns("") == ()
    with pytest.raises(UsageError, match="'wind_speed_20m' is not in the catalogue"):
        find_column("wind_speed_20m")


def test_they_cannot_be_loaded() -> None:
    assert not set(DERIVED) & set(BY_COLUMN)
    with pytest.raises(UsageError, match="not in the catalogue"):
        find_variables("wind_speed_10m")


def test_they_are_of_columns_of_the_table() -> None:
    assert stored_columns(["wind_speed_10m", "temperature_2m", "wind_direction_10m"]) == (U, V, "temperature_2m")
    assert holds({U, V}, SPEED)
    assert not holds({U}, SPEED)
    assert not holds((), BY_COLUMN[U])
    assert all(part in BY_COLUMN for one in DERIVED.values() for part in one.parts)
    assert ordered(["wind_speed_10m", U]) == (BY_COLUMN[U], SPEED)


def test_cf_has_names_and_units_for_them() -> None:
    assert (STANDARD_NAMES[SPEED.column], cf_unit(SPEED)) == ("wind_speed", "m s-1")
    assert (STANDARD_NAMES[DIRECTION.column], cf_unit(DIRECTION)) == ("wind_from_direction", "degree")
    assert is_direction(DIRECTION)
    assert not is_direction(SPEED)
