"""`era5 watch`: activity of the server during a load, live in a terminal, as lines, or as JSON.

Output only; the queries and the bottleneck are in `monitor.activity`.
"""

import json
import math
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from era5_pipeline.cli.output import terminal
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from rich.console import Group, RenderableType
    from rich.table import Table

    from era5_pipeline.monitor.activity import Outage, Report
    from era5_pipeline.monitor.sessions import Loader

_HISTORY = 60
_BARS = "▁▂▃▄▅▆▇█"
_TIME = "%Y-%m-%d %H:%M:%S UTC"


def watch(
    *,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, max=3600, help="Time between two updates.")
    ] = 1.0,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", min=0.1, help="Stop after this time.", show_default="at Ctrl-C"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per update, on one line.")] = False,
) -> None:
    """Show the server's activity during a load, and its bottleneck. The command changes nothing.

    The wait events of the loading sessions are sampled ten times per second.

    \b
    Examples:
      era5 watch
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
        open_warehouse(read_settings()) as warehouse,
        closing(activity.watch(warehouse, interval_seconds=interval, seconds=seconds)) as seen,
    ):
        if as_json:
            _print_each(seen, _json_line)
        elif sys.stdout.isatty():
            _live(seen, warehouse.shown)
        else:
            _print_each(seen, _Lines())


def _print_each(seen: "Iterable[Report | Outage]", as_line: "Callable[[Report | Outage], str]") -> None:
    for one in seen:
        typer.echo(as_line(one))


def _json_line(seen: "Report | Outage") -> str:
    from era5_pipeline.monitor.activity import Outage, find_bottleneck, wait_shares

    if isinstance(seen, Outage):
        return json.dumps({"time": seen.time.isoformat(), "server": "gone", "message": seen.message})
    bottleneck = find_bottleneck(seen)
    value: dict[str, Any] = {
        "time": seen.time.isoformat(),
        "server": "up",
        "bottleneck": {"kind": bottleneck.kind, "text": bottleneck.text},
        "rows_per_second": _rounded(seen.rows_per_second),
        "bytes_per_second": _rounded(seen.bytes_per_second),
        "waits": {wait: round(share, 3) for wait, share in wait_shares(seen.waits).items()},
        "wal_bytes_per_second": _rounded(seen.wal_bytes_per_second),
        "checkpoints": {
            "timed": seen.checkpoints_timed,
            "requested": seen.checkpoints_requested,
            "requested_lately": seen.requested_lately,
        },
        "active_sessions": seen.active_sessions,
        "all_sessions_visible": seen.all_visible,
        "has_months": seen.has_months,
        "database_bytes": seen.database_bytes,
        "database_bytes_per_second": _rounded(seen.database_bytes_per_second),
        "loaders": [
            {
                "pid": loader.pid,
                "name": loader.name,
                "month": str(loader.month) if loader.month else None,
                "phase": loader.phase,
                "rows": loader.rows,
                "rows_per_second": _rounded(loader.rows_per_second),
                "bytes": loader.bytes,
                "bytes_per_second": _rounded(loader.bytes_per_second),
                "glances": dict(loader.waits),
                "blocked_by": loader.blocked_by,
            }
            for loader in seen.loaders
        ],
    }
    return json.dumps(value)


def _rounded(rate: float | None) -> int | None:
    return None if rate is None else round(rate)


class _Lines:
    """A line per update, and a note when the server is reachable again."""

    def __init__(self) -> None:
        self._is_gone = False

    def __call__(self, seen: "Report | Outage") -> str:
        from era5_pipeline.monitor.activity import Outage, find_bottleneck

        was_gone, self._is_gone = self._is_gone, isinstance(seen, Outage)
        time = f"{seen.time:{_TIME}}"
        if isinstance(seen, Outage):
            return f"{time} | {_gone_text(seen)}"
        words = [time, "the server is back"] if was_gone else [time]
        if seen.loaders:
            words += [
                ", ".join(f"{loader.month or f'session {loader.pid}'} {loader.phase}" for loader in seen.loaders),
                f"{_rows(seen.rows_per_second)} rows/s, {_megabytes(seen.bytes_per_second)}/s",
                _waits(seen.waits),
            ]
        words += [
            f"WAL {_wal(seen)}",
            f"checkpoints {_checkpoints(seen)}",
            find_bottleneck(seen).text,
        ]
        return " | ".join(word for word in (*words, _ledger_text(seen)) if word)


def _live(seen: "Iterable[Report | Outage]", shown: str) -> None:
    from collections import deque

    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from era5_pipeline.monitor.activity import Outage

    console = terminal()
    ascii_only = console.options.ascii_only
    history: deque[float] = deque(maxlen=_HISTORY)
    gone_since: datetime | None = None
    outage = ""
    # Lines wider than the terminal are wrapped, not truncated.
    first = Text(f"watching {shown}; press Ctrl-C to stop", style="dim")
    with Live(first, console=console, auto_refresh=False) as live:
        for one in seen:
            header = Text(f"{shown}  {one.time:{_TIME}}", style="dim")
            if isinstance(one, Outage):
                gone_since = gone_since or one.time
                live.update(Group(header, Text(_gone_text(one), style="bold red")), refresh=True)
                continue
            if gone_since is not None:
                outage = f"the server is back: it was gone from {gone_since:%H:%M:%S} to {one.time:%H:%M:%S} UTC"
                history.clear()
                gone_since = None
            history.append(one.rows_per_second or 0.0)
            notes = [Text(line, style="yellow") for line in (outage, _ledger_text(one)) if line]
            line = "" if ascii_only else _sparkline(history)
            live.update(Group(header, *notes, _report(one, line)), refresh=True)


def _report(report: "Report", history: str) -> "Group":
    from rich.box import SIMPLE
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from era5_pipeline.monitor.activity import find_bottleneck

    parts: list[RenderableType] = []
    if report.loaders:
        table = Table(box=SIMPLE)
        for name in ("month", "session", "phase"):
            table.add_column(name, no_wrap=True)
        for name in ("rows", "rows/s", "MB/s"):
            table.add_column(name, justify="right", no_wrap=True)
        # The waits of a single session are shown below.
        several = len(report.loaders) > 1
        if several:
            table.add_column("waits")
        for loader in report.loaders:
            table.add_row(*_cells(loader), *((_waits(loader.waits),) if several else ()))
        parts.append(table)
    parts += [_facts(report, history), Text(find_bottleneck(report).text, style="bold")]
    return Group(*parts)


def _facts(report: "Report", history: str) -> "Table":
    from rich.table import Table

    facts = Table.grid(padding=(0, 2))
    facts.add_row("rows/s", f"{_rows(report.rows_per_second)}  {history}")
    if report.loaders:
        facts.add_row("COPY data", f"{_megabytes(report.bytes_per_second)}/s")
        facts.add_row("waits", _waits(report.waits) or "?")
    facts.add_row("WAL", _wal(report))
    facts.add_row("checkpoints", f"{_checkpoints(report)}, since the watch began")
    facts.add_row("active sessions", f"{report.active_sessions}{'' if report.all_visible else ' of this user'}")
    if report.database_bytes is not None:
        growth = report.database_bytes_per_second
        size = f"{report.database_bytes / 1e9:,.2f} GB"
        facts.add_row("database", size if growth is None else f"{size}, {growth / 1e6:+,.1f} MB/s")
    return facts


def _cells(loader: "Loader") -> tuple[str, ...]:
    from era5_pipeline.monitor.sessions import COPYING

    return (
        str(loader.month or "?"),
        str(loader.pid),
        loader.phase,
        _rows(loader.rows) if loader.phase == COPYING else "",
        _rows(loader.rows_per_second),
        "?" if loader.bytes_per_second is None else f"{loader.bytes_per_second / 1e6:,.1f}",
    )


def _waits(waits: "Mapping[str, int]") -> str:
    from era5_pipeline.monitor.activity import percent, wait_shares

    return ", ".join(f"{wait} {percent(share)}" for wait, share in list(wait_shares(waits).items())[:3])


def _rows(rows: float | None) -> str:
    return "?" if rows is None else f"{rows:,.0f}"


def _megabytes(count: float | None) -> str:
    return "? MB" if count is None else f"{count / 1e6:,.1f} MB"


def _wal(report: "Report") -> str:
    rate = report.wal_bytes_per_second
    return "none (a standby)" if rate is None else f"{_megabytes(rate)}/s"


def _checkpoints(report: "Report") -> str:
    return f"{report.checkpoints_timed} timed, {report.checkpoints_requested} requested"


def _ledger_text(report: "Report") -> str:
    return "no month has been loaded yet" if report.has_months is False else ""


def _gone_text(gone: "Outage") -> str:
    return f"the server is gone ({gone.message}); trying again until it answers, or Ctrl-C"


def _sparkline(rates: "Sequence[float]") -> str:
    most = max(rates, default=0.0)
    return "".join(_BARS[round(rate / most * (len(_BARS) - 1))] for rate in rates) if most > 0 else ""
