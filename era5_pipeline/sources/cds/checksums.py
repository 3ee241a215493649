"""Verification of a file by the checksum that the service announces for it.

The checksum is the ETag of the service's object store as a number in hex: the MD5 of a file that was stored in one
piece, and for a larger one the MD5 of the MD5s of its parts. Leading zeros are lost, and so is the number of parts.
Source: cacholote (`file:checksum`) and s3fs (`checksum`; `put`, which stores files of 100 MiB and more in parts of
50 MiB).

Not here: downloading the file again if its checksum is wrong (`download`).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MIB = 1 << 20
# The part size of s3fs comes first; the others are those of other programs.
PART_BYTES = (50 * _MIB, 5 * _MIB, 8 * _MIB, 16 * _MIB, 64 * _MIB, 100 * _MIB, 128 * _MIB)
_READ_BYTES = _MIB
# An MD5 has 32 digits; fewer than one in a million begins with more than five zeros.
_NUMBER = re.compile(r"[0-9a-f]{26,32}")


def announced_number(text: str | None) -> int | None:
    """The checksum as a number; None: none was announced, or it is of an unknown kind."""
    lowered = (text or "").strip().strip('"').lower().partition("-")[0]
    return int(lowered, 16) if _NUMBER.fullmatch(lowered) else None


def has_checksum(path: Path, announced: int, *, md5: str) -> bool:
    """Whether the file has the announced checksum: as its MD5, or as that of its parts, which are read again."""
    if int(md5, 16) == announced:
        return True
    size = path.stat().st_size
    return any(part < size and _etag(path, part) == announced for part in PART_BYTES)


def digests(path: Path) -> tuple[str, str]:
    """The file's MD5 and its SHA-256, in hex."""
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
