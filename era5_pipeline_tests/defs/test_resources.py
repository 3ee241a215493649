"""Tests of `defs/resources`."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from era5_pipeline.defs import resources
from era5_pipeline.defs.assets import ASSETS
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.defs.resources import TOGETHER, Era5Resource
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline_tests.era5_files import CURRENT, hours_from, left_behind, weather, write
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # no .env
    monkeypatch.setenv("ERA5_HOME", str(tmp_path))
    for name in Settings.model_fields.keys() - {"home"}:
        monkeypatch.delenv(f"ERA5_{name.upper()}", raising=False)


def test_every_field_is_a_setting_and_none_is_secret() -> None:
    fields = set(Era5Resource.model_fields) - {TOGETHER}
    assert fields <= set(Settings.model_fields)
    # Settings of the machine, the service, the schedules, the queue, the server or the assets, not of a run.
    assert set(Settings.model_fields) - fields == {
        *(
            "home",
            "store",
            "lake",
            "lake_catalog",
            "lake_catalog_token_file",
            "keep",
            "database_url",
            "dagster_database_url",
            "database_password_file",
            "fetch_database_url",
        ),
        "dataset",  # that of the assets or of the job
        *("lock_timeout_seconds", "batches", "dask_scheduler", "alert_url", "ui_url"),
        *("cds_format", "cds_poll_seconds", "cds_retry_seconds", "cds_patience_hours", "arco_url"),
        "earthmover_url",
        *("zarr_token_file", "zarr_user"),
        *("available_after_days", "revise_after_months", "order"),
        *("serve_connections", "serve_waiting_requests", "serve_wait_seconds", "serve_statement_seconds"),
        *("serve_values", "store_patience_seconds", "allowed_hosts"),
    }


def test_fields_override_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ERA5_SOURCE", "sample")
    monkeypatch.setenv("ERA5_AREA", "1/2/0/3")
    monkeypatch.setenv("ERA5_FORCE", "true")
    settings = Era5Resource().settings()
    assert (settings.home, settings.source, settings.area, settings.force) == (tmp_path, "sample", "1/2/0/3", True)
    assert settings.format == "parquet"
    settings = Era5Resource(source="files", files_dir="/data", format="csv", force=False, sample_hours=3).settings()
    assert (settings.source, settings.files_dir, settings.format) == ("files", "/data", "csv")
    assert (settings.force, settings.sample_hours, settings.area) == (False, 3, "1/2/0/3")


# Loads months one after the other; each load reports when it holds its slot, and waits for a signal to continue.
PROGRAM = """
import sys
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.defs.runner import run_month
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.progress import listening
from era5_pipeline.model.settings import read_settings
def dawdle(stage, done, total, unit):
    if stage == "load":
        print("loading", flush=True)
        sys.stdin.readline()
area, *months = sys.argv[1:]
with open_instance(read_settings().home) as instance, listening(dawdle):
    for month in months:
        assert not run_month(instance, Month.parse(month), overrides={"source": "sample", "area": area}).errors
"""


def program(*months: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, SMALL["area"], *months]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path) as pipeline:
        yield pipeline


def limit_of(pipeline: Pipeline) -> int:
    return pipeline.instance.event_log_storage.get_concurrency_info(resources.WAREHOUSE).slot_count


def test_pools_exist_before_the_first_run(pipeline: Pipeline) -> None:
    assert limit_of(pipeline) == 2
    assert pipeline.instance.event_log_storage.get_concurrency_info(resources.CDS).slot_count == 2


def test_changed_limit_is_kept(pipeline: Pipeline) -> None:
    pipeline.instance.event_log_storage.set_concurrency_slots(resources.WAREHOUSE, 5)
    with open_instance(pipeline.home):
        assert limit_of(pipeline) == 5


def test_two_processes_create_pools_at_the_same_time(pipeline: Pipeline) -> None:
    storage = pipeline.instance.event_log_storage
    for _ in range(5):
        storage.delete_concurrency_limit(resources.WAREHOUSE)
        failures: list[BaseException] = []

        def make() -> None:
            try:
                resources.ensure_pools(pipeline.instance)
            except Exception as error:  # noqa: BLE001
                failures.append(error)  # noqa: B023  # joined within the turn

        both = [threading.Thread(target=make) for _ in range(2)]
        for one in both:
            one.start()
        for one in both:
            one.join()
        assert failures == []
        assert limit_of(pipeline) == 2


def test_a_load_waits_for_the_only_slot_until_another_process_ends_its_load_or_is_killed(pipeline: Pipeline) -> None:
    storage = pipeline.instance.event_log_storage
    storage.set_concurrency_slots(resources.WAREHOUSE, 1)

    def go_on_when_a_load_waits() -> None:
        wait_until(lambda: storage.get_concurrency_info(resources.WAREHOUSE).pending_step_count == 1, 120)
        assert other.stdin
        print(file=other.stdin, flush=True)

    with program("2020-01", "2020-02") as other, ThreadPoolExecutor(1) as threads:
        assert other.stdout
        assert other.stdout.readline() == "loading\n"
        told = threads.submit(go_on_when_a_load_waits)
        assert pipeline.run("2020-03", **SMALL).errors == ()
        told.result()
        with Warehouse(pipeline.url).connect() as connection:
            overlaps = connection.execute(
                "SELECT count(*) FROM era5.load_attempt a JOIN era5.load_attempt b ON a.id < b.id "
                "AND a.started_at < b.finished_at AND b.started_at < a.finished_at"
            ).fetchone()
            loads = connection.execute("SELECT count(*) FROM era5.load_attempt WHERE outcome = 'loaded'").fetchone()
        assert (loads, overlaps) == ((2,), (0,))
        assert other.stdout.readline() == "loading\n"
        other.kill()
    with open_instance(pipeline.home):
        assert storage.get_concurrency_info(resources.WAREHOUSE).active_slot_count == 0
    assert pipeline.run("2020-04", **SMALL).errors == ()


def test_a_run_of_the_stage_raw_alone_leaves_no_unpacked_files(pipeline: Pipeline) -> None:
    """They are kept for the stage `flat` of the same run."""
    folder = pipeline.home / "files"
    zipped = replace(CURRENT, zipped=True, suffix=".zip")
    write(folder, weather(hours_from("2023-07-01T00", 2), names=["t2m", "tp"]), zipped)
    era5 = Era5Resource(source="files", files_dir=str(folder), allow_incomplete=True)
    ran = dg.materialize([ASSETS[0]], partition_key="2023-07-01", instance=pipeline.instance, resources={"era5": era5})
    assert ran.success
    assert (pipeline.home / "scratch").is_dir()
    assert left_behind(pipeline.home) == []
