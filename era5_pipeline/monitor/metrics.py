"""Metrics of the warehouse for a monitoring system, as text in the OpenMetrics format."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.ledger_entry import MonthState
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psycopg

# --- Metrics as text in the OpenMetrics format, which Prometheus and node_exporter's textfile collector read ---


Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class MetricFamily:
    """A metric with its samples, by labels; `unit` is the end of its name, empty for a pure number.

    There are only these two types: node_exporter rejects a whole file because of one that Prometheus' older format does
    not have, such as `info`.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: Mapping[Labels, float]
    unit: str = ""


def openmetrics_text(families: Iterable[MetricFamily]) -> str:
    """Write the metrics as text, without those that have no sample."""
    lines = [line for family in families if family.samples for line in _lines_of(family)]
    return "\n".join([*lines, "# EOF", ""])


def _lines_of(family: MetricFamily) -> Iterable[str]:
    yield f"# TYPE {family.name} {family.kind}"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}"
    yield f"# HELP {family.name} {_escaped(family.help)}"
    suffix = "_total" if family.kind == "counter" else ""
    for labels, value in family.samples.items():
        written = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
        yield f"{family.name}{suffix}{f'{{{written}}}' if written else ''} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


# --- Metrics of the warehouse: months, rows, loads, bytes, and the age of the data ---


# The number of loads whose rates are averaged: enough that one small month does not decide.
_RECENT_LOADS = 10
_STATES: tuple[MonthState, ...] = get_args(MonthState)
# Final outcomes of an attempt; their counts never decrease.
_ENDED = ("loaded", "failed", "interrupted")
_STAGES = ("raw", "flat", "load")
_NO_LABELS: Labels = ()


@dataclass(frozen=True)
class MonthNumbers:
    """A month of the ledger: its state, as `era5 status` shows it, its rows, and whether some hours are preliminary."""

    month: Month
    state: MonthState
    rows: int
    is_preliminary: bool


@dataclass(frozen=True)
class RecentLoad:
    """Rows of one load, and the seconds of its stages, None if unknown."""

    rows: int
    seconds: dict[str, float | None]


@dataclass(frozen=True)
class WarehouseNumbers:
    """Facts from the ledger and the server. Times are Unix seconds by the server's clock.

    `table_bytes` is None if there is no table, or it is locked (`is_locked`).
    """

    now: float
    months: tuple[MonthNumbers, ...] = ()
    attempts: dict[str, int] | None = None
    recent: tuple[RecentLoad, ...] = ()
    raw_bytes: int = 0
    flat_bytes: int = 0
    last_success: float | None = None
    layout: str | None = None
    table_bytes: int | None = None
    is_locked: bool = False


def read_numbers(connection: psycopg.Connection[Any]) -> WarehouseNumbers:
    """Read the facts; all are zero without a ledger. Nothing is created, and read access to the ledger suffices.

    Raises:
        Era5Error: as `server_errors` says.
    """
    with server_errors("reading the ledger"):
        (now,) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
        with connection.transaction():
            if connection.execute("SELECT to_regclass('era5.load_attempt')").fetchone() == (None,):
                return WarehouseNumbers(now)
            months = read_months(connection)
            attempts = connection.execute(read_sql("metrics_attempts")).fetchall()
            recent = connection.execute(read_sql("metrics_recent"), {"loads": _RECENT_LOADS}).fetchall()
            totals = connection.execute(read_sql("metrics_totals")).fetchone() or (0, 0, None)
    layout, table_bytes, is_locked = _table_bytes(connection)
    return WarehouseNumbers(
        now=now,
        months=months,
        attempts=dict(attempts),
        recent=tuple(RecentLoad(rows, dict(zip(_STAGES, seconds, strict=True))) for rows, *seconds in recent),
        raw_bytes=totals[0],
        flat_bytes=totals[1],
        last_success=totals[2],
        layout=layout,
        table_bytes=table_bytes,
        is_locked=is_locked,
    )


def read_months(connection: psycopg.Connection[Any]) -> tuple[MonthNumbers, ...]:
    """Read every month of the ledger, in order; empty without a ledger."""
    if connection.execute("SELECT to_regclass('era5.load_attempt')").fetchone() == (None,):
        return ()
    return tuple(
        MonthNumbers(Month(day.year, day.month), state, rows, is_preliminary)
        for day, state, rows, is_preliminary in connection.execute(read_sql("metrics_months"))
    )


def newest_complete_month_of(months: Sequence[MonthNumbers]) -> Month | None:
    """The newest month that is complete, None without one."""
    return max((month.month for month in months if month.state == "loaded"), default=None)


def _table_bytes(connection: psycopg.Connection[Any]) -> tuple[str | None, int | None, bool]:
    """The table's layout and bytes, and whether a lock prevented measuring them."""
    try:
        space = read_space(connection)
    except MonthLockedError:
        return None, None, True
    return space.layout, None if space.layout is None else space.bytes, False


def warehouse_metrics(numbers: WarehouseNumbers, due: Month, *, by_month: bool = False) -> list[MetricFamily]:
    """The metrics with help and unit; `due` is the newest month that the table should hold by now.

    With `by_month`, each month is a series; without, the number of series does not depend on the data.
    """
    return [
        *_month_metrics(numbers, due),
        *_attempt_metrics(numbers),
        *_rate_metrics(numbers),
        *_byte_metrics(numbers),
        *(_metrics_by_month(numbers) if by_month else ()),
    ]


def _gauge(name: str, text: str, value: float | None, unit: str = "") -> MetricFamily:
    return MetricFamily(name, "gauge", text, {} if value is None else {_NO_LABELS: value}, unit)


def _month_metrics(numbers: WarehouseNumbers, due: Month) -> list[MetricFamily]:
    states = Counter(month.state for month in numbers.months)
    held = [month.month for month in numbers.months if month.rows]
    newest = newest_complete_month_of(numbers.months)
    until = None if newest is None else newest.end.timestamp()
    overdue = None if newest is None else max(0, due.number - newest.number)
    return [
        MetricFamily(
            "era5_months", "gauge", "Months in the ledger by state.", {(("state", s),): states[s] for s in _STATES}
        ),
        _gauge("era5_rows", "Rows in the table weather, by the ledger.", sum(month.rows for month in numbers.months)),
        _gauge(
            "era5_preliminary_months",
            "Months with preliminary (ERA5T) hours.",
            sum(month.is_preliminary for month in numbers.months),
        ),
        _gauge(
            "era5_oldest_month_timestamp_seconds",
            "Start of the oldest month in the table.",
            min(held).start.timestamp() if held else None,
            "seconds",
        ),
        _gauge(
            "era5_newest_month_timestamp_seconds",
            "Start of the newest month in the table.",
            max(held).start.timestamp() if held else None,
            "seconds",
        ),
        _gauge("era5_complete_until_timestamp_seconds", "End of the newest month that is complete.", until, "seconds"),
        _gauge(
            "era5_data_age_seconds",
            "Time since the end of the newest month that is complete.",
            None if until is None else numbers.now - until,
            "seconds",
        ),
        _gauge("era5_overdue_months", "Months since the newest complete one that should be here by now.", overdue),
    ]


def _attempt_metrics(numbers: WarehouseNumbers) -> list[MetricFamily]:
    attempts = numbers.attempts or {}
    last = numbers.last_success
    return [
        MetricFamily(
            "era5_load_attempts",
            "counter",
            "Attempts to load a month that have ended, by outcome.",
            {(("outcome", outcome),): attempts.get(outcome, 0) for outcome in _ENDED},
        ),
        _gauge("era5_running_loads", "Loads that are running now.", attempts.get("running", 0)),
        _gauge(
            "era5_last_success_timestamp_seconds",
            "When a load last succeeded, or found its month unchanged.",
            last,
            "seconds",
        ),
        _gauge(
            "era5_last_success_age_seconds",
            "Time since a load last succeeded, or found its month unchanged.",
            None if last is None else numbers.now - last,
            "seconds",
        ),
    ]


def _rate_metrics(numbers: WarehouseNumbers) -> list[MetricFamily]:
    means: dict[Labels, float] = {}
    for stage in _STAGES:
        known = [seconds for load in numbers.recent if (seconds := load.seconds[stage]) is not None]
        if known:
            means[(("stage", stage),)] = sum(known) / len(known)
    rows = sum(load.rows for load in numbers.recent)
    seconds = sum(load.seconds["load"] or 0.0 for load in numbers.recent)
    return [
        MetricFamily(
            "era5_recent_stage_seconds",
            "gauge",
            f"Mean duration of each stage, over the last {_RECENT_LOADS} loads.",
            means,
            "seconds",
        ),
        _gauge(
            "era5_recent_rows_per_second",
            f"Rows that loads wrote per second, over the last {_RECENT_LOADS} loads.",
            rows / seconds if seconds > 0 else None,
        ),
    ]


def _byte_metrics(numbers: WarehouseNumbers) -> list[MetricFamily]:
    table: dict[Labels, float] = {}
    if numbers.table_bytes is not None:
        table[(("layout", str(numbers.layout)),)] = numbers.table_bytes
    return [
        MetricFamily(
            "era5_table_bytes", "gauge", "Disk space of the table weather, with indexes and TOAST.", table, "bytes"
        ),
        _gauge("era5_raw_bytes", "Raw files that the table was made of, when loaded.", numbers.raw_bytes, "bytes"),
        _gauge("era5_flat_bytes", "Flat files that the table was made of, when loaded.", numbers.flat_bytes, "bytes"),
    ]


def _metrics_by_month(numbers: WarehouseNumbers) -> list[MetricFamily]:
    rows: dict[Labels, float] = {
        (("month", str(month.month)), ("state", month.state)): month.rows for month in numbers.months
    }
    return [MetricFamily("era5_month_rows", "gauge", "Rows of each month in the table weather, by the ledger.", rows)]
