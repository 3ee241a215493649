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

from benchmarks.others import COLUMN, Answer, BySql, OfClickhouse, OfPostgres, Store
from era5_pipeline.runtime.stores import S3Environment

if TYPE_CHECKING:
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse

QUESTIONS = ("place_hours", "month_mean", "trends")


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
        self.place, self.month = subject.place, subject.month

    @abstractmethod
    def trends(self) -> Answer:
        """Number and slope (n, 2) of the monthly means of each place, by place, in degrees a month."""


class _SqlEngine(BySql, Engine):
    def trends(self) -> Answer:
        return self._ask(
            "SELECT location_id, regr_slope(mean, month) FROM (SELECT location_id, "
            "extract(year FROM time) * 12 + extract(month FROM time) AS month, "
            "avg(CAST({column} AS double precision)) AS mean FROM {table} GROUP BY 1, 2) AS months "
            "GROUP BY 1 ORDER BY 1"
        )


class OfWarehouse(OfPostgres, _SqlEngine):
    """The table of the warehouse."""

    name = "warehouse"
    libraries = ()

    def open(self) -> None:
        """Connect."""
        self.opened = self._subject.warehouse.connect()


class Duckdb(_SqlEngine):
    """DuckDB with the extensions of its packages: nothing is downloaded."""

    name = "DuckDB on the lake"
    libraries = (
        *("pyiceberg", "duckdb"),
        *("duckdb_extension_httpfs", "duckdb_extension_avro", "duckdb_extension_iceberg"),
    )

    def open(self) -> None:
        """Open a database in memory, and load the extensions."""
        self.opened = open_duckdb()
        self.table = f"iceberg_scan('{self._subject.table().metadata_location}')"


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

    name = "Polars on the lake"
    libraries = ("pyiceberg", "polars")

    def open(self) -> None:
        """Scan the table lazily."""
        import polars  # optional

        # Its own planner is another package; without this it warns of that.
        os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")
        self._polars = polars
        self.opened = polars.scan_iceberg(self._subject.table())

    def place_hours(self) -> Answer:
        """Filter."""
        found = self.opened.filter(self._polars.col("location_id") == self.place).sort("time").select(COLUMN)
        return np.asarray(found.collect()[COLUMN].to_numpy(), dtype=np.float64)

    def month_mean(self) -> Answer:
        """Filter and average."""
        time = self._polars.col("time")
        rows = self.opened.filter((time >= self.month.start) & (time < self.month.end))
        mean = rows.select(self._polars.col(COLUMN).cast(self._polars.Float64).mean()).collect().item()
        return np.array([mean])

    def trends(self) -> Answer:
        """Group twice."""
        col, double = self._polars.col, self._polars.Float64
        month = (col("time").dt.year() * 12 + col("time").dt.month()).cast(double)
        months = self.opened.group_by("location_id", month.alias("month")).agg(
            col(COLUMN).cast(double).mean().alias("mean")
        )
        slopes = months.group_by("location_id").agg(
            (self._polars.cov("month", "mean") / col("month").var()).alias("slope")
        )
        return np.asarray(slopes.sort("location_id").collect().to_numpy(), dtype=np.float64)


class PyArrow(Engine):
    """pyiceberg, whose answers are tables of PyArrow."""

    name = "PyArrow on the lake"

    def open(self) -> None:
        """Open the table."""
        self.opened = self._subject.table()

    def place_hours(self) -> Answer:
        """Filter by the scan."""
        scan = self.opened.scan(row_filter=f"location_id = {self.place}", selected_fields=("time", COLUMN))
        return np.asarray(scan.to_arrow().sort_by("time").column(COLUMN).to_numpy(), dtype=np.float64)

    def month_mean(self) -> Answer:
        """Filter by the scan."""
        rows = f"time >= '{self.month.start.isoformat()}' AND time < '{self.month.end.isoformat()}'"
        values = self.opened.scan(row_filter=rows, selected_fields=(COLUMN,)).to_arrow().column(COLUMN).to_numpy()
        return np.array([np.nanmean(values.astype(np.float64))])

    def trends(self) -> Answer:
        """Group by place and month, batch by batch: all rows would not fit into memory."""
        import pyarrow as pa
        import pyarrow.compute as pc

        fields = ("time", "location_id", COLUMN)
        parts = []
        for batch in self.opened.scan(selected_fields=fields).to_arrow_batch_reader():
            time = batch.column("time")
            month = pc.add(pc.multiply(pc.year(time), 12), pc.month(time))
            values = batch.column(COLUMN).cast(pa.float64())
            rows = pa.table({"id": batch.column("location_id"), "month": month, "sum": values, "count": values})
            sums = rows.group_by(["id", "month"]).aggregate([("sum", "sum"), ("count", "count")])
            parts.append(sums.rename_columns(["id", "month", "sum", "count"]))
        months = pa.concat_tables(parts).group_by(["id", "month"]).aggregate([("sum", "sum"), ("count", "sum")])
        of_months = months.rename_columns({"sum_sum": "sum", "count_sum": "count"}).to_pandas()
        x, y = of_months["month"] - of_months["month"].mean(), of_months["sum"] / of_months["count"]
        means = of_months.assign(x=x, y=y, xx=x * x, xy=x * y).groupby("id")[["x", "y", "xx", "xy"]].mean()
        slopes = (means["xy"] - means["x"] * means["y"]) / (means["xx"] - means["x"] ** 2)
        return np.column_stack([slopes.index, slopes])


class Clickhouse(OfClickhouse, _SqlEngine):
    """ClickHouse in this process (chdb)."""

    name = "ClickHouse (chdb) on the lake"
    libraries = ("pyiceberg", "chdb")

    def open(self) -> None:
        """Open a session."""
        from chdb import session  # optional

        self.opened = session.Session()
        folder, _, metadata = self._subject.table().metadata_location.rpartition("/metadata/")
        # By itself it takes the metadata with the highest number.
        settings = f"SETTINGS iceberg_metadata_file_path = 'metadata/{metadata}'"
        # It opens files only below the working directory.
        self._folder = "." if folder.startswith("s3://") else folder
        self.table = f"icebergLocal('.', {settings})"
        if folder.startswith("s3://"):
            environment = S3Environment.read()
            key, secret, *_ = environment.credentials
            url = f"{environment.endpoint}/{folder.removeprefix('s3://')}"
            self.table = f"icebergS3('{url}', '{key}', '{secret}', {settings})"

    def _fetched(self, query: str) -> list[Any]:
        with chdir(self._folder):
            return super()._fetched(query)


class Spark(_SqlEngine):
    """Spark with a thread for each core; it starts once, which takes most of a short run, and is asked warm."""

    name = "Spark on the lake"
    reopens = False

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
        self.opened = sessions.SparkSession.builder.master("local[*]").config(map=options).getOrCreate()
        self.opened.sparkContext.setLogLevel("ERROR")
        rows = self.opened.read.format("iceberg").load(self._subject.table().metadata_location)
        rows.createOrReplaceTempView("weather")

    def close(self) -> None:
        """Stop Spark."""
        self.opened.stop()

    def _fetched(self, query: str) -> list[Any]:
        return [list(row) for row in self.opened.sql(query.replace("double precision", "double")).collect()]


ENGINES: tuple[type[Engine], ...] = (OfWarehouse, Duckdb, Polars, PyArrow, Clickhouse, Spark)
