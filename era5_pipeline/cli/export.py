"""`era5 export`: a place, a box and months of the table as a file: CSV, Parquet, netCDF or Zarr.

Options only; reading and writing are in `era5_pipeline.export`.
"""

from pathlib import Path
from typing import Annotated

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import terminal


def export(
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="What to write: .csv, .csv.gz, .parquet, .nc, or a folder .zarr."),
    ],
    place: options.Place = None,
    lat: options.Latitude = None,
    lon: options.Longitude = None,
    cell: options.Cell = "nearest",
    area: Annotated[
        str | None,
        typer.Option(
            "--area",
            metavar="N/W/S/E",
            help="Instead of a place: a rectangle, in degrees.",
            show_default="everything in the table",
        ),
    ] = None,
    from_: options.FirstTime = None,
    to: options.LastTime = None,
    column: options.Columns = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="csv, parquet, netcdf or zarr.", show_default="by the suffix of --out"
        ),
    ] = None,
    strict: options.Strict = False,
    dataset: options.Dataset = None,
) -> None:
    """Write a place, a rectangle or all of the table to a file: CSV, Parquet, netCDF (CF-1.10) or Zarr.

    A file is there when it is whole, and then replaces an older one of that name. It is of one state of the table. What
    is missing is NaN or left out, and said on standard error. What each format holds: docs/export.md.

    \b
    Examples:
      era5 export --place Jakarta --from 2023 --out jakarta.csv
      era5 export --area -5/105/-8/109 --from 2023-01 --to 2023-03 --column t2m --column tp --out java.nc
      era5 export --area -5/105/-8/109 --from 2023 --out java.parquet
      era5 export --from 2023-07 --out july.zarr
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.export.formats import export_format
    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.question import COMMAND, asked_columns, asked_range, find_place_or_area
    from era5_pipeline.model.words import counted
    from era5_pipeline.postgres.connect import open_warehouse

    settings = options.dataset_settings(dataset)
    source = settings.wanted_dataset
    chosen = export_format(out, format_)
    asked = find_place_or_area(COMMAND, place, lat, lon, cell, area, source.grid)
    (start, end), columns = asked_range(from_, to or from_), asked_columns(column or None, source.catalogue)
    from era5_pipeline.export.run import export as export_to

    def say(line: str) -> None:
        typer.echo(f"note: {line}", err=True)

    with open_warehouse(settings) as warehouse, stage_bars(terminal(stderr=True), out.name, "export"):
        done = export_to(warehouse, out, chosen, asked, columns=columns, start=start, end=end, say=say)
    if isinstance(asked, AskedPlace):
        typer.echo(asked.description, err=True)
    window, size = done.contents.window, counted(done.rows, "row")
    if chosen not in ("csv", "parquet"):
        size = f"{counted(len(done.contents.hours), 'hour')} x {counted(window.rows * window.columns, 'point')}"
    typer.echo(
        f"wrote {out}: {source.catalogue.named_columns(done.contents.columns)}, {size}, {done.bytes / 1e6:,.1f} MB, "
        f"{done.seconds:,.1f} s ({done.contents.origin.credit})"
    )
    options.warn_of_gaps(list(done.missing), strict=strict)
