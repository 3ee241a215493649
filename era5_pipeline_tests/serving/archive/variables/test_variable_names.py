"""Variables by name: today's and earlier ones; others are refused with the reason."""

from __future__ import annotations

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive.variables.variable_names import find_daily, find_hourly


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
    assert find_hourly(earlier).name == name


def test_an_earlier_daily_name_finds_the_variable() -> None:
    assert find_daily("windspeed_10m_max").name == "wind_speed_10m_max"


@pytest.mark.parametrize(
    ("name", "reason", "remedy"),
    [
        ("temperatur_2m", "from invalid String value temperatur_2m", "Did you mean temperature_2m"),
        ("sunshine_duration", "is of sunlight at a moment or on another plane", "Leave it out"),
        ("moon_phase", "is of the moon", "Leave it out"),
        ("wave_height", "is of ocean waves", "Leave it out"),
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
        find_hourly(name)
    assert refused.value.message.startswith(f"Cannot initialize hourly variable from invalid String value {name}")
    assert reason in refused.value.message
    assert remedy in refused.value.remedy


@pytest.mark.parametrize(
    ("name", "said"), [("sunshine_duration", "on another plane"), ("temperature_2m", "an hourly variable")]
)
def test_a_daily_variable_that_is_not_here_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_daily(name)
    assert said in str(refused.value)
