"""A second data set beside ERA5 in one database, on every layout: neither changes anything of the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.derived_variables import find_columns
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import find_variables
from era5_pipeline.monitor.activity import watch
from era5_pipeline.read.hours import read_series
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.layouts.variable_columns import add_columns
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.locks import month_lock
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.space import read_space
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.monthly import assert_monthly

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

TEST = replace(ERA5, name="test", title="Test hours", table="weather_test", schema="era5_test", lock_class=0x54455354)
JULY = Month(2023, 7)


@pytest.fixture
def second(warehouse: Warehouse) -> Warehouse:
    """The tables of the second data set, in the database of `warehouse`."""
    other = replace(warehouse, dataset=TEST)
    with other.connect() as connection:
        ensure_schema(connection)
    return other


def state_of(warehouse: Warehouse) -> list[Any]:
    """All that the database keeps of a data set but the hours: the ledger, summaries, columns, comments, sizes."""
    queries = (
        "SELECT l::text FROM {schema}.ledger l ORDER BY 1",
        "SELECT a::text FROM {schema}.load_attempt a ORDER BY 1",
        "SELECT s::text FROM {weather}_monthly s ORDER BY 1",
        "SELECT s::text FROM {schema}.monthly_last_hour s ORDER BY 1",
        "SELECT c::text FROM {schema}.table_column c ORDER BY 1",
        "SELECT v::text FROM {schema}.variable v ORDER BY 1",
        "SELECT v::text FROM {schema}.location v ORDER BY 1",
        "SELECT c.oid::regclass::text, obj_description(c.oid), relowner FROM pg_class c "
        "WHERE relnamespace IN ('{schema}'::regnamespace, '{schema}_loads'::regnamespace) ORDER BY 1",
        "SELECT p.oid::regprocedure::text, prosrc, pg_get_function_sqlbody(p.oid), obj_description(p.oid) "
        "FROM pg_proc p WHERE pronamespace = '{schema}'::regnamespace ORDER BY 1",
    )
    with warehouse.connect() as connection:
        return [connection.execute(warehouse.dataset.sql(query)).fetchall() for query in queries]


def one(warehouse: Warehouse, query: str) -> Any:
    with warehouse.connect() as connection:
        row = connection.execute(warehouse.dataset.sql(query)).fetchone()
    assert row is not None
    return row


def test_the_months_of_two_data_sets_are_independent(
    warehouse: Warehouse, second: Warehouse, flat_months: FlatMonths
) -> None:
    own, others, august = flat_months(), flat_months(points=(3, 2), north=20.0, seed=2), flat_months("2023-08", seed=3)
    load_month(warehouse, own)
    before = state_of(warehouse)
    load_month(second, others)
    load_month(second, august)
    assert_holds(warehouse, own)
    assert state_of(warehouse) == before
    assert_holds(second, others, august)
    for each, months in ((warehouse, (own,)), (second, (others, august))):
        assert_monthly(each, months=len(months))
        assert [verify_month(each, flat) for flat in months] == [()] * len(months)
        with each.connect() as connection:
            assert [one.month for one in read_ledger(connection)] == [flat.month for flat in months]
            space = read_space(connection)
        assert (space.rows, len(space.months)) == (sum(flat.rows for flat in months), len(months))
    # Loaded again, replaced in part, and dropped.
    before = state_of(second)
    load_month(warehouse, own, force=True)
    load_month(warehouse, flat_months(points=(1, 1), seed=4))
    drop_month(warehouse, JULY)
    assert_holds(warehouse)
    assert_holds(second, others, august)
    assert state_of(second) == before
    assert_monthly(second, months=2)
    drop_month(second, Month(2023, 8))
    assert_holds(second, others)
    assert verify_month(second, others) == ()


def test_functions_and_views_answer_from_their_own_table(
    warehouse: Warehouse, second: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    load_month(second, flat_months(points=(1, 2), north=-5.0, west=40.0, names=("t2m",), hours=100, seed=5))
    assert one(warehouse, "SELECT {schema}.at(-30, 30.25)") == one(second, "SELECT {schema}.at(-30, 30.25)")
    nearest = "SELECT nearest_latitude, nearest_longitude FROM {schema}.nearest(0, 30)"
    assert (one(warehouse, nearest), one(second, nearest)) == ((10.25, 20.5), (-5.0, 40.0))
    days = "SELECT count(*), min(hours) FROM {weather}_daily('2023-07-01', '2023-07-31')"
    assert (one(warehouse, days), one(second, days)) == ((6 * 31, 24), (2 * 5, 4))
    places = "SELECT count(*) FROM {schema}.location"
    assert (one(warehouse, places), one(second, places)) == ((6,), (2,))
    months = "SELECT months FROM {schema}.variable WHERE column_name = 'total_precipitation'"
    assert (one(warehouse, months), one(second, months)) == ((1,), (0,))
    with second.connect() as connection:
        add_columns(connection, find_variables("d2m"), timeout_seconds=10, on_wait=pytest.fail)
    dewpoint = "SELECT count(*) FROM {schema}.variable WHERE column_name = 'dewpoint_2m'"
    assert (one(warehouse, dewpoint), one(second, dewpoint)) == ((0,), (1,))
    gaps = "SELECT count(*) > 0 FROM {schema}.missing_hours"
    assert (one(warehouse, gaps), one(second, gaps)) == ((False,), (True,))
    named = (
        "SELECT string_agg(DISTINCT table_name, ' ' ORDER BY table_name) FROM {schema}.table_column "
        "WHERE table_schema = 'public'"
    )
    assert one(warehouse, named) == ("weather weather_daily weather_monthly",)
    assert one(second, named) == ("weather_test weather_test_daily weather_test_monthly",)
    comment = "SELECT obj_description('{weather}'::regclass), obj_description('{weather}_monthly'::regclass)"
    assert [text.partition(",")[0].partition(" by")[0] for text in one(second, comment)] == ["Test", "Test"]
    place = ERA5_GRID.location(one(second, "SELECT min(location_id) FROM {weather}")[0])
    with second.connect() as connection:
        assert len(read_series(connection, place, find_columns("temperature_2m"), None, None).times) == 100


def test_a_month_of_one_data_set_does_not_lock_that_of_the_other(
    warehouse: Warehouse, second: Warehouse, flat_months: FlatMonths
) -> None:
    own = flat_months()
    with (
        second.connect() as connection,
        month_lock(connection, JULY, timeout_seconds=0, on_wait=pytest.fail),
        connection.cursor().copy("COPY weather_test FROM STDIN"),
    ):
        load_month(warehouse, own, lock_timeout_seconds=0)
        shown = [
            [loader.month for loader in next(iter(watch(each, interval_seconds=0.1, seconds=0.1))).loaders]
            for each in (warehouse, second)
        ]
    assert_holds(warehouse, own)
    assert shown == [[], ["2023-07"]]
