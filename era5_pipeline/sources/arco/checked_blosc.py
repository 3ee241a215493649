"""Blosc that notices a chunk which came short: its own decoder reads on, beyond the end.

What it finds there is what the memory held before: values of another hour, or the end of the process. A chunk says in
its header how long it is (source: the format of Blosc 1, `cbytes`). Of bytes that are others on their way it knows
nothing; the network has its own checksums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcodecs import Blosc, register_codec

if TYPE_CHECKING:
    from typing_extensions import Buffer

_HEADER_BYTES = 16
_LENGTH = slice(12, 16)


class WholeBlosc(Blosc):  # type: ignore[misc]  # numcodecs has no types
    """Blosc, of whole chunks only."""

    codec_id = "blosc"

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        """Decode a chunk.

        Raises:
            RuntimeError: if it is not as long as it says, or damaged.
        """
        held = memoryview(buf).cast("B")
        if held.nbytes < _HEADER_BYTES or int.from_bytes(held[_LENGTH], "little") != held.nbytes:
            raise RuntimeError(f"a chunk of {held.nbytes} bytes is not whole")
        decoded: Buffer = super().decode(buf, out)
        return decoded


def use_whole_blosc() -> None:
    """From now on in this process, chunks of Zarr's format 2 are decoded so."""
    register_codec(WholeBlosc)
