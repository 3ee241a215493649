"""A store in a bucket of S3, or of a server that speaks S3, by `pyarrow.fs`.

An exception while a stream to S3 is open publishes what was written so far: pyarrow cannot abort an upload. So nothing
of ours runs while one is open. Files are finished before they are uploaded, pyarrow itself copies them, and the size is
verified afterwards.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyarrow import fs

from era5_pipeline.model.errors import StoreUnreachableError, TransientError
from era5_pipeline.model.times import spoken
from era5_pipeline.runtime.store.s3_errors import UNREACHABLE, s3_errors
from era5_pipeline.runtime.store.saved_stream import save_stream
from era5_pipeline.runtime.store.stored_object import StoredObject
from era5_pipeline.runtime.waits import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from era5_pipeline.runtime.store.address import S3Address

# A server that refuses connections is given up after a few seconds; one that accepts them and is silent, after 20 where
# it is asked for something, which every stage begins with. While files are transferred it may think longer: some
# servers copy the parts of a large upload together at its end.
_ATTEMPTS = 3
_CONNECT_SECONDS = 5
_SILENT_SECONDS = 5
_SILENT_TRANSFER_SECONDS = 60
_BLOCK_BYTES = 8 << 20
# Between two tries of a server that does not answer; each of them takes the seconds above besides.
_AGAIN_SECONDS = 5.0
# Of servers of one's own, which have no regions.
_ANY_REGION = "us-east-1"

T = TypeVar("T")
_log = logging.getLogger(__name__)


class S3Store:
    """See `ObjectStore`; `endpoint` is the URL of a server that is not Amazon's.

    A server that does not answer is tried again until `patience_seconds` have passed, and the log says what is waited
    for; the last try may end later.
    """

    def __init__(
        self,
        address: S3Address,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        ca_file: str | None = None,
        patience_seconds: float = 0.0,
    ) -> None:
        self._address = address
        self._patience_seconds = patience_seconds
        self._where = f" at {endpoint}" if endpoint else ""
        with s3_errors(f"the store {self.shown}", self._where):
            connect = partial(
                fs.S3FileSystem,
                endpoint_override=endpoint,
                region=region or (_ANY_REGION if endpoint else None),
                tls_ca_file_path=ca_file,
                connect_timeout=_CONNECT_SECONDS,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
                # A small object is then one request instead of three.
                allow_delayed_open=True,
            )
            self._s3 = connect(request_timeout=_SILENT_SECONDS)
            self._transfers = connect(request_timeout=_SILENT_TRANSFER_SECONDS)

    @property
    def shown(self) -> str:
        """See `ObjectStore`."""
        return str(self._address)

    def require(self) -> None:
        """See `ObjectStore`. A missing bucket would otherwise look like one without objects."""

        def require() -> None:
            with s3_errors(f"the store {self.shown}", self._where):
                try:
                    self._s3.get_file_info(fs.FileSelector(self._address.path(), recursive=False))
                except FileNotFoundError:  # nothing is below the prefix yet
                    return

        self._patiently(require)

    def size_of(self, key: str) -> int | None:
        """See `ObjectStore`."""
        info = self._asked(f"looking for {key}", lambda: self._s3.get_file_info(self._address.path(key)))
        return info.size if info.type is fs.FileType.File else None

    def read(self, key: str) -> bytes | None:
        """See `ObjectStore`."""

        def read() -> bytes | None:
            try:
                with self._s3.open_input_stream(self._address.path(key)) as stream:
                    content: bytes = stream.read()
            except FileNotFoundError:
                return None
            return content

        return self._asked(f"reading {key}", read)

    def write(self, key: str, content: bytes) -> None:
        """See `ObjectStore`."""

        def write() -> None:
            stream = self._s3.open_output_stream(self._address.path(key))
            stream.write(content)
            stream.close()

        self._asked(f"writing {key}", write)

    def upload(self, path: Path, key: str) -> None:
        """See `ObjectStore`."""
        self._asked(
            f"writing {key}",
            lambda: fs.copy_files(
                str(path),
                self._address.path(key),
                source_filesystem=fs.LocalFileSystem(),
                destination_filesystem=self._transfers,
                chunk_size=_BLOCK_BYTES,
            ),
        )
        # pyarrow does not report every connection that is lost at the end of an upload.
        size, stored = path.stat().st_size, self.size_of(key)
        if stored != size:
            self.remove(key)
            raise TransientError(
                f"the store {self.shown}: {key} did not arrive whole: {stored or 0:,} of {size:,} bytes{self._where}",
                remedy=UNREACHABLE,
            )

    def download(self, key: str, path: Path) -> str | None:
        """See `ObjectStore`."""

        def download() -> str | None:
            with self._errors(f"reading {key}"):
                try:
                    stream = self._transfers.open_input_stream(self._address.path(key))
                except FileNotFoundError:
                    return None
            with stream:
                return save_stream(stream, path, reading=lambda: self._errors(f"reading {key}"))

        return self._patiently(download)

    def remove(self, key: str) -> None:
        """See `ObjectStore`."""

        def remove() -> None:
            try:
                self._s3.delete_file(self._address.path(key))
            except FileNotFoundError:
                return

        self._asked(f"removing {key}", remove)

    def objects(self) -> Iterator[StoredObject]:
        """See `ObjectStore`. A single object, if the address is its own."""
        root = self._address.path()
        own = self._asked("listing it", lambda: self._s3.get_file_info(root)) if self._address.prefix else None
        if own is not None and own.type is fs.FileType.File:
            yield StoredObject("", own.size, own.mtime_ns)
            return

        def listed() -> list[fs.FileInfo]:
            try:
                found: list[fs.FileInfo] = self._s3.get_file_info(fs.FileSelector(root, recursive=True))
            except FileNotFoundError:
                return []
            return found

        for info in sorted(self._asked("listing it", listed), key=lambda info: str(info.path)):
            if info.type is fs.FileType.File:
                yield StoredObject(info.path[len(root) + 1 :], info.size, info.mtime_ns)

    def _asked(self, doing: str, call: Callable[[], T]) -> T:
        """Return what `call` returns, as `_patiently` does; all its errors are those of the store."""

        def ask() -> T:
            with self._errors(doing):
                return call()

        return self._patiently(ask)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, called again while the server does not answer.

        Raises:
            StoreUnreachableError: once it was waited for long enough.
            StoreError: if the server refuses.
        """
        started, longest = time.monotonic(), self._patience_seconds
        while True:
            try:
                return call()
            except TransientError as error:
                waited = time.monotonic() - started
                if not longest:
                    raise
                limit = f"{spoken(longest)}, by ERA5_STORE_PATIENCE_SECONDS"
                if waited >= longest:
                    message = f"{error.message} (waited {spoken(waited)}; up to {limit})"
                    raise StoreUnreachableError(message, remedy=error.remedy) from error
                _log.warning("waiting for %s (for %s so far, up to %s)", error.message, spoken(waited), limit)
                with waiting():
                    time.sleep(min(_AGAIN_SECONDS, longest - waited))

    def _errors(self, doing: str) -> AbstractContextManager[None]:
        return s3_errors(f"the store {self.shown}: {doing}", self._where)
