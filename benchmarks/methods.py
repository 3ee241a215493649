"""All ways to load a batch of rows: INSERTs, COPY, and other programs; in the order in which results are shown."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import psycopg
from psycopg import sql

from benchmarks.cells import CannotRunError
from era5_pipeline.flat.formats import KEYS, open_sink
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline.postgres.urls import url_parameters
from era5_pipeline.warehouse.copy import FlatCopy
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, WEATHER, CopyInto, LocationSpan, create_weather

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa
    from sqlalchemy.engine import Connection

    from era5_pipeline.flat.flat_month import FlatMonth

# --- What several ways need: the columns of the table, the pipeline's own copy, and a program ---


# The columns of a table with the default variables only, on which the methods are compared.
COLUMNS = (*KEYS, *DEFAULT_COLUMNS)
PARALLEL_COPY = "timescaledb-parallel-copy"
_PARALLEL_COPY_SECONDS = 1800


@contextmanager
def pipeline_copy(flat: FlatMonth, spans: tuple[LocationSpan, ...] = (EVERYWHERE,)) -> Iterator[CopyInto]:
    """The pipeline's method: Parquet, encoded as binary COPY."""
    with closing(FlatCopy(flat, spans)) as copy:
        yield copy


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


# --- The base class of ways to load rows, and the batch in memory that each starts from ---


Family = Literal["insert", "multi-insert", "copy", "tool"]

WEATHER_COLUMNS = sql.SQL("weather ({})").format(sql.SQL(", ").join(map(sql.Identifier, COLUMNS)))
INSERT_TEXT = f"INSERT INTO weather ({', '.join(COLUMNS)}) VALUES "


@dataclass(frozen=True)
class Batch:
    """Rows to load, and the flat month that they come from; a way writes its files to `folder`."""

    rows: pa.Table
    flat: FlatMonth
    folder: Path


class LoadMethod(ABC):
    """A way to load a batch into the table `weather`.

    `libraries` are the modules that it imports but the package does not require. `loads_only`: it is measured without
    its preparation, as the study does for tools that start from a CSV file.
    """

    name: ClassVar[str]
    family: ClassVar[Family]
    libraries: ClassVar[tuple[str, ...]] = ()
    loads_only: ClassVar[bool] = False

    def why_missing(self, connection: psycopg.Connection[Any]) -> str | None:
        """Why this way cannot be used here or with this server; None if it can."""
        del connection
        lacking = [name for name in self.libraries if find_spec(name.split(".", maxsplit=1)[0]) is None]
        return f"the library {lacking[0]} is not installed" if lacking else None

    def session(self, url: str) -> AbstractContextManager[Any]:
        """A connection for one load; opening it is not timed."""
        return psycopg_session(url)

    @abstractmethod
    def prepare(self, batch: Batch) -> Any:  # noqa: ANN401  # the argument of `load`
        """Convert the batch to the form that `load` takes."""

    @abstractmethod
    def load(self, session: Any, prepared: Any) -> None:  # noqa: ANN401  # the values of `session` and `prepare`
        """Load the prepared batch, and commit."""

    def notes(self, session: Any) -> dict[str, str]:  # noqa: ANN401  # the value of `session`
        """Remarks for the table of results by name, such as the version of a tool; empty by default."""
        del session
        return {}


@contextmanager
def psycopg_session(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A psycopg connection in UTC that commits when asked."""
    with psycopg.connect(url, options="-c TimeZone=UTC") as connection:
        yield connection


# --- The rows of a batch as Python values: tuples, dicts, columns ---
#
# NULL becomes None, times are aware.


Row = tuple[Any, ...]


def tuples_of(rows: pa.Table) -> list[Row]:
    """The rows as tuples, in the order of the columns."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def dicts_of(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts by column name."""
    names = rows.column_names
    return [dict(zip(names, row, strict=True)) for row in tuples_of(rows)]


def parts_of(values: list[Row], size: int) -> Iterator[list[Row]]:
    """The rows in parts of up to `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


# --- The tables on which the ways are compared, as in the study: a regular one, and TimescaleDB's hypertable ---


TableKind = Literal["regular", "hypertable"]
TABLE_KINDS: tuple[TableKind, ...] = ("regular", "hypertable")


def make_study_table(connection: psycopg.Connection[Any], kind: TableKind) -> None:
    """Create an empty `weather`: without any index, or as `create_hypertable('weather', 'time')` leaves it.

    Raises:
        CannotRunError: if the server has no TimescaleDB.
    """
    connection.execute("DROP TABLE IF EXISTS weather CASCADE")
    create_weather(connection, sql.SQL(""))
    if kind == "hypertable":
        require_timescaledb(connection)
        connection.execute("SELECT create_hypertable('weather', 'time')")


def require_timescaledb(connection: psycopg.Connection[Any]) -> None:
    """Require that the database has TimescaleDB.

    Raises:
        CannotRunError: if it has not.
    """
    if connection.execute("SELECT FROM pg_extension WHERE extname = 'timescaledb'").fetchone() is None:
        raise CannotRunError("the server has no TimescaleDB")


# --- One INSERT per row: the slowest ways, with which most programs begin ---


ONE_ROW = INSERT_TEXT + f"({', '.join(['%s'] * len(COLUMNS))})"
NAMED_ROW = INSERT_TEXT + f"({', '.join(f':{name}' for name in COLUMNS)})"


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Connection]:
    """A SQLAlchemy connection over psycopg; the engine is disposed of afterwards."""
    from sqlalchemy import create_engine  # other suites do without it

    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1), connect_args={"options": "-c TimeZone=UTC"}
    )
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


class PsycopgInsert(LoadMethod):
    """psycopg's `execute`, a statement per row, one transaction."""

    name: ClassVar[str] = "psycopg"
    family: ClassVar[Family] = "insert"

    def prepare(self, batch: Batch) -> list[Row]:
        """Make tuples."""
        return tuples_of(batch.rows)

    def load(self, session: psycopg.Connection[Any], prepared: list[Row]) -> None:
        """Execute the statement for each row."""
        statement = ONE_ROW.encode()
        with session.cursor() as cursor:
            for row in prepared:
                cursor.execute(statement, row)
        session.commit()


class SqlalchemyInsert(LoadMethod):
    """SQLAlchemy's `execute` with a text, a statement per row, one transaction."""

    name: ClassVar[str] = "SQLAlchemy"
    family: ClassVar[Family] = "insert"
    libraries: ClassVar[tuple[str, ...]] = ("sqlalchemy",)
    session = staticmethod(sqlalchemy_session)

    def prepare(self, batch: Batch) -> list[dict[str, Any]]:
        """Make dicts."""
        return dicts_of(batch.rows)

    def load(self, session: Connection, prepared: list[dict[str, Any]]) -> None:
        """Execute the statement for each row."""
        from sqlalchemy import text  # other suites do without it

        statement = text(NAMED_ROW)
        for row in prepared:
            session.execute(statement, row)
        session.commit()


class PandasInsert(LoadMethod):
    """pandas' `to_sql` with chunks of one row, one transaction."""

    name: ClassVar[str] = "pandas"
    family: ClassVar[Family] = "insert"
    libraries: ClassVar[tuple[str, ...]] = ("sqlalchemy", "pandas")
    session = staticmethod(sqlalchemy_session)
    options: ClassVar[dict[str, Any]] = {"chunksize": 1}

    def prepare(self, batch: Batch) -> pd.DataFrame:
        """Make a data frame."""
        return batch.rows.to_pandas()  # type: ignore[no-any-return]  # pyarrow is not typed

    def load(self, session: Connection, prepared: pd.DataFrame) -> None:
        """Insert the data frame."""
        prepared.to_sql("weather", session, if_exists="append", index=False, **self.options)
        session.commit()


# --- Many rows in an INSERT, or many INSERTs in a message ---


# The protocol allows 65,535 parameters in a statement: ten columns of 1,000 rows are 10,000.
_ROWS_PER_STATEMENT = 1000
_ROWS_PER_ARRAY = 10_000
_SQL_TYPES = ("timestamptz", "integer", *["real"] * (len(COLUMNS) - 2))


class PandasMultiInsert(PandasInsert):
    """pandas' `to_sql` with the method "multi" and chunks of 1,000 rows."""

    family: ClassVar[Family] = "multi-insert"
    options: ClassVar[dict[str, Any]] = {"method": "multi", "chunksize": _ROWS_PER_STATEMENT}


class PsycopgExecutemany(PsycopgInsert):
    """psycopg's `executemany`, which sends statements without waiting for each answer."""

    name: ClassVar[str] = "psycopg executemany"
    family: ClassVar[Family] = "multi-insert"

    def load(self, session: psycopg.Connection[Any], prepared: list[Row]) -> None:
        """Execute the statement for all rows."""
        with session.cursor() as cursor:
            cursor.executemany(ONE_ROW.encode(), prepared)
        session.commit()


class PsycopgMultiValues(PsycopgInsert):
    """Statements with 1,000 rows of VALUES."""

    name: ClassVar[str] = "psycopg multi-VALUES"
    family: ClassVar[Family] = "multi-insert"

    def load(self, session: psycopg.Connection[Any], prepared: list[Row]) -> None:
        """Execute one statement for each thousand rows."""
        row = f"({', '.join(['%s'] * len(COLUMNS))})"
        with session.cursor() as cursor:
            for part in parts_of(prepared, _ROWS_PER_STATEMENT):
                statement = INSERT_TEXT + ", ".join([row] * len(part))
                cursor.execute(statement.encode(), [value for values in part for value in values])
        session.commit()


class PsycopgUnnest(LoadMethod):
    """Statements with an array per column, of 10,000 rows each."""

    name: ClassVar[str] = "psycopg UNNEST"
    family: ClassVar[Family] = "multi-insert"

    def prepare(self, batch: Batch) -> list[list[list[Any]]]:
        """Make lists of each column's values."""
        rows = batch.rows
        return [
            [column.to_pylist() for column in rows.slice(start, _ROWS_PER_ARRAY).columns]
            for start in range(0, rows.num_rows, _ROWS_PER_ARRAY)
        ]

    def load(self, session: psycopg.Connection[Any], prepared: list[list[list[Any]]]) -> None:
        """Execute one statement for each ten thousand rows."""
        arrays = ", ".join(f"%s::{name}[]" for name in _SQL_TYPES)
        statement = f"INSERT INTO weather ({', '.join(COLUMNS)}) SELECT * FROM unnest({arrays})".encode()
        with session.cursor() as cursor:
            for part in prepared:
                cursor.execute(statement, part)
        session.commit()


class SqlalchemyMultiInsert(LoadMethod):
    """SQLAlchemy's `execute` with a text and a list of rows."""

    name: ClassVar[str] = "SQLAlchemy"
    family: ClassVar[Family] = "multi-insert"
    libraries: ClassVar[tuple[str, ...]] = ("sqlalchemy",)
    session = staticmethod(sqlalchemy_session)

    def prepare(self, batch: Batch) -> list[dict[str, Any]]:
        """Make dicts."""
        return dicts_of(batch.rows)

    def load(self, session: Connection, prepared: list[dict[str, Any]]) -> None:
        """Execute the statement once for all rows."""
        from sqlalchemy import text  # other suites do without it

        session.execute(text(NAMED_ROW), prepared)
        session.commit()


# --- Whether the server can read a file on this machine, as needed by COPY from a file and pg_bulkload ---


def server_reads(connection: psycopg.Connection[Any], path: Path) -> bool:
    """Return whether the server can read this file: same path, same size. False if this user may not check.

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
        import asyncpg  # optional

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
        from adbc_driver_postgresql import dbapi  # optional

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
    libraries: ClassVar[tuple[str, ...]] = ("pgpq",)

    def prepare(self, batch: Batch) -> pa.Table:
        """Return the table unchanged."""
        return batch.rows

    def load(self, session: psycopg.Connection[Any], prepared: pa.Table) -> None:
        """Encode and send the table."""
        import pgpq  # not on every system

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


# --- All of them, in the order in which results are shown ---


METHODS: tuple[LoadMethod, ...] = (
    PandasInsert(),
    PsycopgInsert(),
    SqlalchemyInsert(),
    PandasMultiInsert(),
    PsycopgExecutemany(),
    PsycopgMultiValues(),
    PsycopgUnnest(),
    SqlalchemyMultiInsert(),
    PandasCsvCopy(),
    ArrowCsvCopy(),
    PsycopgRows(),
    PsycopgBinaryRows(),
    AsyncpgRecords(),
    AdbcIngest(),
    ArrowBinaryCopy(),
    PipelineLoader(),
)


WRITERS = ("direct", "buffered", "parallel")


def methods_of(family: Family, workers: Sequence[int] = (1,)) -> tuple[LoadMethod, ...]:
    """The ways of a family; tools with a number of workers appear once for each number."""
    if family == "tool":
        return (*(ParallelCopyTool(count) for count in workers), *(BulkloadTool(writer) for writer in WRITERS))
    return tuple(method for method in METHODS if method.family == family)


def require_known(names: Sequence[str], workers: Sequence[int]) -> None:
    """Require that each of these names a way to load.

    Raises:
        UsageError: if a name is unknown; the message suggests the nearest.
    """
    known = [method.name for method in (*METHODS, *methods_of("tool", workers))]
    for name in names:
        if name not in known:
            raise unknown("--method", name, known)


def unknown(option: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for an unknown name."""
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"{option}: there is no {name!r}", remedy=f"{meant}Known: {', '.join(dict.fromkeys(known))}.")
