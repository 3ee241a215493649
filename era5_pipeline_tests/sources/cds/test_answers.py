"""Tests of `sources/cds/answers`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from era5_pipeline.model.errors import NotYetAvailableError, SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.sources.cds.answers import RequestFailedError, describe_connection_error, error_of
from era5_pipeline.sources.cds.retry_policy import RetryableError


def test_a_refused_connection_is_described_in_the_systems_words() -> None:
    with pytest.raises(requests.ConnectionError) as caught:
        requests.get("http://127.0.0.1:9/", timeout=5)
    assert "refused" in describe_connection_error(caught.value)


@pytest.mark.parametrize("url", ["http://store.invalid/", "https://store.invalid/"])
def test_a_dead_proxy_is_named_with_its_setting_and_without_its_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://user:secret@127.0.0.1:9")
    with pytest.raises(requests.ConnectionError) as caught:
        requests.get(url, timeout=5)
    said = describe_connection_error(caught.value)
    assert said.startswith("the proxy does not answer: Connection refused; ")
    assert "https_proxy is 127.0.0.1:9" in said
    assert "secret" not in said


MONTH = Month(2026, 11)
NOT_YET = (
    "None of the data you have requested is available yet, please revise the period requested. "
    "The latest date available for this dataset is: 2026-11-15 14:00"
)


def answer(status: int, headers: dict[str, str] | None = None, **said: str) -> requests.HTTPError:
    """The exception that the client raises for such an answer."""
    response = requests.Response()
    response.status_code = status
    response._content = json.dumps(said).encode()
    response.headers.update(headers or {})
    return requests.HTTPError("a message with a long URL", response=response)


@pytest.mark.parametrize(
    "said", [{"title": "The job has failed", "traceback": NOT_YET}, {"title": "invalid request", "detail": NOT_YET}]
)
def test_not_available_yet_names_the_latest_hour(said: dict[str, Any]) -> None:
    translated = error_of(MONTH, answer(400, **said))
    assert isinstance(translated, NotYetAvailableError)
    assert "2026-11 is not available yet" in translated.message
    assert "2026-11-15 14:00" in translated.message


@pytest.mark.parametrize(
    ("traceback", "kind"),
    [
        ("Number of API queued requests for this dataset is temporarily limited to 3.", "rejected"),
        ("Number of queued requests using the API is limited to 200.", "rejected"),
        ("Words of tomorrow.", "rejected"),
        ("MARS has failed with an internal error", "failed"),
    ],
)
def test_rejected_and_failed_jobs_need_a_new_request(traceback: str, kind: str) -> None:
    title = "The job has been rejected" if kind == "rejected" else "The job has failed"
    translated = error_of(MONTH, answer(400, title=title, traceback=traceback))
    assert isinstance(translated, RetryableError)
    assert (translated.kind, translated.needs_new_request) == (kind, True)
    assert traceback in translated.reason


MARS_ERROR = """MARS has returned an error, please check your selection.
Request submitted to the MARS server:
[{'class': ['ea'], 'date': ['2026-09-01', '2026-09-02'], 'area': ['1', '2'], 'time': ['00:00', '01:00']}]
Full error message:
ERROR - Expected 744, got 0.
"""


def test_the_error_of_a_failed_job_has_its_reason_and_not_the_request() -> None:
    translated = error_of(MONTH, answer(400, title="The job has failed", traceback=MARS_ERROR))
    assert isinstance(translated, RetryableError)
    assert "MARS has returned an error" in translated.reason
    assert "Expected 744, got 0." in translated.reason
    assert "'date'" not in translated.reason


def test_a_long_reason_is_cut_off() -> None:
    translated = error_of(MONTH, answer(400, title="The job has failed", traceback="word " * 10_000))
    assert isinstance(translated, RetryableError)
    assert len(translated.reason) < 600


@pytest.mark.parametrize(
    ("detail", "passes"),
    [
        ("Access to this dataset is temporarily disabled due to maintenance.", True),
        ("The dataset is closed. Please try again later.", True),
        ("This dataset has been withdrawn.", False),
        ("operation not allowed", False),
    ],
)
def test_a_dataset_closed_for_maintenance_is_retried(detail: str, passes: bool) -> None:
    translated = error_of(MONTH, answer(403, title="permission denied", detail=detail))
    assert isinstance(translated, RetryableError) is passes
    assert detail in str(translated)
    assert "--variables" not in str(translated)


@pytest.mark.parametrize("state", ["dismissed", "deleted"])
def test_a_dismissed_job_needs_a_new_request_once(state: str) -> None:
    translated = error_of(MONTH, answer(404, title="job not found", detail=f"job 7 {state}"))
    assert isinstance(translated, RetryableError)
    assert (translated.kind, translated.needs_new_request, translated.max_in_a_row) == ("dismissed", True, 2)


def test_an_invalid_request_is_a_permanent_error() -> None:
    text = "Request has not produced a valid combination of values, please check your selection."
    translated = error_of(MONTH, answer(400, title="The job has failed", traceback=text))
    assert isinstance(translated, RequestFailedError)
    assert text in translated.message


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 521])
def test_retryable_statuses(status: int) -> None:
    translated = error_of(MONTH, answer(status, {"Retry-After": "17"}, title="busy"))
    assert isinstance(translated, RetryableError)
    assert (translated.after_seconds, translated.needs_new_request) == (17.0, False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (requests.ConnectTimeout(), "no answer in time"),
        (requests.ReadTimeout(), "no answer in time"),
        (requests.ConnectionError("https://u:p@host/x?X-Signature=abc"), "cut off"),
        (requests.exceptions.ChunkedEncodingError("https://host/x?X-Signature=abc"), "cut off"),
    ],
)
def test_lost_connections_are_retryable_and_show_no_url(error: Exception, words: str) -> None:
    translated = error_of(MONTH, error)
    assert isinstance(translated, RetryableError)
    assert words in translated.reason
    assert "Signature" not in translated.reason


@pytest.mark.parametrize(
    "error",
    [requests.exceptions.SSLError("x"), requests.exceptions.InvalidURL("x"), requests.exceptions.InvalidHeader("x")],
)
def test_errors_of_tls_and_url_are_permanent(error: Exception) -> None:
    assert isinstance(error_of(MONTH, error), SourceError)


@pytest.mark.parametrize("status", [400, 403, 407])
def test_an_answer_of_a_proxy_is_recognised(status: int) -> None:
    error = answer(status)
    assert error.response is not None
    error.response._content = b"<html>Blocked by policy</html>"
    translated = error_of(MONTH, error)
    assert isinstance(translated, SourceError)
    assert "proxy" in translated.remedy
    assert "--variables" not in translated.remedy


@pytest.mark.parametrize("error", [AttributeError("x"), ValueError("x"), KeyError("x"), IndexError("x")])
def test_an_answer_in_another_form_is_retried_a_few_times(error: Exception) -> None:
    translated = error_of(MONTH, error)
    assert isinstance(translated, RetryableError)
    assert translated.max_in_a_row is not None


def test_exceptions_of_defects_are_not_translated() -> None:
    defect: Any = ZeroDivisionError()
    assert error_of(MONTH, defect) is defect
