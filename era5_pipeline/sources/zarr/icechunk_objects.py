"""Objects of an Icechunk repository: one group of one snapshot, read as the Zarr store that it is.

An address is `icechunk+` and a place (`s3://BUCKET/PREFIX`, `file:///FOLDER` or `https://HOST/PATH`), `//` and a group,
and after `@` what of it to read: a snapshot's id, `branch:NAME` or `tag:NAME`; without, the branch `main`.

Icechunk 2 is an extra, for Python 3.12 and later: 1.x cannot read repositories of the format 2. It checks no digest of
a chunk, and tries failed requests again in silence: it is told not to, so that the store above reports them.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

from zarr.core.buffer import default_buffer_prototype

from era5_pipeline.model.errors import SourceError, UsageError
from era5_pipeline.model.source_kinds import Snapshot
from era5_pipeline.model.words import pip_install
from era5_pipeline.runtime.http import AUTHORITY, PROXY_LOG_IN, describe_proxy_failure
from era5_pipeline.runtime.object_store import S3Address, is_s3, slice_of
from era5_pipeline.runtime.stores import S3Environment
from era5_pipeline.sources.zarr.objects import ForbiddenError, TemporaryError, proxy_for

if TYPE_CHECKING:
    from era5_pipeline.runtime.object_store import Part
    from era5_pipeline.sources.zarr.presets import S3Access

ICECHUNK = "icechunk+"
REMEDY = (
    "Correct --store (ERA5_ZARR_URL): icechunk+s3://BUCKET/PREFIX//GROUP, or icechunk+file:///FOLDER//GROUP, or "
    "icechunk+https://HOST/PATH//GROUP; then, if you like, @ and a snapshot's id, branch:NAME or tag:NAME."
)
_BRANCH, _TAG, _MAIN = "branch:", "tag:", "main"
_SNAPSHOT = re.compile(r"[0-9A-HJKMNP-TV-Z]{20}")  # Crockford's base 32
_OLDEST_PYTHON = (3, 12)
# A connection that is silent for so long is lost; a chunk is a few megabytes.
_CONNECT_MS, _READ_MS, _OPERATION_MS = 10_000, 60_000, 600_000
_KEYS_FILE = Path("~/.aws/credentials")
# What Icechunk says of a server that answers and does not let the object be read.
_FORBIDDEN = (
    *("lacked the necessary privileges", "valid authentication credentials"),  # a web server's 403 and 401
    *("accessdenied", "signaturedoesnotmatch", "invalidaccesskeyid", "expiredtoken", "invalidtoken"),  # of S3
)
# What it says of the way to the server, and of a proxy that answers with 407 or another status.
_CERTIFICATE, _NO_LOG_IN, _NO_TUNNEL = "peer certificate", "proxy authorization required", "tunnel error: unsuccessful"
_LOST = "object not found"
# What it says of an object whose bytes are not those that were written, or of a file that is no object.
_BROKEN = ("I/O error", "invalid magic numbers", "invalid icechunk header", "Requested range was invalid")
_DAMAGED = (
    "Tell whoever keeps the store. Another snapshot may have it: --refetch takes the newest, @ID a certain one. Or "
    "take these months from --source cds."
)
_LAYERS = re.compile(
    r"object store error (Generic \w+ error: )?(Error performing GET \S+ in \S+ - )?|error sending request: "
    r"|dispatch failure: io error: |HTTP error: |CONNECT tunnel failed: "
)


def is_icechunk(address: str) -> bool:
    """Return True if the address is one of an Icechunk repository."""
    return address.startswith(ICECHUNK)


@dataclass(frozen=True)
class IcechunkAddress:
    """Where a repository is, the group in it, and what of it is read: a branch, a tag or a snapshot."""

    place: str
    group: str
    branch: str | None = None
    tag: str | None = None
    snapshot: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the address.

        Raises:
            UsageError: if it is not one.
        """
        scheme, _, rest = text.removeprefix(ICECHUNK).partition("://")
        path, _, named = rest.partition("//")
        group, at, what = named.partition("@")
        place = f"{scheme}://{path}"
        is_place = (scheme == "s3" and path) or (scheme == "file" and path.startswith("/")) or _is_web(place)
        if not is_place or not group.strip("/"):
            raise UsageError(f"{text} does not name a place and a group of an Icechunk repository", remedy=REMEDY)
        if is_s3(place):
            S3Address.parse(place)
        group = group.strip("/")
        if not at:
            return cls(place, group, branch=_MAIN)
        if what.startswith(_BRANCH) and what != _BRANCH:
            return cls(place, group, branch=what.removeprefix(_BRANCH))
        if what.startswith(_TAG) and what != _TAG:
            return cls(place, group, tag=what.removeprefix(_TAG))
        if _SNAPSHOT.fullmatch(what):
            return cls(place, group, snapshot=what)
        raise UsageError(f"{text}: after @, {what!r} is no snapshot's id, and no branch or tag", remedy=REMEDY)

    def at(self, snapshot: str | None) -> IcechunkAddress:
        """The same group in this snapshot; None: in what the address names."""
        return self if snapshot is None else replace(self, branch=None, tag=None, snapshot=snapshot)

    @property
    def reference(self) -> str:
        """The snapshot, branch or tag that is read, named for messages."""
        if self.snapshot is not None:
            return f"snapshot {self.snapshot}"
        return f"branch {self.branch}" if self.branch is not None else f"tag {self.tag}"


def _is_web(place: str) -> bool:
    parts = urlsplit(place)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


class SnapshotGoneError(SourceError):
    """The repository has no such snapshot, branch or tag (any more)."""


@dataclass
class IcechunkObjects:
    """Objects of one group of a snapshot, which is opened when first read from."""

    address: IcechunkAddress
    s3: S3Access = "environment"
    _repository: Any = field(default=None, repr=False)  # icechunk's, as the session
    _session: Any = field(default=None, repr=False)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def read(self, key: str, part: Part | None) -> bytes | None:
        """Read the object or a part of it; None if it is absent, or a chunk that was never written."""
        store = (await self._opened()).store
        try:
            content = await store.get(f"{self.address.group}/{key}", default_buffer_prototype())
        except Exception as error:
            raise _translated(error, self.address.place) from error
        return None if content is None else content.to_bytes()[slice_of(part)]

    async def size_of(self, key: str) -> int | None:
        """The object's size in bytes; None if it is absent."""
        import icechunk  # noqa: PLC0415  # an extra

        store = (await self._opened()).store
        try:
            return await store.getsize(f"{self.address.group}/{key}") or None
        except icechunk.NotFoundError:
            return None
        except Exception as error:
            raise _translated(error, self.address.place) from error

    async def snapshot(self) -> Snapshot:
        """The snapshot that is read."""
        session = await self._opened()
        try:
            found = await anext(self._repository.async_ancestry(snapshot_id=session.snapshot_id))
        except Exception as error:
            raise _translated(error, self.address.place) from error
        return Snapshot(found.id, found.written_at.astimezone(UTC).isoformat())

    async def close(self) -> None:
        """Forget the session: what is read next is read from the repository."""
        self._session = None

    async def _opened(self) -> Any:  # noqa: ANN401  # icechunk's session
        async with self._opening:
            if self._session is None:
                await asyncio.to_thread(self._open)
            return self._session

    def _open(self) -> None:
        require_icechunk()
        import icechunk  # noqa: PLC0415  # an extra

        icechunk.set_logs_filter("off")  # our errors say it
        config = icechunk.RepositoryConfig.default()
        config.storage = icechunk.StorageSettings(
            retries=icechunk.StorageRetriesSettings(max_tries=1),
            timeouts=icechunk.StorageTimeoutSettings(
                connect_timeout_ms=_CONNECT_MS,
                read_timeout_ms=_READ_MS,
                operation_timeout_ms=_OPERATION_MS,
                operation_attempt_timeout_ms=_OPERATION_MS,
            ),
        )
        address = self.address
        try:
            storage = _storage(address.place, self.s3)
            self._repository = icechunk.Repository.open(storage, config=config)
            self._session = self._repository.readonly_session(
                address.branch, tag=address.tag, snapshot_id=address.snapshot
            )
        except icechunk.RepositoryNotFoundError as error:
            raise SourceError(
                f"there is no Icechunk repository at {address.place}",
                remedy=f"{REMEDY} A plain Zarr store has an address without {ICECHUNK}.",
            ) from error
        except icechunk.NotFoundError as error:
            raise SnapshotGoneError(f"{address.place} has no {address.reference}", remedy=REMEDY) from error
        except icechunk.IcechunkError as error:
            raise _translated(error, self.address.place) from error


def has_icechunk() -> bool:
    """Return True if Icechunk repositories can be read here."""
    return sys.version_info >= _OLDEST_PYTHON and not _lacking()


def _lacking() -> list[str]:
    return [name for name in ("icechunk", "pcodec") if importlib.util.find_spec(name) is None]


def require_icechunk() -> None:
    """Refuse if the extra is not installed, or cannot be.

    Raises:
        UsageError: says which of the two, and what to do.
    """
    if sys.version_info < _OLDEST_PYTHON:
        raise UsageError(
            "Icechunk repositories need Python 3.12 or later: version 2 of the library icechunk has no wheel for "
            f"{sys.version_info.major}.{sys.version_info.minor}",
            remedy="Install era5-pipeline[icechunk] for a newer Python; or take another --store, or --source cds.",
        )
    if lacking := _lacking():
        raise UsageError(
            f"Icechunk repositories need the library {' and '.join(lacking)}, not installed here",
            remedy=f"Install it: {pip_install('era5-pipeline[icechunk]')}",
        )


def _storage(place: str, s3: S3Access) -> Any:  # noqa: ANN401  # icechunk's storage
    import icechunk  # noqa: PLC0415  # an extra

    if place.startswith("file://"):
        return icechunk.local_filesystem_storage(unquote(urlsplit(place).path))
    if not is_s3(place):
        # Its own limit of 30 s a request is less than some lines take for a chunk.
        seconds = {"connect_timeout": _CONNECT_MS, "read_timeout": _READ_MS, "timeout": _OPERATION_MS}
        return icechunk.http_storage(place, {name: f"{ms / 1000:g} seconds" for name, ms in seconds.items()})
    found, address = S3Environment.read(), S3Address.parse(place)
    endpoint = None if s3 == "public" else found.endpoint
    has_keys = s3 == "environment" and (any(found.credentials) or _KEYS_FILE.expanduser().is_file())
    return icechunk.s3_storage(
        bucket=address.bucket,
        prefix=address.prefix or None,
        region=(None if s3 == "public" else found.region) or "us-east-1",
        endpoint_url=endpoint,
        allow_http=bool(endpoint and endpoint.startswith("http://")),
        force_path_style=endpoint is not None,
        anonymous=not has_keys,
        from_env=has_keys,
    )


def _translated(error: Exception, place: str) -> Exception:
    """The error to raise for one of Icechunk's: only what the network or the server did may pass."""
    said = _in_short(error)
    if _LOST in said:
        chunk = re.search(r'with array="([^"]*)" chunk=(\[[^\]]*\])', str(error))
        what = f"the chunk {chunk[2]} of {chunk[1]} is lost" if chunk else "an object of the repository is lost"
        return SourceError(f"{what}: its snapshot names it, and it is not there", remedy=_DAMAGED)
    if any(words in said.casefold() for words in _FORBIDDEN):
        return ForbiddenError(
            "status 403", remedy="The server does not let it be read; check the address and your keys."
        )
    if any(words in said for words in _BROKEN):
        return SourceError(f"an object of the repository is damaged, or is none: {said}", remedy=_DAMAGED)
    if type(error).__name__ == "StorageError":
        if place.startswith("file://"):
            return SourceError(said, remedy="Check the folder of the repository, and the right to read what is in it.")
        if _CERTIFICATE in said:
            return SourceError(f"its certificate is not valid here: {said}", remedy=AUTHORITY)
        if _NO_LOG_IN in said:
            return SourceError(describe_proxy_failure(said, "refuses"), remedy=PROXY_LOG_IN)
        is_unconnected = "(Connect)" in said and proxy_for(place) is not None
        what = "refuses" if _NO_TUNNEL in said else "does not answer"
        return TemporaryError(describe_proxy_failure(said, what) if is_unconnected else said)
    return SourceError(said, remedy=REMEDY)


def _in_short(error: Exception) -> str:
    """The error's message on one line, without Icechunk's trace and the layers of its library of object stores."""
    line = " ".join(str(error).partition("\n\ncontext:")[0].split())
    return _LAYERS.sub("", line).rstrip(" :")[:300]
