"""The picture of `era5 climate --out`: PNG, PDF and SVG, with what must be said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PIL import Image

from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.query.climate.climate_answer import Trend
from era5_pipeline.query.climate_plots import draw_climate
from era5_pipeline.query.climate_plots.climate_picture import climate_picture
from era5_pipeline_tests.climate_answers import CREDIT, answer_of, made_hours, mekong_answer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_each_format_is_written_and_is_the_same_twice(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"picture{suffix}"
    draw_climate(mekong_answer(), path)
    once = path.read_bytes()
    assert once[:5] in {b"\x89PNG\r", b"%PDF-", b"<?xml"}
    draw_climate(mekong_answer(), path)
    assert path.read_bytes() == once
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    if suffix == ".png":
        with Image.open(path) as picture:
            colours = picture.convert("RGB").getcolors(1 << 20)
        # A stripe's dark red, and a bar's.
        assert {(203, 24, 29), (192, 57, 43)} <= {colour for _, colour in colours or []}


def words_of(answer_title: str | None = None) -> list[str]:
    return [text.get_text() for text in climate_picture(mekong_answer(), answer_title).texts]


def test_it_says_the_place_the_years_the_lack_of_a_trend_and_the_credit() -> None:
    words = words_of()
    assert words[0] == "Yearly mean temperature, 10.75 N 106.25 E"
    assert words[1].startswith("2020\u20132024; the cell of ERA5 at 10.75 N 106.25 E")
    assert any(text.startswith("No trend: 5 complete years") for text in words)
    assert words[-1] == CREDIT
    assert words_of("Ho $Chi$ Minh")[0] == "Ho $Chi$ Minh"


def test_it_says_the_interval_of_a_trend() -> None:
    answer = answer_of(made_hours(range(1990, 2024)))
    words = [text.get_text() for text in climate_picture(answer).texts]
    trend = answer.trend_of("mean_temperature")
    assert isinstance(trend, Trend)
    interval = f"95 % interval +{trend.low:.3f} to +{trend.high:.3f}; grey: 95 % confidence band of the fitted mean"
    assert f"Trend 1990\u20132023: +{trend.slope:.3f} °C per decade, {interval}" in words


def test_a_picture_of_generated_data_says_so_in_its_title() -> None:
    answer = answer_of(made_hours(range(1990, 2024)), sources={"sample": 408})
    for title in (None, "Nowhere"):
        words = [text.get_text() for text in climate_picture(answer, title).texts]
        assert words[0] == "generated, not ERA5"
        assert words[1].startswith(f"Generated sample data, not ERA5: {title or 'Yearly mean temperature'}")
        assert "Generated sample data, not ERA5: these numbers say nothing about the real weather." in words


def test_stripes_stand_above_their_bars() -> None:
    stripes, bars = climate_picture(mekong_answer()).axes
    assert stripes.get_xlim() == bars.get_xlim()
    assert stripes.get_position().x0 == pytest.approx(bars.get_position().x0)


def test_without_a_complete_year_it_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    hours = made_hours([2001])
    with pytest.raises(NoDataError, match="no year has all of its hours") as refused:
        draw_climate(answer_of(hours[hours.index < "2001-05-01"]), tmp_path / "picture.png")
    assert "era5 load" in refused.value.remedy
    with pytest.raises(UsageError, match="PNG, PDF or SVG"):
        draw_climate(mekong_answer(), tmp_path / "picture.bmp")
    assert not list(tmp_path.iterdir())
