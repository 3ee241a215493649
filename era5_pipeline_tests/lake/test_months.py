"""Months in the lake: the same rows as in the warehouse, at every moment, whatever fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from era5_pipeline.flat.bands import BAND_LOCATIONS
from era5_pipeline.lake.catalog import LakePlace
from era5_pipeline.lake.months import Lake, LakeCommit, files_of
from era5_pipeline.lake.upkeep import LakeVerifier, clean, read_both
from era5_pipeline.model.errors import RefusedError, StoreError, TransientError
from era5_pipeline.model.grid import Shift
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import Snapshot
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.flat_months import COLUMNS, rows_of_table
from era5_pipeline_tests.warehouse.versioned_months import VersionedMonths

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.commits import Committed
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import MonthContents
    from era5_pipeline.warehouse.load_month import Loaded
    from era5_pipeline_tests.flat_months import FlatMonths, Row

JULY, AUGUST = Month(2023, 7), Month(2023, 8)


def lake_at(address: str, home: Path) -> Lake:
    return Lake(LakePlace(address), open_store(address), home)


@pytest.fixture
def lake(store_address: str, tmp_path: Path) -> Lake:
    return lake_at(store_address, tmp_path / "home")


def load(lake: Lake, warehouse: Warehouse, flat: FlatMonth, **options: Any) -> tuple[Loaded, Committed]:
    with warehouse.connect() as connection:
        lake.require(connection)
    commit = LakeCommit(lake, flat, lake.stage(flat))
    loaded = load_month(warehouse, flat, alongside=commit, **options)
    assert commit.committed is not None
    return loaded, commit.committed


def table_of(lake: Lake, warehouse: Warehouse) -> Any:
    with warehouse.connect() as connection:
        return lake.open(connection)


def rows_in(table: pa.Table) -> list[Row]:
    ordered = table.sort_by([("location_id", "ascending"), ("time", "ascending")])
    nothing = [None] * len(ordered)
    columns = [ordered.column(name).to_pylist() if name in ordered.column_names else nothing for name in COLUMNS]
    return list(zip(*columns, strict=True))


def rows_of_lake(lake: Lake, warehouse: Warehouse) -> list[Row]:
    return rows_in(table_of(lake, warehouse).scan().to_arrow())


def assert_same(lake: Lake, warehouse: Warehouse) -> None:
    held, wanted = rows_of_lake(lake, warehouse), rows_of_table(warehouse)
    assert len(held) == len(wanted) > 0
    assert held == wanted


def snapshots(lake: Lake, warehouse: Warehouse) -> int:
    return len(table_of(lake, warehouse).metadata.snapshots)


def a_day_passes(warehouse: Warehouse) -> None:
    """Make all files that no snapshot needs a day older, by the database's clock."""
    with warehouse.connect() as connection:
        connection.execute(
            "UPDATE iceberg_namespace_properties SET property_value = (property_value::numeric - 86401)::text "
            "WHERE property_key LIKE 'era5.unused %'"
        )


def test_a_load_fills_table_and_lake(lake: Lake, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months(missing=0.1)
    _, committed = load(lake, warehouse, flat)
    assert (committed.files, committed.rows) == (1, flat.rows)
    load(lake, warehouse, flat_months("2023-08"))
    assert_same(lake, warehouse)
    table = table_of(lake, warehouse)
    (file,) = files_of(table, JULY)
    assert file.record_count == flat.rows
    summary = table.metadata.snapshots[0].summary
    assert summary["era5.month"] == "2023-07"
    assert summary["era5.fingerprint"] == flat.fingerprint
    assert summary["era5.interpolated"] is None
    assert (summary["era5.source"], summary["era5.version"]) == (flat.raw.source, flat.version)
    assert table.schema().find_field("temperature_2m").doc.endswith("; degC")


def test_a_snapshot_says_that_values_were_interpolated(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load(local_lake, warehouse, replace(flat_months(), shift=Shift(0.1, -0.05)))
    summary = table_of(local_lake, warehouse).metadata.snapshots[-1].summary
    assert summary["era5.interpolated"] == "interpolated by the store, shifted by 0.1 N 0.05 W"


def test_the_same_month_twice_is_one(lake: Lake, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months()
    load(lake, warehouse, flat)
    with warehouse.connect() as connection:
        for one, is_held in ((flat, True), (flat_months(seed=2), False)):
            assert (lake.held(connection, one.month, one.rows, (one.fingerprint,)) is not None) == is_held
    load(lake, warehouse, flat, force=True)
    assert_same(lake, warehouse)
    assert len(files_of(table_of(lake, warehouse), JULY)) == 1


def test_a_lake_that_was_set_later_gets_the_month_though_the_table_has_it(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months())
    loaded, committed = load(local_lake, warehouse, flat_months())
    assert not loaded.changed
    assert committed.rows == flat_months().rows
    assert_same(local_lake, warehouse)


def test_a_new_version_replaces_the_month_and_the_old_one_can_be_read(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load(local_lake, warehouse, flat_months())
    before = rows_of_table(warehouse)
    load(local_lake, warehouse, flat_months(seed=2), replace_more=True)
    assert_same(local_lake, warehouse)
    assert rows_of_table(warehouse) != before
    table = table_of(local_lake, warehouse)
    first, second = table.metadata.snapshots
    assert rows_in(table.scan(snapshot_id=first.snapshot_id).to_arrow()) == before
    assert second.summary is not None
    assert second.summary["deleted-records"] == second.summary["added-records"]


def test_areas_that_overlap(local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load(local_lake, warehouse, flat_months(points=(3, 3)))
    load(local_lake, warehouse, flat_months(points=(3, 3), north=10.25, west=20.25, seed=2), replace_more=True)
    assert_same(local_lake, warehouse)
    assert len(files_of(table_of(local_lake, warehouse), JULY)) == 2


def test_columns_that_are_added_later(local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load(local_lake, warehouse, flat_months(names=("t2m", "tp")))
    loaded, _ = load(local_lake, warehouse, flat_months(names=("tcc",), missing=0.2))
    assert loaded.kept_columns == ("temperature_2m", "total_precipitation")
    assert_same(local_lake, warehouse)
    # Other months have no values in the new column.
    load(local_lake, warehouse, flat_months("2023-08"))
    assert_same(local_lake, warehouse)


def test_a_month_that_another_program_replaced_meanwhile_is_not_left_out(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load(local_lake, warehouse, flat_months())
    waiting = local_lake.prepared(warehouse, flat_months())
    load(local_lake, warehouse, flat_months(seed=2), replace_more=True)
    with pytest.raises(TransientError, match="was replaced or dropped in the lake while"):
        load_month(warehouse, flat_months(), alongside=waiting, replace_more=True)
    assert_same(local_lake, warehouse)
    again = local_lake.prepared(warehouse, flat_months())
    load_month(warehouse, flat_months(), alongside=again, replace_more=True)
    assert_same(local_lake, warehouse)
    # Nothing happened meanwhile.
    load_month(warehouse, flat_months(), alongside=local_lake.prepared(warehouse, flat_months()))
    assert_same(local_lake, warehouse)


def of_store(flat: FlatMonth) -> FlatMonth:
    """The month as another service gives it."""
    return replace(flat, raw=replace(flat.raw, source="earthmover", snapshot=Snapshot("one", "2026-06-15T00:00:00Z")))


def test_a_month_that_another_source_confirms_stays_as_it_is(lake: Lake, warehouse: Warehouse, tmp_path: Path) -> None:
    """The files that would have replaced it are removed; of a month that the lake lacks, the table's is replaced."""
    month_of = VersionedMonths(tmp_path / "months")
    own, other = month_of(), of_store(month_of(change={"t2m": 0.0008}))
    load(lake, warehouse, own)
    files = {found.key for found in lake.store.objects()}
    rows = rows_of_lake(lake, warehouse)
    for _ in range(2):
        commit = lake.prepared(warehouse, other)
        load_month(warehouse, other, alongside=commit)
        assert {found.key for found in lake.store.objects()} == files
        assert commit.committed is not None
        assert (commit.committed.rows, commit.committed.changed, commit.notes) == (own.rows, False, ())
    (contents,) = in_ledger(warehouse)
    assert contents.parts[0].confirmed is not None
    assert rows_of_lake(lake, warehouse) == rows
    assert_same(lake, warehouse)

    november, of_november = month_of(month="2024-11"), of_store(month_of(month="2024-11", change={"t2m": 0.0008}))
    load_month(warehouse, november)
    assert load_month(warehouse, of_november).confirmed  # before the lake is set
    loaded = load_month(warehouse, of_november, alongside=lake.prepared(warehouse, of_november))
    assert loaded.changed
    assert [one.parts[0].confirmed is None for one in in_ledger(warehouse)] == [True, False]
    assert_same(lake, warehouse)


def in_ledger(warehouse: Warehouse) -> list[MonthContents]:
    with warehouse.connect() as connection:
        return read_ledger(connection)


def test_a_month_that_is_replaced_whole_is_not_read(
    local_lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    # Neighbours on one latitude: all ids between the bounds.
    load(local_lake, embedded_warehouse, flat_months(points=(1, 3)))
    load(local_lake, embedded_warehouse, flat_months(points=(1, 3), north=20.0))
    for file in (Path(local_lake.place.address) / "weather" / "data").rglob("*.parquet"):
        file.write_bytes(b"damaged")
    load(local_lake, embedded_warehouse, flat_months(points=(1, 3), seed=2), replace_more=True)
    load(local_lake, embedded_warehouse, flat_months(points=(1, 3), north=20.0, seed=2), replace_more=True)
    assert_same(local_lake, embedded_warehouse)


def spoil(lake: Lake, month: Month, fault: str) -> list[Path]:
    """Remove or damage the month's data files."""
    files = sorted((Path(lake.place.address) / "weather" / "data" / str(month)).glob("*.parquet"))
    for path in files:
        content = path.read_bytes()
        path.unlink()
        if fault != "lost":
            middle = len(content) // 2
            path.write_bytes(
                content[:middle] if fault == "cut off" else b"PAR1" + bytes(middle) + content[middle + 4 :]
            )
    return files


@pytest.mark.parametrize("fault", ["lost", "cut off", "damaged within"])
def test_a_lost_file_does_not_lock_its_month(
    local_lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths, fault: str
) -> None:
    lake, september = local_lake, Month(2023, 9)
    for month in (JULY, AUGUST, september):
        load(lake, embedded_warehouse, flat_months(str(month), points=(3, 3)))
    (of_july,), (of_august,) = spoil(lake, JULY, fault), spoil(lake, AUGUST, fault)
    with embedded_warehouse.connect() as connection:
        table, held = read_both(connection, lake)
        verifier = LakeVerifier(lake, table)
        found = [verifier.differences(contents) for contents in held]
    what = "lost" if fault == "lost" else "damaged"
    assert [len(lines) for lines in found] == [1, 1, 0]
    assert f"2023-07: the file {of_july.name} with" in found[0][0]
    assert found[1][0].endswith(f"rows is {what}")
    assert of_august.name in found[1][0]
    # The same files again, other values, and drops.
    _, committed = load(lake, embedded_warehouse, flat_months(points=(3, 3)), force=True)
    assert committed.lost == (of_july.name,)
    load(lake, embedded_warehouse, flat_months("2023-08", points=(3, 3), seed=2), replace_more=True)
    assert_same(lake, embedded_warehouse)
    spoil(lake, AUGUST, fault)
    drop_month(embedded_warehouse, AUGUST, alongside=partial(lake.remove, AUGUST))
    spoil(lake, september, fault)
    some = LocationSet.of_ids(flat_months(points=(3, 3)).location_ids.ids()[:4])
    drop_month(embedded_warehouse, september, some, alongside=partial(lake.remove, september))
    load(lake, embedded_warehouse, flat_months("2023-09", points=(3, 3)), force=True)
    assert_same(lake, embedded_warehouse)


def test_a_lost_file_that_had_other_places_too(
    local_lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    west, east = flat_months(points=(3, 3)), flat_months(points=(3, 3), west=20.25, seed=2)
    load(local_lake, embedded_warehouse, west)
    load(local_lake, embedded_warehouse, east, replace_more=True)
    spoil(local_lake, JULY, "lost")
    waiting = local_lake.prepared(embedded_warehouse, east, force=True)
    load_month(embedded_warehouse, east, alongside=waiting, force=True)
    assert len(waiting.notes) == 2
    assert all("was lost or damaged" in note and "era5 lake verify --from 2023-07" in note for note in waiting.notes)
    with embedded_warehouse.connect() as connection:
        table, (contents,) = read_both(connection, local_lake)
        assert LakeVerifier(local_lake, table).differences(contents) != ()
    # As verify advises, both.
    load(local_lake, embedded_warehouse, west, force=True, replace_more=True)
    load(local_lake, embedded_warehouse, east, force=True, replace_more=True)
    assert_same(local_lake, embedded_warehouse)


def test_columns_cannot_be_added_to_a_lost_file(
    local_lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load(local_lake, embedded_warehouse, flat_months(names=("t2m",)))
    spoil(local_lake, JULY, "lost")
    with pytest.raises(
        StoreError, match="a file of the month in the lake is lost or damaged, and with it columns beside"
    ) as caught:
        load(local_lake, embedded_warehouse, flat_months(names=("tcc",)))
    assert "--replace" in caught.value.remedy
    load(local_lake, embedded_warehouse, flat_months(names=("t2m", "tcc")), replace_more=True)
    assert_same(local_lake, embedded_warehouse)


def test_verify_sees_ledger_and_lake_of_one_moment(
    local_lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(local_lake, embedded_warehouse, flat_months())
    opened = Lake.open

    def open_and_load(lake: Lake, connection: psycopg.Connection[Any]) -> Any:
        """The lake, and then another program's load, before the ledger is read."""
        table = opened(lake, connection)
        monkeypatch.setattr(Lake, "open", opened)
        load(local_lake, embedded_warehouse, flat_months(seed=2), replace_more=True)
        return table

    monkeypatch.setattr(Lake, "open", open_and_load)
    with embedded_warehouse.connect() as connection:
        table, (contents,) = read_both(connection, local_lake)
    assert LakeVerifier(local_lake, table).differences(contents) == ()


def test_dropped_rows(local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load(local_lake, warehouse, flat_months(points=(3, 3)))
    load(local_lake, warehouse, flat_months("2023-08"))
    some = LocationSet.of_ids(flat_months(points=(3, 3)).location_ids.ids()[:4])
    drop_month(warehouse, JULY, some, alongside=partial(local_lake.remove, JULY))
    assert_same(local_lake, warehouse)
    drop_month(warehouse, JULY, alongside=partial(local_lake.remove, JULY))
    assert_same(local_lake, warehouse)
    assert files_of(table_of(local_lake, warehouse), JULY) == []


def test_a_month_of_several_bands(local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    # 60 degrees north of the pole, a band ends within a row of the grid.
    flat = flat_months(points=(2, 3), north=-74.75, west=-59.75, hours=None)
    load(local_lake, warehouse, flat)
    ids = flat.location_ids.ids()
    files = files_of(table_of(local_lake, warehouse), JULY)
    assert len(files) == len({int(number) // BAND_LOCATIONS for number in ids})
    assert_same(local_lake, warehouse)


def test_readers_see_the_old_month_or_the_new_one(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    versions = [flat_months(seed=seed) for seed in (1, 2)]
    contents = []
    for flat in versions:
        load(local_lake, warehouse, flat, replace_more=True)
        contents.append(rows_of_table(warehouse))
    seen: list[int] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.append(contents.index(rows_of_lake(local_lake, warehouse)))

    with ThreadPoolExecutor() as threads:
        reading = threads.submit(read)
        try:
            for number in range(4):
                load(local_lake, warehouse, versions[number % 2], replace_more=True, force=True)
        finally:
            stop.set()
        reading.result()
    assert set(seen) == {0, 1}
    assert_same(local_lake, warehouse)


@pytest.mark.parametrize("has_one", [False, True])
def test_months_loaded_at_the_same_time(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths, *, has_one: bool
) -> None:
    months = [flat_months(f"2023-{month:02d}") for month in range(1, 7)]
    if has_one:
        load(local_lake, warehouse, flat_months("2023-07"))
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(partial(load, local_lake, warehouse), months))
    assert_same(local_lake, warehouse)
    assert snapshots(local_lake, warehouse) == 6 + has_one


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_load_that_fails_changes_neither(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths, moment: str
) -> None:
    load(local_lake, warehouse, flat_months())
    before = rows_of_table(warehouse)

    class Failing(LakeCommit):
        @override
        def __call__(self, connection: psycopg.Connection[Any], *, keeps: bool) -> None:
            if moment == "after":
                super().__call__(connection, keeps=keeps)
            raise StoreError("the store is full", remedy="Free space.")

    other = flat_months(seed=2)
    with pytest.raises(StoreError):
        load_month(warehouse, other, alongside=Failing(local_lake, other, local_lake.stage(other)), replace_more=True)
    assert rows_of_table(warehouse) == before == rows_of_lake(local_lake, warehouse)
    load(local_lake, warehouse, flat_months(seed=2), replace_more=True)
    assert_same(local_lake, warehouse)


_KILLED = """
import json, os, signal, sys
from pathlib import Path
from era5_pipeline.flat.flat_month import FlatMonth
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.lake.test_months import lake_at

url, address, home, facts = sys.argv[1:]
flat = FlatMonth.from_json(json.loads(Path(facts).read_text()))
lake = lake_at(address, Path(home))
staged = lake.stage(flat)

def alongside(connection, *, keeps):
    staged.commit(connection, keeps=keeps)
    os.kill(os.getpid(), signal.SIGKILL)

load_month(Warehouse(url), flat, alongside=alongside, replace_more=True)
"""


def test_a_load_that_is_killed_between_files_and_commit(
    local_lake: Lake, warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    load(local_lake, warehouse, flat_months())
    before = rows_of_table(warehouse)
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(flat_months(seed=2).to_json()))
    arguments = [warehouse.url, local_lake.place.address, str(local_lake.home), str(facts)]
    killed = subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=False, timeout=600)
    assert killed.returncode == -signal.SIGKILL
    assert rows_of_table(warehouse) == before == rows_of_lake(local_lake, warehouse)
    with warehouse.connect() as connection:
        # What was left may as well be a load of which a restored database does not know.
        with pytest.raises(RefusedError, match="newer than what this database knows"):
            clean(connection, local_lake, keep=timedelta(days=1), orphans_after=timedelta())
        cleaned = clean(connection, local_lake, keep=timedelta(days=1), orphans_after=timedelta(), remove_newer=True)
        (contents,) = read_ledger(connection)
        assert LakeVerifier(local_lake, local_lake.open(connection)).differences(contents) == ()
    # The data file, a manifest of what comes and one of what goes, their list, and the new metadata.
    assert (cleaned.snapshots, cleaned.files) == (0, 5)
    assert rows_of_lake(local_lake, warehouse) == before
    load(local_lake, warehouse, flat_months(seed=2), replace_more=True)
    assert_same(local_lake, warehouse)
