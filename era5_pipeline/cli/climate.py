"""`era5 climate`: how the weather of a place has changed, as tables, CSV, JSON or a picture.

Options, and the choice of output. The summary is in `climate_summary`, the answer in `era5_pipeline.climate`, the
picture in `era5_pipeline.draw.climate_years`.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from era5_pipeline.cli.climate_everywhere import EverywhereOptions, climate_everywhere
from era5_pipeline.cli.climate_options import (
    DEFAULT_BASELINE,
    AreaOption,
    BaselineOption,
    DaysOption,
    FromOption,
    OffsetOption,
    ToOption,
    asked_climate,
)
from era5_pipeline.cli.options import (
    CellOption,
    LatitudeOption,
    LongitudeOption,
    PlaceOption,
    require_picture,
    warn_of_gaps,
)
from era5_pipeline.model.errors import UsageError

Format = Literal["table", "csv", "json"]
EVERYWHERE = "With --everywhere"
Table = Literal["yearly", "monthly", "daily", "seasons", "trends", "records"]


def climate(
    *,
    place: PlaceOption = None,
    lat: LatitudeOption = None,
    lon: LongitudeOption = None,
    cell: CellOption = "nearest",
    area: AreaOption = None,
    from_: FromOption = None,
    to: ToOption = None,
    baseline: BaselineOption = DEFAULT_BASELINE,
    days: DaysOption = None,
    utc_offset: OffsetOption = None,
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
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Draw stripes, anomalies and trend to this file: PNG, PDF or SVG."),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Title of the picture.", show_default="the place")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 4 if months or hours are missing; everything is still written."),
    ] = False,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Trend and normal at every place, or at those of --area.")
    ] = False,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="With --everywhere: the column.", rich_help_panel=EVERYWHERE)
    ] = "temperature_2m",
    season: Annotated[
        str | None,
        typer.Option(
            "--season",
            metavar="NAME",
            help="DJF, MAM, JJA or SON of each year.",
            show_default="the year",
            rich_help_panel=EVERYWHERE,
        ),
    ] = None,
    calendar_month: Annotated[
        int | None,
        typer.Option(
            "--calendar-month",
            metavar="1-12",
            help="This month of each year.",
            show_default="the year",
            rich_help_panel=EVERYWHERE,
        ),
    ] = None,
    all_parts: Annotated[
        bool, typer.Option("--all-parts", help="The year, its seasons and its months.", rich_help_panel=EVERYWHERE)
    ] = False,
    engine: Annotated[
        Literal["warehouse", "dask", "spark"],
        typer.Option(
            "--engine",
            help="From the warehouse's monthly summaries, or from the hours of the lake (ERA5_LAKE) by Dask or Spark.",
            rich_help_panel=EVERYWHERE,
        ),
    ] = "warehouse",
    save: Annotated[
        bool, typer.Option("--save", help="Write the table weather_trend.", rich_help_panel=EVERYWHERE)
    ] = False,
) -> None:
    """Print how the weather of a place has changed: warmer or not, by how much, how certain.

    Trends, anomalies, hot and wet days, the seasons then and now, and records, from all hours of the table at the
    place. What a number means, and what ERA5 cannot tell: docs/climate.md.

    \b
    Examples:
      era5 climate --place Jakarta
      era5 climate --lat 10.75 --lon 106.25 --days local --format json
      era5 climate --place Bremen --from 1979 --baseline 1961-1990 --table yearly
      era5 climate --area -5.5/106/-7/108 --format csv --table monthly > java.csv
      era5 climate --place Jakarta --out jakarta.png
      era5 climate --everywhere --area 72/-12/34/40 --out europe.png --save
      era5 climate --everywhere --engine dask --column tp --season JJA --out rain.parquet
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    if everywhere:
        of_places = {"--place": place, "--lat": lat, "--lon": lon, "--days": days, "--utc-offset": utc_offset}
        _refuse_with_everywhere({**of_places, "--table": table, "--format": format_, "--strict": strict or None})
        climate_everywhere(
            EverywhereOptions(
                column, area, from_, to, baseline, season, calendar_month, all_parts, engine, out, title, save
            )
        )
        return
    _require_everywhere(
        column=column != "temperature_2m",
        season=season is not None,
        calendar_month=calendar_month is not None,
        all_parts=all_parts,
        engine=engine != "warehouse",
        save=save,
    )
    from era5_pipeline.cli.climate_summary import print_answer
    from era5_pipeline.cli.series import surviving_closed_pipe
    from era5_pipeline.climate.reading import read_climate
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors

    if out:
        from era5_pipeline.draw.figures import require_drawable

        require_picture(out, "--out")
        title = title if title is None else require_drawable(title, "--title")
    elif title is not None:
        raise UsageError("--title needs a picture", remedy="Add --out FILE, or leave --title out.")
    question = asked_climate(place, lat, lon, cell, area, from_, to, baseline, days, utc_offset)
    with (
        open_warehouse(read_settings()) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the climate"),
    ):
        answer = read_climate(connection, question)
    if out:
        from era5_pipeline.draw.climate_years import draw_climate

        draw_climate(answer, out, title)
        typer.echo(f"wrote {out}: {answer.place.title} ({answer.provenance.credit})", err=True)
    if out is None or format_ is not None or table is not None:
        with surviving_closed_pipe():
            print_answer(answer, format_ or "table", table)
    warn_of_gaps(list(answer.provenance.gaps), strict=strict)


def _refuse_with_everywhere(options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UsageError(f"{given[0]} does not go with --everywhere", remedy="Leave one of them out.")


def _require_everywhere(**options: bool) -> None:
    given = [name.replace("_", "-") for name, is_given in options.items() if is_given]
    if given:
        raise UsageError(f"--{given[0]} needs --everywhere", remedy="Add --everywhere, or leave it out.")
