"""Tests of `draw/animation`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from era5_pipeline.draw import animation
from era5_pipeline.draw.animation import (
    ColourLevels,
    FramePainter,
    HourFrames,
    MapLook,
    nearest,
    palette_of,
    read_hour_frames,
    write_animation,
)
from era5_pipeline.draw.colour_scales import colour_scale
from era5_pipeline.draw.maps import draw_map
from era5_pipeline.model.errors import LocalDiskError, NoDataError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hour_of
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.runtime.progress import listening
from era5_pipeline_tests.draw.frames_of_waves import EMPTY, frames_of_waves
from era5_pipeline_tests.draw.pixels import picture_of
from era5_pipeline_tests.era5_files import full_disk
from era5_pipeline_tests.real_months import NORWAY as NORWAY_MONTH
from era5_pipeline_tests.real_months import TELANGANA_WEEK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

NORWAY, TELANGANA = Month.parse("2018-10"), Month.parse("2023-09")


@pytest.fixture(scope="module")
def warehouse(real_table: Callable[..., Warehouse]) -> Warehouse:
    """A complete month in Norway, and a week of a month in India, on each layout."""
    return real_table(NORWAY_MONTH, TELANGANA_WEEK)


def read(
    warehouse: Warehouse,
    folder: Path,
    month: Month,
    column: str,
    *,
    area: str | None = None,
    every: int = 1,
    until: datetime | None = None,
) -> HourFrames:
    with warehouse.connect() as connection:
        return read_hour_frames(
            connection,
            warehouse,
            BY_COLUMN[column],
            month.start,
            until or month.end,
            Area.parse(area) if area else None,
            every,
            folder,
        )


def test_frames_are_the_hours_of_the_file(warehouse: Warehouse, era5_samples: Path, tmp_path: Path) -> None:
    with netCDF4.Dataset(era5_samples / "norway-2018-10-packed" / "SURF_201810.nc") as file:
        values = np.asarray(file["t2m"][:], dtype=np.float64) - 273.15
        latitudes, longitudes = np.asarray(file["latitude"][:]), np.asarray(file["longitude"][:])
    found = read(warehouse, tmp_path, NORWAY, "temperature_2m", area="72/0/50/15")
    assert len(found.hours) == 744
    assert found.hours[0] == hour_of(NORWAY.start)
    rows = [int(np.flatnonzero(found.window.latitudes[::-1] == latitude)[0]) for latitude in latitudes]
    columns = [int(np.flatnonzero(found.window.longitudes == longitude)[0]) for longitude in longitudes]
    np.testing.assert_allclose(found.values[:, rows][:, :, columns], values, atol=0.006)
    assert np.isfinite(found.values).sum() == values.size
    assert not found.is_empty.any()
    assert found.notes == ("no data at 5,359 of 5,429 grid points of 72/0/50/15",)
    assert found.scale_values.min() == found.values[np.isfinite(found.values)].min()
    assert found.scale_values.max() == found.values[np.isfinite(found.values)].max()
    assert found.field(100).when == "Fri 05 Oct 2018, 04:00 UTC"
    np.testing.assert_array_equal(found.field(100).values, found.values[100])


def test_every_third_hour_in_a_file_is_the_same_as_in_memory(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(warehouse, tmp_path, NORWAY, "temperature_2m", area="62/5/60/7.5")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(animation, "_MOST_VALUES", 9000)  # so that rows are read in turns, and kept in a file
    kept = read(warehouse, tmp_path, NORWAY, "temperature_2m", area="62/5/60/7.5", every=3)
    assert [path.name for path in tmp_path.iterdir()] == ["hours"]
    assert kept.hours == whole.hours[::3]
    np.testing.assert_array_equal(kept.values, whole.values[::3])


def test_a_disk_without_room_for_the_hours_is_an_error(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(animation, "_MOST_VALUES", 9000)
    match = r"keeping 0\.0 GB of hours: No space left"
    with full_disk(65_536) as folder, pytest.raises(LocalDiskError, match=match):
        read(warehouse, folder, NORWAY, "temperature_2m", area="62/5/60/7.5")


def test_hours_without_a_value_are_said(warehouse: Warehouse, tmp_path: Path) -> None:
    found = read(warehouse, tmp_path, TELANGANA, "total_precipitation")
    assert found.is_empty.sum() == 30 * 24 - 168
    assert not found.is_empty[:168].any()
    assert found.notes == ("no total_precipitation anywhere at 2023-09-08T00 to 2023-09-30T23",)
    some = read(warehouse, tmp_path, TELANGANA, "total_precipitation", every=6)
    assert some.notes == ("no total_precipitation anywhere at 2023-09-08T00 to 2023-09-30T18",)
    day = read(warehouse, tmp_path, TELANGANA, "total_precipitation", until=datetime(2023, 9, 2, tzinfo=UTC))
    assert len(day.hours) == 24
    assert not day.is_empty.any()
    assert day.notes == ()  # the month is incomplete, the day is not


def test_a_month_without_the_column_or_the_area_says_what_there_is(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match="2018-10"):
        read(warehouse, tmp_path, Month.parse("2018-11"), "temperature_2m")
    with pytest.raises(NoDataError, match="no location in 10/10/0/20; the nearest"):
        read(warehouse, tmp_path, NORWAY, "temperature_2m", area="10/10/0/20")


OTHERS = np.random.default_rng(0).integers(0, 256, (5000, 3)).astype(np.uint8)

RAIN = palette_of(
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


def test_colours_of_levels_white_and_greys_are_exact() -> None:
    levels = ColourLevels.of(*colour_scale(BY_COLUMN["temperature_2m"], np.array([-9.0, 9.0], dtype=np.float32)))
    palette = palette_of(levels, OTHERS)
    assert palette.shape == (256, 3)
    exact = np.concatenate([levels.colours, np.array([[255, 255, 255], [228, 228, 228], [203, 201, 196]], np.uint8)])
    np.testing.assert_array_equal(palette[nearest(palette, exact)], exact)


@given(st.integers(0, 2**32 - 1))
def test_the_nearest_colour_is_the_nearest(seed: int) -> None:
    asked = np.random.default_rng(seed).integers(0, 256, (20, 3)).astype(np.uint8)
    found = RAIN[nearest(RAIN, asked)].astype(int)
    distances = ((RAIN.astype(int)[None] - asked.astype(int)[:, None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(((found - asked) ** 2).sum(axis=1), distances.min(axis=1))


# Scales without steps, and one with steps.
@pytest.mark.parametrize(
    ("area", "column"),
    [
        ("30/60/5/100", "temperature_2m"),
        ("-10/170/-25/-170", "temperature_2m"),
        ("global", "temperature_2m"),
        ("-5/105/-8/109", "total_precipitation"),
    ],
)
def test_a_frame_looks_as_a_map_of_that_hour(area: str, column: str) -> None:
    frames = frames_of_waves(area, 6, column)
    options = {"credit": frames.credit, "colours_of": frames.scale_values, "dpi": 80.0}
    longest = replace(frames.field(0), when=frames.field(0).when + ": no data")
    painter = FramePainter(draw_map(longest, **options))  # type: ignore[arg-type]
    for number in (1, 5):
        field = frames.field(number)
        found = painter.palette[painter.paint(field.values, field.when)].astype(int)
        expected = picture_of(draw_map(field, **options).figure).astype(int)  # type: ignore[arg-type]
        assert found.shape == expected.shape
        differs = np.abs(found - expected).max(axis=2)
        # The palette has 256 colours, and cells at half a pixel may take a neighbour's colour.
        assert np.median(differs) <= 4
        assert (differs > 30).mean() < 0.01, number


@pytest.fixture(scope="module")
def frames() -> HourFrames:
    """Five hours in Asia."""
    return frames_of_waves("30/60/5/100", 5)


@pytest.fixture(scope="module")
def painter(frames: HourFrames) -> FramePainter:
    """A painter of them, with room for the longest line."""
    longest = replace(frames.field(0), when=frames.field(0).when + ": no data")
    return FramePainter(draw_map(longest, colours_of=frames.scale_values, dpi=80, title="A month"))


def test_an_hour_without_values_is_the_map_without_cells(frames: HourFrames, painter: FramePainter) -> None:
    empty, full = (painter.palette[painter.paint(frames.values[number], "x")] for number in (EMPTY, 0))
    greys = (empty == (228, 228, 228)).all(axis=2).sum() + (empty == (203, 201, 196)).all(axis=2).sum()
    assert greys > 0.35 * empty.shape[0] * empty.shape[1]
    assert (full == (228, 228, 228)).all(axis=2).sum() < 0.05 * greys


def test_the_same_value_has_the_same_colour_in_every_frame(frames: HourFrames, painter: FramePainter) -> None:
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


def test_only_the_line_with_the_time_differs_between_hours_alike(frames: HourFrames, painter: FramePainter) -> None:
    one, other, again = (
        painter.paint(frames.values[0], when) for when in ("Sat 01 Jul", "Mon 31 Jul 2023, 23:00 UTC: no data", "")
    )
    rows = np.flatnonzero((one != other).any(axis=1))
    assert 38 < rows.min() < rows.max() < 68  # below the title, above the map
    assert not (again != painter.paint(frames.values[0], "")).any()


def test_every_hour_is_a_frame_and_all_have_one_palette(tmp_path: Path) -> None:
    frames = frames_of_waves("30/60/5/100", 8)
    reports: list[tuple[str, int, int, str]] = []
    with listening(lambda *told: reports.append(told)):
        write_animation(frames, tmp_path / "a.gif", MapLook(fps=10))
    assert reports == [("draw", number + 1, 8, "frames") for number in range(8)]
    with Image.open(tmp_path / "a.gif") as picture:
        assert getattr(picture, "n_frames", 1) == 8
        palettes, pictures = set(), []
        for number in range(8):
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
    monkeypatch.setattr(animation, "MOST_BYTES", 300_000)
    frames = frames_of_waves("30/60/5/100", 40)
    reports = []
    with (
        listening(lambda *told: reports.append(told)),
        pytest.raises(UsageError, match=r"july\.gif: 40 frames take about \d+ MB; the limit .*\n.*--every, \d+ times"),
    ):
        write_animation(frames, tmp_path / "a.gif", MapLook(), shown_path=tmp_path / "july.gif")
    assert len(reports) == 12


def test_limits_are_those_of_all_frames(frames: HourFrames, tmp_path: Path) -> None:
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
