"""Stores of files: a folder that every executor mounts, or a bucket of S3, behind one interface."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from pyarrow import fs
from typing_extensions import override

from era5_pipeline.model.errors import (
    Era5Error,
    StoreError,
    StoreUnreachableError,
    TransientError,
    UsageError,
    disk_remedy,
)
from era5_pipeline.model.settings import S3_SCHEME
from era5_pipeline.model.times import spoken
from era5_pipeline.runtime.files import sync_folder
from era5_pipeline.runtime.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

# --- A stored object, as listed ---


@dataclass(frozen=True)
class StoredObject:
    """An object's key, size in bytes, and time of last write in nanoseconds."""

    key: str
    bytes: int
    modified_ns: int


# --- Addresses: a folder, or `s3://bucket/prefix` ---


_OTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")


@dataclass(frozen=True)
class S3Address:
    """A bucket and a key prefix, without surrounding slashes; an empty prefix means the whole bucket."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `s3://bucket/prefix`.

        Raises:
            UsageError: if it names no bucket.
        """
        bucket, _, prefix = text.removeprefix(S3_SCHEME).partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise UsageError(f"{text} names no bucket", remedy="Write s3://bucket, or s3://bucket/prefix.")
        return cls(bucket, prefix.strip("/"))

    def __str__(self) -> str:
        return f"{S3_SCHEME}{self.path()}"

    def path(self, key: str = "") -> str:
        """The bucket, the prefix and a key below it, as `pyarrow.fs` writes them."""
        return "/".join(part for part in (self.bucket, self.prefix, key) if part)


def is_s3(text: str) -> bool:
    """Return True if the address is an S3 one."""
    return text.startswith(S3_SCHEME)


def require_folder_or_s3(text: str) -> None:
    """Refuse addresses other than folders and S3."""
    if is_s3(text):
        S3Address.parse(text)
    elif _OTHER_SCHEME.match(text):
        raise UsageError(
            f"{text} is neither a folder nor an address of S3",
            remedy="Give a folder, or s3://bucket/prefix; for other servers that speak S3, set AWS_ENDPOINT_URL.",
        )


# --- Save an object's bytes as a local file, with their digest ---


_BLOCK_BYTES = 8 << 20


class ReadableStream(Protocol):
    """A source of bytes: a file, or a pyarrow stream."""

    def read(self, size: int, /) -> bytes:
        """Read up to `size` bytes; none at the end."""
        ...


def save_stream(stream: ReadableStream, path: Path, *, reading: Callable[[], AbstractContextManager[object]]) -> str:
    """Write the rest of the stream to `path`; return the SHA-256 of what was written, in hex.

    `reading` makes a context for each read, to translate the store's errors; errors of `path` reach the caller.
    """
    digest = hashlib.sha256()
    with path.open("wb") as target:
        while True:
            with reading():
                block = stream.read(_BLOCK_BYTES)
            if not block:
                return digest.hexdigest()
            digest.update(block)
            target.write(block)


# --- The interface of a store ---
#
# A store holds objects by key. An interrupted upload leaves nothing, or an object of another size, and is never
# reported as done.


class ObjectStore(Protocol):
    """A store of objects by key.

    Every method raises a `TransientError` if the store cannot be reached, and a `StoreError` if it refuses.
    """

    @property
    def shown(self) -> str:
        """Its address, for messages."""
        ...

    def require(self) -> None:
        """Raise if the store is missing, unreachable or unreadable."""
        ...

    def size_of(self, key: str) -> int | None:
        """The size of an object in bytes; None if it does not exist."""
        ...

    def read(self, key: str) -> bytes | None:
        """The content of a small object; None if it does not exist."""
        ...

    def write(self, key: str, content: bytes) -> None:
        """Write a small object, replacing any existing one."""
        ...

    def upload(self, path: Path, key: str) -> None:
        """Upload a finished local file, replacing any existing object, and verify its size."""
        ...

    def download(self, key: str, path: Path) -> str | None:
        """Write an object to a local path; return its SHA-256, or None if it does not exist."""
        ...

    def remove(self, key: str) -> None:
        """Remove an object, if it exists."""
        ...

    def objects(self) -> Iterable[StoredObject]:
        """All objects, by key in ascending order."""
        ...


# --- A store in a folder that every executor mounts, such as an NFS share ---
#
# Files appear by a rename. No locks are used, because a mount may not share them between machines: temporary files have
# unique names, and those left by killed processes are removed by age.


_UNFINISHED = ".unfinished-"
# Longer than any upload takes.
_ABANDONED_SECONDS = 2 * 86_400


@dataclass(frozen=True)
class FolderStore(ObjectStore):
    """An `ObjectStore` in a folder, which must exist: an unmounted share must not pass for an empty one."""

    folder: Path

    @property
    @override
    def shown(self) -> str:
        return str(self.folder)

    @override
    def require(self) -> None:
        with self._errors("looking at it"):
            if self.folder.is_dir() and os.access(self.folder, os.R_OK | os.X_OK):
                return
            is_there = self.folder.exists()
        raise StoreError(
            f"the store {self.folder} {'cannot be read' if is_there else 'does not exist'}",
            remedy="Mount it, or create the folder and let this user read and write there; or correct ERA5_STORE.",
        )

    @override
    def size_of(self, key: str) -> int | None:
        with self._errors(f"looking for {key}"):
            try:
                return self._path(key).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    @override
    def read(self, key: str) -> bytes | None:
        with self._errors(f"reading {key}"):
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                return None

    @override
    def write(self, key: str, content: bytes) -> None:
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            temporary.write_bytes(content)

    @override
    def upload(self, path: Path, key: str) -> None:
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            shutil.copyfile(path, temporary)

    @override
    def download(self, key: str, path: Path) -> str | None:
        with self._errors(f"reading {key}"):
            try:
                source = self._path(key).open("rb")
            except FileNotFoundError:
                return None
        with source:
            return save_stream(source, path, reading=lambda: self._errors(f"reading {key}"))

    @override
    def remove(self, key: str) -> None:
        with self._errors(f"removing {key}"):
            self._path(key).unlink(missing_ok=True)

    @override
    def objects(self) -> Iterator[StoredObject]:
        with self._errors("listing it"):
            for path in sorted(self.folder.rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    stat = path.stat()
                    yield StoredObject(path.relative_to(self.folder).as_posix(), stat.st_size, stat.st_mtime_ns)

    def _path(self, key: str) -> Path:
        return self.folder / key

    @contextmanager
    def _replacing(self, key: str) -> Iterator[Path]:
        self.require()
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        temporary = path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"the store {self.folder}: {doing}: {error.strerror or error}"
            remedy = disk_remedy(error, "set ERA5_STORE to another folder", name="ERA5_STORE")
            # A lost network share raises errors of many kinds.
            raise StoreError(what, remedy=remedy or "Check its mount, then run the month again.") from error


def _remove_abandoned(folder: Path) -> None:
    oldest = time.time() - _ABANDONED_SECONDS
    for left in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):  # another executor removed it
            if left.stat().st_mtime < oldest:
                left.unlink()


# --- Translate S3 errors for the user, and tell which are temporary ---
#
# `pyarrow.fs` raises `OSError`s whose text contains the error name of Amazon's library, and the server's message.


_NAME = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))?")
# Error names that Amazon's library does not know, from other servers.
_OWN_NAME = re.compile(r"ExceptionName: (\w+)")
_REQUEST = re.compile(r"\s*\(Request ID: [^)]*\)")
_TEMPORARY = {
    *("NETWORK_CONNECTION", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "THROTTLING", "REQUEST_TIMEOUT"),
    *("REQUEST_EXPIRED", "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "SERVER_BUSY"),
}
_KEYS = {
    *("INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID", "UNRECOGNIZED_CLIENT"),
    *("MISSING_AUTHENTICATION_TOKEN", "ExpiredToken", "InvalidToken", "XAdminUserNotFound", "XAdminNoSuchUser"),
}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge", "InsufficientCapacity"}
UNREACHABLE = (
    "The store cannot be reached. Check ERA5_STORE, AWS_ENDPOINT_URL and the server; then run it again: it goes on "
    "where it stopped."
)
_SERVER_FAULTS = range(500, 600)
_NO_SPACE = 507
_OTHER_REGION = {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"}
_REDIRECTED_OR_BAD = (301, 400)


@contextmanager
def s3_errors(doing: str, where: str = "") -> Iterator[None]:
    """Raise a `TransientError` or a `StoreError` for an `OSError` of `pyarrow.fs`; other errors pass through.

    In the message, `doing` says what failed and `where` names the server.
    """
    try:
        yield
    except OSError as error:
        raise error_of_s3(doing, where, str(error)) from error


def error_of_s3(doing: str, where: str, text: str) -> Era5Error:
    """Return the error to raise for the text of a pyarrow error."""
    named = _NAME.search(text)
    name = named[1] if named else ""
    status = int(named[2]) if named and named[2] else 0
    names = {name, *_OWN_NAME.findall(text)}
    said = _REQUEST.sub("", text)
    message = f"{doing}{where}: {said}"
    if "curlCode: 60" in text or "curlCode: 77" in text:
        return StoreError(message, remedy="Its certificate cannot be verified: set AWS_CA_BUNDLE to the CA's file.")
    if names & _FULL or status == _NO_SPACE:
        return StoreError(
            message, remedy="It is full, or its quota is. Free space there (ERA5_KEEP), then run the month again."
        )
    if names & _TEMPORARY or status in _SERVER_FAULTS:
        return TransientError(
            message,
            remedy=UNREACHABLE,
        )
    # A request without an answer's body, such as for a file's size, says no more than 400.
    if names & _OTHER_REGION or (status in _REDIRECTED_OR_BAD and "No response body" in text):
        return StoreError(
            message,
            remedy="Set AWS_REGION to the region of the bucket, or of its server (AWS_ENDPOINT_URL); this request was "
            f"for {os.environ.get('AWS_REGION') or os.environ.get('AWS_DEFAULT_REGION') or 'the default region'}.",
        )
    if name == "NO_SUCH_BUCKET":
        return StoreError(message, remedy="Create the bucket, or correct ERA5_STORE: era5 creates none.")
    if names & _KEYS:
        return StoreError(
            message, remedy="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to keys that it knows."
        )
    if name == "ACCESS_DENIED":
        return StoreError(
            message,
            remedy="The keys (AWS_ACCESS_KEY_ID, AWS_PROFILE) are missing or wrong, or lack rights. Needed: "
            "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject below the prefix.",
        )
    return StoreError(message, remedy="Check ERA5_STORE and the AWS_... settings; then run the month again.")


# --- A store in a bucket of S3 or an S3-compatible server, through `pyarrow.fs` ---
#
# An exception while a stream to S3 is open publishes what was written so far: pyarrow cannot abort an upload. So none
# of our code runs while one is open: files are finished before they are uploaded, pyarrow itself copies them, and the
# size is verified afterwards.


# A server that refuses connections is given up after a few seconds; one that accepts them and stays silent, after 20
# for simple requests, with which every stage begins. During transfers it may take longer: some servers assemble the
# parts of a large upload at its end.
_ATTEMPTS = 3
_CONNECT_SECONDS = 5
_SILENT_SECONDS = 5
_SILENT_TRANSFER_SECONDS = 60
# Files up to this size are written in one request.
_SMALL_BYTES = 4 << 20
# Pause between two attempts at a server that does not answer, on top of the timeouts above.
_AGAIN_SECONDS = 5.0
# For self-hosted servers, which have no regions.
_ANY_REGION = "us-east-1"

T = TypeVar("T")
_log = logging.getLogger(__name__)


def s3_file_system(
    *, endpoint: str | None, region: str | None, ca_file: str | None, silent_seconds: float = _SILENT_TRANSFER_SECONDS
) -> fs.S3FileSystem:
    """Connect to S3, or the server at `endpoint`, which is given up after a few attempts; keys as AWS finds them.

    Raises:
        OSError: if `ca_file` cannot be used.
    """
    return fs.S3FileSystem(
        endpoint_override=endpoint,
        region=region or (_ANY_REGION if endpoint else None),
        tls_ca_file_path=ca_file,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=silent_seconds,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        # So a small object takes one request instead of three.
        allow_delayed_open=True,
    )


class S3Store(ObjectStore):
    """An `ObjectStore` in S3; `endpoint` is the URL of a server other than Amazon's.

    If the server does not answer, calls are retried until `patience_seconds` have passed, and the log says what is
    being waited for; the last attempt may end later.
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
            connect = partial(s3_file_system, endpoint=endpoint, region=region, ca_file=ca_file)
            self._s3 = connect(silent_seconds=_SILENT_SECONDS)
            self._transfers = connect()

    @property
    @override
    def shown(self) -> str:
        return str(self._address)

    @override
    def require(self) -> None:
        """Raise also if the bucket is missing, which would otherwise look like one without objects."""

        def require() -> None:
            with s3_errors(f"the store {self.shown}", self._where):
                try:
                    self._s3.get_file_info(fs.FileSelector(self._address.path(), recursive=False))
                except FileNotFoundError:  # nothing is below the prefix yet
                    return

        self._patiently(require)

    @override
    def size_of(self, key: str) -> int | None:
        info = self._asked(f"looking for {key}", lambda: self._s3.get_file_info(self._address.path(key)))
        return info.size if info.type is fs.FileType.File else None

    @override
    def read(self, key: str) -> bytes | None:

        def read() -> bytes | None:
            try:
                with self._s3.open_input_stream(self._address.path(key)) as stream:
                    content: bytes = stream.read()
            except FileNotFoundError:
                return None
            return content

        return self._asked(f"reading {key}", read)

    @override
    def write(self, key: str, content: bytes) -> None:

        def write() -> None:
            stream = self._s3.open_output_stream(self._address.path(key))
            stream.write(content)
            stream.close()

        self._asked(f"writing {key}", write)

    @override
    def upload(self, path: Path, key: str) -> None:
        if path.stat().st_size <= _SMALL_BYTES:
            # In one request, whose error is raised: copying ends without one, even if nothing may be written.
            self.write(key, self._asked(f"reading {path}", path.read_bytes))
            self._require_size(path, key)
            return
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
        self._require_size(path, key)

    def _require_size(self, path: Path, key: str) -> None:
        # pyarrow does not report every connection lost at the end of an upload.
        size, stored = path.stat().st_size, self.size_of(key)
        if stored != size:
            self.remove(key)
            raise TransientError(
                f"the store {self.shown}: {key} did not arrive whole: {stored or 0:,} of {size:,} bytes{self._where}",
                remedy=UNREACHABLE,
            )

    @override
    def download(self, key: str, path: Path) -> str | None:

        def download() -> str | None:
            with self._errors(f"reading {key}"):
                try:
                    stream = self._transfers.open_input_stream(self._address.path(key))
                except FileNotFoundError:
                    return None
            with stream:
                return save_stream(stream, path, reading=lambda: self._errors(f"reading {key}"))

        return self._patiently(download)

    @override
    def remove(self, key: str) -> None:

        def remove() -> None:
            try:
                self._s3.delete_file(self._address.path(key))
            except FileNotFoundError:
                return

        self._asked(f"removing {key}", remove)

    @override
    def objects(self) -> Iterator[StoredObject]:
        """All objects by key, or only the one whose address was given."""
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
        """Call `call` as `_patiently` does, treating all its errors as the store's."""

        def ask() -> T:
            with self._errors(doing):
                return call()

        return self._patiently(ask)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Call `call` until the server answers; raise `StoreUnreachableError` once the waiting time is over."""
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


# --- Opening the store at an address ---


@dataclass(frozen=True)
class S3Environment:
    """S3 settings from AWS's own environment variables; keys may also be in AWS's own files."""

    endpoint: str | None
    region: str | None
    ca_file: str | None
    credentials: tuple[str | None, ...]

    @classmethod
    def read(cls) -> S3Environment:
        """Read the environment now."""

        def first(*names: str) -> str | None:
            return next((value for name in names if (value := os.environ.get(name))), None)

        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
        return cls(
            endpoint=first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
            region=first("AWS_REGION", "AWS_DEFAULT_REGION"),
            ca_file=first("AWS_CA_BUNDLE"),
            credentials=tuple(os.environ.get(name) for name in names),
        )


def open_store(address: str, patience_seconds: float = 0.0) -> ObjectStore:
    """Open the store at a folder or `s3://bucket/prefix`, without contacting it yet.

    Calls wait for an S3 server for up to `patience_seconds`.
    """
    require_folder_or_s3(address)
    return _open_s3(address, S3Environment.read(), patience_seconds) if is_s3(address) else FolderStore(Path(address))


@lru_cache(maxsize=16)
def _open_s3(address: str, environment: S3Environment, patience_seconds: float) -> S3Store:
    # Cached, because connecting takes longer than reading a small object.
    return S3Store(
        S3Address.parse(address),
        endpoint=environment.endpoint,
        region=environment.region,
        ca_file=environment.ca_file,
        patience_seconds=patience_seconds,
    )
