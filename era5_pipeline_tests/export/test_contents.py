"""`export.contents`: hours, versions and what is missing, by the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from era5_pipeline.export.contents import read_contents
from era5_pipeline.model.times import hour_of
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.export.test_run import export_to, place_at
from era5_pipeline_tests.samples import DATA

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

MIXED = DATA / "era5" / "germany-tp-expver-mix" / "data_stream-oper_stepType-accum.nc"


def test_expver_is_that_of_the_file_hour_by_hour(warehouse: Warehouse, tmp_path: Path) -> None:
    """A file with final and preliminary hours, as the Climate Data Store made it."""
    with xr.open_dataset(MIXED) as file:
        times, versions = file["valid_time"].values, file["expver"].values.astype(str)
    months = np.unique(times.astype("datetime64[M]")).astype(str)
    wanted = dict(zip(times.tolist(), versions.tolist(), strict=True))
    assert set(wanted.values()) == {"0001", "0005"}
    with era5_files.without_pictures():
        for month in months:
            load_month(warehouse, era5_files.flatten([MIXED], month, tmp_path / month))
    export_to(warehouse, tmp_path / "out.nc", None)
    with xr.open_dataset(tmp_path / "out.nc") as dataset:
        found = dict(zip(dataset["time"].values.tolist(), dataset["expver"].values.tolist(), strict=True))
        assert "preliminary" in dataset.attrs["era5_versions"] or "mixed" in dataset.attrs["era5_versions"]
    assert {time: found[time] for time in wanted} == wanted


def test_an_open_range_is_that_of_the_months(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for month in ("2023-02", "2023-07"):
        load_month(warehouse, flat_months(month))
    with warehouse.connect() as connection:
        contents = read_contents(connection, None, None, None, None)
    assert contents.hours == range(hour_of(datetime(2023, 2, 1, tzinfo=UTC)), hour_of(datetime(2023, 8, 1, tzinfo=UTC)))
    assert contents.columns == ("temperature_2m", "total_precipitation")
    assert contents.missing_months.keys() == set(contents.columns)
    assert [str(month) for month in contents.missing_months["temperature_2m"]] == [
        *("2023-03", "2023-04", "2023-05", "2023-06")
    ]
    assert (contents.window.rows, contents.window.columns) == (2, 3)


def test_hours_to_come_are_not_missing(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07"))
    now = datetime.now(UTC)
    with warehouse.connect() as connection:
        for asked in (None, place_at(10.5, 20.0)):
            contents = read_contents(connection, asked, None, None, now + timedelta(days=900))
            assert abs(contents.hours.stop - hour_of(now)) <= 1
