"""Parts of a map in any projection: plate carree, its colour bar, marks of significance, and the small preview.

Not here: the layout of the whole figure (`map_plots`), or projections of the globe (`projections`).
"""
