"""`era5 drop`: remove months, or an area of them, from the table, after showing what goes."""

import json
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import print_line, terminal
from era5_pipeline.model.errors import Era5Error, UsageError
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.drop_month import DroppedMonth

# The most months named individually.
_SHOWN = 12


def drop(
    *,
    from_: Annotated[str, typer.Option("--from", metavar="YYYY-MM", help=options.FIRST_MONTH_HELP)],
    to: options.LastMonth = None,
    calendar_month: options.CalendarMonths = None,
    dataset: options.Dataset = None,
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
    keeps a row of what each month was; files in ERA5_HOME stay, so that era5 load brings a month back. In Dagster, a
    month without any rows left counts as failed, so that its web UI offers it to a backfill again.

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

    settings = read_settings(dataset=dataset)
    months = months_between(from_, to, parse_calendar_months(calendar_month or ()))
    settings.wanted_dataset.require_months(months)
    rectangle = asked_area(area, settings.wanted_dataset.grid)
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
        done: list[DroppedMonth] = []
        if lake is not None:
            for beyond in only_in_lake:
                lake.remove_beyond(warehouse, beyond, locations, settings.lock_timeout_seconds)
        with _recorded_in_dagster(settings, warehouse, done):
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
                    print_line(f"{month.month}  removed {counted(done[-1].rows, 'row')}")
        for note in () if lake is None else lake.after_commit(warehouse, ORPHAN_HOURS):
            typer.echo(note, err=True)
    if as_json:
        print_line(json.dumps([_as_json(month) for month in done], indent=1))


def _require_lake_if_there_is_one(connection: "psycopg.Connection[Any]", *, force: bool) -> None:
    """Refuse to leave the months in a lake that the settings do not name (`UsageError`), unless forced."""
    from era5_pipeline.lake.pointer import address_of, metadata_file
    from era5_pipeline.postgres.dataset_connection import dataset_of

    file = metadata_file(connection)
    if file is None:
        return
    address = address_of(file, dataset_of(connection))
    if not force:
        raise UsageError(
            f"this database has a lake at {address}, and ERA5_LAKE is unset: its months would stay there",
            remedy=f"Set ERA5_LAKE={address}; or add --force to remove them from the table alone.",
        )
    typer.echo(f"the lake at {address} keeps what it has: ERA5_LAKE is unset", err=True)


def _show(going: "Sequence[DroppedMonth]", verb: str) -> None:
    """Print what is removed on stderr, as it is neither the result nor a part of the JSON."""
    for month in going[:_SHOWN]:
        for part in month.parts:
            typer.echo(f"{month.month}  {verb} {counted(part.rows, 'row')}: {part}", err=True)
        if month.kept_locations:
            stay = "stays" if month.kept_locations == 1 else "stay"
            typer.echo(f"         {counted(month.kept_locations, 'other place')} of the month {stay}", err=True)
    if len(going) > _SHOWN:
        typer.echo(f"and {counted(len(going) - _SHOWN, 'more month')}, to {going[-1].month}", err=True)
    rows = sum(month.rows for month in going)
    typer.echo(f"{counted(len(going), 'month')}, {counted(rows, 'row')} in all", err=True)


@contextmanager
def _recorded_in_dagster(
    settings: "Settings", warehouse: "Warehouse", done: "Sequence[DroppedMonth]"
) -> "Iterator[None]":
    """Record in Dagster, if there is one, which of the months in `done` have no rows left when this context ends."""
    try:
        yield
    finally:
        _record_in_dagster(settings, warehouse, [one.month for one in done if one.parts and not one.kept_locations])


def _record_in_dagster(settings: "Settings", warehouse: "Warehouse", emptied: "Sequence[Month]") -> None:
    from era5_pipeline.postgres.connect import has_dagster

    try:
        if not emptied or not has_dagster(warehouse, settings):
            return
        from era5_pipeline.cli.run_months import import_dagster

        with terminal(stderr=True).status("recording in Dagster that they are removed"):
            import_dagster()
            from era5_pipeline.defs.instance.open_instance import open_instance
            from era5_pipeline.defs.runner import record_dropped

            with open_instance(settings.home) as instance:
                record_dropped(instance, emptied, settings.wanted_dataset)
    except Era5Error as error:
        typer.echo(
            f"warning: the months are removed, but Dagster's web UI still shows them as loaded: {error.message}",
            err=True,
        )


def _ask() -> None:
    """Ask for a confirmation: a `UsageError` without a terminal, `typer.Abort` if the answer is no."""
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
