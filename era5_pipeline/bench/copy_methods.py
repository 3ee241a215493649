"""Methods to copy a month into a table: the pipeline's own, and those it is compared with."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
from psycopg import sql

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.flat.formats import KEYS
from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline.warehouse.copy import FlatCopy
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, CopyInto, LocationSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.flat.flat_month import FlatMonth

# The columns of a table with the default variables only, on which the methods are compared.
COLUMNS = (*KEYS, *DEFAULT_COLUMNS)
_COLUMNS = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
PARALLEL_COPY = "timescaledb-parallel-copy"
# Folders on the server's machine: in memory if possible; otherwise a file in the page cache is as fast to read.
_SERVER_FOLDERS = ("/dev/shm", "/tmp")  # noqa: S108  # on the server's machine
_PARALLEL_COPY_SECONDS = 1800


@contextmanager
def pipeline_copy(flat: FlatMonth, spans: tuple[LocationSpan, ...] = (EVERYWHERE,)) -> Iterator[CopyInto]:
    """The pipeline's method: Parquet, encoded as binary COPY."""
    with closing(FlatCopy(flat, spans)) as copy:
        yield copy


def no_copy(
    connection: psycopg.Connection[Any],
    table: sql.Identifier,
    *,
    freeze: bool,
    span: LocationSpan = EVERYWHERE,
) -> int:
    """Copy no rows, so that only the month's empty chunk or partition is created."""
    del connection, table, freeze, span
    return 0


@dataclass
class ServerFile:
    """The upper limit: the server copies the same rows from its own binary file, without a client."""

    path: str

    @classmethod
    def of_table(cls, connection: psycopg.Connection[Any]) -> ServerFile:
        """Let the server write the table's rows to a file that it can read fast.

        Raises:
            CannotRunError: if it cannot write to any of the folders.
        """
        reasons = []
        for folder in _SERVER_FOLDERS:
            path = f"{folder}/era5-bench-{connection.info.backend_pid}.bin"
            try:
                connection.execute(
                    sql.SQL("COPY (SELECT {} FROM weather) TO {} (FORMAT binary)").format(_COLUMNS, sql.Literal(path))
                )
            except psycopg.Error as error:
                reasons.append(" ".join(str(error).split()))
            else:
                return cls(path)
        raise CannotRunError(f"the server cannot write a file: {reasons[-1]}")

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """Copy the file."""
        del span  # the file holds the complete month
        options = "FORMAT binary, FREEZE true" if freeze else "FORMAT binary"
        return connection.execute(
            sql.SQL("COPY {} ({}) FROM {} ({})").format(table, _COLUMNS, sql.Literal(self.path), sql.SQL(options))
        ).rowcount

    def remove(self, connection: psycopg.Connection[Any]) -> None:
        """Truncate the file, as SQL cannot delete it, and delete it if it is on this machine."""
        connection.execute(sql.SQL("COPY (SELECT WHERE false) TO {} (FORMAT text)").format(sql.Literal(self.path)))
        path = Path(self.path)
        with suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()


@dataclass
class RowByRow:
    """The best method of the original study: psycopg's `copy.write_row`, with tuples made from the same Parquet file.

    `write_seconds` is the time for writing only, without reading the file and making the tuples.
    """

    flat: FlatMonth
    most_rows: int
    write_seconds: float = 0.0
    rows: int = 0

    def __call__(
        self,
        connection: psycopg.Connection[Any],
        table: sql.Identifier,
        *,
        freeze: bool,
        span: LocationSpan = EVERYWHERE,
    ) -> int:
        """Copy the first rows, up to `most_rows`."""
        del span
        self.write_seconds, self.rows = 0.0, 0
        statement = sql.SQL("COPY {} ({}) FROM STDIN{}").format(
            table, _COLUMNS, sql.SQL(" (FREEZE true)" if freeze else "")
        )
        with pq.ParquetFile(self.flat.path) as file, connection.cursor() as cursor:
            with cursor.copy(statement) as copy:
                for batch in file.iter_batches(batch_size=50_000, columns=list(COLUMNS)):
                    part = batch.slice(0, self.most_rows - self.rows)
                    tuples = list(zip(*(column.to_pylist() for column in part.columns), strict=True))
                    started = time.monotonic()
                    for row in tuples:
                        copy.write_row(row)
                    self.write_seconds += time.monotonic() - started
                    self.rows += part.num_rows
                    if self.rows >= self.most_rows:
                        break
            return cursor.rowcount


@dataclass
class ParallelCopy:
    """timescaledb-parallel-copy, if the program is on PATH, with a CSV file written in advance."""

    csv: Path
    workers: int
    program: str = field(default_factory=lambda: shutil.which(PARALLEL_COPY) or "")

    def run(self, url: str) -> float:
        """Load the CSV file into `weather` of the database; return the program's run time in seconds.

        Raises:
            CannotRunError: if the program is not on PATH, or fails.
        """
        if not self.program:
            raise CannotRunError(f"{PARALLEL_COPY} is not on PATH")
        command = [
            *(self.program, "--connection", url, "--table", "weather", "--file", str(self.csv), "--skip-header"),
            *("--columns", ",".join(COLUMNS), "--workers", str(self.workers)),
        ]
        started = time.monotonic()
        done = subprocess.run(  # noqa: S603  # arguments are not from users
            command, capture_output=True, text=True, check=False, timeout=_PARALLEL_COPY_SECONDS
        )
        seconds = time.monotonic() - started
        if done.returncode != 0:
            output = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise CannotRunError(f"{PARALLEL_COPY} failed: {output[-1] if output else done.returncode}")
        return seconds
