"""An HTTP session that sends the user's key to the service alone.

The client sends the key as a header of its own (`PRIVATE-TOKEN`), follows the addresses that answers name, and requests
strips only `Authorization` where a redirect leads to another host: the key would go along.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests

_PORTS = {"http": 80, "https": 443}
_PERMANENT = (301, 308)


class OtherHostError(Exception):
    """An answer leads to another host than the service's; nothing was sent there.

    `host` names it; `is_permanent`: the service means it to stay (301, 308, or an address in an answer's text).
    """

    def __init__(self, host: str, *, is_permanent: bool) -> None:
        super().__init__(host)
        self.host = host
        self.is_permanent = is_permanent


class OneOriginSession(requests.Session):
    """A session for calls to the origin (scheme, host and port) of `url` only.

    Raises:
        OtherHostError: in place of sending anything to another one.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._origin = _origin(url)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:  # noqa: ANN401  # as the base class
        """Send a request that goes to the origin."""
        self._require_origin(request, is_permanent=True)
        return super().send(request, **kwargs)

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Called by requests before it follows a redirect."""
        self._require_origin(prepared_request, is_permanent=response.status_code in _PERMANENT)
        super().rebuild_auth(prepared_request, response)  # type: ignore[no-untyped-call]

    def _require_origin(self, request: requests.PreparedRequest, *, is_permanent: bool) -> None:
        if _origin(request.url or "") != self._origin:
            host = urlsplit(request.url or "").hostname or "an address without a host"
            raise OtherHostError(host, is_permanent=is_permanent)


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
