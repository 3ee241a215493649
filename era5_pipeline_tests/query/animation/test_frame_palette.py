"""Steps of colours, and the palette of all frames."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.animation.frame_palette import NO_LEVEL, ColourLevels, FramePalette
from era5_pipeline.query.plots.colour_scales import colour_scale

OTHERS = np.random.default_rng(0).integers(0, 256, (5000, 3)).astype(np.uint8)

RAIN = FramePalette.of(
    ColourLevels.of(*colour_scale(BY_COLUMN["total_precipitation"], np.array([0.0, 9.0], dtype=np.float32))), OTHERS
)


@given(
    column=st.sampled_from(["temperature_2m", "total_precipitation", "total_cloud_cover", "zonal_wind_10m"]),
    value=st.floats(-60, 120, width=32),
)
def test_a_value_has_nearly_the_colour_of_its_scale(column: str, value: float) -> None:
    colours, norm = colour_scale(BY_COLUMN[column], np.linspace(0, 40, 100).astype(np.float32))
    levels = ColourLevels.of(colours, norm)
    (level,) = levels.of_values(np.array([value], dtype=np.float32))
    expected = np.asarray(colours(norm(np.float32(value)), bytes=True))[:3].astype(int)
    # Steps of a smooth scale are 1/120 wide; where a scale has steps they are the same.
    most = 0 if column == "total_precipitation" else 6
    assert np.abs(levels.colours[level].astype(int) - expected).max() <= most


def test_nan_has_no_level() -> None:
    levels = ColourLevels.of(*colour_scale(BY_COLUMN["temperature_2m"], np.array([1.0, 9.0], dtype=np.float32)))
    found = levels.of_values(np.array([[np.nan, 5.0]], dtype=np.float32))
    assert found[0, 0] == NO_LEVEL
    assert found[0, 1] < len(levels.colours)


def test_colours_of_levels_white_and_greys_are_exact() -> None:
    levels = ColourLevels.of(*colour_scale(BY_COLUMN["temperature_2m"], np.array([-9.0, 9.0], dtype=np.float32)))
    palette = FramePalette.of(levels, OTHERS)
    assert palette.colours.shape == (256, 3)
    exact = np.concatenate([levels.colours, np.array([[255, 255, 255], [228, 228, 228], [203, 201, 196]], np.uint8)])
    np.testing.assert_array_equal(palette.colours[palette.nearest(exact)], exact)


@given(st.integers(0, 2**32 - 1))
def test_the_nearest_colour_is_the_nearest(seed: int) -> None:
    palette = RAIN
    asked = np.random.default_rng(seed).integers(0, 256, (20, 3)).astype(np.uint8)
    found = palette.colours[palette.nearest(asked)].astype(int)
    distances = ((palette.colours.astype(int)[None] - asked.astype(int)[:, None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(((found - asked) ** 2).sum(axis=1), distances.min(axis=1))
    nearly = palette.colours[palette.nearly_nearest(asked)].astype(int)
    # The middle of a cube is at most two of 256 away in each colour, and so is the nearest colour of it.
    off = np.sqrt(((nearly - asked) ** 2).sum(axis=1)) - np.sqrt(distances.min(axis=1))
    assert off.max() <= 2 * np.sqrt(12) + 1e-6
