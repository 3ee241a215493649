"""COPY of Python's tuples, row by row."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import sql

from era5_pipeline.bench.copy_methods import COLUMNS
from era5_pipeline.bench.methods.load_method import WEATHER_COLUMNS, Batch, Family, LoadMethod
from era5_pipeline.bench.methods.row_values import Row, tuples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

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
        """A connection of asyncpg, and the loop that it runs in."""
        import asyncpg  # noqa: PLC0415  # optional

        with asyncio.Runner() as runner:
            connection = runner.run(asyncpg.connect(url))
            try:
                yield runner, connection
            finally:
                runner.run(connection.close())

    def load(self, session: Any, prepared: list[Row]) -> None:  # noqa: ANN401  # what `session` gave
        """Copy all records in one call, which is a transaction."""
        runner, connection = session
        runner.run(connection.copy_records_to_table("weather", records=prepared, columns=list(COLUMNS)))
