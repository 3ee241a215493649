"""Options that several commands share: points, times, columns, calendar months, areas, pictures."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.model.errors import RefusedError, UsageError
from era5_pipeline.model.source_kinds import (
    SOURCE_KINDS,
    SOURCE_OF_PLACES,
    SOURCE_OF_POINTS,
    SOURCE_OF_STORES,
    names_of,
    source_kind,
)

if TYPE_CHECKING:
    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.settings import Settings

# --- Settings from a place, in the commands that load or plan: its source, and its point or cell ---


def place_overrides(source: str | None, asked: "AskedPlace | None", area: str | None) -> dict[str, str | None]:
    """The settings `source`, and `point` or `area`: the place's point, or of a store in chunks, its cell.

    A place selects the source: without `source`, that of ERA5_SOURCE if it takes places; without that, the open store
    if its library is installed, continued by the source of points if there is a key for it; else that alone.
    """
    if asked is None:
        return {"source": source, "area": area}
    name = source or _source_of_places()
    location, kinds = asked.cell.location, {one: source_kind(one.strip()) for one in name.split(",")}
    if all(kind.is_series for kind in kinds.values()):
        return {"source": name, "point": str(location), "area": area}
    for one, kind in kinds.items():
        if not (kind.is_chunked or (kind.is_service and len(kinds) > 1)):
            raise UsageError(
                f"the source {one} does not take a place",
                remedy=f"Use --source {SOURCE_OF_POINTS}, or give an area: --area NORTH/WEST/SOUTH/EAST.",
            )
    if area is not None:
        raise UsageError("a place and an area are given", remedy="Leave one of them out.")
    return {"source": name, "area": f"{location}/{location}"}


def _source_of_places() -> str:
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.sources.cds.service import has_key
    from era5_pipeline.sources.zarr.icechunk_objects import has_icechunk

    settings = read_settings()
    if settings.source is not None:
        return settings.source if source_kind(settings.source_name).is_chunked else SOURCE_OF_POINTS
    if not has_icechunk():
        return SOURCE_OF_POINTS
    return f"{SOURCE_OF_PLACES},{SOURCE_OF_POINTS}" if has_key() else SOURCE_OF_PLACES


def require_sources(text: str | None) -> str | None:
    """Require names of sources, separated by commas."""
    for name in () if text is None else text.split(","):
        if name.strip() not in SOURCE_KINDS:
            raise typer.BadParameter(f"{name!r} is not one of {names_of()}.")
    return text


def known_dataset(text: str | None) -> str | None:
    """The name of a data set, as settings have it."""
    from era5_pipeline.model.dataset import dataset_named

    return text if text is None else dataset_named(text).name


Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        callback=known_dataset,
        help="Data set: era5 or era5-land.",
        show_default="ERA5_DATASET, else era5",
    ),
]


def dataset_settings(dataset: str | None) -> "Settings":
    """The settings of a command that reads the table of the data set."""
    from era5_pipeline.model.settings import read_settings

    return read_settings(dataset=dataset)


Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="NAME[,NAME]",
        callback=require_sources,
        help=f"Where months come from: {names_of()}; of several services, each month from the first with all of it.",
        show_default="files with a folder, zarr with --store, earthmover or point with a place, else cds",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="ADDRESS",
        help="Source zarr: a Zarr store of ERA5: a folder, s3://, gs://, https:// or icechunk+...; or a preset: "
        "earthmover, edh, ecmwf-arco.",
        show_default="ERA5_ZARR_URL",
    ),
]


def store_overrides(source: str | None, store: str | None) -> dict[str, str | None]:
    """The settings `source` and `zarr_url`: a store selects the source of stores; a public one is a source itself.

    A folder becomes an absolute path: runs may have another current folder.
    """
    if store is None:
        return {"source": source}
    if source_kind(store).is_known_store and source in (None, store, SOURCE_OF_STORES):
        return {"source": store}
    if source not in (None, SOURCE_OF_STORES):
        raise UsageError(
            f"the source {source} does not take a store", remedy=f"Use --source {SOURCE_OF_STORES}, or leave it out."
        )
    is_folder = "://" not in store and Path(store).expanduser().is_dir()
    return {"source": SOURCE_OF_STORES, "zarr_url": str(Path(store).expanduser().absolute()) if is_folder else store}


Tile = Annotated[
    bool,
    typer.Option("--tile", help="Of a store in chunks: all places in the chunks of the place, which cost no more."),
]


FIRST_MONTH_HELP = "First month; a year begins with January."
FirstMonth = Annotated[str | None, typer.Option("--from", metavar="YYYY-MM", help=FIRST_MONTH_HELP, show_default="all")]
LastMonth = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="YYYY-MM", help="Last month; a year ends with December.", show_default="same as --from"
    ),
]
AreaOrGlobe = Annotated[
    str | None, typer.Option("--area", metavar="N/W/S/E", help="Only this rectangle, in degrees; or global.")
]


FirstTime = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="First time, UTC: an hour, a day, month or year; a year begins with January.",
        show_default="all",
    ),
]
LastTime = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="TIME",
        help="Last time; a day, month or year is included completely, a year until December.",
        show_default="same as --from: its year, month, day or hour",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME",
        help="A column, or wind_speed_10m, wind_direction_10m; can be given several times.",
        show_default="all columns with values",
    ),
]


Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit with code 4 if months or hours are missing; everything is still written."),
]


CalendarMonths = Annotated[
    list[str] | None,
    typer.Option(
        "--calendar-month",
        metavar="1-12",
        help="Only this month of each year, or these: 6,7,8. Can be given several times.",
        show_default="all months",
    ),
]


# --- Checks shared by commands with pictures: the file, the limits of the scale, and gaps as an exit code ---


def require_picture(path: Path, option: str) -> None:
    """Require a path for a picture."""
    from era5_pipeline.draw.file_formats import picture_format

    try:
        picture_format(path)
    except UsageError as error:
        raise UsageError(f"{option} {error.message}", remedy=error.remedy) from None


def require_title(title: str | None) -> str | None:
    """Require a title, if one is given, that a picture can show, and return it as it is drawn."""
    from era5_pipeline.draw.figures import require_drawable

    return title if title is None else require_drawable(title, "--title")


def require_limits(vmin: float | None, vmax: float | None) -> None:
    """Require a range of numbers; either end may be open."""
    for name, value in (("--vmin", vmin), ("--vmax", vmax)):
        if value is not None and not isfinite(value):
            raise UsageError(f"{name} {value:g}: a limit must be a number", remedy="Give a number, or leave it out.")
    if vmin is not None and vmax is not None and vmin >= vmax:
        raise UsageError(f"--vmin {vmin:g} is not below --vmax {vmax:g}", remedy="Swap them, or leave one of them out.")


def warn_of_gaps(lines: list[str], *, strict: bool) -> None:
    """Name gaps on standard error; with `strict`, any gap ends with the exit code of a refused check."""
    for line in lines:
        typer.echo(f"warning: {line}", err=True)
    if lines and strict:
        raise typer.Exit(RefusedError.exit_code)


# --- Options for a point: `--place NAME`, or `--lat` and `--lon`, and `--cell` ---
#
# A command declares `place: Place = None, lat: Latitude = None, lon: Longitude = None, cell:
# Cell = "nearest"`, and calls `asked_place` of `model.question` (or `find_asked_place`, if a point is optional).


Place = Annotated[
    str | None,
    typer.Option(
        "--place",
        metavar="NAME",
        help="A city, such as Jakarta, or with its country: Paris, US. Offline; era5 places NAME lists candidates.",
        show_default=False,
    ),
]
Latitude = Annotated[
    float | None,
    typer.Option("--lat", metavar="DEGREES", help="Instead of --place: latitude, north positive.", show_default=False),
]
Longitude = Annotated[
    float | None,
    typer.Option("--lon", metavar="DEGREES", help="Instead of --place: longitude, east positive.", show_default=False),
]
Cell = Annotated[
    Literal["nearest", "land"],
    typer.Option("--cell", help="Which grid cell: the nearest, or the nearest that is at least half land."),
]
