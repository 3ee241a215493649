"""MP4 by the program ffmpeg: frames read back by it, failures, and its end with ours."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.errors import LocalDiskError, RefusedError
from era5_pipeline.query.animation.mp4_file import Mp4File
from era5_pipeline_tests.era5_files import full_disk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the program ffmpeg is not on the PATH")

PALETTE = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
SHAPE = (51, 101)


def test_frames_come_back_in_order_with_even_sizes(tmp_path: Path) -> None:
    film = Mp4File(tmp_path / "a.mp4", PALETTE, 10)
    greys = [0, 60, 120, 180, 240]
    for grey in greys:
        film.add(np.full(SHAPE, grey, dtype=np.uint8))
    assert film.bytes_written is None
    film.finish()
    film.stop()
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
        film.stop()


def test_a_folder_that_is_not_there_is_said_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"writing a\.mp4: ffmpeg failed: .*No such file"):
        fill(Mp4File(tmp_path / "none" / "a.mp4", PALETTE, 10), 100)


def test_a_full_disk_is_one() -> None:
    with full_disk(200_000) as folder, pytest.raises(LocalDiskError, match=r"a\.mp4: No space left"):
        fill(Mp4File(folder / "a.mp4", PALETTE, 10), 60)


def test_the_program_ends_where_the_film_is_given_up(tmp_path: Path) -> None:
    film = Mp4File(tmp_path / "a.mp4", PALETTE, 10)
    film.add(np.zeros(SHAPE, dtype=np.uint8))
    program = film._program
    assert program is not None
    assert program.poll() is None
    film.stop()
    assert program.poll() is not None
