"""`query.packed_hours`: the same hours by one session, by two, and where a second one is refused, on every layout."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from psycopg import sql

from era5_pipeline.model.grid import nearest_location
from era5_pipeline.postgres.urls import with_user
from era5_pipeline.query import packed_hours
from era5_pipeline.query.packed_hours import prepare_for_reading, read_hours, read_packed
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.query.packed_hours import Hours
    from era5_pipeline_tests.flat_months import FlatMonths

PLACE = nearest_location(10.25, 20.25).location_id
COLUMNS = ("temperature_2m", "total_precipitation")
MONTHS = ("2023-06", "2023-07", "2023-09", "2023-10")
HOURS = 24 * (30 + 31 + 30 + 31)


@pytest.fixture
def loaded(warehouse: Warehouse, flat_months: FlatMonths, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """Four months, which are enough for two sessions here."""
    monkeypatch.setattr(packed_hours, "_MONTHS_FOR_TWO", len(MONTHS))
    for month in MONTHS:
        load_month(warehouse, flat_months(month, missing=0.2))
    return warehouse


def assert_same(one: Hours, other: Hours) -> None:
    assert np.array_equal(one[0], other[0])
    assert list(one[1]) == list(other[1])
    for column, values in one[1].items():
        assert np.array_equal(values, other[1][column], equal_nan=True)


def test_two_sessions_read_what_one_reads(loaded: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[psycopg.Connection] = []

    def connect(url: str, *, autocommit: bool) -> psycopg.Connection:
        opened.append(psycopg.Connection.connect(url, autocommit=autocommit))
        return opened[-1]

    with loaded.connect() as connection:
        expected = read_packed(connection, PLACE, COLUMNS, None, None)
        monkeypatch.setattr(psycopg, "connect", connect)
        assert_same(read_hours(connection, PLACE, COLUMNS, None, None), expected)
    assert expected[0].size == HOURS
    assert np.isnan(expected[1]["temperature_2m"]).any()
    assert [one.closed for one in opened] == [True]


def test_a_session_that_is_kept_reads_the_same_in_one_statement(loaded: Warehouse) -> None:
    start, end = datetime(2023, 6, 20, tzinfo=UTC), datetime(2023, 9, 5, tzinfo=UTC)
    with loaded.connect() as connection:
        expected = read_packed(connection, PLACE, COLUMNS, start, end)
        connection.execute("SET default_transaction_read_only = on")
        prepare_for_reading(connection)
        assert_same(read_packed(connection, PLACE, COLUMNS, start, end, is_prepared=True), expected)
        row = connection.execute("SHOW jit").fetchone()
    assert expected[0].size == 24 * (11 + 31 + 4)
    assert row == ("off",)


def test_a_range_with_few_months_is_read_by_one_session(loaded: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with loaded.connect() as connection:
        monkeypatch.setattr(psycopg, "connect", pytest.fail)
        times, _ = read_hours(connection, PLACE, COLUMNS, datetime(2023, 7, 5, tzinfo=UTC), None)
    assert times.size == HOURS - 24 * (30 + 4)


def test_where_a_second_session_is_refused_the_first_reads_all(loaded: Warehouse) -> None:
    with fresh_role(loaded.url, "PASSWORD 'secret' CONNECTION LIMIT 1") as role:
        name = sql.Identifier(role)
        with loaded.connect() as owner:
            owner.execute(sql.SQL("GRANT SELECT ON weather TO {}").format(name))
            owner.execute(sql.SQL("GRANT USAGE ON SCHEMA era5 TO {}").format(name))
            owner.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA era5 TO {}").format(name))
            expected = read_packed(owner, PLACE, COLUMNS, None, None)
        with psycopg.connect(with_user(loaded.url, role), password="secret", autocommit=True) as reader:
            assert_same(read_hours(reader, PLACE, COLUMNS, None, None), expected)


def test_without_a_ledger_one_session_reads_all(loaded: Warehouse) -> None:
    with loaded.connect() as connection:
        expected = read_packed(connection, PLACE, COLUMNS, None, None)
        connection.execute("DROP SCHEMA era5 CASCADE")
        assert_same(read_hours(connection, PLACE, COLUMNS, None, None), expected)


def test_where_only_the_first_session_finds_the_table_it_reads_all(loaded: Warehouse) -> None:
    with loaded.connect() as connection:
        expected = read_packed(connection, PLACE, COLUMNS, None, None)
        connection.execute("CREATE SCHEMA elsewhere")
        connection.execute("ALTER TABLE weather SET SCHEMA elsewhere")
        connection.execute("SET search_path = elsewhere")
        assert_same(read_hours(connection, PLACE, COLUMNS, None, None), expected)
