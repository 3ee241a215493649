"""Connections of HTTP clients: how many there may be, and how long one may take to send its request.

Both `era5 serve` and the web UI of `era5 up` are served with this protocol; uvicorn by itself waits for ever for the
rest of a request that has begun, and for the first byte of one.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    import asyncio

# From the connection, or the first byte of another request, to the end of the head; and between parts of a body.
_SEND_SECONDS = 20.0
# A connection is an open file. Those of the database, of logs and of modules that are imported late need some too.
_OWN_FILES = 128
# Enough open files for thousands of connections.
_WANTED_FILES = 16_384

_Protocol: Any = AutoHTTPProtocol  # uvicorn chooses one of two at import


def raise_file_limit() -> None:
    """Raise this process's limit of open files, often 1,024, as far as its user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """The number of connections that leaves enough open files for all else."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED_FILES if soft == resource.RLIM_INFINITY else max(soft - _OWN_FILES, soft // 2)


class PromptConnection(_Protocol):  # type: ignore[misc]  # its base is chosen at import
    """A connection that is closed if its client takes too long to send a request, or if there are too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # asyncio's, as the other three
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expiry: asyncio.TimerHandle | None = None
        if len(self.connections) > most_connections():
            transport.close()
        else:
            self._expect_more()

    def data_received(self, data: bytes) -> None:
        """Go on waiting, unless the request is complete."""
        super().data_received(data)
        cycle = self.cycle
        is_open = cycle is not None and not cycle.response_complete
        if is_open or self.transport.get_protocol() is not self:  # not that of a request any more, but of a WebSocket
            self._stop_waiting()
        if self.transport.get_protocol() is self and (not is_open or cycle.more_body):
            self._expect_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        self._stop_waiting()

    def _expect_more(self) -> None:
        if self._expiry is None:
            self._expiry = self.loop.call_later(_SEND_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _give_up(self) -> None:
        self._expiry = None
        if not self.transport.is_closing():
            self.transport.close()
