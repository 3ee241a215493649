"""The nine steps of "Loading 60x faster": a half-hour INSERT made fast, one change at a time, on its own tables.

The schema is that of the article (Mircea Cadariu, 2024), with the key of the first two steps corrected: there, a bigint
column referred to a uuid. `--rows` are the readings: 27,405,000 in the article (15,000 meters, 1,827 days).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.cells import CannotRunError, Measured, PlannedCell, ratio
from era5_pipeline.bench.servers import SYNCED_ROWS, ServerTemplate
from era5_pipeline.bench.suite import TABLE_ROW_BYTES, rate_of
from era5_pipeline.postgres.doctor.server_facts import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import psycopg

    from era5_pipeline.bench.suite import BenchContext, Entries

ARTICLE_ROWS = 27_405_000
DAYS = 1827
_SERIES = "generate_series('2019-02-01'::date, '2024-02-01'::date, '1 day'::interval) seq"
_CHUNK_BYTES = 1 << 20


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


@contextmanager
def ladder_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each step."""
    template = ServerTemplate(context.folder / "servers", syncs=context.rows >= SYNCED_ROWS)
    meters = max(1, round(context.rows / DAYS))
    yield [
        PlannedCell(
            f"{number}. {step.name}",
            meters * DAYS,
            {"settings": step.settings, "meters": meters, "days": DAYS, "article_seconds": step.article_seconds},
            _Climb(template, context.folder, step, meters).measure,
        )
        for number, step in enumerate(STEPS, 1)
    ]


def ladder_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table, its index and the log."""
    return context.rows * 3 * TABLE_ROW_BYTES


def ladder_ratios(entries: Entries) -> dict[str, float | None]:
    """The speed-up of each step over the first one, here."""
    first = f"1. {STEPS[0].name}"
    return {name: ratio(rate_of(entries, name), rate_of(entries, first)) for name in entries}


@dataclass(frozen=True)
class _Climb:
    template: ServerTemplate
    folder: Path
    step: Step
    meters: int

    def measure(self) -> Measured:
        """Start a server, make the tables, insert the readings, and discard the server."""
        settings = dict(self.step.settings)
        memory = Machine.here(None).memory_bytes or 0
        if "shared_buffers" in settings and memory < 6 << 30:
            raise CannotRunError(f"2GB of shared_buffers do not fit: the machine has {memory / 1e9:.1f} GB of memory")
        with self.template.server(settings) as target, target.connect() as connection:
            for statement in self._tables():
                connection.execute(statement.encode())
            key = {"uuidv4": "uuidv4()", "uuidv7": "uuidv7()", "bigint": "seq"}[self.step.keys]
            connection.execute(f"INSERT INTO meters SELECT {key} FROM generate_series(1, {self.meters}) seq".encode())
            csv = self._csv(connection) if self.step.by_copy else None
            target.calm()
            started = time.monotonic()
            if csv is None:
                connection.execute(self._insert().encode())
            else:
                _copy(connection, csv)
            seconds = time.monotonic() - started
            row = connection.execute("SELECT count(*) FROM readings").fetchone()
        if row != (self.meters * DAYS,):
            raise CannotRunError(f"{row} readings are in the table, of {self.meters * DAYS:,}")
        return Measured(self.meters * DAYS, {"seconds": seconds})

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
        path = self.folder / f"readings-{self.meters}.csv"
        if not path.exists():
            query = f"COPY (SELECT NULL, m.id, random(), seq::date FROM {_SERIES}, meters m) TO STDOUT (FORMAT csv)"
            with path.open("wb") as file, connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
                for data in copy:
                    file.write(data)
        return path


def _copy(connection: psycopg.Connection[Any], path: Path) -> None:
    statement = "COPY readings FROM STDIN (FORMAT csv)"
    with path.open("rb") as file, connection.cursor() as cursor, cursor.copy(statement) as copy:
        while chunk := file.read(_CHUNK_BYTES):
            copy.write(chunk)
