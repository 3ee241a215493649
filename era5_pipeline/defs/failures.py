"""Errors as Dagster failures: transient ones are retried, permanent ones show their remedy; both go to the ledger."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import dagster as dg

from era5_pipeline.defs.resources import current_results
from era5_pipeline.model.errors import (
    Era5Error,
    RefusedError,
    ServerUnreachableError,
    StoreUnreachableError,
    TransientError,
    UsageError,
    is_caused_by,
)
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.attempts import record_failure
from era5_pipeline.warehouse.schema import ensure_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from era5_pipeline.defs.resources import Era5Resource
    from era5_pipeline.flat.checks import CheckResult
    from era5_pipeline.model.settings import Settings

# Enough for a server restart, which takes up to a minute; a longer outage is left to the next run. It is not set as
# `retry_policy` of the assets, because Dagster would then also retry defects and interrupted steps.
RETRIES = dg.RetryPolicy(max_retries=3, delay=5, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)

_log = logging.getLogger(__name__)


@contextmanager
def as_failures(attempt: int) -> Iterator[None]:
    """Turn an `Era5Error` into a `Failure`, which the UI shows as its message and remedy instead of a traceback.

    A transient error requests a retry according to `RETRIES`, unless it has been waited for; `attempt` counts from 0.
    """
    try:
        yield
    except Exception as error:
        if was_interrupted(error):
            raise dg.DagsterExecutionInterruptedError from error
        if isinstance(error, Era5Error):
            current_results().error = error
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
        allow_retries=_may_pass(error),
    )
    # Of a request too many, Dagster would show "Exceeded max_retries" in place of the message.
    if not failure.allow_retries or attempt >= RETRIES.max_retries:
        raise failure from error
    failure.__cause__ = error
    delay = RETRIES.calculate_delay(attempt + 1)
    _log.warning("%s: trying again in %.0f s", error.message, delay)
    raise dg.RetryRequested(RETRIES.max_retries, delay) from failure


def _may_pass(error: Era5Error) -> bool:
    """Return whether a retry may succeed soon. Waiting for a file store is over before its error is raised."""
    if isinstance(error, StoreUnreachableError):
        return False
    # A restarting server refuses connections for a moment; without any server, no run gets this far.
    return isinstance(error, TransientError) or type(error) is ServerUnreachableError


def refusal(outcomes: Iterable[CheckResult], facts: Mapping[str, dg.MetadataValue]) -> dg.Failure | None:
    """The failure of a stage whose checks refused the month, with their sentences, their remedies and the facts.

    None if all passed.
    """
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if not failed:
        return None
    sentences = "\n".join(outcome.description for outcome in failed)
    remedies = "\n".join(dict.fromkeys(outcome.remedy for outcome in failed))
    return dg.Failure(
        description=f"{sentences}\n{remedies}",
        metadata={"message": sentences, "remedy": remedies, "exit_code": RefusedError.exit_code, **facts},
        allow_retries=False,
    )


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether an interrupt, of Python or Dagster, led to this error."""
    return is_caused_by(error, KeyboardInterrupt, dg.DagsterExecutionInterruptedError)


# --- Failures of a month's first stages, recorded in the warehouse, so that `era5 status` shows them ---


@contextmanager
def failure_in_ledger(month: str, era5: Era5Resource) -> Iterator[None]:
    """Record a failure of this stage of the month; no retry follows a `Failure`, which is raised in any case."""
    try:
        yield
    except dg.Failure as failure:
        with suppress(UsageError):  # of settings that cannot be read, which is why the stage failed
            record_failed_month(era5.settings(), Month.parse(month), str(failure.metadata["message"].value))
        raise


def record_failed_month(settings: Settings, month: Month, message: str) -> None:
    """Record that the month failed; without a writable database, only log it."""
    try:
        with open_warehouse(settings, create=True) as warehouse, warehouse.connect() as connection:
            ensure_schema(connection)  # this may be the very first month
            with server_errors("recording a failure"):
                record_failure(connection, month, " ".join(message.split()))
    except Era5Error as error:
        _log.info("%s: its failure could not be recorded: %s", month, error)
