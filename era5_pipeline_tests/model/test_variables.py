from __future__ import annotations

from datetime import UTC, datetime

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import BY_COLUMN, VARIABLES, Variable, find_variable, in_table_order
from era5_pipeline_tests import era5_files


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: v.short_name)
def test_names_units_and_conversions_are_those_of_the_documentation(variable: Variable) -> None:
    column, unit, number, scale, offset = era5_files.VARIABLES[variable.short_name]
    assert (variable.column, variable.param_id) == (column, number)
    assert (variable.scale, variable.offset) == (scale, offset)
    assert unit in variable.file_units


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda v: v.short_name)
def test_a_variable_is_found_by_each_of_its_names(variable: Variable) -> None:
    for name in (variable.column, variable.short_name, variable.cds_name, f" {variable.column} "):
        assert find_variable(name) is variable


def test_an_unknown_variable_is_refused_with_a_list_of_all_columns() -> None:
    with pytest.raises(UsageError, match="'sst'") as raised:
        find_variable("sst")
    assert all(column in raised.value.remedy for column in BY_COLUMN)


def test_variables_are_returned_in_the_order_of_the_table() -> None:
    chosen = in_table_order(["snowfall", "temperature_2m", "snowfall"])
    assert [variable.short_name for variable in chosen] == ["t2m", "sf"]


def test_only_accumulations_begin_at_07_of_1_january_1940() -> None:
    first = {variable.short_name: variable.first_valid for variable in VARIABLES}
    assert first["tp"] == first["sf"] == datetime(1940, 1, 1, 7, tzinfo=UTC)
    assert {first[name] for name in ("t2m", "u10", "v10", "tcc")} == {datetime(1940, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("name", "low", "high"), [("t2m", -89.2, 56.7), ("tcc", 0, 1), ("tp", 0, 401), ("u10", -90, 90)]
)
def test_bounds_include_the_records_ever_measured(name: str, low: float, high: float) -> None:
    variable = find_variable(name)
    assert variable.minimum < low < high < variable.maximum
