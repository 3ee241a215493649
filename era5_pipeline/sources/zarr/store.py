"""A Zarr store to read from: retried, counted, checked, and of any kind of `objects`; what is in it is in `layout`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random_exponential,
)
from typing_extensions import override
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.sync import sync

from era5_pipeline.model.errors import Era5Error, SourceError, StoreError, StoreUnreachableError, UsageError
from era5_pipeline.runtime.http import is_http_url, without_credentials
from era5_pipeline.runtime.object_store import has_scheme, is_s3
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.sources.zarr.icechunk_objects import REMEDY as ICECHUNK_REMEDY
from era5_pipeline.sources.zarr.icechunk_objects import IcechunkAddress, IcechunkObjects, is_icechunk
from era5_pipeline.sources.zarr.objects import REMEDY, HttpObjects, StoredObjects, TemporaryError, http_objects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

    from era5_pipeline.model.source_kinds import Snapshot
    from era5_pipeline.runtime.object_store import Part
    from era5_pipeline.sources.zarr.presets import S3Access

_GOOGLE, _GOOGLE_HTTPS = "gs://", "https://storage.googleapis.com/"
_ATTEMPTS = 6
# The waits between all tries together are 20 to 40 s.
_FIRST_WAIT_SECONDS = 1.3


class _Wait(wait_random_exponential):
    """Half to all of a wait that doubles with each attempt, or as long as the server asks for if that is longer."""

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome is not None else None
        asked = error.after_seconds if isinstance(error, TemporaryError) else 0.0
        return max(asked, (wait_exponential.__call__(self, retry_state) + super().__call__(retry_state)) / 2)


class ReadOnlyStore(Store):
    """A Zarr store to read from. `shown` is its address in messages; `say` reports each retried read.

    `remedy` is that of all refusals; without it, they say which of the settings of the source zarr to correct.
    `requests` and `bytes` count what was asked and received; `absent` are the keys that were asked for and not there.
    """

    def __init__(
        self,
        objects: HttpObjects | IcechunkObjects | StoredObjects,
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
        s3: S3Access = "environment",
        snapshot: str | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> ReadOnlyStore:
        """Open the store at a folder or address, without contacting it yet. With a `user`, the token is a password.

        `snapshot` is the id of the one to read of a store that has snapshots; None: what the address names.
        """
        shown = without_credentials(url)
        if is_icechunk(url):
            objects = IcechunkObjects(IcechunkAddress.parse(url).at(snapshot), s3)
            store = cls(objects, shown, say, pause, remedy)
            store.remedy = remedy or ICECHUNK_REMEDY
            return store
        # Google's objects are read over HTTPS, which needs neither a key nor Google's packages.
        address = _GOOGLE_HTTPS + url.removeprefix(_GOOGLE) if url.startswith(_GOOGLE) else url
        if is_http_url(address):
            return cls(http_objects(address, token, user), shown, say, pause, remedy)
        if has_scheme(address) and not is_s3(address):
            raise UsageError(f"{shown} is an address of a kind that is not known", remedy=remedy or REMEDY)
        try:
            found = open_store(address if is_s3(address) else str(Path(address).expanduser()), are_long=True)
        except StoreError as error:
            raise SourceError(f"{shown} cannot be opened ({error.__cause__})", remedy=REMEDY) from error
        return cls(StoredObjects(found), shown, say, pause, remedy)

    @property
    def is_usable(self) -> bool:
        """Return True until a read fails for good: every read after it fails, too."""
        return self._failure is None

    def read(self, key: str) -> bytes | None:
        """Read a whole object; None if it is absent. To be called outside of the loop."""
        content: bytes | None = sync(self.fetch(key, None))
        return content

    def snapshot(self) -> Snapshot | None:
        """The snapshot that is read; None for a store without. To be called outside of the loop."""
        if not isinstance(self._objects, IcechunkObjects):
            return None
        found: Snapshot = sync(self._retried("its snapshot", self._objects.snapshot))
        return found

    def size_of(self, key: str) -> int | None:
        """The size of an object in bytes; None if it is absent or not told. To be called outside of the loop."""
        size: int | None = sync(self._retried(key, lambda: self._objects.size_of(key)))
        return size

    async def fetch(self, key: str, part: Part | None) -> bytes | None:
        """Read an object, or a part of it; None if it is absent."""
        content: bytes | None = await self._retried(key, lambda: self._objects.read(key, part))
        if content is None:
            self.absent.add(key)
            return None
        if part is not None and part[1] not in (None, len(content)):
            raise RuntimeError("the object is shorter than its index says")
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
            retry=retry_if_exception_type(TemporaryError),
            wait=_Wait(multiplier=_FIRST_WAIT_SECONDS),
            stop=stop_after_attempt(_ATTEMPTS),
            before_sleep=lambda state: self._report(key, state),
            sleep=self._rest,
            reraise=True,
        )
        try:
            return await retrying(once)
        except TemporaryError as error:
            self._failure = StoreUnreachableError(
                f"{self.shown}: {key} cannot be read in {_ATTEMPTS} tries ({error})",
                remedy="Check the network, and HTTPS_PROXY if it has a proxy; then run it again: what was read "
                f"completely is kept. {self._own_remedy or ''}".rstrip(),
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

    supports_writes: bool = False
    supports_deletes: bool = False
    supports_listing: bool = False

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
