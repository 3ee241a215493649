"""The picture of `era5 climate`: the stripes above the anomalies and their trend, with title, notes and credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.query.climate.climate_answer import Trend
from era5_pipeline.query.climate.climate_words import decimals_of
from era5_pipeline.query.climate_plots.anomaly_figure import draw_anomalies, trends_drawn
from era5_pipeline.query.climate_plots.climate_axes import mark_generated, print_legend, style_panel
from era5_pipeline.query.climate_plots.drawn_years import BAND_WORDS, complete_years, reference_of, signed
from era5_pipeline.query.climate_plots.stripes_figure import draw_stripes
from era5_pipeline.query.plots.figures import (
    add_axes,
    new_figure,
    notes_height,
    print_credit,
    print_notes,
    print_title,
    save,
    wrapped_notes,
)

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer

# Inches.
_WIDTH, _LEFT, _RIGHT = 9.0, 0.75, 0.3
_TOP, _STRIPES, _GAP, _BARS, _BOTTOM = 0.85, 1.3, 0.62, 2.9, 0.75


def climate_picture(answer: ClimateAnswer, title: str | None = None) -> Figure:
    """Draw the stripes of an answer, and below them its anomalies with trend and interval.

    `title` replaces the place and what is drawn.

    Raises:
        NoDataError: if no year is complete.
    """
    means = complete_years(answer, "mean_temperature")
    if means is None:
        raise NoDataError(
            f"{answer.place.title}: no year has all of its hours of temperature: nothing to draw",
            remedy="Load all months of a year: era5 load --from YYYY-01 --to YYYY-12; era5 status shows what is there.",
        )
    width = _WIDTH - _LEFT - _RIGHT
    lines = wrapped_notes(_notes(answer), width)
    bottom = _BOTTOM + notes_height(lines)
    figure = new_figure(_WIDTH, bottom + _BARS + _GAP + _STRIPES + _TOP)
    stripes = add_axes(figure, _LEFT, bottom + _BARS + _GAP, width, _STRIPES)
    draw_stripes(stripes, answer, means)
    stripes.tick_params(labelbottom=False, bottom=False)
    bars = add_axes(figure, _LEFT, bottom, width, _BARS)
    style_panel(bars)
    draw_anomalies(bars, answer, means)
    # Bars stand below their stripes.
    bars.set_xlim(stripes.get_xlim())
    bars.set_ylabel(f"°C, difference from {reference_of(answer, means).words}", fontsize=8.5)
    if trends_drawn(answer):
        print_legend(bars, 2)
    years = f"{means.years[0]}\u2013{means.years[-1]}"
    name = f"Yearly mean temperature, {answer.place.title}" if title is None else title
    if answer.provenance.notice:
        name = f"{answer.provenance.notice.partition(':')[0]}: {name}"
        mark_generated(figure)
    print_title(figure, _LEFT, name, f"{years}; {answer.place.description}")
    print_notes(figure, _LEFT, lines)
    print_credit(figure, _LEFT, answer.provenance.credit)
    return figure


def draw_climate(answer: ClimateAnswer, path: Path, title: str | None = None) -> None:
    """Write `climate_picture` to `path` as PNG, PDF or SVG, atomically.

    Raises:
        NoDataError: if no year is complete.
        UsageError: if the suffix is another one.
        LocalDiskError: if the disk is full or not writable.
    """
    save(climate_picture(answer, title), path)


def _notes(answer: ClimateAnswer) -> list[str]:
    """What the picture must say: the interval of the trend, or why there is none; and what is missing."""
    trend = answer.trend_of("mean_temperature")
    if isinstance(trend, Trend):
        slope, low, high = (signed(value, decimals_of(trend, 3)) for value in (trend.slope, trend.low, trend.high))
        said = (
            f"Trend {trend.years.first}\u2013{trend.years.last}: {slope} °C per decade, 95 % interval {low} to {high}; "
            f"grey: {BAND_WORDS}"
        )
    else:
        said = f"No trend: {trend.reason}"
    notice = answer.provenance.notice
    return [*([notice] if notice else []), said, *answer.notes]
