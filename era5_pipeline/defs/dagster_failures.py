"""Errors as Dagster failures, in one place: transient ones are tried again, permanent ones stop with their remedy."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import dagster as dg

from era5_pipeline.model.errors import Era5Error, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator

# A server that restarts is back within a minute; one that is not is left to the next run. The assets do not have it as
# their `retry_policy`: under one, Dagster tries defects again too, and steps that were told to stop.
RETRIES = dg.RetryPolicy(max_retries=3, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)

_log = logging.getLogger(__name__)


@contextmanager
def as_failures(attempt: int) -> Iterator[None]:
    """Turn an `Era5Error` into a `Failure` whose description the UI shows whole, without a traceback of ours.

    Where it is transient, another try is requested, as `RETRIES` says; `attempt` counts from 0.

    Raises:
        dagster.Failure: of a permanent error.
        dagster.RetryRequested: of a transient one; the `Failure` is its cause.
        dagster.DagsterExecutionInterruptedError: if the error came of the step being told to stop.
    """
    try:
        yield
    except Exception as error:
        if _was_interrupted(error):
            raise dg.DagsterExecutionInterruptedError from error
        if isinstance(error, Era5Error):
            _fail(error, attempt)
        raise


def _fail(error: Era5Error, attempt: int) -> NoReturn:
    failure = dg.Failure(
        description=str(error),
        metadata={
            "message": error.message,
            "remedy": error.remedy,
            "exit_code": error.exit_code,
        },
        allow_retries=isinstance(error, TransientError),
    )
    if not failure.allow_retries:
        raise failure from error
    failure.__cause__ = error
    delay = RETRIES.calculate_delay(attempt + 1)
    if attempt < RETRIES.max_retries:
        _log.warning("%s: trying again in %.0f s", error.message, delay)
    raise dg.RetryRequested(RETRIES.max_retries, delay) from failure


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an interrupt lies beneath: cleaning up after one may fail in turn, as a COPY that was cut off does."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt | dg.DagsterExecutionInterruptedError):
            return True
        error = error.__cause__ or error.__context__
    return False
