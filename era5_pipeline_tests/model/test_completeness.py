"""`completeness`: the hours that a month must have, and what is said of those it lacks."""

from __future__ import annotations

import numpy as np
import pytest

from era5_pipeline.model.completeness import first_hour, missing_hours, why_incomplete
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.model.variables import BY_COLUMN, ERA5_CATALOGUE

JULY = Month(2023, 7)
HOURS = np.array(hours_of_month(JULY))


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"temperature_2m": HOURS}, None),
        ({"temperature_2m": HOURS[:100]}, "100 of 744 hours; missing 2023-07-05T04 to 2023-07-31T23; the latest "),
        ({"temperature_2m": HOURS[::2]}, "372 of 744 hours; missing 2023-07-01T01, 2023-07-01T03, "),
        (
            {"temperature_2m": HOURS, "zonal_wind_10m": HOURS[1:]},
            "zonal_wind_10m has 743 of 744 hours, missing 2023-07-01T00",
        ),
        ({"temperature_2m": HOURS[:0]}, "0 of 744 hours; missing 2023-07-01T00 to 2023-07-31T23"),
    ],
)
def test_what_a_month_lacks_is_told(held: dict[str, np.ndarray], said: str | None) -> None:
    found = why_incomplete(JULY, held, ERA5_CATALOGUE)
    assert (found is None) == (said is None)
    if found is not None and said is not None:
        assert found[0].startswith(f"2023-07 is incomplete: {said}")
        assert "--allow-incomplete" in found[1]


def test_accumulations_of_the_first_month_begin_later() -> None:
    month, rain = Month(1940, 1), BY_COLUMN["total_precipitation"]
    hours = np.array(hours_of_month(month))
    assert missing_hours(month, rain, hours[7:]).size == 0
    assert missing_hours(month, rain, hours[8:]).tolist() == [first_hour(rain)]
    # The store's point series begin with whole days.
    assert missing_hours(month, rain, hours[24:], is_series=True).size == 0
