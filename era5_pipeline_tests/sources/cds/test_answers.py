from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from era5_pipeline.model.errors import NotYetAvailableError, SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.sources.cds.answers import RequestFailedError, error_of
from era5_pipeline.sources.cds.retry_policy import RetryableError

MONTH = Month(2026, 11)
NOT_YET = (
    "None of the data you have requested is available yet, please revise the period requested. "
    "The latest date available for this dataset is: 2026-11-15 14:00"
)


def answer(status: int, headers: dict[str, str] | None = None, **said: str) -> requests.HTTPError:
    """What the client raises of such an answer."""
    response = requests.Response()
    response.status_code = status
    response._content = json.dumps(said).encode()
    response.headers.update(headers or {})
    return requests.HTTPError("an address that nobody wants to read", response=response)


def test_not_available_yet_names_the_latest_hour() -> None:
    verdict = error_of(MONTH, answer(400, title="The job has failed", traceback=NOT_YET))
    assert isinstance(verdict, NotYetAvailableError)
    assert "2026-11 is not available yet" in verdict.message
    assert "2026-11-15 14:00" in verdict.message


@pytest.mark.parametrize(
    ("traceback", "kind"),
    [
        ("Number of API queued requests for this dataset is temporarily limited to 3.", "rejected"),
        ("Number of queued requests using the API is limited to 200.", "rejected"),
        ("Words of tomorrow.", "rejected"),
        ("MARS has failed with an internal error", "failed"),
    ],
)
def test_jobs_that_are_to_be_sent_anew(traceback: str, kind: str) -> None:
    title = "The job has been rejected" if kind == "rejected" else "The job has failed"
    verdict = error_of(MONTH, answer(400, title=title, traceback=traceback))
    assert isinstance(verdict, RetryableError)
    assert (verdict.kind, verdict.needs_new_request) == (kind, True)
    assert traceback in verdict.reason


def test_what_is_not_there_yet_is_refused_when_it_is_sent() -> None:
    verdict = error_of(MONTH, answer(400, title="invalid request", detail=NOT_YET))
    assert isinstance(verdict, NotYetAvailableError)
    assert "2026-11-15 14:00" in verdict.message


MARS_ERROR = """MARS has returned an error, please check your selection.
Request submitted to the MARS server:
[{'class': ['ea'], 'date': ['2026-09-01', '2026-09-02'], 'area': ['1', '2'], 'time': ['00:00', '01:00']}]
Full error message:
ERROR - Expected 744, got 0.
"""


def test_the_message_of_a_failed_job_has_its_reason_and_not_the_request() -> None:
    verdict = error_of(MONTH, answer(400, title="The job has failed", traceback=MARS_ERROR))
    assert isinstance(verdict, RetryableError)
    assert "MARS has returned an error" in verdict.reason
    assert "Expected 744, got 0." in verdict.reason
    assert "'date'" not in verdict.reason


def test_a_long_text_is_cut_off() -> None:
    verdict = error_of(MONTH, answer(400, title="The job has failed", traceback="word " * 10_000))
    assert isinstance(verdict, RetryableError)
    assert len(verdict.reason) < 600


@pytest.mark.parametrize(
    ("detail", "passes"),
    [
        ("Access to this dataset is temporarily disabled due to maintenance.", True),
        ("The dataset is closed. Please try again later.", True),
        ("This dataset has been withdrawn.", False),
        ("operation not allowed", False),
    ],
)
def test_a_dataset_that_is_closed_for_a_while_is_waited_for(detail: str, passes: bool) -> None:
    verdict = error_of(MONTH, answer(403, title="permission denied", detail=detail))
    assert isinstance(verdict, RetryableError) is passes
    assert detail in str(verdict)
    assert "--variables" not in str(verdict)


@pytest.mark.parametrize("state", ["dismissed", "deleted"])
def test_a_job_that_its_owner_dismissed(state: str) -> None:
    verdict = error_of(MONTH, answer(404, title="job not found", detail=f"job 7 {state}"))
    assert isinstance(verdict, RetryableError)
    assert (verdict.kind, verdict.needs_new_request, verdict.max_in_a_row) == ("dismissed", True, 2)


def test_a_job_that_can_never_succeed() -> None:
    text = "Request has not produced a valid combination of values, please check your selection."
    verdict = error_of(MONTH, answer(400, title="The job has failed", traceback=text))
    assert isinstance(verdict, RequestFailedError)
    assert text in verdict.message


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 521])
def test_statuses_that_pass(status: int) -> None:
    verdict = error_of(MONTH, answer(status, {"Retry-After": "17"}, title="busy"))
    assert isinstance(verdict, RetryableError)
    assert (verdict.after_seconds, verdict.needs_new_request) == (17.0, False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (requests.ConnectTimeout(), "no answer in time"),
        (requests.ReadTimeout(), "no answer in time"),
        (requests.ConnectionError("https://u:p@host/x?X-Signature=abc"), "cut off"),
        (requests.exceptions.ChunkedEncodingError("https://host/x?X-Signature=abc"), "cut off"),
    ],
)
def test_lost_connections_pass_and_no_address_is_shown(error: Exception, words: str) -> None:
    verdict = error_of(MONTH, error)
    assert isinstance(verdict, RetryableError)
    assert words in verdict.reason
    assert "Signature" not in verdict.reason


@pytest.mark.parametrize(
    "error",
    [requests.exceptions.SSLError("x"), requests.exceptions.InvalidURL("x"), requests.exceptions.InvalidHeader("x")],
)
def test_what_the_user_must_mend(error: Exception) -> None:
    assert isinstance(error_of(MONTH, error), SourceError)


@pytest.mark.parametrize("status", [400, 403, 407])
def test_an_answer_of_somebody_in_between(status: int) -> None:
    error = answer(status)
    assert error.response is not None
    error.response._content = b"<html>Blocked by policy</html>"
    verdict = error_of(MONTH, error)
    assert isinstance(verdict, SourceError)
    assert "proxy" in verdict.remedy
    assert "--variables" not in verdict.remedy


@pytest.mark.parametrize("error", [AttributeError("x"), ValueError("x"), KeyError("x"), IndexError("x")])
def test_an_answer_in_another_form_is_borne_a_few_times(error: Exception) -> None:
    verdict = error_of(MONTH, error)
    assert isinstance(verdict, RetryableError)
    assert verdict.max_in_a_row is not None


def test_defects_stay_what_they_are() -> None:
    defect: Any = ZeroDivisionError()
    assert error_of(MONTH, defect) is defect
