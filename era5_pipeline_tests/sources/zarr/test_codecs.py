"""Chunks of Zarr stores, decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec

from era5_pipeline.sources.zarr.codecs import use_checked_blosc

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.random.default_rng(3).integers(0, 50, 40_000).astype(np.float32)


@pytest.mark.parametrize("left", [0, 10, 0.5, -1])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_truncated_blosc_chunk_is_never_decoded(tmp_path: Path, zarr_format: Literal[2, 3], left: float) -> None:
    """Blosc itself reads beyond the end of the chunk, and zarr's codec of format 3 calls it past the registry."""
    compressor: Any = Blosc() if zarr_format == 2 else BloscCodec()
    options: Any = {"zarr_format": zarr_format, "compressors": compressor, "chunks": VALUES.shape}
    zarr.create_array(str(tmp_path / "store"), shape=VALUES.shape, dtype="f4", **options)[:] = VALUES
    use_checked_blosc()
    array: Any = zarr.open_array(str(tmp_path / "store"), mode="r", zarr_format=zarr_format)
    np.testing.assert_array_equal(array[:], VALUES)
    chunk = tmp_path / "store" / ("0" if zarr_format == 2 else "c/0")
    content = chunk.read_bytes()
    chunk.write_bytes(content[: int(left * len(content)) if isinstance(left, float) else left])
    with pytest.raises(RuntimeError, match="truncated"):
        array[:]
