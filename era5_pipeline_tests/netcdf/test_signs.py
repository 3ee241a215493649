"""Tests of `netcdf/signs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import netCDF4
import numpy as np
import pytest

from era5_pipeline.model.dataset import ERA5, ERA5_LAND, Dataset
from era5_pipeline.model.variables import ERA5_LAND_CATALOGUE
from era5_pipeline.netcdf.grib import read_index
from era5_pipeline.netcdf.signs import Told, named_in, told_by
from era5_pipeline_tests.samples import DATA

if TYPE_CHECKING:
    from pathlib import Path

STEP = "GRIB_iDirectionIncrementInDegrees"


def told_of(path: Path, name: str, shown: str = "data_0.nc") -> Told:
    """Recognise a variable of a netCDF file by its signs."""
    with netCDF4.Dataset(path) as file:
        attributes = {key: file[name].getncattr(key) for key in file[name].ncattrs()}
        of_file = {key: file.getncattr(key) for key in file.ncattrs()}
        axes = [np.asarray(file[axis][:], dtype=np.float64) for axis in ("latitude", "longitude")]
    return told_by(attributes, of_file, shown, ERA5_LAND_CATALOGUE.find(name).column, axes)


def evidence(told: Told) -> list[str]:
    return [sign.evidence for sign in told.signs]


@pytest.mark.parametrize(
    ("file", "name", "dataset", "expected"),
    [
        (
            "indonesia-land-2023-07-10/data_0.nc",
            "ssrd",
            ERA5_LAND,
            [f"{STEP} 0.1", f"{STEP.replace('iD', 'jD')} 0.1", *["points 0.1 degrees apart"] * 2],
        ),
        (
            "sierra-leone-land-2025-02/era5-land-hourly-temp-precip-feb-2025-sierra-leone.nc",
            "tp",
            ERA5_LAND,
            [f"{STEP} 0.1", f"{STEP.replace('iD', 'jD')} 0.1", *["points 0.1 degrees apart"] * 2],
        ),
        # The former store's files say nothing but where their points are.
        ("land-t2m-expver-dim/nz_20222023.nc", "t2m", ERA5_LAND, ["points 0.1 degrees apart"] * 2),
        (
            "telangana-2023-09/data_stream-oper_stepType-accum.nc",
            "tp",
            ERA5,
            [f"{STEP} 0.25", f"{STEP.replace('iD', 'jD')} 0.25", *["points 0.25 degrees apart"] * 2],
        ),
        ("netherlands-2020-01-01-packed/ERA5_2020-01-01_tp.nc", "tp", ERA5, ["points 0.25 degrees apart"] * 2),
    ],
    ids=lambda one: str(one)[:30],
)
def test_real_files_tell_their_data_set(file: str, name: str, dataset: Dataset, expected: list[str]) -> None:
    told = told_of(DATA / "era5" / file, name)
    assert told.dataset == dataset
    assert told.accumulation == dataset.accumulation
    assert evidence(told) == expected


def test_temperatures_of_era5_land_are_forecasts(tmp_path: Path) -> None:
    with ZipFile(DATA / "era5" / "delhi-land-zip-named-nc" / "delhi_era5.nc") as archive:
        archive.extract("data_0.nc", tmp_path)
    told = told_of(tmp_path / "data_0.nc", "t2m")
    assert told.dataset == ERA5_LAND
    assert "GRIB_dataType fc" in evidence(told)
    era5 = told_of(DATA / "era5" / "telangana-2023-09" / "data_stream-oper_stepType-instant.nc", "u10")
    assert era5.dataset == ERA5
    assert "GRIB_dataType an" in evidence(era5)


def test_a_grib_file_tells_by_class_and_type_whose_steps_look_hourly() -> None:
    """Sunlight of this file has steps such as 5-6, and is the sum since 00 UTC."""
    told = {}
    for group in read_index(DATA / "era5" / "bad" / "era5-land.grib").groups:
        attributes = {"GRIB_class": group.key("class"), "GRIB_dataType": group.key("type")}
        variable = ERA5_LAND_CATALOGUE.by_param_id[group.key("paramId")]
        told[variable.short_name] = told_by(attributes, {}, "era5-land.grib", variable.column)
    assert {(one.dataset, one.accumulation) for one in told.values()} == {(ERA5_LAND, "day")}
    assert evidence(told["ssrd"]) == evidence(told["stl1"]) == ["GRIB_class l5"]
    assert evidence(told["t2m"]) == ["GRIB_class l5", "GRIB_dataType fc"]


@pytest.mark.parametrize(
    ("text", "dataset", "accumulation"),
    [
        ("reanalysis-era5-land-timeseries-sfc-pressure-precipitationabc.nc", ERA5_LAND, "hour"),
        ("https://arco.example/arco/reanalysis_era5_land/sfc-wind/geoChunked.zarr", ERA5_LAND, "hour"),
        ("doi:10.24381/ee82e357", ERA5_LAND, "hour"),
        ("reanalysis-era5-land-no-antartica-v0.zarr", ERA5_LAND, "day"),
        ("cdsapi: reanalysis-era5-land to x.grib", ERA5_LAND, "day"),
        ("https://doi.org/10.24381/cds.e2161bac", ERA5_LAND, "day"),
        ("reanalysis-era5-single-levels-timeseries-sfcabc.csv", ERA5, "hour"),
        ("10.24381/cds.adbb2d47", ERA5, "hour"),
        ("reanalysis-era5-single-levels-monthly-means", None, None),
        ("reanalysis-era5-pressure-levels", None, None),
        ("my era5-land files", None, None),
    ],
)
def test_names_and_dois_tell_data_sets_and_who_has_taken_sums_apart(
    text: str, dataset: Dataset | None, accumulation: str | None
) -> None:
    told = told_by({}, {"history": text}, "x.nc")
    assert (told.dataset, told.accumulation) == (dataset, accumulation)
    found = named_in(text)
    assert (None if found is None else found.dataset) == dataset
    assert told_by({}, {}, text).dataset == dataset


def test_a_series_that_was_taken_apart_says_so_beside_all_signs_of_the_data_set() -> None:
    attributes = {"GRIB_stepType": "accum", STEP: 0.1}
    told = told_by(attributes, {}, "reanalysis-era5-land-timeseries-sfc-radiation-heat.nc", SSRD)
    assert (told.dataset, told.accumulation) == (ERA5_LAND, "hour")
    assert told_by(attributes, {}, "data_0.nc", SSRD).accumulation == "day"


SSRD = "surface_solar_radiation_downwards"
ONE = np.array([47.3])


@pytest.mark.parametrize(
    ("attributes", "axes"),
    [
        ({}, ()),
        ({}, (ONE, ONE)),  # a single point of the former store: nothing tells
        ({STEP: 0.5}, (np.array([1.0, 1.5, 2.0]),)),
        ({STEP: "unknown"}, (np.array([1.0, 1.1, 1.35]),)),
        ({"GRIB_class": "od", "GRIB_stepType": "accum"}, ()),
        ({STEP: 0.1, "GRIB_class": "ea"}, ()),  # ERA5 that was requested 0.1 degrees apart, or what pretends to be
    ],
)
def test_what_does_not_tell_or_contradicts_itself_is_not_stated(attributes: dict[str, Any], axes: tuple[Any]) -> None:
    told = told_by(attributes, {"Conventions": "CF-1.6"}, "download.nc", "temperature_2m", axes)
    assert (told.dataset, told.accumulation) == (None, None)


def test_the_type_of_a_variable_that_both_have_alike_tells_nothing() -> None:
    for column in ("skin_temperature", SSRD, "snow_cover", None):
        for kind in ("an", "fc"):
            assert told_by({"GRIB_dataType": kind}, {}, "x.nc", column).dataset is None
    assert told_by({"GRIB_dataType": "fc"}, {}, "x.nc", "temperature_2m").dataset == ERA5_LAND
    assert told_by({"GRIB_dataType": "an"}, {}, "x.nc", "temperature_2m").dataset == ERA5
