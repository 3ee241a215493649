"""`era5 series`: the hours of one location as a table, CSV, JSON or plot.

Options, and the output of rows; the query is in `era5_pipeline.read.hours`, the plot in `era5_pipeline.draw.series`.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, timedelta
from itertools import chain
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.cli.options import (
    CellOption,
    ColumnsOption,
    FirstTimeOption,
    LastTimeOption,
    LatitudeOption,
    LongitudeOption,
    PlaceOption,
    require_limits,
    require_picture,
    warn_of_gaps,
)
from era5_pipeline.cli.output import terminal
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.table import Table

    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.credit import DataOrigin
    from era5_pipeline.read.fields import Series
    from era5_pipeline.read.missing import Gaps

Format = Literal["table", "csv", "json"]

# Rows shown at the start and at the end of a long table: a day each.
_SHOWN_ROWS = 24
# Rows formatted at a time, so that 85 years of a location do not become one string.
_CHUNK_ROWS = 10_000


def series(
    *,
    place: PlaceOption = None,
    lat: LatitudeOption = None,
    lon: LongitudeOption = None,
    cell: CellOption = "nearest",
    from_: FirstTimeOption = None,
    to: LastTimeOption = None,
    column: ColumnsOption = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="How to print the rows.", show_default="table; none with --plot"),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the series to this file: PNG, PDF or SVG, by its suffix."),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="Title of the plot.", show_default="variable and place"),
    ] = None,
    vmin: Annotated[
        float | None,
        typer.Option("--vmin", metavar="VALUE", help="Lower end of the plot's scale.", show_default="from the values"),
    ] = None,
    vmax: Annotated[
        float | None,
        typer.Option("--vmax", metavar="VALUE", help="Upper end of the plot's scale.", show_default="from the values"),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 4 if months or hours are missing; everything is still written."),
    ] = False,
) -> None:
    """Print the hours of one location: the point of ERA5's 0.25 degree grid nearest to a place or to coordinates.

    Of a long series the table shows the first and last 24 hours; CSV and JSON have every row. Missing months and hours
    are named on standard error, in JSON, and below a plot.

    \b
    Examples:
      era5 series --lat 25.5 --lon 51.25 --from 2023-01 --to 2023-03
      era5 series --place Jakarta --column temperature_2m --plot t.png
      era5 series --place Singapore --cell land --from 2023
      era5 series --lat -6.2 --lon 106.8 --column t2m --plot t.pdf --title Jakarta --vmin 15 --vmax 40
      era5 series --lat 25.5 --lon 51.25 --from 2023-07-15 --format csv > t.csv
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.question import COMMAND, asked_columns, asked_place, asked_range
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.read.credit import read_origin
    from era5_pipeline.read.hours import read_series, require_values, without_single_hours
    from era5_pipeline.read.missing import gap_lines, read_gaps

    require_limits(vmin, vmax)
    where = asked_place(COMMAND, place, lat, lon, cell)
    location = where.cell.location
    (start, end), asked = asked_range(from_, to or from_), asked_columns(column or None)
    if plot:
        from era5_pipeline.draw.figures import require_drawable

        _require_no_direction(asked or ())

        require_picture(plot, "--plot")
        title = title if title is None else require_drawable(title, "--title")
    elif (title, vmin, vmax) != (None, None, None):
        raise UsageError(
            "--title, --vmin and --vmax are options of a plot", remedy="Add --plot FILE, or leave them out."
        )
    with (
        open_warehouse(read_settings()) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the series"),
    ):
        start, end, left_out = without_single_hours(connection, location, start, end)
        rows = read_series(connection, location, asked, start, end)
        variables = require_values(connection, rows, asked, location, where.description)
        gaps = read_gaps(connection, location, rows, variables, start, end)
        first, last = (time.astype("datetime64[s]").item().replace(tzinfo=UTC) for time in rows.times[[0, -1]])
        there = LocationSet.of_ids([location.location_id])
        columns = [variable.column for variable in variables]
        origin = read_origin(connection, first, last + timedelta(hours=1), there, columns)
    lines = gap_lines(gaps)
    if plot:
        from era5_pipeline.draw.series import plot_series

        plot_series(
            rows,
            variables,
            location,
            plot,
            place_name=where.name,
            credit=origin.credit,
            notes=lines,
            title=title,
            limits=(vmin, vmax),
        )
        typer.echo(f"wrote {plot}: {where.description}, {counted(rows.times.size, 'hour')} ({origin.credit})", err=True)
    if plot is None or format_ is not None:
        with surviving_closed_pipe():
            _print(rows, variables, where, gaps, origin, format_ or "table")
    if left_out:
        typer.echo(f"note: {left_out}", err=True)
    warn_of_gaps(lines, strict=strict)


def _require_no_direction(asked: "tuple[Variable, ...]") -> None:
    """Refuse to plot directions, as their means and the lines between them would be wrong."""
    from era5_pipeline.model.derived_variables import is_direction

    for variable in asked:
        if is_direction(variable):
            raise UsageError(
                f"{variable.column} has no plot: 360 degrees and 0 are the same, and directions have no mean",
                remedy="Print it with --format csv, or draw the components, eastward and northward wind.",
            )


def _print(
    rows: "Series",
    variables: tuple["Variable", ...],
    asked: "AskedPlace",
    gaps: "Mapping[str, Gaps]",
    origin: "DataOrigin",
    format_: Format,
) -> None:
    """Print the rows, with the place above a table, and the credit below it.

    In other formats, the place goes to standard error, unless it is just the requested grid point, on land. CSV has no
    room for the credit, which goes there, too.
    """
    if format_ == "table":
        _print_table(rows, variables, asked.description, origin.credit)
        return
    if asked.name is not None or not asked.is_on_grid or asked.cell.land_share < 1.0:
        typer.echo(asked.description, err=True)
    if format_ == "csv":
        typer.echo(origin.credit, err=True)
    for chunk in _csv(rows, variables) if format_ == "csv" else _json(rows, variables, asked, gaps, origin):
        sys.stdout.write(chunk)


@contextmanager
def surviving_closed_pipe() -> Iterator[None]:
    """Exit with code 1 and without a message if the reader of standard output stops early, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output again at exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def _csv(rows: "Series", variables: tuple["Variable", ...]) -> Iterator[str]:
    yield ",".join(["time", *(variable.column for variable in variables)]) + "\n"
    for chunk in _chunks(len(rows.times)):
        columns = [_texts(rows.values[variable.column][chunk], null="") for variable in variables]
        yield "".join(",".join(row) + "\n" for row in zip(_stamps(rows.times[chunk]), *columns, strict=True))


def _json(
    rows: "Series",
    variables: tuple["Variable", ...],
    asked: "AskedPlace",
    gaps: "Mapping[str, Gaps]",
    origin: "DataOrigin",
) -> Iterator[str]:
    """An object with the place, the gaps by column, versions and credit, and the rows, one per line."""
    from era5_pipeline.read.missing import gaps_as_json

    for name, value in (asked.as_json() | gaps_as_json(gaps) | origin.attributes).items():
        yield f"{'{' if name == 'place' else ','}\n{json.dumps(name)}: {json.dumps(value)}"
    names = ['"time"', *(f'"{variable.column}"' for variable in variables)]
    before = ',\n"rows": [\n'
    for chunk in _chunks(len(rows.times)):
        times = [f'"{stamp}"' for stamp in _stamps(rows.times[chunk])]
        columns = [_texts(rows.values[variable.column][chunk], null="null") for variable in variables]
        pairs = (zip(names, row, strict=True) for row in zip(times, *columns, strict=True))
        yield before + ",\n".join("{" + ", ".join(f"{name}: {value}" for name, value in row) + "}" for row in pairs)
        before = ",\n"
    yield "\n]}\n"


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK_ROWS):
        yield slice(start, start + _CHUNK_ROWS)


def _stamps(times: "npt.NDArray[np.datetime64]") -> list[str]:
    return [f"{text}Z" for text in times.astype("datetime64[s]").astype(str).tolist()]


def _texts(values: "npt.NDArray[np.float32]", *, null: str) -> list[str]:
    """The shortest texts that read back as the same float32 values."""
    return [null if text == "nan" else text for text in values.astype(str).tolist()]


def _print_table(rows: "Series", variables: tuple["Variable", ...], heading: str, credit: str) -> None:

    console = terminal()
    table = _table(rows, variables, header=str)
    needed = console.measure(table, options=console.options.update(width=1000)).maximum
    if needed > console.width:
        # Break names at their underscores, to fit six columns in 80 characters.
        table = _table(rows, variables, header=lambda name: name.replace("_", "_\n"))
        needed = console.measure(table, options=console.options.update(width=1000)).maximum
    # Rather wider than the terminal or the pipe than with truncated numbers.
    console = terminal(width=max(console.width, needed), highlight=False, soft_wrap=False)
    console.print(heading, markup=False, soft_wrap=True)
    console.print(table)
    left_out = len(rows.times) - 2 * _SHOWN_ROWS
    summary = counted(len(rows.times), "hour")
    if left_out > 0:
        summary += f"; {left_out:,} in the middle are not shown: --format csv or --format json prints all"
    for line in (summary, credit):
        console.print(line, markup=False, soft_wrap=True)


def _table(rows: "Series", variables: tuple["Variable", ...], header: Callable[[str], str]) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, pad_edge=False)
    table.add_column(Text("time (UTC)"), no_wrap=True)
    for variable in variables:
        table.add_column(Text(f"{header(variable.column)}\n{variable.unit}"), justify="right", no_wrap=True)
    count = len(rows.times)
    is_long = count > 2 * _SHOWN_ROWS
    shown = chain(range(_SHOWN_ROWS), range(count - _SHOWN_ROWS, count)) if is_long else range(count)
    for index in shown:
        if is_long and index == count - _SHOWN_ROWS:
            table.add_row(*["..."] * (len(variables) + 1))
        time = str(rows.times[index].astype("datetime64[m]")).replace("T", " ")
        table.add_row(time, *(_cell(float(rows.values[variable.column][index]), variable) for variable in variables))
    return table


def _cell(value: float, variable: "Variable") -> str:
    return "-" if isnan(value) else variable.rounded(value)
