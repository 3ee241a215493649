"""Reads that fail: tried again where the network does what goes by, refused where it does not.

Not here: what is read (`store`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import aiohttp
from fsspec.exceptions import FSTimeoutError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from era5_pipeline.model.errors import MonthFailedError, SourceError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# What the network does, and goes by: of HTTP, of sockets, of fsspec.
_PASSING = (aiohttp.ClientError, FSTimeoutError, ConnectionError, TimeoutError)
# What stays, though it is a ClientError.
_STAYING = (aiohttp.ClientSSLError, aiohttp.InvalidURL)
# Of the codecs: an answer may have been replaced or cut short on its way.
_UNDECODABLE = RuntimeError
_PASSING_STATUS = frozenset({408, 425, 429})
_ATTEMPTS = 6
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 2.0, 60.0


def insisting(
    what: str, remedy: str, say: Callable[[str], None], sleep: Callable[[float], None], read: Callable[[], T]
) -> T:
    """What `read` gives. Where the network fails it is tried again some times; `say` is told why, and after how long.

    Raises:
        TransientError: if it failed each time.
        SourceError: with `remedy`, if it is refused; a MonthFailedError if what comes cannot be decoded.
        FileNotFoundError: as it is.
    """

    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        say(f"{what}: {_how(error)}; reading again in {state.upcoming_sleep:.0f} s")

    retrying = Retrying(
        retry=retry_if_exception(lambda error: _passes(error) or isinstance(error, _UNDECODABLE)),
        wait=wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS),
        stop=stop_after_attempt(_ATTEMPTS),
        before_sleep=tell,
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(read)
    except FileNotFoundError:
        raise
    except (*_PASSING, OSError, _UNDECODABLE) as error:
        if _passes(error):
            raise TransientError(
                f"{what} cannot be read ({_how(error)})",
                remedy="Run it again: days that have come are kept. Is the network there?",
            ) from error
        kind = MonthFailedError if isinstance(error, _UNDECODABLE) else SourceError
        raise kind(f"{what} cannot be read ({_how(error)})", remedy=remedy) from error


def undecodable_told(read: Callable[[], T]) -> Callable[[], T]:
    """`read`, with one kind of error for what the codecs raise of a damaged chunk, each its own."""

    def told() -> T:
        try:
            return read()
        except Exception as error:
            is_of_the_network = isinstance(error, (*_PASSING, *_STAYING))
            if is_of_the_network or (isinstance(error, OSError) and error.errno is not None):
                raise
            raise _UNDECODABLE(f"{type(error).__name__}: {error}") from error

    return told


def _passes(error: BaseException) -> bool:
    """Whether it is trouble that goes by."""
    if isinstance(error, aiohttp.ClientResponseError):
        return error.status in _PASSING_STATUS or error.status >= 500
    return isinstance(error, _PASSING) and not isinstance(error, _STAYING)


def _how(error: BaseException | None) -> str:
    """In a few words, without the address, which is long."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"status {error.status}"
    if isinstance(error, FSTimeoutError | TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, _UNDECODABLE):
        return "what came cannot be decoded"
    return "the connection was cut off"
