"""`era5 map`: one hour of one variable as a map: PNG, PDF or SVG.

Here: options. Not here: the query (`era5_pipeline.query.snapshots`), the plot (`era5_pipeline.query.plots`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from era5_pipeline.cli.picture_options import require_limits, require_picture, warn_of_gaps


def map_(
    *,
    time: Annotated[str, typer.Option("--time", metavar="TIME", help="The hour; UTC unless it has an offset.")],
    column: Annotated[str, typer.Option("--column", metavar="NAME", help="The column to draw.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The file to write: PNG, PDF or SVG, by its suffix.")
    ],
    area: Annotated[
        str | None,
        typer.Option(
            "--area",
            metavar="N/W/S/E",
            help="Only this rectangle, in degrees.",
            show_default="everything in the table",
        ),
    ] = None,
    vmin: Annotated[
        float | None,
        typer.Option(
            "--vmin", metavar="VALUE", help="Lower end of the colours, in the column's unit.", show_default="automatic"
        ),
    ] = None,
    vmax: Annotated[
        float | None,
        typer.Option(
            "--vmax", metavar="VALUE", help="Upper end of the colours, in the column's unit.", show_default="automatic"
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="Title of the map.", show_default="the variable's name"),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with code 4 if places have no value; the map is written all the same."),
    ] = False,
) -> None:
    """Draw a map of one hour, with coastlines, borders and a colour bar.

    An area whose west is greater than its east crosses the antimeridian. Places without a value are grey, and said.

    \b
    Examples:
      era5 map --time 2019-01-01T12:00 --column temperature_2m --out map.png
      era5 map --time 2019-01-01T12 --column tp --area -5/105/-8/109 --out tp.png
      era5 map --time 2019-07-01T12 --column t2m --vmin -10 --vmax 40 --title "A summer day" --out map.pdf
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    import numpy as np

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.model.times import parse_instant
    from era5_pipeline.model.variables import find_variable
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.query.credit import read_credit
    from era5_pipeline.query.maps.field_map import FieldMap
    from era5_pipeline.query.plots import plot_map, require_drawable
    from era5_pipeline.query.snapshots import lines_of_absent, read_snapshot

    hour = parse_instant(time)
    variable = find_variable(column)
    rectangle = Area.parse(area) if area else None
    require_limits(vmin, vmax)
    require_picture(out, "--out")
    title = title if title is None else require_drawable(title, "--title")
    with (
        open_warehouse(read_settings()) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the map"),
    ):
        snapshot = read_snapshot(connection, hour, variable, rectangle)
        lines = lines_of_absent(connection, snapshot, rectangle)
        credit = read_credit(connection, hour, hour + timedelta(hours=1))
    values = snapshot.values[np.isfinite(snapshot.values)]
    plot_map(FieldMap.of_snapshot(snapshot), out, credit=credit, notes=lines, title=title, limits=(vmin, vmax))
    typer.echo(
        f"wrote {out}: {variable.column} at {hour:%Y-%m-%d %H:%M} UTC, {values.size:,} locations, "
        f"{variable.rounded(values.min())} to {variable.rounded(values.max())} {variable.unit} ({credit})"
    )
    warn_of_gaps(lines, strict=strict)
