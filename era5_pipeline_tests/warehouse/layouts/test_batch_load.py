"""`warehouse.layouts.batch_load`, on the Community edition: batches are the server's own, or rows are sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.errors import WarehouseError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.compiled import is_available
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.layouts import batch_codec, batch_load
from era5_pipeline.warehouse.layouts.batches import BatchError, MonthEncoder, Rows
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.hypertable import make_calendar_chunk
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.layouts import golden_batches
from era5_pipeline_tests.warehouse.layouts.golden_batches import COLUMNS, HOURS, MONTH, month_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host


@pytest.fixture(autouse=True)
def _community(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    if host.license != "timescale":
        pytest.skip("no columnstore in this edition: SHOW timescaledb.license is not timescale")
    if not is_available():
        pytest.skip("numba does not compile here: NUMBA_DISABLE_JIT")
    # With --batches off too.
    monkeypatch.setattr(load_month, "__kwdefaults__", {**(load_month.__kwdefaults__ or {}), "batches": True})


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_server_makes_the_same_batches_of_up_to_1000_rows(shared_warehouse: Warehouse, data: st.DataObject) -> None:
    """Every half hour: a month has no more than 744 hours."""
    count = data.draw(st.integers(1, batch_codec.BATCH_ROWS) | st.just(batch_codec.BATCH_ROWS))
    fill = st.sampled_from([np.nan, 0.0, 271.25])
    values = data.draw(hnp.arrays(np.float32, (2, 1, count), elements=FLOATS, fill=fill))
    hours = HOURS[0] + np.arange(count)
    rows = Rows.joined([month_rows(np.array([9]), values, hours)])
    rows = replace(rows, times=rows.times[0] + np.arange(count) * 1_800_000_000)
    with shared_warehouse.connect() as connection:
        make_calendar_chunk(connection, MONTH)
        with connection.transaction(force_rollback=True):
            Columnstore.compress_directly(connection)
            batch_load.copy_rows(connection, COLUMNS, [rows])
            batch_load.require_same(connection, batch_load.batch_table(connection, MONTH), COLUMNS, [rows])


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


def test_a_month_of_era5_land_is_loaded_as_batches(warehouse: Warehouse, tmp_path: Path) -> None:
    """Its degrees, such as 50.9, are not exact in float4: ours are the bits of flat files, by index."""
    land = replace(warehouse, dataset=ERA5_LAND)
    with land.connect() as connection:
        ensure_schema(connection)

    def flattened(area: str) -> FlatMonth:
        request = Request(ERA5_LAND.catalogue.find_all("t2m,tp"), Area.parse(area, ERA5_LAND.grid), dataset=ERA5_LAND)
        raw = SampleSource(tmp_path / "raw", request).fetch(Month(2023, 7))
        with without_pictures():
            return flatten_month(raw, tmp_path / area.replace("/", "_"), home=tmp_path, flat_format="parquet")

    flat, part = flattened("50.9/8.1/50.3/8.9"), flattened("50.9/8.1/50.8/8.1")
    held = (
        "SELECT count(*), count(DISTINCT latitude), count(DISTINCT longitude), sum(hashtext(w::text)) FROM {weather} w"
    )
    of_place = "SELECT count(*) FROM {weather} WHERE location_id = {schema}.at(50.9, 8.1)"
    found = []
    for batches in (False, True):
        loaded = load_month(land, flat, force=True, batches=batches)
        assert (loaded.is_read_back, loaded.notes) == (batches, ())
        assert verify_month(land, flat) == ()
        with land.connect() as connection:
            found.append(connection.execute(ERA5_LAND.sql(held)).fetchone())
            assert connection.execute(ERA5_LAND.sql(of_place)).fetchone() == (744,)
    assert found[0] == found[1]
    assert found[0] is not None
    assert found[0][:3] == (7 * 9 * 744, 7, 9)
    # Two places are replaced, the others stay.
    assert load_month(land, part).is_read_back
    assert verify_month(land, part) == ()
    with land.connect() as connection:
        assert connection.execute(ERA5_LAND.sql(held)).fetchone()[:3] == found[0][:3]  # type: ignore[index]


def test_batches_replace_rows_and_rows_replace_batches(warehouse: Warehouse, month: FlatMonth) -> None:
    for batches in (False, True, True, False, True):
        assert load_month(warehouse, month, force=True, batches=batches).is_read_back == batches
        assert_holds(warehouse, month)


def test_other_locations_stay(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    north, south = flat_months(north=10.5), flat_months(north=-10.5, seed=2)
    for flat in (north, south, north):
        assert load_month(warehouse, flat, force=True).is_read_back
    assert verify_month(warehouse, north) == verify_month(warehouse, south) == ()


# What is done to the empty table, by the reason that the load then gives.
REASONS = {
    "batches would pass by the trigger mine": (
        "CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER mine BEFORE INSERT ON weather FOR EACH ROW EXECUTE FUNCTION mine()",
    ),
    "batches would pass by the constraint mine": (
        "ALTER TABLE weather ADD CONSTRAINT mine CHECK (temperature_2m > -200)",
    ),
    "batches would pass by the constraint of_places": (
        "CREATE TABLE places AS SELECT generate_series(1, 1038240) AS location_id",
        "ALTER TABLE places ADD PRIMARY KEY (location_id)",
        "ALTER TABLE weather ADD CONSTRAINT of_places FOREIGN KEY (location_id) REFERENCES places",
    ),
    "batches would pass by the unique index mine": ("CREATE UNIQUE INDEX mine ON weather (location_id, time)",),
    "batches would pass by NOT NULL of temperature_2m": ("ALTER TABLE weather ALTER temperature_2m SET NOT NULL",),
    "batches would pass by the default of mine": ("ALTER TABLE weather ADD COLUMN mine real DEFAULT 1",),
    # TimescaleDB 2.29 refuses it for tables with a columnstore.
    "batches would pass by row security": (
        "UPDATE pg_class SET relrowsecurity = true WHERE oid = 'weather'::regclass",
    ),
    "batches would pass by the continuous aggregate mine": (
        "CREATE MATERIALIZED VIEW mine WITH (timescaledb.continuous) AS SELECT time_bucket('1 day', time) AS day, "
        "max(temperature_2m) FROM weather GROUP BY 1 WITH NO DATA",
    ),
    "the month has 2 chunks": (
        "INSERT INTO weather (time) VALUES ('2023-07-15Z')",
        "INSERT INTO weather (time) VALUES ('2023-07-31Z')",
    ),
    "its chunk is not that of the month": (
        # June to August.
        """SELECT _timescaledb_functions.create_chunk('weather', '{"time": [1685577600000000, 1693526400000000]}')""",
    ),
    "its chunk has the status 11": (
        # Unordered batches.
        """SELECT _timescaledb_functions.create_chunk('weather', '{"time": [1688169600000000, 1690848000000000]}')""",
        "SET timescaledb.enable_direct_compress_insert = on",
        "INSERT INTO weather (time, location_id, latitude, longitude) "
        "SELECT '2023-07-01Z'::timestamptz + i * interval '1 hour', 1, 90, 0 FROM generate_series(1, 700) i",
    ),
    "its batches are by location_id, in the order of time": (
        "ALTER TABLE weather SET (timescaledb.segmentby = 'location_id')",
    ),
    "in the order of time DESC": ("ALTER TABLE weather SET (timescaledb.orderby = 'time DESC')",),
    "the server makes several batches of location": (
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timescaledb.compression_batch_size_limit = 500', "
        "current_database()); END $$",
    ),
    "its table of batches has unknown columns: _ts_meta_v2_max_temperature_2m": (
        "ALTER TABLE weather SET (timescaledb.sparse_index = 'minmax(temperature_2m)')",
    ),
    "its table of batches has unknown columns: mine": ("ALTER TABLE weather ADD COLUMN mine real",),
}


@pytest.mark.parametrize("reason", REASONS)
def test_rows_are_sent_where_batches_would_not_be_the_same(
    warehouse: Warehouse, flat_months: FlatMonths, reason: str
) -> None:
    month = flat_months()
    with warehouse.connect() as connection:
        for statement in REASONS[reason]:
            connection.execute(statement.encode())
    loaded = load_month(warehouse, month)
    assert not loaded.is_read_back
    assert any(note.startswith("2023-07: loaded as rows, not as finished batches: ") for note in loaded.notes)
    assert reason in " ".join(loaded.notes)
    assert verify_month(warehouse, month) == ()


# By classes of errors: 0A, 42, 22 and XX.
@pytest.mark.parametrize(
    "condition", ["feature_not_supported", "insufficient_privilege", "data_exception", "internal_error"]
)
def test_a_server_that_refuses_batches_gets_rows(
    warehouse: Warehouse, month: FlatMonth, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    def refuse(connection: psycopg.Connection, _: Month) -> None:
        connection.execute(f"DO $$ BEGIN RAISE {condition} USING MESSAGE = 'no batches here'; END $$".encode())

    monkeypatch.setattr(batch_load, "batch_table", refuse)
    loaded = load_month(warehouse, month)
    assert "not as finished batches: no batches here" in " ".join(loaded.notes)
    assert_holds(warehouse, month)


def test_locations_with_more_hours_than_a_batch_holds_get_rows(
    warehouse: Warehouse, month: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_codec, "BATCH_ROWS", 743)
    assert "a location has more than 743 rows" in " ".join(load_month(warehouse, month).notes)
    assert_holds(warehouse, month)


def test_a_frozen_chunk_is_not_written_past(warehouse: Warehouse, month: FlatMonth) -> None:
    """It takes no rows either: the load fails, and the month stays."""
    load_month(warehouse, month)
    with warehouse.connect() as connection:
        connection.execute("SELECT _timescaledb_functions.freeze_chunk(c) FROM show_chunks('weather') c")
        with pytest.raises(BatchError, match="its chunk has the status 13"):
            batch_load.batch_table(connection, month.month)
    with pytest.raises(WarehouseError, match="frozen"):
        load_month(warehouse, month, force=True)
    assert_holds(warehouse, month)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("attname = '_ts_meta_v3' WHERE attname = '_ts_meta_v2_last_time'", "has unknown columns: _ts_meta_v3 time"),
        ("atttypid = 'int8'::regtype WHERE attname = '_ts_meta_count'", "has unknown columns: _ts_meta_count bigint"),
        ("attname = 't2m' WHERE attname = 'temperature_2m'", "has unknown columns: t2m _timescaledb_internal.comp"),
        ("attisdropped = true WHERE attname = '_ts_meta_v2_last_time'", "lacks columns: _ts_meta_v2_last_time time"),
    ],
)
def test_a_table_of_batches_of_another_form_is_refused(
    warehouse: Warehouse, flat_months: FlatMonths, change: str, reason: str
) -> None:
    """As another version of TimescaleDB may make it; 2.28 refuses to change it otherwise than in the catalogue."""
    month = flat_months()
    load_month(warehouse, month)
    with warehouse.connect() as connection, connection.transaction(force_rollback=True):
        table = batch_load.batch_table(connection, month.month).name.as_string(connection)
        connection.execute(f"UPDATE pg_attribute SET {change} AND attrelid = %s::regclass".encode(), (table,))
        with pytest.raises(BatchError, match=f"its table of batches {reason}"):
            batch_load.batch_table(connection, month.month)


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
    monkeypatch.setattr(batch_load, "TESTED_VERSIONS", frozenset({"2.1"}))
    loaded = load_month(warehouse, month)
    assert not loaded.is_read_back
    assert "is not among those whose batches were compared (2.1)" in " ".join(loaded.notes)
    assert load_month(warehouse, month, batches=False, force=True).notes == ()


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


# In the order of a batch.
FIELDS = (*batch_codec.BATCH_COLUMNS, "temperature_2m", "total_precipitation")


def test_every_field_that_is_changed_on_its_way_is_noticed(
    warehouse: Warehouse, month: FlatMonth, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each metadata field and each compressed column, in the batch of one location that is no canary."""
    own = MonthEncoder.tuples
    changed = ""

    def tuples(self: MonthEncoder) -> Iterator[tuple[memoryview, int]]:
        for data, rows in own(self):
            made = bytearray(data)
            at = 2
            for field in FIELDS:
                length = int.from_bytes(made[at : at + 4], "big")
                if field == changed:
                    made[at + 4 + length - (1 if length <= 8 else 4)] ^= 1  # in blobs, within the last 64 bits
                at += 4 + length
            yield memoryview(made), rows

    monkeypatch.setattr(MonthEncoder, "tuples", tuples)
    assert load_month(warehouse, month).is_read_back
    unnoticed = []
    for field in FIELDS:
        changed = field
        loaded = load_month(warehouse, month, force=True)
        if loaded.is_read_back or "loaded as rows, not as finished batches: " not in " ".join(loaded.notes):
            unnoticed.append(changed)
        assert verify_month(warehouse, month) == (), changed
    assert unnoticed == []


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


def test_batches_beside_those_that_the_server_made_of_rows(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """A chunk with both, and where the server can, rows compressed with the adaptive compressor, which ours are not."""
    with warehouse.connect() as connection:
        connection.execute(
            "DO $$ BEGIN IF EXISTS (SELECT FROM pg_settings WHERE name = 'timescaledb.enable_aic_compression') THEN "
            "EXECUTE format('ALTER DATABASE %I SET timescaledb.enable_aic_compression = on', current_database()); "
            "END IF; END $$"
        )
    north, south = (flat_months(points=(4, 5), missing=0.02, north=north) for north in (10.5, -10.5))
    found = []
    for batches in (False, True):
        for flat, as_batches in ((north, False), (south, batches)):
            assert load_month(warehouse, flat, force=True, batches=as_batches).is_read_back == as_batches
        with warehouse.connect() as connection:
            connection.execute("SET timezone = 'UTC'")
            found.append(answers(connection))
    assert found[0] == found[1]
    assert verify_month(warehouse, north) == verify_month(warehouse, south) == ()
