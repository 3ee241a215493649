"""Real files of the repository: loaded into a warehouse, and read by xarray and pandas without this project."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from era5_pipeline.model.months import month_range, months_between
from era5_pipeline.model.settings import Settings
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.samples import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse

# Folder below data/, and the months that it has.
GULF = ("era5/gulf-2023", "2023-01", "2023-12")
NORWAY = ("era5/norway-2018-10-packed", "2018-10", "2018-10")
PARIS = ("timeseries/paris-2024-nc-zip", "2024-01", "2024-12")
MEKONG = ("timeseries/mekong-2020-2025-csv-zip", "2020-01", "2025-05")


def flatten(home: Path, delivery: tuple[str, str, str]) -> None:
    """Make the flat months of a delivery by the stages of the pipeline, in a home of its own."""
    settings = _settings(home, delivery)
    with without_pictures():
        for month in _months(*delivery[1:]):
            run_raw(settings, month)
            run_flat(settings, month)


def load(warehouse: Warehouse, home: Path, delivery: tuple[str, str, str]) -> None:
    """Load the flat months that `flatten` made."""
    settings = _settings(home, delivery)
    for month in _months(*delivery[1:]):
        run_load(settings, warehouse, month)


def _settings(home: Path, delivery: tuple[str, str, str]) -> Settings:
    return Settings(home=home, files_dir=str(DATA / delivery[0]), allow_incomplete=True, source="files")


def _months(first: str, last: str) -> Iterator[Month]:
    yield from month_range(months_between(first)[0], months_between(last)[0])


def gridded(delivery: tuple[str, str, str], folder: Path) -> Any:
    """The delivery's netCDF file, from its ZIP if it is in one: `time`, `latitude`, `longitude`, units as served."""
    (path,) = (DATA / delivery[0]).iterdir()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            (name,) = archive.namelist()
            path = folder / f"{path.stem}.nc"
            path.write_bytes(archive.read(name))
    with xr.open_dataset(path) as opened:
        found = opened.load()
    return found.rename(valid_time="time") if "valid_time" in found.dims else found


def mekong() -> Any:
    """All hours near Ho Chi Minh City as pandas reads the CSV as served: K, m, m/s, times without zone in UTC."""
    (path,) = (DATA / MEKONG[0]).iterdir()
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return pd.read_csv(file, parse_dates=["valid_time"], index_col="valid_time").astype(np.float64)
