"""The answer's bytes onto disk: resumed where it was cut off, and checked against size and checksum.

By itself, not by the client's download (multiurl): that deletes the file first, goes on appending where a server
ignores `Range` and sends all from the start, and compares no checksum. Not here: what is in the file (`soundness`).
"""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import requests

from era5_pipeline import progress
from era5_pipeline.errors import LocalDiskError, disk_errors
from era5_pipeline.sources.cds.trouble import FAILURES, PassingError, how, retry_after

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.months import Month
    from era5_pipeline.sources.cds.service import Asset

_TIMEOUT_SECONDS = (30.0, 120.0)
# What is on its way when a connection is cut is lost.
_RECEIVED_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
_GONE = (400, 401, 403, 404, 410)
_PARTIAL, _NOT_SATISFIABLE = 206, 416


def transfer(month: Month, asset: Asset, part: Path, *, verify: bool) -> str:
    """Make `part` the whole answer, going on from what it holds; gives its SHA-256.

    Raises:
        PassingError: if it was cut off (`part` keeps what came), or is not there or not what was announced.
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
    return _checked(asset, part)


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
    except requests.exceptions.SSLError:
        raise  # it stays
    except requests.exceptions.RequestException as error:
        raise PassingError(f"the download was cut off ({how(error)})", kind="connection") from error


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


def _checked(asset: Asset, part: Path) -> str:
    """The file's SHA-256, if its MD5 is the one announced."""
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with part.open("rb") as file:
        while block := file.read(_CHUNK_BYTES):
            md5.update(block)
            sha256.update(block)
    if asset.md5 is not None and md5.hexdigest() != asset.md5.lower():
        part.unlink()
        raise PassingError("the file that came has another checksum than announced", kind="checksum", most=FAILURES)
    return sha256.hexdigest()
