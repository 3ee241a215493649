"""`era5 compare`: the hours of one location in all data sets, side by side."""

import sys
from typing import Annotated

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.series import Format, csv_of, json_of, print_series, surviving_closed_pipe


def compare(
    *,
    place: options.Place = None,
    lat: options.Latitude = None,
    lon: options.Longitude = None,
    cell: options.Cell = "nearest",
    from_: options.FirstTime = None,
    to: options.LastTime = None,
    column: options.Columns = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="How to print the rows.", show_default="table")
    ] = None,
    strict: options.Strict = False,
) -> None:
    """Print the hours of one location in ERA5 beside those in ERA5-Land: of each, the nearest point of its own grid.

    Hours are those that both have, columns the variables that both have; below a table is the mean difference.

    \b
    Examples:
      era5 compare --place Jakarta --from 2023-07 --column t2m
      era5 compare --lat -6.2 --lon 106.8 --column tp --format csv > tp.csv
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.dataset import DATASETS
    from era5_pipeline.model.question import COMMAND, asked_columns, asked_place, asked_range
    from era5_pipeline.postgres.connect import open_connection
    from era5_pipeline.read import comparison
    from era5_pipeline.read.series import read_series_answer

    start, end = asked_range(from_, to or from_)
    asked = {
        dataset: (
            asked_place(COMMAND, place, lat, lon, cell, dataset.grid),
            asked_columns(column or None, dataset.catalogue),
        )
        for dataset in DATASETS.values()
    }
    answers = {}
    for dataset, (where, columns) in asked.items():
        with open_connection(options.dataset_settings(dataset.name), "reading the series") as connection:
            answers[dataset] = read_series_answer(connection, where, columns, start, end)
    found = comparison.compare(answers)
    with surviving_closed_pipe():
        if format_ in (None, "table"):
            print_series(found.rows, found.variables, "\n".join(found.places), found.credit, found.differences)
        else:
            for line in (*found.places, found.credit):
                typer.echo(line, err=True)
            for chunk in csv_of(found) if format_ == "csv" else json_of(found):
                sys.stdout.write(chunk)
    options.warn_of_gaps(found.lines, strict=strict)
