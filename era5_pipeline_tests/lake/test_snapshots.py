"""Snapshots and metadata files that a lake keeps, however many months come; what can be read of earlier ones."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from era5_pipeline.lake.pointer import seconds_unused
from era5_pipeline.lake.snapshots import list_snapshots, superfluous, superseded_before
from era5_pipeline_tests.lake.test_months import a_day_passes, load, rows_in, rows_of_lake, table_of

if TYPE_CHECKING:
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


def made(operations: str) -> list[Snapshot]:
    """A snapshot a minute: `a` added rows, `r` replaced some."""
    return [
        Snapshot(
            snapshot_id=number,
            parent_snapshot_id=number - 1 or None,
            sequence_number=number,
            timestamp_ms=number * 60_000,
            manifest_list=f"list-{number}",
            summary=Summary(operation=Operation.APPEND if letter == "a" else Operation.OVERWRITE),
        )
        for number, letter in enumerate(operations, start=1)
    ]


def kept(snapshots: list[Snapshot]) -> set[int]:
    return {one.snapshot_id for one in snapshots} - set(superfluous(snapshots))


def test_the_newest_are_kept_and_those_around_a_replacement() -> None:
    assert kept(made("a" * 10)) == set(range(1, 11))
    assert kept(made("a" * 1000)) == set(range(991, 1001))
    around = {30, 31, *range(52, 62)}
    assert kept(made("a" * 30 + "r" + "a" * 30)) == around
    assert kept(made("a" + "r" * 1000)) == set(range(901, 1002))
    # The next commit finds them by the replacement, which names the one before it.
    assert kept([one for one in made("a" * 30 + "r" + "a" * 30) if one.snapshot_id in around]) == around


def test_the_age_of_a_snapshot_counts_from_the_next() -> None:
    snapshots = made("aaar")
    assert superseded_before(snapshots, datetime.fromtimestamp(3 * 60 + 1, UTC)) == [1, 2]
    assert superseded_before(snapshots, datetime.fromtimestamp(9e6, UTC)) == [1, 2, 3]


def test_metadata_stays_small_and_a_replaced_month_readable(
    lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load(lake, embedded_warehouse, flat_months("2020-01", hours=1))
    before = rows_of_lake(lake, embedded_warehouse)
    load(lake, embedded_warehouse, flat_months("2020-01", hours=1, seed=2), replace_more=True)
    sizes = []
    for number in range(1, 33):
        load(lake, embedded_warehouse, flat_months(f"{2020 + number // 12}-{number % 12 + 1:02d}", hours=1))
        sizes.append(Path(table_of(lake, embedded_warehouse).metadata_location).stat().st_size)
    table = table_of(lake, embedded_warehouse)
    found = list_snapshots(table)
    assert [one.month for one in found[:2]] == ["2020-01", "2020-01"]
    assert len(found) == 2 + 10
    assert len(table.metadata.metadata_log) == 20
    assert sizes[-1] < 1.02 * sizes[-8]
    assert rows_in(table.scan(snapshot_id=found[0].snapshot_id).to_arrow()) == before
    # Readers may still be at the others: what belongs to them is there, and noted.
    with embedded_warehouse.connect() as connection:
        noted = seconds_unused(connection)
    assert len([name for name in noted if name.startswith("snap-")]) == 34 - 12
    assert all((Path(lake.place.address) / "weather" / "metadata" / name).exists() for name in noted)


def test_old_metadata_is_removed_after_a_day(
    lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    for number in range(12):
        load(lake, embedded_warehouse, flat_months(f"2020-{number + 1:02d}", hours=1))
    folder = Path(lake.place.address) / "weather" / "metadata"
    before = set(folder.iterdir())
    assert lake.after_commit(embedded_warehouse, 24) == ()
    assert set(folder.iterdir()) == before
    with embedded_warehouse.connect() as connection:
        noted = set(seconds_unused(connection))
    a_day_passes(embedded_warehouse)
    assert lake.after_commit(embedded_warehouse, 24) == ()
    assert {path.name for path in before - set(folder.iterdir())} == noted
    assert noted
    assert len(rows_of_lake(lake, embedded_warehouse)) == 12 * flat_months("2020-01", hours=1).rows
