"""`era5 status`: the ledger, as a table or as JSON."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.variables import VARIABLES

if TYPE_CHECKING:
    from era5_pipeline.warehouse.ledger import Entry


def status(
    *,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A JSON list of months: month, state, rows, hours, source, expver and more."),
    ] = False,
) -> None:
    """Show which months the table holds, and what each was made of.

    \b
    Examples:
      era5 status
      era5 status --json | jq '.[] | select(.state != "loaded")'
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from era5_pipeline.settings import read_settings
    from era5_pipeline.warehouse.connect import describe_server, open_warehouse
    from era5_pipeline.warehouse.failures import server_errors
    from era5_pipeline.warehouse.ledger import read_ledger

    with (
        open_warehouse(read_settings()) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the ledger"),
    ):
        entries = read_ledger(connection)
        server = describe_server(connection)
    if as_json:
        typer.echo(json.dumps([entry.to_json() for entry in entries], indent=1))
        return
    if not entries:
        typer.echo(f"no month is loaded yet in {warehouse.shown} ({server}); era5 load --help")
        return
    table = Table("month", "state", box=SIMPLE)
    for name in ("rows", "hours", "locations"):
        table.add_column(name, justify="right")
    for name in ("source", "expver", "columns", "loaded"):
        table.add_column(name)
    for entry in entries:
        table.add_row(*_cells(entry))
    console = Console()
    # Redirected, rich would fold the table to 80 columns.
    console = console if console.is_terminal else Console(width=160)
    console.print(table)
    rows = sum(entry.rows for entry in entries)
    typer.echo(f"{sum(e.rows > 0 for e in entries)} months, {rows:,} rows in {warehouse.shown} ({server})")
    for entry in entries:
        attempt = entry.last_attempt
        if attempt is not None and attempt.outcome in ("failed", "interrupted"):
            typer.echo(
                f"{entry.month}: the last load was {attempt.outcome}{f' ({attempt.error})' if attempt.error else ''}"
            )


def _cells(entry: "Entry") -> tuple[str, ...]:
    versions = sorted({version for counts in entry.expver.values() for version in counts})
    return (
        str(entry.month),
        entry.state,
        f"{entry.rows:,}",
        f"{entry.hours} of {entry.hours_expected}",
        f"{entry.locations:,}",
        entry.source or "",
        "+".join(versions),
        "all" if len(entry.columns) == len(VARIABLES) else ", ".join(str(facts["column"]) for facts in entry.columns),
        f"{entry.loaded_at:%Y-%m-%d %H:%M} UTC" if entry.loaded_at else "",
    )
