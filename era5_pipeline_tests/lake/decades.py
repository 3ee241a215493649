"""All of 1940 to 2024 at two places, in a warehouse and a lake: generated, and written without a thousand loads."""

from __future__ import annotations

import calendar
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.engines import Subject
from era5_pipeline.flat.formats import parquet_sink, schema_of
from era5_pipeline.lake.catalog import WarehouseCatalog
from era5_pipeline.lake.commits import commit_files
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.lake.commits import StagedFile
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse

YEARS = range(1940, 2025)
PLACES = (565_240, 565_241)
_COLUMNS = ("temperature_2m",)
HOURS = sum(8784 if calendar.isleap(year) else 8760 for year in YEARS)


def decades(lake: Lake, warehouse: Warehouse, folder: Path) -> Subject:
    """Fill the table `weather` by COPY, and the lake by a commit of sixty files for five years."""
    schema = schema_of(_COLUMNS)
    names = ", ".join(schema.names)
    with warehouse.connect() as connection:
        lake.require(connection)
        # One partition for all, instead of a thousand.
        connection.execute("CREATE TABLE all_years PARTITION OF weather FOR VALUES FROM (MINVALUE) TO (MAXVALUE)")
        staged: list[StagedFile] = []
        for year in YEARS:
            with connection.cursor().copy(f"COPY weather ({names}) FROM STDIN (FORMAT csv)".encode()) as copy:
                for month in (Month(year, number) for number in range(1, 13)):
                    rows = _month(month, schema)
                    path = folder / f"{month}.parquet"
                    with parquet_sink(path, schema, for_lake=True) as sink:
                        sink.write(rows)
                    staged += lake.upload(month, f"{month.number:012x}", [path])
                    path.unlink()
                    text = pa.BufferOutputStream()
                    options = pa.csv.WriteOptions(include_header=False)
                    pa.csv.write_csv(rows, text, options)
                    copy.write(text.getvalue())
            if year % 5 == 4:
                table = WarehouseCatalog(connection, lake.place).open_table(_COLUMNS)
                commit_files(table, Month(year, 12), [], staged, {})
                staged = []
    return Subject(warehouse, lake, PLACES[0], Month(1987, 7))


def _month(month: Month, schema: pa.Schema) -> pa.Table:
    """Rows of each place: a year's course, a trend, noise, and a value in a hundred missing."""
    random = np.random.default_rng(month.number)
    hours = np.arange(month.hours)
    time = np.datetime64(month.start.replace(tzinfo=None), "us") + hours.astype("timedelta64[h]")
    of_places = []
    for place in PLACES:
        at = ERA5_GRID.location(place)
        warming = (place - PLACES[0] + 1) * 0.002 * (month.year - YEARS[0])
        values = 15 - 8 * np.cos(month.month * np.pi / 6) + warming + random.normal(0, 3, month.hours)
        columns = {
            "time": pa.array(time, pa.timestamp("us", "UTC")),
            "location_id": np.full(month.hours, place),
            "latitude": np.full(month.hours, at.latitude),
            "longitude": np.full(month.hours, at.longitude),
            "temperature_2m": pa.array(values, pa.float32(), mask=random.random(month.hours) < 0.01),
        }
        of_places.append(pa.table([pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema))
    return pa.concat_tables(of_places)
