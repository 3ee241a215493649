"""Units and descriptions as rows, and the ledger's runs of hours: what the views say of what was loaded."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from era5_pipeline.model.variables import DEFAULT_COLUMNS, VARIABLES
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

REAL = ROOT / "data" / "era5"


def rows_of(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


def test_the_variables_of_the_table_have_unit_names_and_months(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07", names=("t2m", "tp")))
    load_month(warehouse, flat_months("2024-02", names=("t2m",)))
    by_name = {row["column_name"]: row for row in rows_of(warehouse.url, "SELECT * FROM era5.variable")}
    assert set(by_name) == set(DEFAULT_COLUMNS)
    assert by_name["temperature_2m"] == {
        "column_name": "temperature_2m",
        "unit": "degC",
        "cf_unit": "degC",
        "short_name": "t2m",
        "param_id": 167,
        "cds_name": "2m_temperature",
        "long_name": "2 metre temperature",
        "standard_name": "air_temperature",
        "cell_method": "point",
        "extent": "everywhere",
        "description": "Air temperature 2 m above the surface",
        "first_month": date(2023, 7, 1),
        "last_month": date(2024, 2, 1),
        "months": 2,
    }
    rain = by_name["total_precipitation"]
    assert (rain["unit"], rain["cell_method"], rain["months"]) == ("mm", "sum", 1)
    assert (by_name["zonal_wind_10m"]["cf_unit"], by_name["zonal_wind_10m"]["months"]) == ("m s-1", 0)
    assert by_name["zonal_wind_10m"]["first_month"] is None


def test_months_that_were_dropped_are_not_counted(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    with warehouse.connect() as connection:
        connection.execute("UPDATE era5.ledger SET dropped_at = now(), state = 'dropped'")
    assert ask(warehouse.url, "SELECT sum(months) FROM era5.variable") == 0


def test_the_catalogue_has_every_variable_and_follows_the_program(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        assert ask(warehouse.url, "SELECT count(*) FROM era5.catalogue") == len(VARIABLES) == 147
        connection.execute("DELETE FROM era5.catalogue WHERE column_name = 'snowfall'")
        connection.execute("UPDATE era5.catalogue SET unit = 'inch' WHERE column_name = 'total_precipitation'")
        ensure_schema(connection)
    units = "SELECT string_agg(unit, ' ') FROM era5.catalogue WHERE column_name IN ('snowfall', 'total_precipitation')"
    assert ask(warehouse.url, units) == "mm mm"


def test_units_can_be_asked_for_by_table_and_column(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    rows = rows_of(warehouse.url, "SELECT * FROM era5.table_column WHERE table_name LIKE 'weather%'")
    units = {(row["table_name"], row["column_name"]): row["unit"] for row in rows}
    assert units["weather", "total_precipitation"] == "mm"
    assert units["weather", "location_id"] is None
    assert units["weather_monthly", "total_precipitation_sum"] == "mm"
    assert units["weather_monthly", "temperature_2m_hours"] == "hours"
    assert units["weather_monthly", "wind_speed_10m_mean"] == "m/s"
    assert units["weather_daily", "wind_direction_10m_prevailing"] == "degrees"
    assert units["weather_daily", "latitude"] == "degrees_north"
    positions = [row["position"] for row in rows if row["table_name"] == "weather"]
    assert sorted(positions) == list(range(1, 11))


def test_missing_hours_are_rows(warehouse: Warehouse, tmp_path: Path) -> None:
    """The real file has one hour of the month: those before it and after it are two runs."""
    file = REAL / "karnataka-2024-01-01T12" / "era5.nc"
    load_month(warehouse, era5_files.flatten([file], "2024-01", tmp_path))
    rows = rows_of(
        warehouse.url, "SELECT * FROM era5.missing_hours WHERE column_name = 'temperature_2m' ORDER BY first_time"
    )
    assert [(row["first_time"], row["last_time"], row["hours"]) for row in rows] == [
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 11, tzinfo=UTC), 12),
        (datetime(2024, 1, 1, 13, tzinfo=UTC), datetime(2024, 1, 31, 23, tzinfo=UTC), 731),
    ]
    assert {row["locations"] for row in rows} == {25}
    assert {row["month"] for row in rows} == {date(2024, 1, 1)}


def test_preliminary_hours_are_rows(warehouse: Warehouse, tmp_path: Path) -> None:
    """The real file is final to 1 October 11:00, and preliminary from 12:00 on, every six hours."""
    file = REAL / "germany-tp-expver-mix" / "data_stream-oper_stepType-accum.nc"
    load_month(warehouse, era5_files.flatten([file], "2025-10", tmp_path))
    rows = rows_of(warehouse.url, "SELECT * FROM era5.preliminary_hours ORDER BY first_time")
    assert rows[0]["first_time"] == datetime(2025, 10, 1, 12, tzinfo=UTC)
    assert {row["column_name"] for row in rows} == {"total_precipitation"}
    assert sum(row["hours"] for row in rows) == 2 + 30 * 4
    assert {row["first_time"].astimezone(UTC).hour for row in rows} == {0, 6, 12, 18}


def test_they_do_not_depend_on_the_search_path(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """A server that reads them as foreign tables has one of pg_catalog alone."""
    load_month(warehouse, flat_months())
    with psycopg.connect(warehouse.url) as connection:
        connection.execute("SET search_path = pg_catalog")
        for query in (
            "SELECT count(*) FROM era5.variable",
            "SELECT count(*) FROM era5.table_column WHERE table_name = 'weather'",
            "SELECT count(*) FROM public.weather_daily WHERE location_id = era5.at(10.25, 20.0)",
            "SELECT count(*) FROM public.weather_daily('2023-07-01', '2023-07-03')",
        ):
            found = connection.execute(query.encode()).fetchone()
            assert found is not None
            assert found[0] > 0
