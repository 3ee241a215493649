"""An HTTP session that sends the user's key to the service only, and reads the service's clock from its responses.

The client sends the key in its own header (`PRIVATE-TOKEN`) and follows URLs in responses; on a redirect to another
host, requests strips only `Authorization`: the key would be sent along.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import requests

from era5_pipeline.runtime.http import server_of

_PERMANENT = (301, 308)


class OtherHostError(Exception):
    """A response redirects to `host`, which is not the service's; nothing was sent there.

    `is_permanent`: the redirect is permanent (status 301 or 308, or a URL in a response body).
    """

    def __init__(self, host: str, *, is_permanent: bool) -> None:
        super().__init__(host)
        self.host = host
        self.is_permanent = is_permanent


class OneOriginSession(requests.Session):
    """A session that sends requests to the origin (scheme, host and port) of `url` only.

    `clock_ahead` is how far the service's clock is ahead of this machine's, to a second: times in its responses are
    compared with its own clock, since this machine's may be hours off.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._origin = server_of(url)
        self.clock_ahead = timedelta(0)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:  # noqa: ANN401  # as the base class
        """Send a request, if it goes to the origin."""
        self._require_origin(request, is_permanent=True)
        response = super().send(request, **kwargs)
        self.clock_ahead = _clock_ahead(response.headers.get("Date"), self.clock_ahead)
        return response

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Check the origin before following a redirect, when requests calls this."""
        self._require_origin(prepared_request, is_permanent=response.status_code in _PERMANENT)
        super().rebuild_auth(prepared_request, response)  # type: ignore[no-untyped-call]

    def _require_origin(self, request: requests.PreparedRequest, *, is_permanent: bool) -> None:
        if server_of(request.url or "") != self._origin:
            host = urlsplit(request.url or "").hostname or "a URL without a host"
            raise OtherHostError(host, is_permanent=is_permanent)


def _clock_ahead(date: str | None, before: timedelta) -> timedelta:
    try:
        time = parsedate_to_datetime(date or "")
    except ValueError:
        return before
    if time.tzinfo is None:  # "-0000": UTC, of unknown local time
        time = time.replace(tzinfo=UTC)
    return time - datetime.now(tz=UTC)
