"""`query.api.boxes.field_array`: fields against netCDF on every layout, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import era5_pipeline as era5
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.query.api.conftest import NetcdfFile

MILLIMETRES = 2e-5
DEGREES = 2e-6


def test_an_hour_is_that_of_the_file(db: era5.Database, gulf: NetcdfFile) -> None:
    field = db.field("t2m", time="2023-07-15T12:00")
    assert field.dims == ("latitude", "longitude")
    assert field.name == "temperature_2m"
    assert pd.Timestamp(field["time"].item()) == pd.Timestamp("2023-07-15T12:00")
    assert np.array_equal(field["latitude"], gulf.latitudes)
    assert np.array_equal(field["longitude"], gulf.longitudes)
    hour = gulf.of("2023-07")[14 * 24 + 12]
    np.testing.assert_allclose(field, hour, rtol=0, atol=DEGREES)
    assert (field.attrs["units"], field.attrs["standard_name"]) == ("degC", "air_temperature")


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
        ({"column": "t2m", "time": "2023-07-15"}, "names no hour"),
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
    with pytest.raises(era5.NoDataError, match="2023-08-01 00:00 UTC: the table has no row of that hour"):
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


def test_an_empty_table_says_that_nothing_is_loaded(warehouse: Warehouse) -> None:
    with era5.open(warehouse.url) as db:
        for ask in (
            lambda: db.field("t2m", month="2023-07"),
            lambda: db.field("t2m", time="2023-07-01T00"),
            db.dataset,
        ):
            with pytest.raises(era5.NoDataError, match="no month has been loaded"):
                ask()
