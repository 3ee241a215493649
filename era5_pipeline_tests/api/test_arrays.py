"""Tests of `api/arrays`."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
import xarray as xr

import era5_pipeline as era5
from era5_pipeline.api import arrays
from era5_pipeline.read import boxes
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.real_months import NetcdfFile

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
        return boxes.read_box(warehouse, column, hours, window)

    monkeypatch.setattr(arrays, "read_box", noted)
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


MILLIMETRES = 2e-5


def test_a_month_is_that_of_the_file(db: era5.Database, norway: NetcdfFile) -> None:
    field = db.field("total_precipitation", month="2018-10", area=(60.5, 6.5, 59.75, 7.5))
    assert field.dims == ("time", "latitude", "longitude")
    assert field.shape == (744, 4, 5)
    rows = [norway.latitudes.tolist().index(north) for north in field["latitude"].values]
    columns = [norway.longitudes.tolist().index(east) for east in field["longitude"].values]
    expected = norway.of("2018-10")[:, rows][:, :, columns]
    np.testing.assert_allclose(field, expected, rtol=1e-5, atol=MILLIMETRES)
    assert field.attrs["cell_methods"] == "time: sum"


def test_places_that_are_not_loaded_are_nan_and_said(db: era5.Database, gulf: NetcdfFile) -> None:
    north, west = gulf.latitudes.max(), gulf.longitudes.min()
    beyond = (north + 1, west - 1, north - 0.5, west + 0.5)
    for when in ({"time": "2023-07-15T12:00"}, {"month": "2023-07"}):
        with pytest.warns(era5.MissingDataWarning, match="of 49 grid points"):
            field: Any = db.field("t2m", area=beyond, **when)
        assert field.shape[-2:] == (7, 7)
        there = field.isel(latitude=slice(4, None), longitude=slice(4, None))
        assert there.notnull().all()
        assert int(field.notnull().sum()) == there.size
        of_file = gulf.of("2023-07")[:, :3, :3]
        np.testing.assert_allclose(there, of_file if "month" in when else of_file[14 * 24 + 12], rtol=0, atol=DEGREES)


SQL = "'; DROP TABLE weather; --"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"column": "t2m"}, "one hour or one month"),
        ({"column": "t2m", "time": "2023-07-15T12", "month": "2023-07"}, "one hour or one month"),
        ({"column": SQL, "time": "2023-07-15T12"}, "DROP TABLE"),
        ({"column": "t2m", "time": SQL}, "not a time"),
        ({"column": "t2m", "time": "2023-07-15"}, "has no hour"),
        ({"column": "t2m", "month": SQL}, "not a month"),
        ({"column": "t2m", "month": "2023-13"}, "not a month"),
        ({"column": "t2m", "month": "2023-07", "area": SQL}, "not an area"),
        ({"column": "t2m", "month": "2023-07", "area": (1, 2, 3)}, "not an area"),
        ({"column": "t2m", "month": "2023-07", "area": (10, 0, 20, 5)}, "south must not be greater"),
    ],
)
def test_a_wrong_question_is_a_usage_error(db: era5.Database, question: dict[str, Any], message: str) -> None:
    with pytest.raises(era5.UsageError, match=message):
        db.field(**question)


def test_what_the_table_lacks_is_a_no_data_error(db: era5.Database) -> None:
    with pytest.raises(era5.NoDataError, match="it holds 2018-10, 2023-06 to 2023-07, 2023-09"):
        db.field("t2m", month="2023-08")
    with pytest.raises(era5.NoDataError, match="2023-08-01 00:00 UTC: the table has no row for that hour"):
        db.field("t2m", time="2023-08-01T00:00")
    with pytest.raises(era5.NoDataError, match=r"no location in -5/106/-8/108; the nearest"):
        db.field("t2m", month="2023-07", area="-5/106/-8/108")
    with pytest.raises(era5.NoDataError, match="no column surface_pressure"):
        db.field("surface_pressure", month="2023-07")
    with pytest.raises(era5.NoDataError, match="no location in"):
        db.dataset(area="-5/106/-8/108")
    with pytest.raises(era5.NoDataError, match="it holds 2018-10"):
        db.dataset(start="2024")
    with pytest.raises(era5.NoDataError, match=r"what the table holds there \(2023-07\) has temperature_2m only"):
        db.dataset(area="26/51/25/51.5", start="2023-07", end="2023-07", columns="total_precipitation")
    with pytest.raises(era5.UsageError, match="is empty"):
        db.dataset(start="2024", end="2023")


def test_hours_that_a_month_lacks_are_nan_and_said(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07", hours=100))
    with era5.open(warehouse.url) as db:
        with pytest.warns(era5.MissingDataWarning, match="no value at 644 of 744 hours"):
            field = db.field("t2m", month="2023-07")
        assert field.notnull().any(("latitude", "longitude")).values.tolist() == [True] * 100 + [False] * 644
        with pytest.warns(era5.MissingDataWarning, match="missing in 2023-07"):
            ds = db.dataset()
        assert ds.attrs["incomplete_months"] == "2023-07"
        with pytest.warns(era5.MissingDataWarning, match="no data for 2023-08"):
            ahead = db.dataset(start="2023-07", end="2200-01")
        assert ahead["time"].max() <= np.datetime64(datetime.now(UTC).replace(tzinfo=None))
