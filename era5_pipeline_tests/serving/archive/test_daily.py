"""Daily variables over the hours 00 to 23, on real hours; a day that lacks an hour has no value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.serving.archive.daily import DAILY
from era5_pipeline.serving.archive.units import UnitChoice, rounded
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.serving.archive import tamar_hours

if TYPE_CHECKING:
    import numpy.typing as npt


def of_days(name: str, **columns: npt.NDArray[np.float32]) -> list[float]:
    """The values of the days, in Open-Meteo's default units, rounded."""
    variable = DAILY[name]
    values, unit = UnitChoice().convert(
        variable.formula(*(columns[column] for column in variable.columns)), variable.unit
    )
    found: list[float] = rounded(values, unit.decimals).tolist()
    return found


@pytest.mark.parametrize("name", tamar_hours.DAILY)
@pytest.mark.parametrize("hour", [24, 30, 47])
def test_a_day_without_one_of_its_hours_has_no_value(name: str, hour: int) -> None:
    hours = {column: values.copy() for column, values in tamar_hours.HOURS.items()}
    for values in hours.values():
        values[hour] = np.nan
    found = of_days(name, **hours)
    expected = tamar_hours.DAILY[name]
    assert [found[0], found[2]] == [expected[0], expected[2]]
    assert math.isnan(found[1])


def test_wet_hours_are_those_with_more_than_a_thousandth_of_a_millimetre() -> None:
    rain = np.zeros(48, dtype=np.float32)
    rain[[1, 5, 23]] = [0.002, 3.0, 0.0005]
    rain[24] = np.nan
    found = of_days("precipitation_hours", total_precipitation=rain)
    assert found[0] == 2
    assert math.isnan(found[1])


def test_sums_of_rain_and_snow_are_made_of_their_hours() -> None:
    precipitation, snow = np.zeros(24, dtype=np.float32), np.zeros(24, dtype=np.float32)
    precipitation[:4] = [2.0, 1.0, 0.5, 0.25]
    snow[:4] = [0.5, 1.5, 0.0, 0.0]
    columns = {"total_precipitation": precipitation, "snowfall": snow}
    assert of_days("precipitation_sum", **columns) == [3.75]
    assert of_days("rain_sum", **columns) == [2.25]  # 1.5 + 0 + 0.5 + 0.25
    assert of_days("snowfall_sum", **columns) == [1.4]  # 2 mm of water are 1.4 cm


def test_the_days_sunlight_is_in_megajoules() -> None:
    hours = np.full(24, 500_000, dtype=np.float32)
    assert of_days("shortwave_radiation_sum", surface_solar_radiation_downwards=hours) == [12.0]


def test_opposite_winds_cancel_in_the_dominant_direction() -> None:
    eastward, northward = np.zeros(24, dtype=np.float32), np.zeros(24, dtype=np.float32)
    eastward[:12], eastward[12:], northward[:] = 5.0, -5.0, -0.5
    found = of_days("wind_direction_10m_dominant", zonal_wind_10m=eastward, meridional_wind_10m=northward)
    assert found == [360]


def test_the_weather_of_a_day_is_its_highest_code() -> None:
    cloud, none = np.ones(24, dtype=np.float32), np.zeros(24, dtype=np.float32)
    rain = none.copy()
    rain[3], rain[7] = 0.3, 3.0
    found = of_days("weather_code", total_cloud_cover=cloud, total_precipitation=rain, snowfall=none)
    assert found == [63]


def test_the_documentation_has_a_row_for_each_with_unit_and_rule() -> None:
    rows = (ROOT / "docs" / "http.md").read_text(encoding="utf-8").splitlines()
    wanted = [f"| `{one.name}` | {one.unit.name} | {one.rule} |" for one in DAILY.values()]
    assert [row for row in wanted if row not in rows] == []
