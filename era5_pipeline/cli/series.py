"""`era5 series`: the hours of one location as a table, CSV, JSON or plot.

Options, and the output of rows; the answer is in `era5_pipeline.read.series`, the plot in `era5_pipeline.draw.series`.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.fetch import Fetch, fetch_if_absent
from era5_pipeline.cli.output import discard_output, terminal
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from rich.table import Table

    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.comparison import Comparison
    from era5_pipeline.read.fields import Series
    from era5_pipeline.read.series import SeriesAnswer

Format = Literal["table", "csv", "json"]

# Rows shown at the start and at the end of a long table: a day each.
_SHOWN_ROWS = 24
# Rows formatted at a time, so that 85 years of a location do not become one string.
_CHUNK_ROWS = 10_000


def series(
    *,
    place: options.Place = None,
    lat: options.Latitude = None,
    lon: options.Longitude = None,
    cell: options.Cell = "nearest",
    from_: options.FirstTime = None,
    to: options.LastTime = None,
    column: options.Columns = None,
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
    fetch: Fetch = False,
    strict: options.Strict = False,
    dataset: options.Dataset = None,
) -> None:
    """Print the hours of one location: the grid point nearest to a place or to coordinates.

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
    from era5_pipeline.model.question import COMMAND, asked_columns, asked_place, asked_range
    from era5_pipeline.postgres.connect import open_connection
    from era5_pipeline.read.series import read_series_answer

    options.require_limits(vmin, vmax)
    settings = options.dataset_settings(dataset)
    source = settings.wanted_dataset
    where = asked_place(COMMAND, place, lat, lon, cell, source.grid)
    (start, end), asked = asked_range(from_, to or from_), asked_columns(column or None, source.catalogue)
    if plot:
        from era5_pipeline.draw.figures import save_figure

        _require_no_direction(asked or ())
        options.require_picture(plot, "--plot")
        title = options.require_title(title)
    elif (title, vmin, vmax) != (None, None, None):
        raise UsageError(
            "--title, --vmin and --vmax are options of a plot", remedy="Add --plot FILE, or leave them out."
        )
    if fetch:
        fetch_if_absent(settings, where.cell.location)
    with open_connection(settings, "reading the series") as connection:
        answer = read_series_answer(connection, where, asked, start, end)
    lines, credit = answer.lines, answer.origin.credit
    if plot:
        from era5_pipeline.draw.series import series_figure

        save_figure(
            series_figure(
                answer.rows,
                answer.variables,
                where.cell.location,
                place_name=where.name,
                credit=credit,
                notes=lines,
                title=title,
                limits=(vmin, vmax),
            ),
            plot,
        )
        typer.echo(f"wrote {plot}: {where.description}, {counted(answer.rows.times.size, 'hour')} ({credit})", err=True)
    if plot is None or format_ is not None:
        with surviving_closed_pipe():
            _print(answer, format_ or "table")
    if answer.left_out:
        typer.echo(f"note: {answer.left_out}", err=True)
    options.warn_of_gaps(lines, strict=strict)


def _require_no_direction(asked: "tuple[Variable, ...]") -> None:
    """Refuse to plot directions, as their means and the lines between them would be wrong."""
    from era5_pipeline.model.derived_variables import is_direction

    for variable in asked:
        if is_direction(variable):
            raise UsageError(
                f"{variable.column} has no plot: 360 degrees and 0 are the same, and directions have no mean",
                remedy="Print it with --format csv, or draw the components, eastward and northward wind.",
            )


def _print(answer: "SeriesAnswer", format_: Format) -> None:
    """Print the rows, with the place above a table, and the credit below it.

    In other formats, the place goes to standard error, unless it is just the requested grid point, on land. CSV has no
    room for the credit, which goes there, too.
    """
    place, credit = answer.place, answer.origin.credit
    if format_ == "table":
        print_series(answer.rows, answer.variables, place.description, credit)
        return
    if place.name is not None or not place.is_on_grid or place.cell.land_share not in (None, 1.0):
        typer.echo(place.description, err=True)
    if format_ == "csv":
        typer.echo(credit, err=True)
    for chunk in csv_of(answer) if format_ == "csv" else json_of(answer):
        sys.stdout.write(chunk)


@contextmanager
def surviving_closed_pipe() -> Iterator[None]:
    """Exit with code 1 and without a message if the reader of standard output stops early, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()  # Python flushes standard output again at exit, and would fail again
        raise typer.Exit(1) from None


def csv_of(answer: "SeriesAnswer | Comparison") -> Iterator[str]:
    """A header, and the rows."""
    yield ",".join(["time", *(variable.column for variable in answer.variables)]) + "\n"
    for times, columns in _texts(answer, null=""):
        yield "".join(",".join(row) + "\n" for row in zip(times, *columns, strict=True))


def json_of(answer: "SeriesAnswer | Comparison") -> Iterator[str]:
    """An object with the facts (place, gaps by column, versions and credit), and the rows, one per line."""
    for number, (name, value) in enumerate(answer.facts.items()):
        yield f"{',' if number else '{'}\n{json.dumps(name)}: {json.dumps(value)}"
    before = ',\n"rows": [\n'
    for times, columns in _texts(answer, null="null"):
        named = [[f'"time": "{time}"' for time in times]]
        for variable, values in zip(answer.variables, columns, strict=True):
            named.append([f'"{variable.column}": {value}' for value in values])
        yield before + ",\n".join("{" + ", ".join(row) + "}" for row in zip(*named, strict=True))
        before = ",\n"
    yield "\n]}\n"


def _texts(answer: "SeriesAnswer | Comparison", *, null: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Times, and the values of each column: the shortest texts that read back as the same float32 values."""
    rows = answer.rows
    for first in range(0, len(rows.times), _CHUNK_ROWS):
        chunk = slice(first, first + _CHUNK_ROWS)
        times = [f"{text}Z" for text in rows.times[chunk].astype("datetime64[s]").astype(str).tolist()]
        texts = [rows.values[variable.column][chunk].astype(str).tolist() for variable in answer.variables]
        yield times, [[null if text == "nan" else text for text in column] for column in texts]


def print_series(
    rows: "Series", variables: tuple["Variable", ...], heading: str, credit: str, notes: Iterable[str] = ()
) -> None:
    """Print the rows as a table, between a heading and their number, notes and the credit."""
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
    for line in (summary, *notes, credit):
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
