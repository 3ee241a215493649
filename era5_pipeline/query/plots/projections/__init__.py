"""Maps of the globe in a projection: which one, its arithmetic, and what is drawn on a map in it.

Here: the choice (`projection_choice`), degrees to metres and back (`map_projection`), pixels to grid cells
(`nearest_cells`), shores and borders (`projected_shapes`), meridians and parallels (`graticule`), and the map of these
(`projected_map`). Not here: maps in plate carree, titles, colours (`query.plots`).
"""
