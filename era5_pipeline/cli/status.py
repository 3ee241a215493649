"""`era5 status`: the ledger and the table's size on disk, as a table or JSON; with `--coverage`, months by variable."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from era5_pipeline.cli.options import Dataset, require_picture
from era5_pipeline.cli.output import by_cause, narrow_columns, new_table, print_table, terminal
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import named_columns
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    import psycopg
    from rich.console import Console
    from rich.table import Table

    from era5_pipeline.model.months import Month
    from era5_pipeline.read.held import AreaCoverage
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents
    from era5_pipeline.warehouse.space import MonthSpace

# --- `era5 status --coverage`: the months of each variable and area, as a table, as JSON and as a picture ---


_MONTHS = ("complete", "incomplete", "preliminary", "not loaded in between")


def show_coverage(connection: "psycopg.Connection[Any]", *, as_json: bool, out: Path | None) -> None:
    """Print the coverage of the table, and draw it to `out`."""
    from era5_pipeline.postgres.dataset_connection import dataset_of
    from era5_pipeline.read.credit import read_credit
    from era5_pipeline.read.held import read_coverage

    areas = read_coverage(connection)
    if out is not None:
        from era5_pipeline.draw.coverage import coverage_figure
        from era5_pipeline.draw.figures import save_figure

        save_figure(
            coverage_figure(areas, credit=read_credit(connection, None, None), dataset=dataset_of(connection)), out
        )
    if as_json:
        typer.echo(json.dumps([area.to_json() for area in areas], indent=1))
    elif not areas:
        typer.echo("no month has been loaded yet; see era5 load --help")
    else:
        console = terminal()
        table = _table(areas, _MONTHS)
        if not narrow_columns(console, table):  # if too wide, drop empty columns
            rows = [cells for area in areas for _, cells in _rows(area)]
            shown = [name for name, cells in zip(_MONTHS, zip(*rows, strict=True), strict=True) if any(cells)]
            table = _table(areas, shown)
        print_table(console, table, labelled=_MONTHS)
    if out is not None:
        typer.echo(f"wrote {out}", err=True)


def _table(areas: "list[AreaCoverage]", shown: "Collection[str]") -> "Table":
    """The table with the columns `shown`."""
    table = new_table("area", "variables", *shown)
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


_NUMBERS = ("rows", "hours", "locations", "bytes/row")
_COLUMNS = ("month", "state", "area", *_NUMBERS, "source", "version", "columns", "loaded")
# Columns to leave out on a narrow terminal, in this order.
_LEFT_OUT_FIRST = ("loaded", "bytes/row", "locations", "source", "hours", "version")
# Columns whose cells are folded before others are left out.
_FOLDED = ("area", "version", "columns")
# The most parts of a month shown individually.
_SHOWN_PARTS = 8


def status(
    *,
    dataset: Dataset = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a JSON list of months: state, rows, missing hours, bytes, parts and more."),
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Instead, show which months of which variables each area has.")
    ] = False,
    sources: Annotated[
        bool, typer.Option("--sources", help="Instead, ask the sources of ERA5_SOURCE which months they offer.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="With --coverage: draw it to this file, too (PNG, PDF, SVG)."),
    ] = None,
) -> None:
    """Show which months the table holds, where each came from, and its size on disk.

    \b
    Examples:
      era5 status
      era5 status --sources
      era5 status --coverage --out coverage.png
      era5 status --json | jq '.[] | select(.state != "loaded")'
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.dataset import dataset_option
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.monitor.status import read_status
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors

    if out is not None:
        if not coverage:
            raise UsageError(f"--out {out}: only --coverage draws a picture", remedy="Add --coverage, or remove --out.")
        require_picture(out, "--out")
    settings = read_settings(dataset=dataset)
    if sources:
        from datetime import UTC, datetime

        from era5_pipeline.planning.offers import offers_of

        offers = offers_of(settings, datetime.now(tz=UTC))
        typer.echo(json.dumps([one.to_json() for one in offers], indent=1) if as_json else "\n".join(map(str, offers)))
        return
    with (
        open_warehouse(settings) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the ledger"),
    ):
        if coverage:
            show_coverage(connection, as_json=as_json, out=out)
            return
        answer = read_status(settings, connection, with_lake=not as_json)
    if answer.problem is not None:
        typer.echo(f"era5: {answer.problem.message}\n      {answer.problem.remedy}", err=True)
    if as_json:
        typer.echo(json.dumps(answer.to_json(), indent=1))
        return
    if not answer.months:
        typer.echo(f"no month has been loaded yet in {warehouse.shown} ({answer.server}); see era5 load --help")
        return
    console = terminal()
    space = answer.space.months if answer.space else {}
    table, left_out = _fitting(
        console, [cells for month in answer.months for cells in _rows_of_month(month, space.get(month.month))]
    )
    print_table(console, table, labelled=("loaded",))
    if left_out:
        typer.echo(f"columns that do not fit: {', '.join(left_out)} (era5 status --json has all)")
    held = sum(month.rows > 0 for month in answer.months)
    typer.echo(f"{counted(held, 'month')}, {counted(answer.rows, 'row')} in {warehouse.shown} ({answer.server})")
    for line in (*answer.lines, *_attempt_lines(answer.months, dataset_option(settings.wanted_dataset))):
        typer.echo(line)


def _attempt_lines(entries: "Sequence[MonthContents]", of_dataset: str) -> list[str]:
    """Name the months that failed at the last attempt, with the reason: months with the same reason together.

    `of_dataset` is the option of a command for their data set.
    """
    lines: dict[str, list[tuple[Month, str]]] = {"failed": [], "interrupted": []}
    for entry in entries:
        attempt = entry.last_attempt
        if attempt is not None and attempt.outcome in lines:
            reason = (attempt.error or "").removeprefix(f"{entry.month}: ")
            said = f"the last load was {attempt.outcome}{f' ({reason})' if reason else ''}"
            lines[attempt.outcome].append((entry.month, f"{entry.month}: {said}"))
    again = f"era5 load{of_dataset} --failed loads the failed months again, with the settings they had"
    remedy = [again] if lines["failed"] else []
    return [*by_cause(lines["failed"]), *by_cause(lines["interrupted"]), *remedy]


def _fitting(console: "Console", rows: "Sequence[tuple[str, ...]]") -> "tuple[Table, list[str]]":
    """The table with as many columns as fit, folded if necessary, and the names of the others.

    If even the essential columns do not fit, it has all of them, and each month is printed as a paragraph.
    """
    left_out: list[str] = []
    is_last = False
    while True:
        shown = [name for name in _COLUMNS if name not in left_out]
        table = new_table(*shown, right=_NUMBERS, no_wrap=set(_COLUMNS) - set(_FOLDED))
        for row in rows:
            table.add_row(*(cell for name, cell in zip(_COLUMNS, row, strict=True) if name in shown))
        if is_last or narrow_columns(console, table):
            return table, left_out
        is_last = len(left_out) == len(_LEFT_OUT_FIRST)
        left_out = [] if is_last else [*left_out, _LEFT_OUT_FIRST[len(left_out)]]


def _rows_of_month(month: "MonthContents", space: "MonthSpace | None") -> "list[tuple[str, ...]]":
    """The month's row; if it has several parts, their sum, then a row for each of the first parts."""
    if len(month.parts) == 1:
        return [_cells_of_part(str(month.month), month.parts[0], _bytes_per_row(space))]
    hours = f"{month.hours} of {month.month.hours}"
    whole = (
        *(str(month.month), month.state, f"{len(month.parts)} parts" if month.parts else "", f"{month.rows:,}", hours),
        *(f"{month.locations:,}", _bytes_per_row(space), ", ".join(month.sources), month.version or ""),
        *(named_columns(month.column_names) if month.parts else "", _minute(month.loaded_at)),
    )
    parts = [_cells_of_part(f"  part {part.part}", part, "") for part in month.parts[:_SHOWN_PARTS]]
    more = len(month.parts) - len(parts)
    return [whole, *parts, *([("  ...", "", f"{more} more parts", *[""] * 8)] if more else [])]


def _cells_of_part(name: str, part: "LedgerEntry", bytes_per_row: str) -> tuple[str, ...]:
    return (
        *(name, part.state, str(part.location_ids), f"{part.rows:,}", f"{part.hours} of {part.hours_expected}"),
        *(
            f"{part.locations:,}",
            bytes_per_row,
            ", ".join(part.sources),
            _version(part),
            named_columns(part.column_names),
        ),
        _minute(part.loaded_at),
    )


def _minute(time: "datetime | None") -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC" if time else ""


def _version(part: "LedgerEntry") -> str:
    said: str = part.version
    if said == "mixed":
        said += f": {len(part.preliminary)} of {part.hours} h preliminary"
    elif said.startswith("final") and part.revised_at is not None:
        said += f" (revised {part.revised_at:%Y-%m-%d})"
    if part.confirmed is not None:
        said += f", confirmed by {part.confirmed.source}"
    return said if part.interpolated is None else f"{said}, interpolated"


def _bytes_per_row(space: "MonthSpace | None") -> str:
    if space is None or space.bytes_per_row is None:
        return "shared" if space is not None and space.is_sharing else ""
    return f"{space.bytes_per_row:,.1f}"
