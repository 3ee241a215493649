"""Animations as files: frames, times, sizes that are refused."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from era5_pipeline.model.errors import UsageError
from era5_pipeline.query.animation import make_animation
from era5_pipeline.query.animation.make_animation import MapLook, write_animation
from era5_pipeline.runtime.progress import listening
from era5_pipeline_tests.query.animation.frames_of_waves import frames_of_waves

if TYPE_CHECKING:
    from pathlib import Path


def test_every_hour_is_a_frame_and_all_have_one_palette(tmp_path: Path) -> None:
    frames = frames_of_waves("30/60/5/100", 24)
    reports: list[tuple[str, int, int, str]] = []
    with listening(lambda *told: reports.append(told)):
        write_animation(frames, tmp_path / "a.gif", MapLook(fps=10))
    assert reports == [("draw", number + 1, 24, "frames") for number in range(24)]
    with Image.open(tmp_path / "a.gif") as picture:
        assert getattr(picture, "n_frames", 1) == 24
        palettes, pictures = set(), []
        for number in range(24):
            picture.seek(number)
            assert picture.info["duration"] == 100
            palettes.add(bytes(picture.getpalette() or []) if picture.mode == "P" else b"")
            pictures.append(np.asarray(picture.convert("RGB")).astype(int))
    raw = (tmp_path / "a.gif").read_bytes()
    assert raw[10] == 0b10000111 | (raw[10] & 0b01110000)  # 256 colours for all
    different = [np.abs(one - other).max() for one, other in pairwise(pictures)]
    assert min(different) > 20, "each hour differs from the one before"


def test_the_globe_is_animated_in_equal_earth(tmp_path: Path) -> None:
    frames = frames_of_waves("global", 4)
    write_animation(frames, tmp_path / "a.gif", MapLook(centre=150.0))
    with Image.open(tmp_path / "a.gif") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert 700 < pixels.shape[1] < 900
    # The corner of the map is outside of the outline.
    assert (pixels[80:90, 62:80] == 255).all()


def test_a_gif_that_would_be_too_large_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_animation, "MOST_BYTES", 300_000)
    frames = frames_of_waves("30/60/5/100", 40)
    reports = []
    with (
        listening(lambda *told: reports.append(told)),
        pytest.raises(UsageError, match=r"july\.gif: 40 frames take about \d+ MB; the limit .*\n.*--every, \d+ times"),
    ):
        write_animation(frames, tmp_path / "a.gif", MapLook(), shown_path=tmp_path / "july.gif")
    assert len(reports) == 12


def test_limits_are_those_of_all_frames(tmp_path: Path) -> None:
    frames = frames_of_waves("30/60/5/100", 5)
    with pytest.raises(UsageError, match="--vmin 99 leaves no range"):
        write_animation(frames, tmp_path / "a.gif", MapLook(limits=(99.0, None)))
    write_animation(frames, tmp_path / "narrow.gif", MapLook(limits=(0.0, 1.0)))
    write_animation(frames, tmp_path / "wide.gif", MapLook(limits=(-200.0, 200.0)))
    strength = {}
    for name in ("narrow", "wide"):
        with Image.open(tmp_path / f"{name}.gif") as picture:
            pixels = np.asarray(picture.convert("RGB")).astype(int)[150:350, 150:550]
        strength[name] = float(np.ptp(pixels, axis=2).mean())
    assert strength["narrow"] > 3 * strength["wide"]
