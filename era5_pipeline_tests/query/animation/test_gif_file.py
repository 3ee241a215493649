"""GIFs read back: frames, durations, one palette, and only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from era5_pipeline.query.animation.gif_file import GifFile

if TYPE_CHECKING:
    from pathlib import Path

PALETTE = np.random.default_rng(0).permutation(256 * 3).astype(np.uint8).reshape(256, 3)


def written(path: Path, frames: np.ndarray, fps: int = 12) -> None:
    with path.open("wb") as file:
        gif = GifFile(file, PALETTE, fps)
        for frame in frames:
            gif.add(frame)
        gif.finish()
        assert gif.bytes_written == file.tell()


def read_back(path: Path) -> tuple[np.ndarray, list[int]]:
    frames, durations = [], []
    with Image.open(path) as picture:
        for number in range(getattr(picture, "n_frames", 1)):
            picture.seek(number)
            frames.append(np.asarray(picture.convert("RGB")))
            durations.append(picture.info["duration"])
    return np.array(frames), durations


@settings(max_examples=40)
@given(
    frames=arrays.arrays(
        np.uint8, st.tuples(st.integers(2, 5), st.integers(1, 20), st.integers(1, 20)), elements=st.integers(0, 255)
    )
)
def test_any_frames_come_back(frames: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any.gif"
    written(path, frames)
    found, _ = read_back(path)
    # Pillow counts frames that do not differ as frames, too.
    np.testing.assert_array_equal(found, PALETTE[frames])


@pytest.mark.parametrize(("fps", "milliseconds"), [(1, 1000), (10, 100), (12, 80), (25, 40), (50, 20)])
def test_frames_last_as_long_as_the_format_can_say_and_repeat(fps: int, milliseconds: int, tmp_path: Path) -> None:
    frames = np.arange(3 * 8 * 9).reshape(3, 8, 9).astype(np.uint8)
    written(tmp_path / "a.gif", frames, fps)
    _, durations = read_back(tmp_path / "a.gif")
    assert durations == [milliseconds] * 3
    with Image.open(tmp_path / "a.gif") as picture:
        assert picture.info["loop"] == 0


def test_what_does_not_change_is_not_written_again(tmp_path: Path) -> None:
    still = np.random.default_rng(1).integers(0, 256, (300, 400)).astype(np.uint8)
    moving = np.repeat(still[None], 10, axis=0)
    moving[np.arange(10), 50:60, 70] = np.arange(10)[:, None]
    written(tmp_path / "one.gif", still[None])
    written(tmp_path / "ten.gif", moving)
    one, ten = ((tmp_path / name).stat().st_size for name in ("one.gif", "ten.gif"))
    assert ten < one + 2000
