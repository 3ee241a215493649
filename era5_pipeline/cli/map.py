"""`era5 map`: one variable as a map, of an hour, a day, a month, an anomaly or a trend: PNG, PDF or SVG.

The hours of a day or month become a GIF or MP4 (`map_animation`).

Here: options. Not here: reading (`era5_pipeline.query.maps`), the plot (`era5_pipeline.query.plots`).
"""

from pathlib import Path
from typing import Annotated

import typer

from era5_pipeline.cli.map_animation import (
    CentreOption,
    EveryOption,
    FpsOption,
    ProjectionOption,
    animate,
    asked_hours,
    require_centre,
    require_still,
)
from era5_pipeline.cli.map_options import (
    AnomalyOption,
    BaselineOption,
    CalendarMonthOption,
    DayOption,
    MonthOption,
    SeasonOption,
    StatisticOption,
    TimeOption,
    TrendOption,
    YearOption,
    asked_map,
)
from era5_pipeline.cli.picture_options import require_limits, require_picture, warn_of_gaps


def map_(
    *,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="The column to draw, or wind_speed_10m and the like.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The file to write: PNG, PDF or SVG by its suffix; GIF or MP4 animates the hours of a day or month.",
        ),
    ],
    time: TimeOption = None,
    day: DayOption = None,
    month: MonthOption = None,
    year: YearOption = None,
    trend: TrendOption = None,
    season: SeasonOption = None,
    calendar_month: CalendarMonthOption = None,
    statistic: StatisticOption = None,
    anomaly: AnomalyOption = False,
    baseline: BaselineOption = None,
    area: Annotated[
        str | None,
        typer.Option(
            "--area",
            metavar="N/W/S/E",
            help="Only this rectangle, in degrees.",
            show_default="everything in the table; of places far apart, the part with the most",
        ),
    ] = None,
    vmin: Annotated[
        float | None,
        typer.Option(
            "--vmin", metavar="VALUE", help="Lower end of the colours, in the map's unit.", show_default="automatic"
        ),
    ] = None,
    vmax: Annotated[
        float | None,
        typer.Option(
            "--vmax", metavar="VALUE", help="Upper end of the colours, in the map's unit.", show_default="automatic"
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="Title of the map.", show_default="what is drawn"),
    ] = None,
    projection: ProjectionOption = "auto",
    centre_longitude: CentreOption = None,
    every: EveryOption = None,
    fps: FpsOption = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 4 if places have no value; the map is written all the same."),
    ] = False,
) -> None:
    """Draw a map of an hour, a day, a month, an anomaly or a trend, with coastlines, borders and a colour bar.

    An area whose west is greater than its east crosses the antimeridian. Places without a value are grey, and said.

    \b
    Examples:
      era5 map --time 2019-01-01T12:00 --column temperature_2m --out map.png
      era5 map --time 2019-01-01T12 --column tp --area -5/105/-8/109 --out tp.png
      era5 map --day 2023-07-15 --column t2m --statistic max --out hottest-hour.png
      era5 map --month 2023-07 --column tp --out july.png
      era5 map --month 2023-07 --anomaly --baseline 1991-2020 --column t2m --out anomaly.png
      era5 map --trend 1991-2020 --season JJA --column t2m --out trend.png
      era5 map --time 2019-07-01T12 --column t2m --vmin -10 --vmax 40 --title "A summer day" --out map.pdf
      era5 map --month 2023-07 --column t2m --every 3h --out july.gif
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.derived_variables import find_column
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.query.animation.animation_files import USUAL_FPS, is_animation
    from era5_pipeline.query.animation.make_animation import MapLook
    from era5_pipeline.query.credit import read_credit
    from era5_pipeline.query.maps.read_map import read_map
    from era5_pipeline.query.plots import plot_map, require_drawable

    variable = find_column(column)
    rectangle = Area.parse(area) if area else None
    require_limits(vmin, vmax)
    require_centre(centre_longitude)
    title = title if title is None else require_drawable(title, "--title")
    if is_animation(out):
        others: dict[str, object] = {
            "--time": time,
            "--year": year,
            "--trend": trend,
            "--season": season,
            "--statistic": statistic,
        }
        others |= {"--calendar-month": calendar_month, "--anomaly": anomaly, "--baseline": baseline}
        look = MapLook(title, (vmin, vmax), projection, centre_longitude, USUAL_FPS if fps is None else fps)
        animate(variable, asked_hours(day, month, others), rectangle, out, look, every=every, strict=strict)
        return
    require_still(every, fps)
    question = asked_map(
        variable,
        time=time,
        day=day,
        month=month,
        year=year,
        trend=trend,
        season_name=season,
        month_number=calendar_month,
        statistic=statistic,
        anomaly=anomaly,
        baseline=baseline,
    )
    require_picture(out, "--out")
    with (
        open_warehouse(read_settings()) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the map"),
    ):
        reading = read_map(connection, question, variable, rectangle)
        credit = read_credit(connection, reading.start, reading.end, reading.locations, [variable.column])
    plot_map(
        reading.field,
        out,
        credit=credit,
        notes=reading.notes,
        title=title,
        limits=(vmin, vmax),
        projection=projection,
        centre=centre_longitude,
    )
    typer.echo(f"wrote {out}: {variable.column} {reading.summary}, {reading.counted} ({credit})")
    if reading.left_out:
        typer.echo(reading.left_out, err=True)
    warn_of_gaps(reading.lines, strict=strict)
