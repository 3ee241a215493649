"""Save an object's bytes as a local file, with their digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

_BLOCK_BYTES = 8 << 20


class ReadableStream(Protocol):
    """What has bytes to read: a file, or a stream of pyarrow."""

    def read(self, size: int, /) -> bytes:
        """Read up to `size` bytes; none at the end."""
        ...


def save_stream(stream: ReadableStream, path: Path, *, reading: Callable[[], AbstractContextManager[object]]) -> str:
    """Write the rest of the stream to `path`; return the SHA-256 of what was written, in hex.

    `reading` makes a context for each read, in which errors are those of the store; errors of `path` are the caller's.
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
