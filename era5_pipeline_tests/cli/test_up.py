"""`era5 up`: start database, web UI and daemon, launch a month from the UI, and stop everything."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.runtime.project_files import data_folder
from era5_pipeline_tests.backfills import locked, wait_until, waiting_load
from era5_pipeline_tests.commands import Home, InProcess, assert_explained, ended
from era5_pipeline_tests.pipelines import SMALL
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

LAUNCH = """
mutation ($parameters: ExecutionParams!) {
  launchRun(executionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
STATUS = "query ($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"
REEXECUTE = """
mutation ($parameters: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
RUNS_OF = "query($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs { results { runId } } } }"
ORIGIN = """
query ($run: ID!) {
  runOrError(runId: $run) {
    ... on Run { runConfig repositoryOrigin { repositoryLocationName repositoryName } }
  }
}
"""
EVENTS = """
query ($run: ID!) {
  logsForRun(runId: $run) {
    ... on EventConnection {
      events {
        __typename
        ... on AssetCheckEvaluationEvent { evaluation { success } }
        ... on ExecutionStepFailureEvent {
          failureMetadata { description metadataEntries { label ... on TextMetadataEntry { text } } }
        }
      }
    }
  }
}
"""
PARTITIONS = """
{
  assetNodes(assetKeys: [{path: ["era5", "raw"]}]) {
    assetPartitionStatuses { ... on TimePartitionStatuses { ranges { startKey endKey status } } }
  }
}
"""
TERMINATE = "mutation ($run: String!) { terminateRun(runId: $run) { __typename } }"


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Home) -> InProcess:
    return InProcess(capsys, monkeypatch, home.path)


class WebUI:
    """The requests of the web UI."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=240) as response:
            assert response.status == 200
            return json.load(response)

    def ask(self, query: str, **variables: object) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=240) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def launch(self, month: str, **config: object) -> str:
        parameters = {
            "selector": {
                "repositoryLocationName": "era5_pipeline",
                "repositoryName": "__repository__",
                "jobName": "load_month",
            },
            "runConfigData": {"resources": {"era5": {"config": config}}},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": month}]},
        }
        launched = self.ask(LAUNCH, parameters=parameters)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def wait(self, run: str, *statuses: str) -> str:
        deadline = time.monotonic() + 180
        while True:
            status = str(self.ask(STATUS, run=run)["runOrError"]["status"])
            if status in statuses:
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.5)


@contextmanager
def everything_up(home: Home, port: int, **env: str) -> Iterator[WebUI]:
    process = home.start("up", "--port", str(port), **env)
    try:
        assert process.stdout
        printed: list[str] = []
        while not printed or not printed[-1].startswith("Press Ctrl-C"):
            printed.append(process.stdout.readline())
            assert printed[-1], ended(process)
        assert f"web UI    http://127.0.0.1:{port}\n" in printed
        assert any(line.startswith("database  ") and str(home.path) in line for line in printed)
        yield WebUI(f"http://127.0.0.1:{port}")
    finally:
        process.send_signal(signal.SIGINT)
        last = ended(process, 240)
    assert (last.code, last.out) == (0, "stopped\n"), last


def test_month_is_launched_from_the_ui_and_everything_stops(home: Home, here: InProcess) -> None:
    port = free_port()
    with everything_up(home, port) as web:
        assert web.get("/server_info")["dagster_version"].startswith("1.13")
        assets = web.ask("{ assetNodes { assetKey { path } groupName isPartitioned } }")["assetNodes"]
        assert {("/".join(a["assetKey"]["path"]), a["groupName"], a["isPartitioned"]) for a in assets} == {
            (f"{dataset}/{stage}", dataset, True)
            for dataset in ("era5", "era5_land")
            for stage in ("raw", "flat", "weather")
        }

        # A second `era5 up` is refused, on the same port and on another.
        assert_explained(here.run("up", "--port", str(port), code=2), f"port {port} is in use", "--port")
        assert_explained(here.run("up", "--port", str(free_port()), code=2), "already running", "stop that one")

        run = web.launch("2020-02-01", **SMALL)
        assert web.wait(run, "SUCCESS", "FAILURE") == "SUCCESS"
        entry = here.months()["2020-02"]
        assert (entry["state"], entry["source"], entry["rows"]) == ("loaded", "sample", 696 * 9)

        # A run that waits for a locked month, which could take minutes, is terminated.
        with locked(home, Month(2020, 3)):
            run = web.launch("2020-03-01", **SMALL)
            wait_until("the load waits", lambda: waiting_load(home))
            assert web.ask(TERMINATE, run=run)["terminateRun"]["__typename"] == "TerminateRunSuccess"
            assert web.wait(run, "SUCCESS", "FAILURE", "CANCELED") == "CANCELED"
        assert "2020-03" not in here.months()
    assert home.processes() == []
    assert not home.server.is_running()


def test_runs_of_era5_load_are_executed_again_from_the_ui(home: Home) -> None:
    """A loaded month, and one that lacks hours: its page and its partitions say so."""
    loaded = home.run("load", "--from", "2020-04", "--source", "sample", "--area=-6/106/-6.5/106.5", "--json").json()
    files = str(data_folder("era5/telangana-2023-09"))
    refused = home.run("load", "--from", "2023-09", "--files-dir", files, "--json", code=4).json()
    (error,) = refused[0]["errors"]
    assert "2023-09 is incomplete: 168 of 720 hours" in error["message"]
    with everything_up(home, free_port()) as web:
        # It was refused before it was run, which is recorded as a run without steps.
        of_month = {"tags": [{"key": "dagster/partition", "value": "2023-09-01"}]}
        (recorded,) = web.ask(RUNS_OF, filter=of_month)["runsOrError"]["results"]
        for parent, status in ((loaded[0]["run_id"], "SUCCESS"), (recorded["runId"], "FAILURE")):
            assert web.ask(ORIGIN, run=parent)["runOrError"]["repositoryOrigin"] == {
                "repositoryLocationName": "era5_pipeline",
                "repositoryName": "__repository__",
            }
            again = web.ask(REEXECUTE, parameters={"parentRunId": parent, "strategy": "ALL_STEPS"})
            assert again["launchRunReexecution"]["__typename"] == "LaunchRunSuccess", again
            run = str(again["launchRunReexecution"]["run"]["runId"])
            assert web.wait(run, "SUCCESS", "FAILURE") == status
            first, second = (web.ask(ORIGIN, run=one)["runOrError"]["runConfig"] for one in (parent, run))
            assert first == second
        # The run that a check refused shows its sentence and remedy before anything else, and nothing as materialized.
        events = web.ask(EVENTS, run=run)["logsForRun"]["events"]
        (failure,) = (event for event in events if event["__typename"] == "ExecutionStepFailureEvent")
        shown = failure["failureMetadata"]
        assert shown["description"] == f"{error['message']}\n{error['remedy']}"
        first_two = [(entry["label"], entry["text"]) for entry in shown["metadataEntries"][:2]]
        assert first_two == [("message", error["message"]), ("remedy", error["remedy"])]
        assert "MaterializationEvent" not in {event["__typename"] for event in events}
        assert [e["evaluation"]["success"] for e in events if "evaluation" in e].count(False) == 1
        (node,) = web.ask(PARTITIONS)["assetNodes"]
        ranges = node["assetPartitionStatuses"]["ranges"]
        for key, status in (("2020-04-01", "MATERIALIZED"), ("2023-09-01", "FAILED")):
            assert [r["status"] for r in ranges if r["startKey"] <= key <= r["endKey"]] == [status], ranges


def test_a_folder_of_files_that_does_not_exist_is_told_at_once(here: InProcess) -> None:
    here.set(ERA5_FILES_DIR="nowhere")
    printed = here.run("up", "--port", str(free_port()), code=2)
    assert_explained(printed, "nowhere does not exist", "ERA5_FILES_DIR")


@pytest.mark.parametrize("port", ["0", "65536", "web"])
def test_invalid_port_is_refused(here: InProcess, port: str) -> None:
    assert "--port" in here.run("up", "--port", port, code=2).err
