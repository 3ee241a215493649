"""Tests of `draw/maps`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from era5_pipeline.draw.maps import draw_map
from era5_pipeline.maps.styles import NO_DATA, NO_DATA_ON_LAND
from era5_pipeline_tests.draw.pixels import texts_of
from era5_pipeline_tests.draw.variables_of_each_kind import KINDS, USUAL, field_of, usual_field

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from era5_pipeline.model.variables import Variable


@pytest.mark.parametrize("variable", USUAL, ids=lambda variable: variable.column)
def test_labels_of_the_colour_bar_are_short(variable: Variable) -> None:
    figure = draw_map(usual_field("10/90/-10/120", variable)).figure
    figure.canvas.draw()
    bar = figure.axes[1]
    labels = [label.get_text() for label in bar.get_xticklabels()]
    assert len(labels) >= 3
    assert all(len(label) <= 6 for label in labels)
    assert "1e" not in "".join(labels) + bar.get_xaxis().get_offset_text().get_text()
    unit = bar.get_xlabel()
    assert ("hour before" in unit) == (variable.step_type != "instant")


def test_a_title_stands_above_the_variables_name() -> None:
    figure = draw_map(usual_field("10/90/-10/120", KINDS["k_index"]), title="Storms, $5 and $6").figure
    assert texts_of(figure)[:2] == [
        "Storms, $5 and $6",
        "K index, Tue 04 Dec 2018, 04:00 UTC",
    ]
    figure.canvas.draw()


def legends_of(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.mark.parametrize(
    "area", ["global", "10/90/-10/120", "24/102/8/110", "85/170/75/-150", "-60/-180/-90/180", "-12/175/-22/-175"]
)
def test_grey_is_in_the_legend_exactly_if_there_is_grey(area: str) -> None:
    field = field_of(area)
    assert legends_of(draw_map(field).figure) == []
    field.values[0, 0] = np.nan
    figure = draw_map(field, credit="a credit line", notes=["a note", "another"]).figure
    assert legends_of(figure) == ["no data"]
    (legend,) = figure.legends
    colours = {to_hex(patch.get_facecolor()) for patch in legend.findobj(Rectangle)}
    assert colours == {NO_DATA, NO_DATA_ON_LAND}
    figure.canvas.draw()
    box = legend.get_window_extent()
    others = [*(text.get_window_extent() for text in figure.texts), *(axes.get_window_extent() for axes in figure.axes)]
    assert not any(box.overlaps(other) for other in others)


def test_the_surroundings_of_a_place_are_no_data() -> None:
    assert legends_of(draw_map(field_of("-6.25/106.75/-6.25/106.75")).figure) == ["no data"]


@pytest.mark.parametrize("area", ["global", "-60/-180/-90/180", "60/-120/-60/-30"])
def test_the_bar_of_a_large_map_ends_with_the_map(area: str) -> None:
    axes, bar = (one.get_window_extent() for one in draw_map(field_of(area)).figure.axes)
    if bar.width > bar.height:
        assert (bar.x0, bar.x1) == pytest.approx((axes.x0, axes.x1))
    else:
        assert (bar.y0, bar.y1) == pytest.approx((axes.y0, axes.y1))
