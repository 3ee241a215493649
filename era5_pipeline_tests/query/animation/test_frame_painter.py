"""Frames are what matplotlib draws of the same hour, and pixels of cells have the colour of their value exactly."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from era5_pipeline.query.animation.frame_painter import FramePainter
from era5_pipeline.query.plots.map_plots import DrawnMap, draw_map
from era5_pipeline_tests.query.animation.frames_of_waves import EMPTY, frames_of_waves

AREAS = ["30/60/5/100", "-10/170/-25/-170", "global", "-5/105/-8/109"]


def drawn_by_matplotlib(drawn: DrawnMap) -> np.ndarray:
    file = io.BytesIO()
    drawn.figure.savefig(file, format="png")
    return np.asarray(Image.open(file).convert("RGB")).astype(int)


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("column", ["temperature_2m", "total_precipitation"])
def test_a_frame_looks_as_a_map_of_that_hour(area: str, column: str) -> None:
    frames = frames_of_waves(area, 6, column)
    options = {"credit": frames.credit, "colours_of": frames.scale_values, "dpi": 80.0}
    longest = replace(frames.field(0), when=frames.field(0).when + ": no data")
    painter = FramePainter(draw_map(longest, **options))  # type: ignore[arg-type]
    for number in (1, 5):
        field = frames.field(number)
        found = painter.palette[painter.paint(field.values, field.when)].astype(int)
        expected = drawn_by_matplotlib(draw_map(field, **options))  # type: ignore[arg-type]
        assert found.shape == expected.shape
        differs = np.abs(found - expected).max(axis=2)
        # Of 256 colours; and cells at half a pixel may be the neighbours.
        assert np.median(differs) <= 4
        assert (differs > 30).mean() < 0.01, number


def test_an_hour_without_values_is_the_map_without_cells() -> None:
    frames = frames_of_waves("30/60/5/100", 5)
    painter = FramePainter(draw_map(frames.field(0), colours_of=frames.scale_values, dpi=80))
    empty, full = (painter.palette[painter.paint(frames.values[number], "x")] for number in (EMPTY, 0))
    greys = (empty == (228, 228, 228)).all(axis=2).sum() + (empty == (203, 201, 196)).all(axis=2).sum()
    assert greys > 0.35 * empty.shape[0] * empty.shape[1]
    assert (full == (228, 228, 228)).all(axis=2).sum() < 0.05 * greys


def test_the_same_value_has_the_same_colour_in_every_frame() -> None:
    frames = frames_of_waves("30/60/5/100", 5)
    painter = FramePainter(draw_map(frames.field(0), colours_of=frames.scale_values, dpi=80))
    cold, warm = np.full_like(frames.values[0], -8.0), np.full_like(frames.values[0], 12.0)
    first = painter.paint(cold, "x")
    painter.paint(warm, "y")
    np.testing.assert_array_equal(painter.paint(cold, "x"), first)
    image = draw_map(frames.field(0), colours_of=frames.scale_values).image
    norm: Any = image.norm
    usual = np.bincount(first.ravel(), minlength=256)
    usual[int(first[0, 0])] = 0  # white
    expected = np.asarray(image.cmap(norm(-8.0), bytes=True))[:3].astype(int)
    assert np.abs(painter.palette[int(usual.argmax())].astype(int) - expected).max() <= 3


def test_a_line_that_is_too_long_is_the_time_alone() -> None:
    frames = frames_of_waves("-6/106/-7/107", 5)
    field = replace(frames.field(0), title="A variable whose name needs far more than the space below a title " * 3)
    painter = FramePainter(draw_map(field, colours_of=frames.scale_values, dpi=80, title="A month"))
    one, other = (painter.paint(frames.values[0], when) for when in ("Sat 01 Jul", "Mon 31 Jul"))
    assert (one != other).any(), "each frame shows its time"


def test_only_the_line_with_the_time_differs_between_hours_alike() -> None:
    frames = frames_of_waves("30/60/5/100", 5)
    longest = replace(frames.field(0), when=frames.field(0).when + ": no data")
    painter = FramePainter(draw_map(longest, colours_of=frames.scale_values, dpi=80, title="A month"))
    one, other, again = (
        painter.paint(frames.values[0], when) for when in ("Sat 01 Jul", "Mon 31 Jul 2023, 23:00 UTC: no data", "")
    )
    rows = np.flatnonzero((one != other).any(axis=1))
    assert 38 < rows.min() < rows.max() < 68  # below the title, above the map
    assert not (again != painter.paint(frames.values[0], "")).any()
