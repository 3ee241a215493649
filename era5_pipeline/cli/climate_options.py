"""Options of `era5 climate` and `era5 report`: the area, period, baseline and days of an answer.

The options for a place are in `options`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.cli.options import find_asked_place
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.climate.answer import ClimatePlace
    from era5_pipeline.climate.reading import DayChoice

AreaOption = Annotated[
    str | None,
    typer.Option("--area", metavar="N/W/S/E", help="Instead of a place: the mean over a rectangle, in degrees."),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="First year, month or day.", show_default="the first that is loaded"),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Last year, month or day.", show_default="the last that is loaded"),
]
BaselineOption = Annotated[
    str, typer.Option("--baseline", metavar="FIRST-LAST", help="Years that anomalies are against.")
]
DaysOption = Annotated[
    Literal["utc", "local"] | None,
    typer.Option("--days", help="Days in UTC, or at the standard time of the place's zone.", show_default="utc"),
]
OffsetOption = Annotated[
    str | None,
    typer.Option("--utc-offset", metavar="HH:MM", help="Days at this offset from UTC, such as +07:00 or -03:30."),
]
DEFAULT_BASELINE = "1991-2020"


def asked_climate(
    place: str | None,
    lat: float | None,
    lon: float | None,
    cell: Literal["nearest", "land"],
    area: str | None,
    days: Literal["utc", "local"] | None,
    utc_offset: str | None,
) -> "tuple[ClimatePlace, DayChoice]":
    """The place or area, and the days, given by the options.

    Raises:
        UsageError: if they contradict each other, or one is invalid.
    """
    from era5_pipeline.climate.answer import ClimatePlace
    from era5_pipeline.climate.reading import DayChoice
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.times import parse_offset

    if days is not None and utc_offset is not None:
        raise UsageError("--days and --utc-offset exclude each other", remedy="Give one of the two.")
    choice = DayChoice(parse_offset(utc_offset) if utc_offset is not None else 0)
    asked = find_asked_place(place, lat, lon, cell)
    if area is not None:
        if asked is not None:
            raise UsageError("--area and a place exclude each other", remedy="Give one of the two.")
        if days == "local":
            raise UsageError(
                "an area has no time zone of its own",
                remedy="Give the offset of its days, such as --utc-offset +07:00.",
            )
        return ClimatePlace(None, None, None, Area.parse(area), 0, None, None), choice
    if asked is None:
        raise UsageError(
            "no place is given",
            remedy="Give --place NAME, such as --place Jakarta, --lat and --lon, or --area N/W/S/E.",
        )
    subject = ClimatePlace.of_asked(asked, in_its_zone=days == "local")
    return subject, DayChoice(zone=subject.zone) if days == "local" else choice
