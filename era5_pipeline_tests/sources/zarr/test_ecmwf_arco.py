"""Months of a data set whose variables are in several stores."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pytest

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.errors import SourceError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.netcdf.cds_files import Axes
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.sample_weather import SampleWeather
from era5_pipeline.sources.zarr.chunk_plan import joined, plan_chunks, stored_rates
from era5_pipeline.sources.zarr.presets import PRESETS
from era5_pipeline_tests.arco_store import served
from era5_pipeline_tests.zarr_stores import HOURLY, write_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.arco_store import Web

MONTH, TOKEN = Month(2020, 2), "key-of-the-store"
HOURS = range(hours_of_month(MONTH).start - 48, hours_of_month(MONTH).stop + 24)
AREA = "51.5/-0.2/51.3/0.1"
GROUPS = {"2m-temperature": "t2m d2m", "pressure-precipitation": "sp tp"}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Two groups as ECMWF's: latitudes from the south, longitudes across Greenwich, amounts of hours, no sea."""
    folder = tmp_path_factory.mktemp("arco")
    axes = Axes.of(Area.parse(AREA, ERA5_LAND.grid))
    cut = dataclasses.replace(HOURLY, chunk=(720, 4, 4), short_names=True, is_ascending=True, is_eastward=False)
    for group, names in GROUPS.items():
        variables = ERA5_LAND.catalogue.find_all(names.replace(" ", ","))
        values = SampleWeather(axes.latitudes, axes.longitudes, axes.grid).at(np.array(HOURS), variables)
        path = folder / f"reanalysis_era5_land/sfc-{group}/geoChunked.zarr"
        path.parent.mkdir(parents=True)
        columns = tuple(variable.column for variable in variables)
        held = {column: values[column] for column in columns}
        write_store(path, cut, HOURS, columns, held, (axes.latitudes, axes.longitudes))
    with served(folder, with_ranges=True) as web:
        yield web


@pytest.fixture
def chosen(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    urls = {f"{web.url}/reanalysis_era5_land/sfc-{group}/geoChunked.zarr": names for group, names in GROUPS.items()}
    groups = {"era5-land": {url: tuple(names.split()) for url, names in urls.items()}}
    monkeypatch.setitem(PRESETS, "ecmwf-arco", dataclasses.replace(PRESETS["ecmwf-arco"], groups=groups))
    (tmp_path / "key").write_text(TOKEN)
    return Settings(
        _env_file=None,
        home=tmp_path / "home",
        source="ecmwf-arco",
        dataset="era5-land",
        area=AREA,
        zarr_token_file=tmp_path / "key",
    )


def test_a_month_has_the_files_of_each_group_and_amounts_of_hours(web: Web, chosen: Settings, tmp_path: Path) -> None:
    with source_of(chosen).in_turn() as source:
        raw = source.fetch(MONTH, (MONTH,))
    assert set(web.authorizations) == {f"Bearer {TOKEN}"}
    assert raw.variables == ("temperature_2m", "total_precipitation")
    lacking = ("zonal_wind_10m", "meridional_wind_10m", "snowfall")
    assert raw.warnings == tuple(f"the stores do not have {column}: it is NULL" for column in lacking)
    flat = flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet")
    assert {facts.column: (facts.missing, facts.hours) for facts in flat.columns} == {
        "temperature_2m": (0, 696),
        "total_precipitation": (0, 696),
    }
    amounts = []
    for held in raw.files:
        with netCDF4.Dataset(held.path) as file:
            amounts += [file["tp"][:]] if "tp" in file.variables else []
    (rain,) = (facts for facts in flat.columns if facts.column == "total_precipitation")
    assert sum(map(len, amounts)) == 696
    assert rain.maximum == pytest.approx(1000 * max(float(part.max()) for part in amounts), rel=1e-6)
    again = source_of(chosen)
    assert again.known(MONTH) == again.fetch(MONTH) == raw


def test_the_chunks_of_all_groups_are_planned(chosen: Settings) -> None:
    axes = Axes.of(Area.parse(AREA, ERA5_LAND.grid))
    plans = []
    for of_store in source_of(chosen).stores((MONTH,)):  # type: ignore[attr-defined]
        with of_store.opened() as (store, layout):
            plans.append(plan_chunks(layout, axes, (MONTH,), stored_rates(store, layout, axes, (MONTH,))))
    one, other = plans
    both = joined(plans)
    assert (both.chunks, both.decoded_bytes) == (one.chunks + other.chunks, one.decoded_bytes + other.decoded_bytes)
    assert both.bytes == (one.bytes or 0) + (other.bytes or 0)


def test_a_variable_of_no_group_is_refused_if_it_is_named(chosen: Settings) -> None:
    with pytest.raises(SourceError, match="ECMWF's ARCO data lake, chunks of long series has no snowfall of ERA5-Land"):
        source_of(chosen.model_copy(update={"variables": "t2m,sf"}))
    assert source_of(chosen.model_copy(update={"variables": "t2m"})).fetch(MONTH).variables == ("temperature_2m",)
