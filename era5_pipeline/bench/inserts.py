"""INSERT: one per row, many rows in one, many in a message."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from era5_pipeline.bench.copy_methods import COLUMNS
from era5_pipeline.bench.load_method import INSERT_TEXT, Batch, Family, LoadMethod, Row, dicts_of, parts_of, tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import psycopg
    from sqlalchemy.engine import Connection

# --- One INSERT per row: the slowest ways, with which most programs begin ---


ONE_ROW = INSERT_TEXT + f"({', '.join(['%s'] * len(COLUMNS))})"
NAMED_ROW = INSERT_TEXT + f"({', '.join(f':{name}' for name in COLUMNS)})"


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Connection]:
    """A SQLAlchemy connection over psycopg; the engine is disposed of afterwards."""
    from sqlalchemy import create_engine  # noqa: PLC0415  # other suites do without it

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
        from sqlalchemy import text  # noqa: PLC0415  # other suites do without it

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
_TYPES = ("timestamptz", "integer", *["real"] * (len(COLUMNS) - 2))


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
        arrays = ", ".join(f"%s::{name}[]" for name in _TYPES)
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
        from sqlalchemy import text  # noqa: PLC0415  # other suites do without it

        session.execute(text(NAMED_ROW), prepared)
        session.commit()
