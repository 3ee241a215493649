"""One INSERT for each row: the slowest ways, and the ones that most programs begin with."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from era5_pipeline.bench.copy_methods import COLUMNS
from era5_pipeline.bench.methods.load_method import INSERT_TEXT, Batch, Family, LoadMethod
from era5_pipeline.bench.methods.row_values import Row, dicts_of, tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import psycopg
    from sqlalchemy.engine import Connection

ONE_ROW = INSERT_TEXT + f"({', '.join(['%s'] * len(COLUMNS))})"
NAMED_ROW = INSERT_TEXT + f"({', '.join(f':{name}' for name in COLUMNS)})"


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Connection]:
    """A connection of SQLAlchemy over psycopg; the engine is disposed of afterwards."""
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
    """psycopg's `execute`, a statement for each row, one transaction."""

    name: ClassVar[str] = "psycopg"
    family: ClassVar[Family] = "insert"

    def prepare(self, batch: Batch) -> list[Row]:
        """Make tuples."""
        return tuples_of(batch.rows)

    def load(self, session: psycopg.Connection[Any], prepared: list[Row]) -> None:
        """Execute the statement for each."""
        statement = ONE_ROW.encode()
        with session.cursor() as cursor:
            for row in prepared:
                cursor.execute(statement, row)
        session.commit()


class SqlalchemyInsert(LoadMethod):
    """SQLAlchemy's `execute` of a text, a statement for each row, one transaction."""

    name: ClassVar[str] = "SQLAlchemy"
    family: ClassVar[Family] = "insert"
    libraries: ClassVar[tuple[str, ...]] = ("sqlalchemy",)
    session = staticmethod(sqlalchemy_session)

    def prepare(self, batch: Batch) -> list[dict[str, Any]]:
        """Make dicts."""
        return dicts_of(batch.rows)

    def load(self, session: Connection, prepared: list[dict[str, Any]]) -> None:
        """Execute the statement for each."""
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
        """Insert it."""
        prepared.to_sql("weather", session, if_exists="append", index=False, **self.options)
        session.commit()
