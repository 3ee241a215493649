"""Post JSON to a webhook, whose URL is itself a secret, as of chat services: it appears in no error and no log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import requests
from urllib3.exceptions import HTTPError

from era5_pipeline.model.errors import UsageError
from era5_pipeline.runtime.http import is_http_url, is_secure_url

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
# Logs the path of every request at DEBUG, and of some errors at WARNING.
_HTTP_LOGGER = logging.getLogger("urllib3.connectionpool")


def require_webhook_url(url: str, setting: str) -> None:
    """Check the URL of a setting, without repeating it in messages."""
    if not is_http_url(url):
        raise UsageError(
            f"{setting} is not the URL of a web server", remedy="Set it to an address like https://host/path."
        )
    if not is_secure_url(url):
        raise UsageError(
            f"{setting} is plain http: what is sent, and the URL itself, could be read on the network",
            remedy="Use https; http is allowed for a server on this machine only.",
        )


def post_json(url: str, body: Mapping[str, Any]) -> str | None:
    """Post the JSON once; return None if it was accepted, else why not, without the URL.

    Redirects are not followed: the message would go to a server that the user did not choose.
    """
    _HTTP_LOGGER.addFilter(_discard)
    try:
        with requests.post(
            url,
            json=body,
            timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS),
            allow_redirects=False,
            stream=True,  # the response body is not read: it could be endless
        ) as response:
            status = response.status_code
    except (OSError, HTTPError, ValueError) as error:
        return f"cannot be reached ({type(error).__name__})"
    finally:
        _HTTP_LOGGER.removeFilter(_discard)
    if requests.codes.ok <= status < requests.codes.multiple_choices:
        return None
    if status < requests.codes.bad_request:
        return f"answered with a redirect (HTTP {status}), which is not followed"
    return f"answered with HTTP {status}"


def _discard(_: logging.LogRecord) -> bool:
    return False
