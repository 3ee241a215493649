"""`era5 verify`: compare table, summaries, ledger, lake and kept files, month by month."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import print_line, terminal


def verify(
    *,
    from_: options.FirstMonth = None,
    to: options.LastMonth = None,
    dataset: options.Dataset = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of what was compared.")] = False,
) -> None:
    """Compare the table with the ledger, month by month, and both with the lake and the files that are kept.

    Compared are rows, a digest of every value of every column, the summaries with the hours, and the rules of today
    with the files that a month was loaded from. Reads every row of these months, and changes nothing. Exit code 4 if
    anything differs.

    \b
    Examples:
      era5 verify
      era5 verify --from 2023-01 --to 2023-12
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from datetime import UTC, datetime

    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.model.dataset import dataset_option
    from era5_pipeline.model.errors import RefusedError
    from era5_pipeline.model.months import Month, months_between, spans
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.monitor.verify import months_in_table, verify_month
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.warehouse.ledger import read_ledger
    from era5_pipeline.warehouse.schema import existing_layout

    settings = read_settings(dataset=dataset)
    results = []
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        if existing_layout(connection) is None:
            months: tuple[Month, ...] = ()
        elif from_ is not None:
            months = tuple(months_between(from_, to))
            settings.wanted_dataset.require_months(months)
        else:
            held = {contents.month for contents in read_ledger(connection) if contents.parts}
            months = tuple(sorted(held | set(months_in_table(connection, Month.of(datetime.now(tz=UTC))))))
        for month in months:
            with stage_bars(terminal(stderr=True), str(month), "verify"):
                result = verify_month(connection, settings, month)
            results.append(result)
            if not as_json:
                equal = f"{month}: {result.rows:,} rows are equal ({', '.join(result.compared)})"
                for line in result.differences or (equal if result.rows else f"{month}: not loaded",):
                    print_line(line)
    if as_json:
        print_line(json.dumps([asdict(one) | {"month": str(one.month)} for one in results], indent=1))
    different = [result.month for result in results if result.differences]
    if different:
        of_dataset = dataset_option(settings.wanted_dataset)
        raise RefusedError(
            f"{len(different)} of {len(results)} months differ: {spans(different, shown=8)}",
            remedy="Load them again: "
            + "; ".join(f"era5 load{of_dataset} --force --from {month} --to {month}" for month in different[:3])
            + (" and so on." if len(different) > 3 else "."),
        )
