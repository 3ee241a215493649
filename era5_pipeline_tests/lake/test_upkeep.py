"""Cleaning the lake: what it removes, and what it refuses to remove because it may be another database's."""

from __future__ import annotations

import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.engines import open_duckdb
from era5_pipeline.lake.catalog import LakePlace
from era5_pipeline.lake.snapshots import list_snapshots
from era5_pipeline.lake.upkeep import Cleaned, clean
from era5_pipeline.model.errors import Era5Error, RefusedError, UsageError
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.lake.test_months import assert_same, lake_at, load, table_of
from era5_pipeline_tests.servers import fresh_warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

PAGE = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
LONG_AGO = time.time() - 3 * 86_400


@pytest.fixture
def other(server_url: str) -> Iterator[Warehouse]:
    """Another database."""
    with fresh_warehouse(server_url) as warehouse:
        yield warehouse


def cleaned(lake: Lake, warehouse: Warehouse, *, remove_newer: bool = False) -> Cleaned:
    """Clean as `era5 lake clean` does by default, but all that this database does not need at once."""
    with warehouse.connect() as connection:
        return clean(connection, lake, keep=timedelta(0), orphans_after=timedelta(hours=24), remove_newer=remove_newer)


def grow_old(lake: Lake) -> set[str]:
    """Make all files three days old, and return their names."""
    files = [path for path in Path(lake.place.address).rglob("*") if path.is_file()]
    for path in files:
        os.utime(path, (LONG_AGO, LONG_AGO))
    return {path.name for path in files}


def names(lake: Lake) -> set[str]:
    return {path.name for path in Path(lake.place.address).rglob("*") if path.is_file()}


def data_files(lake: Lake) -> list[Path]:
    return list(Path(lake.place.address).rglob("*.parquet"))


def point_to(warehouse: Warehouse, metadata_location: str) -> None:
    with warehouse.connect() as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = %s", (metadata_location,))


def assert_nothing_removed(lake: Lake, warehouse: Warehouse, error: type[Era5Error], words: str) -> None:
    before = grow_old(lake)
    with pytest.raises(error, match=words):
        cleaned(lake, warehouse)
    assert names(lake) == before


def test_a_database_without_a_lake_removes_no_file(
    lake: Lake, embedded_warehouse: Warehouse, other: Warehouse, flat_months: FlatMonths
) -> None:
    with other.connect() as connection:
        assert clean(connection, lake, keep=timedelta(0), orphans_after=timedelta(0)) == Cleaned(0, 0, 0)
    load(lake, embedded_warehouse, flat_months())
    assert_nothing_removed(lake, other, UsageError, "this database has no lake")
    assert_same(lake, embedded_warehouse)


def test_a_place_with_the_lake_of_another_database_is_refused(
    lake: Lake, embedded_warehouse: Warehouse, other: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    load(lake, embedded_warehouse, flat_months())
    with pytest.raises(UsageError, match="a table that is not of this database"):
        load(lake, other, flat_months())
    # Two that began before this was refused.
    other_lake = lake_at(str(tmp_path / "other"), lake.home)
    (tmp_path / "other").mkdir()
    load(other_lake, other, flat_months())
    for path in (tmp_path / "other" / "weather").rglob("*"):
        if path.is_file():
            target = tmp_path / "lake" / path.relative_to(tmp_path / "other")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    assert_nothing_removed(lake, embedded_warehouse, UsageError, "another database's lake, too")


def test_the_lake_by_another_path_is_refused(
    lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    load(lake, embedded_warehouse, flat_months())
    link = tmp_path / "link"
    link.symlink_to(lake.place.address)
    by_link = lake_at(str(link), lake.home)
    assert_nothing_removed(by_link, embedded_warehouse, UsageError, "the lake of this database is at")
    (tmp_path / "empty").mkdir()
    moved = lake_at(str(tmp_path / "empty"), lake.home)
    with pytest.raises(UsageError) as caught:
        load(moved, embedded_warehouse, flat_months("2023-08"))
    assert f"ERA5_LAKE={lake.place.address}" in caught.value.remedy
    assert names(moved) == set()
    assert_same(lake, embedded_warehouse)


@pytest.mark.parametrize("address", ["s3://bucket/some/place/", "s3://bucket//some/place"])
def test_slashes_do_not_matter(address: str) -> None:
    assert (
        LakePlace(address).location == LakePlace("s3://bucket/some/place").location == "s3://bucket/some/place/weather"
    )


def test_a_restored_database_removes_no_newer_file(
    lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load(lake, embedded_warehouse, flat_months())
    saved = table_of(lake, embedded_warehouse).metadata_location
    load(lake, embedded_warehouse, flat_months("2023-08"))
    newest = table_of(lake, embedded_warehouse).metadata_location
    point_to(embedded_warehouse, saved)
    assert_nothing_removed(lake, embedded_warehouse, RefusedError, "newer than what this database knows")
    point_to(embedded_warehouse, newest)
    assert_same(lake, embedded_warehouse)
    point_to(embedded_warehouse, saved)
    # Data file, manifest, list of manifests, metadata.
    assert cleaned(lake, embedded_warehouse, remove_newer=True).files == 4
    assert table_of(lake, embedded_warehouse).scan().count() == flat_months().rows


def test_files_elsewhere_stop_it(
    lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    load(lake, embedded_warehouse, flat_months())
    renamed = tmp_path / "renamed"
    Path(lake.place.address).rename(renamed)
    Path(lake.place.address).symlink_to(renamed)
    newest = table_of(lake, embedded_warehouse).metadata_location.replace(lake.place.address, str(renamed))
    point_to(embedded_warehouse, newest)
    by_new_name = lake_at(str(renamed), lake.home)
    assert_nothing_removed(by_new_name, embedded_warehouse, UsageError, "files elsewhere")


def test_a_first_load_that_was_killed_does_not_stop_the_next(
    lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    with embedded_warehouse.connect() as connection:
        lake.require(connection)
        with connection.transaction(force_rollback=True):
            lake.stage(flat_months()).commit(connection)
        connection.execute("DELETE FROM iceberg_tables")
    (with_data,) = Path(lake.place.address).rglob("00002-*.json")
    with_data.unlink()  # killed before it was written
    load(lake, embedded_warehouse, flat_months())
    assert_same(lake, embedded_warehouse)
    grow_old(lake)
    assert cleaned(lake, embedded_warehouse).files > 0
    assert_same(lake, embedded_warehouse)


def test_an_earlier_version_is_read_as_the_page_shows(
    lake: Lake, embedded_warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load(lake, embedded_warehouse, flat_months())
    query = "SELECT count(*), avg(temperature_2m::double precision) FROM weather"
    with embedded_warehouse.connect() as connection:
        before = connection.execute(query).fetchall()
    load(lake, embedded_warehouse, flat_months(seed=2), replace_more=True)
    table = table_of(lake, embedded_warehouse)
    first, second = list_snapshots(table)
    assert (first.month, second.month) == ("2023-07", "2023-07")
    assert first.rows == second.rows == flat_months().rows
    assert second.bytes == sum(path.stat().st_size for path in data_files(lake)) - first.bytes
    (block,) = re.findall(r"```sql\n-- duckdb, time travel.*?\n(.*?);\n```", PAGE, re.DOTALL)
    shown = block.replace("getenv('LAKE')", f"'{table.metadata_location}'").replace(
        "snapshot_from_id => 4358109269898191359", f"snapshot_from_id => {first.snapshot_id}"
    )
    assert str(first.snapshot_id) in shown
    with open_duckdb() as connection:
        ((hours, mean),) = connection.execute(shown).fetchall()
    assert [(hours, pytest.approx(mean, rel=1e-5))] == before
