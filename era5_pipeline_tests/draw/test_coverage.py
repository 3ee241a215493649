"""`draw.coverage`: the months of the table as a picture."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from era5_pipeline.draw.coverage import COLOURS, coverage_figure
from era5_pipeline.draw.figures import save_figure
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.read.held import AreaCoverage, CoverageState
from era5_pipeline_tests.draw.pixels import texts_of

if TYPE_CHECKING:
    from pathlib import Path


def area_of(area: str, states: dict[str, dict[Month, CoverageState]]) -> AreaCoverage:
    return AreaCoverage(LocationSet.of_area(Area.parse(area)), states)


@cache
def large(
    *, variables: int = 20, areas: tuple[str, ...] = ("global", "60/-10/35/30", "20/77/15/82")
) -> list[AreaCoverage]:
    """85 years of each variable; in each of them the month after its number is missing, the next one incomplete."""
    months = list(month_range(Month(1940, 1), Month(2024, 12)))
    found = []
    for name in areas:
        states: dict[str, dict[Month, CoverageState]] = {}
        for number in range(variables):
            of_variable: dict[Month, CoverageState] = dict.fromkeys(months, "complete")
            del of_variable[months[500 + number]]
            of_variable[months[600 + number]] = "incomplete"
            states[f"variable_{number:02d}"] = of_variable
        found.append(area_of(name, states))
    return found


def pixels_of(path: Path, colour: str) -> int:
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    wanted = (np.array(to_rgb(colour)) * 255).round().astype(int)
    return int((np.abs(pixels.astype(int) - wanted).max(axis=2) <= 2).sum())


def test_every_state_has_its_colour(tmp_path: Path) -> None:
    states: dict[str, dict[Month, CoverageState]] = {
        "temperature_2m": {
            Month(2023, 1): "complete",
            Month(2023, 2): "incomplete",
            Month(2023, 4): "preliminary",
            Month(2023, 5): "incomplete and preliminary",
        }
    }
    save_figure(coverage_figure([area_of("26.5/50.5/24.5/52", states)], credit="a credit line"), tmp_path / "a.png")
    sizes = [pixels_of(tmp_path / "a.png", colour) for colour in COLOURS.values()]
    # One month each, besides the patch in the legend.
    assert min(sizes) > 3000
    assert max(sizes) < 1.3 * min(sizes)


def test_labels_legend_title_and_credit() -> None:
    figure = coverage_figure(large(), credit="a credit line")
    assert texts_of(figure) == [
        "Months in the table",
        "1940-01 to 2024-12: 1,020 months, 3 areas, 20 variables",
        "a credit line",
    ]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][-1] == "not loaded"
    assert next(axes.get_title("left") for axes in figure.axes) == "global, 1,038,240 places"
    first, *_, last = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == [f"variable_{n:02d}" for n in range(20)]
    assert [text.get_text() for text in first.texts] == ["1,018 of 1,020"] * 20
    assert [label.get_text() for label in last.get_xticklabels()][:2] == ["1940", "1950"]


def test_single_months_of_85_years_and_20_variables_can_be_seen(tmp_path: Path) -> None:
    save_figure(coverage_figure(large()), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width < 3000
        assert picture.height < 3000
    # 60 incomplete months of at least 2 x 25 pixels.
    assert pixels_of(tmp_path / "a.png", COLOURS["incomplete"]) > 60 * 50


def test_nothing_is_drawn_over_each_other() -> None:
    figure = coverage_figure(large())
    figure.canvas.draw()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    for upper, lower in itertools.pairwise(boxes):
        assert upper is not None
        assert lower is not None
        assert lower.y1 <= upper.y0 + 1
    assert boxes[0] is not None
    assert boxes[0].y1 < figure.legends[0].get_window_extent().y0
    width = figure.get_window_extent().width
    assert all(box is not None and 0 < box.x0 < box.x1 < width for box in boxes)


def test_more_areas_than_fit_are_said() -> None:
    figure = coverage_figure(large(areas=tuple(f"{n}/0/{n}/1" for n in range(30))))
    assert len(figure.axes) == 7
    assert any(text.get_text().startswith("23 smaller areas are not drawn") for text in figure.texts)


@pytest.mark.parametrize("months", [1, 2, 10, 14, 30, 50, 100])
def test_few_months_have_labels(months: int) -> None:
    held: dict[Month, CoverageState] = {Month.from_number(Month(2019, 3).number + n): "complete" for n in range(months)}
    figure = coverage_figure([area_of("1/1/1/1", {"temperature_2m": held})])
    figure.canvas.draw()
    labels = [label for label in figure.axes[0].get_xticklabels() if label.get_text()]
    assert 1 <= len(labels) <= 14
    boxes = [label.get_window_extent() for label in labels]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_no_area_is_an_error() -> None:
    with pytest.raises(NoDataError, match="no month has been loaded yet"):
        coverage_figure([])
