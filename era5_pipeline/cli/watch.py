"""`era5 watch`: the sessions that load and what limits them, live in a terminal, as lines, or as JSON.

Output only; the queries and the bottleneck are in `monitor.activity`.
"""

import json
import math
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import terminal
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.monitor.activity import Report


def watch(
    *,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=3600, help="Time between two updates.")
    ] = 1.0,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", min=0.1, help="Stop after this time.", show_default="at Ctrl-C"),
    ] = None,
    dataset: options.Dataset = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per update, on one line.")] = False,
) -> None:
    """Show the sessions that load months of the data set, and the bottleneck of the load. The command changes nothing.

    What the sessions wait for is sampled ten times per second.

    \b
    Examples:
      era5 watch
      era5 watch --dataset era5-land
      era5 watch --interval 10 > watch.log
      era5 watch --json --seconds 60 | jq .bottleneck.kind
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.monitor import activity
    from era5_pipeline.postgres.connect import open_warehouse

    for name, value in (("--interval", interval), ("--seconds", seconds)):
        if value is not None and math.isnan(value):
            raise UsageError(f"{name}: nan is not a number of seconds", remedy="Give a number of seconds.")
    with (
        open_warehouse(read_settings(dataset=dataset)) as warehouse,
        closing(activity.watch(warehouse, interval_seconds=interval, seconds=seconds)) as seen,
    ):
        if as_json:
            for report in seen:
                typer.echo(_json_line(report))
        elif sys.stdout.isatty():
            from rich.live import Live
            from rich.text import Text

            # Lines wider than the terminal are wrapped, not truncated.
            first = Text(f"watching {warehouse.shown}; press Ctrl-C to stop")
            with Live(first, console=terminal(), auto_refresh=False) as live:
                for report in seen:
                    live.update(Text("\n".join([warehouse.shown, *_texts(report)])), refresh=True)
        else:
            for report in seen:
                typer.echo(" | ".join(_texts(report)))


def _json_line(report: "Report") -> str:
    from era5_pipeline.monitor.activity import find_bottleneck, wait_shares

    value = {
        "time": report.time.isoformat(),
        "bottleneck": vars(find_bottleneck(report)),
        "waits": {wait: round(share, 3) for wait, share in wait_shares(report.waits).items()},
        "loaders": [vars(loader) for loader in report.loaders],
    }
    return json.dumps(value)


def _texts(report: "Report") -> list[str]:
    """The time, each loading session, and the bottleneck."""
    from era5_pipeline.monitor.activity import find_bottleneck, percent, wait_shares

    texts = [f"{report.time:%Y-%m-%d %H:%M:%S UTC}"]
    for loader in report.loaders:
        waits = [f"{wait} {percent(share)}" for wait, share in list(wait_shares(loader.waits).items())[:3]]
        rows = "? rows" if loader.rows is None else f"{loader.rows:,} rows"
        rate = "?" if loader.rows_per_second is None else f"{loader.rows_per_second:,}"
        megabytes = "?" if loader.bytes_per_second is None else f"{loader.bytes_per_second / 1e6:,.1f}"
        words = (
            f"{loader.month or '?'} (session {loader.pid}) {loader.phase}",
            rows,
            f"{rate} rows/s",
            f"{megabytes} MB/s",
        )
        texts.append(", ".join((*words, *waits)))
    return [*texts, find_bottleneck(report).text]
