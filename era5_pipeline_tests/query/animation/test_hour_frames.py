"""Hours of a month as frames: equal to the file that was loaded, on every layout, and what is missing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pytest

from era5_pipeline.model.errors import LocalDiskError, NoDataError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.hours import hour_of
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.animation import hour_frames
from era5_pipeline.query.animation.hour_frames import HourFrames, read_hour_frames
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline_tests.era5_files import full_disk

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

NORWAY, TELANGANA = Month.parse("2018-10"), Month.parse("2023-09")


@pytest.fixture(scope="module")
def warehouse(shared_warehouse: Warehouse, era5_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A complete month in Norway, and a week of a month in India, on each layout."""
    for folder, month in (("norway-2018-10-packed", NORWAY), ("telangana-2023-09", TELANGANA)):
        settings = Settings(
            home=tmp_path_factory.mktemp(folder), files_dir=str(era5_samples / folder), allow_incomplete=True
        )
        run_raw(settings, month)
        run_flat(settings, month)
        run_load(settings, shared_warehouse, month)
    return shared_warehouse


def read(
    warehouse: Warehouse,
    folder: Path,
    month: Month,
    column: str,
    *,
    area: str | None = None,
    every: int = 1,
    until: datetime | None = None,
) -> HourFrames:
    with warehouse.connect() as connection:
        return read_hour_frames(
            connection,
            warehouse,
            BY_COLUMN[column],
            month.start,
            until or month.end,
            Area.parse(area) if area else None,
            every,
            folder,
        )


def norway(era5_samples: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with netCDF4.Dataset(era5_samples / "norway-2018-10-packed" / "SURF_201810.nc") as file:
        return (
            np.asarray(file["t2m"][:], dtype=np.float64) - 273.15,
            np.asarray(file["latitude"][:]),
            np.asarray(file["longitude"][:]),
        )


def test_frames_are_the_hours_of_the_file(warehouse: Warehouse, era5_samples: Path, tmp_path: Path) -> None:
    values, latitudes, longitudes = norway(era5_samples)
    found = read(warehouse, tmp_path, NORWAY, "temperature_2m", area="72/0/50/15")
    assert len(found.hours) == 744
    assert found.hours[0] == hour_of(NORWAY.start)
    rows = [int(np.flatnonzero(found.latitudes == latitude)[0]) for latitude in latitudes]
    columns = [int(np.flatnonzero(found.longitudes == longitude)[0]) for longitude in longitudes]
    np.testing.assert_allclose(found.values[:, rows][:, :, columns], values, atol=0.006)
    assert np.isfinite(found.values).sum() == values.size
    assert not found.is_empty.any()
    assert found.notes == ("no data at 5,359 of 5,429 grid points of 72/0/50/15",)
    assert found.scale_values.min() == found.values[np.isfinite(found.values)].min()
    assert found.scale_values.max() == found.values[np.isfinite(found.values)].max()
    assert found.field(100).when == "Fri 05 Oct 2018, 04:00 UTC"
    np.testing.assert_array_equal(found.field(100).values, found.values[100])


def test_every_third_hour_in_a_file_is_the_same_as_in_memory(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(warehouse, tmp_path, NORWAY, "temperature_2m", area="62/5/60/7.5")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(hour_frames, "_MOST_VALUES", 9000)  # so that rows are read in turns, and kept in a file
    kept = read(warehouse, tmp_path, NORWAY, "temperature_2m", area="62/5/60/7.5", every=3)
    assert [path.name for path in tmp_path.iterdir()] == ["hours"]
    assert kept.hours == whole.hours[::3]
    np.testing.assert_array_equal(kept.values, whole.values[::3])


def test_a_disk_without_room_for_the_hours_is_an_error(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hour_frames, "_MOST_VALUES", 9000)
    match = r"keeping 0\.0 GB of hours: No space left"
    with full_disk(65_536) as folder, pytest.raises(LocalDiskError, match=match):
        read(warehouse, folder, NORWAY, "temperature_2m", area="62/5/60/7.5")


def test_hours_without_a_value_are_said(warehouse: Warehouse, tmp_path: Path) -> None:
    found = read(warehouse, tmp_path, TELANGANA, "total_precipitation")
    assert found.is_empty.sum() == 30 * 24 - 168
    assert not found.is_empty[:168].any()
    assert found.notes == ("no total_precipitation anywhere at 2023-09-08T00 to 2023-09-30T23",)
    some = read(warehouse, tmp_path, TELANGANA, "total_precipitation", every=6)
    assert some.notes == ("no total_precipitation anywhere at 2023-09-08T00 to 2023-09-30T18",)
    day = read(warehouse, tmp_path, TELANGANA, "total_precipitation", until=datetime(2023, 9, 2, tzinfo=UTC))
    assert len(day.hours) == 24
    assert not day.is_empty.any()
    assert day.notes == ()  # the month is incomplete, the day is not


def test_a_month_without_the_column_or_the_area_says_what_there_is(warehouse: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match="2018-10"):
        read(warehouse, tmp_path, Month.parse("2018-11"), "temperature_2m")
    with pytest.raises(NoDataError, match="no location in 10/10/0/20; the nearest"):
        read(warehouse, tmp_path, NORWAY, "temperature_2m", area="10/10/0/20")
