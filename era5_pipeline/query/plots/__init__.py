"""Plots of what `query` reads: maps, time series, coverage and small previews.

Here: titles and colours of variables (`variable_styles`, `colour_scales`), layout of figures and their files
(`figures`), and the plots (`map_plots`, `series_plots`, `coverage_plots`), with what they draw (`coastlines`,
`borders`, `series_lines`). Not here: reading data, or choosing what to draw.

Figures are matplotlib's `Figure` on the Agg canvas, without pyplot: they need no display and no global state, so that
threads can draw at the same time. Functions that end in `_figure` return a figure; the others return or write files.
"""

from era5_pipeline.query.plots.coverage_plots import coverage_figure, plot_coverage
from era5_pipeline.query.plots.figures import latitude_label, longitude_label, require_drawable
from era5_pipeline.query.plots.map_parts.map_preview import TEXT_OF_PREVIEW, TITLE_OF_PREVIEW, preview_map
from era5_pipeline.query.plots.map_plots import map_figure, plot_map
from era5_pipeline.query.plots.series_plots import plot_series, series_figure
from era5_pipeline.query.plots.variable_styles import variable_title

__all__ = [
    "TEXT_OF_PREVIEW",
    "TITLE_OF_PREVIEW",
    "coverage_figure",
    "latitude_label",
    "longitude_label",
    "map_figure",
    "plot_coverage",
    "plot_map",
    "plot_series",
    "preview_map",
    "require_drawable",
    "series_figure",
    "variable_title",
]
