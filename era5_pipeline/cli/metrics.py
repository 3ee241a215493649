"""`era5 metrics`: numbers of the warehouse for Prometheus."""

from pathlib import Path
from typing import Annotated

import typer

from era5_pipeline.cli.options import era5_settings
from era5_pipeline.cli.output import print_line


def metrics(
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write to this file instead, atomically: readers see the old file or the new one.",
        ),
    ] = None,
    by_month: Annotated[
        bool, typer.Option("--by-month", help="Add a series for each month: its rows, and its state.")
    ] = False,
) -> None:
    """Print months, rows, loads, bytes and the age of the data as OpenMetrics text, for Prometheus.

    \b
    Examples:
      era5 metrics
      era5 metrics --output /var/lib/prometheus/node-exporter/era5.prom
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from datetime import UTC, datetime

    from era5_pipeline.monitor.metrics import openmetrics_text, read_numbers, warehouse_metrics
    from era5_pipeline.planning.updates import due_month
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.runtime.files import replacing

    settings = era5_settings("era5 metrics", None)
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        numbers = read_numbers(connection)
    due = due_month(datetime.fromtimestamp(numbers.now, tz=UTC), settings.available_after_days)
    if numbers.is_locked:
        typer.echo("era5: the table is locked by another session: its bytes are left out", err=True)
    text = openmetrics_text(warehouse_metrics(numbers, due, by_month=by_month))
    if output is None:
        print_line(text.removesuffix("\n"))
        return
    with replacing(output.absolute()) as temporary:
        temporary.write_text(text, encoding="utf-8")
