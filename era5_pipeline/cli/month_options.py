"""The option `--calendar-month` of commands that are given a range of months."""

from typing import Annotated

import typer

CalendarMonthsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--calendar-month",
        metavar="1-12",
        help="Of each year only this month, or these: 6,7,8. Can be given several times.",
        show_default="all months",
    ),
]
