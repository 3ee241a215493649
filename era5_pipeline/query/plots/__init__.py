"""Pictures of what `query` reads: maps, series and small previews, as PNG.

Here: how each variable looks (`looks`), figures (`figures`), what is drawn (`maps`, `series`). Not here: reading
data, or deciding what to draw.

Figures are matplotlib's `Figure` on the Agg canvas, without pyplot: no display and no global state, so several
threads may draw at once. The functions that end in `_figure` build one; the others save it.
"""

from era5_pipeline.query.plots.figures import latitude_label, longitude_label
from era5_pipeline.query.plots.maps import map_figure, plot_map, preview_map
from era5_pipeline.query.plots.series_plots import plot_series, series_figure

__all__ = [
    "latitude_label",
    "longitude_label",
    "map_figure",
    "plot_map",
    "plot_series",
    "preview_map",
    "series_figure",
]
