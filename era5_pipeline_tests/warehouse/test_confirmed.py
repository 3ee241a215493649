"""Months that another source confirms: equal values within the quantum leave the rows, and the ledger says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, LiteralString

import psycopg
import pytest
from psycopg import sql

from era5_pipeline.flat.checks import table_outcomes
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import RefusedError, WarehouseError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.source_kinds import BY_AGE, Snapshot
from era5_pipeline.monitor import verify as monitor_verify
from era5_pipeline.read.credit import read_origin
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.changes import may_confirm
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.loads import ask, wait_until
from era5_pipeline_tests.warehouse.test_ledger import only_part
from era5_pipeline_tests.warehouse.test_load_month import last_attempt, versions_of_rows
from era5_pipeline_tests.warehouse.versioned_months import FINAL, PRELIMINARY, VersionedMonths

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import MonthContents

STEP = 2.0**-10
LITTLE, MORE = {"t2m": 0.9 * STEP}, {"t2m": 4 * STEP}
BOTH = ("temperature_2m", "total_precipitation")
SNAPSHOT = Snapshot("T9H8SG2PVXWNY0QNJPJG", "2026-06-15T00:00:00+00:00")
DECEMBER = Month(2024, 12)


def of_store(flat: FlatMonth, snapshot: Snapshot = SNAPSHOT) -> FlatMonth:
    """The month as a store without versions gives it, long after the month."""
    columns = tuple(replace(facts, expver={BY_AGE: facts.hours}) for facts in flat.columns)
    return replace(flat, columns=columns, raw=replace(flat.raw, source="earthmover", snapshot=snapshot))


def differences(warehouse: Warehouse, tmp_path: Path) -> tuple[str, ...]:
    """The differences that `era5 verify` finds in the month."""
    with warehouse.connect() as connection:
        return monitor_verify.verify_month(connection, Settings(home=tmp_path), DECEMBER).differences


# On every layout


def test_a_preliminary_month_is_confirmed_by_another_source_without_its_rows_being_written(
    warehouse: Warehouse, month_of: VersionedMonths, tmp_path: Path
) -> None:
    preliminary, final = month_of(PRELIMINARY), of_store(month_of(change=LITTLE))
    load_month(warehouse, preliminary)
    rows, before = versions_of_rows(warehouse), only_part(warehouse)
    loaded = load_month(warehouse, final)
    assert (loaded.changed, loaded.confirmed, loaded.columns_changed, loaded.replaced) == (False, True, (), ())
    assert versions_of_rows(warehouse) == rows
    assert_holds(warehouse, preliminary)

    part = only_part(warehouse)
    assert loaded.confirmation is not None
    assert loaded.confirmation == replace(part, checked_at=loaded.confirmation.checked_at)
    assert (before.version, part.version, part.is_preliminary) == ("preliminary", "final by age", False)
    assert (part.expver, part.preliminary_hours) == ({column: {BY_AGE: 744} for column in BOTH}, {})
    confirmed = part.confirmed
    assert confirmed is not None
    assert (confirmed.source, confirmed.snapshot, confirmed.fingerprint) == ("earthmover", SNAPSHOT, final.fingerprint)
    assert (confirmed.expver, confirmed.quanta) == (final.expver, dict(zip(BOTH, (STEP, 0.0), strict=True)))
    assert str(confirmed) == "earthmover, snapshot T9H8SG2PVXWNY0QNJPJG of 2026-06-15"
    assert part.to_json()["confirmed"]["snapshot"]["id"] == SNAPSHOT.id
    json.dumps(part.to_json())
    # All that describes the rows stays.
    assert part.unconfirmed() == replace(before, checked_at=part.checked_at)
    assert last_attempt(warehouse, "2024-12") == ("loaded", None)

    assert verify_month(warehouse, final) == verify_month(warehouse, preliminary) == ()
    assert differences(warehouse, tmp_path) == ()
    for flat in (final, preliminary):
        again = load_month(warehouse, flat)
        assert (again.changed, again.confirmed, again.columns_changed) == (False, False, ())
    assert versions_of_rows(warehouse) == rows
    assert only_part(warehouse).confirmed == confirmed


@pytest.mark.parametrize("version", [PRELIMINARY, FINAL])
def test_other_values_of_an_earlier_source_replace_the_rows(
    warehouse: Warehouse, month_of: VersionedMonths, version: str
) -> None:
    load_month(warehouse, month_of(version))
    revised = of_store(month_of(change=MORE))
    loaded = load_month(warehouse, revised)
    assert (loaded.changed, loaded.confirmed, loaded.columns_changed) == (True, False, ("temperature_2m",))
    assert [(part.source, part.rows) for part in loaded.replaced] == [("cds", revised.rows)]
    assert_holds(warehouse, revised)
    part = only_part(warehouse)
    assert (part.source, part.version, part.confirmed) == ("earthmover", "final by age", None)
    assert verify_month(warehouse, revised) == ()


def test_a_month_that_is_final_by_its_own_word_stays_so(warehouse: Warehouse, month_of: VersionedMonths) -> None:
    """But columns of which it is not get the version of the other source."""
    load_month(warehouse, month_of({"t2m": [FINAL] * 744, "tp": [FINAL] * 7 + [PRELIMINARY] * 737}))
    assert only_part(warehouse).version == "mixed"
    assert load_month(warehouse, of_store(month_of(change=LITTLE))).confirmed
    part = only_part(warehouse)
    assert (part.version, part.expver) == ("final by age", dict(zip(BOTH, ({FINAL: 744}, {BY_AGE: 744}), strict=True)))
    # A newer state of the store confirms it anew.
    newer = Snapshot("ZFKDHBCTBVHVXM3BQFV0", "2026-09-15T00:00:00+00:00")
    assert load_month(warehouse, of_store(month_of(change=LITTLE), newer)).confirmed
    confirmed = only_part(warehouse).confirmed
    assert confirmed is not None
    assert confirmed.snapshot == newer


def test_another_load_of_the_part_forgets_the_confirmation(warehouse: Warehouse, month_of: VersionedMonths) -> None:
    own, store = month_of(PRELIMINARY), of_store(month_of(change=LITTLE))
    for flat, force in ((own, True), (store, True), (month_of(FINAL, change=MORE), False)):
        load_month(warehouse, own, force=True)
        assert load_month(warehouse, store).confirmed
        assert load_month(warehouse, flat, force=force).changed
        part = only_part(warehouse)
        assert (part.confirmed, part.source, part.expver) == (None, flat.raw.source, flat.expver)
        assert_holds(warehouse, flat)


# Parts that change afterwards


def test_a_confirmed_part_gets_other_columns_and_loses_places(
    embedded_warehouse: Warehouse, month_of: VersionedMonths
) -> None:
    warehouse = embedded_warehouse
    load_month(warehouse, month_of(PRELIMINARY))
    load_month(warehouse, of_store(month_of(change=LITTLE)))
    confirmed = only_part(warehouse).confirmed
    load_month(warehouse, month_of(FINAL, names=("u10",)))
    part = only_part(warehouse)
    assert part.confirmed == confirmed
    assert part.expver == {**{column: {BY_AGE: 744} for column in BOTH}, "zonal_wind_10m": {FINAL: 744}}
    assert part.version == "final by age"
    # Of some places: what is left is as it was.
    load_month(warehouse, month_of(FINAL, names=("t2m", "tp", "u10"), north=10.75))
    (contents,) = ledger_of(warehouse)
    cut = next(one for one in contents.parts if one.part == part.part)
    assert (cut.is_cut, cut.confirmed, cut.expver) == (True, confirmed, part.expver)
    assert drop_month(warehouse, DECEMBER, cut.location_ids)
    history = "SELECT confirmed ->> 'source' FROM era5.ledger WHERE dropped_at IS NOT NULL"
    assert ask(warehouse.url, history) == "earthmover"


def ledger_of(warehouse: Warehouse) -> list[MonthContents]:
    with warehouse.connect() as connection:
        return read_ledger(connection)


def test_a_column_that_is_loaded_again_takes_the_confirmation_away(
    embedded_warehouse: Warehouse, month_of: VersionedMonths
) -> None:
    """It was of all columns; the others have the version of their own files again."""
    warehouse = embedded_warehouse
    load_month(warehouse, month_of(PRELIMINARY, names=("t2m",)))
    load_month(warehouse, month_of(PRELIMINARY, names=("tp",)))
    assert load_month(warehouse, of_store(month_of(change=LITTLE))).confirmed
    assert only_part(warehouse).version == "final by age"
    load_month(warehouse, month_of(FINAL, names=("tp",), change={"tp": 1e-6}))
    part = only_part(warehouse)
    assert part.confirmed is None
    assert part.expver == dict(zip(BOTH, ({PRELIMINARY: 744}, {FINAL: 744}), strict=True))
    assert (part.version, tuple(part.preliminary_hours)) == ("mixed", ("temperature_2m",))
    assert ask(warehouse.url, "SELECT version FROM era5.ledger") == "mixed"


# What is not compared


def test_only_another_service_with_as_much_may_confirm(
    embedded_warehouse: Warehouse, month_of: VersionedMonths
) -> None:
    warehouse = embedded_warehouse
    load_month(warehouse, month_of(FINAL))
    part, store = only_part(warehouse), of_store(month_of())
    assert may_confirm(part, store)
    of_store_before = of_store(month_of())
    for other in (
        month_of(),
        month_of(source="files"),
        month_of(source="sample"),
        of_store(month_of(north=11.0)),
        of_store(month_of(names=("t2m",))),
        of_store(month_of(names=("t2m", "tp", "u10"))),
        of_store(month_of(hours=743)),
        of_store(month_of(missing=0.01)),
        replace(of_store_before, raw=replace(of_store_before.raw, snapshot=None)),  # loses the version
    ):
        assert not may_confirm(part, other)
    assert not may_confirm(replace(part, is_cut=True), store)
    assert not may_confirm(replace(part, source="files"), store)


@pytest.mark.parametrize("which", ["minimum", "maximum", "mean"])
def test_extremes_and_means_that_differ_tell_that_values_do(
    embedded_warehouse: Warehouse, month_of: VersionedMonths, which: str
) -> None:
    load_month(embedded_warehouse, month_of(PRELIMINARY))
    store = of_store(month_of())
    temperature, *others = store.columns
    for change, may in ((0.9 * STEP, True), (1.1 * STEP, False)):
        changed = replace(temperature, **{which: getattr(temperature, which) + change})
        assert may_confirm(only_part(embedded_warehouse), replace(store, columns=(changed, *others))) == may


def test_less_is_refused_as_ever(embedded_warehouse: Warehouse, month_of: VersionedMonths) -> None:
    load_month(embedded_warehouse, month_of(FINAL))
    with pytest.raises(RefusedError, match="would lose final data"):
        load_month(embedded_warehouse, month_of(PRELIMINARY, change=LITTLE, source="arco"))
    loaded = load_month(embedded_warehouse, month_of(PRELIMINARY, change=LITTLE, source="arco"), replace_more=True)
    assert (loaded.changed, only_part(embedded_warehouse).version) == (True, "preliminary")


def test_rows_that_were_changed_by_others_are_not_confirmed(
    embedded_warehouse: Warehouse, month_of: VersionedMonths
) -> None:
    load_month(embedded_warehouse, month_of(FINAL))
    with embedded_warehouse.connect() as connection:
        connection.execute("UPDATE weather SET total_precipitation = NULL WHERE time = '2024-12-24 00:00Z'")
    store = of_store(month_of(change=LITTLE))
    assert load_month(embedded_warehouse, store).changed
    assert_holds(embedded_warehouse, store)


# Answers


def test_answers_say_who_confirmed_the_values(embedded_warehouse: Warehouse, month_of: VersionedMonths) -> None:
    warehouse = embedded_warehouse
    everything = {"location_ids": None, "first": None, "last": None}
    load_month(warehouse, month_of(PRELIMINARY))
    load_month(warehouse, month_of(PRELIMINARY, month="2024-11"))
    with warehouse.connect() as connection:
        tag = connection.execute(read_sql("answer_version", ERA5), everything).fetchone()
        assert "confirmed_by" not in read_origin(connection, None, None).attributes
        load_month(warehouse, of_store(month_of(change=LITTLE)))
        assert connection.execute(read_sql("answer_version", ERA5), everything).fetchone() != tag
        for columns in (None, ["temperature_2m"]):
            origin = read_origin(connection, None, None, None, columns)
            said = "earthmover, snapshot T9H8SG2PVXWNY0QNJPJG of 2026-06-15: 2024-12"
            assert (origin.sources, origin.attributes["confirmed_by"]) == (("cds",), said)
            assert origin.era5_versions == "final by age: 2024-12; preliminary: 2024-11"
        assert "confirmed_by" not in read_origin(connection, None, None, None, ["snowfall"]).attributes
        hours = connection.execute("SELECT DISTINCT month FROM era5.preliminary_hours").fetchall()
    assert [day.month for (day,) in hours] == [11]
    words = [one.description for one in table_outcomes(month_of(), (), within_quantum=True)]
    assert words[1] == "2 columns equal within the quantum of each variable"


# Kills


_PROGRAM = """
import json, os, sys
from era5_pipeline.flat.flat_month import FlatMonth
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
load_month(Warehouse(os.environ["URL"]), FlatMonth.from_json(json.load(sys.stdin)))
"""


@pytest.mark.parametrize(("locked", "mode"), [("weather", "ACCESS EXCLUSIVE"), ("era5.ledger", "SHARE")])
def test_a_confirmation_that_is_killed_leaves_the_month_as_it_was(
    warehouse: Warehouse, month_of: VersionedMonths, locked: LiteralString, mode: LiteralString
) -> None:
    """While it waits to read the rows, and while it waits to write the ledger."""
    store = of_store(month_of(change=LITTLE))
    load_month(warehouse, month_of(PRELIMINARY))
    rows, before = versions_of_rows(warehouse), only_part(warehouse)
    with psycopg.connect(warehouse.url) as holder:
        holder.execute(sql.SQL("LOCK TABLE {} IN {} MODE").format(sql.SQL(locked), sql.SQL(mode)))
        with subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, text=True, env=os.environ | {"URL": warehouse.url}
        ) as process:
            assert process.stdin
            json.dump(store.to_json(), process.stdin)
            process.stdin.close()
            waits = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
            wait_until(lambda: process.poll() is not None or ask(warehouse.url, waits, holder.info.backend_pid) > 0)
            process.kill()
            assert process.wait() == -signal.SIGKILL
    assert versions_of_rows(warehouse) == rows
    assert replace(only_part(warehouse), checked_at=before.checked_at) == before
    assert load_month(warehouse, store).confirmed
    assert versions_of_rows(warehouse) == rows


def test_a_confirmation_that_fails_is_recorded(embedded_warehouse: Warehouse, month_of: VersionedMonths) -> None:
    load_month(embedded_warehouse, month_of(PRELIMINARY))
    with embedded_warehouse.connect() as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ledger is closed'; END $$"
        )
        connection.execute("CREATE TRIGGER refuse BEFORE UPDATE ON era5.ledger FOR EACH ROW EXECUTE FUNCTION refuse()")
    before = only_part(embedded_warehouse)
    with pytest.raises(WarehouseError, match="the ledger is closed"):
        load_month(embedded_warehouse, of_store(month_of(change=LITTLE)))
    assert only_part(embedded_warehouse) == before
    outcome, error = last_attempt(embedded_warehouse, "2024-12")
    assert (outcome, "the ledger is closed" in str(error)) == ("failed", True)
