"""The schedules over several months of simulated time, with a store whose data become final in the meantime."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import time_machine

from era5_pipeline.definitions import defs
from era5_pipeline.defs.assets import LOAD_MONTH
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.defs.schedules import SCHEDULES
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.lake.test_months import a_day_passes, assert_same, lake_at, load, snapshots
from era5_pipeline_tests.pipelines import Pipeline, new_pipeline
from era5_pipeline_tests.sources.cds.source_under_test import is_fresh
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK
from era5_pipeline_tests.zarr_stores import hours_between, write_repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths

AREA = "-6/106/-6.5/106.5"
LOCATIONS = 9


@dataclass
class Ticked:
    """Skip reason of a tick, its run requests, and the results of these runs."""

    skipped: str | None
    requests: list[dg.RunRequest]
    results: list[Any]

    @property
    def months(self) -> list[str]:
        return [str(request.partition_key)[:7] for request in self.requests]


@dataclass
class World:
    """A pipeline and the store, with a simulated time in both."""

    pipeline: Pipeline
    server: CdsServer

    def tick(self, name: str, at: str, *, run: bool = True) -> Ticked:
        time = datetime.fromisoformat(at).replace(tzinfo=UTC)
        self.server.today = time
        schedule = next(schedule for schedule in SCHEDULES if schedule.name == name)
        with time_machine.travel(time):
            with dg.build_schedule_context(
                instance=self.pipeline.instance,
                scheduled_execution_time=time,
                resources={"era5": Era5Resource()},
                repository_def=defs.get_repository_def(),
            ) as context:
                data = schedule.evaluate_tick(context)
            requests = list(data.run_requests or [])
            results = [self._run(schedule.job_name, request) for request in requests] if run else []
        return Ticked(data.skip_message, requests, results)

    def _run(self, job: str, request: dg.RunRequest) -> Any:
        return defs.resolve_job_def(job).execute_in_process(
            partition_key=request.partition_key,
            instance=self.pipeline.instance,
            run_config=request.run_config,
            tags=request.tags,
            raise_on_error=False,
        )

    def temperature(self, month: str) -> float:
        """The sum of temperatures of a month, which differs between preliminary and final data."""
        with Warehouse(self.pipeline.url).connect() as connection:
            row = connection.execute(
                "SELECT sum(temperature_2m::float8) FROM weather WHERE time >= %s AND time < %s",
                (Month.parse(month).start, Month.parse(month).end),
            ).fetchone()
            return float(row[0]) if row and row[0] is not None else 0.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdsServer]:
    with CdsServer(tmp_path_factory.mktemp("cds")) as server:
        yield server


@pytest.fixture
def world(server_url: str, store: CdsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    store.reset(today=datetime(2026, 9, 7, tzinfo=UTC))
    env = {
        "CDSAPI_URL": store.url,
        "CDSAPI_KEY": store.key,
        "ERA5_SOURCE": "cds",
        "ERA5_AREA": AREA,
        "ERA5_CDS_POLL_SECONDS": "0.02",
        "ERA5_CDS_RETRY_SECONDS": "0.02",
    }
    with new_pipeline(server_url, tmp_path_factory.mktemp("world"), **env) as pipeline:
        yield World(pipeline, store)


def test_preliminary_month_is_loaded_and_later_revised(world: World) -> None:
    world.server.final_until = datetime(2026, 7, 31, 23, tzinfo=UTC)

    # August is requested six days after its end. The accumulations of its first seven hours are final already.
    assert world.tick("monthly_update", "2026-09-06T06:00", run=False).months == ["2026-07"]
    ticked = world.tick("monthly_update", "2026-09-07T06:00")
    assert ticked.months == ["2026-08"]
    assert [result.success for result in ticked.results] == [True]
    entry = world.pipeline.held("2026-08")
    assert entry.state == "loaded"
    assert entry.expver["temperature_2m"] == {"0005": 744}
    assert entry.expver["total_precipitation"] == {"0001": 7, "0005": 737}
    assert entry.preliminary_hours["temperature_2m"] == ("2026-08-01T00 to 2026-08-31T23",)
    assert entry.preliminary_hours["snowfall"] == ("2026-08-01T07 to 2026-08-31T23",)
    assert entry.version == "mixed"
    preliminary = world.temperature("2026-08")

    # After the load, August is not requested again until it is old enough.
    assert (
        world.tick("monthly_update", "2026-09-08T06:00").skipped == "the newest complete month is already in the table"
    )
    assert "old enough" in str(world.tick("revise_preliminary", "2026-09-14T07:00").skipped)
    assert "old enough" in str(world.tick("revise_preliminary", "2026-11-23T07:00").skipped)

    # After three months the store still has preliminary data: August is requested again, and does not change.
    asked = len(world.server.submissions)
    ticked = world.tick("revise_preliminary", "2026-11-30T07:00")
    assert ticked.months == []  # three months after August end with November
    ticked = world.tick("revise_preliminary", "2026-12-07T07:00")
    assert ticked.months == ["2026-08"]
    assert len(world.server.submissions) == asked + 1
    assert is_fresh(world.server.submissions[-1])
    entry = world.pipeline.held("2026-08")
    assert (entry.version, entry.revised_at) == ("mixed", None)
    assert world.temperature("2026-08") == preliminary

    # Once the store has final data, August is replaced, and the ledger records the revision.
    world.server.final_until = datetime(2026, 9, 30, 23, tzinfo=UTC)
    ticked = world.tick("revise_preliminary", "2026-12-14T07:00")
    assert ticked.months == ["2026-08"]
    entry = world.pipeline.held("2026-08")
    assert (entry.version, entry.preliminary_hours, entry.rows) == ("final", {}, 744 * LOCATIONS)
    assert entry.expver["temperature_2m"] == {"0001": 744}
    assert entry.revised_at is not None
    assert entry.revision is not None
    assert entry.revision.columns_changed == ("temperature_2m",)
    assert world.temperature("2026-08") == pytest.approx(preliminary - 0.5 * 744 * LOCATIONS, rel=1e-6)
    assert world.pipeline.rows("2026-08") == 744 * LOCATIONS
    assert "old enough" in str(world.tick("revise_preliminary", "2026-12-21T07:00").skipped)


def test_each_data_set_is_updated_by_its_own_schedules(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A month of one that runs, or is loaded, is none of the other."""
    monkeypatch.setenv("ERA5_AREA", "10/9.9/9.9/10")
    monkeypatch.setenv("ERA5_VARIABLES", "t2m")
    world.server.final_until = datetime(2026, 7, 31, 23, tzinfo=UTC)
    running = world.pipeline.instance.create_run_for_job(
        defs.resolve_job_def(LOAD_MONTH[ERA5.name].name),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": "2026-08-01"},
    )
    ticked = world.tick("monthly_update_era5_land", "2026-09-07T06:00")
    world.pipeline.instance.delete_run(running.run_id)
    assert (ticked.months, [result.success for result in ticked.results]) == (["2026-08"], [True])
    assert world.tick("monthly_update_era5_land", "2026-09-08T06:00").months == []
    assert world.tick("monthly_update", "2026-09-08T06:00", run=False).months == ["2026-08"]
    world.server.final_until = datetime(2026, 8, 31, 23, tzinfo=UTC)
    assert world.tick("revise_preliminary", "2026-12-07T07:00").months == []
    held = {}
    for version in ("preliminary", "final"):
        with Warehouse(world.pipeline.url, dataset=ERA5_LAND).connect() as connection:
            ((entry,),) = (month.parts for month in read_ledger(connection))
        held[version] = (entry.version, entry.rows)
        if version == "preliminary":
            assert world.tick("revise_preliminary_era5_land", "2026-12-07T07:00").months == ["2026-08"]
    assert held == {version: (version, 744 * 4) for version in held}
    assert world.pipeline.entry("2026-08") is None
    monkeypatch.setenv("ERA5_SOURCE", "arco")
    assert "the source arco has no ERA5-Land" in str(world.tick("monthly_update_era5_land", "2026-10-07T06:00").skipped)


@NEEDS_ICECHUNK
def test_each_month_is_asked_of_the_first_of_several_sources_that_has_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the open store has it, the service does; and the store's final form replaces the service's preliminary."""
    may, june = Month(2026, 5), Month(2026, 6)
    monkeypatch.setenv("ERA5_SOURCE", "earthmover,cds")
    monkeypatch.setenv("ERA5_EARTHMOVER_URL", f"icechunk+file://{tmp_path / 'open'}")
    monkeypatch.setenv("ERA5_AREA", "50/0/49.75/0.25")
    monkeypatch.setenv("ERA5_VARIABLES", "t2m")
    world.server.final_until = datetime(2026, 5, 31, 23, tzinfo=UTC)
    write_repository(tmp_path / "open", hours_between(may, may), ("temperature_2m",))
    assert world.tick("monthly_update", "2026-06-07T06:00").months == ["2026-05"]
    assert world.server.submissions == []
    assert world.tick("monthly_update", "2026-07-07T06:00").months == ["2026-06"]
    assert len(world.server.submissions) == 1
    held = [(entry.source, entry.version) for entry in map(world.pipeline.held, ("2026-05", "2026-06"))]
    assert held == [("earthmover", "final by age"), ("cds", "preliminary")]

    write_repository(tmp_path / "open", hours_between(may, june), ("temperature_2m",))
    assert world.tick("revise_preliminary", "2026-10-05T07:00").months == ["2026-06"]
    assert len(world.server.submissions) == 1
    entry = world.pipeline.held("2026-06")
    assert (entry.source, entry.version, entry.state) == ("earthmover", "final by age", "loaded")
    assert "old enough" in str(world.tick("revise_preliminary", "2026-10-12T07:00").skipped)


def test_current_month_is_loaded_daily_until_it_is_complete(world: World) -> None:
    ticked = world.tick("current_month_daily", "2026-09-10T08:00")
    assert ticked.months == ["2026-09"]
    entry = world.pipeline.held("2026-09")
    assert (entry.state, entry.hours) == ("incomplete", 4 * 24 + 9)
    world.tick("current_month_daily", "2026-09-11T08:00")
    entry = world.pipeline.held("2026-09")
    assert entry.hours == 5 * 24 + 9
    ticked = world.tick("monthly_update", "2026-10-07T06:00")
    assert ticked.months == ["2026-09"]
    entry = world.pipeline.held("2026-09")
    assert (entry.state, entry.hours) == ("loaded", 720)


def test_unavailable_month_is_skipped_and_tried_again_at_the_next_tick(world: World, monkeypatch: Any) -> None:
    monkeypatch.setenv("ERA5_AVAILABLE_AFTER_DAYS", "0")
    ticked = world.tick("current_month_daily", "2026-09-03T08:00")
    assert ticked.months == ["2026-09"]
    assert [result.success for result in ticked.results] == [True]  # skipped, not failed
    assert world.pipeline.entry("2026-09") is None
    ticked = world.tick("current_month_daily", "2026-09-08T08:00")
    entry = world.pipeline.held("2026-09")
    assert entry.hours == 2 * 24 + 9


@pytest.mark.parametrize("job", ["load_month", "__ASSET_JOB"])
def test_month_that_is_already_running_is_not_requested(world: World, job: str) -> None:
    # A backfill from the web UI runs the second one.
    (request,) = world.tick("monthly_update", "2026-09-07T06:00", run=False).requests
    run = world.pipeline.instance.create_run_for_job(
        defs.resolve_job_def(job),
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": str(request.partition_key)},
    )
    skipped = world.tick("monthly_update", "2026-09-08T06:00")
    assert skipped.skipped == "already queued or running: 2026-08"
    world.pipeline.instance.delete_run(run.run_id)


def test_the_lake_is_cleaned_by_the_stated_times(
    embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    lake = lake_at(str(tmp_path / "lake"), tmp_path / "home")
    load(lake, embedded_warehouse, flat_months())
    load(lake, embedded_warehouse, flat_months(seed=2), replace_more=True)
    monkeypatch.setenv("ERA5_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ERA5_DATABASE_URL", embedded_warehouse.url)
    schedule = next(schedule for schedule in SCHEDULES if schedule.name == "lake_upkeep")

    def tick() -> Any:
        with dg.DagsterInstance.ephemeral() as instance:
            resources = {"era5": Era5Resource()}
            with dg.build_schedule_context(instance=instance, resources=resources) as context:
                return schedule.evaluate_tick(context)

    def clean() -> bool:
        return defs.resolve_job_def("clean_lake").execute_in_process(raise_on_error=False).success

    assert tick().skip_message == "ERA5_LAKE is not set"
    monkeypatch.setenv("ERA5_LAKE", str(tmp_path / "lake"))
    assert len(tick().run_requests) == 1
    assert clean()
    assert snapshots(lake, embedded_warehouse) == 2
    with time_machine.travel(datetime.now(tz=UTC) + timedelta(days=31)):
        assert clean()
    assert snapshots(lake, embedded_warehouse) == 1
    # Readers may still be at the snapshot that was removed: its rows go a day later, by the database's clock.
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 2
    a_day_passes(embedded_warehouse)
    with time_machine.travel(datetime.now(tz=UTC) + timedelta(days=33)):
        assert clean()
    assert_same(lake, embedded_warehouse)
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1
    monkeypatch.setenv("ERA5_LAKE", str(tmp_path))
    assert not clean()


def test_schedules_say_when_they_run_and_are_stopped_by_default() -> None:
    days = {"*": "Every day", "0": "On Sundays", "1": "On Mondays"}
    for schedule in SCHEDULES:
        minute, hour, _, _, weekday = str(schedule.cron_schedule).split()
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
        assert schedule.execution_timezone == "UTC"
        assert schedule.description is not None
        assert schedule.description.startswith(f"{days[weekday]} at {int(hour):02}:{int(minute):02} UTC: ")


def test_source_without_new_data_is_the_skip_reason(world: World, monkeypatch: Any) -> None:
    monkeypatch.setenv("ERA5_SOURCE", "sample")
    skipped = world.tick("monthly_update", "2026-09-07T06:00").skipped
    assert "the source sample does not publish new months" in str(skipped)
    assert "ERA5_SOURCE" in str(skipped)
