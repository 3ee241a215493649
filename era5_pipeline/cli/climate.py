"""`era5 climate`: how the weather of a place has changed, as tables, CSV, JSON or a picture.

Here: options, and which form is printed. Not here: the forms (`climate_summary`), the answer
(`era5_pipeline.query.climate`), the picture (`era5_pipeline.query.climate_plots`).
"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.cli.picture_options import warn_of_gaps
from era5_pipeline.cli.place_options import (
    CellOption,
    LatitudeOption,
    LongitudeOption,
    PlaceOption,
    find_asked_place,
)
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.query.climate.climate_answer import ClimatePlace
    from era5_pipeline.query.climate.reading.read_climate import DayChoice

Format = Literal["table", "csv", "json"]
Table = Literal["yearly", "monthly", "daily", "seasons", "trends", "records"]


def climate(
    *,
    place: PlaceOption = None,
    lat: LatitudeOption = None,
    lon: LongitudeOption = None,
    cell: CellOption = "nearest",
    area: Annotated[
        str | None,
        typer.Option("--area", metavar="N/W/S/E", help="Instead of a place: the mean over a rectangle, in degrees."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="First year, month or day.", show_default="the first that is loaded"
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Last year, month or day.", show_default="the last that is loaded"),
    ] = None,
    baseline: Annotated[
        str, typer.Option("--baseline", metavar="FIRST-LAST", help="Years that anomalies are against.")
    ] = "1991-2020",
    days: Annotated[
        Literal["utc", "local"] | None,
        typer.Option("--days", help="Days in UTC, or at the standard time of the place's zone.", show_default="utc"),
    ] = None,
    utc_offset: Annotated[
        str | None,
        typer.Option("--utc-offset", metavar="HH:MM", help="Days at this offset from UTC, such as +07:00 or -03:30."),
    ] = None,
    table: Annotated[
        Table | None,
        typer.Option(
            "--table", help="Print this table, all rows of it.", show_default="a summary; with --format csv: yearly"
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format", help="How to print: csv is one table, json all but the daily one.", show_default="table"
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 4 if months or hours are missing; all is written as without."),
    ] = False,
) -> None:
    """Tell how the weather of a place has changed: warmer or not, by how much, how certain.

    Trends, anomalies, hot and wet days, the seasons then and now, and records, from all hours of the table at the
    place. What a number means, and what ERA5 cannot tell: docs/climate.md.

    \b
    Examples:
      era5 climate --place Jakarta
      era5 climate --lat 10.75 --lon 106.25 --days local --format json
      era5 climate --place Bremen --from 1979 --baseline 1961-1990 --table yearly
      era5 climate --area -5.5/106/-7/108 --format csv --table monthly > java.csv
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.cli.climate_summary import print_answer
    from era5_pipeline.cli.series import surviving_closed_pipe
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.query.climate.anomalies import parse_baseline
    from era5_pipeline.query.climate.reading.read_climate import Period, read_climate

    period, years = Period.parse(from_, to), parse_baseline(baseline)
    asked, choice = _asked(place, lat, lon, cell, area, days, utc_offset)
    with (
        open_warehouse(read_settings()) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the climate"),
    ):
        answer = read_climate(connection, asked, period, years, choice)
    with surviving_closed_pipe():
        print_answer(answer, format_ or "table", table)
    warn_of_gaps(list(answer.provenance.gaps), strict=strict)


def _asked(
    place: str | None,
    lat: float | None,
    lon: float | None,
    cell: Literal["nearest", "land"],
    area: str | None,
    days: Literal["utc", "local"] | None,
    utc_offset: str | None,
) -> "tuple[ClimatePlace, DayChoice]":
    """The place or area, and the days, that the options ask for.

    Raises:
        UsageError: if they contradict each other, or one is not what it should be.
    """
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.times import parse_offset
    from era5_pipeline.query.climate.climate_answer import ClimatePlace
    from era5_pipeline.query.climate.reading.read_climate import DayChoice

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
    zone = asked.time_zone if asked.place is not None or days == "local" else None
    subject = ClimatePlace(
        name=asked.name,
        asked=(asked.latitude, asked.longitude),
        location=asked.cell.location,
        area=None,
        points=1,
        land_share=asked.cell.land_share,
        zone=zone,
    )
    return subject, DayChoice(zone=zone) if days == "local" else choice
