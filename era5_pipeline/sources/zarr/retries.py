"""Retry transient errors of reading a Zarr store; turn all others into errors with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import aiohttp
from fsspec.exceptions import FSTimeoutError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from era5_pipeline.model.errors import MonthFailedError, SourceError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# Errors of HTTP, sockets and fsspec that may be gone on a later attempt.
_RETRYABLE = (aiohttp.ClientError, FSTimeoutError, ConnectionError, TimeoutError)
# Permanent, though each is a ClientError.
_PERMANENT = (aiohttp.ClientSSLError, aiohttp.InvalidURL)
# The error raised by decoding. Retried, because the answer may have been truncated or replaced in transit.
_UNDECODABLE = RuntimeError
_RETRYABLE_STATUS = frozenset({408, 425, 429})
_ATTEMPTS = 6
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 2.0, 60.0


def read_with_retries(
    what: str, remedy: str, say: Callable[[str], None], sleep: Callable[[float], None], read: Callable[[], T]
) -> T:
    """Return the result of `read`, calling it up to six times; `say` reports each error and the wait after it.

    `what` names the data in messages.

    Raises:
        TransientError: if a retryable error persists.
        SourceError: with `remedy`, for a permanent error; a MonthFailedError if the data cannot be decoded.
        FileNotFoundError: unchanged.
    """

    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        tries = f"{state.attempt_number} of {_ATTEMPTS} tries"
        say(f"{what}: {_how(error)}; reading again in {state.upcoming_sleep:.0f} s ({tries})")

    retrying = Retrying(
        retry=retry_if_exception(lambda error: _is_retryable(error) or isinstance(error, _UNDECODABLE)),
        wait=wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS),
        stop=stop_after_attempt(_ATTEMPTS),
        before_sleep=report,
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(read)
    except FileNotFoundError:
        raise
    except (*_RETRYABLE, OSError, _UNDECODABLE) as error:
        if _is_retryable(error):
            raise TransientError(
                f"{what} cannot be read ({_how(error)})",
                remedy="Check the network and run it again: days that are complete are kept.",
            ) from error
        kind = MonthFailedError if isinstance(error, _UNDECODABLE) else SourceError
        raise kind(f"{what} cannot be read ({_how(error)})", remedy=remedy) from error


def with_decoding_errors(read: Callable[[], T]) -> Callable[[], T]:
    """Wrap `read` so that all decoding errors have one type: each codec raises its own for a damaged chunk."""

    def wrapped() -> T:
        try:
            return read()
        except Exception as error:
            is_network_error = isinstance(error, (*_RETRYABLE, *_PERMANENT))
            if is_network_error or (isinstance(error, OSError) and error.errno is not None):
                raise
            raise _UNDECODABLE(f"{type(error).__name__}: {error}") from error

    return wrapped


def _is_retryable(error: BaseException) -> bool:
    """Whether the error may be gone on a later attempt."""
    if isinstance(error, aiohttp.ClientResponseError):
        return error.status in _RETRYABLE_STATUS or error.status >= 500
    return isinstance(error, _RETRYABLE) and not isinstance(error, _PERMANENT)


def _how(error: BaseException | None) -> str:
    """Describe the error briefly, without its long URL."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"status {error.status}"
    if isinstance(error, FSTimeoutError | TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, _UNDECODABLE):
        return "the data cannot be decoded"
    return "the connection was cut off"
