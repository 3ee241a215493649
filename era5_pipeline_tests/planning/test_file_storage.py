"""Bytes at one time: what a load needs on this machine and in the store, by what is kept."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.settings import Settings
from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
from era5_pipeline.planning.extent import Load
from era5_pipeline.planning.file_storage import MONTHS_AT_ONCE, StoragePolicy
from era5_pipeline.planning.make_plan import make_plan
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from era5_pipeline.model.settings import Keep
    from era5_pipeline.planning.load_plan import Plan

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
    assert flat.home_bytes == pytest.approx((plan_of().bytes.parquet.value or 0) + none.home_bytes)


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
