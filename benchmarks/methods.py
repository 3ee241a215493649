"""All ways to load a batch of rows: INSERTs, COPY, and other programs; in the order in which results are shown."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import sql

from benchmarks.cells import CannotRunError, missing_library
from era5_pipeline.flat.formats import KEYS, open_sink
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline.postgres.urls import url_parameters
from era5_pipeline.warehouse.copy import FlatCopy
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, LocationSpan, create_weather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa
    from sqlalchemy.engine import Connection

    from era5_pipeline.flat.flat_month import FlatMonth

    Missing = Callable[[psycopg.Connection[Any]], str | None]

Family = Literal["insert", "multi-insert", "copy", "tool"]
Row = tuple[Any, ...]
# Remarks for the table of results by name, such as the version of a tool.
Notes = dict[str, str]

# The columns of a table with the default variables only, on which the methods are compared.
COLUMNS = (*KEYS, *DEFAULT_COLUMNS)
_NAMES = ", ".join(COLUMNS)
WEATHER_COLUMNS = sql.SQL("weather ({})").format(sql.SQL(", ").join(map(sql.Identifier, COLUMNS)))


@dataclass(frozen=True)
class Batch:
    """Rows to load, and the flat month that they come from; a way writes its files to `folder`."""

    rows: pa.Table
    flat: FlatMonth
    folder: Path


# A psycopg connection in UTC that commits when asked.
psycopg_session = partial(psycopg.connect, options="-c TimeZone=UTC")


@dataclass(frozen=True)
class LoadMethod:
    """A way to load a batch into the table `weather`.

    `prepare` converts the batch to the form that `send` takes, which may return remarks. `session` opens a connection
    for one load, which is not timed. `libraries` are the modules that it imports but the package does not require,
    `program` is one on PATH; `missing` says what else it lacks with a server. `loads_only`: it is measured without its
    preparation, as the study does for tools that start from a CSV file.
    """

    name: str
    family: Family
    prepare: Callable[[Batch], Any]
    send: Callable[[Any, Any], Notes | None]
    session: Callable[[str], AbstractContextManager[Any]] = psycopg_session
    libraries: tuple[str, ...] = ()
    program: str = ""
    missing: Missing | None = None
    loads_only: bool = False
    workers: int = 1

    def why_missing(self, connection: psycopg.Connection[Any]) -> str | None:
        """Why this way cannot be used here or with this server; None if it can."""
        reason = missing_library(self.libraries) or (_not_on_path(self.program) if self.program else None)
        return reason or (self.missing(connection) if self.missing else None)

    def load(self, session: Any, prepared: Any) -> Notes:  # noqa: ANN401  # the values of `session` and `prepare`
        """Load the prepared batch, and commit; return remarks."""
        notes = self.send(session, prepared) or {}
        if hasattr(session, "commit"):  # programs and asyncpg commit themselves
            session.commit()
        return notes

    def version(self) -> Notes:
        """The version of its program, as a remark."""
        return {"version": _version(self.program)} if self.program else {}


# --- The tables on which the ways are compared, as in the study: a regular one, and TimescaleDB's hypertable ---


TableKind = Literal["regular", "hypertable"]
TABLE_KINDS: tuple[TableKind, ...] = ("regular", "hypertable")


def make_study_table(connection: psycopg.Connection[Any], kind: TableKind) -> None:
    """Create an empty `weather`: without any index, or as `create_hypertable('weather', 'time')` leaves it."""
    connection.execute("DROP TABLE IF EXISTS weather CASCADE")
    create_weather(connection, sql.SQL(""))
    if kind == "hypertable":
        require_timescaledb(connection)
        connection.execute("SELECT create_hypertable('weather', 'time')")


def require_timescaledb(connection: psycopg.Connection[Any]) -> None:
    """Require that the database has TimescaleDB."""
    if connection.execute("SELECT FROM pg_extension WHERE extname = 'timescaledb'").fetchone() is None:
        raise CannotRunError("the server has no TimescaleDB")


# --- INSERTs: one row each, many rows in one, or many in a message ---
#
# Rows become Python values first: tuples, dicts, lists of columns, a data frame. NULL becomes None, times are aware.


_ONE_ROW = f"({', '.join(['%s'] * len(COLUMNS))})"
_INSERT = f"INSERT INTO weather ({_NAMES}) VALUES "
_NAMED_ROW = f"{_INSERT}({', '.join(f':{name}' for name in COLUMNS)})"
# The protocol allows 65,535 parameters in a statement: ten columns of 1,000 rows are 10,000.
_ROWS_PER_STATEMENT = 1000
_ROWS_PER_ARRAY = 10_000
_TYPES = ("timestamptz", "int4", *["float4"] * (len(COLUMNS) - 2))


def _sqlalchemy_session(url: str) -> Connection:
    """A SQLAlchemy connection over psycopg, of an engine that keeps none."""
    from sqlalchemy import NullPool, create_engine  # other suites do without it

    own = url.replace("postgresql://", "postgresql+psycopg://", 1)
    return create_engine(own, poolclass=NullPool, connect_args={"options": "-c TimeZone=UTC"}).connect()


def _tuples(batch: Batch) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in batch.rows.columns), strict=True))


def _arrays(batch: Batch) -> list[list[list[Any]]]:
    """Lists of each column's values, for ten thousand rows each."""
    return [
        [column.to_pylist() for column in batch.rows.slice(start, _ROWS_PER_ARRAY).columns]
        for start in range(0, batch.rows.num_rows, _ROWS_PER_ARRAY)
    ]


def _execute(session: psycopg.Connection[Any], rows: list[Row], *, many: bool) -> None:
    """Execute a statement for each row, or call `executemany`, which does not wait for each answer."""
    statement = (_INSERT + _ONE_ROW).encode()
    with session.cursor() as cursor:
        if many:
            cursor.executemany(statement, rows)
        else:
            for row in rows:
                cursor.execute(statement, row)


def _multi_values(session: psycopg.Connection[Any], rows: list[Row]) -> None:
    """Execute a statement for each thousand rows of VALUES."""
    with session.cursor() as cursor:
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            part = rows[start : start + _ROWS_PER_STATEMENT]
            statement = _INSERT + ", ".join([_ONE_ROW] * len(part))
            cursor.execute(statement.encode(), [value for row in part for value in row])


def _unnest(session: psycopg.Connection[Any], parts: list[list[list[Any]]]) -> None:
    """Execute a statement for each ten thousand rows, with an array per column."""
    arrays = ", ".join(f"%s::{name}[]" for name in _TYPES)
    statement = f"INSERT INTO weather ({_NAMES}) SELECT * FROM unnest({arrays})".encode()
    with session.cursor() as cursor:
        for part in parts:
            cursor.execute(statement, part)


def _text(session: Connection, rows: list[dict[str, Any]], *, at_once: bool) -> None:
    """Execute SQLAlchemy's `execute` with a text: for each row, or once with a list of rows."""
    from sqlalchemy import text  # other suites do without it

    statement = text(_NAMED_ROW)
    for given in [rows] if at_once else rows:
        session.execute(statement, given)


def _to_sql(session: Connection, frame: pd.DataFrame, **options: Any) -> None:  # noqa: ANN401  # those of pandas
    frame.to_sql("weather", session, if_exists="append", index=False, **options)


# --- COPY from Python tuples, row by row ---


def _copy_statement(options: str = "") -> sql.Composed:
    return sql.SQL("COPY {} FROM STDIN {}").format(WEATHER_COLUMNS, sql.SQL(options))


def _write_rows(session: psycopg.Connection[Any], rows: list[Row], *, is_binary: bool) -> None:
    """Write each row by psycopg's `copy.write_row`, the study's best: as text, or as values of the columns' types."""
    statement = _copy_statement("(FORMAT binary)" if is_binary else "")
    with session.cursor() as cursor, cursor.copy(statement) as copy:
        if is_binary:
            copy.set_types(_TYPES)
        for row in rows:
            copy.write_row(row)


@contextmanager
def _asyncpg_session(url: str) -> Iterator[Any]:
    """The event loop and an asyncpg connection in it."""
    import asyncpg  # optional

    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        try:
            yield runner, connection
        finally:
            runner.run(connection.close())


def _copy_records(session: Any, rows: list[Row]) -> None:  # noqa: ANN401  # the loop and the connection
    """Copy all records by one call of asyncpg, which is a transaction."""
    runner, connection = session
    runner.run(connection.copy_records_to_table("weather", records=rows, columns=list(COLUMNS)))


# --- COPY from columns, without a Python object per value: ADBC, pgpq, and the pipeline's own loader ---


_BATCH_ROWS = 16_384


def _adbc_session(url: str) -> AbstractContextManager[Any]:
    from adbc_driver_postgresql import dbapi  # optional

    session: AbstractContextManager[Any] = dbapi.connect(url)
    return session


def _ingest(session: Any, rows: pa.Table) -> None:  # noqa: ANN401  # optional library
    with session.cursor() as cursor:
        cursor.adbc_ingest("weather", rows, mode="append")


def _encode(session: psycopg.Connection[Any], rows: pa.Table) -> None:
    """Encode Arrow as binary COPY by pgpq, from memory: the pipeline's loader without its file."""
    import pgpq  # not on every system

    encoder = pgpq.ArrowToPostgresBinaryEncoder(rows.schema)
    with session.cursor() as cursor, cursor.copy(_copy_statement("(FORMAT binary)")) as copy:
        copy.write(encoder.write_header())
        for part in rows.to_batches(max_chunksize=_BATCH_ROWS):
            copy.write(encoder.write_batch(part))
        copy.write(encoder.finish())


def pipeline_copy(flat: FlatMonth, spans: tuple[LocationSpan, ...] = (EVERYWHERE,)) -> closing[FlatCopy]:
    """The pipeline's method: Parquet, encoded as binary COPY."""
    return closing(FlatCopy(flat, spans))


def _write_file(batch: Batch, file_format: Literal["parquet", "csv"]) -> Path:
    """Write the batch as a file of the pipeline; CSV has a header."""
    path = batch.folder / f"batch.{file_format}"
    with open_sink(path, file_format, batch.rows.schema) as sink:
        sink.write(batch.rows.select(list(COLUMNS)))
    return path


def flat_batch(batch: Batch) -> FlatMonth:
    """The batch as a flat month with its own Parquet file."""
    path = _write_file(batch, "parquet")
    return replace(batch.flat, path=path, rows=batch.rows.num_rows, bytes=path.stat().st_size)


def _copy_flat(session: psycopg.Connection[Any], flat: FlatMonth) -> None:
    with pipeline_copy(flat) as copy:
        copy(session, sql.Identifier(ERA5.table), freeze=False)


# --- A CSV file first, then COPY: by pandas as in the study, and by pyarrow as in the pipeline ---


_CHUNK_BYTES = 1 << 20
_CSV = "(FORMAT csv, HEADER true)"


def server_reads(connection: psycopg.Connection[Any], path: Path) -> bool:
    """Return whether the server can read this file: same path, same size. False if this user may not check.

    Not for use in a transaction that must continue: a refusal aborts it.
    """
    path.chmod(0o644)
    try:
        row = connection.execute("SELECT size FROM pg_stat_file(%s, true)", (str(path),)).fetchone()
    except psycopg.Error:
        row = None
    connection.rollback()
    return row is not None and row[0] == path.stat().st_size


def _pandas_csv(batch: Batch) -> Path:
    path = batch.folder / "pandas.csv"
    batch.rows.to_pandas().to_csv(path, index=False)
    return path


_arrow_csv = partial(_write_file, file_format="csv")


def _copy_csv(session: psycopg.Connection[Any], path: Path) -> Notes:
    """Copy the file, which the server reads itself if it can; otherwise it is sent over the connection."""
    if server_reads(session, path):
        copy = sql.SQL("COPY {} FROM {} {}").format(WEATHER_COLUMNS, sql.Literal(str(path)), sql.SQL(_CSV))
        session.execute(copy)
        return {"file": "read by the server"}
    send_file(session, _copy_statement(_CSV), path)
    return {"file": "sent over the connection"}


def send_file(connection: psycopg.Connection[Any], statement: sql.SQL | sql.Composed, path: Path) -> None:
    """Send a file by a COPY from the client."""
    with path.open("rb") as file, connection.cursor() as cursor, cursor.copy(statement) as copy:
        while chunk := file.read(_CHUNK_BYTES):
            copy.write(chunk)


# --- Programs that load a CSV file: timescaledb-parallel-copy and pg_bulkload, if they are installed ---


PARALLEL_COPY, PG_BULKLOAD = "timescaledb-parallel-copy", "pg_bulkload"
WRITERS = ("direct", "buffered", "parallel")
_SECONDS = 3600


def parallel_copy(url: str, csv: Path, workers: int) -> None:
    """Load the CSV file into `weather` by timescaledb-parallel-copy, which opens its connections itself."""
    _run_program(
        *(PARALLEL_COPY, "--connection", url, "--table", "weather", "--file", str(csv), "--skip-header"),
        *("--columns", ",".join(COLUMNS), "--workers", str(workers)),
    )


def _lacks_bulkload(connection: psycopg.Connection[Any]) -> str | None:
    found = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", (PG_BULKLOAD,)).fetchone()
    return f"the server has no extension {PG_BULKLOAD}" if found is None else None


def _run_bulkload(url: str, csv: Path, *, writer: str) -> None:
    """Run pg_bulkload; the server reads the file."""
    with psycopg_session(url) as connection:
        if not server_reads(connection, csv):
            raise CannotRunError("the server cannot read files of this machine's benchmark folder")
    # The server writes here, as its own user.
    written = csv.parent / "by-server"
    written.mkdir(exist_ok=True)
    written.chmod(0o777)
    found = url_parameters(url)
    places = {"--host": "host", "--port": "port", "--username": "user", "--dbname": "dbname"}
    settings = ["TYPE=CSV", "SKIP=1", f"WRITER={writer.upper()}", "PARSE_ERRORS=0"]
    _run_program(
        *(PG_BULKLOAD, "--input", str(csv), "--output", "weather"),
        *(word for option, key in places.items() if key in found for word in (option, found[key])),
        *(word for setting in settings for word in ("--option", setting)),
        *("--logfile", str(written / "log"), "--parse-badfile", str(written / "bad")),
        *("--duplicate-badfile", str(written / "duplicates")),
    )


def _bulkload_session(url: str) -> nullcontext[str]:
    """The URL of a database with the extension; the program opens its connection itself, which is timed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_bulkload")
    return nullcontext(url)


def _not_on_path(program: str) -> str | None:
    return None if shutil.which(program) else f"{program} is not on PATH"


def _run_program(program: str, *words: str) -> None:
    if (reason := _not_on_path(program)) is not None:
        raise CannotRunError(reason)
    done = subprocess.run(  # noqa: S603  # arguments are not from users
        (program, *words), capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()
        errors = [line for line in output if "ERROR" in line] or output[-1:] or [str(done.returncode)]
        raise CannotRunError(f"{program} failed: {errors[0]}")


def _version(program: str) -> str:
    """The version that a program prints; "unknown" if it prints none."""
    done = subprocess.run((program, "--version"), capture_output=True, text=True, check=False, timeout=30)  # noqa: S603  # constants
    found = re.search(r"v?(\d+\.\d+[\w.-]*)", done.stdout + done.stderr)
    return found[1] if found else "unknown"


_OF_PANDAS: dict[str, Any] = {
    "prepare": lambda batch: batch.rows.to_pandas(),
    "session": _sqlalchemy_session,
    "libraries": ("sqlalchemy", "pandas"),
}
_OF_SQLALCHEMY: dict[str, Any] = {
    "prepare": lambda batch: batch.rows.to_pylist(),
    "session": _sqlalchemy_session,
    "libraries": ("sqlalchemy",),
}
OUR_LOADER = LoadMethod("our loader", "copy", flat_batch, _copy_flat)
PSYCOPG_ROWS = LoadMethod("psycopg rows", "copy", _tuples, partial(_write_rows, is_binary=False))
PANDAS_CSV = LoadMethod("pandas CSV + COPY", "copy", _pandas_csv, _copy_csv, libraries=("pandas",))
METHODS: tuple[LoadMethod, ...] = (
    LoadMethod("pandas", "insert", send=partial(_to_sql, chunksize=1), **_OF_PANDAS),
    LoadMethod("psycopg", "insert", _tuples, partial(_execute, many=False)),
    LoadMethod("SQLAlchemy", "insert", send=partial(_text, at_once=False), **_OF_SQLALCHEMY),
    LoadMethod(
        "pandas", "multi-insert", send=partial(_to_sql, method="multi", chunksize=_ROWS_PER_STATEMENT), **_OF_PANDAS
    ),
    LoadMethod("psycopg executemany", "multi-insert", _tuples, partial(_execute, many=True)),
    LoadMethod("psycopg multi-VALUES", "multi-insert", _tuples, _multi_values),
    LoadMethod("psycopg UNNEST", "multi-insert", _arrays, _unnest),
    LoadMethod("SQLAlchemy", "multi-insert", send=partial(_text, at_once=True), **_OF_SQLALCHEMY),
    PANDAS_CSV,
    LoadMethod("pyarrow CSV + COPY", "copy", _arrow_csv, _copy_csv),
    PSYCOPG_ROWS,
    LoadMethod("psycopg binary rows", "copy", _tuples, partial(_write_rows, is_binary=True)),
    LoadMethod("asyncpg records", "copy", _tuples, _copy_records, _asyncpg_session, ("asyncpg",)),
    LoadMethod("ADBC ingest", "copy", attrgetter("rows"), _ingest, _adbc_session, ("adbc_driver_postgresql",)),
    LoadMethod("pgpq from memory", "copy", attrgetter("rows"), _encode, libraries=("pgpq",)),
    OUR_LOADER,
)


def methods_of(family: Family, workers: Sequence[int] = (1,)) -> tuple[LoadMethod, ...]:
    """The ways of a family; tools with a number of workers appear once for each number."""
    if family != "tool":
        return tuple(method for method in METHODS if method.family == family)
    tool = partial(LoadMethod, family="tool", prepare=_arrow_csv, loads_only=True)
    copying, bulk = partial(tool, session=nullcontext, program=PARALLEL_COPY), partial(tool, program=PG_BULKLOAD)
    return (
        *(
            copying(
                f"{PARALLEL_COPY}, {count} worker{'s' if count > 1 else ''}",
                send=partial(parallel_copy, workers=count),
                workers=count,
            )
            for count in workers
        ),
        *(
            bulk(
                f"{PG_BULKLOAD}, {writer}",
                send=partial(_run_bulkload, writer=writer),
                session=_bulkload_session,
                missing=_lacks_bulkload,
            )
            for writer in WRITERS
        ),
    )


def require_known(names: Sequence[str], workers: Sequence[int]) -> None:
    """Require that each of these names a way to load."""
    known = [method.name for method in (*METHODS, *methods_of("tool", workers))]
    for name in names:
        if name not in known:
            raise unknown("--method", name, known)


def unknown(option: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for an unknown name."""
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"{option}: there is no {name!r}", remedy=f"{meant}Known: {', '.join(dict.fromkeys(known))}.")
