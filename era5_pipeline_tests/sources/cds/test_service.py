"""What the service's own code does that a friendlier one would not: each was seen there first."""

from __future__ import annotations

import re
import traceback
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import time_machine

from era5_pipeline.model.errors import MonthFailedError, SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.sources.cds.request import DATASET
from era5_pipeline.sources.cds.session import OneOriginSession, OtherHostError
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.cds_store.faults import Redirect
from era5_pipeline_tests.cds_store.server import Job
from era5_pipeline_tests.sources.cds.asking import TODAY, Asking, is_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[CdsServer]:
    """A server at another origin, which would answer as the service does."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with CdsServer(folder, today=TODAY) as server:
        yield server


def calls(asking: Asking, method: str = "GET") -> list[str]:
    return [path for verb, path, _ in asking.server.requests if verb == method]


# --- fresh retrievals ----------------------------------------------------------


def test_each_refetch_is_a_retrieval_of_its_own(asking: Asking) -> None:
    asking.fetch()
    for count in (2, 3, 4):
        asking.fetch(refetch=True)
        assert asking.server.retrievals == count
    orders = [tuple(inputs["time"]) for inputs in asking.server.submissions]
    assert len(set(orders)) == 4
    assert not is_fresh(asking.server.submissions[0])


def test_an_old_month_may_come_from_the_cache(asking: Asking) -> None:
    asking.fetch()
    for path in asking.folder.iterdir():
        path.unlink()
    asking.fetch()
    assert (len(asking.server.submissions), asking.server.retrievals) == (2, 1)


def test_a_recent_month_is_retrieved_though_it_is_in_the_cache(asking: Asking, tmp_path: Path) -> None:
    september = Month(2026, 9)
    with time_machine.travel(TODAY, tick=False):
        asking.fetch(september)
        Asking(asking.server, tmp_path / "another").fetch(september)
    assert asking.server.retrievals == 2


def test_what_is_asked_for_passes_the_services_schema(asking: Asking) -> None:
    with time_machine.travel(TODAY, tick=False):
        asking.fetch(Month(2026, 9), refetch=True)
    (inputs,) = asking.server.submissions
    assert set(inputs) == {
        *("product_type", "variable", "year", "month", "day", "time"),
        *("data_format", "download_format", "area"),
    }


def test_a_fresh_request_whose_answer_was_lost_is_found_by_its_order(asking: Asking) -> None:
    asking.server.faults.drop_submit_reply = 1
    asking.fetch(refetch=True)
    assert len(asking.server.submissions) == 1
    assert is_fresh(asking.server.submissions[0])


# --- looking for a request whose answer was lost -------------------------------


def other_jobs(asking: Asking, number: int, *, ago: timedelta) -> None:
    """Requests that the user's other programs have sent."""
    for count in range(number):
        created = datetime.now(tz=UTC) - ago - count * timedelta(seconds=1)
        job = Job(f"00000000-0000-0000-0000-{count:012d}", {"variable": ["2m_temperature"]}, created)
        job.status, job.finished = "successful", created
        asking.server.jobs[job.id] = job


@pytest.mark.parametrize("ago", [timedelta(hours=3), timedelta(seconds=20)])
def test_after_a_failed_submission_few_calls_find_out_that_nothing_arrived(asking: Asking, ago: timedelta) -> None:
    other_jobs(asking, 30, ago=ago)
    asking.server.faults.fail("submit", status=503, times=1)
    asking.fetch()
    methods = [method for method, _, _ in asking.server.requests]
    first, second = (index for index, method in enumerate(methods) if method == "POST")
    assert second - first - 1 < 10
    assert len(asking.server.submissions) == 1


def test_a_lost_request_is_found_among_others(asking: Asking) -> None:
    other_jobs(asking, 30, ago=timedelta(minutes=10))
    asking.server.faults.drop_submit_reply = 1
    asking.fetch()
    assert len(asking.server.submissions) == 1
    assert len([path for path in calls(asking) if "/jobs?" in path]) == 1


def test_after_a_definite_refusal_nothing_is_looked_for(asking: Asking) -> None:
    asking.server.faults.too_many_requests = 1
    asking.fetch()
    asking.server.faults.licence = True
    with pytest.raises(SourceError):
        asking.fetch(Month(2020, 3))
    asking.server.faults.licence = False
    asking.fetch(Month(2020, 3))
    assert not [path for path in calls(asking) if "/jobs?" in path]


# --- the key -------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", [f"{DATASET}$", "execution$", "jobs/[^/]+$", "results$", "messages$"])
def test_the_key_does_not_follow_a_redirect(asking: Asking, elsewhere: CdsServer, status: int, path: str) -> None:
    origin = elsewhere.url.removesuffix("/api")
    asking.server.faults.redirect, asking.server.faults.redirects = Redirect(path, status, origin), 1
    if status in (301, 308) and path != "messages$":
        with pytest.raises(SourceError, match=r"another host \(127\.0\.0\.1\)") as caught:
            asking.fetch()
        assert "CDSAPI_URL" in caught.value.remedy
    else:
        asking.fetch()
    assert elsewhere.requests == []


def test_a_redirect_that_lasts_is_an_error_in_the_end(asking: Asking, elsewhere: CdsServer) -> None:
    origin = elsewhere.url.removesuffix("/api")
    asking.server.faults.redirect, asking.server.faults.redirects = Redirect("", 302, origin), 10_000
    with pytest.raises(SourceError, match="another host"):
        asking.fetch()
    assert len(asking.slept) < 20
    assert elsewhere.requests == []


def test_a_redirect_to_the_service_itself_is_followed(asking: Asking) -> None:
    origin = asking.server.url.removesuffix("/api")
    asking.server.faults.redirect, asking.server.faults.redirects = Redirect("jobs/[^/]+$", 302, origin), 1
    asking.fetch()
    assert asking.slept == []


@pytest.mark.parametrize("url", ["http://localhost:1/x", "https://127.0.0.1:1/x", "http://127.0.0.1:2/x"])
def test_an_address_in_an_answer_is_not_called_with_the_key(url: str) -> None:
    with OneOriginSession("http://127.0.0.1:1/api") as session, pytest.raises(OtherHostError):
        session.get(url, timeout=5)


def test_a_tls_failure_names_the_host(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_URL", asking.server.url.replace("http://", "https://"))
    with pytest.raises(SourceError, match=r"no secure connection to 127\.0\.0\.1") as caught:
        asking.fetch()
    assert "REQUESTS_CA_BUNDLE" in caught.value.remedy


def test_a_tls_failure_of_the_file_server_names_that_one(asking: Asking) -> None:
    port = asking.server.url.split(":")[2].removesuffix("/api")
    asking.server.faults.href = f"https://localhost:{port}/store/month.zip?X-Signature=a-secret"
    with pytest.raises(SourceError, match="no secure connection to localhost") as caught:
        asking.fetch()
    assert "a-secret" not in "".join(traceback.format_exception(caught.value))


# --- maintenance, dismissed and failed requests --------------------------------


def test_maintenance_is_waited_for(asking: Asking) -> None:
    asking.server.faults.disabled = 3
    asking.fetch()
    assert len(asking.slept) == 3
    assert len([text for text in asking.said if "maintenance" in text]) == 3


def test_maintenance_longer_than_the_patience(asking: Asking) -> None:
    asking.server.faults.disabled = 10_000
    with pytest.raises(SourceError, match="temporarily disabled") as caught:
        asking.fetch(patience_hours=1.0)
    assert sum(asking.slept) == pytest.approx(3600)
    assert "again later" in caught.value.remedy
    assert "--variables" not in str(caught.value)


def dismiss_open_jobs(asking: Asking) -> None:
    for job in asking.server.jobs.values():
        if job.status == "accepted":
            asking.server.dismiss(job)


def test_a_dismissed_request_is_sent_again_once(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 1

    def dismiss() -> None:
        dismiss_open_jobs(asking)
        asking.while_asleep = lambda: None

    asking.while_asleep = dismiss
    asking.fetch()
    assert len(asking.server.submissions) == 2
    assert any("dismissed by its owner" in text for text in asking.said)


def test_a_request_that_is_dismissed_again_is_left(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 10_000
    asking.while_asleep = lambda: dismiss_open_jobs(asking)
    with pytest.raises(MonthFailedError, match="dismissed by its owner"):
        asking.fetch()
    assert len(asking.server.submissions) == 2


def test_a_failed_job_is_told_of_without_its_request(asking: Asking) -> None:
    request: dict[str, Any] = {"class": ["ea"], "date": [f"2020-02-{day:02d}" for day in range(1, 30)]}
    asking.server.faults.fail_jobs = 10
    asking.server.faults.failure = (
        "MARS has returned an error, please check your selection.\n"
        f"Request submitted to the MARS server:\n{[request]}\nFull error message:\nERROR - Out of tapes.\n"
    )
    with pytest.raises(MonthFailedError, match=r"Out of tapes\.") as caught:
        asking.fetch()
    shown = "".join(traceback.format_exception(caught.value)) + "".join(asking.said)
    assert not re.search("2020-02-2[0-9]", shown)
