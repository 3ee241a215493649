"""Which errors are retried, and how they appear in Dagster."""

from __future__ import annotations

import dagster as dg
import pytest

from era5_pipeline.defs.failures import RETRIES, as_failures
from era5_pipeline.model.errors import (
    Era5Error,
    LocalDiskError,
    MonthLockedError,
    NoDatabaseError,
    RefusedError,
    ServerUnreachableError,
    StoreUnreachableError,
    TransientError,
    UsageError,
    WarehouseError,
)

PERMANENT = (
    *(Era5Error, UsageError, RefusedError, WarehouseError, NoDatabaseError),
    *(MonthLockedError, LocalDiskError),
)


@pytest.mark.parametrize("kind", PERMANENT)
def test_permanent_error_is_not_retried(kind: type[Era5Error]) -> None:
    error = kind("2023-07: what failed", remedy="What to do.")
    with pytest.raises(dg.Failure) as raised, as_failures(0):
        raise error
    failure = raised.value
    assert failure.allow_retries is False
    assert failure.description == "2023-07: what failed\nWhat to do."
    values = {name: value.value for name, value in failure.metadata.items()}
    assert values == {"message": "2023-07: what failed", "remedy": "What to do.", "exit_code": kind.exit_code}
    assert failure.__cause__ is error


def test_an_unreachable_server_is_waited_for() -> None:
    """It may be restarting."""
    with pytest.raises(dg.RetryRequested), as_failures(0):
        raise ServerUnreachableError("no server answers at 127.0.0.1", remedy="Start it.")


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_transient_error_requests_a_retry(attempt: int, caplog: pytest.LogCaptureFixture) -> None:
    error = TransientError("2023-07: the connection was lost", remedy="Run it again.")
    with pytest.raises(dg.RetryRequested) as raised, as_failures(attempt):
        raise error
    request = raised.value
    assert request.max_retries == RETRIES.max_retries == 3
    longest = (2 ** (attempt + 1) - 1) * 5 + 5
    assert request.seconds_to_wait is not None
    assert 0 <= request.seconds_to_wait <= longest
    failure = request.__cause__
    assert isinstance(failure, dg.Failure)
    assert failure.allow_retries is True
    assert failure.metadata["exit_code"].value == 7
    assert failure.__cause__ is error
    assert len(caplog.messages) == 1


def test_the_last_attempt_shows_the_error_and_announces_no_retry(caplog: pytest.LogCaptureFixture) -> None:
    error = TransientError("2023-07: the connection was lost", remedy="Run it again.")
    with pytest.raises(dg.Failure) as raised, as_failures(3):
        raise error
    assert raised.value.description == "2023-07: the connection was lost\nRun it again."
    assert raised.value.__cause__ is error
    assert caplog.messages == []


def test_a_store_that_was_waited_for_is_not_waited_for_again() -> None:
    with pytest.raises(dg.Failure, match="waited 2 min") as raised, as_failures(0):
        raise StoreUnreachableError("the store s3://b: reading a (waited 2 min)", remedy="Look at ERA5_STORE.")
    assert raised.value.allow_retries is False
    assert raised.value.metadata["exit_code"].value == 7


def test_unexpected_errors_are_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), as_failures(0):
        _ = 1 / 0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, dg.DagsterExecutionInterruptedError])
def test_interrupt_is_raised_unchanged(kind: type[BaseException]) -> None:
    with pytest.raises(kind), as_failures(0):
        raise kind


@pytest.mark.parametrize("error", [TransientError("lost", remedy="Again."), ValueError("half a file")])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, dg.DagsterExecutionInterruptedError])
def test_error_in_cleanup_after_interrupt_counts_as_interrupt(kind: type[BaseException], error: Exception) -> None:
    """An aborted COPY raises that the connection is lost."""
    lost = ConnectionError("lost")
    lost.__context__ = kind()
    error.__cause__ = lost
    with pytest.raises(dg.DagsterExecutionInterruptedError), as_failures(0):
        raise error
