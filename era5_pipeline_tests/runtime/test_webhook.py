"""Tests of `runtime/webhook`."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.runtime.webhook import post_json, require_webhook_url
from era5_pipeline_tests.local_http import SECRET, Receiver, new_receiver

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with new_receiver() as receiver:
        yield receiver


def test_json_is_posted(receiver: Receiver) -> None:
    assert post_json(receiver.url, {"text": "Zürich\nfailed"}) is None
    assert receiver.bodies == [{"text": "Zürich\nfailed"}]


@pytest.mark.parametrize(("status", "said"), [(500, "HTTP 500"), (404, "HTTP 404"), (302, "redirect (HTTP 302)")])
def test_an_answer_that_refuses_is_told(receiver: Receiver, status: int, said: str) -> None:
    receiver.status = status
    problem = post_json(receiver.url, {})
    assert problem is not None
    assert said in problem
    assert receiver.asked == 1  # a redirect is not followed


def test_no_message_and_no_log_shows_the_url(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    caplog.set_level(logging.DEBUG)
    urls = (
        receiver.url,
        f"http://127.0.0.1:{closed}/services/{SECRET}",
        f"https://127.0.0.1:{receiver.port}/services/{SECRET}",
        f"https://{SECRET}.invalid/",
        f"https://{'a' * 70}.{SECRET}/",
    )
    problems = [post_json(url, {}) for url in urls]
    assert problems[0] is None
    for problem in problems[1:]:
        assert problem is not None
        assert problem.startswith("cannot be reached (")
        assert SECRET not in problem
    assert SECRET not in caplog.text
    # Later log records of other code's requests are unchanged.
    assert not logging.getLogger("urllib3.connectionpool").filters


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"http://hooks.example.org/{SECRET}", "plain http"),
        (f"ftp://hooks.example.org/{SECRET}", "not the URL"),
        (SECRET, "not the URL"),
        (f"https://host:{SECRET}/", "not the URL"),
    ],
)
def test_a_url_that_is_not_safe_is_refused_without_showing_it(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"ERA5_ALERT_URL is .*{said}") as raised:
        require_webhook_url(url, "ERA5_ALERT_URL")
    assert SECRET not in str(raised.value)
    for safe in ("https://hooks.example.org/a", "http://127.0.0.1:1/a", "http://localhost/a"):
        require_webhook_url(safe, "ERA5_ALERT_URL")
