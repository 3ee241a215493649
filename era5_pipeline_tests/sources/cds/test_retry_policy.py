from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import spoken
from era5_pipeline.sources.cds.retry_policy import RetryableError, RetryPolicy, RetrySettings

if TYPE_CHECKING:
    from collections.abc import Callable

MONTH = Month(2020, 2)


class Waits:
    """A retry policy whose sleeps and messages are recorded."""

    def __init__(self, *, first: float = 30.0, poll: float = 60.0, hours: float = 1e6) -> None:
        self.slept: list[float] = []
        self.said: list[str] = []
        settings = RetrySettings(poll, first, hours, self.slept.append)
        self.policy = RetryPolicy(MONTH, settings, self.said.append)


def begin_again() -> str:
    return "it begins again"


def failing(times: int, **how: object) -> Callable[[], str]:
    """An attempt that fails this many times, then succeeds."""
    left = [times]

    def attempt() -> str:
        if left[0]:
            left[0] -= 1
            raise RetryableError("busy", **({"kind": "status"} | how))  # type: ignore[arg-type]
        return "done"

    return attempt


@given(st.integers(0, 12), st.floats(0.01, 100))
def test_waits_double_up_to_half_an_hour_and_are_reported(times: int, first: float) -> None:
    waits = Waits(first=first)
    assert waits.policy.retry(failing(times), begin_again) == "done"
    assert len(waits.slept) == len(waits.said) == times
    for number, seconds in enumerate(waits.slept):
        doubled = min(first * 2**number, 1800)
        assert doubled <= seconds <= 1.25 * doubled
    assert waits.policy.waited_seconds == pytest.approx(sum(waits.slept))
    assert all("2020-02: busy; trying again in" in text for text in waits.said)


@given(st.floats(0, 10_000))
def test_a_wait_is_as_long_as_the_service_asks_for(seconds: float) -> None:
    waits = Waits(first=5)
    waits.policy.retry(failing(1, after_seconds=seconds), begin_again)
    assert seconds <= waits.slept[0] <= max(seconds, 5)


def test_waits_are_short_again_after_an_answer() -> None:
    waits = Waits(first=10)
    waits.policy.retry(failing(5), begin_again)
    waits.policy.reset()
    waits.policy.retry(failing(1), begin_again)
    assert waits.slept[-1] <= 12.5


def test_waits_after_rejections_keep_growing_although_the_service_answers() -> None:
    waits = Waits(first=10)
    waits.policy.retry(failing(3, kind="rejected"), begin_again)
    waits.policy.reset()
    waits.policy.retry(failing(1, kind="rejected"), begin_again)
    assert waits.slept[-1] >= 80


@given(st.floats(0.001, 300))
def test_the_limit_of_all_waits(hours: float) -> None:
    waits, limit = Waits(hours=hours), hours * 3600
    with pytest.raises(SourceError, match="gave up: busy") as caught:
        waits.policy.retry(failing(10**6), begin_again)
    assert sum(waits.slept) >= limit
    assert sum(waits.slept[:-1]) < limit
    assert caught.value.remedy == "Run it again later: it begins again."


def test_an_error_with_a_limit_in_a_row_ends_the_retries() -> None:
    waits = Waits()
    assert waits.policy.retry(failing(2, max_in_a_row=3), begin_again) == "done"
    waits = Waits()
    with pytest.raises(SourceError, match="gave up"):
        waits.policy.retry(failing(3, max_in_a_row=3), begin_again)
    assert len(waits.slept) == 2


def test_a_permanent_error_is_not_retried() -> None:
    waits = Waits()

    def attempt() -> None:
        raise SourceError("no", remedy="none")

    with pytest.raises(SourceError, match=r"^no"):
        waits.policy.retry(attempt, begin_again)
    assert waits.slept == []


def test_a_long_queue_is_reported_every_ten_minutes() -> None:
    waits = Waits(poll=60)
    looks = iter([False] * 60 + [True])
    waits.policy.wait_until(lambda: next(looks), lambda: "request 7 is in the queue")
    assert waits.slept[0] == 1
    assert max(waits.slept) == 60
    reported = [text for text in waits.said if "request 7" in text]
    assert 4 <= len(reported) <= 7  # every ten minutes of an hour
    assert "waiting (for 0 s so far, up to 1000000.0 h in all: ERA5_CDS_PATIENCE_HOURS)" in reported[0]


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (119, "119 s"), (600, "10 min"), (9000, "2.5 h")])
def test_durations_are_written_in_a_fitting_unit(seconds: float, text: str) -> None:
    assert spoken(seconds) == text
