"""The address and the key for the Climate Data Store, from where its own client takes them.

CDSAPI_URL and CDSAPI_KEY win over `~/.cdsapirc` (or CDSAPI_RC), which cdsapi reads. The key is kept as a secret: no
repr, log or event shows it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from cdsapi.api import get_url_key_verify
from pydantic import SecretStr

from era5_pipeline.model.errors import SourceError
from era5_pipeline.runtime.http.http_urls import is_http_url, is_secure_url

DEFAULT_URL = "https://cds.climate.copernicus.eu/api"
_GET_KEY = (
    "Sign in at https://cds.climate.copernicus.eu, copy the key from your profile page, and set CDSAPI_KEY to it in "
    "the environment (.env is not read for it), or write it into ~/.cdsapirc, as a line `key: ...`."
)
# Characters allowed in an HTTP header; with any other, the HTTP library's error would show the key.
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Credentials:
    """The service's address, the user's key, and whether the service's certificate is verified."""

    url: str
    key: SecretStr
    verify: bool = True


def read_credentials() -> Credentials:
    """Read the user's credentials, as cdsapi finds them.

    Raises:
        SourceError: if there are none, they are invalid, or of the Climate Data Store as it was until 2024.
    """
    url, key, verify = _read()
    if ":" in key:
        raise SourceError(
            "the key is for the old Climate Data Store (it has a colon), which was closed in 2024", remedy=_GET_KEY
        )
    if not _PRINTABLE.fullmatch(key):
        raise SourceError("the key is invalid: it is empty, or has blanks or non-ASCII characters", remedy=_GET_KEY)
    if not is_http_url(url) or url.rstrip("/").endswith("/api/v2"):
        # Not shown: it may be the key, put there by mistake, or hold a password.
        raise SourceError(
            "the address in CDSAPI_URL, or url in ~/.cdsapirc, is not that of the Climate Data Store's API",
            remedy=_GET_KEY,
        )
    if not is_secure_url(url):
        raise SourceError(
            "the address in CDSAPI_URL, or url in ~/.cdsapirc, is plain http: the key could be read on the network",
            remedy=f"Use https, such as {DEFAULT_URL}; http is allowed for a server on this machine only.",
        )
    return Credentials(url.rstrip("/"), SecretStr(key), verify)


def _read() -> tuple[str, str, bool]:
    given = os.environ.get("CDSAPI_URL")
    # The address has a default; cdsapi demands both.
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
    # Not chained: the error's text may quote the file.
    raise SourceError(missing, remedy=_GET_KEY)


def _what_is_missing(error: Exception) -> str:
    if isinstance(error, ValueError):
        return "the file with the key (~/.cdsapirc) has an invalid line"
    file = os.environ.get("CDSAPI_RC") or "~/.cdsapirc"
    return f"there is no key for the Climate Data Store: neither in CDSAPI_KEY nor in {file}"
