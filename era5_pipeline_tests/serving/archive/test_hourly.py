"""The hourly variables: their columns exist, in units that the formulas expect."""

from __future__ import annotations

import pytest

from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.serving.archive.hourly import HOURLY
from era5_pipeline_tests.commands import ROOT

# Units of the table by the unit of a variable that is a column as it is.
AS_IN_THE_TABLE = {"°C": "degC", "hPa": "hPa", "mm": "mm", "m/s": "m/s", "m³/m³": "m3/m3", "m": "m", "kg/m²": "kg/m2"}


@pytest.mark.parametrize("name", HOURLY)
def test_a_variable_is_made_of_columns_of_the_catalogue(name: str) -> None:
    variable = HOURLY[name]
    assert variable.columns or variable.by_sun
    assert set(variable.columns) <= set(BY_COLUMN)
    assert variable.rule


@pytest.mark.parametrize("name", [name for name, one in HOURLY.items() if one.rule.startswith("as in the table")])
def test_a_variable_that_is_a_column_has_its_unit(name: str) -> None:
    variable = HOURLY[name]
    (column,) = variable.columns
    assert AS_IN_THE_TABLE[variable.unit.name] == BY_COLUMN[column].unit


def test_the_documentation_has_a_row_for_each_with_unit_columns_and_rule() -> None:
    rows = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").splitlines()
    wanted = [
        f"| `{one.name}` | {one.unit.name} | {one.unit.decimals} | "
        f"{', '.join(f'`{column}`' for column in one.columns)} | {one.rule} |"
        for one in HOURLY.values()
    ]
    assert [row for row in wanted if row not in rows] == []
