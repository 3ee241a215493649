"""The table of monthly summaries: years and columns made beside other sessions, and comments, on every layout."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.flat.monthly.summary_columns import is_total
from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.warehouse.monthly.monthly_table import has_year, make_ready
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.warehouse.loads import ask
from era5_pipeline_tests.warehouse.test_schema import uncommented

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse

WANTED: dict[str, Any] = {"timeout_seconds": 60, "on_wait": print}


def test_a_year_is_made_once_by_several_sessions(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
    errors: list[BaseException] = []

    def make() -> None:
        try:
            with warehouse.connect() as connection:
                for year in (2001, 2002, 2003):
                    make_ready(connection, Month(year, 5), ("temperature_2m", "snowmelt"), **WANTED)
        except BaseException as error:  # noqa: BLE001  # the test asserts on it
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    query = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'era5.monthly_summary'::regclass"
    assert ask(warehouse.url, query) == 3


def test_a_year_is_made_while_others_read_and_columns_wait_for_them(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        make_ready(connection, Month(2022, 1), (), **WANTED)
        with warehouse.connect() as reader, reader.transaction():
            reader.execute("SELECT count(*) FROM weather_monthly").fetchone()
            said: list[str] = []
            make_ready(connection, Month(2023, 1), ("temperature_2m",), timeout_seconds=1, on_wait=said.append)
            assert has_year(connection, Month(2023, 12))
            assert said == []
            with pytest.raises(
                MonthLockedError, match=r"^columns of weather_monthly \(snowmelt\) cannot be added while"
            ):
                make_ready(connection, Month(2023, 1), ("snowmelt",), timeout_seconds=0, on_wait=said.append)
        make_ready(connection, Month(2023, 1), ("snowmelt",), **WANTED)
    assert ask(warehouse.url, "SELECT count(snowmelt_sum) FROM weather_monthly") == 0


def test_tables_years_and_columns_have_comments(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        make_ready(connection, Month(2022, 1), (), **WANTED)
        make_ready(connection, Month(2023, 1), ("snowmelt", "dewpoint_2m"), **WANTED)
    assert uncommented(warehouse) == []
    comment = "SELECT col_description('weather_monthly'::regclass, attnum) FROM pg_attribute WHERE attname = %s"
    of_view = comment + " AND attrelid = 'weather_monthly'::regclass"
    assert ask(warehouse.url, of_view, "temperature_2m_mean") == (
        "Air temperature 2 m above the surface: mean of the month's hours; degC"
    )
    assert ask(warehouse.url, of_view, "snowmelt_sum").endswith("to 00:00 on the 1st of the next month; mm")


def test_the_whole_catalogue_fits_into_the_table_and_the_view(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)
        make_ready(connection, Month(2022, 1), BY_COLUMN, **WANTED)
    counted = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'weather_monthly'::regclass AND attnum > 0"
    totals = sum(is_total(variable) for variable in BY_COLUMN.values())
    assert ask(warehouse.url, counted) == 7 + 4 * len(BY_COLUMN) + 2 * totals
    assert uncommented(warehouse) == []
