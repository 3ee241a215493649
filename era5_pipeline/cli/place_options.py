"""Options of the commands that ask for a point: `--place NAME`, or `--lat` and `--lon`, and `--cell`.

A command declares `place: PlaceOption = None, lat: LatitudeOption = None, lon: LongitudeOption = None,
cell: CellOption = "nearest"`, and calls `require_asked_place` (or `find_asked_place`, where a point is optional).
"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.model.places.place import AskedPlace

PlaceOption = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="NAME",
        help="A city, such as Jakarta, or with its country: Paris, US. It is found offline; era5 places NAME lists.",
        show_default=False,
    ),
]
LatitudeOption = Annotated[
    float | None,
    typer.Option("--lat", metavar="DEGREES", help="Instead of --place: latitude, north positive.", show_default=False),
]
LongitudeOption = Annotated[
    float | None,
    typer.Option("--lon", metavar="DEGREES", help="Instead of --place: longitude, east positive.", show_default=False),
]
CellOption = Annotated[
    Literal["nearest", "land"],
    typer.Option("--cell", help="Which grid cell: the nearest, or the nearest that is at least half land."),
]

_REMEDY = "Give --place NAME, such as --place Jakarta, or --lat and --lon."


def require_asked_place(
    place: str | None, lat: float | None, lon: float | None, cell: Literal["nearest", "land"] = "nearest"
) -> "AskedPlace":
    """The place that these options ask for.

    Raises:
        UsageError: if they ask for none, for two, for a place that is not in the table, or for an impossible point.
    """
    asked = find_asked_place(place, lat, lon, cell)
    if asked is None:
        raise UsageError("no place is given", remedy=_REMEDY)
    return asked


def find_asked_place(
    place: str | None, lat: float | None, lon: float | None, cell: Literal["nearest", "land"] = "nearest"
) -> "AskedPlace | None":
    """The place that these options ask for; None if they ask for none.

    Raises:
        UsageError: if they ask for two, for a place that is not in the table, or for an impossible point.
    """
    from era5_pipeline.model.places.grid_cells import cell_of
    from era5_pipeline.model.places.place import AskedPlace

    if place is not None:
        from era5_pipeline.model.places.place_search import find_place

        if (lat, lon) != (None, None):
            raise UsageError("--place and --lat, --lon exclude each other", remedy="Give one of the two.")
        found = find_place(place)
        return AskedPlace(found, found.latitude, found.longitude, cell_of(found.latitude, found.longitude, cell))
    if lat is None and lon is None:
        return None
    if lat is None or lon is None:
        missing = "--lat" if lat is None else "--lon"
        raise UsageError(f"{missing} is missing", remedy=_REMEDY)
    return AskedPlace(None, lat, lon, cell_of(lat, lon, cell))
