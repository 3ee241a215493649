"""The ledger's entries of months and of attempts to load them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from era5_pipeline import __version__
from era5_pipeline.flat.flat_month import month_fingerprint
from era5_pipeline.model.errors import ServerUnsuitableError, WarehouseError
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.urls import with_user
from era5_pipeline.warehouse.attempts import begin_attempt, end_attempt
from era5_pipeline.warehouse.ledger import read_ledger, read_overlapping
from era5_pipeline.warehouse.ledger_entry import LedgerFile
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.warehouse.loads import ask, loading, wait_until

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.ledger_entry import Attempt, LedgerEntry, MonthContents
    from era5_pipeline_tests.flat_months import FlatMonths

JULY = Month(2023, 7)


@pytest.fixture
def on_embedded(embedded_warehouse: Warehouse) -> Warehouse:
    return embedded_warehouse


def ledger(warehouse: Warehouse) -> list[MonthContents]:
    with warehouse.connect() as connection:
        return read_ledger(connection)


def only_part(warehouse: Warehouse) -> LedgerEntry:
    (month,) = ledger(warehouse)
    (part,) = month.parts
    return part


def attempt_of(month: MonthContents) -> Attempt:
    assert month.last_attempt is not None
    return month.last_attempt


def test_an_entry_describes_the_files_the_rows_and_the_load(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months(names=("t2m", "tp"), missing=0.01)
    flat = replace(
        flat,
        raw=replace(flat.raw, area="11/19/9/22", warnings=("passed over: a.grib",), variables=("temperature_2m",)),
        raw_seconds=1.5,
    )
    by_column = {facts.column: facts.missing_hours for facts in flat.columns}
    begun = datetime.now(tz=UTC)
    loaded = load_month(warehouse, flat)
    entry = only_part(warehouse)
    assert (entry.month, entry.part, entry.state) == (JULY, 1, "incomplete")  # values are missing
    assert (entry.location_ids, entry.is_cut) == (flat.location_ids, False)
    assert (entry.rows, entry.locations, entry.hours, entry.hours_expected) == (flat.rows, 6, 744, 744)
    assert entry.missing_hours.keys() == {facts.column for facts in flat.columns if facts.missing}
    assert all(runs == by_column[column] for column, runs in entry.missing_hours.items())
    assert (entry.source, entry.area, entry.warnings) == ("files", "11/19/9/22", ("passed over: a.grib",))
    assert entry.expver == {"temperature_2m": {"0001": 744}, "total_precipitation": {"0001": 744}}
    assert entry.columns == flat.columns
    assert [facts.column for facts in entry.columns] == ["temperature_2m", "total_precipitation"]
    assert len(entry.columns[0].digest) == 16
    (file,) = flat.raw.files
    assert entry.files == (LedgerFile(str(file.path), file.bytes, file.sha256),)
    assert (entry.raw_bytes, entry.flat_bytes) == (file.bytes, flat.bytes)
    assert entry.flat_file == LedgerFile(str(flat.path), flat.bytes, flat.sha256)
    assert entry.seconds["raw"] == 1.5
    assert entry.seconds["flat"] == flat.seconds
    assert 0 < entry.seconds["load"] <= loaded.seconds
    assert entry.software_versions["era5-pipeline"] == __version__
    assert entry.software_versions["server"] == loaded.server
    for name in ("numpy", "psycopg"):
        assert entry.software_versions[name] == version(name)
    assert entry.fingerprint == flat.fingerprint == month_fingerprint(flat.raw)
    assert entry.loaded_at is not None
    assert begun - timedelta(seconds=5) < entry.loaded_at < begun + timedelta(seconds=60)
    assert entry.checked_at == entry.loaded_at
    assert (entry.version, entry.preliminary_hours, entry.is_preliminary) == ("final", {}, False)
    assert (entry.revised_at, entry.revision) == (None, None)
    (month,) = ledger(warehouse)
    attempt = attempt_of(month)
    assert (attempt.outcome, attempt.error) == ("loaded", None)
    assert attempt.finished_at is not None
    assert attempt.started_at < attempt.finished_at


def test_an_entry_as_json_has_the_names_and_order_of_the_stored_row(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months(hours=24))
    for name in ("columns", "files", "versions", "expver", "seconds"):
        stored = ask(warehouse.url, f"SELECT {name} FROM era5.ledger")
        assert json.dumps(only_part(warehouse).to_json()[name]) == json.dumps(stored)
    (entry,) = ledger(warehouse)
    month = json.loads(json.dumps(entry.to_json()))
    assert (month["month"], month["state"], month["rows"], month["locations"]) == ("2023-07", "incomplete", 144, 6)
    assert month["missing_hours"]["temperature_2m"] == ["2023-07-02T00 to 2023-07-31T23"]
    assert (month["version"], month["source"], month["hours"]) == ("final", "files", 24)
    (value,) = month["parts"]
    assert (value["month"], value["state"], value["place"]) == ("2023-07", "incomplete", "10.5/20/10.25/20.5")
    assert value["missing_hours"] == month["missing_hours"]
    assert datetime.fromisoformat(value["loaded_at"]) == entry.loaded_at
    assert datetime.fromisoformat(value["checked_at"]) == only_part(warehouse).checked_at
    assert (value["version"], value["preliminary_hours"]) == ("final", {})
    assert (value["revised_at"], value["revision"]) == (None, None)
    assert month["last_attempt"]["outcome"] == "loaded"


def test_entries_are_ordered_by_month(on_embedded: Warehouse, flat_months: FlatMonths) -> None:
    for month in ("2023-07", "1999-12", "2023-06"):
        load_month(on_embedded, flat_months(month, points=(1, 1)))
    assert [str(entry.month) for entry in ledger(on_embedded)] == ["1999-12", "2023-06", "2023-07"]
    with on_embedded.connect() as connection:
        (entry,) = read_overlapping(connection, Month(1999, 12))
        assert entry.rows == 744
        assert read_overlapping(connection, Month(1999, 11)) == []


def test_a_month_that_was_never_loaded_is_loading_failed_or_interrupted(on_embedded: Warehouse) -> None:
    with on_embedded.connect() as connection:
        ensure_schema(connection)
        begin_attempt(connection, JULY)
        (entry,) = ledger(on_embedded)
        assert (entry.state, entry.rows, attempt_of(entry).outcome) == ("loading", 0, "running")
        end_attempt(connection, begin_attempt(connection, JULY), error="why not")
        (entry,) = ledger(on_embedded)
        assert (entry.state, attempt_of(entry).outcome, attempt_of(entry).error) == ("failed", "failed", "why not")
        value = json.loads(json.dumps(entry.to_json()))
        assert (value["loaded_at"], value["version"], value["parts"]) == (None, None, [])
        begin_attempt(connection, JULY)
    wait_until(lambda: attempt_of(ledger(on_embedded)[0]).outcome == "interrupted")
    (entry,) = ledger(on_embedded)
    assert (entry.state, attempt_of(entry).finished_at) == ("failed", None)


def test_a_running_load_is_visible_to_other_users(on_embedded: Warehouse, large: FlatMonth, server_url: str) -> None:
    """The server shows only the pid of another user's sessions."""
    with loading(on_embedded, large, pause=True), fresh_role(server_url) as role:
        with on_embedded.connect() as connection:
            connection.execute(f"GRANT USAGE ON SCHEMA era5 TO {role}")
            connection.execute(f"GRANT SELECT ON era5.ledger, era5.load_attempt TO {role}")
        theirs = Warehouse(with_user(on_embedded.url, role))
        (entry,) = ledger(theirs)
        assert (entry.state, attempt_of(entry).outcome) == ("loading", "running")
        with on_embedded.connect() as connection:
            connection.execute(f"DROP OWNED BY {role}")


def test_reading_the_ledger_without_privilege_is_refused(on_embedded: Warehouse, server_url: str) -> None:
    with on_embedded.connect() as connection:
        ensure_schema(connection)
    with fresh_role(server_url) as role:
        url = with_user(on_embedded.url, role)
        with pytest.raises(ServerUnsuitableError, match="reading the ledger: permission denied"):
            ledger(Warehouse(url))


def test_the_ledger_never_contains_the_password(database_url: str, flat_months: FlatMonths) -> None:
    warehouse = Warehouse(database_url.replace("//postgres@", "//postgres:hunter2@"))
    load_month(warehouse, flat_months())
    with pytest.raises(WarehouseError) as failed:
        load_month(warehouse, replace(flat_months("2023-08"), rows=1))
    assert "hunter2" not in repr(failed.value) + str(failed.value)
    for table in ("SELECT l::text FROM era5.ledger l", "SELECT string_agg(a::text, '') FROM era5.load_attempt a"):
        text = ask(database_url, table)
        assert "2023-07-01" in text
        assert "hunter2" not in text


def test_file_names_that_are_not_unicode_are_escaped(on_embedded: Warehouse, flat_months: FlatMonths) -> None:
    """Linux allows names of bytes that are no Unicode."""
    flat = flat_months(points=(1, 1))
    odd = replace(flat.raw.files[0], path=Path("/data/M\udce4rz 'quoted\" ünï.nc"))
    load_month(on_embedded, replace(flat, raw=replace(flat.raw, files=(odd,), warnings=("passed over: M\udce4rz",))))
    entry = only_part(on_embedded)
    assert entry.files[0].path == "/data/M\\udce4rz 'quoted\" ünï.nc"
    assert entry.warnings == ("passed over: M\\udce4rz",)
