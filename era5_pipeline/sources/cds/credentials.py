"""Who asks the Climate Data Store: the address and the key, from where its own client takes them.

Here: CDSAPI_URL and CDSAPI_KEY, which win, and `~/.cdsapirc` (or CDSAPI_RC), read by cdsapi. The key is kept as a
secret: no repr, log or event shows it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from cdsapi.api import get_url_key_verify
from pydantic import SecretStr

from era5_pipeline.model.errors import SourceError

DEFAULT_URL = "https://cds.climate.copernicus.eu/api"
_GET_KEY = (
    "Sign in at https://cds.climate.copernicus.eu, copy the key from your profile page, and set CDSAPI_KEY to it in "
    "the environment (.env is not read for it), or write it into ~/.cdsapirc, as a line `key: ...`."
)
# What may stand in an HTTP header; a key with anything else would be shown by the error of the HTTP library.
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Credentials:
    """Where the service is, the user's key, and whether its certificate is to be verified."""

    url: str
    key: SecretStr
    verify: bool = True


def read_credentials() -> Credentials:
    """The user's credentials, as cdsapi finds them.

    Raises:
        SourceError: if there are none, or they are of the Climate Data Store as it was until 2024.
    """
    url, key, verify = _read()
    if ":" in key:
        raise SourceError(
            "the key is one of the old Climate Data Store (it has a colon), which has ended in 2024", remedy=_GET_KEY
        )
    if not _PRINTABLE.fullmatch(key):
        raise SourceError("the key is not one: it is empty, or has blanks or letters of other scripts", remedy=_GET_KEY)
    if not _is_address(url) or url.rstrip("/").endswith("/api/v2"):
        # Not shown: what was put there by mistake may be the key, or have a password in it.
        raise SourceError(
            "the address in CDSAPI_URL, or url in ~/.cdsapirc, is not that of the Climate Data Store's API",
            remedy=_GET_KEY,
        )
    if not _is_secure(url):
        raise SourceError(
            "the address in CDSAPI_URL, or url in ~/.cdsapirc, is plain http: the key could be read on its way",
            remedy=f"Write it with https, such as {DEFAULT_URL}; http is for a server on this machine only.",
        )
    return Credentials(url.rstrip("/"), SecretStr(key), verify)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is no number, or half an IPv6 address
        return False


def _is_secure(url: str) -> bool:
    """Whether nobody on the network can read what is sent there: https, or this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def _read() -> tuple[str, str, bool]:
    given = os.environ.get("CDSAPI_URL")
    # With a key alone, the address is the one there is; cdsapi wants both.
    for url in (None, None if given else DEFAULT_URL):
        try:
            found: tuple[str, str, bool] = get_url_key_verify(url, None, None)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SourceError(f"the file with the key cannot be read ({reason})", remedy=_GET_KEY) from error
        except Exception as error:  # noqa: BLE001  # cdsapi raises a bare Exception
            missing = _what_is_missing(error)
        else:
            return found
    # Not chained: its text may quote the file.
    raise SourceError(missing, remedy=_GET_KEY)


def _what_is_missing(error: Exception) -> str:
    if isinstance(error, ValueError):
        return "the file with the key (~/.cdsapirc) has a line that cannot be meant"
    file = os.environ.get("CDSAPI_RC") or "~/.cdsapirc"
    return f"there is no key for the Climate Data Store: neither in CDSAPI_KEY nor in {file}"
