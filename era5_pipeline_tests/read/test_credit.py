"""`read.credit`: the credit line below data, and the notice above generated data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.postgres.schema_version import STEPS
from era5_pipeline.read.credit import SAMPLE_CREDIT, UNKNOWN_CREDIT, era5_credit, read_credit, sample_notice
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    from era5_pipeline_tests.weather_table import Connection

ERA5_CREDIT = "Contains modified Copernicus Climate Change Service information 2023; data ERA5, C3S/ECMWF"


@pytest.mark.parametrize(
    ("start", "end", "credit"),
    [
        (datetime(2023, 1, 5, tzinfo=UTC), datetime(2023, 2, 1, tzinfo=UTC), ERA5_CREDIT),
        (datetime(2023, 2, 1, tzinfo=UTC), datetime(2023, 2, 1, 1, tzinfo=UTC), SAMPLE_CREDIT),
        (datetime(2023, 2, 1, tzinfo=UTC), None, SAMPLE_CREDIT),
        (None, datetime(2023, 1, 2, tzinfo=UTC), ERA5_CREDIT),
        (datetime(2022, 1, 1, tzinfo=UTC), datetime(2022, 2, 1, tzinfo=UTC), UNKNOWN_CREDIT),
    ],
)
def test_copernicus_is_credited_only_for_months_from_era5(
    weather_table: Connection, start: datetime | None, end: datetime | None, credit: str
) -> None:
    assert read_credit(weather_table, start, end) == credit


@pytest.mark.parametrize(
    ("sources", "begins"),
    [
        (["sample"], "Generated sample data, not ERA5"),
        (["sample", "cds"], "Partly generated sample data, not ERA5"),
        (["cds", "files"], None),
        (["an unknown one"], None),
        ([], None),
    ],
)
def test_generated_data_have_a_notice_that_says_so(sources: list[str], begins: str | None) -> None:
    notice = sample_notice(sources)
    assert (notice is None) == (begins is None)
    assert begins is None or (notice or "").startswith(begins)


def test_mixed_sources_credit_both(weather_table: Connection) -> None:
    credit = read_credit(weather_table, None, None)
    assert credit.startswith(ERA5_CREDIT)
    assert "sample data" in credit


def test_the_credit_has_the_years_of_the_data(weather_table: Connection) -> None:
    weather_table.execute("UPDATE era5.ledger SET month = '1987-10-01' WHERE source <> 'sample'")
    credit = era5_credit(1987, 1987)
    assert "information 1987; data ERA5" in credit
    assert read_credit(weather_table, datetime(1987, 10, 5, tzinfo=UTC), datetime(1987, 10, 6, tzinfo=UTC)) == credit
    weather_table.execute("UPDATE era5.ledger SET source = 'files'")
    assert read_credit(weather_table, None, None) == era5_credit(1987, 2023)
    assert "information 1987 to 2023; data ERA5" in era5_credit(1987, 2023)


def test_dropped_months_are_not_credited(weather_table: Connection) -> None:
    weather_table.execute("UPDATE era5.ledger SET dropped_at = now(), state = 'dropped' WHERE source = 'sample'")
    assert read_credit(weather_table, None, None) == ERA5_CREDIT


def test_columns_that_were_added_later_have_a_credit_of_their_own(weather_table: Connection) -> None:
    weather_table.execute("DELETE FROM era5.ledger WHERE source = 'sample'")
    weather_table.execute(
        'UPDATE era5.ledger SET columns = \'[{"column": "temperature_2m"}, '
        '{"column": "wind_gust_10m"}, {"column": "zonal_wind_100m"}]\', '
        'additions = \'[{"source": "sample", "columns": ["zonal_wind_100m"]}]\''
    )

    def credit_of(*columns: str) -> str:
        return read_credit(weather_table, None, None, None, columns)

    assert credit_of("temperature_2m") == credit_of("wind_gust_10m", "temperature_2m") == ERA5_CREDIT
    assert credit_of("zonal_wind_100m") == credit_of("wind_speed_100m") == SAMPLE_CREDIT
    both = credit_of("zonal_wind_100m", "temperature_2m")
    assert both == read_credit(weather_table, None, None)
    assert both.startswith(ERA5_CREDIT)
    assert "sample data" in both
    assert credit_of("snowfall") == UNKNOWN_CREDIT  # nothing is there


def test_generated_months_of_other_places_are_not_told(weather_table: Connection) -> None:
    weather_table.execute(
        "UPDATE era5.ledger SET month = '2023-01-01', part = length(source), "
        "location_ids = CASE source WHEN 'sample' THEN '{[1,5)}' ELSE '{[5,9)}' END::int4multirange"
    )
    there, elsewhere, both = (LocationSet.of_ids(ids) for ids in ([6, 7], [1], [4, 5]))
    assert read_credit(weather_table, None, None, there) == ERA5_CREDIT
    assert read_credit(weather_table, None, None, elsewhere) == SAMPLE_CREDIT
    assert "sample data" in read_credit(weather_table, None, None, both)
    assert read_credit(weather_table, None, None, LocationSet.of_ids([20])) == UNKNOWN_CREDIT


def test_source_is_unknown_to_a_role_that_may_not_read_the_ledger(weather_table: Connection, weather_url: str) -> None:
    with fresh_role(weather_url) as role:
        weather_table.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        assert read_credit(weather_table, None, None) == UNKNOWN_CREDIT
        weather_table.execute("RESET ROLE")


def test_source_is_unknown_without_ledger(empty_database: Connection) -> None:
    assert read_credit(empty_database, None, None) == UNKNOWN_CREDIT
    for step in STEPS:
        step(empty_database)
    assert read_credit(empty_database, None, None) == UNKNOWN_CREDIT
    assert read_credit(empty_database, None, None, LocationSet.of_ids([1]), ["temperature_2m"]) == UNKNOWN_CREDIT
