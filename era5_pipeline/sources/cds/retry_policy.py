"""Waiting for a service that is busy, and telling of it: what passes is waited out, longer each time.

Here: how long, how often, and the words. Not here: what passes (`trouble`).
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type

from era5_pipeline.model.errors import MonthFailedError, SourceError
from era5_pipeline.sources.cds.answers import OF_THE_MOMENT, PassingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.model.months import Month

T = TypeVar("T")

_LONGEST_SECONDS = 1800.0
_FIRST_LOOK_SECONDS = 1.0
_SLOWER = 1.5
# A request that stays in the queue is spoken of again so long after.
_SPEAK_AGAIN_SECONDS = 600.0


class PatienceOverError(SourceError):
    """It took longer than the patience lasts; what is under way goes on."""


class Patience:
    """The patience of one month: `first_seconds` is the first wait after trouble, `limit_seconds` all waits together.

    Waits double with each trouble in a row, up to half an hour, and are spread by up to a quarter, so that many months
    do not come back at once.
    """

    def __init__(
        self,
        month: Month,
        *,
        first_seconds: float,
        look_seconds: float,
        limit_seconds: float,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._month = month
        self._first_seconds = first_seconds
        self._look_seconds = look_seconds
        self._limit_seconds = limit_seconds
        self._say = say
        self._sleep = sleep
        self._in_a_row: dict[str, int] = {}
        self.waited_seconds = 0.0

    def insist(self, attempt: Callable[[], T]) -> T:
        """What `attempt` gives, tried again as long as its trouble passes.

        Raises:
            PatienceOverError: if it did not pass in time.
            MonthFailedError: if it is trouble that is borne a few times only.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(PassingError),
            wait=self._seconds,
            stop=self._is_over,
            before_sleep=self._tell,
            sleep=self._wait,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except PassingError as error:
            message = f"{self._month}: gave up: {error.reason} (waited {spoken(self.waited_seconds)} in all)"
            if self._is_too_often(error):
                raise MonthFailedError(message, remedy="Run the month again later: it is asked for anew.") from error
            raise PatienceOverError(
                message, remedy="Run the month again later: what was asked for and fetched so far is taken up."
            ) from error

    def went_well(self, *kinds: str) -> None:
        """Forget earlier trouble of these kinds (none: that which is over once the service answers).

        The next trouble of the kind begins with a short wait again.
        """
        for kind in kinds or OF_THE_MOMENT:
            self._in_a_row.pop(kind, None)

    def until(self, is_ready: Callable[[], bool], describe: Callable[[], str]) -> None:
        """Look again and again, at growing intervals, until `is_ready`; tell of it when `describe` changes.

        Raises:
            PatienceOverError: if that takes longer than the patience lasts.
        """
        interval = min(_FIRST_LOOK_SECONDS, self._look_seconds)
        said, since_said, waited = "", 0.0, 0.0
        while not is_ready():
            now = describe()
            if now != said or since_said >= _SPEAK_AGAIN_SECONDS:
                self._say(f"{self._month}: {now}, waiting (for {spoken(waited)} so far)")
                said, since_said = now, 0.0
            if self.waited_seconds >= self._limit_seconds:
                raise PatienceOverError(
                    f"{self._month}: {now}, after {spoken(self.waited_seconds)} of waiting",
                    remedy="The request goes on at the service: run the month again, and it is taken up.",
                )
            self._wait(min(interval, self._left_seconds))
            since_said += interval
            waited += interval
            interval = min(interval * _SLOWER, self._look_seconds)

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)
        self.waited_seconds += seconds

    def _seconds(self, state: RetryCallState) -> float:
        error = _error_of(state)
        count = self._in_a_row[error.kind] = self._in_a_row.get(error.kind, 0) + 1
        doubled = self._first_seconds * 2.0 ** min(16, count - 1)
        spread = min(doubled, _LONGEST_SECONDS) * random.uniform(1.0, 1.25)  # noqa: S311  # no secret
        if error.after_seconds is not None:
            spread = max(error.after_seconds, min(spread, self._first_seconds))
        return min(spread, self._left_seconds)

    @property
    def _left_seconds(self) -> float:
        return max(0.0, self._limit_seconds - self.waited_seconds)

    def _is_over(self, state: RetryCallState) -> bool:
        return self._is_too_often(_error_of(state)) or self.waited_seconds >= self._limit_seconds

    def _is_too_often(self, error: PassingError) -> bool:
        # tenacity has asked for the seconds before it asks whether to stop.
        return error.most is not None and self._in_a_row.get(error.kind, 0) >= error.most

    def _tell(self, state: RetryCallState) -> None:
        error = _error_of(state)
        again = "asking anew" if error.anew else "trying again"
        self._say(
            f"{self._month}: {error.reason}; {again} in {spoken(state.upcoming_sleep)} "
            f"(waited {spoken(self.waited_seconds)} so far)"
        )


def _error_of(state: RetryCallState) -> PassingError:
    error = state.outcome.exception() if state.outcome is not None else None
    if not isinstance(error, PassingError):
        raise TypeError(f"only what passes is waited out, not {error!r}")
    return error


def spoken(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
