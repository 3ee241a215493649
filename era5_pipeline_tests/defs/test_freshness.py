"""Freshness of a real table: a backfill of old months leaves it stale, the newest month makes it fresh."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from era5_pipeline.defs.assets import WEATHER, AssetKeys
from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.defs.sensors import FRESHNESS
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import NoDatabaseError
from era5_pipeline.model.months import Month
from era5_pipeline.planning.updates import due_month
from era5_pipeline_tests.commands import assert_says
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline, plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset


@pytest.fixture
def pipeline(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with new_pipeline(server_url, tmp_path_factory.mktemp("fresh")) as pipeline:
        yield pipeline


def ticked(pipeline: Pipeline, dataset: Dataset = ERA5) -> dg.AssetObservation:
    """Evaluate the sensor, and record what it reports, as the daemon does; return what Dagster has then."""
    with dg.build_sensor_context(instance=pipeline.instance, resources={"era5": Era5Resource()}) as context:
        tick = FRESHNESS[dataset.name].evaluate_tick(context)
    (event,) = tick.asset_events
    assert isinstance(event, dg.AssetObservation)
    assert tick.skip_message == event.description
    pipeline.instance.report_runless_asset_event(event)
    (stored,) = pipeline.instance.fetch_observations(AssetKeys.of(dataset).weather, limit=1).records
    assert stored.asset_observation
    return stored.asset_observation


def test_a_backfill_of_old_months_is_not_fresh_and_the_newest_month_is(pipeline: Pipeline) -> None:
    due = due_month(datetime.now(tz=UTC), 6)
    empty = ticked(pipeline)
    assert_says(empty.description, "no complete month", f"{due} is due")
    assert plain(empty.metadata) == {"fresh": False, "newest complete month": "none", "due": str(due)}

    for month in ("1979-01", "1979-02"):
        assert not pipeline.run(month, **SMALL).errors
    old = ticked(pipeline)
    assert_says(old.description, f"{due} is due", "1979-02")
    assert plain(old.metadata) == {
        "fresh": False,
        "newest complete month": "1979-02",
        "due": str(due),
        "overdue months": due.number - Month(1979, 2).number,
    }

    # An incomplete newest month is not enough.
    incomplete = {"sample_hours": 24, "allow_incomplete": True}
    assert not pipeline.run(str(due), **SMALL, **incomplete).errors
    assert not plain(ticked(pipeline).metadata)["fresh"]
    assert not pipeline.run(str(due), **SMALL).errors
    new = plain(ticked(pipeline).metadata)
    assert (new["fresh"], new["newest complete month"], new["overdue months"]) == (True, str(due), 0)
    # Not of ERA5-Land, which has no table yet.
    land = ticked(pipeline, ERA5_LAND)
    assert_says(land.description, "no complete month", f"{due} is due")
    # The observation belongs to no month: the state of the months stays as it was.
    assert pipeline.instance.get_materialized_partitions(WEATHER) == {"1979-01-01", "1979-02-01", due.key}


def test_without_a_database_the_tick_fails(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ERA5_HOME", str(tmp_path))
    monkeypatch.delenv("ERA5_DATABASE_URL")
    with pytest.raises(NoDatabaseError):
        ticked(pipeline)


def test_it_is_off_until_it_is_switched_on() -> None:
    assert {sensor.name: sensor.default_status for sensor in FRESHNESS.values()} == {
        "freshness": dg.DefaultSensorStatus.STOPPED,
        "freshness_era5_land": dg.DefaultSensorStatus.STOPPED,
    }
