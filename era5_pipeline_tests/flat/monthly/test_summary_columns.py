"""Names of the columns of monthly summaries, over the whole catalogue."""

from __future__ import annotations

from era5_pipeline.flat.monthly.summary_columns import WIND_SPEED, has_wind, is_total, summary_columns
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_COLUMNS

_OF_THE_VIEW = ("location_id", "month", "latitude", "longitude", "month_hours", "wind_direction_10m_prevailing")
# PostgreSQL cuts longer names.
_LONGEST_NAME = 63


def test_no_name_is_too_long_or_stands_for_two_columns() -> None:
    names = [*_OF_THE_VIEW, WIND_SPEED, *(column.name for column in summary_columns(BY_COLUMN))]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= _LONGEST_NAME


def test_totals_alone_have_sums() -> None:
    totals = {column.variable.column for column in summary_columns(BY_COLUMN) if column.statistic == "sum"}
    assert {"total_precipitation", "snowfall", "surface_solar_radiation_downwards", "evaporation"} <= totals
    assert totals.isdisjoint({"temperature_2m", "wind_gust_10m", "maximum_temperature_2m", "snow_density"})
    assert totals == {name for name, variable in BY_COLUMN.items() if is_total(variable)}


def test_the_wind_needs_both_components() -> None:
    assert has_wind(DEFAULT_COLUMNS)
    assert not has_wind(["zonal_wind_10m", "meridional_wind_100m"])
