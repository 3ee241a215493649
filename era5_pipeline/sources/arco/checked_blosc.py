"""A Blosc decoder that detects truncated chunks; numcodecs' own reads beyond the end of one.

There it finds earlier contents of the memory, such as values of another hour, or the process crashes. The header of a
chunk states its length (source: the format of Blosc 1, `cbytes`). Bytes changed in transit are not detected here; the
network has its own checksums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcodecs import Blosc, register_codec

if TYPE_CHECKING:
    from typing_extensions import Buffer

_HEADER_BYTES = 16
_LENGTH = slice(12, 16)


class CheckedBlosc(Blosc):  # type: ignore[misc]  # numcodecs has no types
    """Blosc for complete chunks only."""

    codec_id = "blosc"

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        """Decode a chunk.

        Raises:
            RuntimeError: if it is truncated or damaged.
        """
        held = memoryview(buf).cast("B")
        if held.nbytes < _HEADER_BYTES or int.from_bytes(held[_LENGTH], "little") != held.nbytes:
            raise RuntimeError(f"a chunk of {held.nbytes} bytes is truncated")
        decoded: Buffer = super().decode(buf, out)
        return decoded


def use_checked_blosc() -> None:
    """Decode chunks of Zarr format 2 with `CheckedBlosc`, from now on in this process."""
    register_codec(CheckedBlosc)
