from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from era5_pipeline import grid, query
from era5_pipeline.cli.map import map_
from era5_pipeline.cli.series import series as series_command
from era5_pipeline.errors import NoDataError, UsageError
from era5_pipeline.sqlfiles import read_sql
from era5_pipeline.variables import BY_COLUMN, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Connection = psycopg.Connection[Any]

HOUR = timedelta(hours=1)
START = datetime(2023, 1, 30, tzinfo=UTC)
HOURS = 72  # to the end of 1 February, so that the rows lie in two partitions
JAKARTA = grid.nearest_location(-6.25, 106.75)
# Around the antimeridian, and not in order.
FIJI = tuple(
    grid.nearest_location(latitude, longitude) for latitude in (-17.0, -17.25) for longitude in (180.0, -179.75, 179.75)
)
TEMPERATURE = BY_COLUMN["temperature_2m"]
SNOWFALL = BY_COLUMN["snowfall"]


def temperature_of(location: grid.Location, hour: int) -> float:
    """What `filled` stores: different at each place and hour, exact in float32."""
    return location.location_id % 1000 / 8 + hour / 1024


@pytest.fixture(scope="module")
def filled_url(module_database: str) -> str:
    """A table of two months with seven locations and 72 hours, one hour missing, a NULL and a wholly NULL column."""
    with psycopg.connect(module_database, autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL(read_sql("weather")).format(partitioning=psycopg.sql.SQL("PARTITION BY RANGE (time)"))
        )
        for first, after in (("2023-01-01", "2023-02-01"), ("2023-02-01", "2023-03-01")):
            connection.execute(
                f"CREATE TABLE weather_{first[5:7]} PARTITION OF weather FOR VALUES FROM ('{first}Z') TO ('{after}Z')"
            )
        connection.execute("CREATE INDEX ON weather USING brin (location_id) WITH (pages_per_range = 16)")
        connection.execute("CREATE SCHEMA era5")
        connection.execute("CREATE TABLE era5.ledger (month date, source text)")
        connection.execute("INSERT INTO era5.ledger VALUES ('2023-01-01', 'files'), ('2023-02-01', 'sample')")
        with connection.cursor().copy("COPY weather FROM STDIN") as copy:
            for location in (JAKARTA, *FIJI):
                for hour in reversed(range(HOURS)):
                    if hour == 10 and location == JAKARTA:
                        continue
                    cloud = None if hour == 3 else 0.1
                    copy.write_row(
                        (
                            *(START + hour * HOUR, location.location_id, location.latitude, location.longitude),
                            *(temperature_of(location, hour), 1.5, -2.5, cloud, 1e-5, None),
                        )
                    )
    return module_database


@dataclass(frozen=True)
class _Names:
    next: Iterator[str]


@contextmanager
def temporary_database(server_url: str, name: str) -> Iterator[str]:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server_url.replace("/postgres", f"/{name}", 1)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
