"""`era5 drop`: remove months, or an area of them, from the table, after showing what goes."""

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from era5_pipeline.cli.options import CalendarMonthsOption
from era5_pipeline.cli.output import print_line
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from era5_pipeline.warehouse.drop_month import DroppedMonth

# The most months named individually.
_SHOWN = 12


def drop(
    *,
    from_: Annotated[
        str, typer.Option("--from", metavar="YYYY-MM", help="First month; a year stands for all its months.")
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="YYYY-MM", help="Last month, or year.", show_default="same as --from")
    ] = None,
    calendar_month: CalendarMonthsOption = None,
    area: Annotated[
        str | None,
        typer.Option(
            "--area", metavar="N/W/S/E", help="Only this rectangle, in degrees.", show_default="all locations"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before removing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove from the table alone if there is a lake, and ERA5_LAKE is unset.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of what was removed.")] = False,
) -> None:
    """Remove months, or an area of them, from the table weather.

    What would go is shown first. A lake (ERA5_LAKE) loses the same rows. Each month is one transaction. The ledger
    keeps a row of what each month was; files in ERA5_HOME stay, so that era5 load brings a month back.

    \b
    Examples:
      era5 drop --from 2023-07
      era5 drop --from 2023-01 --to 2023-12 --area 14.75/41/12.5/43 --yes
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.lake.open_lake import ORPHAN_HOURS, open_lake
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.months import months_between, parse_calendar_months
    from era5_pipeline.model.question import asked_area
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.warehouse.drop_month import drop_month, what_would_go

    settings = read_settings()
    months = months_between(from_, to, parse_calendar_months(calendar_month or ()))
    rectangle = asked_area(area)
    locations = None if rectangle is None else LocationSet.of_area(rectangle)
    with open_warehouse(settings) as warehouse:
        lake = None if settings.lake is None else open_lake(settings)
        with warehouse.connect() as connection:
            going = what_would_go(connection, months, locations)
            if lake is None:
                _require_lake_if_there_is_one(connection, force=force)
            only_in_lake = () if lake is None else lake.months_beyond(connection, months)
        if not going and not only_in_lake:
            typer.echo(f"nothing to remove: {warehouse.shown} holds none of these months there", err=True)
            if as_json:
                print_line("[]")
            return
        if going:
            _show(going, "would remove" if not yes else "removing")
        for beyond in only_in_lake:
            typer.echo(f"{beyond}  {'removing' if yes else 'would remove'}: the lake alone has it", err=True)
        if not yes:
            _ask()
        done = []
        if lake is not None:
            for beyond in only_in_lake:
                lake.remove_beyond(warehouse, beyond, locations, settings.lock_timeout_seconds)
        for month in going:
            done.append(
                drop_month(
                    warehouse,
                    month.month,
                    locations,
                    lock_timeout_seconds=settings.lock_timeout_seconds,
                    on_wait=lambda text: typer.echo(text, err=True),
                    alongside=None if lake is None else partial(lake.remove, month.month),
                )
            )
            if not as_json:
                print_line(f"{month.month}  removed {done[-1].rows:,} rows")
        for note in () if lake is None else lake.after_commit(warehouse, ORPHAN_HOURS):
            typer.echo(note, err=True)
    if as_json:
        print_line(json.dumps([_as_json(month) for month in done], indent=1))


def _require_lake_if_there_is_one(connection: "psycopg.Connection[Any]", *, force: bool) -> None:
    """Refuse to leave the months in a lake that the settings do not name (`UsageError`), unless forced."""
    from era5_pipeline.lake.pointer import address_of, metadata_file

    file = metadata_file(connection)
    if file is None:
        return
    if not force:
        raise UsageError(
            f"this database has a lake at {address_of(file)}, and ERA5_LAKE is unset: its months would stay there",
            remedy=f"Set ERA5_LAKE={address_of(file)}; or add --force to remove them from the table alone.",
        )
    typer.echo(f"the lake at {address_of(file)} keeps what it has: ERA5_LAKE is unset", err=True)


def _show(going: "Sequence[DroppedMonth]", verb: str) -> None:
    """Print what is removed on stderr, as it is neither the result nor a part of the JSON."""
    for month in going[:_SHOWN]:
        for part in month.parts:
            typer.echo(f"{month.month}  {verb} {part.rows:,} rows: {part}", err=True)
        if month.kept_locations:
            typer.echo(f"         {month.kept_locations:,} other places of the month stay", err=True)
    if len(going) > _SHOWN:
        typer.echo(f"and {len(going) - _SHOWN} more months, to {going[-1].month}", err=True)
    months = "1 month" if len(going) == 1 else f"{len(going)} months"
    typer.echo(f"{months}, {sum(month.rows for month in going):,} rows in all", err=True)


def _ask() -> None:
    """Ask for a confirmation: a `UsageError` if nobody can answer, `typer.Abort` if the answer is no."""
    if not sys.stdin.isatty():
        raise UsageError(
            "era5 drop asks for confirmation, and there is no terminal to answer on", remedy="Add --yes to remove."
        )
    typer.confirm("Remove?", abort=True, err=True)


def _as_json(month: "DroppedMonth") -> dict[str, object]:
    from dataclasses import asdict

    return {
        "month": str(month.month),
        "rows": month.rows,
        "removed": [asdict(part) for part in month.parts],
        "kept_locations": month.kept_locations,
    }
