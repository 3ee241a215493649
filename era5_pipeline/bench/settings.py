"""The effect of each server setting on a load: alone and together, on a server started for it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from psycopg import sql

from era5_pipeline.bench.cells import CannotRunError, Measured, PlannedCell, ratio
from era5_pipeline.bench.copies import PipelineLoader
from era5_pipeline.bench.copy_methods import pipeline_copy
from era5_pipeline.bench.generated import GeneratedHours
from era5_pipeline.bench.load_method import Batch
from era5_pipeline.bench.servers import SYNCED_ROWS, ServerTemplate
from era5_pipeline.bench.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, rate_of
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.monitor.activity import Report, find_bottleneck, percent, wait_shares, watch
from era5_pipeline.warehouse.layouts.layout import WEATHER, weather_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from era5_pipeline.bench.suite import BenchContext, Entries
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse

BATCHES = 40
_DISTINCT = 4
_UNLOGGED = "unlogged"
_REPORT_SECONDS = 0.5

_MINIMAL = {"wal_level": "minimal", "max_wal_senders": "0"}
_SAFE = {**_MINIMAL, "max_wal_size": "16GB", "jit": "off"}
_ALL = {**_SAFE, "synchronous_commit": "off", "full_page_writes": "off", "fsync": "off"}
# The settings of each cell, on top of PostgreSQL's defaults; `unlogged` is a property of the table.
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "synchronous_commit=off": {"synchronous_commit": "off"},
    "full_page_writes=off": {"full_page_writes": "off"},
    "fsync=off": {"fsync": "off"},
    "wal_level=minimal": _MINIMAL,
    "max_wal_size=16GB": {"max_wal_size": "16GB"},
    "wal_compression=pglz": {"wal_compression": "pglz"},
    "jit=off": {"jit": "off"},
    _UNLOGGED: {},
    "together, durable": _SAFE,
    "together, not durable": _ALL,
}
# Either rows are added to one table with a B-tree, as most users have it, or each batch is a new table, filled in the
# transaction that creates it, as the pipeline does on plain PostgreSQL.
TABLES = ("one table with a B-tree", "a new table for each batch")


@contextmanager
def settings_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each setting and each kind of table."""
    hours = GeneratedHours(context.folder / "hours", context.rows)
    template = ServerTemplate(context.folder / "servers", syncs=context.rows >= SYNCED_ROWS)
    yield [
        PlannedCell(
            f"{name}, {table}",
            context.rows * BATCHES,
            {"settings": settings, "table": table, "batches": BATCHES},
            _SettingsCell(context, hours, template, name, table).measure,
        )
        for table in TABLES
        for name, settings in SETTINGS.items()
    ]


def settings_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its index, and up to 16 GB of log."""
    tables = context.rows * BATCHES * 2 * TABLE_ROW_BYTES
    return tables + min(tables, 16_000_000_000) + context.rows * _DISTINCT * FILE_ROW_BYTES


def settings_ratios(entries: Entries) -> dict[str, float | None]:
    """The rate with each setting over that with the defaults."""
    return {
        f"{name}, {table}": ratio(rate_of(entries, f"{name}, {table}"), rate_of(entries, f"default, {table}"))
        for table in TABLES
        for name in SETTINGS
        if name != "default"
    }


@dataclass(frozen=True)
class _SettingsCell:
    context: BenchContext
    hours: GeneratedHours
    template: ServerTemplate
    name: str
    table: str

    def measure(self) -> Measured:
        """Start a server, load all batches, and discard the server."""
        files = self._files()
        with self.template.server(SETTINGS[self.name]) as target, target.connect() as connection:
            if self.table == TABLES[0]:
                self._create(connection, WEATHER)
                connection.execute("CREATE INDEX ON weather (location_id, time)")
            target.calm()
            before = _wal_bytes(connection)
            with WaitSampler(target.warehouse) as sampler:
                seconds = [self._load(connection, files[number % _DISTINCT], number) for number in range(BATCHES)]
            wal_bytes = _wal_bytes(connection) - before
            rows = self._count(connection)
        wanted = self.hours.rows_per_batch * BATCHES
        if rows != wanted:
            raise CannotRunError(f"{rows:,} of {wanted:,} rows are in the tables")
        p50, p95, p99 = (float(value) * 1000 for value in np.percentile(seconds, (50, 95, 99)))
        figures = {"seconds": sum(seconds), "wal_bytes_per_row": wal_bytes / rows}
        latencies = {"batch_p50_ms": p50, "batch_p95_ms": p95, "batch_p99_ms": p99}
        return Measured(rows, figures | latencies, notes=sampler.notes())

    def _files(self) -> list[FlatMonth]:
        """The distinct batches as Parquet files."""
        found = []
        for number in range(_DISTINCT):
            folder = self.context.folder / f"batch-{number}"
            folder.mkdir(exist_ok=True)
            rows, path = self.hours.batch(number), folder / "batch.parquet"
            if path.exists():
                flat = replace(self.hours.flat, path=path, rows=rows.num_rows, bytes=path.stat().st_size)
            else:
                flat = PipelineLoader().prepare(Batch(rows, self.hours.flat, folder))
            found.append(flat)
        return found

    def _create(self, connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
        connection.execute(weather_table(sql.SQL("")))
        if table != WEATHER:
            connection.execute(sql.SQL("ALTER TABLE weather RENAME TO {}").format(table))
        if self.name == _UNLOGGED:
            connection.execute(sql.SQL("ALTER TABLE {} SET UNLOGGED").format(table))

    def _load(self, connection: psycopg.Connection[Any], flat: FlatMonth, number: int) -> float:
        """Load a batch in a transaction; return its seconds."""
        is_new = self.table == TABLES[1]
        # Named like a partition, so that `era5 watch` recognises a load.
        table = sql.Identifier(f"weather_2023_07_{number}") if is_new else WEATHER
        started = time.monotonic()
        with pipeline_copy(flat) as copy, connection.transaction():
            if is_new:
                self._create(connection, table)
            copy(connection, table, freeze=is_new)
        return time.monotonic() - started

    def _count(self, connection: psycopg.Connection[Any]) -> int:
        tables = [f"weather_2023_07_{number}" for number in range(BATCHES)] if self.table == TABLES[1] else ["weather"]
        total = 0
        for table in tables:
            row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
            total += int(row[0]) if row else 0
        return total


def _wal_bytes(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    return int(row[0]) if row else 0


class WaitSampler:
    """Samples the waits of the loading sessions while the context is open, as `era5 watch` does."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._reports: list[Report] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for report in watch(self._warehouse, interval_seconds=_REPORT_SECONDS):
                if isinstance(report, Report):
                    self._reports.append(report)
                if self._stopped.is_set():
                    return
        except Era5Error:  # the measurement itself reports problems of the server
            return

    def notes(self) -> dict[str, str]:
        """The name of the bottleneck, and the largest shares of waits; empty if no load was seen."""
        kinds = Counter(find_bottleneck(report).kind for report in self._reports if report.waits)
        waits = sum((report.waits for report in self._reports), Counter[str]())
        if not kinds:
            return {}
        shares = list(wait_shares(waits).items())[:3]
        return {
            "bottleneck": kinds.most_common(1)[0][0],
            "waits": ", ".join(f"{wait} {percent(share)}" for wait, share in shares),
        }
