"""Metrics of the warehouse for a monitoring system, as text in the OpenMetrics format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from era5_pipeline.model.errors import MonthLockedError
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.attempts import with_outcomes
from era5_pipeline.warehouse.ledger import read_months
from era5_pipeline.warehouse.ledger_entry import LedgerMonth, MonthState
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg
    from prometheus_client import Metric

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month


_OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class _Read(Collector):
    """Metrics that have been read already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def openmetrics_text(families: Iterable[Metric]) -> str:
    """Write the metrics as text, without those that have no sample."""
    registry = CollectorRegistry()
    registry.register(_Read(family for family in families if family.samples))
    encode, _ = choose_encoder(_OPENMETRICS)
    return encode(registry).decode()


# The number of loads whose rates are averaged: enough that one small month does not decide.
_RECENT_LOADS = 10
_STATES: tuple[MonthState, ...] = get_args(MonthState)
# Final outcomes of an attempt; their counts never decrease.
_ENDED = ("loaded", "failed", "interrupted")
_STAGES = ("raw", "flat", "load")


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
    months: tuple[LedgerMonth, ...] = ()
    attempts: dict[str, int] | None = None
    recent: tuple[RecentLoad, ...] = ()
    raw_bytes: int = 0
    flat_bytes: int = 0
    last_success: float | None = None
    layout: str | None = None
    table_bytes: int | None = None
    is_locked: bool = False


def read_numbers(connection: psycopg.Connection[Any]) -> WarehouseNumbers:
    """Read the facts; all are zero without a ledger. Nothing is created, and read access to the ledger suffices."""
    with server_errors("reading the ledger"):
        (now,) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
        with connection.transaction():
            if connection.execute(
                dataset_of(connection).sql("SELECT to_regclass('{schema}.load_attempt')")
            ).fetchone() == (None,):
                return WarehouseNumbers(now)
            months = read_months(connection)
            attempts = connection.execute(with_outcomes("metrics_attempts", dataset_of(connection))).fetchall()
            recent = connection.execute(
                read_sql("metrics_recent", dataset_of(connection)), {"loads": _RECENT_LOADS}
            ).fetchall()
            totals = connection.execute(read_sql("metrics_totals", dataset_of(connection))).fetchone() or (0, 0, None)
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


def newest_complete_month_of(months: Sequence[LedgerMonth]) -> Month | None:
    """The newest month that is complete, None without one."""
    return max((month.month for month in months if month.state == "loaded"), default=None)


def _table_bytes(connection: psycopg.Connection[Any]) -> tuple[str | None, int | None, bool]:
    """The table's layout and bytes, and whether a lock prevented measuring them."""
    try:
        space = read_space(connection)
    except MonthLockedError:
        return None, None, True
    return space.layout, None if space.layout is None else space.bytes, False


def metrics_of_all(
    of_datasets: Mapping[Dataset, WarehouseNumbers], due: Month, *, by_month: bool = False
) -> list[Metric]:
    """The metrics of data sets: one series of each for each data set, whose name is the label `dataset`.

    `due` is the newest month that a table should hold by now.
    """
    together: dict[str, Metric] = {}
    for dataset, numbers in of_datasets.items():
        for family in warehouse_metrics(numbers, due, by_month=by_month):
            own = [sample._replace(labels={"dataset": dataset.name, **sample.labels}) for sample in family.samples]
            before = together[family.name].samples if family.name in together else []
            family.samples = before + own
            together[family.name] = family
    return [*together.values()]


def warehouse_metrics(numbers: WarehouseNumbers, due: Month, *, by_month: bool = False) -> list[Metric]:
    """The metrics of a data set with help and unit; `due` is the newest month that the table should hold by now.

    They are gauges and counters only: node_exporter rejects a whole file because of a type that Prometheus' older
    format does not have, such as `info`. With `by_month`, each month is a series; without, the number of series does
    not depend on the data.
    """
    table = {} if numbers.table_bytes is None else {str(numbers.layout): numbers.table_bytes}
    return [
        *_month_metrics(numbers, due),
        *_attempt_metrics(numbers),
        *_rate_metrics(numbers),
        _gauge("era5_table_bytes", "Disk space of the table, with indexes and TOAST.", table, label="layout"),
        _gauge("era5_raw_bytes", "Raw files that the table was made of, when loaded.", numbers.raw_bytes),
        _gauge("era5_flat_bytes", "Flat files that the table was made of, when loaded.", numbers.flat_bytes),
        *(_metrics_by_month(numbers) if by_month else ()),
    ]


def _gauge(name: str, text: str, values: float | Mapping[str, float] | None, *, label: str = "") -> Metric:
    """A gauge with one value, or one for each value of its label; its unit, if it has one, ends its name."""
    unit = next((unit for unit in ("bytes", "seconds") if name.endswith(f"_{unit}")), "")
    if not isinstance(values, Mapping):
        return GaugeMetricFamily(name, text, value=values, unit=unit)
    family = GaugeMetricFamily(name, text, labels=[label], unit=unit)
    for of_label, value in values.items():
        family.add_metric([of_label], value)
    return family


def _month_metrics(numbers: WarehouseNumbers, due: Month) -> list[Metric]:
    states = Counter(month.state for month in numbers.months)
    held = [month.month for month in numbers.months if month.rows]
    newest = newest_complete_month_of(numbers.months)
    until = None if newest is None else newest.end.timestamp()
    overdue = None if newest is None else max(0, due.number - newest.number)
    return [
        _gauge("era5_months", "Months in the ledger by state.", {one: states[one] for one in _STATES}, label="state"),
        _gauge("era5_rows", "Rows in the table, by the ledger.", sum(month.rows for month in numbers.months)),
        _gauge(
            "era5_preliminary_months",
            "Months with preliminary (ERA5T) hours.",
            sum(month.is_preliminary for month in numbers.months),
        ),
        _gauge(
            "era5_oldest_month_timestamp_seconds",
            "Start of the oldest month in the table.",
            min(held).start.timestamp() if held else None,
        ),
        _gauge(
            "era5_newest_month_timestamp_seconds",
            "Start of the newest month in the table.",
            max(held).start.timestamp() if held else None,
        ),
        _gauge("era5_complete_until_timestamp_seconds", "End of the newest month that is complete.", until),
        _gauge(
            "era5_data_age_seconds",
            "Time since the end of the newest month that is complete.",
            None if until is None else numbers.now - until,
        ),
        _gauge("era5_overdue_months", "Months since the newest complete one that should be here by now.", overdue),
    ]


def _attempt_metrics(numbers: WarehouseNumbers) -> list[Metric]:
    attempts = numbers.attempts or {}
    last = numbers.last_success
    ended = CounterMetricFamily(
        "era5_load_attempts", "Attempts to load a month that have ended, by outcome.", labels=["outcome"]
    )
    for outcome in _ENDED:
        ended.add_metric([outcome], attempts.get(outcome, 0))
    return [
        ended,
        _gauge("era5_running_loads", "Loads that are running now.", attempts.get("running", 0)),
        _gauge(
            "era5_last_success_timestamp_seconds", "When a load last succeeded, or found its month unchanged.", last
        ),
        _gauge(
            "era5_last_success_age_seconds",
            "Time since a load last succeeded, or found its month unchanged.",
            None if last is None else numbers.now - last,
        ),
    ]


def _rate_metrics(numbers: WarehouseNumbers) -> list[Metric]:
    means: dict[str, float] = {}
    for stage in _STAGES:
        known = [seconds for load in numbers.recent if (seconds := load.seconds[stage]) is not None]
        if known:
            means[stage] = sum(known) / len(known)
    rows = sum(load.rows for load in numbers.recent)
    seconds = sum(load.seconds["load"] or 0.0 for load in numbers.recent)
    return [
        _gauge(
            "era5_recent_stage_seconds",
            f"Mean duration of each stage, over the last {_RECENT_LOADS} loads.",
            means,
            label="stage",
        ),
        _gauge(
            "era5_recent_rows_per_second",
            f"Rows that loads wrote per second, over the last {_RECENT_LOADS} loads.",
            rows / seconds if seconds > 0 else None,
        ),
    ]


def _metrics_by_month(numbers: WarehouseNumbers) -> list[Metric]:
    rows = GaugeMetricFamily(
        "era5_month_rows", "Rows of each month in the table, by the ledger.", labels=["month", "state"]
    )
    for month in numbers.months:
        rows.add_metric([str(month.month), month.state], month.rows)
    return [rows]
