"""The tables that ways to load are compared on, as the study made them: regular, and TimescaleDB's hypertable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from psycopg import sql

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.warehouse.layouts.layout import create_weather

if TYPE_CHECKING:
    import psycopg

TableKind = Literal["regular", "hypertable"]
TABLE_KINDS: tuple[TableKind, ...] = ("regular", "hypertable")


def make_study_table(connection: psycopg.Connection[Any], kind: TableKind) -> None:
    """Create `weather` again, empty: without any index, or as `create_hypertable('weather', 'time')` leaves it.

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
        CannotRunError: if it does not.
    """
    if connection.execute("SELECT FROM pg_extension WHERE extname = 'timescaledb'").fetchone() is None:
        raise CannotRunError("the server has no TimescaleDB")
