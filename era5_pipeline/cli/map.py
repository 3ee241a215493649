"""`era5 map`: one variable as a map or an animation, of an hour, a day, a month, an anomaly or a trend."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from era5_pipeline.cli.options import (
    Dataset,
    require_limits,
    require_picture,
    require_title,
    warn_of_gaps,
)
from era5_pipeline.cli.output import terminal
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.times import NORMAL_PERIOD
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.draw.animation import MapLook
    from era5_pipeline.maps.question import MapQuestion
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable


class MapOptions(NamedTuple):
    """The options of `era5 map` that select the contents, as they were given: an hour, a day, a month, a trend."""

    time: str | None = None
    day: str | None = None
    month: str | None = None
    year: str | None = None
    trend: str | None = None
    season: str | None = None
    calendar_month: int | None = None
    statistic: str | None = None
    anomaly: bool = False
    baseline: str | None = None

    def given(self) -> list[str]:
        """The names of the options that were given."""
        values = self._asdict().items()
        return [f"--{name.replace('_', '-')}" for name, value in values if value is not None and value is not False]


_SELECTING = ("--time", "--day", "--month", "--year", "--trend")
# The options that refine one of these, and with which each goes.
_FITTING = {
    "--statistic": ("--day", "--month", "--year", "--trend"),
    "--anomaly": ("--month", "--year"),
    "--season": ("--year", "--trend"),
    "--calendar-month": ("--trend",),
}


def asked_map(variable: "Variable", options: MapOptions) -> "MapQuestion":
    """The map selected by the options."""
    from era5_pipeline.cli.climate_options import asked_part
    from era5_pipeline.climate.anomalies import DEFAULT_BASELINE, parse_baseline
    from era5_pipeline.climate.question import calendar_month, parse_year, parse_years
    from era5_pipeline.maps import question as questions
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.question import asked_hour, asked_month
    from era5_pipeline.model.times import parse_day

    _require_one(options.given())
    if options.baseline is not None and not options.anomaly:
        raise UsageError("--baseline needs --anomaly", remedy="Add --anomaly, or leave --baseline out.")
    if options.time is not None:
        return questions.HourQuestion(asked_hour(options.time))
    chosen = questions.statistic_for(variable, options.statistic)
    if options.day is not None:
        of_day = parse_day(options.day)
        Month(of_day.year, of_day.month)  # before ERA5 begins?
        return questions.DayQuestion(of_day, chosen)
    questions.require_summaries(variable)
    part = asked_part(options.season, options.calendar_month)
    if options.trend is not None:
        return questions.TrendQuestion(part, parse_years(options.trend), chosen)
    if options.month is not None:
        asked = asked_month(options.month)
        part, number = calendar_month(asked.month), asked.year
    else:
        number = parse_year(options.year or "")
    if options.anomaly:
        years = parse_baseline(options.baseline) if options.baseline is not None else DEFAULT_BASELINE
        return questions.AnomalyQuestion(part, number, years, chosen)
    return questions.PeriodQuestion(part, number, chosen)


def _require_one(given: list[str]) -> None:
    """Require one option that selects the contents, and that all others fit it."""
    selecting = [name for name in given if name in _SELECTING]
    if not selecting:
        raise UsageError("nothing to draw is given", remedy="Give one of --time, --day, --month, --year and --trend.")
    if len(selecting) > 1:
        raise UsageError(f"{' and '.join(selecting)} cannot be combined", remedy="Give one of them.")
    for name, fitting in _FITTING.items():
        if name in given and selecting[0] not in fitting:
            raise UsageError(
                f"{name} does not go with {selecting[0]}", remedy=f"It goes with {' or '.join(fitting)}: leave one out."
            )


# --- `era5 map --out FILE.gif`: the hours of a day or month, one after another ---


def asked_hours(options: MapOptions) -> tuple["datetime", "datetime"]:
    """First instant and end of the day or month to animate; no other option can be combined with it."""
    from datetime import UTC, datetime, time, timedelta

    from era5_pipeline.model.question import asked_month
    from era5_pipeline.model.times import parse_day

    given = [name for name in options.given() if name not in ("--day", "--month")]
    if given or (options.day is None) == (options.month is None):
        raise UsageError(
            f"an animation shows the hours of a day or month{f', not {given[0]}' if given else ''}",
            remedy="Give --month 2023-07 or --day 2023-07-15, or a picture with --out map.png.",
        )
    if options.month is not None:
        asked = asked_month(options.month)
        return asked.start, asked.end
    start = datetime.combine(parse_day(options.day or ""), time(), UTC)
    return start, start + timedelta(days=1)


def animate(
    settings: "Settings",
    variable: "Variable",
    span: tuple["datetime", "datetime"],
    area: "Area | None",
    out: Path,
    look: "MapLook",
    *,
    every: str | None,
    strict: bool,
) -> None:
    """Read the hours, write the file, and say what is in it and what is missing."""
    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.draw.animation import read_hour_frames, write_animation
    from era5_pipeline.draw.file_formats import parse_every, require_animation
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.runtime.files import replacing

    step = parse_every(every or "1h")
    require_animation(out, look.fps)
    settings.wanted_dataset.require_months((Month.of(span[0]),))
    with (
        open_warehouse(settings) as warehouse,
        warehouse.connect() as connection,
        replacing(out) as temporary,
        stage_bars(terminal(stderr=True), out.name, "read"),
    ):
        with server_errors("reading the hours"):
            frames = read_hour_frames(connection, warehouse, variable, *span, area, step, temporary.parent)
        write_animation(frames, temporary, look, shown_path=out)
        size = temporary.stat().st_size
    typer.echo(
        f"wrote {out}: {variable.column}, {counted(len(frames.hours), 'frame')}"
        f"{f' every {step} hours' if step > 1 else ''}, {frames.field(0).when} to {frames.field(-1).when}, "
        f"{counted(frames.points, 'grid point')}, {size / 1e6:,.1f} MB ({frames.credit})"
    )
    for line in frames.asides:
        typer.echo(line, err=True)
    warn_of_gaps(list(frames.notes), strict=strict)


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
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="TIME", help="One hour; UTC unless it has an offset.", show_default=False),
    ] = None,
    day: Annotated[
        str | None, typer.Option("--day", metavar="DAY", help="A day in UTC, such as 2023-07-15.", show_default=False)
    ] = None,
    month: Annotated[
        str | None, typer.Option("--month", metavar="MONTH", help="A month, such as 2023-07.", show_default=False)
    ] = None,
    year: Annotated[
        str | None,
        typer.Option("--year", metavar="YEAR", help="A year, or with --season a part of it.", show_default=False),
    ] = None,
    trend: Annotated[
        str | None,
        typer.Option(
            "--trend", metavar="FIRST-LAST", help="The change per decade over these years.", show_default=False
        ),
    ] = None,
    season: Annotated[
        str | None,
        typer.Option(
            "--season", metavar="NAME", help="With --year or --trend: DJF, MAM, JJA or SON.", show_default="the year"
        ),
    ] = None,
    calendar_month: Annotated[
        int | None,
        typer.Option(
            "--calendar-month", metavar="1-12", help="With --trend: this month of each year.", show_default="the year"
        ),
    ] = None,
    statistic: Annotated[
        str | None,
        typer.Option(
            "--statistic",
            metavar="NAME",
            help="Of a day, month or year: mean, min, max or sum.",
            show_default="the sum of totals, the mean of others",
        ),
    ] = None,
    anomaly: Annotated[
        bool, typer.Option("--anomaly", help="With --month or --year: less the mean of the same months of --baseline.")
    ] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="FIRST-LAST", help="Years that an anomaly is relative to.", show_default=NORMAL_PERIOD
        ),
    ] = None,
    area: Annotated[
        str | None,
        typer.Option(
            "--area",
            metavar="N/W/S/E",
            help="Only this rectangle, in degrees.",
            show_default="everything in the table; if places are far apart, the part with the most",
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
    projection: Annotated[
        Literal["auto", "plate-carree", "equal-earth", "robinson", "polar-stereographic"],
        typer.Option(
            "--projection",
            help="By itself: equal-earth, where areas are true, for an area wider than 180 and at least 90 degrees "
            "high; polar-stereographic for one entirely beyond 60 degrees north or south; otherwise plate-carree.",
        ),
    ] = "auto",
    centre_longitude: Annotated[
        float | None,
        typer.Option(
            "--centre-longitude",
            metavar="DEGREES",
            help="The meridian in the middle of a map of the globe, such as 150.",
            show_default="the middle of the area",
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="HOURS", help="Of an animation: hours between frames.", show_default="1h"),
    ] = None,
    fps: Annotated[
        int | None,
        typer.Option("--fps", metavar="NUMBER", help="Of an animation: frames per second.", show_default="12"),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 4 if places have no value; the map is still written."),
    ] = False,
    dataset: Dataset = None,
) -> None:
    """Draw a map of an hour, a day, a month, an anomaly or a trend, with coastlines, borders and a colour bar.

    An area whose west is greater than its east crosses the antimeridian. Places without a value are grey, and said;
    ERA5-Land has none at sea.

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
    from era5_pipeline.draw.animation import MapLook
    from era5_pipeline.draw.figures import save_figure
    from era5_pipeline.draw.file_formats import USUAL_FPS, is_animation
    from era5_pipeline.draw.maps import draw_map
    from era5_pipeline.maps.question import months_asked
    from era5_pipeline.maps.read import read_map
    from era5_pipeline.model.question import asked_area, asked_column
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_connection

    settings = read_settings(dataset=dataset)
    of = settings.wanted_dataset
    variable, rectangle = asked_column(column, of.catalogue), asked_area(area, of.grid)
    require_limits(vmin, vmax)
    if centre_longitude is not None and not -180.0 <= centre_longitude <= 360.0:
        raise UsageError(
            f"--centre-longitude {centre_longitude:g} is out of range",
            remedy="Give a longitude from -180 to 360, in degrees.",
        )
    title = require_title(title)
    options = MapOptions(time, day, month, year, trend, season, calendar_month, statistic, anomaly, baseline)
    if is_animation(out):
        look = MapLook(title, (vmin, vmax), projection, centre_longitude, USUAL_FPS if fps is None else fps)
        animate(settings, variable, asked_hours(options), rectangle, out, look, every=every, strict=strict)
        return
    for name, value in (("--every", every), ("--fps", fps)):
        if value is not None:
            raise UsageError(
                f"{name} is an option of an animation", remedy="Give --out a name that ends with .gif or .mp4."
            )
    question = asked_map(variable, options)
    of.require_months(months_asked(question))
    require_picture(out, "--out")
    with open_connection(settings, "reading the map") as connection:
        answer = read_map(connection, question, variable, rectangle)
    credit = answer.origin.credit
    save_figure(
        draw_map(
            answer.field,
            credit=credit,
            notes=answer.notes,
            title=title,
            limits=(vmin, vmax),
            projection=projection,
            centre=centre_longitude,
        ).figure,
        out,
    )
    typer.echo(f"wrote {out}: {variable.column} {answer.summary}, {answer.counted} ({credit})")
    for line in answer.asides:
        typer.echo(line, err=True)
    warn_of_gaps(answer.lines, strict=strict)
