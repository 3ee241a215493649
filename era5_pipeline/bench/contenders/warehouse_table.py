"""This project: the table `weather`, in the layout of the server that is measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from era5_pipeline.bench.contenders.contender import COLUMN, MEAN_MONTH, Contender, GeneratedYear, fresh_folder
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from era5_pipeline.bench.target import Target

_SERIES = f"SELECT {COLUMN} FROM weather WHERE location_id = %s ORDER BY time".encode()
_MEAN = f"SELECT avg({COLUMN}::float8) FROM weather WHERE time >= %s AND time < %s".encode()


class WarehouseTable(Contender):
    """The table of the warehouse, loaded month by month as `era5 load` does."""

    name: ClassVar[str] = "era5-pipeline"

    def __init__(self, target: Target) -> None:
        self._target = target
        self._connection: psycopg.Connection[Any] | None = None

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Flatten and load each month."""
        self._target.make_table(LAYOUTS[self._target.offered[0]])
        with self._target.connect() as connection:
            connection.execute("TRUNCATE era5.ledger, era5.load_attempt")
        for flat in year.flatten(fresh_folder(folder)):
            load_month(self._target.warehouse, flat)
        with self._target.connect() as connection:
            return read_space(connection).bytes

    def open(self) -> None:
        """Connect."""
        self._connection = self._target.warehouse.connect()

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _opened(self) -> psycopg.Connection[Any]:
        assert self._connection is not None  # noqa: S101  # opened before
        return self._connection

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Ask in SQL."""
        return [row[0] for row in self._opened.execute(_SERIES, (place[0],), binary=True).fetchall()]

    def month_mean(self) -> float:
        """Ask in SQL."""
        row = self._opened.execute(_MEAN, (MEAN_MONTH.start, MEAN_MONTH.end)).fetchone()
        assert row is not None  # noqa: S101  # an aggregate is one row
        return float(row[0])

    def files(self) -> Iterable[Path]:
        """The files of its database, where this user may read them: on this machine, as root or the server's user."""
        with self._target.connect() as connection:
            row = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
            folder = Path(f"/proc/{connection.info.backend_pid}/cwd/base/{row[0] if row else 0}")
            try:
                return sorted(folder.iterdir())
            except OSError:
                return []
