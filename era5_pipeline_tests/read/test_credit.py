"""`read.credit`: the credit line below data, and the notice above generated data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_in
from era5_pipeline.postgres.schema_version import STEPS
from era5_pipeline.read.credit import (
    SAMPLE_CREDIT,
    UNKNOWN_CREDIT,
    era5_credit,
    origin_of,
    read_credit,
    read_origin,
    sample_notice,
)
from era5_pipeline.read.held import PartVersion
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    from era5_pipeline.model.source_kinds import Version
    from era5_pipeline_tests.weather_table import Connection

ERA5_CREDIT = (
    "Contains modified Copernicus Climate Change Service information 2023; data ERA5, C3S/ECMWF (version not stated)"
)


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


def test_the_credit_has_the_years_of_the_data(weather_table: Connection) -> None:
    weather_table.execute("UPDATE era5.ledger SET month = '1987-10-01' WHERE source <> 'sample'")
    credit = era5_credit(1987, 1987)
    assert "information 1987; data ERA5" in credit
    found = read_credit(weather_table, datetime(1987, 10, 5, tzinfo=UTC), datetime(1987, 10, 6, tzinfo=UTC))
    assert found == f"{credit} (version not stated)"
    weather_table.execute("UPDATE era5.ledger SET source = 'files'")
    assert read_credit(weather_table, None, None) == f"{era5_credit(1987, 2023)} (version not stated)"
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


MAY, JUNE, JULY = Month(2024, 5), Month(2024, 6), Month(2024, 7)


def part_of(month: Month, version: Version, first: str = "", *, sources: tuple[str, ...] = ("cds",)) -> PartVersion:
    """A part, preliminary from this hour on."""
    preliminary = hours_in([f"{first} to {month.end - timedelta(hours=1):%Y-%m-%dT%H}"] if first else [])
    return PartVersion(month, sources, version, preliminary)


@pytest.mark.parametrize(
    ("parts", "versions", "version", "words"),
    [
        ([part_of(JUNE, "final")], "final: 2024-06", "final", "final"),
        ([part_of(JUNE, "preliminary")], "preliminary: 2024-06", "preliminary", "preliminary: ERA5T"),
        ([part_of(JUNE, "mixed", "2024-06-20T00")], "mixed: 2024-06", "mixed", "partly preliminary, ERA5T: 2024-06"),
        ([part_of(JUNE, "unknown")], "unknown: 2024-06", "unknown", "version not stated"),
        (
            [part_of(MAY, "final"), part_of(JUNE, "mixed", "2024-06-20T00"), part_of(JULY, "preliminary")],
            "final: 2024-05; mixed: 2024-06; preliminary: 2024-07",
            "mixed",
            "partly preliminary, ERA5T: 2024-06 to 2024-07; others final",
        ),
        (
            [part_of(MAY, "final"), part_of(JUNE, "unknown")],
            "final: 2024-05; unknown: 2024-06",
            "unknown",
            "version not stated: 2024-06; others final",
        ),
        (
            [part_of(MAY, "preliminary"), part_of(JUNE, "generated", sources=("sample",))],
            "generated: 2024-06; preliminary: 2024-05",
            "partly generated",
            "preliminary: ERA5T",
        ),
    ],
)
def test_the_credit_says_which_version_the_hours_are(
    parts: list[PartVersion], versions: str, version: str, words: str
) -> None:
    origin = origin_of(parts)
    assert (origin.era5_versions, origin.version) == (versions, version)
    assert origin.credit.partition("; some months are")[0] == f"{era5_credit(2024, 2024)} ({words})"


@pytest.mark.parametrize(
    ("first", "after", "version"),
    [(1, 20, "final"), (20, 25, "preliminary"), (19, 21, "mixed"), (30, 32, "preliminary")],
)
def test_the_hours_within_a_mixed_month_decide(first: int, after: int, version: str) -> None:
    start = datetime(2024, 6, first, tzinfo=UTC)
    end = start + timedelta(days=after - first)
    assert origin_of([part_of(JUNE, "mixed", "2024-06-20T00")], start, end).version == version


def test_hours_beside_preliminary_ones_may_be_of_no_stated_version(weather_table: Connection) -> None:
    weather_table.execute(
        'UPDATE era5.ledger SET version = \'mixed\', expver = \'{"temperature_2m": {"0005": 10, "unknown": 14}}\', '
        "preliminary_hours = '{\"temperature_2m\": [\"2023-01-31T00 to 2023-01-31T09\"]}' WHERE source = 'files'"
    )

    def version_on(day: int) -> str:
        start = datetime(2023, 1, day, tzinfo=UTC)
        return read_origin(weather_table, start, start + timedelta(days=1), None, ["temperature_2m"]).version

    assert [version_on(day) for day in (30, 31)] == ["unknown", "mixed"]
    # Only hours of the columns asked for count.
    day = datetime(2023, 1, 30, tzinfo=UTC)
    assert read_origin(weather_table, day, day + timedelta(days=2), None, ["snowfall"]).version == "unknown"
