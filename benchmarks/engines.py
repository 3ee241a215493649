"""Three questions to the warehouse and to engines on the lake: a place, the mean of a month, the trend at every place.

The suite `lake` measures them; tests require the same answers of all. Engines read the lake where it is: a folder, or a
bucket with the keys of AWS's environment variables.
"""

from __future__ import annotations

import importlib
import os
import sys
from abc import abstractmethod
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from benchmarks.others import COLUMN, Store
from era5_pipeline.runtime.stores import S3Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse

    Answer = npt.NDArray[np.float64]

QUESTIONS = ("place_hours", "month_mean", "trends")
_PLACE = "SELECT {column} FROM {table} WHERE location_id = {place} ORDER BY time"
_MEAN = (
    "SELECT avg(CAST({column} AS double precision)) FROM {table} WHERE time >= '{month.start}' AND time < '{month.end}'"
)
# The slope of the monthly means of each place, by the number of the month.
_TRENDS = (
    "SELECT location_id, regr_slope(mean, month) FROM (SELECT location_id, "
    "extract(year FROM time) * 12 + extract(month FROM time) AS month, "
    "avg(CAST({column} AS double precision)) AS mean FROM {table} GROUP BY 1, 2) AS months GROUP BY 1 ORDER BY 1"
)
# ClickHouse has no slope of a regression, and its CAST refuses NULL; in a time that is compared it reads no zone.
_OF_CLICKHOUSE = {
    "regr_slope(mean, month)": "covarPop(mean, toFloat64(month)) / varPop(toFloat64(month))",
    f"CAST({COLUMN} AS double precision)": f"toFloat64({COLUMN})",
    "+00:00'": "'",
}


@dataclass(frozen=True)
class Subject:
    """The data of the questions: a warehouse and the lake with the same months, a place, and the month of the mean."""

    warehouse: Warehouse
    lake: Lake
    place: int
    month: Month

    def table(self) -> Any:  # noqa: ANN401  # pyiceberg may be missing
        """The lake's table as it is now."""
        with self.warehouse.connect() as connection:
            return self.lake.open(connection)


class Engine(Store):
    """A program that answers the three questions, all in float64."""

    libraries: ClassVar[tuple[str, ...]] = ("pyiceberg",)

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def close(self) -> None:
        """Do nothing, where each question opens its files."""

    @abstractmethod
    def place_hours(self) -> Answer:
        """The temperatures (n,) of the place, hour by hour; NaN where one is missing."""

    @abstractmethod
    def month_mean(self) -> Answer:
        """The mean temperature (1,) of all places in the month."""

    @abstractmethod
    def trends(self) -> Answer:
        """Number and slope (n, 2) of the monthly means of each place, by place, in degrees a month."""


class _BySql(Engine):
    def place_hours(self) -> Answer:
        return np.array(self._ask(_PLACE), dtype=np.float64)[:, 0]

    def month_mean(self) -> Answer:
        return np.array(self._ask(_MEAN), dtype=np.float64)[:, 0]

    def trends(self) -> Answer:
        return np.array(self._ask(_TRENDS), dtype=np.float64)

    def _ask(self, query: str) -> list[Any]:
        asked = self._subject
        return self._fetched(
            query.format(column=COLUMN, table=self._table_in_sql, place=asked.place, month=asked.month)
        )

    @property
    def _table_in_sql(self) -> str:
        return "weather"

    @abstractmethod
    def _fetched(self, query: str) -> list[Any]: ...


class OfWarehouse(_BySql):
    """The table of the warehouse."""

    name: ClassVar[str] = "warehouse"
    libraries: ClassVar[tuple[str, ...]] = ()

    def open(self) -> None:
        """Connect."""
        self._connection = self._subject.warehouse.connect()

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _fetched(self, query: str) -> list[Any]:
        return self._connection.execute(query.encode(), binary=True).fetchall()


class Duckdb(_BySql):
    """DuckDB with the extensions of its packages: nothing is downloaded."""

    name: ClassVar[str] = "DuckDB on the lake"
    libraries: ClassVar[tuple[str, ...]] = (
        *("pyiceberg", "duckdb"),
        *("duckdb_extension_httpfs", "duckdb_extension_avro", "duckdb_extension_iceberg"),
    )

    def open(self) -> None:
        """Open a database in memory, and load the extensions."""
        self._connection = open_duckdb()
        self._metadata = self._subject.table().metadata_location

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    @property
    def _table_in_sql(self) -> str:
        return f"iceberg_scan('{self._metadata}')"

    def _fetched(self, query: str) -> list[Any]:
        return list(self._connection.execute(query).fetchall())


def open_duckdb() -> Any:  # noqa: ANN401  # duckdb is optional
    """A database in memory with DuckDB's extensions, and the keys of S3 where an endpoint is set."""
    import duckdb  # optional

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in ("httpfs", "avro", "iceberg"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        (path,) = Path(str(package.__file__)).parent.glob("extensions/**/*.duckdb_extension")
        connection.execute(f"LOAD '{path}'")
    environment = S3Environment.read()
    if environment.endpoint is not None:
        key, secret, *_ = environment.credentials
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', URL_STYLE 'path', USE_SSL false, "
            f"ENDPOINT '{urlsplit(environment.endpoint).netloc}', REGION '{environment.region or 'us-east-1'}')"
        )
    return connection


class Polars(Engine):
    """Polars, whose scans pyiceberg plans."""

    name: ClassVar[str] = "Polars on the lake"
    libraries: ClassVar[tuple[str, ...]] = ("pyiceberg", "polars")

    def open(self) -> None:
        """Scan the table lazily."""
        import polars  # optional

        # Its own planner is another package; without this it warns of that.
        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")
        self._polars = polars
        self._rows = polars.scan_iceberg(self._subject.table())

    def place_hours(self) -> Answer:
        """Filter."""
        found = self._rows.filter(self._polars.col("location_id") == self._subject.place).sort("time").select(COLUMN)
        return np.asarray(found.collect()[COLUMN].to_numpy(), dtype=np.float64)

    def month_mean(self) -> Answer:
        """Filter and average."""
        time, month = self._polars.col("time"), self._subject.month
        rows = self._rows.filter((time >= month.start) & (time < month.end))
        mean = rows.select(self._polars.col(COLUMN).cast(self._polars.Float64).mean()).collect().item()
        return np.array([mean])

    def trends(self) -> Answer:
        """Group twice."""
        col, double = self._polars.col, self._polars.Float64
        month = (col("time").dt.year() * 12 + col("time").dt.month()).cast(double)
        months = self._rows.group_by("location_id", month.alias("month")).agg(
            col(COLUMN).cast(double).mean().alias("mean")
        )
        slopes = months.group_by("location_id").agg(
            (self._polars.cov("month", "mean") / col("month").var()).alias("slope")
        )
        found = slopes.sort("location_id").collect()
        return np.column_stack([found["location_id"].to_numpy(), found["slope"].to_numpy()]).astype(np.float64)


class PyArrow(Engine):
    """pyiceberg, whose answers are tables of PyArrow."""

    name: ClassVar[str] = "PyArrow on the lake"

    def open(self) -> None:
        """Open the table."""
        self._table = self._subject.table()

    def place_hours(self) -> Answer:
        """Filter by the scan."""
        scan = self._table.scan(row_filter=f"location_id = {self._subject.place}", selected_fields=("time", COLUMN))
        return np.asarray(scan.to_arrow().sort_by("time").column(COLUMN).to_numpy(), dtype=np.float64)

    def month_mean(self) -> Answer:
        """Filter by the scan."""
        month = self._subject.month
        rows = f"time >= '{month.start.isoformat()}' AND time < '{month.end.isoformat()}'"
        values = self._table.scan(row_filter=rows, selected_fields=(COLUMN,)).to_arrow().column(COLUMN).to_numpy()
        return np.array([np.nanmean(values.astype(np.float64))])

    def trends(self) -> Answer:
        """Group by place and month, batch by batch: all rows would not fit into memory."""
        import pyarrow as pa
        import pyarrow.compute as pc

        fields = ("time", "location_id", COLUMN)
        parts = []
        for batch in self._table.scan(selected_fields=fields).to_arrow_batch_reader():
            time = batch.column("time")
            month = pc.add(pc.multiply(pc.year(time), 12), pc.month(time))
            values = batch.column(COLUMN).cast(pa.float64())
            rows = pa.table({"id": batch.column("location_id"), "month": month, "sum": values, "count": values})
            sums = rows.group_by(["id", "month"]).aggregate([("sum", "sum"), ("count", "count")])
            parts.append(sums.rename_columns(["id", "month", "sum", "count"]))
        months = pa.concat_tables(parts).group_by(["id", "month"]).aggregate([("sum", "sum"), ("count", "sum")])
        mean = np.asarray(months.column("sum_sum").to_numpy()) / months.column("count_sum").to_numpy()
        return np.array(
            list(_slopes(months.column("id").to_numpy(), months.column("month").to_numpy(), mean)), dtype=np.float64
        )


def _slopes(ids: npt.NDArray[np.int32], month: npt.NDArray[np.int64], mean: Answer) -> Iterator[tuple[int, float]]:
    """Number and slope of each place, from monthly means (n,) in any order."""
    order = np.argsort(ids, kind="stable")
    ids, month, mean = ids[order], month[order], mean[order]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    for at, x, y in zip(starts, np.split(month, starts[1:]), np.split(mean, starts[1:]), strict=True):
        distance = x - x.mean()
        yield int(ids[at]), float((distance * y).sum() / (distance**2).sum())


class Clickhouse(_BySql):
    """ClickHouse in this process (chdb)."""

    name: ClassVar[str] = "ClickHouse (chdb) on the lake"
    libraries: ClassVar[tuple[str, ...]] = ("pyiceberg", "chdb")

    def open(self) -> None:
        """Open a session."""
        from chdb import session  # optional

        self._session = session.Session()
        self._folder, _, metadata = self._subject.table().metadata_location.rpartition("/metadata/")
        self._metadata = f"metadata/{metadata}"

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    @property
    def _table_in_sql(self) -> str:
        # By itself it takes the metadata with the highest number.
        settings = f"SETTINGS iceberg_metadata_file_path = '{self._metadata}'"
        if not self._folder.startswith("s3://"):
            return f"icebergLocal('.', {settings})"
        environment = S3Environment.read()
        key, secret, *_ = environment.credentials
        url = f"{environment.endpoint}/{self._folder.removeprefix('s3://')}"
        return f"icebergS3('{url}', '{key}', '{secret}', {settings})"

    def _fetched(self, query: str) -> list[Any]:
        for text, own in _OF_CLICKHOUSE.items():
            query = query.replace(text, own)
        # It opens files only below the working directory.
        with chdir("." if self._folder.startswith("s3://") else self._folder):
            text = str(self._session.query(query, "CSV"))
        return [
            [float("nan") if value == "\\N" else float(value) for value in line.split(",")] for line in text.split()
        ]


class Spark(_BySql):
    """Spark with a thread for each core; it starts once, which takes most of a short run, and is asked warm."""

    name: ClassVar[str] = "Spark on the lake"
    reopens: ClassVar[bool] = False

    @classmethod
    def why_missing(cls) -> str | None:
        """Why it cannot be asked: it is no library of this environment, but in a folder of its own."""
        if not os.environ.get("ERA5_TEST_SPARK"):
            return "Spark is not installed: .ci/spark DIR, then ERA5_TEST_SPARK=DIR"
        return super().why_missing()

    def open(self) -> None:
        """Start Spark, unless it runs; open the table by its metadata file."""
        folder = Path(os.environ["ERA5_TEST_SPARK"])
        (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
        if str(packages) not in sys.path:
            sys.path.append(str(packages))
        sessions: Any = importlib.import_module("pyspark.sql")
        jars = ",".join(map(str, sorted((folder / "jars").glob("*.jar"))))
        options = {"spark.jars": jars, "spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}
        options |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        self._spark = sessions.SparkSession.builder.master("local[*]").config(map=options).getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        rows = self._spark.read.format("iceberg").load(self._subject.table().metadata_location)
        rows.createOrReplaceTempView("weather")

    def close(self) -> None:
        """Stop Spark."""
        self._spark.stop()

    def _fetched(self, query: str) -> list[Any]:
        return [list(row) for row in self._spark.sql(query.replace("double precision", "double")).collect()]


ENGINES: tuple[type[Engine], ...] = (OfWarehouse, Duckdb, Polars, PyArrow, Clickhouse, Spark)
