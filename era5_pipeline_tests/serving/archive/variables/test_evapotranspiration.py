"""Reference evapotranspiration against the worked example of FAO Irrigation and Drainage Paper 56."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from era5_pipeline.serving.archive.variables.evapotranspiration import et0_of_hours, penman_monteith
from era5_pipeline.serving.archive.variables.sun import SunOfPlace

MIDNIGHT = int(datetime(1998, 10, 1, 1, tzinfo=UTC).timestamp())  # at UTC-1
SUN = SunOfPlace(16 + 13 / 60, -16.25, MIDNIGHT, MIDNIGHT, 1)


def test_the_two_hours_of_example_19() -> None:
    """N'Diaye, Senegal, 1 October: 02:00 to 03:00 (28 degC, 90 %, 1.9 m/s), 14:00 to 15:00 (38 degC, 52 %, 3.3 m/s)."""
    found = penman_monteith(
        np.array([28.0, 38.0]),
        np.array([3.402, 3.445]),
        np.array([1.9, 3.3]),
        np.array([0.0, 2.450]),
        np.array([0.8, 0.922]),
        np.array([101.3, 101.3]),
        is_day=np.array([False, True]),
    )
    assert found[0] == pytest.approx(0.0, abs=0.005)
    assert found[1] == pytest.approx(0.63, abs=0.005)


def columns(**changed: Any) -> tuple[np.ndarray[Any, np.dtype[np.float32]], ...]:
    """A day of that place, in the table's columns and units: every hour as the two of the example."""
    is_night = np.arange(24) < 7
    found = {
        "temperature": np.where(is_night, 28.0, 38.0),
        "dew_point": np.where(is_night, 26.2, 26.4),
        "eastward": np.where(is_night, 1.9, 3.3) / 0.748,
        "northward": np.zeros(24),
        "sunlight": np.maximum(np.sin(np.pi * (np.arange(24) - 7) / 12), 0) * 2.6e6,
        "pressure": np.full(24, 1013.0),
        **changed,
    }
    return tuple(np.asarray(one, dtype=np.float32) for one in found.values())


def test_the_columns_of_the_table_give_the_same_hours() -> None:
    day = columns()
    day[4][15] = 2.450e6
    found = et0_of_hours(SUN, *day)
    assert found.dtype == np.float32
    assert found[3] == pytest.approx(0.0, abs=0.01)
    assert found[15] == pytest.approx(0.63, abs=0.01)
    assert (found >= 0).all()


def test_an_hour_that_lacks_a_value_has_none_and_the_others_do() -> None:
    sunlight = columns()[4].copy()
    sunlight[12] = np.nan
    found = et0_of_hours(SUN, *columns(sunlight=sunlight))
    assert np.isnan(found).tolist() == [hour == 12 for hour in range(24)]


def test_a_polar_night_has_values() -> None:
    midnight = int(datetime(2024, 12, 21, tzinfo=UTC).timestamp())
    dark = SunOfPlace(78.25, 15.5, midnight, midnight, 1)
    found = et0_of_hours(dark, *columns(temperature=[-10.0] * 24, dew_point=[-12.0] * 24, sunlight=[0.0] * 24))
    assert np.isfinite(found).all()
    assert 0 <= found.max() < 0.1
