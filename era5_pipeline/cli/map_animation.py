"""`era5 map --out FILE.gif`: the hours of a day or month, one after the other, and the options of that."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.cli.picture_options import warn_of_gaps
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.animation.make_animation import MapLook

ProjectionOption = Annotated[
    Literal["auto", "plate-carree", "equal-earth", "robinson"],
    typer.Option(
        "--projection",
        help="By itself: equal-earth, where areas are true, for an area wider than 180 and at least 90 degrees high; "
        "otherwise plate-carree.",
    ),
]
CentreOption = Annotated[
    float | None,
    typer.Option(
        "--centre-longitude",
        metavar="DEGREES",
        help="The meridian in the middle of a map of the globe, such as 150.",
        show_default="the middle of the area",
    ),
]
EveryOption = Annotated[
    str | None,
    typer.Option("--every", metavar="HOURS", help="Of an animation: hours between frames.", show_default="1h"),
]
FpsOption = Annotated[
    int | None,
    typer.Option("--fps", metavar="NUMBER", help="Of an animation: frames per second.", show_default="12"),
]


def require_centre(degrees: float | None) -> None:
    """Require a longitude, if one is given.

    Raises:
        UsageError: if it is none.
    """
    if degrees is not None and not -180.0 <= degrees <= 360.0:
        raise UsageError(
            f"--centre-longitude {degrees:g} is out of range", remedy="Give a longitude from -180 to 360, in degrees."
        )


def require_still(every: str | None, fps: int | None) -> None:
    """Require that options of an animation are not given.

    Raises:
        UsageError: if one is.
    """
    for name, value in (("--every", every), ("--fps", fps)):
        if value is not None:
            raise UsageError(
                f"{name} is an option of an animation", remedy="Give --out a name that ends with .gif or .mp4."
            )


def asked_hours(day: str | None, month: str | None, others: "Mapping[str, object]") -> tuple["datetime", "datetime"]:
    """First instant and end of the day or month to animate; `others` are options that make no sense then, by name.

    Raises:
        UsageError: if neither is given, or both, or one of the others.
    """
    from datetime import UTC, datetime, time, timedelta

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.times import parse_day

    given = [name for name, value in others.items() if value]
    if given or (day is None) == (month is None):
        raise UsageError(
            f"an animation shows the hours of a day or month{f', not {given[0]}' if given else ''}",
            remedy="Give --month 2023-07 or --day 2023-07-15, or a picture with --out map.png.",
        )
    if month is not None:
        asked = Month.parse(month)
        return asked.start, asked.end
    start = datetime.combine(parse_day(day or ""), time(), UTC)
    return start, start + timedelta(days=1)


def animate(
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
    from rich.console import Console

    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.query.animation.animation_files import parse_every, require_animation
    from era5_pipeline.query.animation.hour_frames import read_hour_frames
    from era5_pipeline.query.animation.make_animation import write_animation
    from era5_pipeline.runtime.files import replacing

    step = parse_every(every or "1h")
    require_animation(out, look.fps)
    with (
        open_warehouse(read_settings()) as warehouse,
        warehouse.connect() as connection,
        replacing(out) as temporary,
        stage_bars(Console(stderr=True), out.name, "read"),
    ):
        with server_errors("reading the hours"):
            frames = read_hour_frames(connection, warehouse, variable, *span, area, step, temporary.parent)
        write_animation(frames, temporary, look, shown_path=out)
        size = temporary.stat().st_size
    typer.echo(
        f"wrote {out}: {variable.column}, {len(frames.hours):,} frames{f' every {step} hours' if step > 1 else ''}, "
        f"{frames.field(0).when} to {frames.field(-1).when}, {frames.latitudes.size * frames.longitudes.size:,} grid "
        f"points, {size / 1e6:,.1f} MB ({frames.credit})"
    )
    if frames.left_out:
        typer.echo(frames.left_out, err=True)
    warn_of_gaps(list(frames.notes), strict=strict)
