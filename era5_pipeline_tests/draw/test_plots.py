"""`draw`: maps, previews and series."""

from __future__ import annotations

import io
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib import dates
from matplotlib.collections import LineCollection
from PIL import Image

from era5_pipeline.draw.figures import latitude_label, longitude_label, save_figure
from era5_pipeline.draw.maps import draw_map, preview_map
from era5_pipeline.draw.series import series_figure
from era5_pipeline.maps.styles import TEXT_OF_PREVIEW, TITLE_OF_PREVIEW
from era5_pipeline.model import grid
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_VARIABLES, Variable
from era5_pipeline.read.fields import Series
from era5_pipeline_tests.draw.pixels import legend_of, picture_of, pixel_at, texts_of
from era5_pipeline_tests.draw.variables_of_each_kind import TEMPERATURE, default_series, usual_field

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOHA = grid.ERA5_GRID.nearest_location(25.25, 51.5)
PRECIPITATION = BY_COLUMN["total_precipitation"]
GREY_SEA, GREY_LAND = (228, 228, 228), (203, 201, 196)


def tick_labels(axes: Axes, which: str) -> list[str]:
    """The labels of the ticks within the limits of the axes."""
    axes.figure.canvas.draw()
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    axis: Any = axes.xaxis if which == "x" else axes.yaxis
    ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
    return [label.get_text() for place, label in ticks if low <= place <= high]


def degree_labels(axes: Axes, which: str) -> list[str]:
    """The labels of meridians or parallels below and left of a map."""
    return [text.get_text() for text in axes.texts if (text.get_horizontalalignment() == "right") == (which == "y")]


def colours_in(png: bytes) -> int:
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    return len(picture.getcolors(maxcolors=picture.width * picture.height) or [])


def ink_of(figure: Figure, axes: Axes) -> int:
    """The number of coloured pixels in the axes: grid, text and gaps are grey."""
    picture = picture_of(figure)
    box, height = axes.get_window_extent(), picture.shape[0]
    inside = picture[int(height - box.y1) - 3 : int(height - box.y0) + 3, int(box.x0) - 3 : int(box.x1) + 3]
    return int((np.ptp(inside.astype(int), axis=2) > 40).sum())


def number_of(time: np.datetime64) -> float:
    """A time as matplotlib's axes count it."""
    return float(dates.date2num(time))  # type: ignore[no-untyped-call]


def is_grey(pixel: tuple[int, ...]) -> bool:
    """Whether it is the colour of a gap, or of a grid line on it."""
    return max(pixel) - min(pixel) < 4 and 160 < pixel[0] < 235


def test_map_names_variable_time_and_credit() -> None:
    figure = draw_map(usual_field("-5/105/-8/109"), credit="a credit line").figure
    assert texts_of(figure) == ["2 m temperature", "Tue 04 Dec 2018, 04:00 UTC", "a credit line"]
    axes, bar, _ = figure.axes
    assert degree_labels(axes, "x") == [f"{degrees:g}°E" for degrees in np.arange(105.0, 109.1, 0.5)]
    assert degree_labels(axes, "y") == ["8°S", "7.5°S", "7°S", "6.5°S", "6°S", "5.5°S", "5°S"]
    assert bar.get_xlabel() == "°C"
    assert any(isinstance(collection, LineCollection) for collection in axes.collections)


def test_map_shows_time_in_utc() -> None:
    shown = usual_field("-5/105/-8/109", time=datetime.fromisoformat("2018-12-04T11:00+07:00"))
    assert "Tue 04 Dec 2018, 04:00 UTC" in texts_of(draw_map(shown).figure)


def test_cells_are_centred_on_grid_points() -> None:
    figure = draw_map(usual_field("-5/105/-8/109")).figure
    axes = figure.axes[0]
    assert (*axes.get_xlim(), *axes.get_ylim()) == (104.875, 109.125, -8.125, -4.875)
    assert tuple(axes.images[0].get_extent()) == (104.875, 109.125, -8.125, -4.875)


def test_map_has_true_proportions_at_its_middle_latitude() -> None:
    axes = draw_map(usual_field("61/-11/49/3")).figure.axes[0]
    box = axes.get_window_extent()
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    stretch = (box.height / (north - south)) / (box.width / (east - west))
    assert stretch == pytest.approx(1 / np.cos(np.deg2rad(55.0)), rel=1e-3)


def test_global_map_fills_the_frame_from_180_west_to_180_east() -> None:
    figure = draw_map(usual_field("global"), projection="plate-carree").figure
    axes = figure.axes[0]
    assert axes.get_xlim() == (-180.0, 180.0)
    assert axes.get_ylim() == (-90.0, 90.0)
    labels = degree_labels(axes, "x")
    assert (labels[0], labels[-1]) == ("150°W", "150°E")
    assert {"90°W", "0°", "90°E"} <= set(labels)
    # Both borders show the column at the antimeridian.
    shown = np.asarray(axes.images[0].get_array())
    np.testing.assert_array_equal(shown[:, 0], shown[:, -1])
    left, right = (pixel_at(axes, longitude, -40.0) for longitude in (-179.0, 179.0))
    assert np.abs(np.subtract(left, right)).max() < 12


def test_map_across_the_antimeridian_has_west_on_the_left() -> None:
    shown = usual_field("-10/170/-25/-170", BY_COLUMN["zonal_wind_10m"])
    # A mark in the southwest, at 170 E.
    shown.values[:4, :4] = 50.0
    figure = draw_map(shown).figure
    axes = figure.axes[0]
    assert axes.get_xlim() == (169.875, 190.125)
    labels = degree_labels(axes, "x")
    assert labels[0] == "170°E"
    assert labels[-1] == "170°W"
    assert "180°" in labels
    mark, elsewhere = pixel_at(axes, 170.1, -24.9), pixel_at(axes, 189.9, -10.1)
    assert mark[0] > mark[2] + 50  # orange: eastward
    assert elsewhere[0] <= elsewhere[2] + 50


def test_single_point_is_drawn_with_surroundings() -> None:
    figure = draw_map(usual_field("-6.25/106.75/-6.25/106.75")).figure
    axes = figure.axes[0]
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    assert east - west >= 2.0
    assert north - south == pytest.approx(2.0)
    assert (west + east) / 2 == pytest.approx(106.75)
    assert pixel_at(axes, 106.80, -6.20) != pixel_at(axes, 106.30, -6.80) == GREY_LAND
    assert pixel_at(axes, 106.30, -5.45) == GREY_SEA


@pytest.mark.parametrize("area", ["90/-180/85/180", "-89/0/-90/1", "-6.25/90/-6.25/140", "60/10/-60/10.5", "90/0/90/0"])
def test_extreme_areas_give_maps_of_limited_size_and_shape(area: str) -> None:
    figures = [draw_map(usual_field(area)).figure, draw_map(usual_field(area), projection="plate-carree").figure]
    for figure in figures:
        width, height = figure.get_size_inches()
        assert 5.0 <= width <= 11.0
        assert 4.0 <= height <= 9.0
    (west, east), (south, north) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert east - west <= 360.0
    assert -90.0 <= south < north <= 90.0


def test_missing_values_are_grey_and_said_below_the_map() -> None:
    shown = usual_field("-5/105/-8/109")
    shown.values[:6] = np.nan
    figure = draw_map(
        shown, credit="a credit line", notes=["Grey: no data; no temperature_2m at 102 of 221 places"]
    ).figure
    assert pixel_at(figure.axes[0], 105.3, -7.7) == GREY_SEA
    assert pixel_at(figure.axes[0], 105.3, -5.3) != GREY_SEA
    assert "Grey: no data; no temperature_2m at 102 of 221 places" in texts_of(figure)


def test_borders_are_thin_lines_over_the_cells() -> None:
    # Within Africa, whose interior has no coast: Egypt and Sudan at 22 N.
    shown = usual_field("24/26/20.5/29")
    shown.values[:] = 20.0
    figure = draw_map(shown).figure
    picture = picture_of(figure).astype(int).sum(axis=2)
    across, up = figure.axes[0].transData.transform((27.37, 22.0))
    row = picture.shape[0] - int(up)
    column = picture[row - 6 : row + 7, int(across)]
    assert column.min() < np.median(column) - 60
    assert (column < np.median(column) - 60).sum() <= 3


def test_a_map_without_a_value_is_an_error_and_its_preview_says_so() -> None:
    shown = usual_field("-5/105/-8/109")
    shown.values[:] = np.nan
    with pytest.raises(
        NoDataError, match=r"temperature_2m has no value anywhere.*Tue 04 Dec 2018, 04:00 UTC.*\nChoose"
    ):
        draw_map(shown)
    assert preview_map(shown)


@pytest.mark.parametrize("area", ["global", "-5/105/-8/109", "-10/170/-25/-170", "0/0/0/0", "61/-11/49/3"])
@pytest.mark.parametrize("column", ["temperature_2m", "total_precipitation", "total_cloud_cover"])
def test_preview_is_under_40_kb(area: str, column: str) -> None:
    shown = usual_field(area, BY_COLUMN[column])
    if column == "total_cloud_cover":  # noise
        shown.values[:] = np.random.default_rng(0).random(shown.values.shape)
    png = preview_map(shown)
    assert len(png) < 40_000
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.format == "PNG"
        assert picture.width == 360
        assert 150 < picture.height <= 350
    assert colours_in(png) > 10


@pytest.mark.parametrize(
    ("column", "values", "title", "words"),
    [
        ("temperature_2m", (-3.14159, 29.3949), "2 m temperature", "\u22123.14 to 29.4 °C"),
        ("total_precipitation", (0, 12.3456), "Precipitation", "0 to 12.3 mm in the hour before"),
        ("surface_pressure", (512.345, 1013.25), "Surface pressure", "512 to 1013 hPa"),
        ("dewpoint_2m", (-1e-8, 12.0), "2 m dew point", "0 to 12 °C"),
        ("dewpoint_2m", (np.nan, np.nan), "2 m dew point", "no values"),
    ],
)
def test_a_preview_says_in_words_what_it_shows(
    column: str, values: tuple[float, float], title: str, words: str
) -> None:
    shown = usual_field("60/-20/30/40", BY_COLUMN[column])
    shown.values[:] = values[0]
    shown.values[0, 0] = values[1]
    png = preview_map(shown)
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.info[TEXT_OF_PREVIEW] == f"{title}, Tue 04 Dec 2018, 04:00 UTC: {words}"
        height = int(picture.info[TITLE_OF_PREVIEW])
        # Two lines of dark letters above the map, and nothing of them on its edge.
        ink = np.asarray((np.asarray(picture.convert("L"))[:height] < 140).any(axis=1))
    assert np.count_nonzero(np.diff(ink.astype(int)) == 1) >= 2
    assert not ink[-3:].any()


def test_short_series_is_drawn_by_the_hour(tmp_path: Path) -> None:
    figure = series_figure(default_series(48), (TEMPERATURE,), DOHA, credit="a credit line")
    assert texts_of(figure) == [
        "2 m temperature at 25.25°N 51.5°E",
        "01 Jan 2023, 00:00 to 02 Jan 2023, 23:00 UTC",
        "a credit line",
    ]
    (axes,) = figure.axes
    assert axes.get_ylabel() == "Temperature (°C)"
    assert axes.get_xlabel() == "Time (UTC)"
    assert "12:00" in tick_labels(axes, "x")
    assert legend_of(axes) == []
    assert max(np.size(line.get_xdata()) for line in axes.lines) == 48
    save_figure(series_figure(default_series(48), (TEMPERATURE,), DOHA), tmp_path / "series.png")
    with Image.open(tmp_path / "series.png") as picture:
        assert picture.size == (1600, 768)
    assert colours_in((tmp_path / "series.png").read_bytes()) > 20


@pytest.mark.parametrize(
    ("days", "labels"),
    [
        (11, ["hourly", "daily mean"]),
        (365, ["hourly", "daily mean"]),
        (5 * 365, ["daily mean", "monthly mean"]),
        (40 * 365, ["monthly mean", "yearly mean"]),
    ],
)
def test_longer_series_has_means(days: int, labels: list[str]) -> None:
    (axes,) = series_figure(default_series(days * 24), (TEMPERATURE,), DOHA).axes
    assert legend_of(axes) == labels


@pytest.mark.parametrize("step", [1, 6])
def test_daily_mean_covers_the_utc_day(step: int) -> None:
    shown = default_series(20 * 24, step=step)
    (axes,) = series_figure(shown, (TEMPERATURE,), DOHA).axes
    (line,) = (line for line in axes.lines if line.get_label() == "daily mean")
    expected = shown.values["temperature_2m"].reshape(20, 24 // step).mean(axis=1)
    np.testing.assert_allclose(np.asarray(line.get_ydata()), expected, rtol=1e-6)
    assert step == 6 or np.asarray(line.get_xdata())[0] == np.datetime64("2023-01-01T12")


def test_no_line_crosses_a_gap_and_it_is_a_grey_band() -> None:
    # Day 6 lacks 12 of its hours, so it has no mean either.
    figure = series_figure(default_series(20 * 24, missing=slice(120, 132)), (TEMPERATURE,), DOHA)
    (axes,) = figure.axes
    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.lines}
    assert np.flatnonzero(np.isnan(lines["hourly"])).tolist() == [120]
    assert np.flatnonzero(np.isnan(lines["daily mean"])).tolist() == [5]
    assert legend_of(axes) == ["hourly", "daily mean", "no data"]
    picture, box = picture_of(figure), axes.get_window_extent()
    gap, before = (
        picture[
            int(picture.shape[0] - box.y1) + 4 : int(picture.shape[0] - box.y0) - 4,
            int(axes.transData.transform((number_of(np.datetime64(f"2023-01-{time}")), 0.0))[0]),
        ].astype(int)
        for time in ("06T05:30", "04T12:00")
    )
    assert (np.ptp(gap, axis=1) < 4).all()
    assert (gap[:, 0] < 235).all()
    assert (np.ptp(before, axis=1) > 40).any()


def test_a_gap_of_an_hour_in_three_years_can_be_seen() -> None:
    figure = series_figure(default_series(3 * 8760, missing=slice(10_000, 10_001)), (TEMPERATURE,), DOHA)
    (axes,) = figure.axes
    gap = number_of(np.datetime64("2023-01-01") + np.timedelta64(10_000, "h"))
    assert is_grey(pixel_at(axes, gap, axes.get_ylim()[1] - 0.2))


@pytest.mark.parametrize(
    ("variable", "days"),
    [
        *((TEMPERATURE, days) for days in (5, 90, 730, 5 * 365, 40 * 365)),
        # Once for each pair of means that a length has.
        *((PRECIPITATION, days) for days in (5, 90, 5 * 365, 31 * 366)),
    ],
    ids=lambda value: value.column if isinstance(value, Variable) else str(value),
)
def test_six_hourly_values_are_drawn_at_their_own_step(days: int, variable: Variable) -> None:
    figure = series_figure(default_series(days * 24, step=6), (variable,), DOHA)
    assert texts_of(figure)[1].endswith(", every 6 hours")
    (axes,) = figure.axes
    assert ink_of(figure, axes) > 400
    if variable is PRECIPITATION:
        assert axes.get_ylabel() == "Precipitation (mm in the hour before)"
    assert "no data" not in [str(line.get_label()) for line in axes.collections]


def test_a_six_hourly_series_that_lacks_days_has_a_band_there() -> None:
    shown = default_series(30 * 24, step=6)
    kept = (shown.times < np.datetime64("2023-01-10")) | (shown.times >= np.datetime64("2023-01-15"))
    figure = series_figure(
        Series(shown.times[kept], {name: values[kept] for name, values in shown.values.items()}), (TEMPERATURE,), DOHA
    )
    (axes,) = figure.axes
    middle = sum(axes.get_ylim()) / 2
    assert is_grey(pixel_at(axes, number_of(np.datetime64("2023-01-12T12")), middle))
    assert not is_grey(pixel_at(axes, number_of(np.datetime64("2023-01-05T03:10")), axes.get_ylim()[1] - 0.1))


def test_irregular_hours_are_dots_joined_by_a_line() -> None:
    number = np.array([day * 24 + hour for day in range(6) for hour in (0, 6, 12, 18, 23)])
    times = np.datetime64("2025-05-23", "s") + number * np.timedelta64(3600, "s")
    shown = Series(times, {"zonal_wind_10m": np.sin(number).astype(np.float32)})
    figure = series_figure(shown, (BY_COLUMN["zonal_wind_10m"],), DOHA)
    assert texts_of(figure)[1].endswith("at irregular hours")
    dots, line, *_ = figure.axes[0].lines
    assert np.size(dots.get_xdata()) == 30
    assert not np.isnan(np.asarray(line.get_ydata())).any()
    assert ink_of(figure, figure.axes[0]) > 1000


@pytest.mark.parametrize("variable", [TEMPERATURE, PRECIPITATION], ids=lambda variable: variable.column)
@pytest.mark.parametrize("hours", [[0], [0, 1000], [0, 5000, 9000], [3, 40_000, 500_000], list(range(0, 24 * 40, 30))])
def test_a_few_scattered_hours_are_still_drawn(hours: list[int], variable: Variable) -> None:
    times = np.datetime64("1960-01-01", "s") + np.array(hours) * np.timedelta64(3600, "s")
    figure = series_figure(Series(times, {variable.column: np.full(len(hours), 7.0, "f4")}), (variable,), DOHA)
    assert ink_of(figure, figure.axes[0]) >= 4 * min(len(hours), 3)


def test_dry_days_are_drawn_too() -> None:
    shown = default_series(30 * 24)
    shown.values[PRECIPITATION.column][:] = 0.0
    figure = series_figure(shown, (PRECIPITATION,), DOHA)
    assert ink_of(figure, figure.axes[0]) > 1000


def test_a_complete_month_of_totals_has_no_grey_edge() -> None:
    # The amount of the first hour, 00:00, fell on the day before, of which there is no other hour.
    figure = series_figure(default_series(30 * 24), (PRECIPITATION,), DOHA)
    (axes,) = figure.axes
    assert not is_grey(pixel_at(axes, axes.get_xlim()[0] + 0.1, axes.get_ylim()[1] * 0.97))
    figure = series_figure(default_series(30 * 24, missing=slice(100, 140)), (PRECIPITATION,), DOHA)
    (axes,) = figure.axes
    gap = number_of(np.datetime64("2023-01-06T02"))
    assert is_grey(pixel_at(axes, gap, axes.get_ylim()[1] * 0.97))


def test_a_plot_without_a_value_is_an_error_with_what_to_do() -> None:
    shown = default_series(48)
    shown.values["temperature_2m"][:] = np.nan
    with pytest.raises(NoDataError, match=r"temperature_2m: no value to draw in 48 hours\nChoose another time"):
        series_figure(shown, (TEMPERATURE,), DOHA)


def test_long_notes_are_wrapped_and_shortened() -> None:
    figure = series_figure(default_series(48), (TEMPERATURE,), DOHA, notes=["no data at " + "2023-01-01T05, " * 90])
    notes = texts_of(figure)[2:-1]
    assert len(notes) == 4
    assert notes[0].startswith("and ")
    width = figure.get_window_extent().width
    figure.canvas.draw()
    assert all(text.get_window_extent().x1 < width for text in figure.texts)


def test_daily_precipitation_includes_the_following_midnight() -> None:
    times = np.datetime64("2023-01-01T01", "s") + np.arange(30 * 24) * np.timedelta64(3600, "s")
    amounts = np.zeros(len(times), dtype=np.float32)
    amounts[times == np.datetime64("2023-01-05T00")] = 3.0
    amounts[times == np.datetime64("2023-01-05T01")] = 4.0
    (axes,) = series_figure(Series(times, {PRECIPITATION.column: amounts}), (PRECIPITATION,), DOHA).axes
    assert axes.get_ylabel() == "Precipitation (mm per day)"
    heights: list[float] = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert len(heights) == 30
    assert heights[3:5] == pytest.approx([3.0, 4.0])


def test_several_variables_share_the_time_axis() -> None:
    shown = default_series(24 * 31)
    shown.values["snowfall"][:] = np.nan
    figure = series_figure(shown, DEFAULT_VARIABLES, DOHA)
    panels = sorted(figure.axes, key=lambda axes: -axes.get_position().y0)
    assert [axes.get_title("left") for axes in panels][:2] == ["2 m temperature", "10 m wind, eastward"]
    assert len({axes.get_xlim() for axes in panels}) == 1
    assert "no values" in [text.get_text() for text in panels[-1].texts]
    assert [bool(axes.get_xlabel()) for axes in panels] == [False] * 5 + [True]
    assert texts_of(figure)[0] == "Weather at 25.25°N 51.5°E"


def test_long_noisy_series_is_drawn_in_pieces() -> None:
    # Agg would fail on 20 years of hours in one piece. A few years are enough to check that the line is split.
    hours = 3 * 365 * 24
    shown = default_series(hours)
    shown.values["temperature_2m"][:] = np.random.default_rng(0).normal(size=hours)
    figure = series_figure(shown, (TEMPERATURE,), DOHA)
    hourly = [line for line in figure.axes[0].lines if np.size(line.get_xdata()) > 5000]
    assert len(hourly) == 2
    figure.savefig(io.BytesIO(), format="png")


def test_labels_of_degrees() -> None:
    east = {0.0: "0°", 51.25: "51.25°E", -106.5: "106.5°W", 180.0: "180°", -180.0: "180°", 190.0: "170°W", 360.0: "0°"}
    assert {degrees: longitude_label(degrees) for degrees in east} == east
    north = {0.0: "0°", 25.5: "25.5°N", -90.0: "90°S", 1e-9: "0°"}
    assert {degrees: latitude_label(degrees) for degrees in north} == north
