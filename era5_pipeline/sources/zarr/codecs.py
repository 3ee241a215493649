"""Blosc for complete chunks only, in Zarr formats 2 and 3: numcodecs' own reads beyond the end of a truncated one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import zarr
from numcodecs import Blosc, register_codec
from zarr.codecs import BloscCodec

if TYPE_CHECKING:
    from typing_extensions import Buffer

# There Blosc finds previous contents of the memory, such as values of another hour, or crashes. The header of a chunk
# states its length (source: the format of Blosc 1, `cbytes`). Bytes changed in transit are not detected here; the
# network has its own checksums.


_HEADER_BYTES = 16
_LENGTH = slice(12, 16)


class CheckedBlosc(Blosc):  # type: ignore[misc]  # numcodecs has no types
    """Blosc for complete chunks only."""

    codec_id = "blosc"

    def decode(self, buf: Buffer, out: Buffer | None = None) -> Buffer:
        """Decode a chunk."""
        held = memoryview(buf).cast("B")
        if held.nbytes < _HEADER_BYTES or int.from_bytes(held[_LENGTH], "little") != held.nbytes:
            raise RuntimeError(f"a chunk of {held.nbytes} bytes is truncated")
        decoded: Buffer = super().decode(buf, out)
        return decoded


class CheckedBloscCodec(BloscCodec):
    """Zarr format 3's Blosc, for complete chunks only: zarr's own calls numcodecs past its registry."""

    @cached_property
    def _blosc_codec(self) -> Blosc:
        settings = super()._blosc_codec.get_config()
        del settings["id"]
        return CheckedBlosc(**settings)


def use_checked_blosc() -> None:
    """Decode Blosc chunks of Zarr formats 2 and 3 with `CheckedBlosc` from now on in this process."""
    register_codec(CheckedBlosc)
    zarr.registry.register_codec("blosc", CheckedBloscCodec)
    zarr.config.set({"codecs.blosc": f"{CheckedBloscCodec.__module__}.{CheckedBloscCodec.__qualname__}"})
