"""`era5 revise`: fetch months with preliminary hours again, compare them, and replace those that differ."""

import json
from typing import Annotated

import typer

from era5_pipeline.cli import options


def revise(
    *,
    after_months: Annotated[
        int | None,
        typer.Option(
            "--after-months",
            metavar="N",
            min=0,
            max=24,
            help="Only months that ended at least N months ago.",
            show_default="3",
        ),
    ] = None,
    dataset: options.Dataset = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the months.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list with the result of each month.")] = False,
) -> None:
    """Update months that were loaded while ERA5 had only preliminary data (ERA5T) for them.

    Each month is fetched again, with the area and variables that it has in the table. If the values are the same, the
    table is not changed, and the ledger records them as final. Of several sources in ERA5_SOURCE, months of a later one
    are fetched from an earlier one that has them in final form, too. The schedule revise_preliminary does the same.

    \b
    Examples:
      era5 revise --dry-run
      era5 revise
      era5 revise --after-months 2
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from datetime import UTC, datetime

    from era5_pipeline.cli.run_months import run_months
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.planning.updates import revisions
    from era5_pipeline.postgres.connect import open_connection
    from era5_pipeline.warehouse.ledger import read_ledger

    settings = read_settings(revise_after_months=after_months, dataset=dataset)
    with open_connection(settings, "reading the ledger") as connection:
        ledger = read_ledger(connection)
    updates = revisions(settings, ledger, datetime.now(tz=UTC))
    if dry_run or not updates:
        if as_json:
            typer.echo(json.dumps([{"month": str(u.month), "reason": u.reason} for u in updates], indent=1))
            return
        for update in updates:
            typer.echo(update.reason)
        if not updates:
            typer.echo(f"no month with preliminary hours ended at least {settings.revise_after_months} months ago")
        return
    of_dataset = {} if dataset is None else {"dataset": dataset}
    wanted = [(update.month, {**update.overrides, **of_dataset}) for update in updates]
    raise typer.Exit(run_months(settings, wanted, as_json=as_json))
