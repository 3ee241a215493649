"""Sensors as the daemon of `era5 up` evaluates them, in one `era5 up`; by themselves: test_alerts, test_freshness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline_tests.backfills import wait_until
from era5_pipeline_tests.cli.test_up import WebUI, everything_up
from era5_pipeline_tests.commands import Home, new_home
from era5_pipeline_tests.defs.test_alerts import REFUSED
from era5_pipeline_tests.local_http import SECRET, Receiver, new_receiver
from era5_pipeline_tests.pipelines import SMALL
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

START = """
mutation ($sensor: SensorSelector!) { startSensor(sensorSelector: $sensor) { __typename } }
"""
OBSERVATIONS = """
{
  assetNodes(assetKeys: [{path: ["era5", "weather"]}]) {
    assetObservations(limit: 1) {
      description partition
      metadataEntries { label ... on BoolMetadataEntry { boolValue } }
    }
  }
}
"""
RUNS = "{ runsOrError { ... on Runs { results { runId } } } }"


@dataclass(frozen=True)
class Watched:
    """`era5 up`, whose failures are reported to `receiver`."""

    home: Home
    web: WebUI
    receiver: Receiver


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with (
        new_receiver() as receiver,
        new_home() as home,
        everything_up(home, free_port(), ERA5_ALERT_URL=receiver.url, ERA5_SOURCE="sample") as web,
    ):
        yield Watched(home, web, receiver)


def test_freshness_is_switched_on(watched: Watched) -> None:
    """The web UI shows its verdict on the asset's page; it needs no run, and the months' runs leave it alone."""
    web = watched.web
    run = web.launch("1979-02-01", source="sample", area=SMALL["area"])
    assert web.wait(run, "SUCCESS", "FAILURE") == "SUCCESS"
    assert latest(web) is None
    selector = {
        "repositoryLocationName": "era5_pipeline",
        "repositoryName": "__repository__",
        "sensorName": "freshness",
    }
    assert web.ask(START, sensor=selector)["startSensor"]["__typename"] == "Sensor"
    wait_until("the sensor has turned", lambda: latest(web))
    observed = latest(web)
    assert observed is not None
    assert observed["partition"] is None
    assert "the newest complete month in the table is 1979-02" in observed["description"]
    assert {"label": "fresh", "boolValue": False} in observed["metadataEntries"]
    assert [entry["runId"] for entry in web.ask(RUNS)["runsOrError"]["results"]] == [run]


def test_a_month_that_fails_is_reported(watched: Watched) -> None:
    run = watched.web.launch("2023-09-01", **REFUSED)
    assert watched.web.wait(run, "SUCCESS", "FAILURE") == "FAILURE"
    wait_until("the failure is reported", lambda: watched.receiver.bodies)
    (body,) = watched.receiver.bodies
    assert (body["run_id"], body["month"], body["source"], body["url"]) == (run, "2023-09", "files", None)
    assert "2023-09 is incomplete: 168 of 720 hours" in body["message"]
    assert body["remedy"]
    logs = [path.read_text(encoding="utf-8") for path in (watched.home.path / "logs").rglob("*") if path.is_file()]
    assert logs
    assert not any(SECRET in text for text in logs)


def latest(web: WebUI) -> dict[str, Any] | None:
    """The last observation, as the UI shows it."""
    (node,) = web.ask(OBSERVATIONS)["assetNodes"]
    observations: list[dict[str, Any]] = node["assetObservations"]
    return observations[0] if observations else None
