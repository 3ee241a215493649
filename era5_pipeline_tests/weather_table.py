"""The table weather with seven locations and 72 hours, for the tests of queries and of the commands that print them."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.model import grid
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_COLUMNS
from era5_pipeline.postgres.schema_version import STEPS, take_step
from era5_pipeline.warehouse.layouts.layout import create_weather
from era5_pipeline_tests.ledgers import column_facts
from era5_pipeline_tests.servers import database_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

Connection = psycopg.Connection[Any]

HOUR = timedelta(hours=1)
START = datetime(2023, 1, 30, tzinfo=UTC)
HOURS = 72  # until the end of 1 February, so that the rows are in two partitions
MISSING = 10  # the hour without a row for Jakarta
NULL = 3  # the hour with NULL cloud cover
JAKARTA = grid.ERA5_GRID.nearest_location(-6.25, 106.75)
# On both sides of the antimeridian, not in order.
FIJI = tuple(
    grid.ERA5_GRID.nearest_location(latitude, longitude)
    for latitude in (-17.0, -17.25)
    for longitude in (180.0, -179.75, 179.75)
)
TEMPERATURE = BY_COLUMN["temperature_2m"]
CLOUD = BY_COLUMN["total_cloud_cover"]
SNOWFALL = BY_COLUMN["snowfall"]


def temperature_of(location: grid.Location, hour: int) -> float:
    """The temperature in the table: different for each location and hour, exact in float32."""
    return location.location_id % 1000 / 8 + hour / 1024


@pytest.fixture
def empty_database(database_url: str) -> Iterator[Connection]:
    """A connection to a database without tables; the time zone of its session is not UTC."""
    with psycopg.connect(database_url, autocommit=True, options="-c TimeZone=Asia/Jakarta") as connection:
        yield connection


@pytest.fixture
def weather_url(server_url: str) -> Iterator[str]:
    """The URL of a database with 72 hours of two months: an hour is missing, a value is NULL, a column is all NULL."""
    with database_copy(server_url, _fill) as url:
        yield url


@pytest.fixture(scope="module")
def shared_weather_url(server_url: str) -> Iterator[str]:
    """As `weather_url`, but one for all tests of a module, for tests that leave it unchanged."""
    with database_copy(server_url, _fill) as url:
        yield url


@pytest.fixture
def weather_table(weather_url: str) -> Iterator[Connection]:
    """A connection to that database; the time zone of its session is not UTC."""
    with psycopg.connect(weather_url, autocommit=True, options="-c TimeZone=Asia/Jakarta") as connection:
        yield connection


def _fill(url: str) -> None:
    with psycopg.connect(url, autocommit=True, options="-c TimeZone=Asia/Jakarta") as connection:
        make_table(connection)
        make_ledger(connection)
        _copy_rows(connection)


def _copy_rows(connection: Connection) -> None:
    with connection.cursor().copy("COPY weather FROM STDIN") as copy:
        for location in (JAKARTA, *FIJI):
            for hour in reversed(range(HOURS)):
                if hour == MISSING and location == JAKARTA:
                    continue
                cloud = None if hour == NULL else 0.1
                place = (location.location_id, location.latitude, location.longitude)
                values = (temperature_of(location, hour), 1.5, -2.5, cloud, 1e-5, None)
                copy.write_row((START + hour * HOUR, *place, *values))


def make_ledger(connection: Connection) -> None:
    """The ledger of the two months: the first from files, the second generated."""
    for number, step in enumerate(STEPS, start=1):
        take_step(connection, step, number)
    facts = json.dumps([asdict(column_facts(column)) for column in DEFAULT_COLUMNS])
    locations = LocationSet.of_ids([location.location_id for location in (JAKARTA, *FIJI)]).multirange
    for month, source in (("2023-01-01", "files"), ("2023-02-01", "sample")):
        connection.execute(
            "INSERT INTO era5.ledger (month, part, state, rows, locations, location_ids, hours, hours_expected, "
            "missing_hours, source, expver, columns, files, warnings, raw_bytes, flat_bytes, flat_file, seconds, "
            "versions, fingerprint, version, checked_at, has_summaries) "
            "VALUES (%s, 1, 'loaded', 1, %s, %s, %s, %s, '{}', %s, '{}', %s, '[]', '{}', 1, 1, "
            """'{"path": "x", "bytes": 1, "sha256": "x"}', '{}', '{}', 'x', 'unknown', now(), false)""",
            (month, 1 + len(FIJI), locations, HOURS, HOURS, source, facts),
        )


def make_table(connection: Connection) -> None:
    partitioning = psycopg.sql.SQL("PARTITION BY RANGE (time)")
    create_weather(connection, partitioning)
    for first, after in (("2023-01-01", "2023-02-01"), ("2023-02-01", "2023-03-01")):
        connection.execute(
            f"CREATE TABLE weather_{first[5:7]} PARTITION OF weather "
            f"FOR VALUES FROM ('{first} 00:00Z') TO ('{after} 00:00Z')"
        )
    connection.execute("CREATE INDEX ON weather USING brin (location_id) WITH (pages_per_range = 16)")
