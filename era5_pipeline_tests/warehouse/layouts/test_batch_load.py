"""`warehouse.layouts.batch_load`, on the Community edition: batches are the server's own, or rows are sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from era5_pipeline.runtime.compiled import is_available
from era5_pipeline.warehouse.layouts import batch_load
from era5_pipeline.warehouse.layouts.batches import Rows
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.hypertable import make_calendar_chunk
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.layouts import golden_batches
from era5_pipeline_tests.warehouse.layouts.golden_batches import COLUMNS, HOURS, MONTH, month_rows

if TYPE_CHECKING:
    import numpy.typing as npt
    import psycopg

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host


@pytest.fixture(autouse=True)
def _community(host: Host) -> None:
    if host.license != "timescale":
        pytest.skip("no columnstore in this edition: SHOW timescaledb.license is not timescale")
    if not is_available():
        pytest.skip("numba is told not to compile: NUMBA_DISABLE_JIT")


# --- The same bytes ---


FLOATS = st.one_of(
    st.floats(width=32, allow_nan=False),
    st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), 1e-45, -1e-45, float("nan"), 20.0]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_server_makes_the_same_batches(shared_warehouse: Warehouse, data: st.DataObject) -> None:
    """Values may be anything or NULL, at any hours of the month."""
    hours = np.array(sorted(data.draw(st.sets(st.integers(0, HOURS.size - 1), min_size=1)))) + HOURS[0]
    fill = data.draw(st.sampled_from([None, 0.0, 271.25]))
    filled = FLOATS if fill is None else st.just(fill)
    shape = (2, 3, hours.size)
    values = data.draw(hnp.arrays(np.float32, shape, elements=FLOATS, fill=filled))
    if data.draw(st.booleans()):  # like weather: it changes a little from hour to hour
        smooth = np.sin(np.arange(hours.size) / 4) * data.draw(st.sampled_from([0.1, 10.0]))
        values = np.broadcast_to(smooth, shape).astype(np.float32)
    with shared_warehouse.connect() as connection:
        make_calendar_chunk(connection, MONTH)
        with connection.transaction(force_rollback=True):
            Columnstore.compress_directly(connection)
            rows = [
                Rows.joined([month_rows(np.array([number]), values[:, [place]], hours)])
                for place, number in enumerate((1, 77_000, 1_038_240))
            ]
            batch_load.copy_rows(connection, COLUMNS, rows)
            table = batch_load.batch_table(connection, MONTH)
            batch_load.require_same(connection, table, COLUMNS, rows)


def test_the_server_makes_the_golden_batches(shared_warehouse: Warehouse) -> None:
    rows = golden_batches.rows_by_name()
    made = golden_batches.batches_of_server(shared_warehouse, rows.values())
    assert dict(zip(rows, made, strict=True)) == golden_batches.golden()


# --- A month ---


@pytest.fixture
def month(flat_months: FlatMonths) -> FlatMonth:
    """With NULLs, and some hundred locations."""
    return flat_months(points=(12, 20), missing=0.01)


def test_a_month_is_loaded_as_batches_and_read_back(warehouse: Warehouse, month: FlatMonth) -> None:
    loaded = load_month(warehouse, month)
    assert loaded.is_read_back
    assert loaded.notes == ()
    assert loaded.rows == month.rows
    assert_holds(warehouse, month)
    assert verify_month(warehouse, month) == ()


def test_rows_are_sent_if_batches_are_not_wanted(warehouse: Warehouse, month: FlatMonth) -> None:
    loaded = load_month(warehouse, month, batches=False)
    assert not loaded.is_read_back
    assert loaded.notes == ()
    assert_holds(warehouse, month)


def test_batches_replace_rows_and_rows_replace_batches(warehouse: Warehouse, month: FlatMonth) -> None:
    for batches in (False, True, True, False, True):
        assert load_month(warehouse, month, force=True, batches=batches).is_read_back == batches
        assert_holds(warehouse, month)


def test_other_locations_stay(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    north, south = flat_months(north=10.5), flat_months(north=-10.5, seed=2)
    for flat in (north, south, north):
        assert load_month(warehouse, flat, force=True).is_read_back
    assert verify_month(warehouse, north) == verify_month(warehouse, south) == ()


OBSTACLES = {
    "the trigger": (
        "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER mine BEFORE INSERT ON weather FOR EACH ROW EXECUTE FUNCTION mine()",
    ),
    "the constraint": ("ALTER TABLE weather ADD CONSTRAINT mine CHECK (temperature_2m > -200)",),
    "the default of": ("ALTER TABLE weather ADD COLUMN mine real DEFAULT 1",),
    "the continuous aggregate": (
        "CREATE MATERIALIZED VIEW mine WITH (timescaledb.continuous) AS SELECT time_bucket('1 day', time) AS day, "
        "max(temperature_2m) FROM weather GROUP BY 1 WITH NO DATA",
    ),
}


@pytest.mark.parametrize("what", OBSTACLES)
def test_what_batches_would_pass_by_gets_rows(warehouse: Warehouse, flat_months: FlatMonths, what: str) -> None:
    month = flat_months()
    with warehouse.connect() as connection:
        for statement in OBSTACLES[what]:
            connection.execute(statement.encode())
    loaded = load_month(warehouse, month)
    assert not loaded.is_read_back
    assert any(f"not as finished batches: batches would pass by {what}" in note for note in loaded.notes)
    assert verify_month(warehouse, month) == ()


def test_a_server_that_makes_other_batches_gets_rows(
    warehouse: Warehouse, month: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Rows.tuple
    monkeypatch.setattr(Rows, "tuple", lambda self: own(self)[:-1] + bytes([own(self)[-1] ^ 1]))
    loaded = load_month(warehouse, month)
    assert "the server makes another batch of location" in " ".join(loaded.notes)
    assert not loaded.is_read_back
    assert_holds(warehouse, month)


def test_a_version_that_was_not_tested_gets_rows(
    warehouse: Warehouse, month: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_load, "TESTED_VERSIONS", frozenset({"2.28"}))
    assert not load_month(warehouse, month).is_read_back


def test_batches_that_are_changed_on_their_way_are_noticed(
    warehouse: Warehouse, month: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One value of one location that is no canary."""
    own = Rows.encode

    def changed(
        self: Rows, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]
    ) -> memoryview:
        if starts.size > 1:
            self.values[0, starts[-2] + 5] ^= 1
        return own(self, starts, ends, out)

    monkeypatch.setattr(Rows, "encode", changed)
    loaded = load_month(warehouse, month)
    assert "other values of temperature_2m were read back" in " ".join(loaded.notes)
    assert_holds(warehouse, month)


def test_rows_beside_the_batches_are_noticed(
    warehouse: Warehouse, month: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session inserts a row while the month is loaded: it counts, and lies in no batch."""
    load_month(warehouse, month)
    own = batch_load.read_batches

    def insert_first(*arguments: Any) -> Any:
        with warehouse.connect() as connection:
            connection.execute(
                "INSERT INTO weather (time, location_id, latitude, longitude) VALUES ('2023-07-01 00:00Z', 1, 90, 0)"
            )
        return own(*arguments)

    monkeypatch.setattr(batch_load, "read_batches", insert_first)
    loaded = load_month(warehouse, month, force=True)
    assert "its chunk has rows that were inserted beside its batches" in " ".join(loaded.notes)
    assert not loaded.is_read_back


# --- The server reads and changes them as its own ---

QUERIES = (
    "SELECT * FROM weather ORDER BY location_id, time",
    "SELECT * FROM weather WHERE location_id = 700 ORDER BY time DESC",
    "SELECT time, location_id FROM weather ORDER BY time DESC, location_id DESC LIMIT 500",
    "SELECT location_id, min(time), max(time), count(*), count(temperature_2m), avg(temperature_2m) "
    "FROM weather GROUP BY 1 ORDER BY 1",
    "SELECT min(time), max(time), min(temperature_2m), max(total_precipitation) FROM weather",
    "SELECT location_id, max(time) FROM weather WHERE latitude > 9 GROUP BY 1 ORDER BY 1",
    "SELECT time_bucket('1 day', time) AS day, avg(temperature_2m) FROM weather GROUP BY 1 ORDER BY 1",
    "SELECT DISTINCT ON (location_id) location_id, time, temperature_2m FROM weather ORDER BY 1, 2 DESC",
    "SELECT count(*) FROM weather WHERE temperature_2m IS NULL",
)
CHANGES = (
    "UPDATE weather SET temperature_2m = temperature_2m + 1 WHERE time = '2023-07-04 05:00Z'",
    "UPDATE weather SET total_precipitation = NULL WHERE location_id = (SELECT max(location_id) FROM weather)",
    "DELETE FROM weather WHERE time >= '2023-07-09Z' AND time < '2023-07-10Z'",
    "DELETE FROM weather WHERE location_id = (SELECT min(location_id) FROM weather)",
    "INSERT INTO weather (time, location_id, latitude, longitude) VALUES ('2023-07-01 00:00Z', 1, 90, 0)",
    "SELECT compress_chunk(c) FROM show_chunks('weather') c",
    "SELECT decompress_chunk(c) FROM show_chunks('weather') c",
    "SELECT compress_chunk(c) FROM show_chunks('weather') c",
)


def answers(connection: psycopg.Connection) -> list[object]:
    """What the queries give, and what the table holds on each day."""
    days = [
        connection.execute(
            "SELECT location_id, time, temperature_2m, total_precipitation FROM weather "
            "WHERE time >= %(day)s AND time < %(day)s + interval '1 day' ORDER BY 1, 2",
            {"day": datetime(2023, 7, day, tzinfo=UTC)},
        ).fetchall()
        for day in range(1, 32)
    ]
    return [*(connection.execute(query.encode()).fetchall() for query in QUERIES), *days]


def test_queries_and_changes_give_the_same_as_with_rows(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    month = flat_months(points=(4, 5), missing=0.02)
    found = []
    for batches in (False, True):
        assert load_month(warehouse, month, force=True, batches=batches).is_read_back == batches
        with warehouse.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            given = [answers(connection)]
            for change in CHANGES:
                connection.execute(change.encode())
                given.append(answers(connection))
        found.append(given)
    for step, (by_rows, by_batches) in enumerate(zip(*found, strict=True)):
        assert by_rows == by_batches, ("at first", *CHANGES)[step]
