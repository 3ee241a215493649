"""The view `weather_monthly_map`: cells as geometries, on servers that offer PostGIS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.model.grid import nearest_location
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.monthly.monthly_table import make_ready
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_database
from era5_pipeline_tests.warehouse.loads import ask
from era5_pipeline_tests.warehouse.views.test_ensure_views import has_postgis

if TYPE_CHECKING:
    from era5_pipeline_tests.flat_months import FlatMonths

COLUMNS = (
    "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute "
    "WHERE attrelid = to_regclass('{}') AND attnum > 0 AND NOT attisdropped"
)


@pytest.mark.parametrize("schema", ["public", "Geo data"])
def test_a_month_is_a_layer_of_cells(host_url: str, flat_months: FlatMonths, schema: str) -> None:
    with fresh_database(host_url) as url:
        load_month(Warehouse(url), flat_months())
        assert ask(url, "SELECT to_regclass('weather_monthly_map')::text") is None
        with psycopg.connect(url, autocommit=True) as connection:
            if not connection.execute("SELECT FROM pg_available_extensions WHERE name = 'postgis'").fetchone():
                pytest.skip("this server does not offer PostGIS")
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
            connection.execute(f'CREATE EXTENSION postgis SCHEMA "{schema}"'.encode())
        load_month(Warehouse(url), flat_months("2023-08"))
        with psycopg.connect(url) as connection:
            connection.execute(f'SET search_path = public, "{schema}"'.encode())
            assert connection.execute(
                "SELECT f_geometry_column, type, srid FROM geometry_columns WHERE f_table_name = 'weather_monthly_map'"
            ).fetchall() == [("cell", "POLYGON", 4326)]
            rows = connection.execute(
                "SELECT location_id, latitude, longitude, ST_AsText(cell), ST_Area(cell), temperature_2m_mean "
                "FROM weather_monthly_map WHERE month = '2023-08-01' ORDER BY location_id"
            ).fetchall()
            means = connection.execute(
                "SELECT location_id, temperature_2m_mean FROM weather_monthly WHERE month = '2023-08-01'"
            ).fetchall()
        assert [(row[0], row[5]) for row in rows] == sorted(means)
        assert len(rows) == 6
        assert all(row[4] == 0.0625 for row in rows)
        (cell,) = (row for row in rows if row[1:3] == (10.25, 20.0))
        assert cell[3] == "POLYGON((19.875 10.125,19.875 10.375,20.125 10.375,20.125 10.125,19.875 10.125))"


def test_the_cells_of_a_pole_end_there(warehouse: Warehouse) -> None:
    if not has_postgis(warehouse.url):
        pytest.skip("this server does not offer PostGIS")
    with warehouse.connect() as connection:
        ensure_schema(connection)
        make_ready(connection, Month(2023, 7), (), timeout_seconds=10, on_wait=print)
        for latitude in (-90.0, 90.0):
            connection.execute(
                "INSERT INTO era5.monthly_summary (location_id, month) VALUES (%s, '2023-07-01')",
                (nearest_location(latitude, 0.0).location_id,),
            )
    query = "SELECT array_agg(ST_AsText(cell) ORDER BY location_id) FROM weather_monthly_map"
    assert ask(warehouse.url, query) == [
        "POLYGON((-0.125 -90,-0.125 -89.875,0.125 -89.875,0.125 -90,-0.125 -90))",
        "POLYGON((-0.125 89.875,-0.125 90,0.125 90,0.125 89.875,-0.125 89.875))",
    ]


def test_a_month_reads_its_summaries_alone(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    if not has_postgis(warehouse.url):
        pytest.skip("this server does not offer PostGIS")
    for month in ("2022-07", "2023-07"):
        load_month(warehouse, flat_months(month))
    with psycopg.connect(warehouse.url) as connection:
        plan = connection.execute(
            "EXPLAIN SELECT location_id, cell, temperature_2m_mean FROM weather_monthly_map WHERE month = '2023-07-01'"
        ).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "monthly_summary_2023" in text
    assert "monthly_summary_2022" not in text
    assert "monthly_last_hour" not in text


def test_columns_that_a_load_adds_are_there(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    if not has_postgis(warehouse.url):
        pytest.skip("this server does not offer PostGIS")
    load_month(warehouse, flat_months())
    monthly = ask(warehouse.url, COLUMNS.format("weather_monthly"))
    assert ask(warehouse.url, COLUMNS.format("weather_monthly_map")) == monthly.replace(
        "location_id latitude longitude month", "location_id month cell latitude longitude"
    )
