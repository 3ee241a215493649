"""Lost runs of a real instance, and what the sensor requests for them; with the daemon: cli/test_services_killed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
import psycopg2
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.run_coordinator import SubmitRunContext
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as NoFreeConnectionError

from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.instance.lost_runs import fail_lost_runs, fail_run, is_lost_connection
from era5_pipeline.defs.runner import job_origin
from era5_pipeline.defs.sensors import REPEATING
from era5_pipeline_tests.defs.test_alerts import REFUSED
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MONTH = "2001-03"


@pytest.fixture
def pipeline(server_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path, ERA5_SOURCE=SMALL["source"], ERA5_AREA=SMALL["area"]) as pipeline:
        yield pipeline


@dataclass
class Daemon:
    """Evaluate the sensor and submit the runs that it requests, as the daemon does."""

    pipeline: Pipeline
    cursor: str | None = None

    def tick(self) -> list[dg.DagsterRun]:
        """Evaluate the sensor once; return the runs that were submitted."""
        instance = self.pipeline.instance
        with dg.build_sensor_context(instance=instance, cursor=self.cursor, definitions=defs) as context:
            data = REPEATING[0].evaluate_tick(context)
        self.cursor = data.cursor
        return [self._submit(request) for request in data.run_requests or ()]

    def _submit(self, request: dg.RunRequest) -> dg.DagsterRun:
        assert request.job_name is not None
        assert request.run_key is not None
        instance = self.pipeline.instance
        job = defs.resolve_job_def(request.job_name)
        if request.asset_selection is not None:
            job = job.get_subset(asset_selection=set(request.asset_selection))
        run = instance.create_run_for_job(
            job,
            run_config=request.run_config,
            tags={**request.tags, "dagster/run_key": request.run_key},
            remote_job_origin=job_origin(instance),
            asset_selection=None if request.asset_selection is None else frozenset(request.asset_selection),
        )
        instance.run_coordinator.submit_run(SubmitRunContext(run, workspace=None))  # type: ignore[arg-type]
        return reloaded(self.pipeline, run)


def begun_run(pipeline: Pipeline, *, only_starting: bool = False, **tags: str) -> dg.DagsterRun:
    """A run of the month that has begun, or is about to."""
    instance = pipeline.instance
    named = {name.replace("__", "/"): value for name, value in tags.items()}
    run = instance.create_run_for_job(
        defs.resolve_job_def(load_month.name),
        run_config={"resources": {"era5": {"config": {"force": True}}}},
        tags={"dagster/partition": f"{MONTH}-01", **named},
        remote_job_origin=job_origin(instance),
    )
    instance.run_coordinator.submit_run(SubmitRunContext(run, workspace=None))  # type: ignore[arg-type]
    begin(pipeline, run, only_starting=only_starting)
    return reloaded(pipeline, run)


def begin(pipeline: Pipeline, run: dg.DagsterRun, *, only_starting: bool = False) -> None:
    kinds = (dg.DagsterEventType.RUN_STARTING, dg.DagsterEventType.RUN_START)
    for kind in kinds[:1] if only_starting else kinds:
        pipeline.instance.report_dagster_event(dg.DagsterEvent(kind.value, run.job_name), run.run_id)


def reloaded(pipeline: Pipeline, run: dg.DagsterRun) -> dg.DagsterRun:
    found = pipeline.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found


def test_a_lost_run_is_requested_again_once(pipeline: Pipeline) -> None:
    run = begun_run(pipeline, dagster__priority="7", team="rain")
    fail_run(pipeline.instance, run, "its process ended")
    assert reloaded(pipeline, run).is_complete_and_waiting_to_retry  # so its backfill does not end
    daemon = Daemon(pipeline)
    (again,) = daemon.tick()
    assert daemon.tick() == []
    assert again.status is dg.DagsterRunStatus.QUEUED
    assert (again.job_name, again.run_config) == (load_month.name, run.run_config)
    tags = {name: again.tags.get(name) for name in ("dagster/partition", "era5/month", "dagster/priority", "team")}
    assert tags == {"dagster/partition": f"{MONTH}-01", "era5/month": MONTH, "dagster/priority": "7", "team": "rain"}
    assert not reloaded(pipeline, run).is_complete_and_waiting_to_retry


def test_a_failure_whose_process_ended_before_it_was_tagged_is_found(pipeline: Pipeline) -> None:
    run = begun_run(pipeline)
    pipeline.instance.report_run_failed(run, "its process ended")
    assert len(Daemon(pipeline).tick()) == 1


def test_a_selection_of_assets_is_requested_again_as_it_was(pipeline: Pipeline) -> None:
    """As from an asset's page, whose runs are of a job without a name."""
    instance, chosen = pipeline.instance, {dg.AssetKey(["era5", "weather"])}
    run = instance.create_run_for_job(
        defs.resolve_job_def(load_month.name).get_subset(asset_selection=chosen),
        tags={"dagster/partition": f"{MONTH}-01"},
        remote_job_origin=job_origin(instance),
        asset_selection=frozenset(chosen),
    )
    begin(pipeline, run)
    fail_run(instance, reloaded(pipeline, run), "its process ended")
    (again,) = Daemon(pipeline).tick()
    assert again.asset_selection == chosen


def test_a_month_that_failed_itself_is_not_requested_again(pipeline: Pipeline) -> None:
    refused = pipeline.run("2023-09", **REFUSED)
    assert refused.errors
    pipeline.instance.run_storage.add_run_tags(refused.run_id, {"dagster/max_retries": "4"})
    daemon = Daemon(pipeline)
    assert daemon.tick() == []
    run = pipeline.instance.get_run_by_id(refused.run_id)
    assert run is not None
    assert run.tags["dagster/will_retry"] == "false"


def test_a_run_of_a_command_is_left_to_its_user(pipeline: Pipeline) -> None:
    run = begun_run(pipeline, dagster__max_retries="0")
    fail_run(pipeline.instance, run, "its process ended")
    assert not reloaded(pipeline, run).is_complete_and_waiting_to_retry
    assert Daemon(pipeline).tick() == []


def test_a_month_that_was_run_since_is_not_requested_again(pipeline: Pipeline) -> None:
    run = begun_run(pipeline)
    fail_run(pipeline.instance, run, "its process ended")
    later = pipeline.run(MONTH)
    assert later.errors == ()
    assert Daemon(pipeline).tick() == []
    assert reloaded(pipeline, run).tags["dagster/auto_retry_run_id"] == later.run_id


@pytest.mark.parametrize("status", [None, BulkActionStatus.CANCELED])
def test_a_backfill_that_was_cancelled_or_removed_gets_no_more_runs(
    pipeline: Pipeline, status: BulkActionStatus | None
) -> None:
    if status is not None:
        pipeline.instance.add_backfill(
            PartitionBackfill("abcdefgh", status, from_failure=False, tags={}, backfill_timestamp=0.0)
        )
    run = begun_run(pipeline, dagster__backfill="abcdefgh")
    fail_run(pipeline.instance, run, "its process ended")
    assert Daemon(pipeline).tick() == []
    assert reloaded(pipeline, run).tags["dagster/will_retry"] == "false"


def test_a_run_of_a_backfill_stays_one_of_it(pipeline: Pipeline) -> None:
    pipeline.instance.add_backfill(
        PartitionBackfill("abcdefgh", BulkActionStatus.REQUESTED, from_failure=False, tags={}, backfill_timestamp=0.0)
    )
    fail_run(pipeline.instance, begun_run(pipeline, dagster__backfill="abcdefgh"), "its process ended")
    (again,) = Daemon(pipeline).tick()
    assert again.tags["dagster/backfill"] == "abcdefgh"


def test_five_starts_are_counted_but_not_those_that_ended_with_era5_up(pipeline: Pipeline) -> None:
    instance, run = pipeline.instance, begun_run(pipeline)
    fail_run(instance, run, "its process ended")
    daemon, requested = Daemon(pipeline), 0
    while submitted := daemon.tick():
        (run,) = submitted
        requested += 1
        starting = dg.DagsterEvent(dg.DagsterEventType.RUN_STARTING.value, run.job_name)
        instance.report_dagster_event(starting, run.run_id)
        if requested in (1, 2, 3):  # as `era5 up` does when it begins
            fail_lost_runs(instance, with_starting=True)
        else:
            fail_run(instance, reloaded(pipeline, run), "its process ended")
    # Eight starts, three of which are not counted.
    assert requested == 7


def error(code: str | None) -> OperationalError:
    """Make the error that SQLAlchemy raises for this code of the server; None: for a lost connection."""
    cause = psycopg2.OperationalError("said by the server")
    if code is not None:
        cause.__setstate__({"pgcode": code})  # type: ignore[no-untyped-call]
    made = OperationalError("SELECT 1", {}, cause)
    made.__cause__ = cause
    return made


@pytest.mark.parametrize(
    ("raised", "is_lost"),
    [
        (error(None), True),
        (error("57P01"), True),  # the server stops
        (error("08006"), True),
        (error("53100"), False),  # its disk is full
        (ProgrammingError("SELECT nonsense", {}, psycopg2.ProgrammingError("no such column")), False),
        (DagsterPostgresException("too many retries for DB connection"), True),
        (NoFreeConnectionError(), True),
        (ValueError("a defect"), False),
    ],
    ids=lambda value: value if isinstance(value, bool) else str(value).splitlines()[0],
)
def test_lost_connections_are_told_from_other_errors(raised: Exception, *, is_lost: bool) -> None:
    assert is_lost_connection(raised) is is_lost
