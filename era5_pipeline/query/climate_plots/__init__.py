"""Pictures of a climate answer: stripes, anomalies, this year, counts of days, the seasons, rain, the cell on a map.

Here: each picture from the parts of a `ClimateAnswer` that it shows (`..._figure`), the one picture that `era5 climate`
writes (`climate_picture`), and figures as parts of an HTML page (`inline_svg`). Not here: computing the answer
(`query/climate`), or the page (`query/report`).

A function `..._figure` gives None where its answer has nothing to draw, such as no complete year.
"""

from era5_pipeline.query.climate_plots.climate_picture import draw_climate

__all__ = ["draw_climate"]
