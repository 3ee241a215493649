"""Area means of a month, compared with netCDF4 and numpy on the raw file."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

from era5_pipeline.flat.flat_month import ColumnFacts
from era5_pipeline_tests.era5_files import flatten
from era5_pipeline_tests.samples import unpacked

if TYPE_CHECKING:
    from pathlib import Path

TEMPERATURE = ("t2m", 1.0, -273.15)
PRECIPITATION = ("tp", 1000.0, 0.0)


def area_mean(path: Path, month: str, name: str, scale: float, offset: float) -> float:
    """The mean of a variable over the hours of the month and the area, by latitude's cosine."""
    with netCDF4.Dataset(path) as file:
        times = file["valid_time" if "valid_time" in file.variables else "time"]
        dates: Any = netCDF4.num2date(times[:], times.units, only_use_cftime_datetimes=False)
        chosen = np.array([f"{date:%Y-%m}" == month for date in dates])
        # Dimensions: hours, latitudes, longitudes.
        values = np.ma.masked_invalid(file[name][chosen]).astype(np.float64) * scale + offset
        weights = np.cos(np.radians(np.asarray(file["latitude"][:], dtype=np.float64)))[:, np.newaxis]
        return float(np.ma.average(values, weights=np.broadcast_to(weights, values.shape)))


@pytest.mark.parametrize(
    ("file", "month", "columns"),
    [
        pytest.param("gulf-2023/era5_t2m_2023.zip", "2023-07", {"temperature_2m": TEMPERATURE}, id="current"),
        pytest.param(
            "norway-2018-10-packed/SURF_201810.nc",
            "2018-10",
            {"temperature_2m": TEMPERATURE, "total_precipitation": PRECIPITATION},
            id="packed",
        ),
        pytest.param("global-2019-01-01T12-packed/era5_t2m.nc", "2019-01", {"temperature_2m": TEMPERATURE}, id="globe"),
        pytest.param(
            "germany-tp-expver-mix/data_stream-oper_stepType-accum.nc",
            "2025-10",
            {"total_precipitation": PRECIPITATION},
            id="six-hourly",
        ),
    ],
)
def test_area_mean_is_that_of_the_raw_file(
    era5_samples: Path, tmp_path: Path, file: str, month: str, columns: dict[str, tuple[str, float, float]]
) -> None:
    (path,) = unpacked(era5_samples / file, tmp_path)
    facts = {facts.column: facts for facts in flatten([path], month, tmp_path / "flat").columns}
    assert facts.keys() >= columns.keys()
    for column, in_file in columns.items():
        expected = area_mean(path, month, *in_file)
        assert facts[column].area_mean == pytest.approx(expected, rel=1e-6, abs=1e-6)
    if month == "2019-01":
        # Of the globe the poles are few: without weights its mean would be 8 degrees colder.
        globe = facts["temperature_2m"]
        assert globe.area_mean is not None
        assert globe.mean is not None
        assert globe.area_mean - globe.mean > 8


def test_facts_recorded_before_there_were_area_means_are_read(era5_samples: Path, tmp_path: Path) -> None:
    (facts,) = flatten([era5_samples / "global-2019-01-01T12-packed" / "era5_t2m.nc"], "2019-01", tmp_path).columns
    earlier = asdict(facts)
    assert ColumnFacts.from_json(dict(earlier)) == facts
    del earlier["area_mean"]
    read = ColumnFacts.from_json(earlier)
    assert (read.area_mean, read.mean) == (None, facts.mean)
