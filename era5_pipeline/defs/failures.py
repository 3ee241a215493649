"""Errors as Dagster failures, in one place: transient ones are tried again, permanent ones stop with their remedy."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg

from era5_pipeline.errors import Era5Error, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator

# A server that restarts is back within a minute; one that is not is left to the next run.
RETRIES = dg.RetryPolicy(max_retries=3, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)


@contextmanager
def as_failures() -> Iterator[None]:
    """Turn an `Era5Error` into a `Failure` whose description the UI shows whole, without a traceback of ours."""
    try:
        yield
    except Era5Error as error:
        raise dg.Failure(
            description=str(error),
            metadata={
                "message": error.message,
                "remedy": error.remedy,
                "exit_code": error.exit_code,
            },
            allow_retries=isinstance(error, TransientError),
        ) from error
