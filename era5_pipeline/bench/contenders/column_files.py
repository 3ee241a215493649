"""Columns without a server: DuckDB on the Parquet files, and ClickHouse in this process (chdb) with its own table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from era5_pipeline.bench.contenders.contender import (
    COLUMN,
    MEAN_MONTH,
    FolderContender,
    GeneratedYear,
    folder_bytes,
    fresh_folder,
)

if TYPE_CHECKING:
    from pathlib import Path

_FROM, _TO = MEAN_MONTH.start, MEAN_MONTH.end


class DuckdbOnParquet(FolderContender):
    """DuckDB on the flat files."""

    name: ClassVar[str] = "DuckDB on Parquet"
    libraries: ClassVar[tuple[str, ...]] = ("duckdb",)

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Flatten them."""
        self._folder = fresh_folder(folder)
        year.flatten(self._folder)
        return sum(path.stat().st_size for path in self._folder.glob("*.parquet"))

    def open(self) -> None:
        """Connect, in memory."""
        import duckdb  # noqa: PLC0415  # optional

        self._opened = duckdb.connect()
        self._opened.execute("SET TimeZone = 'UTC'")
        self._opened.execute(f"CREATE VIEW weather AS SELECT * FROM read_parquet('{self._at}/*.parquet')")

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Ask in SQL."""
        query = f"SELECT {COLUMN} FROM weather WHERE location_id = ? ORDER BY time"
        return [row[0] for row in self._opened.execute(query, [place[0]]).fetchall()]

    def month_mean(self) -> float:
        """Ask in SQL."""
        query = f"SELECT avg({COLUMN}::double) FROM weather WHERE time >= ? AND time < ?"
        return float(self._opened.execute(query, [_FROM, _TO]).fetchone()[0])


class ClickhouseTable(FolderContender):
    """ClickHouse in this process, with a MergeTree by location and time, filled from the flat files."""

    name: ClassVar[str] = "ClickHouse (chdb)"
    libraries: ClassVar[tuple[str, ...]] = ("chdb",)

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Flatten, and insert."""
        self._folder = fresh_folder(folder)
        flat = fresh_folder(folder.with_name(f"{folder.name}-flat"))
        year.flatten(flat)
        self.open()
        self._opened.query(
            "CREATE TABLE weather ENGINE = MergeTree ORDER BY (location_id, time) AS "
            f"SELECT * FROM file('{flat}/*.parquet', Parquet) SETTINGS schema_inference_make_columns_nullable = 0"
        )
        self.close()
        return folder_bytes(self._folder)

    def open(self) -> None:
        """Open the session of its folder."""
        from chdb import session  # noqa: PLC0415  # optional

        self._opened = session.Session(str(self._at))

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Ask in SQL."""
        answer = self._opened.query(f"SELECT {COLUMN} FROM weather WHERE location_id = {place[0]} ORDER BY time", "CSV")
        return [float(line) for line in str(answer).split()]

    def month_mean(self) -> float:
        """Ask in SQL."""
        first, end = (f"toDateTime64('{time:%Y-%m-%d %H:%M:%S}', 6, 'UTC')" for time in (_FROM, _TO))
        query = f"SELECT avg(toFloat64({COLUMN})) FROM weather WHERE time >= {first} AND time < {end}"
        return float(str(self._opened.query(query, "CSV")))
