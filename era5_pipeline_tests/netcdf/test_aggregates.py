from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline_tests.era5_files import CURRENT, LEGACY, Weather, hours_from, weather, write_netcdf
from era5_pipeline_tests.samples import more_real_files

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.netcdf.contents import Contents

HOURS = hours_from("2023-06-30T22", 5)
POINT: dict[str, Any] = {"latitudes": [0.0], "longitudes": [0.0]}
RUN = "Tue Feb 25 07:43:59 2025:"
CFGRIB = (
    '2025-11-10T14:37 GRIB to CDM+CF via cfgrib-0.9.15.0/ecCodes-2.42.0 with {"source": "data.grib", '
    '"filter_by_keys": {"stream": ["%s"], "stepType": ["%s"]}}'
)
DAILY = (
    "earthkit.transforms.aggregate.temporal.daily_reduce(2m_temperature_stream-oper, how=mean, "
    "**{'time_shift': {'hours': 7}, 'remove_partial_periods': True})"
)


def look_into(path: Path, of: Weather, history: str = "", name: str = "t2m", **attributes: object) -> Contents:
    write_netcdf(path, of, replace(CURRENT, attributes=attributes))
    if history:
        with netCDF4.Dataset(path, "a") as dataset:
            dataset.history = history
    return inspect(NetcdfFile(path, path))


def refusal(contents: Contents) -> str:
    (problem,) = contents.problems
    assert contents.fields == ()
    assert (problem.kind, problem.months) == ("aggregate", ("2023-06", "2023-07"))
    assert "reanalysis-era5-single-levels" in problem.remedy
    return problem.text


@pytest.mark.parametrize(
    ("name", "attributes", "said"),
    [
        ("t2m", {"GRIB_stepType": "avgua"}, "t2m holds monthly means (GRIB_stepType avgua, of hours it is instant)"),
        ("tp", {"GRIB_stepType": "avgad"}, "tp holds monthly means (GRIB_stepType avgad, of hours it is accum)"),
        ("t2m", {"GRIB_stepType": "avgid"}, "GRIB_stepType avgid"),
        ("t2m", {"GRIB_stepType": "avgas"}, "GRIB_stepType avgas"),
        ("t2m", {"GRIB_stepType": "avg"}, "GRIB_stepType avg, of hours it is instant"),
        ("tp", {"GRIB_stepType": "max"}, "GRIB_stepType max, of hours it is accum"),
        ("t2m", {"GRIB_dataType": "em"}, "means of an ensemble"),
        ("t2m", {"GRIB_dataType": "es"}, "the spread of an ensemble"),
        ("t2m", {"GRIB_totalNumber": np.int64(10)}, "values of an ensemble (GRIB_totalNumber 10)"),
        ("t2m", {"GRIB_stream": "moda"}, "monthly means (GRIB_stream moda)"),
        ("t2m", {"cell_methods": "time: mean"}, "a mean over time (cell_methods: time: mean)"),
        ("tp", {"cell_methods": "time: sum within days time: mean over days"}, "a sum over time"),
        ("t2m", {"cell_methods": "time: maximum (interval: 1 day)"}, "a maximum over time"),
    ],
)
def test_a_variable_that_says_it_is_not_of_hours_is_refused(
    tmp_path: Path, name: str, attributes: dict[str, Any], said: str
) -> None:
    text = refusal(look_into(tmp_path / "x.nc", weather(HOURS, names=[name]), **attributes))
    assert said in text
    assert text.endswith("not values of hours")


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (CFGRIB % ("moda", "avgua"), "monthly means (stream moda in its history)"),
        (CFGRIB % ("mnth", "instant"), "stream mnth"),
        (CFGRIB % ("enda", "instant"), "values of an ensemble (stream enda"),
        ("ncks data_stream-moda_stepType-avgua.nc x.nc", "stream moda"),
        (DAILY, "daily statistics (daily_reduce in its history)"),
        ("cdstoolbox: ct.climate.daily_mean(data)", "daily statistics (daily_mean"),
        ('{"daily_statistic": "daily_maximum"}', "daily_maximum"),
        ("earthkit.transforms.temporal.reduce(x)", "earthkit.transforms.temporal.reduce"),
        ("retrieved from reanalysis-era5-single-levels-monthly-means", "era5-single-levels-monthly-means"),
        ("derived-era5-single-levels-daily-statistics", "era5-single-levels-daily-statistics"),
        (f"{RUN} cdo -O -f nc4 monmean in.nc out.nc", "statistics (cdo monmean in its history)"),
        (f"{RUN} /usr/bin/cdo -daysum -selname,tp in.nc out.nc", "cdo daysum"),
        ("cdo timselmean,24 in.nc out.nc", "cdo timselmean"),
        ("cdo inttime,2020-01-01,00:00:00,1hour in.nc out.nc", "interpolated values (cdo inttime"),
        (f"{RUN} cdo ensmean 1.nc 2.nc out.nc", "cdo ensmean"),
        (f"{RUN} ncra -O in.nc out.nc", "averages of records (ncra"),
        (f"{RUN} ncwa -a time in.nc out.nc", "averages (ncwa -a time"),
        (f"{RUN} ncwa -a latitude,valid_time in.nc out.nc", "ncwa -a latitude,valid_time"),
        (f"2020: cdo sellonlatbox,1,2,3,4 a.nc b.nc\n{RUN} cdo ymonmean a.nc b.nc", "cdo ymonmean"),
    ],
)
def test_a_file_whose_history_says_that_hours_were_averaged_is_refused(tmp_path: Path, history: str, said: str) -> None:
    assert said in refusal(look_into(tmp_path / "x.nc", weather(HOURS), history))


@pytest.mark.parametrize(
    ("history", "attributes", "said"),
    [
        (f"{RUN} cdo fldmean in.nc out.nc", {}, "statistics of a region (cdo fldmean in its history)"),
        (f"{RUN} cdo -s -fldmean -sellonlatbox,1,2,3,4 in.nc out.nc", {}, "cdo fldmean"),
        ("cdo zonmean in.nc out.nc", {}, "cdo zonmean"),
        ("cdo -mermean in.nc out.nc", {}, "cdo mermean"),
        ("cdo remapbil,lon=0/lat=0 in.nc out.nc", {}, "another grid, interpolated (cdo remapbil"),
        ("cdo remapcon,r1x1 in.nc out.nc", {}, "cdo remapcon"),
        (f"{RUN} ncwa -a latitude,longitude in.nc out.nc", {}, "ncwa -a latitude,longitude"),
        ("earthkit.transforms.aggregate.spatial.reduce(x)", {}, "spatial.reduce"),
        ("", {"cell_methods": "area: mean"}, "a mean over area (cell_methods: area: mean)"),
        ("", {"cell_methods": "latitude: longitude: mean"}, "a mean over latitude"),
        ("", {"cell_methods": "time: point area: mean where land"}, "a mean over area"),
    ],
)
def test_a_point_that_stands_for_a_region_is_refused(
    tmp_path: Path, history: str, attributes: dict[str, Any], said: str
) -> None:
    text = refusal(look_into(tmp_path / "x.nc", weather(HOURS, **POINT), history, **attributes))
    assert said in text
    assert text.endswith("not values of grid points")


@pytest.mark.parametrize(("operator", "left"), [("zonmean", "longitudes"), ("mermean", "latitudes")])
def test_one_value_left_along_an_axis_is_refused_where_the_mean_is_over_this_axis(
    tmp_path: Path, operator: str, left: str
) -> None:
    axes: dict[str, Any] = {left: [0.0]}
    assert f"cdo {operator}" in refusal(look_into(tmp_path / "x.nc", weather(HOURS, **axes), f"cdo {operator} a b"))
    other: dict[str, Any] = {"latitudes" if left == "longitudes" else "longitudes": [0.0]}
    assert look_into(tmp_path / "y.nc", weather(HOURS, **other), f"cdo {operator} a b").problems == ()


@pytest.mark.parametrize(
    ("history", "name", "attributes"),
    [
        (CFGRIB % ("oper", "instant"), "t2m", {"GRIB_stepType": "instant", "GRIB_totalNumber": np.int64(0)}),
        (CFGRIB % ("oper", "accum"), "tp", {"GRIB_stepType": "accum"}),
        ("", "tp", {"cell_methods": "time: sum"}),
        ("", "t2m", {"cell_methods": "time: point"}),
        ("", "t2m", {"cell_methods": "time: mean (interval: 1 hour)"}),
        ("", "t2m", {"cell_methods": "anything at all"}),
        # A cell cut out by its nearest neighbour is this cell.
        ("cdo remapnn,lon=0/lat=0 in.nc out.nc", "t2m", {}),
        ("cdo hourmean in.nc out.nc", "t2m", {}),
        ("cdo sellonlatbox,0,0,0,0 in.nc out.nc", "t2m", {}),
        # Names of files and folders say nothing of what was done to this one.
        ("cdo selname,t2m /data/fldmean/daymean.nc fldmean.nc", "t2m", {}),
        ("ncks -d time,0 /data/daily_mean/t2m_daily_mean_2020.nc out.nc", "t2m", {}),
        ("the input of ncra and cdo fldmean is made later", "t2m", {}),
        # Drops a dimension of size one.
        (f"{RUN} ncwa -a expver,number in.nc out.nc", "t2m", {}),
        (f"{RUN} ncrename -v lat,latitude in.nc", "t2m", {}),
    ],
)
def test_hours_of_one_point_are_read(tmp_path: Path, history: str, name: str, attributes: dict[str, Any]) -> None:
    contents = look_into(tmp_path / "x.nc", weather(HOURS, names=[name], **POINT), history, **attributes)
    assert contents.problems == ()
    assert len(contents.fields) == 1


def test_a_regridded_area_and_area_means_of_cells_are_read(tmp_path: Path) -> None:
    of = weather(HOURS)
    contents = look_into(tmp_path / "x.nc", of, "cdo remapbil,grid.txt in.nc out.nc", cell_methods="area: mean")
    assert contents.problems == ()


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.short_name)
def test_each_variable_is_read_with_its_own_step_type(tmp_path: Path, variable: Any) -> None:  # of a table
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS[:1]))
    with netCDF4.Dataset(path, "a") as dataset:
        array = dataset["t2m"]
        array.setncatts(
            {
                "GRIB_stepType": variable.step_type,
                "GRIB_paramId": np.int64(variable.param_id),
                "units": variable.file_units[0],
                "cell_methods": {"accum": "time: sum", "avg": "time: mean"}.get(variable.step_type, "time: point"),
            }
        )
        if variable.short_name != "t2m":
            dataset.renameVariable("t2m", variable.short_name)
    (field,) = inspect(NetcdfFile(path, path)).fields
    assert (field.column, field.states_step_type) == (variable.column, True)


def test_a_mean_on_the_half_hour_is_refused_as_a_mean(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS), LEGACY)
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["time"].units = "hours since 1900-01-01 00:30:00"
        dataset.history = "cdo daymean in.nc out.nc"
    (problem,) = inspect(NetcdfFile(path, path)).problems
    assert "cdo daymean" in problem.text


@pytest.mark.parametrize("path", more_real_files("monthly-means-2005-2024.nc"))
def test_a_real_file_of_monthly_means_is_refused_by_name(path: Path) -> None:
    (problem,) = inspect(NetcdfFile(path, path)).problems
    assert "t2m holds monthly means (GRIB_stepType avgua" in problem.text
    assert len(problem.months) == 240
