"""Options that several commands share: points, times, columns, calendar months, areas, pictures."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.model.errors import RefusedError, UsageError
from era5_pipeline.model.source_kinds import SOURCE_OF_POINTS, source_kind

if TYPE_CHECKING:
    from era5_pipeline.model.places import AskedPlace

# --- Settings from a place, in the commands that load or plan: the source of points, and the point ---


def point_overrides(source: str | None, asked: "AskedPlace | None") -> dict[str, str | None]:
    """The settings `source` and `point`: a place selects the source of points, unless another is named.

    Raises:
        UsageError: if the named source does not take points.
    """
    if asked is None:
        return {"source": source}
    if source is not None and not source_kind(source).is_series:
        raise UsageError(
            f"the source {source} is not asked for a place",
            remedy=f"Use --source {SOURCE_OF_POINTS}, or give an area: --area NORTH/WEST/SOUTH/EAST.",
        )
    return {"source": source or SOURCE_OF_POINTS, "point": str(asked.cell.location)}


# --- Options of the commands that read hours: the first and last time, and the columns ---


FirstTimeOption = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="First time, UTC: a year, month, day or hour.", show_default="all"),
]
LastTimeOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="Last time; a year, month or day is included completely.",
        show_default="same as --from: its year, month, day or hour",
    ),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME",
        help="A column, or wind_speed_10m, wind_direction_10m; can be given several times.",
        show_default="all columns with values",
    ),
]


# --- The option `--calendar-month` of commands with a range of months ---


CalendarMonthsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--calendar-month",
        metavar="1-12",
        help="Of each year only this month, or these: 6,7,8. Can be given several times.",
        show_default="all months",
    ),
]


# --- Checks shared by commands with pictures: the file, the limits of the scale, and gaps as an exit code ---


def require_picture(path: Path, option: str) -> None:
    """Require a path for a picture.

    Raises:
        UsageError: if it is a folder, or does not end with the suffix of a format.
    """
    from era5_pipeline.draw.file_formats import picture_format

    try:
        picture_format(path)
    except UsageError as error:
        raise UsageError(f"{option} {error.message}", remedy=error.remedy) from None


def require_limits(vmin: float | None, vmax: float | None) -> None:
    """Require a range of numbers; either end may be open.

    Raises:
        UsageError: if it is not a range.
    """
    for name, value in (("--vmin", vmin), ("--vmax", vmax)):
        if value is not None and not isfinite(value):
            raise UsageError(f"{name} {value:g}: a limit is a number", remedy="Give a number, or leave it out.")
    if vmin is not None and vmax is not None and vmin >= vmax:
        raise UsageError(
            f"--vmin {vmin:g} is not below --vmax {vmax:g}", remedy="Exchange them, or leave one of them out."
        )


def warn_of_gaps(lines: list[str], *, strict: bool) -> None:
    """Name gaps on standard error; with `strict`, any gap ends with the exit code of a refused check."""
    for line in lines:
        typer.echo(f"warning: {line}", err=True)
    if lines and strict:
        raise typer.Exit(RefusedError.exit_code)


# --- Options for a point: `--place NAME`, or `--lat` and `--lon`, and `--cell` ---
#
# A command declares `place: PlaceOption = None, lat: LatitudeOption = None, lon: LongitudeOption = None, cell:
# CellOption = "nearest"`, and calls `require_asked_place` (or `find_asked_place`, where a point is optional).


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
    """The place given by these options.

    Raises:
        UsageError: if they give none, two, an unknown place, or an impossible point.
    """
    asked = find_asked_place(place, lat, lon, cell)
    if asked is None:
        raise UsageError("no place is given", remedy=_REMEDY)
    return asked


def find_asked_place(
    place: str | None, lat: float | None, lon: float | None, cell: Literal["nearest", "land"] = "nearest"
) -> "AskedPlace | None":
    """The place given by these options; None if not given.

    Raises:
        UsageError: if they give two, an unknown place, or an impossible point.
    """
    from era5_pipeline.model.cells import cell_of
    from era5_pipeline.model.places import AskedPlace

    if place is not None:
        from era5_pipeline.model.places import find_place

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
