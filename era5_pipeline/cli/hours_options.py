"""Options of the commands that read hours: the first and last time, and the columns."""

from typing import Annotated

import typer

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
