"""`query.climate.seasonal_cycle`: months of the year, then and now."""

from __future__ import annotations

import pandas as pd
import pytest

from era5_pipeline.query.climate.anomalies import DEFAULT_BASELINE, baseline_of
from era5_pipeline.query.climate.climate_answer import YearSpan
from era5_pipeline.query.climate.seasonal_cycle import seasonal_cycle


def months(first: str, last: str) -> pd.DataFrame:
    """Temperature is ten times the month, and 1 degC more from 2015 on; precipitation is 100 mm."""
    index = pd.date_range(first, last, freq="MS", name="month", unit="s")
    return pd.DataFrame(
        {
            "mean_temperature": index.month * 10.0 + (index.year >= 2015),
            "precipitation": 100.0,
            "temperature_complete": True,
            "precipitation_complete": True,
        },
        index=index,
    )


def test_then_is_the_baseline_and_now_the_last_ten_complete_years() -> None:
    table = months("1980-01-01", "2025-05-01")
    found = seasonal_cycle(table, baseline_of(DEFAULT_BASELINE, range(1980, 2025)), list(range(1980, 2025)))
    assert (found.then, found.now) == (YearSpan(1991, 2020), YearSpan(2015, 2024))
    assert found.table.index.tolist() == list(range(1, 13))
    # Six of the thirty years of the baseline are from 2015 on.
    assert found.table.loc[7, "temperature_then"] == pytest.approx(70 + 6 / 30)
    assert found.table.loc[7, "temperature_now"] == pytest.approx(71)
    assert found.table.loc[7, "temperature_change"] == pytest.approx(1 - 6 / 30)
    assert found.table["precipitation_change"].tolist() == [0.0] * 12
    assert not [name for name in found.table if str(name).startswith("wind")]


def test_an_incomplete_month_is_left_out() -> None:
    table = months("1991-01-01", "2024-12-01")
    table.loc["2020-07-01", ["mean_temperature", "temperature_complete"]] = [500.0, False]
    found = seasonal_cycle(table, baseline_of(DEFAULT_BASELINE, range(1991, 2025)), list(range(1991, 2025)))
    assert found.table.loc[7, "temperature_now"] == pytest.approx(71)


def test_a_short_record_has_no_then_and_a_shorter_now() -> None:
    table = months("2020-01-01", "2024-12-01")
    found = seasonal_cycle(table, baseline_of(DEFAULT_BASELINE, range(2020, 2025)), list(range(2020, 2025)))
    assert (found.then, found.now) == (None, YearSpan(2020, 2024))
    assert found.table["temperature_then"].isna().all()
    assert found.table["temperature_change"].isna().all()
    assert found.table.loc[1, "temperature_now"] == 11


def test_a_record_without_a_complete_year_has_neither() -> None:
    found = seasonal_cycle(months("2024-01-01", "2024-05-01"), baseline_of(DEFAULT_BASELINE, []), [])
    assert (found.then, found.now) == (None, None)
    assert found.table["temperature_now"].isna().all()
