"""The store at an address: a folder, or a bucket of S3 or a server that speaks it, through `pyarrow.fs`."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyarrow import fs
from typing_extensions import override

from era5_pipeline.model.errors import Era5Error, StoreError, StoreUnreachableError, TransientError, disk_remedy
from era5_pipeline.model.times import spoken
from era5_pipeline.runtime import object_store
from era5_pipeline.runtime.files import sync
from era5_pipeline.runtime.progress import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from era5_pipeline.runtime.object_store import Part

# For self-hosted servers, which have no regions.
_ANY_REGION = "us-east-1"
# A server that refuses connections is given up after a few seconds; one that accepts them and stays silent, after 20
# for simple requests, with which every stage begins. During transfers it may take longer: some servers assemble the
# parts of a large upload at its end.
_ATTEMPTS = 3
_CONNECT_SECONDS = 5
_SILENT_SECONDS = 5
_SILENT_TRANSFER_SECONDS = 60


@dataclass(frozen=True)
class S3Environment:
    """S3 settings from AWS's own environment variables; keys may also be in AWS's own files."""

    endpoint: str | None
    region: str | None
    ca_file: str | None
    credentials: tuple[str | None, ...] = ()

    @classmethod
    def read(cls) -> S3Environment:
        """Read the environment now."""

        def first(*names: str) -> str | None:
            return next((value for name in names if (value := os.environ.get(name))), None)

        endpoint = first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
        return cls(
            endpoint=endpoint,
            region=first("AWS_REGION", "AWS_DEFAULT_REGION") or (_ANY_REGION if endpoint else None),
            ca_file=first("AWS_CA_BUNDLE"),
            credentials=tuple(os.environ.get(name) for name in names),
        )

    def connect(self, *, is_long: bool = True) -> fs.S3FileSystem:
        """Connect to the server, which is given up after a few attempts; keys as AWS finds them."""
        return fs.S3FileSystem(
            endpoint_override=self.endpoint,
            region=self.region,
            tls_ca_file_path=self.ca_file,
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_SILENT_TRANSFER_SECONDS if is_long else _SILENT_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
            # So a small object takes one request instead of three.
            allow_delayed_open=True,
        )


# --- Translate S3 errors for the user, and tell which are temporary; pyiceberg's too, which reads by pyarrow ---
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
_FORBIDDEN, _NO_SPACE, _SERVER_FAULTS = 403, 507, range(500, 600)
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
        text = str(error)
        raise _translated(f"{doing}{where}: {_REQUEST.sub('', text)}", text) from error


def _translated(message: str, text: str) -> Era5Error:
    """Return the error to raise for the text of a pyarrow error."""
    named = _NAME.search(text)
    name = named[1] if named else ""
    status = int(named[2]) if named and named[2] else 0
    names = {name, *_OWN_NAME.findall(text)}
    kind: type[Era5Error] = object_store.DeniedError if name == "ACCESS_DENIED" or status == _FORBIDDEN else StoreError
    remedy = "Check ERA5_STORE and the AWS_... settings; then run the month again."
    if "curlCode: 60" in text or "curlCode: 77" in text:
        remedy = "Its certificate cannot be verified: set AWS_CA_BUNDLE to the CA's file."
    elif names & _FULL or status == _NO_SPACE:
        remedy = "It is full, or its quota is. Free space there (ERA5_KEEP), then run the month again."
    elif names & _TEMPORARY or status in _SERVER_FAULTS:
        kind, remedy = TransientError, UNREACHABLE
    # A request without an answer's body, such as for a file's size, says no more than 400.
    elif names & _OTHER_REGION or (status in _REDIRECTED_OR_BAD and "No response body" in text):
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "the default region"
        remedy = (
            "Set AWS_REGION to the region of the bucket, or of its server (AWS_ENDPOINT_URL); this request was for "
            f"{region}."
        )
    elif name == "NO_SUCH_BUCKET":
        remedy = "Create the bucket, or correct ERA5_STORE: era5 creates none."
    elif names & _KEYS:
        remedy = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to keys that it knows."
    elif name == "ACCESS_DENIED":
        remedy = (
            "The keys (AWS_ACCESS_KEY_ID, AWS_PROFILE) are missing or wrong, or lack rights. Needed: s3:ListBucket on "
            "the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject below the prefix."
        )
    return kind(message, remedy=remedy)


# --- Stores ---
#
# A store holds objects by key. An interrupted upload leaves nothing, or an object of another size, and is never
# reported as done.


# Pause between two attempts at a server that does not answer, on top of the timeouts above.
_AGAIN_SECONDS = 5.0

T = TypeVar("T")
_log = logging.getLogger(__name__)


class ObjectStore(ABC):
    """A store of objects by key, below `root` of a file system; `transfers` is the same one for large objects.

    Every method raises a `TransientError` if the store cannot be reached, and a `StoreError` if it refuses. `shown` is
    its address, for messages. If a server does not answer, calls are retried until `patience_seconds` have passed, and
    the log says what is being waited for; the last attempt may end later.
    """

    def __init__(
        self, shown: str, root: str, files: fs.FileSystem, transfers: fs.FileSystem, patience_seconds: float = 0.0
    ) -> None:
        self.shown = shown
        self._root = root
        self._files = files
        self._transfers = transfers
        self._patience_seconds = patience_seconds

    @abstractmethod
    def require(self) -> None:
        """Raise if the store is missing, unreachable or unreadable."""

    @abstractmethod
    def write(self, key: str, content: bytes) -> None:
        """Write a small object, replacing any existing one."""

    @abstractmethod
    def upload(self, path: Path, key: str) -> None:
        """Upload a finished local file, replacing any existing object, and verify its size."""

    @abstractmethod
    def _errors(self, doing: str = "") -> AbstractContextManager[None]:
        """Translate the errors of its file system."""

    def size_of(self, key: str) -> int | None:
        """The size of an object in bytes; None if it does not exist."""
        info = self._asked(f"looking for {key}", lambda: self._files.get_file_info(self._path(key)))
        return info.size if info.type is fs.FileType.File else None

    def read(self, key: str, part: Part | None = None) -> bytes | None:
        """The content of a small object, or a part of one as far as there is one; None if it does not exist."""

        def read() -> bytes:
            if part is None:
                with self._files.open_input_stream(self._path(key)) as stream:
                    return bytes(stream.read())
            with self._files.open_input_file(self._path(key)) as file:
                start, stop, _ = object_store.slice_of(part).indices(file.size())
                return bytes(file.read_at(stop - start, start))

        return self._asked_for(f"reading {key}", read)

    def download(self, key: str, path: Path) -> str | None:
        """Write an object to a local path; return its SHA-256, or None if it does not exist."""

        def download() -> str | None:
            with self._errors(f"reading {key}"):
                try:
                    stream = self._transfers.open_input_stream(self._path(key))
                except FileNotFoundError:
                    return None
            with stream:
                return object_store.save_stream(stream.read, path, lambda: self._errors(f"reading {key}"))

        return self._patiently(download)

    def remove(self, key: str) -> None:
        """Remove an object, if it exists."""
        self._asked_for(f"removing {key}", lambda: self._files.delete_file(self._path(key)))

    def objects(self) -> Iterator[object_store.StoredObject]:
        """All objects, by key in ascending order; or only the one whose address was given."""
        own = self._asked("listing it", lambda: self._files.get_file_info(self._root)) if "/" in self._root else None
        if own is not None and own.type is fs.FileType.File:
            yield object_store.StoredObject("", own.size, own.mtime_ns)
            return
        below = fs.FileSelector(self._root, recursive=True)
        found = self._asked_for("listing it", lambda: self._files.get_file_info(below))
        for info in sorted(found or (), key=lambda info: str(info.path)):
            if info.type is fs.FileType.File:
                yield object_store.StoredObject(info.path[len(self._root) + 1 :], info.size, info.mtime_ns)

    def _path(self, key: str) -> str:
        return "/".join(filter(None, (self._root, key)))

    def _asked_for(self, doing: str, call: Callable[[], T]) -> T | None:
        """Call `call` as `_asked` does; None if there is no such object."""

        def unless_absent() -> T | None:
            try:
                return call()
            except (FileNotFoundError, NotADirectoryError):
                return None

        return self._asked(doing, unless_absent)

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


# --- A store in a folder that every executor mounts, such as an NFS share ---
#
# Files appear by a rename. No locks are used, because a mount may not share them between machines: temporary files have
# unique names, and those left by killed processes are removed by age.


_UNFINISHED = ".unfinished-"
# Longer than any upload takes.
_ABANDONED_SECONDS = 2 * 86_400


class FolderStore(ObjectStore):
    """A store in a folder, which must exist: an unmounted share must not pass for an empty one."""

    def __init__(self, folder: Path) -> None:
        local = fs.LocalFileSystem()
        super().__init__(str(folder), str(folder.absolute()), local, local)
        self._folder = folder

    @override
    def require(self) -> None:
        with self._errors("looking at it"):
            if self._folder.is_dir() and os.access(self._folder, os.R_OK | os.X_OK):
                return
            is_there = self._folder.exists()
        raise StoreError(
            f"the store {self.shown} {'cannot be read' if is_there else 'does not exist'}",
            remedy="Mount it, or create the folder and let this user read and write there; or correct ERA5_STORE.",
        )

    @override
    def write(self, key: str, content: bytes) -> None:
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            temporary.write_bytes(content)

    @override
    def upload(self, path: Path, key: str) -> None:
        with self._errors(f"writing {key}"), self._replacing(key) as temporary:
            shutil.copyfile(path, temporary)

    @override
    def objects(self) -> Iterator[object_store.StoredObject]:
        return (found for found in super().objects() if not found.key.rpartition("/")[2].startswith("."))

    @contextmanager
    def _replacing(self, key: str) -> Iterator[Path]:
        self.require()
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path.parent)
        temporary = path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex}")
        try:
            yield temporary
            sync(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)

    @contextmanager
    @override
    def _errors(self, doing: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"the store {self.shown}: {doing}: {os.strerror(error.errno) if error.errno else error}"
            remedy = disk_remedy(error, "set ERA5_STORE to another folder", name="ERA5_STORE")
            # A lost network share raises errors of many kinds.
            raise StoreError(what, remedy=remedy or "Check its mount, then run the month again.") from error


def _remove_abandoned(folder: Path) -> None:
    oldest = time.time() - _ABANDONED_SECONDS
    for left in folder.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):  # another executor removed it
            if left.stat().st_mtime < oldest:
                left.unlink()


# --- A store in a bucket ---
#
# An exception while a stream to S3 is open publishes what was written so far: pyarrow cannot abort an upload. So none
# of our code runs while one is open: files are finished before they are uploaded, pyarrow itself copies them, and the
# size is verified afterwards.


# Files up to this size are written in one request.
_SMALL_BYTES = 4 << 20


class S3Store(ObjectStore):
    """A store in S3, or a server that speaks it, by AWS's own environment variables.

    `are_long`: every request may take as long as a transfer.
    """

    def __init__(
        self,
        address: object_store.S3Address,
        environment: S3Environment,
        patience_seconds: float = 0.0,
        *,
        are_long: bool = False,
    ) -> None:
        self.shown = str(address)
        self._where = f" at {environment.endpoint}" if environment.endpoint else ""
        with self._errors():
            transfers = environment.connect()
            files = transfers if are_long else environment.connect(is_long=False)
        super().__init__(str(address), address.path(), files, transfers, patience_seconds)

    @override
    def require(self) -> None:
        """Raise also if the bucket is missing, which would otherwise look like one without objects."""
        self._asked_for("", lambda: self._files.get_file_info(fs.FileSelector(self._root, recursive=False)))

    @override
    def write(self, key: str, content: bytes) -> None:

        def write() -> None:
            stream = self._files.open_output_stream(self._path(key))
            stream.write(content)
            stream.close()

        self._asked(f"writing {key}", write)

    @override
    def upload(self, path: Path, key: str) -> None:
        if path.stat().st_size <= _SMALL_BYTES:
            # In one request, whose error is raised: copying ends without one, even if nothing may be written.
            self.write(key, self._asked(f"reading {path}", path.read_bytes))
        else:
            local, to = fs.LocalFileSystem(), self._path(key)
            copy = partial(fs.copy_files, str(path), to, local, self._transfers, chunk_size=object_store.BLOCK_BYTES)
            self._asked(f"writing {key}", copy)
        # pyarrow does not report every connection lost at the end of an upload.
        size, stored = path.stat().st_size, self.size_of(key)
        if stored != size:
            self.remove(key)
            raise TransientError(
                f"the store {self.shown}: {key} did not arrive whole: {stored or 0:,} of {size:,} bytes{self._where}",
                remedy=UNREACHABLE,
            )

    @override
    def _errors(self, doing: str = "") -> AbstractContextManager[None]:
        return s3_errors(": ".join(filter(None, (f"the store {self.shown}", doing))), self._where)


def open_store(address: str, patience_seconds: float = 0.0, *, are_long: bool = False) -> ObjectStore:
    """Open the store at a folder or `s3://bucket/prefix`, without contacting it yet.

    Calls wait for an S3 server for up to `patience_seconds`; each request may take as long as a transfer if `are_long`.
    """
    object_store.require_folder_or_s3(address)
    if not object_store.is_s3(address):
        return FolderStore(Path(address))
    return _open_s3(object_store.S3Address.parse(address), S3Environment.read(), patience_seconds, are_long=are_long)


# Cached, because connecting takes longer than reading a small object.
_open_s3 = lru_cache(maxsize=16)(S3Store)
