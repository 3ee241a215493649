"""The web UI's GraphQL API: launch a backfill as its dialog does, and read the backfill's state and runs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.cells import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.model.months import Month

ASSETS = (("era5", "raw"), ("era5", "flat"), ("era5", "weather"))
_SECONDS = 120.0
# A page of runs: all months since 1940 in a few requests.
_PAGE = 500

_LAUNCH = """
mutation ($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
_STATUS = """
query ($backfill: String!) {
  partitionBackfillOrError(backfillId: $backfill) {
    ... on PartitionBackfill { status error { message } }
  }
}
"""
_RUNS = """
query ($filter: RunsFilter!, $cursor: String, $limit: Int!) {
  runsOrError(filter: $filter, cursor: $cursor, limit: $limit) {
    ... on Runs { results { runId status startTime endTime tags { key value } } }
  }
}
"""


@dataclass(frozen=True)
class BackfillRun:
    """A run of a backfill; times are Unix seconds, None where it has not got so far."""

    run_id: str
    month: str
    status: str
    started: float | None
    ended: float | None


class WebApi:
    """Requests to the web UI at `url`."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/graphql"

    def ask(self, query: str, **variables: object) -> Any:  # noqa: ANN401  # JSON
        """The answer's data.

        Raises:
            CannotRunError: if the web UI does not answer, or with an error.
        """
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})  # noqa: S310  # http
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310  # on loopback
                answer = json.load(response)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise CannotRunError(f"the web UI does not answer: {error}") from error
        if "errors" in answer:
            raise CannotRunError(f"the web UI: {answer['errors'][0]['message']}")
        return answer["data"]

    def launch_backfill(self, months: Sequence[Month]) -> str:
        """Launch a backfill of the three assets for these months; return its id."""
        parameters = {
            "assetSelection": [{"path": path} for path in ASSETS],
            "partitionNames": [month.key for month in months],
        }
        launched = self.ask(_LAUNCH, parameters=parameters)["launchPartitionBackfill"]
        if launched["__typename"] != "LaunchBackfillSuccess":
            raise CannotRunError(f"the backfill was not launched: {launched.get('message', launched['__typename'])}")
        return str(launched["backfillId"])

    def status(self, backfill: str) -> str:
        """The backfill's status, such as REQUESTED or COMPLETED_SUCCESS."""
        found = self.ask(_STATUS, backfill=backfill)["partitionBackfillOrError"]
        return str(found["status"])

    def runs(self, backfill: str) -> list[BackfillRun]:
        """All runs of the backfill, the newest first."""
        runs: list[BackfillRun] = []
        tags = [{"key": "dagster/backfill", "value": backfill}]
        while True:
            cursor = runs[-1].run_id if runs else None
            page = self.ask(_RUNS, filter={"tags": tags}, cursor=cursor, limit=_PAGE)["runsOrError"]["results"]
            runs += [_backfill_run(run) for run in page]
            if len(page) < _PAGE:
                return runs


def _backfill_run(run: dict[str, Any]) -> BackfillRun:
    tags = {tag["key"]: tag["value"] for tag in run["tags"]}
    return BackfillRun(run["runId"], tags.get("dagster/partition", ""), run["status"], run["startTime"], run["endTime"])
