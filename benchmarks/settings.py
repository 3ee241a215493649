"""Suites that start servers of their own: with one setting changed, and the nine steps of "Loading 60x faster"."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from psycopg import sql

from benchmarks.cells import CannotRunError, Meanwhile, Measured, PlannedCell, rate_ratios, seconds_of
from benchmarks.generated import GeneratedHours
from benchmarks.methods import Batch, flat_batch, pipeline_copy, send_file
from benchmarks.servers import SYNCED_ROWS, Target, number_of, own_server
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, BenchContext, Suite, disk
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.monitor.activity import Report, find_bottleneck, percent, wait_shares, watch
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline.warehouse.layouts.layout import weather_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import psycopg

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse

_WEATHER = sql.Identifier(ERA5.table)
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


def _server(context: BenchContext, settings: Mapping[str, str]) -> AbstractContextManager[Target]:
    return own_server(context.folder / "server", settings, syncs=context.rows >= SYNCED_ROWS)


def _settings_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each setting and each kind of table."""
    hours = GeneratedHours(context.folder / "hours", context.rows)
    return [
        PlannedCell(
            f"{name}, {table}",
            context.rows * BATCHES,
            {"settings": SETTINGS[name], "table": table, "batches": BATCHES},
            _SettingsCell(context, hours, name, is_new=table == TABLES[1]).measure,
        )
        for table, name in product(TABLES, SETTINGS)
    ]


def _settings_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its index, and up to 16 GB of log."""
    tables = context.rows * BATCHES * 2 * TABLE_ROW_BYTES
    return tables + min(tables, 16_000_000_000) + context.rows * _DISTINCT * FILE_ROW_BYTES


@dataclass(frozen=True)
class _SettingsCell:
    context: BenchContext
    hours: GeneratedHours
    name: str
    is_new: bool

    def measure(self) -> Measured:
        """Start a server, load all batches, and discard the server."""
        files = [self._file(number) for number in range(_DISTINCT)]
        # Named like partitions, so that `era5 watch` recognises a load.
        tables = [sql.Identifier(f"weather_2023_07_{number}") if self.is_new else _WEATHER for number in range(BATCHES)]
        with _server(self.context, SETTINGS[self.name]) as target, target.connect() as connection:
            if not self.is_new:
                self._create(connection, _WEATHER)
                connection.execute("CREATE INDEX ON weather (location_id, time)")
            target.calm()
            before = number_of(connection, _WAL_BYTES)
            with WaitSampler(target.warehouse) as sampler:
                seconds = [
                    seconds_of(partial(self._load, connection, files[number % _DISTINCT], table))
                    for number, table in enumerate(tables)
                ]
            wal_bytes = number_of(connection, _WAL_BYTES) - before
            counted = tables if self.is_new else [_WEATHER]
            rows = sum(number_of(connection, _COUNT.format(table)) for table in counted)
        _require(rows, self.hours.rows_per_batch * BATCHES)
        figures = {"seconds": sum(seconds), "wal_bytes_per_row": wal_bytes / rows}
        for share in (50, 95, 99):
            figures[f"batch_p{share}_ms"] = 1000 * float(np.percentile(seconds, share))
        return Measured(rows, figures, notes=sampler.notes())

    def _file(self, number: int) -> FlatMonth:
        """One of the distinct batches, as a Parquet file."""
        folder = self.context.folder / f"batch-{number}"
        folder.mkdir(exist_ok=True)
        return flat_batch(Batch(self.hours.batch(number), self.hours.flat, folder))

    def _create(self, connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
        connection.execute(weather_table(sql.SQL("")))
        if table != _WEATHER:
            connection.execute(sql.SQL("ALTER TABLE weather RENAME TO {}").format(table))
        if self.name == _UNLOGGED:
            connection.execute(sql.SQL("ALTER TABLE {} SET UNLOGGED").format(table))

    def _load(self, connection: psycopg.Connection[Any], flat: FlatMonth, table: sql.Identifier) -> None:
        """Load a batch in a transaction."""
        with pipeline_copy(flat) as copy, connection.transaction():
            if self.is_new:
                self._create(connection, table)
            copy(connection, table, freeze=self.is_new)


_WAL_BYTES = sql.SQL("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
_COUNT = sql.SQL("SELECT count(*) FROM {}")


def _require(rows: int, wanted: int) -> None:
    if rows != wanted:
        raise CannotRunError(f"{rows:,} of {wanted:,} rows are in the tables")


class WaitSampler(Meanwhile):
    """Samples the waits of the loading sessions while the context is open, as `era5 watch` does."""

    def __init__(self, warehouse: Warehouse) -> None:
        super().__init__()
        self._warehouse = warehouse
        self._reports: list[Report] = []

    def run(self) -> None:
        """Watch the sessions."""
        with suppress(Era5Error):  # the measurement itself reports problems of the server
            for report in watch(self._warehouse, interval_seconds=_REPORT_SECONDS):
                self._reports.append(report)
                if self.stopped.is_set():
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


SETTINGS_SUITE = Suite(
    name="settings",
    summary="settings of the server, alone and together",
    load="40 batches of 100,000 rows",
    plan=_settings_cells,
    rows=100_000,
    repeats=3,
    bytes=_settings_bytes,
    own_server=True,
    ratios=rate_ratios(
        {
            f"{name}, {table}": (f"{name}, {table}", f"default, {table}")
            for table, name in product(TABLES, SETTINGS)
            if name != "default"
        }
    ),
)


# --- The nine steps of "Loading 60x faster": a half-hour INSERT made fast, one change at a time, on its own tables ---
#
# The schema is that of the article (Mircea Cadariu, 2024), with the key of the first two steps corrected: there, a
# bigint column referred to a uuid. `--rows` are the readings: 27,405,000 in the article (15,000 meters, 1,827 days).


DAYS = 1827
_SERIES = "generate_series('2019-02-01'::date, '2024-02-01'::date, '1 day'::interval) seq"


@dataclass(frozen=True)
class Step:
    """A step: its name, its seconds in the article, its tables, and what differs from the step before."""

    name: str
    article_seconds: float
    keys: str
    settings: dict[str, str] = field(default_factory=dict)
    has_foreign_key: bool = True
    has_index: bool = True
    unlogged: bool = False
    by_copy: bool = False


_BUFFERS = {"shared_buffers": "2GB"}
_NO_PAGES = {**_BUFFERS, "full_page_writes": "off"}
STEPS = (
    Step("UUIDv4 keys", 2098.31, "uuidv4"),
    Step("UUIDv7 keys", 821.50, "uuidv7"),
    Step("bigint identity", 646.73, "bigint"),
    Step("shared_buffers 2GB", 595.33, "bigint", _BUFFERS),
    Step("full_page_writes off", 590.01, "bigint", _NO_PAGES),
    Step("no foreign key", 150.71, "bigint", _NO_PAGES, has_foreign_key=False),
    Step("no index", 109.51, "bigint", _NO_PAGES, has_foreign_key=False, has_index=False),
    Step("unlogged", 40.65, "bigint", _NO_PAGES, has_foreign_key=False, has_index=False, unlogged=True),
    Step("COPY", 35.41, "bigint", _NO_PAGES, has_foreign_key=False, has_index=False, unlogged=True, by_copy=True),
)


def _ladder_cells(context: BenchContext) -> list[PlannedCell]:
    """A cell for each step."""
    meters = max(1, round(context.rows / DAYS))
    return [
        PlannedCell(
            f"{number}. {step.name}",
            meters * DAYS,
            {"settings": step.settings, "meters": meters, "days": DAYS, "article_seconds": step.article_seconds},
            _Climb(context, step, meters).measure,
        )
        for number, step in enumerate(STEPS, 1)
    ]


@dataclass(frozen=True)
class _Climb:
    context: BenchContext
    step: Step
    meters: int

    def measure(self) -> Measured:
        """Start a server, make the tables, insert the readings, and discard the server."""
        memory = Machine.here(None).memory_bytes or 0
        if "shared_buffers" in self.step.settings and memory < 6 << 30:
            raise CannotRunError(f"2GB of shared_buffers do not fit: the machine has {memory / 1e9:.1f} GB of memory")
        with _server(self.context, self.step.settings) as target, target.connect() as connection:
            for statement in self._tables():
                connection.execute(statement.encode())
            key = {"uuidv4": "uuidv4()", "uuidv7": "uuidv7()", "bigint": "seq"}[self.step.keys]
            connection.execute(f"INSERT INTO meters SELECT {key} FROM generate_series(1, {self.meters}) seq".encode())
            csv = self._csv(connection) if self.step.by_copy else None
            target.calm()
            if csv is None:
                seconds = seconds_of(lambda: connection.execute(self._insert().encode()))
            else:
                copy = sql.SQL("COPY readings FROM STDIN (FORMAT csv)")
                seconds = seconds_of(partial(send_file, connection, copy, csv))
            rows = number_of(connection, _COUNT.format(sql.Identifier("readings")))
        _require(rows, self.meters * DAYS)
        return Measured(rows, {"seconds": seconds})

    def _tables(self) -> list[str]:
        step = self.step
        kind = "bigint" if step.keys == "bigint" else "uuid"
        key = " PRIMARY KEY" if step.has_index else ""
        identity = " GENERATED ALWAYS AS IDENTITY" if kind == "bigint" and step.has_index else ""
        reference = ", FOREIGN KEY (meter_id) REFERENCES meters (id)" if step.has_foreign_key else ""
        create = "CREATE UNLOGGED TABLE" if step.unlogged else "CREATE TABLE"
        return [
            f"{create} meters (id {kind}{key})",
            f"{create} readings (id {kind}{identity}{key}, meter_id {kind}, reading double precision, date date"
            f"{reference})",
        ]

    def _insert(self) -> str:
        columns, values = "meter_id, date, reading", "m.id, seq, random()"
        if self.step.keys != "bigint":
            columns, values = f"id, {columns}", f"{self.step.keys}(), {values}"
        return f"INSERT INTO readings ({columns}) SELECT {values} FROM {_SERIES}, meters m"

    def _csv(self, connection: psycopg.Connection[Any]) -> Path:
        """The readings as the CSV file that the last step copies; making it is not timed, as in the article."""
        path = self.context.folder / f"readings-{self.meters}.csv"
        if not path.exists():
            query = f"COPY (SELECT NULL, m.id, random(), seq::date FROM {_SERIES}, meters m) TO STDOUT (FORMAT csv)"
            with path.open("wb") as file, connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
                for data in copy:
                    file.write(data)
        return path


LADDER = Suite(
    name="ladder",
    summary="the nine steps of Loading 60x faster",
    load="2,740,500 rows (`--rows 27405000` for the article's)",
    plan=_ladder_cells,
    rows=2_740_500,
    repeats=1,
    bytes=disk(3, 0),
    own_server=True,
    # The speed-up of each step over the first one, here.
    ratios=lambda entries: rate_ratios({name: (name, f"1. {STEPS[0].name}") for name in entries})(entries),
)
