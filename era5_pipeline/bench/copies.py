"""COPY: from Python tuples, from columns without a Python object per value, from CSV files, by other programs."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pgpq
import psycopg
from psycopg import sql

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.copy_methods import COLUMNS, PARALLEL_COPY, ParallelCopy, pipeline_copy
from era5_pipeline.bench.load_method import WEATHER_COLUMNS, Batch, Family, LoadMethod, Row, psycopg_session, tuples_of
from era5_pipeline.flat.formats import open_sink
from era5_pipeline.postgres.urls import url_parameters
from era5_pipeline.warehouse.layouts.layout import WEATHER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from era5_pipeline.flat.flat_month import FlatMonth

# --- Whether the server can read a file on this machine, as needed by COPY from a file and pg_bulkload ---


def server_reads(connection: psycopg.Connection[Any], path: Path) -> bool:
    """Whether the server sees this file, with its size, under the same path; False also if this user may not ask.

    Not for use in a transaction that must continue: a refusal aborts it.
    """
    path.chmod(0o644)
    try:
        row = connection.execute("SELECT size FROM pg_stat_file(%s, true)", (str(path),)).fetchone()
    except psycopg.Error:
        connection.rollback()
        return False
    connection.rollback()
    return row is not None and row[0] == path.stat().st_size


# --- COPY from Python tuples, row by row ---


_TYPES = ("timestamptz", "int4", *["float4"] * (len(COLUMNS) - 2))


class PsycopgRows(LoadMethod):
    """psycopg's `copy.write_row`, the study's best."""

    name: ClassVar[str] = "psycopg rows"
    family: ClassVar[Family] = "copy"

    def prepare(self, batch: Batch) -> list[Row]:
        """Make tuples."""
        return tuples_of(batch.rows)

    def load(self, session: psycopg.Connection[Any], prepared: list[Row]) -> None:
        """Write each row, as text."""
        statement = sql.SQL("COPY {} FROM STDIN").format(WEATHER_COLUMNS)
        with session.cursor() as cursor, cursor.copy(statement) as copy:
            for row in prepared:
                copy.write_row(row)
        session.commit()


class PsycopgBinaryRows(PsycopgRows):
    """psycopg's `copy.write_row` in the binary format."""

    name: ClassVar[str] = "psycopg binary rows"

    def load(self, session: psycopg.Connection[Any], prepared: list[Row]) -> None:
        """Write each row, as binary values of the columns' types."""
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(WEATHER_COLUMNS)
        with session.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(_TYPES)
            for row in prepared:
                copy.write_row(row)
        session.commit()


class AsyncpgRecords(PsycopgRows):
    """asyncpg's `copy_records_to_table`."""

    name: ClassVar[str] = "asyncpg records"
    libraries: ClassVar[tuple[str, ...]] = ("asyncpg",)

    @contextmanager
    def session(self, url: str) -> Iterator[Any]:
        """An asyncpg connection, and the event loop that it runs in."""
        import asyncpg  # noqa: PLC0415  # optional

        with asyncio.Runner() as runner:
            connection = runner.run(asyncpg.connect(url))
            try:
                yield runner, connection
            finally:
                runner.run(connection.close())

    def load(self, session: Any, prepared: list[Row]) -> None:  # noqa: ANN401  # the value of `session`
        """Copy all records in one call, which is a transaction."""
        runner, connection = session
        runner.run(connection.copy_records_to_table("weather", records=prepared, columns=list(COLUMNS)))


# --- COPY from columns, without a Python object per value: ADBC, pgpq, and the pipeline's own loader ---


_BATCH_ROWS = 16_384


class AdbcIngest(LoadMethod):
    """ADBC's `adbc_ingest` for an Arrow table."""

    name: ClassVar[str] = "ADBC ingest"
    family: ClassVar[Family] = "copy"
    libraries: ClassVar[tuple[str, ...]] = ("adbc_driver_postgresql",)

    @contextmanager
    def session(self, url: str) -> Iterator[Any]:
        """An ADBC connection."""
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415  # optional

        with dbapi.connect(url) as connection:
            yield connection

    def prepare(self, batch: Batch) -> pa.Table:
        """Return the table unchanged."""
        return batch.rows

    def load(self, session: Any, prepared: pa.Table) -> None:  # noqa: ANN401  # optional library
        """Ingest the table."""
        with session.cursor() as cursor:
            cursor.adbc_ingest("weather", prepared, mode="append")
        session.commit()


class ArrowBinaryCopy(LoadMethod):
    """Arrow encoded as binary COPY by pgpq, from memory: the pipeline's loader without its file."""

    name: ClassVar[str] = "pgpq from memory"
    family: ClassVar[Family] = "copy"

    def prepare(self, batch: Batch) -> pa.Table:
        """Return the table unchanged."""
        return batch.rows

    def load(self, session: psycopg.Connection[Any], prepared: pa.Table) -> None:
        """Encode and send the table."""
        encoder = pgpq.ArrowToPostgresBinaryEncoder(prepared.schema)
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(WEATHER_COLUMNS)
        with session.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(encoder.write_header())
            for part in prepared.to_batches(max_chunksize=_BATCH_ROWS):
                copy.write(encoder.write_batch(part))
            copy.write(encoder.finish())
        session.commit()


class PipelineLoader(LoadMethod):
    """The pipeline's own way: a Parquet file, copied by `warehouse.copy.FlatCopy`, as in `era5 load`."""

    name: ClassVar[str] = "our loader"
    family: ClassVar[Family] = "copy"

    def prepare(self, batch: Batch) -> FlatMonth:
        """Write the file."""
        path = batch.folder / "batch.parquet"
        with open_sink(path, "parquet", batch.rows.schema) as sink:
            sink.write(batch.rows.select(list(COLUMNS)))
        return replace(batch.flat, path=path, rows=batch.rows.num_rows, bytes=path.stat().st_size)

    def load(self, session: psycopg.Connection[Any], prepared: FlatMonth) -> None:
        """Copy the file."""
        with pipeline_copy(prepared) as copy:
            copy(session, WEATHER, freeze=False)
        session.commit()


# --- A CSV file first, then COPY: by pandas as in the study, and by pyarrow as in the pipeline ---


_CHUNK_BYTES = 1 << 20
_OPTIONS = sql.SQL("(FORMAT csv, HEADER true)")


class _CsvCopy(LoadMethod):
    """COPY from a CSV file, which the server reads itself if it can; otherwise it is sent over the connection."""

    family: ClassVar[Family] = "copy"
    # How the last load was read, for `notes`: it explains the rate.
    _is_read_by_server = False

    def load(self, session: psycopg.Connection[Any], prepared: Path) -> None:
        """Copy the file."""
        if server_reads(session, prepared):
            self._is_read_by_server = True
            session.execute(sql.SQL("COPY {} FROM {} {}").format(WEATHER_COLUMNS, sql.Literal(str(prepared)), _OPTIONS))
        else:
            statement = sql.SQL("COPY {} FROM STDIN {}").format(WEATHER_COLUMNS, _OPTIONS)
            with session.cursor() as cursor, prepared.open("rb") as file, cursor.copy(statement) as copy:
                while chunk := file.read(_CHUNK_BYTES):
                    copy.write(chunk)
        session.commit()

    def notes(self, session: psycopg.Connection[Any]) -> dict[str, str]:
        """Say who read the file."""
        del session
        return {"file": "read by the server" if self._is_read_by_server else "sent over the connection"}


class PandasCsvCopy(_CsvCopy):
    """pandas' `to_csv`, then COPY."""

    name: ClassVar[str] = "pandas CSV + COPY"
    libraries: ClassVar[tuple[str, ...]] = ("pandas",)

    def prepare(self, batch: Batch) -> Path:
        """Write the file."""
        path = batch.folder / "pandas.csv"
        batch.rows.to_pandas().to_csv(path, index=False)
        return path


class ArrowCsvCopy(_CsvCopy):
    """pyarrow's CSV, as `era5 load --format csv` writes it, then COPY."""

    name: ClassVar[str] = "pyarrow CSV + COPY"

    def prepare(self, batch: Batch) -> Path:
        """Write the file."""
        return write_batch_csv(batch)


def write_batch_csv(batch: Batch) -> Path:
    """Write the batch as the pipeline's CSV, with a header."""
    path = batch.folder / "pyarrow.csv"
    with open_sink(path, "csv", batch.rows.schema) as sink:
        sink.write(batch.rows.select(list(COLUMNS)))
    return path


# --- Programs that load a CSV file: timescaledb-parallel-copy and pg_bulkload, if they are installed ---


PG_BULKLOAD = "pg_bulkload"
_SECONDS = 3600


@dataclass
class ParallelCopyTool(LoadMethod):
    """timescaledb-parallel-copy with a number of workers."""

    workers: int = 1
    family: ClassVar[Family] = "tool"
    loads_only: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]  # it depends on the workers
        """Its name, with the number of workers."""
        return f"{PARALLEL_COPY}, {self.workers} worker{'s' if self.workers > 1 else ''}"

    def why_missing(self, connection: psycopg.Connection[Any]) -> str | None:
        """Say that the program is not on PATH; None if it is."""
        del connection
        return None if shutil.which(PARALLEL_COPY) else f"{PARALLEL_COPY} is not on PATH"

    @contextmanager
    def session(self, url: str) -> Iterator[str]:
        """The URL: the program opens its connections itself, which is timed."""
        yield url

    def prepare(self, batch: Batch) -> Path:
        """Write the CSV file."""
        return write_batch_csv(batch)

    def load(self, session: str, prepared: Path) -> None:
        """Run the program."""
        ParallelCopy(prepared, self.workers).run(session)

    def notes(self, session: str) -> dict[str, str]:
        """Name the program's version."""
        del session
        return {"version": _version([PARALLEL_COPY, "--version"])}


@dataclass
class BulkloadTool(LoadMethod):
    """pg_bulkload with one of its writers: `direct` and `parallel` bypass the server's buffers and its log."""

    writer: str = "direct"
    family: ClassVar[Family] = "tool"
    loads_only: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]  # it depends on the writer
        """Its name, with the writer."""
        return f"{PG_BULKLOAD}, {self.writer}"

    def why_missing(self, connection: psycopg.Connection[Any]) -> str | None:
        """Name the missing program or extension; None if both are there."""
        if shutil.which(PG_BULKLOAD) is None:
            return f"{PG_BULKLOAD} is not on PATH"
        found = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", (PG_BULKLOAD,)).fetchone()
        return None if found is not None else f"the server has no extension {PG_BULKLOAD}"

    @contextmanager
    def session(self, url: str) -> Iterator[str]:
        """The URL of a database with the extension; the program opens its connection itself, which is timed."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_bulkload")
        yield url

    def prepare(self, batch: Batch) -> Path:
        """Write the CSV file."""
        return write_batch_csv(batch)

    def load(self, session: str, prepared: Path) -> None:
        """Run the program; the server reads the file.

        Raises:
            CannotRunError: if the server cannot read the file, or the program fails.
        """
        with psycopg_session(session) as connection:
            if not server_reads(connection, prepared):
                raise CannotRunError("the server cannot read files of this machine's benchmark folder")
        # The server writes here, as its own user.
        written = prepared.parent / "by-server"
        written.mkdir(exist_ok=True)
        written.chmod(0o777)
        found = url_parameters(session)
        places = {"--host": "host", "--port": "port", "--username": "user", "--dbname": "dbname"}
        options = [word for option, key in places.items() if key in found for word in (option, found[key])]
        settings = ["TYPE=CSV", "SKIP=1", f"WRITER={self.writer.upper()}", "PARSE_ERRORS=0"]
        command = [
            *(PG_BULKLOAD, "--input", str(prepared), "--output", "weather", *options),
            *(word for setting in settings for word in ("--option", setting)),
            *("--logfile", str(written / "log"), "--parse-badfile", str(written / "bad")),
            *("--duplicate-badfile", str(written / "duplicates")),
        ]
        done = subprocess.run(  # noqa: S603  # arguments are not from users
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        if done.returncode != 0:
            output = (done.stderr.strip() or done.stdout.strip()).splitlines()
            errors = [line for line in output if "ERROR" in line] or output[-1:] or [str(done.returncode)]
            raise CannotRunError(f"{PG_BULKLOAD} failed: {errors[0]}")

    def notes(self, session: str) -> dict[str, str]:
        """Name the program's version."""
        del session
        return {"version": _version([PG_BULKLOAD, "--version"])}


def _version(command: list[str]) -> str:
    """The version that a program prints; "unknown" if it prints none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603  # constants
    except OSError:
        return "unknown"
    found = re.search(r"v?(\d+\.\d+[\w.-]*)", done.stdout + done.stderr)
    return found[1] if found else "unknown"
