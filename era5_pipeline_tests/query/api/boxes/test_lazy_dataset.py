"""`query.api.boxes.lazy_dataset`: datasets against SQL and netCDF on every layout, and what is read of them when."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
import xarray as xr

import era5_pipeline as era5
from era5_pipeline.query.api.boxes import box_values, lazy_dataset
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.query.api.conftest import NetcdfFile

DEGREES = 2e-6


def gulf_dataset(db: era5.Database, gulf: NetcdfFile, **more: Any) -> xr.Dataset:
    area = (gulf.latitudes.max(), gulf.longitudes.min(), gulf.latitudes.min(), gulf.longitudes.max())
    with pytest.warns(era5.MissingDataWarning, match="no data for 2023-08"):
        return db.dataset(area=area, columns="t2m", **more)


def test_a_dataset_is_that_of_the_file(db: era5.Database, gulf: NetcdfFile) -> None:
    ds = gulf_dataset(db, gulf)
    assert dict(ds.sizes) == {"time": 24 * 122, "latitude": gulf.latitudes.size, "longitude": gulf.longitudes.size}
    assert np.array_equal(ds["latitude"], gulf.latitudes)
    assert np.array_equal(ds["longitude"], gulf.longitudes)
    assert ds["temperature_2m"].dtype == np.float32
    for month in ("2023-06", "2023-07", "2023-09"):
        np.testing.assert_allclose(ds["temperature_2m"].sel(time=month), gulf.of(month), rtol=0, atol=DEGREES)
    assert ds["temperature_2m"].sel(time="2023-08").isnull().all()
    assert ds["temperature_2m"].attrs["missing_months"] == "2023-08"


def test_a_place_of_it_is_that_of_series_field_and_sql(db: era5.Database, real: Warehouse, gulf: NetcdfFile) -> None:
    ds = gulf_dataset(db, gulf)
    place = ds["temperature_2m"].sel(latitude=25.25, longitude=51.5)
    with pytest.warns(era5.MissingDataWarning):
        frame = db.series(latitude=25.25, longitude=51.5, columns="t2m")
    assert np.array_equal(place["time"], frame.index.to_numpy(dtype="datetime64[ns]"))
    assert np.array_equal(place, frame["temperature_2m"], equal_nan=True)
    xr.testing.assert_equal(db.field("t2m", time="2023-07-15T12:00"), ds["temperature_2m"].sel(time="2023-07-15T12:00"))
    with psycopg.connect(real.url) as connection:
        rows = connection.execute(
            "SELECT latitude, longitude, temperature_2m FROM weather WHERE time = '2023-07-15 12:00Z'", binary=True
        ).fetchall()
    of_hour = ds["temperature_2m"].sel(time="2023-07-15T12:00").compute()
    assert len(rows) == of_hour.size
    assert all(np.float32(value) == of_hour.sel(latitude=north, longitude=east) for north, east, value in rows)


def test_chunks_are_months_and_attributes_those_of_cf(db: era5.Database, gulf: NetcdfFile) -> None:
    ds = gulf_dataset(db, gulf)
    assert ds.chunks["time"] == (720, 744, 744, 720)
    assert ds.chunks["latitude"] == (gulf.latitudes.size,)
    attrs = ds["temperature_2m"].attrs
    assert (attrs["standard_name"], attrs["units"], attrs["cell_methods"]) == ("air_temperature", "degC", "time: point")
    assert ds["latitude"].attrs["units"] == "degrees_north"
    assert ds.attrs["Conventions"] == "CF-1.10"
    assert ds.attrs["credit"].startswith("Contains modified Copernicus")


def test_nothing_is_read_before_it_is_asked_for(
    db: era5.Database, gulf: NetcdfFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then only what is asked for: of one place, one place."""
    read = []

    def noted(warehouse: Any, column: str, hours: range, window: Any) -> Any:
        read.append((len(hours), window.rows, window.columns))
        return box_values.read_box(warehouse, column, hours, window)

    monkeypatch.setattr(lazy_dataset, "read_box", noted)
    ds = gulf_dataset(db, gulf)
    place = ds["temperature_2m"].sel(latitude=25.25, longitude=51.5, time="2023-07")
    mean = place.mean()
    assert read == []
    assert float(mean) == pytest.approx(gulf.at(25.25, 51.5, "2023-07").mean(), abs=1e-4)
    assert read == [(744, 1, 1)]


def test_what_is_asked_of_a_restarted_or_emptied_table_is_an_error(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    load_month(warehouse, flat_months("2023-07"))
    with era5.open(warehouse.url) as db:
        ds = db.dataset(columns="t2m")
        with psycopg.connect(warehouse.url) as connection:
            connection.execute("ALTER TABLE weather RENAME TO away")
        with pytest.raises(era5.NoDataError, match="no month has been loaded"):
            ds["temperature_2m"].load()
        with psycopg.connect(warehouse.url) as connection:
            connection.execute("ALTER TABLE away RENAME TO weather")
        assert ds["temperature_2m"].load().notnull().all()


def test_an_array_is_indexed_as_numpy_would(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07", points=(4, 6), west=178.5))
    with era5.open(warehouse.url) as db:
        lazy = db.dataset(columns="t2m", chunked=False)["temperature_2m"]
        whole = db.field("t2m", month="2023-07")
        # Across the antimeridian.
        assert whole["longitude"].values.tolist() == [178.5, 178.75, 179.0, 179.25, 179.5, 179.75]
        for key in (
            {"time": 5},
            {"time": [9, 3], "longitude": [5, 0]},
            {"latitude": slice(None, None, -1), "time": slice(3, 50, 7)},
            {"latitude": 1, "longitude": 2},
            {"time": slice(0, 0)},
            {"time": [], "latitude": 0},
            {"time": -1, "latitude": -1, "longitude": -1},
        ):
            xr.testing.assert_equal(lazy.isel(key), whole.isel(key))
        copy = pickle.loads(pickle.dumps(lazy.isel(time=slice(0, 3))))
        assert np.array_equal(copy, whole[:3])
