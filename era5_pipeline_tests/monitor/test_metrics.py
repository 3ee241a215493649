"""Tests of `monitor/metrics`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from prometheus_client import parser as _classic
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics import parser as _parser

from era5_pipeline.model.months import Month, month_range
from era5_pipeline.monitor.metrics import openmetrics_text, read_numbers, warehouse_metrics
from era5_pipeline.planning.updates import due_month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.roles import Roles, ensure_roles
from era5_pipeline.postgres.urls import with_user
from era5_pipeline.warehouse.attempts import begin_attempt, end_attempt
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.space import read_space
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask, end_session, without_autovacuum

if TYPE_CHECKING:
    from era5_pipeline_tests.flat_months import FlatMonths

# Their functions come without types.
parser: Any = _parser
classic: Any = _classic
STRANGE = 'a "quoted" back\\slash,\nand {a} = new line'


def test_the_older_format_of_node_exporter_reads_it_too() -> None:
    attempts = CounterMetricFamily("era5_load_attempts", "Attempts.", labels=["outcome"])
    attempts.add_metric(["loaded"], 3)
    table = GaugeMetricFamily("era5_table_bytes", STRANGE, labels=["layout"], unit="bytes")
    table.add_metric([STRANGE], 1.5)
    text = openmetrics_text([attempts, table])
    samples = {s.name: (s.labels, s.value) for f in classic.text_string_to_metric_families(text) for s in f.samples}
    assert samples == {
        "era5_load_attempts_total": ({"outcome": "loaded"}, 3.0),
        "era5_table_bytes": ({"layout": STRANGE}, 1.5),
    }


DUE = Month(2023, 9)


def measured(warehouse: Warehouse, *, by_month: bool = False) -> dict[str, Any]:
    """The value of each metric; of one with labels, the values by the text of its labels."""
    with warehouse.connect() as connection:
        families = warehouse_metrics(read_numbers(connection), DUE, by_month=by_month)
    found: dict[str, Any] = {}
    for family in parser.text_string_to_metric_families(openmetrics_text(families)):
        assert family.name.startswith("era5_")
        assert family.documentation.endswith(".")
        assert family.unit in {"", "seconds", "bytes"}
        assert bool(family.unit) == family.name.endswith(("_seconds", "_bytes")), family.name
        for sample in family.samples:
            assert sample.timestamp is None  # node_exporter refuses a file with timestamps
            if sample.labels:
                found.setdefault(sample.name, {})[" ".join(sample.labels.values())] = sample.value
            else:
                found[sample.name] = sample.value
    return found


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_metrics_are_those_of_the_ledger(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    may, june, july = flat_months("2023-05"), flat_months("2023-06"), flat_months("2023-07", hours=100)
    for flat in (may, june, july):
        load_month(warehouse, flat)
    with warehouse.connect() as connection, warehouse.connect() as other:
        interrupted, failed = begin_attempt(other, Month(2023, 8)), begin_attempt(connection, Month(2023, 3))
        end_attempt(connection, failed, error="no")
        assert interrupted
        end_session(other, warehouse.url)
        begin_attempt(connection, Month(2023, 4))
        begun = datetime.now(tz=UTC).timestamp()
        with without_autovacuum(warehouse):
            found = measured(warehouse)
            space = read_space(connection)
        states = {month.month: month.state for month in read_ledger(connection)}
    assert found["era5_months"] == {"loaded": 2, "incomplete": 1, "dropped": 0, "loading": 1, "failed": 2}
    assert sorted(states.values()) == ["failed", "failed", "incomplete", "loaded", "loaded", "loading"]
    assert found["era5_rows"] == may.rows + june.rows + july.rows
    assert found["era5_oldest_month_timestamp_seconds"] == at("2023-05-01")
    assert found["era5_newest_month_timestamp_seconds"] == at("2023-07-01")
    assert found["era5_complete_until_timestamp_seconds"] == at("2023-07-01")
    assert found["era5_data_age_seconds"] == pytest.approx(begun - at("2023-07-01"), abs=600)
    assert found["era5_overdue_months"] == 3
    assert found["era5_preliminary_months"] == 0
    assert found["era5_load_attempts_total"] == {"loaded": 3, "failed": 1, "interrupted": 1}
    assert found["era5_running_loads"] == 1
    assert found["era5_last_success_timestamp_seconds"] == pytest.approx(begun, abs=600)
    assert 0 <= found["era5_last_success_age_seconds"] < 600
    assert found["era5_recent_stage_seconds"].keys() == {"raw", "flat", "load"}
    seconds = found["era5_recent_stage_seconds"]["load"]
    assert found["era5_recent_rows_per_second"] == pytest.approx(found["era5_rows"] / seconds / 3)
    assert found["era5_table_bytes"] == {space.layout: space.bytes}
    assert found["era5_raw_bytes"] == sum(flat.raw.bytes for flat in (may, june, july))
    assert found["era5_flat_bytes"] == may.bytes + june.bytes + july.bytes
    assert "era5_month_rows" not in found
    assert measured(warehouse, by_month=True)["era5_month_rows"]["2023-07 incomplete"] == july.rows

    with warehouse.connect() as connection:
        connection.execute("UPDATE era5.ledger SET version = 'mixed' WHERE month = '2023-06-01'")
    assert measured(warehouse)["era5_preliminary_months"] == 1
    drop_month(warehouse, Month(2023, 6))
    found = measured(warehouse)
    assert found["era5_months"]["dropped"] == 1
    assert found["era5_complete_until_timestamp_seconds"] == at("2023-06-01")
    assert found["era5_rows"] == may.rows + july.rows


def test_a_month_that_was_confirmed_counts_as_a_success(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    before = measured(warehouse)
    load_month(warehouse, flat_months())
    after = measured(warehouse)
    assert after["era5_load_attempts_total"] == before["era5_load_attempts_total"]
    assert after["era5_last_success_timestamp_seconds"] > before["era5_last_success_timestamp_seconds"]


def test_an_empty_database_has_no_ages_and_zeros_elsewhere(empty_warehouse: Warehouse) -> None:
    for is_created in (False, True):
        if is_created:
            created(empty_warehouse)
        found = measured(empty_warehouse)
        if not is_created:  # reading created nothing
            assert ask(empty_warehouse.url, "SELECT to_regnamespace('era5') IS NULL AND to_regclass('weather') IS NULL")
        assert not {name for name in found if "timestamp" in name or "age" in name or "recent" in name}
        assert (found["era5_rows"], found["era5_raw_bytes"], found["era5_running_loads"]) == (0, 0, 0)
        assert set(found["era5_months"].values()) == set(found["era5_load_attempts_total"].values()) == {0}
        assert "era5_overdue_months" not in found
    with empty_warehouse.connect() as connection:
        assert connection.execute("SELECT count(*) FROM era5.load_attempt").fetchone() == (0,)


def created(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        ensure_schema(connection)


def test_a_reader_gets_the_same_numbers(host_url: str, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    roles = Roles.named(f"e5m{os.getpid()}")
    try:
        with warehouse.connect() as connection:
            ensure_roles(connection, roles)
            # Autovacuum adds maps of free space to the bytes of a table: leave it nothing to do between two readings.
            connection.execute("VACUUM")
        with fresh_role(host_url) as login:
            with psycopg.connect(host_url, autocommit=True) as connection:
                connection.execute(f"GRANT {roles.reader} TO {login}".encode())
            reader = Warehouse(with_user(warehouse.url, login))
            of_reader, of_owner = measured(reader), measured(warehouse)
            with pytest.raises(psycopg.errors.InsufficientPrivilege), reader.connect() as connection:
                connection.execute("DELETE FROM era5.ledger")
    finally:
        with psycopg.connect(warehouse.url, autocommit=True) as connection:
            for role in (roles.reader, roles.loader, roles.owner):
                connection.execute(f"REASSIGN OWNED BY {role} TO CURRENT_USER; DROP OWNED BY {role}".encode())
                connection.execute(f"DROP ROLE {role}".encode())
    for found in (of_reader, of_owner):
        for name in ("era5_data_age_seconds", "era5_last_success_age_seconds"):
            found.pop(name)
    assert of_reader == of_owner


def test_a_locked_table_has_no_bytes_and_all_else(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    with warehouse.connect() as holder, holder.transaction():
        holder.execute("LOCK TABLE weather IN ACCESS EXCLUSIVE MODE")
        with warehouse.connect() as connection:
            numbers = read_numbers(connection)
    assert (numbers.is_locked, numbers.table_bytes, len(numbers.months)) == (True, None, 1)


def test_the_number_of_series_does_not_grow_with_the_months(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07"))
    few = measured(warehouse)
    with warehouse.connect() as connection:
        for month in month_range(Month(1940, 1), Month(2023, 6)):
            values = {"month": month.start.date()}
            connection.execute(
                "INSERT INTO era5.ledger SELECT (jsonb_populate_record(l, jsonb_build_object('month', %(month)s))).* "
                "FROM era5.ledger l WHERE month = '2023-07-01'",
                values,
            )
            connection.execute(
                "INSERT INTO era5.load_attempt (month, outcome, finished_at) VALUES (%(month)s, 'loaded', now())",
                values,
            )
    many = measured(warehouse)
    assert many["era5_months"]["loaded"] == 1003
    assert [len(v) if isinstance(v, dict) else 1 for v in many.values()] == [
        len(v) if isinstance(v, dict) else 1 for v in few.values()
    ]
    assert len(measured(warehouse, by_month=True)["era5_month_rows"]) == 1003


def test_the_due_month_leaves_time_to_load() -> None:
    assert due_month(datetime(2026, 11, 8, 23, tzinfo=UTC), 6) == Month(2026, 9)
    assert due_month(datetime(2026, 11, 9, tzinfo=UTC), 6) == Month(2026, 10)
