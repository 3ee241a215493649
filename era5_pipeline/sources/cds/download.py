"""The answer's bytes onto disk: resumed where it was cut off, and checked against size and checksum (`checksums`).

By itself, not by the client's download (multiurl): that deletes the file first, goes on appending where a server
ignores `Range` and sends all from the start, and compares no checksum. Not here: what is in the file (`soundness`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import requests

from era5_pipeline.model.errors import LocalDiskError, disk_errors
from era5_pipeline.runtime import progress
from era5_pipeline.sources.cds.answers import FAILURES, WRONG_ADDRESS, PassingError, how, judged, retry_after
from era5_pipeline.sources.cds.checksums import announced_number, digests, has_checksum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.sources.cds.service import Asset

_TIMEOUT_SECONDS = (30.0, 120.0)
# What is on its way when a connection is cut is lost.
_RECEIVED_BYTES = 1 << 16
_GONE = (400, 401, 403, 404, 410)
_PARTIAL, _NOT_SATISFIABLE = 206, 416


@dataclass(frozen=True)
class Arrived:
    """A whole file: its SHA-256 in hex, and whether it has the checksum that was announced (None: none was)."""

    sha256: str
    has_checksum: bool | None


class WrongChecksumError(PassingError):
    """The file came whole, by its size; `sha256` is its digest."""

    def __init__(self, sha256: str) -> None:
        super().__init__("the file that came has another checksum than announced", kind="checksum", most=FAILURES)
        self.sha256 = sha256


def transfer(month: Month, asset: Asset, part: Path, *, verify: bool, came_before: frozenset[str]) -> Arrived:
    """Make `part` the whole answer, going on from what it holds.

    A file that comes again with the same bytes is taken for what it is, though another checksum was announced:
    `came_before` are the SHA-256 of those that were refused for that. What the service announces depends on how its
    store was written to, and need not be what `checksums` knows.

    Raises:
        PassingError: if it was cut off (`part` keeps what came), or is not there or not what was announced.
        SourceError: if the certificate of its server cannot be verified.
        LocalDiskError: if there is no room.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    held = part.stat().st_size if part.exists() else 0
    if held > asset.bytes:
        part.unlink()
        held = 0
    _require_room(month, asset.bytes - held, part)
    if held < asset.bytes or not asset.bytes:
        _receive(month, asset, part, held, verify=verify)
    size = part.stat().st_size
    if size != asset.bytes:
        # It came to its end: what was announced of it is wrong, or it is another file.
        part.unlink()
        raise PassingError(f"{size:,} bytes came, {asset.bytes:,} were announced", kind="size", most=FAILURES)
    return _checked(asset, part, came_before)


def _require_room(month: Month, needed: int, part: Path) -> None:
    free = shutil.disk_usage(part.parent).free
    if free < needed:
        raise LocalDiskError(
            f"{month}: the download takes {needed:,} bytes more, and {free:,} are free in {part.parent}",
            remedy="Free space there, or set ERA5_HOME to a folder on a larger disk; then run the month again.",
        )


def _receive(month: Month, asset: Asset, part: Path, held: int, *, verify: bool) -> None:
    # Without the user's key, which is for the service, not for where it keeps its files.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={held}-"} if held else {})
    try:
        with requests.get(asset.url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS, verify=verify) as response:
            held = _begin(response, part, held)
            with disk_errors(f"{month}: downloading", part), part.open("ab") as file:
                for chunk in _chunks(response):
                    file.write(chunk)
                    held += len(chunk)
                    progress.report("raw", min(held, asset.bytes), asset.bytes, "bytes")
                    if held > asset.bytes:
                        return
    # Not chained: they quote the address, which has a signature in it, and Dagster keeps what is chained.
    except requests.exceptions.SSLError as error:
        raise judged(month, error) from None
    except (*WRONG_ADDRESS, ValueError) as error:
        reason = f"the address of the results cannot be meant ({type(error).__name__})"
        raise PassingError(reason, kind="address", anew=True, most=FAILURES) from None
    except requests.exceptions.RequestException as error:
        raise PassingError(f"the download was cut off ({how(error)})", kind="connection") from None


def _chunks(response: requests.Response) -> Iterator[bytes]:
    chunks: Iterator[bytes] = response.iter_content(_RECEIVED_BYTES)
    return chunks


def _begin(response: requests.Response, part: Path, held: int) -> int:
    """Where in the file the answer begins; what is held beyond that is dropped."""
    status = response.status_code
    if status == _PARTIAL and response.headers.get("content-range", "").startswith(f"bytes {held}-"):
        return held
    if status in (200, _PARTIAL, _NOT_SATISFIABLE) and part.exists():
        # It does not resume, or from elsewhere: from the start, then.
        part.unlink()
    if status == 200:
        return 0
    if status in (_PARTIAL, _NOT_SATISFIABLE):
        raise PassingError("the download could not be resumed", kind="range", after_seconds=0.0, most=FAILURES)
    if status in _GONE:
        raise PassingError(f"the file of the results has gone (status {status})", kind="gone", anew=True, most=FAILURES)
    raise PassingError(f"status {status} for the download", kind="status", after_seconds=retry_after(response))


def _checked(asset: Asset, part: Path, came_before: frozenset[str]) -> Arrived:
    md5, sha256 = digests(part)
    announced = announced_number(asset.checksum)
    if announced is None:
        return Arrived(sha256, None)
    if has_checksum(part, announced, md5=md5):
        return Arrived(sha256, has_checksum=True)
    if sha256 in came_before:
        return Arrived(sha256, has_checksum=False)
    part.unlink()
    raise WrongChecksumError(sha256)
