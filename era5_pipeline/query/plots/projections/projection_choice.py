"""Which projection a map is drawn in, and about which meridian: as asked, or by the shape of its area."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from era5_pipeline.query.plots.projections.map_projection import MapProjection

if TYPE_CHECKING:
    from era5_pipeline.query.plots.outlines import Window

ProjectionChoice = Literal["auto", "plate-carree", "equal-earth", "robinson"]

# An area wider than half the globe, and at least so high (degrees): of a narrow band, plate carree shows more.
_WIDEST_FLAT = 180.0
_LOWEST_GLOBE = 90.0


def choose_projection(
    choice: ProjectionChoice, cells: Window, widened: Window, centre: float | None = None
) -> MapProjection | None:
    """The projection of a map of these cells (degrees); None for plate carree.

    `auto` is Equal Earth for an area wider than 180 degrees and at least 90 high, otherwise plate carree. Of a smaller
    one, what is shown is `widened`, if it is drawn in a projection all the same. `centre` is the central meridian
    (degrees east), by default that of the window.
    """
    west, east, south, north = cells
    is_globe = east - west > _WIDEST_FLAT and north - south >= _LOWEST_GLOBE
    if choice == "auto":
        choice = "equal-earth" if is_globe else "plate-carree"
    if choice == "plate-carree":
        return None
    window = cells if is_globe else widened
    west, east, south, north = window
    if centre is None:
        centre = (west + east) / 2
    return MapProjection(choice, centre, centred_window(window, centre))


def centred_window(window: Window, centre: float) -> Window:
    """The window shifted by whole turns to within 180 degrees of a meridian, or all longitudes if it does not fit."""
    west, east, south, north = window
    shift = 360.0 * round((centre - (west + east) / 2) / 360.0)
    west, east = west + shift, east + shift
    if west < centre - 180.0 or east > centre + 180.0:
        west, east = centre - 180.0, centre + 180.0
    return west, east, south, north
