"""Tests of `planning/disk_space`."""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.errors import LocalDiskError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.settings import Settings
from era5_pipeline.netcdf import grib
from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
from era5_pipeline.planning.disk_space import MONTHS_AT_ONCE, StoragePolicy, require_room
from era5_pipeline.planning.extent import Load
from era5_pipeline.planning.load_plan import make_plan
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.model.settings import Keep
    from era5_pipeline.planning.load_plan import Plan

JULY = Month(2023, 7)
# 21 x 21 points: 2.4 MB of raw files, as much again unpacked, 3 MB of Parquet.
AREA = "-5/106/-10/111"


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of a few megabytes."""
    for name in [name for name in os.environ if name.startswith("ERA5_")]:
        monkeypatch.delenv(name)
    with era5_files.full_disk(4 << 20) as folder:
        yield folder


def settings_on(folder: Path, **values: Any) -> Settings:
    # Another server: only the files are on the small disk.
    chosen = {"source": "sample", "area": AREA, "database_url": "postgresql://nowhere.invalid/x"} | values
    return Settings(home=folder / "home", **chosen)


def test_a_month_that_the_disk_cannot_hold_is_not_begun(small_disk: Path) -> None:
    says = r"2023-07 was not started: it needs about [6-9]\.\d MB \(raw files .* MB, unpacked .* MB, flat file .* MB\)"
    with pytest.raises(LocalDiskError, match=rf"{says}, and 4\.\d MB are free in {small_disk}") as caught:
        run_raw(settings_on(small_disk), JULY)
    assert "ERA5_KEEP" in caught.value.remedy
    assert [path for path in small_disk.rglob("*") if path.is_file() and path.suffix != ".in-use"] == []


def fill(disk: Path, left: int) -> None:
    """Fill the disk up to some bytes."""
    (disk / "filling").write_bytes(bytes(shutil.disk_usage(disk).free - left))


@pytest.mark.parametrize("wishes", [{"area": "-5/106/-6/107"}, {"variables": "t2m", "area": "-5/106/-7/108"}])
def test_a_smaller_month_goes_through_on_the_same_disk(small_disk: Path, wishes: dict[str, str]) -> None:
    run_raw(settings_on(small_disk, **wishes), JULY)
    assert run_flat(settings_on(small_disk, **wishes), JULY).flat.hours == 744


def test_what_is_there_already_needs_no_room(small_disk: Path) -> None:
    wishes = {"variables": "t2m", "area": "-5/106/-7/108"}
    run_raw(settings_on(small_disk, **wishes), JULY)
    run_flat(settings_on(small_disk, **wishes), JULY)
    fill(small_disk, 100_000)
    assert run_raw(settings_on(small_disk, **wishes), JULY).hours == 744
    assert run_flat(settings_on(small_disk, **wishes), JULY).reused


def test_flattening_is_not_begun_without_room_for_the_flat_file(small_disk: Path, tmp_path: Path) -> None:
    """The user's own files: how many rows they have is known once they were read."""
    weather = era5_files.weather(era5_files.hours_from("2023-07-01T00", 744), names=("t2m", "tp"))
    era5_files.write(tmp_path / "files", weather)
    chosen = settings_on(small_disk, source="files", files_dir=str(tmp_path / "files"), area=None, format="csv")
    run_raw(chosen, JULY)
    fill(small_disk, 300_000)
    with pytest.raises(LocalDiskError, match=r"2023-07 was not started: it needs about .*\(flat file .*\)"):
        run_flat(chosen, JULY)
    assert not (small_disk / "home" / "flat").exists()


def test_flattening_is_not_begun_without_room_for_decoded_messages(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = era5_files.weather(era5_files.hours_from("2023-07-01T00", 744), names=("t2m",))
    era5_files.write(tmp_path / "files", of, era5_files.GRIB_LAYOUTS[0])
    chosen = settings_on(small_disk, source="files", files_dir=str(tmp_path / "files"), area=None)
    run_raw(chosen, JULY)
    fill(small_disk, 60_000)
    monkeypatch.setattr(grib, "_MOST_IN_MEMORY", of.fields["t2m"].size - 1)
    run_raw(chosen, JULY)
    with pytest.raises(
        LocalDiskError, match=r"2023-07 was not started: it needs about .*\(decoded 35\.7 kB, flat file"
    ):
        run_flat(chosen, JULY)
    monkeypatch.setattr(grib, "_MOST_IN_MEMORY", of.fields["t2m"].size)
    run_raw(chosen, JULY)
    run_flat(chosen, JULY)


def test_the_table_counts_where_the_embedded_server_is_on_the_same_disk(small_disk: Path) -> None:
    wishes = {"variables": "t2m", "area": "-5/106/-8/109"}
    require_room(settings_on(small_disk, **wishes), JULY)
    with pytest.raises(LocalDiskError, match=r"rows in the table \d+\.\d MB"):
        require_room(settings_on(small_disk, database_url=None, **wishes), JULY)


JAVA = Area(-5.0, 106.0, -7.5, 108.5)
ALL_OF_ERA5 = tuple(month_range(Month(1940, 1), Month(2024, 12)))


def plan_of(
    policy: StoragePolicy | None = None, months: tuple[Month, ...] = ALL_OF_ERA5, home_free_bytes: int | None = None
) -> Plan:
    return make_plan(
        Load(months, "cds"),
        CurrentContents(layout="columnstore"),
        DiskSpace(home_free_bytes),
        now=datetime(2026, 11, 21, tzinfo=UTC),
        available_after_days=6,
        policy=policy,
    )


def test_without_a_policy_every_file_stays_here() -> None:
    plan = plan_of()
    assert plan.storage.home_bytes == plan.bytes.home
    assert plan.storage.store_bytes is None
    value = plan.to_json()
    assert (value["keep"], value["store"], value["store_needed_bytes"]) == ("all", None, None)
    assert value["home_needed_bytes"] == value["raw_bytes"] + value["parquet_bytes"]


def test_files_that_are_not_kept_are_needed_for_the_months_in_work_alone() -> None:
    one = plan_of(months=(Month(2024, 1),)).largest_home_bytes
    none = plan_of(StoragePolicy("none")).storage
    assert none.months_at_once == MONTHS_AT_ONCE
    # A ZIP of two step types is unpacked besides.
    assert MONTHS_AT_ONCE * one < none.home_bytes < 2 * MONTHS_AT_ONCE * one
    flat = plan_of(StoragePolicy("flat")).storage
    assert flat.home_bytes == pytest.approx(plan_of().bytes.parquet.value + none.home_bytes)


@pytest.mark.parametrize("keep", ["all", "flat", "none"])
def test_with_a_store_only_the_months_in_work_are_here(keep: Keep) -> None:
    policy = StoragePolicy.of(Settings(keep=keep, store="s3://bucket/x"))
    storage, total = plan_of(policy).storage, plan_of().bytes
    assert storage.home_bytes == plan_of(StoragePolicy("none")).storage.home_bytes
    kept = {"all": total.home, "flat": total.parquet.value, "none": 0.0}[keep]
    assert storage.kept_bytes == kept
    assert storage.store_bytes is not None
    assert storage.kept_bytes < storage.store_bytes < storage.kept_bytes + storage.work_bytes
    value = plan_of(policy).to_json()
    assert (value["keep"], value["store"]) == (keep, "s3://bucket/x")


def test_a_small_load_needs_no_more_than_it_has() -> None:
    one = (Month(2024, 1),)
    storage = plan_of(StoragePolicy("none"), one).storage
    assert storage.months_at_once == 1
    nothing = plan_of(StoragePolicy("none"), (Month(2030, 1),)).storage
    assert (nothing.months_at_once, nothing.home_bytes) == (0, 0)


def test_the_warning_follows_the_policy() -> None:
    needed = plan_of(StoragePolicy("none")).storage.home_bytes
    assert plan_of(StoragePolicy("none"), home_free_bytes=int(needed) + 1).warnings == ()
    (warning,) = plan_of(StoragePolicy("none"), home_free_bytes=int(needed) - 1).warnings
    assert "ERA5_KEEP" not in warning
    (warning,) = plan_of(home_free_bytes=int(needed) + 1).warnings
    assert "ERA5_KEEP" in warning
    assert "ERA5_STORE" in warning


def test_as_many_months_are_in_work_as_dagster_runs_at_once() -> None:
    configured = (ROOT / "dagster.yaml").read_text(encoding="utf-8")
    assert re.findall(r"max_concurrent_runs: (\d+)", configured) == [str(MONTHS_AT_ONCE)]
