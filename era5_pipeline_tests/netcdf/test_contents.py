from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.model.dataset import ERA5, ERA5_LAND, Dataset
from era5_pipeline.model.grid import ERA5_GRID, Grid, Shift
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.contents import Contents, Problem, expver_text, inspect
from era5_pipeline_tests.era5_files import (
    ALL_VARIABLES,
    CURRENT,
    LAYOUTS,
    LEGACY,
    Layout,
    Weather,
    hour,
    hours_from,
    weather,
    write_netcdf,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOURS = hours_from("2023-06-30T22", 5)


def look_into(path: Path) -> Contents:
    return inspect(NetcdfFile(path, path))


def only_problem(path: Path) -> Problem:
    contents = look_into(path)
    assert contents.fields == ()
    (problem,) = contents.problems
    assert problem.file == str(path)
    assert str(problem).startswith(str(path))
    assert problem.remedy
    return problem


def changed(path: Path, change: Callable[[netCDF4.Dataset], Any]) -> Path:
    with netCDF4.Dataset(path, "a") as dataset:
        change(dataset)
    return path


# ---- usable fields


def test_a_field_describes_how_to_read_its_values(tmp_path: Path) -> None:
    of = weather(HOURS, names=["tp"], expver=("0001", "0001", "0005", "0005", "0001"))
    path = write_netcdf(tmp_path / "x.nc", of, replace(CURRENT, chunks=(4, 2, 3)))
    (field,) = look_into(path).fields
    assert (field.column, field.name) == ("total_precipitation", "tp")
    np.testing.assert_array_equal(field.hours, HOURS)
    assert field.expver.tolist() == ["0001", "0001", "0005", "0005", "0001"]
    assert field.latitude_index.tolist() == [402, 401, 400]
    assert field.chunks == (4, 2, 3)
    assert field.dimensions == ("valid_time", "latitude", "longitude")
    assert field.half_step == 0.0


def test_a_packed_field_has_half_its_packing_step_in_the_unit_of_the_table(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS, names=["tp"]), LEGACY)
    with netCDF4.Dataset(path) as dataset:
        scale = float(dataset["tp"].scale_factor)
    (field,) = look_into(path).fields
    assert field.half_step == pytest.approx(0.5 * scale * 1000)
    assert field.chunks == (0, 0, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1, "0001"), ("0001", "0001"), ("1", "0001"), (b"0005", "0005"), (5.0, "0005"), (np.int32(5), "0005")),
        ("", "unknown"),
    ],
)
def test_versions_are_normalised_to_four_digits(value: object, text: str) -> None:
    assert expver_text(value) == text


def test_expver_stored_as_characters_is_read(tmp_path: Path) -> None:
    def add_expver(dataset: netCDF4.Dataset) -> None:
        dataset.createDimension("characters", 4)
        dataset.createVariable("expver", "S1", ("valid_time", "characters"))[:] = [list("0005")] * 5

    path = write_netcdf(tmp_path / "x.nc", weather(HOURS), replace(CURRENT, expver="absent"))
    (field,) = look_into(changed(path, add_expver)).fields
    assert set(field.expver) == {"0005"}


def test_an_expver_dimension_gives_one_field_per_version(tmp_path: Path) -> None:
    layout = replace(LEGACY, expver="dimension")
    first, second = look_into(write_netcdf(tmp_path / "x.nc", weather(HOURS), layout)).fields
    assert (set(first.expver), first.expver_position) == ({"0001"}, 0)
    assert (set(second.expver), second.expver_position) == ({"0005"}, 1)


def forecast(path: Path, steps: int) -> Path:
    start = np.array(["2023-07-01T06", "2023-07-01T18"], dtype="datetime64[ns]")
    ahead = np.arange(1, steps + 1) * np.timedelta64(3_600_000_000_000, "ns")
    axes: dict[str, Any] = {"time": start, "step": ahead, "latitude": [10.0], "longitude": [20.0, 20.25]}
    dimensions = tuple(axes)
    axes["valid_time"] = (dimensions[:2], start[:, np.newaxis] + ahead)
    dataset = xr.Dataset({"tp": (dimensions, np.zeros((2, steps, 1, 2)), {"units": "m"})}, axes)
    dataset["latitude"].attrs["units"], dataset["longitude"].attrs["units"] = "degrees_north", "degrees_east"
    dataset.to_netcdf(path)
    return path


def test_valid_time_is_used_not_the_start_of_the_forecast(tmp_path: Path) -> None:
    """As cfgrib writes accumulations: `time` is the start of the forecast, one `step` earlier."""
    path = forecast(tmp_path / "x.nc", steps=1)
    (field,) = look_into(path).fields
    np.testing.assert_array_equal(field.hours, [hour("2023-07-01T07"), hour("2023-07-01T19")])
    assert only_problem(forecast(tmp_path / "several.nc", steps=2)).kind == "dimensions"


def test_a_meridian_given_as_0_and_360_and_float32_rounding_of_coordinates_are_accepted(tmp_path: Path) -> None:
    of = weather(HOURS, latitudes=[10.0003, 9.75], longitudes=[0.0, 0.2497, 359.75, 360.0])
    (field,) = look_into(write_netcdf(tmp_path / "x.nc", of, LEGACY)).fields
    assert field.latitude_index.tolist() == [400, 399]
    assert field.longitude_index.tolist() == [719, 720, 718, 719]


def is_ignored(dataset: netCDF4.Dataset) -> None:
    """Other variables, usable or not, a dimension of size one, what xarray warns of (warnings are errors here)."""
    add_members(dataset, 1)
    dataset.createDimension("level", 3)
    dataset.createVariable("z", "f4", ("level", "latitude"))
    dataset.createVariable("crs", "i4", ())
    dataset["t2m"].setncattr("missing_value", np.float32(5))


def add_members(dataset: netCDF4.Dataset, members: int) -> None:
    dataset.renameVariable("t2m", "other")
    dataset.createDimension("number", members)
    t2m = dataset.createVariable("t2m", "f4", ("number", "valid_time", "latitude", "longitude"))
    t2m.setncatts({"units": "K", "coordinates": "valid_time latitude longitude"})
    t2m[...] = 280.0


@pytest.mark.parametrize("name", ["Wetter für Köln #1.nc", "100% a&b;c.nc", "[brackets].nc", "x" * 200 + ".nc"])
def test_other_variables_and_the_file_name_do_not_matter(tmp_path: Path, name: str) -> None:
    contents = look_into(changed(write_netcdf(tmp_path / name, weather(HOURS)), is_ignored))
    assert [field.name for field in contents.fields] == ["t2m"]
    assert {column for problem in contents.problems for column in problem.columns} == {"surface_geopotential"}


# ---- problems


def test_ensemble_members_are_refused(tmp_path: Path) -> None:
    problem = only_problem(
        changed(write_netcdf(tmp_path / "x.nc", weather(HOURS)), lambda dataset: add_members(dataset, 10))
    )
    assert problem.kind == "dimensions"
    assert "10 values along number" in problem.text
    assert problem.months == ("2023-06", "2023-07")


@pytest.mark.parametrize(
    ("name", "attributes", "said"),
    [
        ("t2m", {"units": "degC", "long_name": "2 metre temperature"}, "t2m is in degC, not in K"),
        ("t2m", {"units": "degC", "long_name": "mean of 2022"}, "t2m is mean of 2022 in degC, not in K"),
        ("t2m", {"units": ""}, "in no units, not in K"),
        ("ssrd", {"units": "W m**-2"}, "ssrd is in W m**-2, a mean flux; ERA5 has the total of the hour, in J m**-2"),
        (
            "tp",
            {"units": "kg m**-2 s**-1"},
            "tp is in kg m**-2 s**-1, a mean flux; ERA5 has the total of the hour, in m",
        ),
        ("tp", {"units": "mm"}, "in mm"),
        ("tcc", {"units": "%"}, "in %"),
        (
            "sf",
            {"units": "m**2 s**-1", "long_name": "Stream function"},
            "sf is Stream function in m**2 s**-1, not in m of water",
        ),
        ("tp", {"GRIB_paramId": 228228}, "parameter 228228"),
        # The wind at 100 m, by its number, or where a legacy file has none, by its long name.
        ("u10", {"GRIB_paramId": 228246}, "parameter 228246, 100 metre U wind component, not eastward wind 10 m"),
        ("u10", {"long_name": "100 metre U wind component"}, "u10 is 100 metre U wind component, not east"),
        ("u10", {"long_name": "10 metre V wind component"}, "u10 is 10 metre V wind component"),
    ],
)
def test_other_units_or_parameters_are_refused(
    tmp_path: Path, name: str, attributes: dict[str, Any], said: str
) -> None:
    layout = replace(LEGACY if attributes.keys() == {"long_name"} else CURRENT, attributes=attributes)
    problem = only_problem(write_netcdf(tmp_path / "x.nc", weather(HOURS, names=[name]), layout))
    assert (problem.kind, problem.columns) == ("units", (ALL_VARIABLES[name][0],))
    assert said in problem.text
    assert name != "u10" or "10m_u_component_of_wind" in problem.remedy
    assert problem.months == ("2023-06", "2023-07")


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"latitudes": [10.1, 10.0]}, "latitude 10.1 is not on"),
        ({"latitudes": [28.9, 28.4], "longitudes": [20.0, 20.1]}, "latitude 28.9 is not on"),
        ({"latitudes": [10.5, 10.25], "longitudes": [20.125, 20.375]}, "longitude 20.125 is not on"),
        ({"longitudes": [20.0, 20.1, 20.2, 20.3]}, "longitude 20.1 is not on"),
        ({"latitudes": [91.0, 90.75]}, "latitude 91 is not on"),
        ({"longitudes": [400.0]}, "longitude 400 is not"),
        ({"latitudes": [np.nan, 10.0]}, "latitude nan is not on"),
        ({"latitudes": [9.969209968386869e36] * 2}, "latitude holds only fill values"),
        ({"longitudes": [np.nan] * 2}, "longitude holds only fill values"),
        ({"latitudes": [10.0, 10.0]}, "a latitude occurs more than once"),
        ({"longitudes": [10.0, 10.25, 10.0]}, "a longitude occurs more than once"),
    ],
)
def test_points_off_the_grid_are_named(tmp_path: Path, axes: dict[str, list[float]], said: str) -> None:
    problem = only_problem(write_netcdf(tmp_path / "x.nc", weather(HOURS, **axes)))  # type: ignore[arg-type]
    assert problem.kind == "grid"
    assert said in problem.text
    assert problem.months == ("2023-06", "2023-07")


def test_points_beside_those_of_the_grid_are_fields_and_a_problem_with_its_remedies(tmp_path: Path) -> None:
    of = weather(HOURS, latitudes=[28.9, 28.65], longitudes=[179.8, 180.05], names=["t2m", "u10"])
    contents = look_into(write_netcdf(tmp_path / "x.nc", of))
    (problem,) = contents.problems
    assert (problem.kind, problem.area, problem.shift) == ("grid", "29/179.75/28.5/-179.75", Shift(-0.1, 0.05))
    assert problem.remedy == (
        "Request it on the grid: era5 load --from 2023-06 --to 2023-07 --source cds --area 29/179.75/28.5/-179.75 "
        "--variables t2m,u10; or take each value to its nearest point, 0.1 degrees off: --off-grid nearest."
    )
    for field in contents.fields:
        assert field.shift == problem.shift
        assert field.latitude_index.tolist() == ERA5_GRID.latitude_indices([29.0, 28.75]).tolist()
        assert field.longitude_index.tolist() == ERA5_GRID.longitude_indices([179.75, 180.0]).tolist()


@settings(max_examples=25, deadline=None)
@given(st.floats(-0.12, 0.12), st.floats(-0.12, 0.12), st.sampled_from([CURRENT, LEGACY]))
def test_any_shift_under_half_a_cell_is_found(
    tmp_path_factory: pytest.TempPathFactory, to_north: float, to_east: float, layout: Layout
) -> None:
    of = weather(HOURS[:1], [48.75 + to_north, 48.5 + to_north], [179.75 + to_east, 180.0 + to_east])
    (field,) = look_into(write_netcdf(tmp_path_factory.getbasetemp() / "shifted.nc", of, layout)).fields
    assert (field.latitude_index / 4 - 90).tolist() == [48.75, 48.5]
    assert (field.longitude_index / 4 - 179.75).tolist() == [179.75, 180.0]
    found = field.shift or Shift(0.0, 0.0)
    assert found.is_like(Shift(to_north, to_east))


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"latitudes": [10.1, 10.0]}, "its latitudes do not all lie beside grid points in the same way"),
        ({"longitudes": [20.125, 20.375]}, "its longitudes lie half way between grid points"),
        ({"longitudes": [20.1, 20.1]}, "several of its longitudes lie beside the same grid point"),
    ],
)
def test_points_without_a_nearest_one_are_refused_with_the_reason(
    tmp_path: Path, axes: dict[str, list[float]], why: str
) -> None:
    problem = only_problem(write_netcdf(tmp_path / "x.nc", weather(HOURS, **axes)))  # type: ignore[arg-type]
    assert problem.shift is None
    assert problem.remedy.startswith("Request it on the grid: era5 load --from 2023-06 --to 2023-07 --source cds")
    assert problem.remedy.endswith(f"({why}: --off-grid nearest does not apply).")
    beyond_a_pole = only_problem(write_netcdf(tmp_path / "y.nc", weather(HOURS, latitudes=[90.2, 89.95])))
    assert "latitude 90.25 is not on" in beyond_a_pole.remedy


def test_a_single_point_must_say_that_it_is_not_of_era5_land(tmp_path: Path) -> None:
    of = weather(HOURS, latitudes=[10.1], longitudes=[20.1])
    problem = only_problem(write_netcdf(tmp_path / "x.nc", of, LEGACY))
    assert "its only point may be of ERA5-Land, and it does not say" in problem.remedy
    stated = replace(CURRENT, attributes={"GRIB_iDirectionIncrementInDegrees": 0.25})
    (field,) = look_into(write_netcdf(tmp_path / "y.nc", of, stated)).fields
    assert field.shift == Shift(0.1, 0.1)


def test_two_dimensional_coordinates_are_refused(tmp_path: Path) -> None:
    def project(dataset: netCDF4.Dataset) -> None:
        for name in ("y", "x"):
            dataset[name].setncatts({"units": "m", "standard_name": f"projection_{name}_coordinate"})
        for name, units in (("nav_lat", "degrees_north"), ("nav_lon", "degrees_east")):
            dataset.createVariable(name, "f8", ("y", "x")).units = units
        dataset["t2m"].coordinates = "nav_lat nav_lon valid_time"

    path = write_netcdf(tmp_path / "x.nc", weather(HOURS), replace(CURRENT, axis_names=("y", "x")))
    problem = only_problem(changed(path, project))
    assert problem.kind == "dimensions"
    assert "two-dimensional" in problem.text


@pytest.mark.parametrize(("name", "said"), [("latitude", "t2m has no latitude"), ("valid_time", "t2m has no time")])
def test_missing_coordinates_are_named(tmp_path: Path, name: str, said: str) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS))

    def take_away(dataset: netCDF4.Dataset) -> None:
        dataset[name].setncatts({"units": "1", "standard_name": "index"})
        dataset.renameVariable(name, "other")

    problem = only_problem(changed(path, take_away))
    assert problem.kind == "dimensions"
    assert said in problem.text


def times(position: Any, value: Any, **attributes: Any) -> Callable[[netCDF4.Dataset], None]:
    """Change a value of the time, or all of them, and its attributes."""

    def change(dataset: netCDF4.Dataset) -> None:
        dataset["valid_time"].setncatts(attributes)
        dataset["valid_time"].set_auto_mask(False)
        dataset["valid_time"][position] = value

    return change


AT_ONE = hour("2023-06-30T23") * 3600
BOTH, ALL = ("2023-06", "2023-07"), slice(None)


@pytest.mark.parametrize(
    ("change", "months", "said"),
    [
        *((times(1, AT_ONE + seconds), BOTH, "is not on the hour") for seconds in (60, 1800, -1, 3599)),
        (times(ALL, AT_ONE + 3600), ("2023-07",), "2023-07-01T00:00 occurs 11 times"),
        (times(2, 7, missing_value=np.int64(7)), None, "fill values"),
        (times(ALL, 3600 * hour("1900-01-01T00") + 3600 * np.arange(11)), (), "1900-01-01T00:00 is before ERA5 begins"),
        (
            times(ALL, range(11), units="hours since 1500-01-01", calendar="standard"),
            None,
            "1500-01-01 00:00:00 is none",
        ),
        *((times(1, AT_ONE, calendar=name), None, f"calendar {name}") for name in ("noleap", "360_day", "julian")),
        *((times(1, AT_ONE, units=units), None, "") for units in ("hours", "steps since start")),
    ],
)
def test_times_that_are_none_of_era5_are_refused(
    tmp_path: Path, change: Callable[[netCDF4.Dataset], None], months: tuple[str, ...] | None, said: str
) -> None:
    of = weather(hours_from("2023-06-30T22", 11))
    problem = only_problem(changed(write_netcdf(tmp_path / "x.nc", of), change))
    can_be_decoded = months is not None or said == "fill values"
    assert problem.kind in (("time",) if can_be_decoded else ("dimensions", "time", "unreadable"))
    assert said in problem.text
    assert months in (None, problem.months)
    assert "calendar" not in said or "reanalysis-era5-single-levels" in problem.remedy


def test_a_file_without_times_is_refused(tmp_path: Path) -> None:
    """As left by a program that was stopped before it wrote the first record."""
    of = Weather(HOURS[:0], np.array([10.0]), np.array([20.0]), {"t2m": np.empty((0, 1, 1))})
    path = write_netcdf(tmp_path / "x.nc", of, replace(LEGACY, packed="no", record_dimension=True))
    problem = only_problem(path)
    assert (problem.kind, "no times" in problem.text) == ("time", True)


def test_a_file_without_our_variables_lists_what_it_holds(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS))
    problem = only_problem(changed(path, lambda dataset: dataset.renameVariable("t2m", "swh")))
    assert problem.kind == "nothing"
    assert "it holds expver, number, swh" in problem.text or "it holds swh" in problem.text
    assert "swh describes ocean waves, which ERA5 has on another grid" in problem.text
    assert problem.months == ()


@pytest.mark.parametrize(
    ("name", "column"),
    [
        *(("mtpr", "mean_total_precipitation_rate"), ("ci", "sea_ice_cover"), ("SSTK", "sea_surface_temperature")),
        ("u100", "zonal_wind_100m"),
        # As ARCO-ERA5, KrigR and pycontrails call them.
        *(("2m_temperature", "temperature_2m"), ("total_precipitation", "total_precipitation")),
    ],
)
def test_names_of_earlier_files_and_other_services_are_known(tmp_path: Path, name: str, column: str) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS))

    def rename(dataset: netCDF4.Dataset) -> None:
        for attribute in dataset["t2m"].ncattrs():
            if attribute.startswith("GRIB_") or attribute in ("long_name", "standard_name"):
                dataset["t2m"].delncattr(attribute)
        dataset["t2m"].setncattr("units", BY_COLUMN[column].file_units[0])
        dataset.renameVariable("t2m", name)

    contents = look_into(changed(path, rename))
    assert ([field.column for field in contents.fields], contents.problems) == ([column], ())


GEOPOTENTIAL = {"units": "m**2 s**-2", "long_name": "Geopotential", "GRIB_paramId": 129}


@pytest.mark.parametrize(
    ("short_name", "of", "level", "attributes", "said"),
    [
        # Geopotential has the same name, unit and number at the surface and at pressure levels.
        *(("z", GEOPOTENTIAL, name, {}, "pressure") for name in ("pressure_level", "isobaricInhPa", "level")),
        *(
            (short_name, {}, name, attributes, "model")
            for short_name in ("2t", "q")
            for name, attributes in (
                ("level", {"long_name": "model_level_number"}),
                ("hybrid", {"units": "1"}),
                ("model_level", {}),
            )
        ),
    ],
)
def test_a_variable_at_a_level_is_refused(
    tmp_path: Path, short_name: str, of: dict[str, Any], level: str, attributes: dict[str, str], said: str
) -> None:
    def lift(dataset: netCDF4.Dataset) -> None:
        dataset["t2m"].setncatts(of)
        dataset.renameVariable("t2m", short_name)
        dataset.createVariable(level, "f8", ())[...] = 500.0
        dataset[level].setncatts(attributes)
        dataset[short_name].coordinates += f" {level}"

    problem = only_problem(changed(write_netcdf(tmp_path / "x.nc", weather(HOURS)), lift))
    assert f"{short_name} is at {said} levels ({level}): the table holds single levels" in problem.text
    assert problem.kind == "dimensions" or short_name == "q"


def test_a_gaussian_grid_is_named_once_for_all_variables(tmp_path: Path) -> None:
    of = weather(HOURS, names=["t2m", "u10"], latitudes=[10.5386, 10.2576])
    layout = replace(CURRENT, attributes={"GRIB_gridType": "regular_gg"})
    problem = only_problem(write_netcdf(tmp_path / "x.nc", of, layout))
    assert problem.text == "is on a Gaussian grid (regular_gg), not on ERA5's regular one of latitudes and longitudes"
    assert problem.columns == ("temperature_2m", "zonal_wind_10m")


def test_the_grid_of_era5_land_is_named(tmp_path: Path) -> None:
    of = weather(HOURS, latitudes=[10.2, 10.1, 10.0], longitudes=[20.0, 20.1])
    assert "is on a grid of 0.1 degrees, ERA5-Land's" in only_problem(write_netcdf(tmp_path / "x.nc", of)).text
    coarse = weather(HOURS, latitudes=[10.2, 10.0], longitudes=[20.0, 20.2])
    assert "ERA5-Land" not in only_problem(write_netcdf(tmp_path / "y.nc", coarse)).text


@pytest.mark.parametrize("dataset", [ERA5_LAND, replace(ERA5, name="made-up", grid=Grid("made up", 1.0, 181, 360))])
def test_a_file_is_read_on_the_grid_that_is_asked(tmp_path: Path, dataset: Dataset) -> None:
    grid = dataset.grid
    north, east = np.array([101, 100]), np.array([grid.columns - 2, grid.columns - 1, 0])
    of = weather(HOURS, latitudes=grid.latitudes_of(north), longitudes=grid.longitudes_of(east))
    path = write_netcdf(tmp_path / "x.nc", of)
    (field,) = inspect(NetcdfFile(path, path), dataset).fields
    assert (field.latitude_index.tolist(), field.longitude_index.tolist()) == (north.tolist(), east.tolist())
    other = write_netcdf(tmp_path / "y.nc", weather(HOURS))
    (problem,) = inspect(NetcdfFile(other, other), dataset).problems
    assert problem.text.startswith("is on a grid of 0.25 degrees, ERA5's: latitude 10.")
    assert problem.text.endswith(f" is not on {grid}")


def test_a_usable_variable_is_kept_when_another_is_not(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS, names=["t2m", "sf"]))
    contents = look_into(changed(path, lambda dataset: dataset["sf"].setncattr("units", "m**2 s**-1")))
    assert [field.name for field in contents.fields] == ["t2m"]
    assert [problem.kind for problem in contents.problems] == ["units"]


# ---- damage


@pytest.mark.parametrize(
    "layout",
    [replace(CURRENT, chunks=(2, 2, 2)), CURRENT, *(one for one in LAYOUTS if "NETCDF3" in one.file_format)],
    ids=str,
)
@pytest.mark.parametrize("part", [0.0005, 0.01, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_a_truncated_file_is_unreadable_not_zeros(tmp_path: Path, layout: Layout, part: float) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(hours_from("2023-07-01T00", 200)), layout)
    content = path.read_bytes()
    # The padding after the last value of netCDF-3 is not required.
    end = int(len(content) * part) - (1 if layout.file_format == "NETCDF4" else 4)
    path.write_bytes(content[: max(9, end)])
    problem = only_problem(path)
    assert problem.kind == "unreadable"
    assert "cut off or damaged" in problem.text


def test_a_truncated_real_netcdf_3_file_reports_its_length(tmp_path: Path, era5_samples: Path) -> None:
    content = (era5_samples / "norway-2018-10-packed" / "SURF_201810.nc").read_bytes()
    (tmp_path / "x.nc").write_bytes(content[:-100])
    assert f"{len(content) - 100} of {len(content)} bytes" in only_problem(tmp_path / "x.nc").text


def test_messages_name_the_member_not_the_scratch_file(tmp_path: Path) -> None:
    path = tmp_path / "scratch-1234.nc"
    path.write_bytes(write_netcdf(tmp_path / "x.nc", weather(HOURS)).read_bytes()[:-50])
    (problem,) = inspect(NetcdfFile(path, tmp_path / "era5.zip", "accum.nc")).problems
    assert str(problem).startswith(f"{tmp_path / 'era5.zip'}!accum.nc: ")
    assert "scratch-1234" not in problem.text


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("bad/truncated-hdf5.nc", "unreadable", "cut off or damaged"),
        ("bad/sf-is-streamfunction.nc", "units", "sf is Stream function in m**2 s**-1, not in m of water"),
        ("bad/latlon-allfill.nc", "aggregate", "values of another grid, interpolated (remap_script ncremap)"),
        ("delhi-2018-offgrid/delhi_weather_2018_01.nc", "grid", "latitude 28.9 is not on"),
        ("alps-2020-01-packed-offgrid/SURF_202001.nc", "grid", "latitude 47.201 is not on"),
        ("land-t2m-expver-dim/nz_20222023.nc", "grid", "latitude -41.1 is not on"),
    ],
)
def test_unusable_real_files_are_reported(era5_samples: Path, name: str, kind: str, said: str) -> None:
    (problem,) = look_into(era5_samples / name).problems
    assert problem.kind == kind
    assert said in problem.text


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"scale_factor": 0.0, "add_offset": 270.0}, "t2m has scale_factor 0"),
        ({"scale_factor": np.nan}, "has scale_factor nan"),
        ({"scale_factor": np.inf, "add_offset": 1.0}, "has scale_factor inf"),
        ({"scale_factor": 1.0, "add_offset": np.nan}, "has add_offset nan"),
        ({"scale_factor": "two"}, "t2m cannot be read"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_packing_that_loses_the_values_is_refused(tmp_path: Path, attributes: dict[str, Any], said: str) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS), LEGACY)
    problem = only_problem(changed(path, lambda dataset: dataset["t2m"].setncatts(attributes)))
    assert said in problem.text
    assert problem.columns == ("temperature_2m",)
