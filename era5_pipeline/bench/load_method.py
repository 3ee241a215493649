"""The base class of ways to load rows, the batch in memory that each starts from, and the tables they fill."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import psycopg
from psycopg import sql

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.copy_methods import COLUMNS
from era5_pipeline.warehouse.layouts.layout import create_weather

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa

    from era5_pipeline.flat.flat_month import FlatMonth

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
