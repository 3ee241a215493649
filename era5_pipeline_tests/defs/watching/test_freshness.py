"""Freshness of a real table: a backfill of old months leaves it stale, the newest month makes it fresh."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from era5_pipeline.definitions import defs
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.defs.watching.freshness import CHECK, TABLE, freshness
from era5_pipeline.model.errors import NoDatabaseError
from era5_pipeline.model.months import Month
from era5_pipeline.planning.updates import due_month
from era5_pipeline_tests.cli.test_up import WebUI, everything_up, free_port
from era5_pipeline_tests.commands import new_home
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START = """
mutation ($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) { __typename } }
"""
CHECKS = """
{
  assetNodes(assetKeys: [{path: ["era5", "table"]}]) {
    isMaterializable
    assetChecksOrError {
      ... on AssetChecks {
        checks { name executionForLatestMaterialization { status evaluation { success description } } }
      }
    }
  }
}
"""
BACKFILL = """
mutation ($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
RUNS = "{ runsOrError { ... on Runs { results { runId status jobName stepKeysToExecute } } } }"
STEPS = """
query ($run: ID!) { runOrError(runId: $run) { ... on Run { stepStats { stepKey } } } }
"""


@pytest.fixture
def pipeline(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path_factory.mktemp("fresh")) as pipeline:
        yield pipeline


def ticked(pipeline: Pipeline) -> dg.AssetCheckEvaluation:
    """Evaluate the sensor, and record what it reports, as the daemon does."""
    context = dg.build_sensor_context(instance=pipeline.instance, resources={"era5": Era5Resource()})
    (event,) = freshness.evaluate_tick(context).asset_events
    assert isinstance(event, dg.AssetCheckEvaluation)
    pipeline.instance.report_runless_asset_event(event)
    return event


def recorded(pipeline: Pipeline) -> bool | None:
    """What Dagster knows of the check: None if it was never evaluated."""
    key = dg.AssetCheckKey(TABLE, CHECK)
    found = pipeline.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    if not found:
        return None
    event: Any = found[0].event
    return bool(event.dagster_event.asset_check_evaluation_data.passed)


def test_a_backfill_of_old_months_is_not_fresh_and_the_newest_month_is(pipeline: Pipeline) -> None:
    due = due_month(datetime.now(tz=UTC), 6)
    empty = ticked(pipeline)
    assert (empty.passed, recorded(pipeline)) == (False, False)
    assert empty.description == f"the table holds no complete month; {due} is due"

    for month in ("1979-01", "1979-02"):
        run = pipeline.run(month, **SMALL)
        assert not run.errors
        assert CHECK not in pipeline.checks(run)
    old = ticked(pipeline)
    assert (old.passed, recorded(pipeline)) == (False, False)
    assert old.description == f"{due} is due, and the newest complete month in the table is 1979-02"
    assert old.metadata["overdue months"].value == due.number - Month(1979, 2).number

    # An incomplete newest month is not enough.
    incomplete = {"sample_hours": 24, "allow_incomplete": True}
    assert not pipeline.run(str(due), **SMALL, **incomplete).errors
    assert not ticked(pipeline).passed
    assert not pipeline.run(str(due), **SMALL).errors
    new = ticked(pipeline)
    assert (new.passed, recorded(pipeline)) == (True, True)
    assert new.metadata["newest complete month"].value == str(due)


def test_it_can_be_evaluated_by_hand(pipeline: Pipeline) -> None:
    assert recorded(pipeline) is None
    ticked(pipeline)
    job = defs.resolve_implicit_global_asset_job_def().get_subset(
        asset_check_selection={dg.AssetCheckKey(TABLE, CHECK)}
    )
    result = job.execute_in_process(instance=pipeline.instance, raise_on_error=False)
    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed


def test_materializing_months_does_not_run_the_check() -> None:
    months = {dg.AssetKey(["era5", name]) for name in ("raw", "flat", "weather")}
    for job in (
        defs.resolve_job_def("load_month"),
        defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=months),
    ):
        assert {node.name for node in job.nodes} == {"era5__raw", "era5__flat", "era5__weather"}


def test_without_a_database_the_tick_fails(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ERA5_HOME", str(tmp_path))
    monkeypatch.delenv("ERA5_DATABASE_URL")
    with pytest.raises(NoDatabaseError):
        ticked(pipeline)


def test_it_is_off_until_it_is_switched_on() -> None:
    assert freshness.default_status is dg.DefaultSensorStatus.STOPPED


def test_a_backfill_in_the_ui_leaves_the_check_to_the_sensor() -> None:
    with new_home() as home, everything_up(home, free_port(), ERA5_SOURCE="sample", ERA5_AREA=SMALL["area"]) as web:
        selector = {
            "repositoryLocationName": "era5_pipeline",
            "repositoryName": "__repository__",
        }
        launched = web.ask(
            BACKFILL,
            parameters={
                "assetSelection": [{"path": ["era5", name]} for name in ("raw", "flat", "weather")],
                "partitionNames": ["1979-01-01", "1979-02-01"],
                "fromFailure": False,
            },
        )["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        wait_for(lambda: finished(web) == ["SUCCESS", "SUCCESS"])
        for run in web.ask(RUNS)["runsOrError"]["results"]:
            steps = {step["stepKey"] for step in web.ask(STEPS, run=run["runId"])["runOrError"]["stepStats"]}
            assert steps == {"era5__raw", "era5__flat", "era5__weather"}
        assert latest(web) is None
        started = web.ask(START, sensor={**selector, "sensorName": "freshness"})["startSensor"]
        assert started["__typename"] == "Sensor"
        wait_for(lambda: latest(web) is not None)
        evaluation = latest(web)
        assert evaluation is not None
        assert not evaluation["success"]
        assert "the newest complete month in the table is 1979-02" in evaluation["description"]
        assert len(web.ask(RUNS)["runsOrError"]["results"]) == 2  # it needs no run


def finished(web: WebUI) -> list[str]:
    return [run["status"] for run in web.ask(RUNS)["runsOrError"]["results"]]


def latest(web: WebUI) -> dict[str, Any] | None:
    """The check's last evaluation, as the UI shows it."""
    (node,) = web.ask(CHECKS)["assetNodes"]
    assert node["isMaterializable"] is False
    (check,) = node["assetChecksOrError"]["checks"]
    assert check["name"] == CHECK
    execution = check["executionForLatestMaterialization"]
    evaluation: dict[str, Any] | None = execution and execution["evaluation"]
    return evaluation


def wait_for(holds: Any) -> None:
    until = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < until
        time.sleep(1)
