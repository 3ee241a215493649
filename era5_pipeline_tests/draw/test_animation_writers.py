"""Tests of `draw/animation_writers`."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from era5_pipeline.draw.animation_writers import GifFile, Mp4File
from era5_pipeline.model.errors import LocalDiskError, RefusedError
from era5_pipeline_tests.era5_files import full_disk

if TYPE_CHECKING:
    from pathlib import Path

PALETTE = np.random.default_rng(0).permutation(256 * 3).astype(np.uint8).reshape(256, 3)


def written(path: Path, frames: np.ndarray, fps: int = 12) -> None:
    with closing(GifFile(path, PALETTE, fps, frames[0].shape)) as gif:
        for frame in frames:
            gif.add(frame)
        gif.finish()
        assert gif.bytes_written == path.stat().st_size


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


of_mp4 = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not on the PATH")

MP4_PALETTE = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
SHAPE = (51, 101)


@of_mp4
def test_frames_come_back_in_order_with_even_sizes(tmp_path: Path) -> None:
    film = Mp4File(tmp_path / "a.mp4", MP4_PALETTE, 10, SHAPE)
    greys = [0, 60, 120, 180, 240]
    for grey in greys:
        film.add(np.full(SHAPE, grey, dtype=np.uint8))
    assert film.bytes_written is None
    film.finish()
    film.close()
    command = ["ffmpeg", "-loglevel", "error", "-i", str(tmp_path / "a.mp4"), "-f", "rawvideo", "-pix_fmt", "gray", "-"]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    frames = np.frombuffer(raw, dtype=np.uint8).reshape(5, 52, 102)
    assert np.abs(frames.mean(axis=(1, 2)) - greys).max() < 6
    asked = ["ffprobe", "-v", "error", "-show_entries", "stream=r_frame_rate,pix_fmt,codec_name", "-of", "csv=p=0"]
    said = subprocess.run([*asked, tmp_path / "a.mp4"], check=True, capture_output=True, text=True).stdout
    assert said.strip() == "h264,yuv420p,10/1"


def fill(film: Mp4File, frames: int) -> None:
    noise = np.random.default_rng(0)
    try:
        for _ in range(frames):
            film.add(noise.integers(0, 256, (400, 400)).astype(np.uint8))
        film.finish()
    finally:
        film.close()


@of_mp4
def test_a_folder_that_is_not_there_is_said_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"writing a\.mp4: ffmpeg failed: .*No such file"):
        fill(Mp4File(tmp_path / "none" / "a.mp4", MP4_PALETTE, 10, (400, 400)), 100)


@of_mp4
def test_a_full_disk_is_one() -> None:
    with full_disk(200_000) as folder, pytest.raises(LocalDiskError, match=r"a\.mp4: No space left"):
        fill(Mp4File(folder / "a.mp4", MP4_PALETTE, 10, (400, 400)), 60)


@of_mp4
def test_the_program_ends_where_the_film_is_given_up(tmp_path: Path) -> None:
    film = Mp4File(tmp_path / "a.mp4", MP4_PALETTE, 10, SHAPE)
    film.add(np.zeros(SHAPE, dtype=np.uint8))
    program = film._program
    assert program.poll() is None
    film.close()
    assert program.poll() is not None
