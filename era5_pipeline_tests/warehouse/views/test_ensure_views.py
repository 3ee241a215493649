"""Which views there are, that all of them are described, and that those that are missing are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.views.variable_views import RELATIONS
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

BESIDE = ("weather", "weather_monthly", "weather_daily", "weather_monthly_map")
DROP = "DROP VIEW weather_daily, weather_monthly_map, era5.{} CASCADE".format(", era5.".join(RELATIONS[1:]))


def has_postgis(url: str) -> bool:
    """Install PostGIS in the database, where the server offers it."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_available_extensions WHERE name = 'postgis'").fetchone() is None:
            return False
        connection.execute("CREATE EXTENSION IF NOT EXISTS postgis")
        return True


def undescribed(url: str) -> list[str]:
    """The relations, columns and functions of the warehouse that have no comment."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT c.oid::regclass::text || coalesce('.' || a.attname, '') FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "CROSS JOIN LATERAL (SELECT 0::smallint AS attnum, NULL AS attname UNION ALL SELECT attnum, attname "
            "FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) a "
            "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') "
            "AND (n.nspname = 'era5' OR n.nspname = 'public' AND c.relname = ANY(%s)) "
            "AND NOT EXISTS (SELECT FROM pg_description WHERE objoid = c.oid AND classoid = 'pg_class'::regclass "
            "AND objsubid = a.attnum AND description <> '') "
            "UNION ALL SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE (n.nspname = 'era5' OR p.proname LIKE 'weather%%') AND obj_description(p.oid, 'pg_proc') IS NULL",
            (list(BESIDE),),
        ).fetchall()
    return [name for (name,) in rows]


def views_of(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'v' "
            "AND relnamespace IN ('era5'::regnamespace, 'public'::regnamespace)"
        ).fetchall()
    return {name for (name,) in rows}


OURS = {
    *("variable", "table_column", "missing_hours", "preliminary_hours", "location", "month"),
    *("weather_monthly", "weather_daily"),
}


def test_every_view_and_column_and_function_is_described(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    postgis = has_postgis(warehouse.url)
    for months in (("2023-07", "2023-12"), ("2024-01",)):
        for month in months:
            load_month(warehouse, flat_months(month, names=("t2m", "tp", "u10", "v10")))
        assert undescribed(warehouse.url) == []
    assert views_of(warehouse.url) >= OURS | ({"weather_monthly_map"} if postgis else set())
    # The test itself finds what is not described.
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute("COMMENT ON COLUMN era5.month.rows IS NULL")
        connection.execute("CREATE VIEW era5.mine AS SELECT 1 AS one")
    assert undescribed(warehouse.url) == ["era5.month.rows", "era5.mine", "era5.mine.one"]


def test_each_value_with_a_unit_says_it(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    has_postgis(warehouse.url)
    load_month(warehouse, flat_months(names=("t2m", "tp", "u10", "v10")))
    with psycopg.connect(warehouse.url) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name, type, unit, description FROM era5.table_column "
            "WHERE table_name = ANY(%s) AND type IN ('real', 'double precision')",
            (list(BESIDE),),
        ).fetchall()
    assert len(rows) > 45
    written = {"degrees_north": "Degrees north", "degrees_east": "Degrees east"}
    for table, column, _, unit, description in rows:
        assert unit, (table, column)
        assert written.get(unit, unit) in description, (table, column)


@pytest.mark.parametrize("by", ["era5 db init", "a load"])
def test_a_database_of_an_earlier_version_gets_them(warehouse: Warehouse, flat_months: FlatMonths, by: str) -> None:
    load_month(warehouse, flat_months())
    before = views_of(warehouse.url)
    drop = DROP.replace("weather_monthly_map, ", "")
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(drop.encode())
        connection.execute("DROP TABLE era5.catalogue")
    assert views_of(warehouse.url) == before - {*RELATIONS, "weather_daily"}
    if by == "a load":
        load_month(warehouse, flat_months("2023-08"))
    else:
        with warehouse.connect() as connection:
            ensure_schema(connection)
    assert views_of(warehouse.url) == before
    assert ask(warehouse.url, "SELECT count(*) FROM era5.variable") == 6
    assert undescribed(warehouse.url) == []


def test_a_user_who_may_not_create_them_loads_all_the_same(
    warehouse: Warehouse, host_url: str, flat_months: FlatMonths
) -> None:
    """What the owner made last lacks them, and the owner has not come by."""
    load_month(warehouse, flat_months())
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        connection.execute(DROP.replace("weather_monthly_map, ", "").encode())
        connection.execute("DROP TABLE era5.catalogue")
    with fresh_role(warehouse.url) as user, warehouse.connect() as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA era5 TO {user}".encode())
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA era5, public TO {user}".encode())
        connection.execute(f"SET ROLE {user}".encode())
        ensure_schema(connection)
        connection.execute("RESET ROLE")
    assert not views_of(warehouse.url) & {*RELATIONS, "weather_daily"}


def test_what_is_there_is_not_made_again(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    has_postgis(warehouse.url)
    load_month(warehouse, flat_months())
    versions = (
        "SELECT array_agg(c.relname || c.xmin::text || coalesce(p.xmin::text, '') ORDER BY c.oid) FROM pg_class c "
        "LEFT JOIN pg_proc p ON p.prorettype = c.reltype WHERE c.relkind = 'v' "
        "AND c.relnamespace IN ('era5'::regnamespace, 'public'::regnamespace)"
    )
    rows = "SELECT array_agg(xmin::text) FROM era5.catalogue"
    before = [ask(warehouse.url, query) for query in (versions, rows)]
    load_month(warehouse, flat_months("2023-08"))
    assert [ask(warehouse.url, query) for query in (versions, rows)] == before
