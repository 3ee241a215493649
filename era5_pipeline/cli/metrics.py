"""`era5 metrics`: numbers of the warehouse for Prometheus."""

from pathlib import Path
from typing import Annotated

import typer

from era5_pipeline.cli.options import Dataset
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
    dataset: Dataset = None,
) -> None:
    """Print months, rows, loads, bytes and the age of the data as OpenMetrics text, for Prometheus.

    Of each data set that the database has, by the label dataset; or of --dataset (ERA5_DATASET) alone.

    \b
    Examples:
      era5 metrics
      era5 metrics --output /var/lib/prometheus/node-exporter/era5.prom
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from datetime import UTC, datetime

    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.monitor.metrics import metrics_of_all, openmetrics_text, read_numbers
    from era5_pipeline.planning.updates import due_month
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.dataset_connection import datasets_in, turn_to
    from era5_pipeline.runtime.files import replacing

    settings = read_settings(dataset=dataset)
    own, numbers = settings.wanted_dataset, {}
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        others = () if "dataset" in settings.model_fields_set else datasets_in(connection)
        for one in dict.fromkeys((own, *others)):
            turn_to(connection, one)
            numbers[one] = read_numbers(connection)
    due = due_month(datetime.fromtimestamp(numbers[own].now, tz=UTC), settings.available_after_days)
    for one, of_one in numbers.items():
        if of_one.is_locked:
            typer.echo(f"era5: the table {one.table} is locked by another session: its bytes are left out", err=True)
    text = openmetrics_text(metrics_of_all(numbers, due, by_month=by_month))
    if output is None:
        print_line(text.removesuffix("\n"))
        return
    with replacing(output.absolute()) as temporary:
        temporary.write_text(text, encoding="utf-8")
