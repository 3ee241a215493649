"""ERA5-Land beside ERA5 in one database, on every layout: series, Python, xarray and files answer of the one asked for.

At the coast of Ghana, where four of twelve points are at sea.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr

import era5_pipeline as era5
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.land_mask import land_mask
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.commands import assert_explained
from era5_pipeline_tests.era5_files import hours_from, raw_month, weather, without_pictures, write_netcdf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess

LAND = ("--dataset", "era5-land")
LATITUDES, LONGITUDES = [5.0, 4.9, 4.8], [-2.3, -2.2, -2.1, -2.0]
INDICES = np.ix_(ERA5_LAND.grid.latitude_indices(LATITUDES), ERA5_LAND.grid.longitude_indices(LONGITUDES))
IS_LAND = land_mask()[INDICES]
ON_LAND, AT_SEA = ("--lat", "5.04", "--lon", "-2.03"), ("--lat", "4.8", "--lon", "-2.3")
# At 05:00 of each day a sum falls by less than the packing of real files.
FALLS_MM = -1e-4


@pytest.fixture(scope="module")
def both(shared_warehouse: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A month of both data sets: of ERA5-Land t2m and tp, sums since 00 UTC, with the hour before; of ERA5 tcc, too."""
    folder = tmp_path_factory.mktemp("both")
    of = weather(hours_from("2023-06-30T23", 745), LATITUDES, LONGITUDES, ("t2m", "tp"))
    amounts = np.where((of.hours % 24 == 5)[:, np.newaxis, np.newaxis], FALLS_MM / 1000, of.fields["tp"])
    sums = np.zeros_like(amounts)
    for position, of_day in enumerate(of.hours % 24):
        sums[position] = amounts[position] + (sums[position - 1] if position and of_day != 1 else 0.0)
    fields = {"t2m": of.fields["t2m"].copy(), "tp": sums}
    for values in fields.values():
        values[:, ~IS_LAND] = np.nan
    own = weather(of.hours[1:], [5.0, 4.75], [-2.25, -2.0], ("t2m", "tp", "tcc"), seed=2)
    for dataset, contents in ((ERA5_LAND, replace(of, fields=fields)), (ERA5, own)):
        path = write_netcdf(folder / f"{dataset.name}.nc", contents)
        raw = replace(raw_month([path], "2023-07"), dataset=dataset)
        with without_pictures():
            flat = flatten_month(raw, folder / dataset.name, home=folder, flat_format="parquet")
        warehouse = replace(shared_warehouse, dataset=dataset)
        with warehouse.connect() as connection:
            ensure_schema(connection)
        load_month(warehouse, flat)
    return shared_warehouse


@pytest.fixture
def here(here: InProcess, both: Warehouse) -> InProcess:
    here.set(ERA5_DATABASE_URL=both.url)
    return here


@pytest.fixture
def land(both: Warehouse) -> Iterator[era5.Database]:
    with era5.open(both.url, dataset="era5-land") as db:
        yield db


def test_the_hours_of_a_place_are_those_of_the_data_set(here: InProcess) -> None:
    table = here.run("series", *LAND, *ON_LAND, "--from", "2023-07-01").out
    assert "latitude 5, longitude -2 (nearest to 5.04, -2.03)" in table
    assert "data ERA5-Land, C3S/ECMWF" in table
    # The rounding of sums is no rain to look at, and stays in what programs read.
    assert not [line for line in table.splitlines() if " -0.0" in line]
    text = here.run("series", *LAND, *ON_LAND, "--from", "2023-07-01T05", "--column", "tp", "--format", "csv").out
    assert float(text.splitlines()[1].split(",")[1]) == pytest.approx(FALLS_MM, abs=1e-5)
    of_era5 = here.run("series", *ON_LAND, "--from", "2023-07-01T05", "--column", "t2m,tcc").out
    assert "data ERA5, C3S/ECMWF" in of_era5
    here.set(ERA5_DATASET="era5-land")
    assert "data ERA5-Land" in here.run("series", *ON_LAND, "--from", "2023-07-01T05").out
    assert_explained(here.run("series", *ON_LAND, "--column", "tcc", code=2), "ERA5-Land has no 'tcc'")


def test_the_sea_has_no_values_and_the_nearest_land_is_named(here: InProcess, land: era5.Database) -> None:
    refused = here.run("series", *LAND, *AT_SEA, code=3)
    assert_explained(refused, "is at sea, where ERA5-Land has no values; its nearest point on land is", "--cell land")
    moved = here.run("series", *LAND, *AT_SEA, "--cell", "land", "--from", "2023-07-01T05").out
    assert "nearest land to 4.8, -2.3" in moved
    with pytest.raises(era5.NoDataError, match="at sea"):
        land.series(latitude=4.8, longitude=-2.3)
    elsewhere = here.run("series", *LAND, "--lat", "10", "--lon", "10", code=3)
    assert_explained(elsewhere, "the table has no data there", "era5 load --dataset era5-land --lat 10 --lon 10")
    assert "since 1950" in elsewhere.err
    with pytest.raises(era5.UsageError, match="no data set"):
        era5.open("postgresql://localhost/x", dataset="era6")


@pytest.mark.filterwarnings("error::era5_pipeline.api.frames.MissingDataWarning")
def test_arrays_have_the_points_of_the_grid(land: era5.Database, both: Warehouse) -> None:
    temperatures = land.dataset(columns="t2m")
    assert temperatures.sizes == {"time": 744, "latitude": 3, "longitude": 4}
    assert (temperatures.latitude.values.tolist(), temperatures.longitude.values.tolist()) == (LATITUDES, LONGITUDES)
    assert (np.isfinite(temperatures.temperature_2m.values) == IS_LAND[np.newaxis]).all()
    assert temperatures.attrs["title"] == "ERA5-Land hourly data"
    assert temperatures.attrs["source"].startswith("table weather_land of ")
    here = temperatures.temperature_2m.sel(latitude=4.9, longitude=-2.1)
    frame = land.series(latitude=4.9, longitude=-2.1, columns="t2m")
    assert np.array_equal(here.values, frame["temperature_2m"].to_numpy())
    field = land.field("t2m", time="2023-07-15T12", area="5/-2.3/4.8/-2")
    assert np.array_equal(field.values, temperatures.temperature_2m.sel(time="2023-07-15T12").values, equal_nan=True)
    with xr.open_dataset(both.url, engine="era5", dataset="era5-land", columns=["t2m"]) as opened:
        assert opened.sizes == temperatures.sizes
    with era5.open(both.url) as of_era5:
        own = of_era5.dataset(columns="tcc")
    assert (own.latitude.values.tolist(), own.attrs["title"]) == ([5.0, 4.75], "ERA5 hourly data on single levels")


def attributes_of(path: Path) -> dict[str, Any]:
    if path.suffix == ".parquet":
        return {key.decode(): value.decode() for key, value in (pq.read_schema(path).metadata or {}).items()}
    with xr.open_dataset(path, engine="zarr" if path.is_dir() else "netcdf4") as opened:
        return dict(opened.attrs) | {"expver": opened.expver.attrs["long_name"]}


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.nc", "x.zarr"])
def test_files_are_of_the_data_set(here: InProcess, land: era5.Database, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    done = here.run("export", *LAND, "--from", "2023-07-02", "--to", "2023-07-03", "--out", str(path))
    assert "data ERA5-Land, C3S/ECMWF" in done.out
    assert "warning" not in done.err
    if path.suffix in (".csv", ".parquet"):
        rows = (
            pd.read_csv(path, dtype={"temperature_2m": "float32"}) if path.suffix == ".csv" else pd.read_parquet(path)
        )
        assert len(rows) == 48 * IS_LAND.sum()
        place = rows[rows["location_id"] == ERA5_LAND.grid.nearest_location(4.9, -2.1).location_id]
        values = place["temperature_2m"].to_numpy()
    else:
        with xr.open_dataset(path, engine="zarr" if path.is_dir() else "netcdf4") as opened:
            values = opened.temperature_2m.sel(latitude=4.9, longitude=-2.1).values
    wanted = land.series(latitude=4.9, longitude=-2.1, columns="t2m", start="2023-07-02", end="2023-07-03")
    assert np.array_equal(values, wanted["temperature_2m"].to_numpy())
    if path.suffix != ".csv":
        attributes = attributes_of(path)
        assert attributes["title"] == "ERA5-Land hourly data"
        assert "ERA5-Land hourly data from 1950 to present, doi:10.24381/cds.e2161bac" in attributes["source"]
        assert attributes.get("expver") in (None, "version of ERA5-Land")


def test_a_place_in_both_data_sets(here: InProcess, both: Warehouse) -> None:
    table = here.run("compare", *ON_LAND, "--from", "2023-07-02", "--column", "t2m").out
    assert "temperature_2m: ERA5-Land less ERA5 is " in table
    assert "degC on average of 24 hours" in table
    found = here.run("compare", *ON_LAND, "--from", "2023-07-02", "--format", "json").json()
    assert [found[name]["location_id"] for name in ("era5", "era5-land")] == [
        of.grid.nearest_location(5.04, -2.03).location_id for of in (ERA5, ERA5_LAND)
    ]
    series = {
        of.schema: here.run("series", "--dataset", of.name, *ON_LAND, "--from", "2023-07-02", "--format", "json").json()
        for of in (ERA5, ERA5_LAND)
    }
    for row, *own in zip(found["rows"], *(one["rows"] for one in series.values()), strict=True):
        for schema, values in zip(series, own, strict=True):
            for column in ("temperature_2m", "total_precipitation"):
                assert row[f"{column}_{schema}"] == values[column]
        assert "total_cloud_cover_era5" not in row
    assert_explained(here.run("compare", *ON_LAND, "--column", "tcc", code=2), "ERA5-Land has no 'tcc'")
    assert_explained(here.run("compare", *AT_SEA, code=3), "at sea", "--cell land")
