"""Batches that a real server made of known rows, for tests on machines without the Community edition.

`python -m era5_pipeline_tests.warehouse.layouts.golden_batches URL` writes them again, with the version of that server.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from era5_pipeline.flat.formats import schema_of
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.netcdf.contents import hours_of
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.layouts import batch_load
from era5_pipeline.warehouse.layouts.batches import Rows
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.hypertable import make_calendar_chunk

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

MONTH = Month(2023, 2)
HOURS = hours_of(MONTH)
COLUMNS = ("temperature_2m", "total_precipitation")


def month_rows(
    location_ids: npt.NDArray[np.integer], values: npt.NDArray[np.float32], hours: npt.NDArray[np.int64] = HOURS
) -> pa.RecordBatch:
    """Rows of a flat month; `values` (columns, location, hour), NaN for NULL."""
    ids = np.repeat(location_ids, hours.size).astype(np.int32)
    return pa.record_batch(
        [
            pa.array(np.tile(hours * 3_600_000_000, location_ids.size)).view(pa.timestamp("us", tz="UTC")),
            pa.array(ids),
            pa.array(ERA5_GRID.latitudes_of((ids - 1) // 1440)),
            pa.array(ERA5_GRID.longitudes_of((ids - 1) % 1440)),
            *(pa.array(column.ravel(), from_pandas=True) for column in values),
        ],
        schema=schema_of(COLUMNS),
    )


FILE = Path(__file__).with_suffix(".json")


def rows_by_name() -> dict[str, Rows]:
    """Rows of one location each, by what is particular about them."""
    wave = 15 + 8 * np.sin(np.arange(HOURS.size) / 24 * 2 * np.pi)
    rain = np.where(np.arange(HOURS.size) % 9 < 6, 0.0, 0.125 * (np.arange(HOURS.size) % 5))
    bits = (np.arange(2 * HOURS.size, dtype=np.uint64) * 2_654_435_761 % 2**32).astype(np.uint32)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-45, 3.4e38, 1.0, 1.0, -1.0], dtype=np.float32)
    with_nulls = np.where(np.arange(HOURS.size) % 7 == 3, np.nan, wave)
    some_hours = np.delete(HOURS, [3, 4, 300])
    return {
        "weather": _rows(1, wave, rain),
        "constant": _rows(720, np.full(HOURS.size, 20.0), np.zeros(HOURS.size)),
        "noise": _rows(77_000, *np.where(np.isnan(bits.view(np.float32)), 0, bits.view(np.float32)).reshape(2, -1)),
        "zeros of both signs, infinities, denormals": _rows(5, odd, odd[::-1], HOURS[: odd.size]),
        "some NULLs": _rows(9, with_nulls, rain),
        "only NULLs": _rows(10, np.full(HOURS.size, np.nan), rain),
        "one row": _rows(1_038_240, wave[:1], rain[:1], HOURS[:1]),
        "missing hours": _rows(11, np.delete(wave, [3, 4, 300]), np.delete(rain, [3, 4, 300]), some_hours),
    }


def _rows(
    location_id: int,
    temperature: npt.NDArray[np.floating],
    precipitation: npt.NDArray[np.floating],
    hours: npt.NDArray[np.int64] = HOURS,
) -> Rows:
    values = np.stack([temperature, precipitation]).astype(np.float32)[:, np.newaxis]
    return Rows.joined([month_rows(np.array([location_id]), values, hours)])


def batches_of_server(warehouse: Warehouse, rows: Iterable[Rows]) -> list[bytes]:
    """Let the server make a batch of each; the table stays as it was."""
    made = []
    with warehouse.connect() as connection:
        make_calendar_chunk(connection, MONTH)
        with connection.transaction(force_rollback=True):
            Columnstore.compress_directly(connection)
            for each in rows:
                batch_load.copy_rows(connection, COLUMNS, [each])
                table = batch_load.batch_table(connection, MONTH)
                made += batch_load.batches_of(connection, table, COLUMNS, [each.location_id])
    return made


def golden() -> dict[str, bytes]:
    """The server's batches, by the names of the rows."""
    return {name: base64.b64decode(batch) for name, batch in json.loads(FILE.read_text())["batches"].items()}


if __name__ == "__main__":
    server = Warehouse(sys.argv[1])
    with server.connect() as session:
        version = session.execute("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchone()
    named = rows_by_name()
    made = dict(zip(named, batches_of_server(server, named.values()), strict=True))
    content = {
        "timescaledb": version[0] if version else None,
        "batches": {name: base64.b64encode(batch).decode() for name, batch in made.items()},
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n")
