"""Objects of a Zarr store: read-only, from a folder, HTTP(S), Google's or S3's buckets; retried, counted, checked.

Knows keys and bytes; what they mean is in `layout`. The token goes into the header of requests to the store's own
origin, and into nothing else: no representation, message, record or tag has it.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from pyarrow import fs
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential
from typing_extensions import override
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.sync import sync

from era5_pipeline.model.errors import Era5Error, SourceError, TransientError, UsageError
from era5_pipeline.runtime.http import describe_proxy_failure
from era5_pipeline.runtime.stores import S3Address, S3Environment, error_of_s3, is_s3, s3_file_system

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

# --- Addresses ---


_GOOGLE, _GOOGLE_HTTPS = "gs://", "https://storage.googleapis.com/"
_HTTP = ("http://", "https://")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
REMEDY = "Correct --store (ERA5_ZARR_URL): a folder, s3://, gs:// or https:// address of a Zarr store."
_LOG_IN = (
    "Check the token in ERA5_ZARR_TOKEN_FILE, and its user (ERA5_ZARR_USER), if the service has users; an expired "
    "token has to be made anew on the service's page."
)


def https_of_google(url: str) -> str:
    """The URL to read from: `gs://` objects are read over HTTPS, which needs neither a key nor Google's packages."""
    return _GOOGLE_HTTPS + url.removeprefix(_GOOGLE) if url.startswith(_GOOGLE) else url


def without_password(url: str) -> str:
    """The URL without its user and password, if any."""
    scheme, found, rest = url.partition("://")
    host, *path = rest.split("/", 1)
    return "/".join([f"{scheme}://{host.rpartition('@')[2]}", *path]) if found else url


# --- Errors inside this module: temporary, forbidden; all others are the user's ---


class _TemporaryError(Exception):
    """May be gone on a later attempt, `after_seconds` at the earliest, if the server said so."""

    def __init__(self, how: str, after_seconds: float = 0.0) -> None:
        super().__init__(how)
        self.after_seconds = after_seconds


class ForbiddenError(SourceError):
    """The store refused to read an object: it is forbidden, or absent where the right to list is missing."""


# --- Kinds of stores ---

# First byte and length of a part of an object; a negative first byte counts from the end, a length of None ends there.
Part = tuple[int, int | None]


class Objects(Protocol):
    """Reads objects of one kind of store."""

    async def read(self, key: str, part: Part | None) -> bytes | None:
        """The object or a part of it; None if it is absent."""
        ...

    async def size_of(self, key: str) -> int | None:
        """The size of an object in bytes; None if it is absent or not told."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def _cut(content: bytes, part: Part | None) -> bytes:
    if part is None:
        return content
    first, length = part
    first = max(0, first + len(content)) if first < 0 else first
    return content[first : None if length is None else first + length]


@dataclass(frozen=True)
class FolderObjects:
    """Objects that are files below a folder."""

    folder: Path

    async def read(self, key: str, part: Part | None) -> bytes | None:
        """The file or a part of it."""
        return await asyncio.to_thread(self._read, key, part)

    def _read(self, key: str, part: Part | None) -> bytes | None:
        try:
            with (self.folder / key).open("rb") as file:
                if part is None:
                    return file.read()
                file.seek(part[0], 0 if part[0] >= 0 else 2)
                return file.read(-1 if part[1] is None else part[1])
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise SourceError(
                f"{self.folder / key} cannot be read ({error.strerror or error})", remedy="Check its disk and rights."
            ) from error

    async def size_of(self, key: str) -> int | None:
        """The file's size."""
        path = self.folder / key
        return path.stat().st_size if path.is_file() else None

    async def close(self) -> None:
        """No-op."""


# A chunk is a few megabytes: a connection silent for this long is lost.
_SILENCE_SECONDS, _OBJECT_SECONDS = 60.0, 600.0
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
        """Get the object or a part of it; of what arrives, the length is compared with the one announced or asked."""
        if key in self._kept:
            return _cut(self._kept[key], part)
        headers = {"Range": _range_header(part)} if part is not None else {}
        status, answered, content = await self._get(key, headers)
        if status in _ABSENT:
            return None
        if part is None or status != 206:
            if part is not None:
                self._keep(key, content)
            return _cut(content, part)
        found = _CONTENT_RANGE.fullmatch(answered.get("Content-Range", ""))
        first, length = part
        is_asked = found is not None and len(content) == int(found[2]) - int(found[1]) + 1
        if found is not None and first >= 0:
            is_asked = is_asked and int(found[1]) == first
        if not is_asked or len(content) != (-first if length is None else length):
            raise _TemporaryError(f"{len(content):,} bytes arrived instead of {_range_header(part)}")
        return content

    def _keep(self, key: str, content: bytes) -> None:
        while self._kept and sum(map(len, self._kept.values())) + len(content) > _KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = content

    async def size_of(self, key: str) -> int | None:
        """The size by the answer to a request for one byte; None if the server does not tell it so."""
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
                if self.authorization is not None and _origin(url) == _origin(self.url):
                    own["Authorization"] = self.authorization
                async with self._open().get(url, headers=own, allow_redirects=False, proxy=_proxy_for(url)) as answer:
                    if answer.status in _REDIRECTS:
                        url = self._redirected(url, answer.headers.get("Location", ""))
                        continue
                    _require_success(answer)
                    content = await answer.read()
                    is_measured = answer.headers.get("Content-Length") or answer.headers.get("Transfer-Encoding")
                    if answer.status not in _ABSENT and not is_measured:
                        raise _TemporaryError("the answer does not state its length")
                    return answer.status, answer.headers, content
        except (aiohttp.ClientSSLError, aiohttp.InvalidURL) as error:
            raise SourceError(
                f"{type(error).__name__}: its certificate or address is not valid", remedy=REMEDY
            ) from error
        except aiohttp.ClientProxyConnectionError as error:
            raise _TemporaryError(f"no connection ({describe_proxy_failure(error.strerror or 'refused')})") from error
        except aiohttp.ClientConnectorError as error:
            raise _TemporaryError(f"no connection ({error.strerror or 'refused'})") from error
        except TimeoutError as error:
            raise _TemporaryError("no answer in time") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise _TemporaryError("the connection was cut off") from error
        raise SourceError("it redirects again and again", remedy=REMEDY)

    def _redirected(self, url: str, location: str) -> str:
        to = urljoin(url, location)
        if not to.startswith(_HTTP) or (urlsplit(url).scheme == "https" and urlsplit(to).scheme == "http"):
            raise SourceError("it redirects to an address that is not safe", remedy=REMEDY)
        if self.authorization is not None and _origin(to) != _origin(self.url):
            host = urlsplit(to).hostname
            raise SourceError(
                f"it redirects to {host}, where the token was not sent",
                remedy=f"If {host} is the service's own, give its address as --store (ERA5_ZARR_URL).",
            )
        return to

    def _open(self) -> aiohttp.ClientSession:
        # In the loop that uses it. Nothing is taken from ~/.netrc, which could send another user's key.
        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=_OBJECT_SECONDS, sock_connect=_SILENCE_SECONDS, sock_read=_SILENCE_SECONDS
            )
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


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _proxy_for(url: str) -> str | None:
    """The proxy set in the environment, as for the Climate Data Store."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _require_success(answer: aiohttp.ClientResponse) -> None:
    status = answer.status
    if status in _RETRIED or status >= 500:
        raise _TemporaryError(f"status {status}", _retry_after(answer.headers.get("Retry-After", "")))
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


def _retry_after(text: str) -> float:
    """The seconds that the server asks to wait; 0 if it does not. A date counts from the present."""
    if text.strip().isdigit():
        return min(float(text), _LONGEST_RETRY_AFTER_SECONDS)
    try:
        time = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    from datetime import UTC, datetime  # noqa: PLC0415  # rare

    seconds = (time.replace(tzinfo=time.tzinfo or UTC) - datetime.now(tz=UTC)).total_seconds()
    return min(max(0.0, seconds), _LONGEST_RETRY_AFTER_SECONDS)


@dataclass(frozen=True)
class S3Objects:
    """Objects of S3 or a server that speaks it, by AWS's own environment variables."""

    address: S3Address
    connection: fs.S3FileSystem = field(repr=False)
    endpoint: str | None = None

    @classmethod
    def open(cls, url: str) -> S3Objects:
        """Connect by the environment."""
        environment = S3Environment.read()
        try:
            connection = s3_file_system(
                endpoint=environment.endpoint,
                region=environment.region,
                ca_file=environment.ca_file,
                silent_seconds=_SILENCE_SECONDS,
            )
        except OSError as error:
            raise SourceError(f"{url} cannot be opened ({error})", remedy=REMEDY) from error
        return cls(S3Address.parse(url), connection, environment.endpoint)

    async def read(self, key: str, part: Part | None) -> bytes | None:
        """Get the object or a part of it; pyarrow compares the length with the object's."""
        return await asyncio.to_thread(self._read, key, part)

    def _read(self, key: str, part: Part | None) -> bytes | None:
        try:
            if part is None:
                with self.connection.open_input_stream(self.address.path(key)) as stream:
                    return bytes(stream.read())
            with self.connection.open_input_file(self.address.path(key)) as file:
                size, (first, length) = file.size(), part
                first = max(0, first + size) if first < 0 else first
                content = bytes(file.read_at(size - first if length is None else length, first))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._raise(error)
        if length is not None and len(content) != length:
            raise RuntimeError("the object is shorter than its index says")
        return content

    def _raise(self, error: OSError) -> NoReturn:
        found = error_of_s3("reading", f" at {self.endpoint}" if self.endpoint else "", str(error))
        if isinstance(found, TransientError):
            raise _TemporaryError(" ".join(found.message.split())) from error
        if "ACCESS_DENIED" in found.message or "HTTP status 403" in found.message:
            raise ForbiddenError(
                "status 403",
                remedy="Either it is absent, and these keys may not list the bucket (s3:ListBucket). Or they may not "
                "read it (s3:GetObject), or are missing or wrong: AWS_ACCESS_KEY_ID, AWS_PROFILE.",
            ) from error
        raise SourceError(found.message, remedy=found.remedy.replace("ERA5_STORE", "ERA5_ZARR_URL")) from error

    async def size_of(self, key: str) -> int | None:
        """The object's size."""

        def ask() -> int | None:
            try:
                found = self.connection.get_file_info(self.address.path(key))
            except OSError as error:
                self._raise(error)
            return found.size if found.type is fs.FileType.File else None

        return await asyncio.to_thread(ask)

    async def close(self) -> None:
        """No-op."""


# --- The store ---


_ATTEMPTS = 6
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 2.0, 60.0


class _Wait(wait_random_exponential):
    """As long as the server asks for, and at least as long as the number of the attempt says."""

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome is not None else None
        asked = error.after_seconds if isinstance(error, _TemporaryError) else 0.0
        return max(asked, super().__call__(retry_state))


class ReadOnlyStore(Store):
    """A Zarr store to read from. `shown` is its address in messages; `say` reports each retried read.

    `remedy` is that of all refusals; without it, they say which of the settings of the source zarr to correct.
    `requests` and `bytes` count what was asked and received; `absent` are the keys that were asked for and not there.
    """

    def __init__(
        self,
        objects: Objects,
        shown: str,
        say: Callable[[str], None],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        remedy: str | None = None,
    ) -> None:
        super().__init__(read_only=True)
        self._objects = objects
        self._own_remedy = remedy
        self.remedy = remedy or REMEDY
        self.shown = shown
        self._say = say
        self._pause = pause
        self.requests = 0
        self.bytes = 0
        self.absent: set[str] = set()
        # After a read failed for good, others under way at the same time stop as well.
        self._failure: Era5Error | None = None
        self._waiting = 0
        self._under_way: set[asyncio.Task[Any]] = set()

    @classmethod
    def at(
        cls,
        url: str,
        say: Callable[[str], None],
        *,
        token: str | None = None,
        user: str | None = None,
        remedy: str | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> ReadOnlyStore:
        """Open the store at a folder or address, without contacting it yet. With a `user`, the token is a password.

        Raises:
            UsageError: if the address is of another kind, or the token would go unencrypted over a network.
        """
        shown = without_password(url)
        if is_s3(url):
            return cls(S3Objects.open(url), shown, say, pause, remedy)
        address = https_of_google(url)
        if address.startswith(_HTTP):
            return cls(_http_objects(address, token, user), shown, say, pause, remedy)
        if _SCHEME.match(address):
            raise UsageError(f"{shown} is an address of a kind that is not known", remedy=remedy or REMEDY)
        return cls(FolderObjects(Path(address).expanduser()), shown, say, pause, remedy)

    def read(self, key: str) -> bytes | None:
        """Read a whole object; None if it is absent. To be called outside of the loop.

        Raises:
            ForbiddenError, SourceError, TransientError: see `fetch`.
        """
        content: bytes | None = sync(self.fetch(key, None))
        return content

    def size_of(self, key: str) -> int | None:
        """The size of an object in bytes; None if it is absent or not told. To be called outside of the loop."""
        size: int | None = sync(self._retried(key, lambda: self._objects.size_of(key)))
        return size

    async def fetch(self, key: str, part: Part | None) -> bytes | None:
        """Read an object, or a part of it; None if it is absent."""
        content: bytes | None = await self._retried(key, lambda: self._objects.read(key, part))
        if content is None:
            self.absent.add(key)
        else:
            self.bytes += len(content)
        return content

    async def _retried(self, key: str, read: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401  # what `read` returns
        async def once() -> Any:  # noqa: ANN401  # as above
            if self._failure is not None:
                raise self._failure
            self.requests += 1
            return await read()

        task = asyncio.current_task()
        if task is not None:
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_TemporaryError),
            wait=_Wait(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS),
            stop=stop_after_attempt(_ATTEMPTS),
            before_sleep=lambda state: self._report(key, state),
            sleep=self._rest,
            reraise=True,
        )
        try:
            return await retrying(once)
        except _TemporaryError as error:
            self._failure = TransientError(
                f"{self.shown}: {key} cannot be read ({error})",
                remedy="Check the network and run it again: what was read completely is kept.",
            )
            raise self._failure from error
        except SourceError as error:
            if error is self._failure:
                raise
            raise type(error)(
                f"{self.shown}: {key} cannot be read ({error.message})", remedy=self._own_remedy or error.remedy
            ) from error

    def _report(self, key: str, state: RetryCallState) -> None:
        # Several chunks are read at a time, and a server that is down fails them all: one message is enough.
        if self._waiting == 0:
            error = state.outcome.exception() if state.outcome is not None else None
            tries = f"{state.attempt_number} of {_ATTEMPTS} tries"
            self._say(f"{self.shown}: {key}: {error}; reading again in {state.upcoming_sleep:.0f} s ({tries})")

    async def _rest(self, seconds: float) -> None:
        self._waiting += 1
        try:
            await self._pause(seconds)
        finally:
            self._waiting -= 1

    def forget(self) -> None:
        """Read from the server again what was kept: it may have been damaged on its way."""
        sync(self._objects.close())

    @override
    def close(self) -> None:
        """Close its connections. Nothing is read from it afterwards, not even by what is under way after an error."""
        self._failure = SourceError(f"{self.shown} was closed", remedy=self.remedy)
        sync(self._stop())
        super().close()

    async def _stop(self) -> None:
        under_way = [task for task in self._under_way if not task.done()]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._objects.close()

    # --- the interface of zarr ---

    @override
    def __eq__(self, value: object) -> bool:
        return value is self

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r})"

    @override
    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        content = await self.fetch(key, _part(byte_range))
        return None if content is None else prototype.buffer.from_bytes(content)

    @override
    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    @override
    async def exists(self, key: str) -> bool:
        return await self.fetch(key, None) is not None

    @property
    @override
    def supports_writes(self) -> bool:
        return False

    @property
    @override
    def supports_deletes(self) -> bool:
        return False

    @property
    @override
    def supports_listing(self) -> bool:
        return False

    @override
    async def set(self, key: str, value: Buffer) -> None:
        raise NotImplementedError

    @override
    async def delete(self, key: str) -> None:
        raise NotImplementedError

    @override
    def list(self) -> AsyncIterator[str]:
        raise NotImplementedError

    @override
    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError

    @override
    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        raise NotImplementedError


def _part(wanted: ByteRequest | None) -> Part | None:
    if isinstance(wanted, RangeByteRequest):
        return wanted.start, wanted.end - wanted.start
    if isinstance(wanted, SuffixByteRequest):
        return -wanted.suffix, wanted.suffix
    if isinstance(wanted, OffsetByteRequest):
        return wanted.offset, None
    return None


def _http_objects(address: str, token: str | None, user: str | None) -> HttpObjects:
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
    if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
        raise UsageError(
            f"{bare} would send the token unencrypted over the network", remedy="Give its https:// address."
        )
    if user:
        return HttpObjects(bare, "Basic " + b64encode(f"{user}:{token}".encode()).decode())
    return HttpObjects(bare, f"Bearer {token}")
