"""Download results to disk: resumable, verified by size, checksum and contents."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import requests

from era5_pipeline.model.errors import disk_errors
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import require_room
from era5_pipeline.runtime.http import retry_after
from era5_pipeline.sources.cds.answers import INVALID_URL_ERRORS, describe_connection_error, error_of
from era5_pipeline.sources.cds.retry_policy import MAX_FAILURES, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.sources.cds.service import Asset

# --- Verify a file by the checksum that the service announces ---
#
# The checksum is the ETag of the service's object store as a hex number: the MD5 of a file stored in one piece; for a
# larger one, the MD5 of the MD5s of its parts. Leading zeros are lost, and so is the number of parts.
# Source: cacholote (`file:checksum`) and s3fs (`checksum`; `put`, which stores files of 100 MiB and more in parts of
# 50 MiB).


_MIB = 1 << 20
# The part size of s3fs comes first, then those of other programs.
PART_BYTES = (50 * _MIB, 5 * _MIB, 8 * _MIB, 16 * _MIB, 64 * _MIB, 100 * _MIB, 128 * _MIB)
_READ_BYTES = _MIB
# An MD5 has 32 digits; fewer than one in a million begins with more than five zeros.
_NUMBER = re.compile(r"[0-9a-f]{26,32}")


def announced_number(text: str | None) -> int | None:
    """Parse the announced checksum as a number; None if it is absent or of an unknown kind."""
    lowered = (text or "").strip().strip('"').lower().partition("-")[0]
    return int(lowered, 16) if _NUMBER.fullmatch(lowered) else None


def has_checksum(path: Path, announced: int, *, md5: str) -> bool:
    """Return True if the file has the announced checksum, as its MD5 or that of its parts, which rereads the file."""
    if int(md5, 16) == announced:
        return True
    size = path.stat().st_size
    return any(part < size and _etag(path, part) == announced for part in PART_BYTES)


def digests(path: Path) -> tuple[str, str]:
    """The file's MD5 and SHA-256 in hex."""
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            md5.update(block)
            sha256.update(block)
    return md5.hexdigest(), sha256.hexdigest()


def _etag(path: Path, part_bytes: int) -> int:
    """The MD5 of the MD5s of the parts, as a number."""
    whole = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while True:
            part = hashlib.md5(usedforsecurity=False)
            left = part_bytes
            while left and (block := file.read(min(_READ_BYTES, left))):
                part.update(block)
                left -= len(block)
            if left == part_bytes:
                return int(whole.hexdigest(), 16)
            whole.update(part.digest())


# --- Download results to disk: resumable, verified by size and checksum ---
#
# The client's own download (multiurl) is not used: it deletes the file first, appends even if a server ignores `Range`
# and sends the file from its start, and compares no checksum.


_TIMEOUT_SECONDS = (30.0, 120.0)
# Bytes of an incomplete block are lost when a connection is cut, so blocks are small.
_BLOCK_BYTES = 1 << 16
_GONE = (400, 401, 403, 404, 410)
# A file other than the announced one is downloaded twice, then twice from a new request (`service_request`).
MAX_MISMATCHES = 4
# Downloads in a row that end where they began although the server responds: the file may be truncated in its store, or
# the server overloaded. With doubling waits, an hour passes before half of them, half a day before all.
MAX_STALLS = 16
_PARTIAL, _NOT_SATISFIABLE = 206, 416


@dataclass(frozen=True)
class ReceivedFile:
    """A complete file: its SHA-256 in hex, and whether it has the announced checksum (None: not announced)."""

    sha256: str
    has_checksum: bool | None


class WrongChecksumError(RetryableError):
    """The file, with digest `sha256`, has the announced size but not the announced checksum."""

    def __init__(self, sha256: str) -> None:
        super().__init__(
            "the checksum of the downloaded file is not the one announced", kind="checksum", max_in_a_row=MAX_MISMATCHES
        )
        self.sha256 = sha256


def download(
    subject: Month | str, asset: Asset, part: Path, *, verify: bool, came_before: frozenset[str]
) -> ReceivedFile:
    """Complete the file `part`, resuming from the bytes that it holds.

    A file that arrives twice with the same bytes is accepted even if another checksum was announced: `came_before` has
    the SHA-256 of files refused for their checksum. The announced checksum depends on how the service's store was
    written, and `has_checksum` does not know every way.

    Raises:
        RetryableError: if the download was interrupted (`part` keeps the received bytes), or the file is gone or not
            the announced one.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    held = part.stat().st_size if part.exists() else 0
    if held > asset.bytes:
        part.unlink()
        held = 0
    require_room(part.parent, asset.bytes - held, f"{subject}: the download needs", again="run it again")
    if held < asset.bytes or not asset.bytes:
        _receive(subject, asset, part, held, verify=verify)
    size = part.stat().st_size
    if size != asset.bytes:
        # The server sent the whole file: the announced size is wrong, or this is another file.
        part.unlink()
        raise RetryableError(
            f"{size:,} bytes were received, {asset.bytes:,} were announced", kind="size", max_in_a_row=MAX_MISMATCHES
        )
    return _verified(asset, part, came_before)


def _receive(subject: Month | str, asset: Asset, part: Path, held: int, *, verify: bool) -> None:
    # Without the user's key, which is for the service, not its file server.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    before, begun_at = held, None
    try:
        with requests.get(asset.url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS, verify=verify) as response:
            held = begun_at = _begin(response, part, held)
            with disk_errors(f"{subject}: downloading", part), part.open("ab") as file:
                for chunk in _chunks(response):
                    file.write(chunk)
                    held += len(chunk)
                    progress.report("raw", min(held, asset.bytes), asset.bytes, "bytes")
                    if held > asset.bytes:
                        return
    # Not chained: these errors quote the URL, which holds a signature, and Dagster stores chained errors.
    except requests.exceptions.SSLError as error:
        raise error_of(subject, error) from None
    except (*INVALID_URL_ERRORS, ValueError) as error:
        reason = f"the address of the results is invalid ({type(error).__name__})"
        raise RetryableError(reason, kind="address", needs_new_request=True, max_in_a_row=MAX_FAILURES) from None
    except requests.exceptions.RequestException as error:
        reason = f"the download was cut off ({describe_connection_error(error)})"
        if begun_at is not None and held == max(before, begun_at):
            stopped = f"{reason}, again after {held:,} of {asset.bytes:,} bytes"
            raise RetryableError(stopped, kind="stall", max_in_a_row=MAX_STALLS) from None
        raise RetryableError(reason, kind="connection") from None


def _chunks(response: requests.Response) -> Iterator[bytes]:
    chunks: Iterator[bytes] = response.iter_content(_BLOCK_BYTES)
    return chunks


def _begin(response: requests.Response, part: Path, held: int) -> int:
    """The file offset at which the response begins; bytes held beyond it are dropped."""
    status = response.status_code
    if status == _PARTIAL and response.headers.get("content-range", "").startswith(f"bytes {held}-"):
        return held
    if status in (200, _PARTIAL, _NOT_SATISFIABLE) and part.exists():
        # The server does not resume, or resumes at another offset: start over.
        part.unlink()
    if status == 200:
        return 0
    if status in (_PARTIAL, _NOT_SATISFIABLE):
        raise RetryableError(
            "the download could not be resumed", kind="range", after_seconds=0.0, max_in_a_row=MAX_MISMATCHES
        )
    if status in _GONE:
        reason = f"the file of the results is gone (status {status})"
        raise RetryableError(reason, kind="gone", needs_new_request=True, max_in_a_row=MAX_FAILURES)
    raise RetryableError(
        f"status {status} for the download", kind="status", after_seconds=retry_after(response.headers)
    )


def _verified(asset: Asset, part: Path, came_before: frozenset[str]) -> ReceivedFile:
    md5, sha256 = digests(part)
    announced = announced_number(asset.checksum)
    if announced is None:
        return ReceivedFile(sha256, None)
    if has_checksum(part, announced, md5=md5):
        return ReceivedFile(sha256, has_checksum=True)
    if sha256 in came_before:
        return ReceivedFile(sha256, has_checksum=False)
    part.unlink()
    raise WrongChecksumError(sha256)
