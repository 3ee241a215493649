"""Series of many variables of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.draw.series import series_figure
from era5_pipeline.maps.styles import variable_title
from era5_pipeline.model import grid
from era5_pipeline.model.errors import UsageError
from era5_pipeline_tests.draw.pixels import texts_of
from era5_pipeline_tests.draw.variables_of_each_kind import KINDS, USUAL, usual_series

if TYPE_CHECKING:
    from era5_pipeline.model.variables import Variable

DOHA = grid.ERA5_GRID.nearest_location(25.25, 51.5)


@pytest.mark.parametrize("hours", [48, 24 * 60, 24 * 365 * 4])
def test_many_variables_have_panels_that_can_be_read(hours: int) -> None:
    figure = series_figure(usual_series(hours), tuple(USUAL), DOHA)
    width, height = figure.get_size_inches()
    assert width == 10.0
    assert height < 1.8 * len(USUAL)
    figure.canvas.draw()
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert {"Temperature (°C)", "Pressure (hPa)"} <= set(labels)
    assert all(labels)
    assert hours > 48 or any(label.startswith("Runoff") and label.endswith("(mm per hour)") for label in labels)
    names = []
    for axes in figure.axes:
        assert axes.get_window_extent().height > 1.0 * figure.dpi
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert all(len(label) <= 6 for label in labels), labels
        names += [axes.get_title("left")] if axes.get_title("left") else [text.get_text() for text in axes.texts]
        # The unit fits beside its panel.
        most = (1.0 if hours == 48 else 1.35) * axes.get_window_extent().height
        assert axes.yaxis.label.get_window_extent().height <= most
    assert sorted(filter(None, names)) == sorted(variable_title(variable) for variable in USUAL)


def test_variables_of_one_unit_and_range_share_a_panel() -> None:
    figure = series_figure(usual_series(24 * 60), tuple(USUAL), DOHA)
    shared = [{text.get_text() for text in axes.texts} - {""} for axes in figure.axes if not axes.get_title("left")]
    assert {"2 m dew point", "Soil temperature level 1"} in shared
    assert {"Mean sea level pressure", "Surface pressure"} in shared
    # Ozone would be a line at zero below water vapour.
    assert not any("Total column ozone" in names for names in shared)


@pytest.mark.parametrize("column", ["surface_net_thermal_radiation", "top_net_thermal_radiation", "evaporation"])
def test_negative_totals_go_down_from_zero(column: str) -> None:
    (axes,) = series_figure(usual_series(24 * 30), (KINDS[column],), DOHA).axes
    low, high = axes.get_ylim()
    heights = [bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert low < min(heights) < 0.0
    assert high < 0.3 * -low
    assert axes.get_ylabel().endswith(" per day)")


def test_energy_totals_name_the_power_of_ten_and_the_day() -> None:
    shown = usual_series(24 * 30)
    (axes,) = series_figure(shown, (KINDS["surface_solar_radiation_downwards"],), DOHA).axes
    assert axes.get_ylabel() == "Surface solar radiation downwards\n(10⁶ J m⁻² per day)"


def test_title_and_limits_are_those_asked_for() -> None:
    gust: Variable = KINDS["wind_gust_10m"]
    figure = series_figure(usual_series(48), (gust,), DOHA, title="Windy", limits=(0.0, 50.0))
    assert texts_of(figure)[:2] == [
        "Windy",
        "10 m wind gust at 25.25°N 51.5°E, 01 Jan 2023, 00:00 to 02 Jan 2023, 23:00 UTC",
    ]
    assert figure.axes[0].get_ylim() == (0.0, 50.0)
    figure = series_figure(usual_series(48), (gust,), DOHA, limits=(None, 50.0))
    low, high = figure.axes[0].get_ylim()
    assert high == 50.0
    assert low == pytest.approx(np.floor(low), abs=2.0)


def test_limits_for_several_units_or_no_range_are_errors() -> None:
    pair = (KINDS["wind_gust_10m"], KINDS["dewpoint_2m"])
    with pytest.raises(UsageError, match=r"these variables are in m/s, degC.*\nChoose variables of one unit"):
        series_figure(usual_series(48), pair, DOHA, limits=(0.0, None))
    with pytest.raises(UsageError, match="leave no range"):
        series_figure(usual_series(48), pair[:1], DOHA, limits=(500.0, None))
