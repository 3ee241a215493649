"""The retry policy of a request: which errors are retried, how long each wait is, and when to give up.

Waits and reports it. For which of the service's responses are retryable see `answers`.
"""

from __future__ import annotations

import random
import time
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type

from era5_pipeline.model.errors import MonthFailedError, SourceError
from era5_pipeline.model.times import spoken
from era5_pipeline.runtime.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.model.months import Month

T = TypeVar("T")

# Consecutive failures, for reasons of the service, that count as permanent.
MAX_FAILURES = 3
# Kinds of errors that end once the service responds.
_OVER_WITH_ANY_ANSWER = ("status", "connection", "answer", "unknown job")
_LONGEST_SECONDS = 1800.0
_FIRST_POLL_SECONDS = 1.0
_POLL_FACTOR = 1.5
# A request still in the queue is reported again after this time.
_REPORT_AGAIN_SECONDS = 600.0


@dataclass(frozen=True)
class RetrySettings:
    """Waits for the service (see `Settings.cds_*`): between polls, after a first error, and in total."""

    poll_seconds: float = 60.0
    retry_seconds: float = 30.0
    patience_hours: float = 168.0
    sleep: Callable[[float], None] = time.sleep


@dataclass(eq=False)
class RetryableError(Exception):
    """An error that may be gone on a later attempt.

    `after_seconds` is the wait requested by the service, None if it names none. `needs_new_request`: the current
    request has failed. `max_in_a_row`: how many consecutive errors of this `kind` are retried; None: any number until
    the time limit. `check`: what the user should check if it lasts, as a sentence.
    """

    reason: str
    _: KW_ONLY
    kind: str
    after_seconds: float | None = None
    needs_new_request: bool = False
    max_in_a_row: int | None = None
    check: str = ""


class RetriesExhaustedError(SourceError):
    """The time limit of all waits has passed; the request continues at the service."""


class RetryPolicy:
    """Waits and retries of one request, for a month or another `subject` (named in messages).

    Waits double with each consecutive error, up to half an hour, and are randomly extended by up to a quarter, so that
    many months do not retry at the same moment. All waits together last up to `patience_hours`.
    """

    def __init__(self, subject: Month | str, settings: RetrySettings, say: Callable[[str], None]) -> None:
        self._subject = subject
        self._settings = settings
        self._limit_seconds = settings.patience_hours * 3600.0
        self._say = say
        self._in_a_row: dict[str, int] = {}
        self.waited_seconds = 0.0

    def retry(self, attempt: Callable[[], T], next_run: Callable[[], str]) -> T:
        """Return the result of `attempt`, repeated after each retryable error.

        If it gives up, `next_run` says in a few words what the next run does with the request.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(RetryableError),
            wait=self._seconds,
            stop=self._is_over,
            before_sleep=self._report,
            sleep=self._wait,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except RetryableError as error:
            message = f"{self._subject}: gave up: {error.reason} (waited {spoken(self.waited_seconds)} in all)"
            remedy = f"{error.check} Run it again later: {next_run()}.".lstrip()
            if self._is_too_often(error):
                raise MonthFailedError(message, remedy=remedy) from error
            raise RetriesExhaustedError(message, remedy=remedy) from error

    def reset(self, *kinds: str) -> None:
        """Forget earlier errors of these kinds; without kinds, of those that end once the service responds.

        The next error of the kind then has a short wait again.
        """
        for kind in kinds or _OVER_WITH_ANY_ANSWER:
            self._in_a_row.pop(kind, None)

    def wait_until(self, is_ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        """Poll `is_ready` at growing intervals until it is true; report `describe` whenever it changes."""
        poll_seconds = self._settings.poll_seconds
        interval = min(_FIRST_POLL_SECONDS, poll_seconds)
        said, since_said, waited = "", 0.0, 0.0
        while not is_ready():
            now = describe()
            if now != said or since_said >= _REPORT_AGAIN_SECONDS:
                self._say(f"{self._subject}: {now}, {self._waiting(waited)}")
                said, since_said = now, 0.0
            if self.waited_seconds >= self._limit_seconds:
                raise RetriesExhaustedError(
                    f"{self._subject}: {now}, after {spoken(self.waited_seconds)} of waiting",
                    remedy="The request continues at the service: run it again to resume.",
                )
            self._wait(min(interval, self._left_seconds))
            since_said += interval
            waited += interval
            interval = min(interval * _POLL_FACTOR, poll_seconds)

    def _wait(self, seconds: float) -> None:
        with waiting():
            self._settings.sleep(seconds)
        self.waited_seconds += seconds

    def _seconds(self, state: RetryCallState) -> float:
        error, first = _error_of(state), self._settings.retry_seconds
        count = self._in_a_row[error.kind] = self._in_a_row.get(error.kind, 0) + 1
        doubled = first * 2.0 ** min(16, count - 1)
        spread = min(doubled, _LONGEST_SECONDS) * random.uniform(1.0, 1.25)  # noqa: S311  # not a secret
        if error.after_seconds is not None:
            spread = max(error.after_seconds, min(spread, first))
        return min(spread, self._left_seconds)

    @property
    def _left_seconds(self) -> float:
        return max(0.0, self._limit_seconds - self.waited_seconds)

    def _is_over(self, state: RetryCallState) -> bool:
        return self._is_too_often(_error_of(state)) or self.waited_seconds >= self._limit_seconds

    def _is_too_often(self, error: RetryableError) -> bool:
        # tenacity calls `_seconds`, which counts, before this check.
        return error.max_in_a_row is not None and self._in_a_row.get(error.kind, 0) >= error.max_in_a_row

    def _report(self, state: RetryCallState) -> None:
        error = _error_of(state)
        next_step = "sending a new request" if error.needs_new_request else "trying again"
        self._say(
            f"{self._subject}: {error.reason}; {next_step} in {spoken(state.upcoming_sleep)} "
            f"(waited {spoken(self.waited_seconds)} so far, up to {self._limit} in all)"
        )

    def _waiting(self, waited: float) -> str:
        return f"waiting (for {spoken(waited)} so far, up to {self._limit} in all: ERA5_CDS_PATIENCE_HOURS)"

    @property
    def _limit(self) -> str:
        return spoken(self._limit_seconds)


def _error_of(state: RetryCallState) -> RetryableError:
    error = state.outcome.exception() if state.outcome is not None else None
    if not isinstance(error, RetryableError):
        raise TypeError(f"only a RetryableError is retried, not {error!r}")
    return error
