"""Objects of Zarr stores: in a folder or a bucket of S3, and on a web server; what their errors mean for a chunk.

The token goes into the header of requests to the store's own origin, and into nothing else: no representation, message,
record or tag has it.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from era5_pipeline.model.errors import SourceError, StoreError, TransientError, UsageError
from era5_pipeline.runtime.http import (
    AUTHORITY,
    PROXY_LOG_IN,
    describe_proxy_failure,
    is_secure_url,
    retry_after,
    server_of,
)
from era5_pipeline.runtime.object_store import DeniedError, slice_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.runtime.object_store import Part
    from era5_pipeline.runtime.stores import ObjectStore

T = TypeVar("T")
REMEDY = "Correct --store (ERA5_ZARR_URL): a folder, s3://, gs:// or https:// address of a Zarr store."
_LOG_IN = (
    "Check the token in ERA5_ZARR_TOKEN_FILE, and its user (ERA5_ZARR_USER), if the service has users; an expired "
    "token has to be made anew on the service's page."
)


class TemporaryError(Exception):
    """May be gone on a later attempt, `after_seconds` at the earliest, if the server said so."""

    def __init__(self, how: str, after_seconds: float = 0.0) -> None:
        super().__init__(how)
        self.after_seconds = after_seconds


class ForbiddenError(SourceError):
    """The store refused to read an object: it is forbidden, or absent where the right to list is missing."""


@dataclass(frozen=True)
class StoredObjects:
    """Objects of a folder or of S3, each read in a thread."""

    store: ObjectStore

    async def read(self, key: str, part: Part | None) -> bytes | None:
        """Read the object or a part of it; None if it is absent."""
        return await self._ask(key, lambda: self.store.read(key, part))

    async def size_of(self, key: str) -> int | None:
        """The object's size in bytes; None if it is absent."""
        return await self._ask(key, lambda: self.store.size_of(key))

    async def _ask(self, key: str, call: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(call)
        except TransientError as error:
            raise TemporaryError(_without(key, error.message)) from error
        except DeniedError as error:
            raise ForbiddenError(
                "status 403",
                remedy="Either it is absent, and these keys may not list the bucket (s3:ListBucket). Or they may not "
                "read it (s3:GetObject), or are missing or wrong: AWS_ACCESS_KEY_ID, AWS_PROFILE.",
            ) from error
        except StoreError as error:
            remedy = error.remedy.replace("ERA5_STORE", "ERA5_ZARR_URL")
            raise SourceError(_without(key, error.message), remedy=remedy) from error

    async def close(self) -> None:
        """No-op."""


def _without(key: str, message: str) -> str:
    """The message without the store's address and the key, which those of the Zarr store begin with."""
    return " ".join(f"reading{message.partition(f' {key}')[2]}".split())


_HTTP = ("http://", "https://")
# A chunk is a few megabytes: a connection silent for this long is lost.
_SILENCE_SECONDS, _OBJECT_SECONDS = 60.0, 600.0
# Until there is a connection, by a proxy if there is one, which may take it and say nothing.
_CONNECT_SECONDS = 10.0
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_ABSENT = (404, 410)
_NEEDS_TOKEN = (401, 426)
_RETRIED = frozenset({408, 425, 429})
_LONGEST_RETRY_AFTER_SECONDS = 600.0
# Whole objects of a server that ignores Range, so that parts of one need no second request.
_KEPT_BYTES = 256 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


@dataclass
class HttpObjects:
    """Objects of a web server. `authorization` is the header's value; None: without a token."""

    url: str
    authorization: str | None = field(default=None, repr=False)
    _session: aiohttp.ClientSession | None = field(default=None, repr=False)
    _kept: dict[str, bytes] = field(default_factory=dict, repr=False)

    async def read(self, key: str, part: Part | None) -> bytes | None:
        """Get the object or a part of it, of the length announced or asked; None if it is absent."""
        if key in self._kept:
            return self._kept[key][slice_of(part)]
        headers = {"Range": _range_header(part)} if part is not None else {}
        status, answered, content = await self._get(key, headers)
        if status in _ABSENT:
            return None
        if part is None or status != 206:
            if part is not None:
                self._keep(key, content)
            return content[slice_of(part)]
        found = _CONTENT_RANGE.fullmatch(answered.get("Content-Range", ""))
        first, length = part
        is_asked = (
            found is not None
            and len(content) == int(found[2]) - int(found[1]) + 1
            and (first < 0 or first == int(found[1]))
            and length in (None, len(content))
        )
        if not is_asked:
            raise TemporaryError(f"{len(content):,} bytes arrived instead of {_range_header(part)}")
        return content

    def _keep(self, key: str, content: bytes) -> None:
        while self._kept and sum(map(len, self._kept.values())) + len(content) > _KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = content

    async def size_of(self, key: str) -> int | None:
        """The size by the answer to a request for one byte; None if it is absent or the server does not tell."""
        status, answered, content = await self._get(key, {"Range": "bytes=0-0"})
        if status in _ABSENT:
            return None
        if status != 206:
            return len(content)
        found = _CONTENT_RANGE.fullmatch(answered.get("Content-Range", ""))
        return int(found[3]) if found is not None and found[3] != "*" else None

    async def _get(self, key: str, headers: dict[str, str]) -> tuple[int, Any, bytes]:
        """Return status, headers and body, following redirects as far as the token may go."""
        url = f"{self.url}/{quote(key)}"
        try:
            for _ in range(_MOST_REDIRECTS):
                own = {"Accept-Encoding": "identity", **headers}
                if self.authorization is not None and server_of(url) == server_of(self.url):
                    own["Authorization"] = self.authorization
                async with self._open().get(url, headers=own, allow_redirects=False, proxy=proxy_for(url)) as answer:
                    if answer.status in _REDIRECTS:
                        url = self._redirected(url, answer.headers.get("Location", ""))
                        continue
                    _require_success(answer)
                    content = await answer.read()
                    is_measured = answer.headers.get("Content-Length") or answer.headers.get("Transfer-Encoding")
                    if answer.status not in _ABSENT and not is_measured:
                        raise TemporaryError("the answer does not state its length")
                    return answer.status, answer.headers, content
        except aiohttp.InvalidURL as error:
            raise SourceError("its address is not valid", remedy=REMEDY) from error
        except aiohttp.ClientSSLError as error:
            raise SourceError(f"its certificate is not valid here: {error}", remedy=AUTHORITY) from error
        except aiohttp.ClientHttpProxyError as error:
            raise _refused_by_proxy(error) from error
        except aiohttp.ClientProxyConnectionError as error:
            raise TemporaryError(f"no connection ({describe_proxy_failure(error.strerror or 'refused')})") from error
        except aiohttp.ClientConnectorError as error:
            raise TemporaryError(f"no connection ({error.strerror or 'refused'})") from error
        except aiohttp.ConnectionTimeoutError as error:
            said = "no connection in time"
            raise TemporaryError(said if proxy_for(url) is None else describe_proxy_failure(said)) from error
        except TimeoutError as error:
            raise TemporaryError("no answer in time") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise TemporaryError("the connection was cut off") from error
        raise SourceError("it redirects again and again", remedy=REMEDY)

    def _redirected(self, url: str, location: str) -> str:
        to = urljoin(url, location)
        if not to.startswith(_HTTP) or (urlsplit(url).scheme == "https" and urlsplit(to).scheme == "http"):
            raise SourceError("it redirects to an address that is not safe", remedy=REMEDY)
        if self.authorization is not None and server_of(to) != server_of(self.url):
            host = urlsplit(to).hostname
            raise SourceError(
                f"it redirects to {host}, where the token was not sent",
                remedy=f"If {host} is the service's own, give its address as --store (ERA5_ZARR_URL).",
            )
        return to

    def _open(self) -> aiohttp.ClientSession:
        # In the loop that uses it. Nothing is taken from ~/.netrc, which could send another user's key.
        if self._session is None:
            timeout = aiohttp.ClientTimeout(_OBJECT_SECONDS, connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout)
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        self._kept.clear()
        if self._session is not None:
            await self._session.close()
            self._session = None


def _range_header(part: Part) -> str:
    first, length = part
    if first < 0:
        return f"bytes={first}"
    return f"bytes={first}-" if length is None else f"bytes={first}-{first + length - 1}"


def proxy_for(url: str) -> str | None:
    """The proxy set in the environment, as for the Climate Data Store; a bucket's servers are asked over HTTPS."""
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "s3" else parts.scheme
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(scheme)


def _refused_by_proxy(error: aiohttp.ClientHttpProxyError) -> Exception:
    said = describe_proxy_failure(f"status {error.status}", "refuses")
    if error.status in _RETRIED or error.status >= 500:
        return TemporaryError(said)
    is_unknown = error.status == 407
    return SourceError(said, remedy=PROXY_LOG_IN if is_unknown else "Ask whoever keeps the proxy to let the host pass.")


def _require_success(answer: aiohttp.ClientResponse) -> None:
    status = answer.status
    if status in _RETRIED or status >= 500:
        raise TemporaryError(f"status {status}", min(retry_after(answer.headers) or 0.0, _LONGEST_RETRY_AFTER_SECONDS))
    if status in _NEEDS_TOKEN:
        raise SourceError(f"status {status}", remedy=_LOG_IN)
    if status == 403:
        raise ForbiddenError(
            "status 403", remedy=f"Either it is absent, and the right to list is missing. Or: {_LOG_IN}"
        )
    if status == 416:
        raise RuntimeError("the object is shorter than its index says")
    if status not in (200, 206, *_ABSENT):
        raise SourceError(f"status {status}", remedy=REMEDY)


def http_objects(address: str, token: str | None, user: str | None) -> HttpObjects:
    """Objects of the web server at the address, which must not have the token in it, nor send it unencrypted."""
    parts = urlsplit(address)
    if parts.query or parts.fragment:
        # Not shown: it may be a signature.
        raise UsageError(
            "the address of the Zarr store has a part after ? or #",
            remedy="Give it without; a token goes into a file: ERA5_ZARR_TOKEN_FILE.",
        )
    if parts.username or parts.password:
        raise UsageError(
            "the address of the Zarr store has a user or key",
            remedy="Write the key into a file: ERA5_ZARR_TOKEN_FILE; and its user, if any, into ERA5_ZARR_USER.",
        )
    bare = address.rstrip("/")
    if token is None:
        return HttpObjects(bare)
    if not is_secure_url(bare):
        raise UsageError(
            f"{bare} would send the token unencrypted over the network", remedy="Give its https:// address."
        )
    if user:
        return HttpObjects(bare, "Basic " + b64encode(f"{user}:{token}".encode()).decode())
    return HttpObjects(bare, f"Bearer {token}")
