"""`era5 status --coverage`: which months of which variables each area has, as a table, as JSON and as a picture."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from era5_pipeline.cli.output import narrow_columns, print_table
from era5_pipeline.cli.picture_options import require_picture
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg
    from rich.table import Table

    from era5_pipeline.query.coverage import AreaCoverage

_MONTHS = ("complete", "incomplete", "preliminary", "not loaded in between")


def require_coverage_options(out: Path | None, *, coverage: bool) -> None:
    """Require that a file for the picture is one, and is given with `--coverage`.

    Raises:
        UsageError: if it is not.
    """
    if out is None:
        return
    if not coverage:
        raise UsageError(f"--out {out}: only --coverage draws a picture", remedy="Add --coverage, or remove --out.")
    require_picture(out, "--out")


def show_coverage(connection: "psycopg.Connection[Any]", *, as_json: bool, out: Path | None) -> None:
    """Print the coverage of the table, and draw it to `out`.

    Raises:
        NoDataError: if nothing has been loaded, and a picture is wanted.
        LocalDiskError: if `out` cannot be written.
    """
    from rich.console import Console

    from era5_pipeline.query.coverage import read_coverage
    from era5_pipeline.query.credit import read_credit

    areas = read_coverage(connection)
    if out is not None:
        from era5_pipeline.query.plots import plot_coverage

        plot_coverage(areas, out, credit=read_credit(connection, None, None))
    if as_json:
        typer.echo(json.dumps([area.to_json() for area in areas], indent=1))
    elif not areas:
        typer.echo("no month has been loaded yet; see era5 load --help")
    else:
        console = Console()
        # Redirected output is not folded at 80 columns.
        console = console if console.is_terminal else Console(width=240)
        table = _table(areas, _MONTHS)
        if not narrow_columns(console, table):  # then without the columns that are empty
            rows = [cells for area in areas for _, cells in _rows(area)]
            shown = [name for name, cells in zip(_MONTHS, zip(*rows, strict=True), strict=True) if any(cells)]
            table = _table(areas, shown)
        print_table(console, table, labelled=_MONTHS)
    if out is not None:
        typer.echo(f"wrote {out}", err=True)


def _table(areas: "list[AreaCoverage]", shown: "Collection[str]") -> "Table":
    """The table with the columns of months shown."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for name in ("area", "variables", *shown):
        table.add_column(name)
    for area in areas:
        title = area.name
        for columns, cells in _rows(area):
            months = [cell for name, cell in zip(_MONTHS, cells, strict=True) if name in shown]
            table.add_row(title, "\n".join(columns), *months)
            title = ""
    return table


def _rows(area: "AreaCoverage") -> list[tuple[list[str], tuple[str, ...]]]:
    """The cells of the area's variables; those with the same months in one row."""
    from era5_pipeline.model.months import spans

    alike: dict[tuple[str, ...], list[str]] = {}
    for column in area.columns:
        months = (
            *(area.months(column, "complete"), area.months(column, "incomplete")),
            *(area.months(column, "preliminary"), area.missing_months(column)),
        )
        cells = tuple(f"{len(some):,}: {spans(some)}" if some else "" for some in months)
        alike.setdefault(cells, []).append(column)
    return [(columns, cells) for cells, columns in alike.items()]
