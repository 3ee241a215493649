"""Tests of `model/variables`."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.flat.formats import KEYS
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variables import (
    BY_COLUMN,
    BY_NAME_IN_FILE,
    DEFAULT_COLUMNS,
    DEFAULT_VARIABLES,
    ERA5_CATALOGUE,
    ERA5_LAND_CATALOGUE,
    QUANTITIES,
    VARIABLES,
    Catalogue,
    Variable,
    find_variable,
    find_variables,
    in_table_order,
    named_columns,
    read_catalogue,
    why_unsupported,
)
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

TABLE = ROOT / "era5_pipeline" / "model" / "variables.csv"
LAND_TABLE = TABLE.with_name("variables_land.csv")
LAND = ERA5_LAND_CATALOGUE
EVERY_VARIABLE = list(BY_COLUMN.values())


def test_there_are_more_than_forty_and_the_default_ones_come_first() -> None:
    assert len(VARIABLES) > 40
    assert [variable.short_name for variable in VARIABLES[:6]] == ["t2m", "u10", "v10", "tcc", "tp", "sf"]


@pytest.mark.parametrize("variable", EVERY_VARIABLE, ids=lambda v: v.short_name)
def test_every_entry_is_possible(variable: Variable) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{2,62}", variable.column)
    assert variable.column not in KEYS
    assert re.fullmatch(r"[a-z0-9_]+", variable.cds_name)
    assert variable.minimum < variable.maximum
    assert variable.scale > 0
    assert variable.param_id > 0
    assert variable.long_name
    assert variable.description[0].isupper()
    assert not variable.description.endswith(".")
    # One value of the table changes the checksum: its scale is finer than float32 at the bounds.
    greatest = max(abs(variable.minimum), abs(variable.maximum))
    assert greatest * variable.checksum_scale <= 2**29
    if variable.step_type == "accum":
        assert "accumulated over the hour that ends at the time" in variable.description
    elif variable.step_type != "instant":
        assert "of the hour that ends at the time" in variable.description
    assert variable.step_type == "instant" or variable.first_valid.hour == (7 if variable in VARIABLES else 1)


@pytest.mark.parametrize(
    ("catalogue", "shared_long_names"), [(ERA5_CATALOGUE, []), (LAND, ["snow depth"])], ids=lambda one: str(one)[:30]
)
def test_columns_names_and_numbers_are_there_once(catalogue: Catalogue, shared_long_names: list[str]) -> None:
    variables = catalogue.variables
    for of, shared in (
        ([variable.column for variable in variables], []),
        ([variable.cds_name for variable in variables], []),
        ([variable.param_id for variable in variables], []),
        ([variable.long_name.casefold() for variable in variables], shared_long_names),
        ([name for variable in variables for name in variable.names_in_files if name.islower()], []),
    ):
        assert [one for one, count in Counter(of).items() if count > 1] == shared
    assert not set(shared_long_names) & set(catalogue.by_long_name)


def test_totals_and_rates_keep_their_convention() -> None:
    """Totals stay totals of the hour, mean rates stay rates: no column is both."""
    by_name = {variable.short_name: variable for variable in VARIABLES}
    assert (by_name["ssrd"].step_type, by_name["ssrd"].unit) == ("accum", "J/m2")
    assert (by_name["avg_sdswrf"].step_type, by_name["avg_sdswrf"].unit) == ("avg", "W/m2")
    assert (by_name["tp"].step_type, by_name["tp"].unit) == ("accum", "mm")
    assert (by_name["avg_tprate"].step_type, by_name["avg_tprate"].unit) == ("avg", "kg/m2/s")
    assert by_name["avg_tprate"].names_in_files == ("avg_tprate", "mtpr", "mean_total_precipitation_rate")
    assert (by_name["mn2t"].step_type, by_name["mn2t"].file_step_type) == ("min", "max")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("t2m", -0.001, "0.00"),
        ("t2m", 13.268, "13.27"),
        ("tp", 0.0284, "0.028"),
        ("avg_tprate", 1.2345e-5, "1.23e-05"),
        ("tco3", 0.006543, "0.00654"),
        ("ssrd", 1403971.38, "1403971"),
        ("swvl1", 0.31415, "0.314"),
        ("msl", 1013.25, "1013.25"),
    ],
)
def test_values_are_rounded_for_reading_by_their_size(name: str, value: float, text: str) -> None:
    variable = next(variable for variable in VARIABLES if variable.short_name == name)
    assert variable.rounded(value) == text


def test_every_quantity_is_used() -> None:
    lines = [line for table in (TABLE, LAND_TABLE) for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    assert {name for name in QUANTITIES if any(f",{name}," in line for line in lines)} == set(QUANTITIES)


@pytest.mark.parametrize(
    ("was", "is_", "said"),
    [
        ("instant,analysis", "instantly,analysis", "'instantly' is not one of instant, accum"),
        ("instant,analysis", "instant,reanalysis", "'reanalysis' is not one of analysis, forecast"),
        (",everywhere,", ",nowhere,", "'nowhere' is not one of everywhere, sea"),
    ],
)
def test_a_line_with_an_unknown_word_is_refused(tmp_path: Path, was: str, is_: str, said: str) -> None:
    lines = TABLE.read_text(encoding="utf-8").splitlines()[:2]
    (tmp_path / "variables.csv").write_text("\n".join(line.replace(was, is_) for line in lines) + "\n")
    with pytest.raises(ValueError, match=said):
        read_catalogue("ERA5", tmp_path / "variables.csv", 1, ERA5_CATALOGUE.first_valid)


@pytest.mark.parametrize("variable", DEFAULT_VARIABLES, ids=lambda v: v.short_name)
def test_names_units_and_conversions_are_those_of_the_documentation(variable: Variable) -> None:
    column, unit, number, scale, offset = era5_files.VARIABLES[variable.short_name]
    assert (variable.column, variable.param_id) == (column, number)
    assert (variable.scale, variable.offset) == (scale, offset)
    assert unit in variable.file_units


@pytest.mark.parametrize("catalogue", [ERA5_CATALOGUE, LAND], ids=lambda catalogue: catalogue.name)
def test_every_variable_is_found_by_each_of_its_names(catalogue: Catalogue) -> None:
    for variable in catalogue.variables:
        for name in (variable.column, variable.cds_name, f" {variable.column.upper()} ", *variable.names_in_files):
            assert catalogue.find(name) is variable
        assert catalogue.by_param_id[variable.param_id] is variable
        assert catalogue.by_short_name[variable.short_name] is variable


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dewpoint", "dewpoint_2m (d2m)"),
        ("sea_surface_temprature", "sea_surface_temperature (sst)"),
        ("100m wind", "zonal_wind_100m (u100)"),
        ("wind gust", "wind_gust_10m (fg10)"),
        ("rain", "total_precipitation (tp)"),
        ("evaporaton", "evaporation (e)"),
        ("soil temperature", "soil_temperature_level_1 (stl1)"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_names(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match="is not in the catalogue of variables") as raised:
        find_variable(name)
    assert meant in raised.value.remedy
    assert "CONTRIBUTING.md" in raised.value.remedy


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("swh", "ocean waves, which ERA5 has on another grid, of 0.5 degrees"),
        ("Significant height of combined wind waves and swell", "ocean waves"),
        ("mean_wave_period", "ocean waves"),
        ("temperature", "at pressure levels"),
        ("q", "at pressure levels"),
    ],
)
def test_a_variable_that_the_table_cannot_hold_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        find_variable(name)
    assert why_unsupported(name) is not None


def test_a_name_of_another_grid_offers_what_the_table_has_of_it() -> None:
    with pytest.raises(UsageError, match="ocean waves") as raised:
        find_variable("wind")
    for meant in ("zonal_wind_10m (u10)", "meridional_wind_10m (v10)"):
        assert meant in raised.value.remedy
    with pytest.raises(UsageError, match="ocean waves") as raised:
        find_variable("swh")
    assert "Did you mean" not in raised.value.remedy


def test_no_variable_of_the_catalogue_is_said_to_be_unsupported() -> None:
    for variable in VARIABLES:
        for name in (variable.column, variable.cds_name, *variable.names_in_files):
            assert why_unsupported(name) is None, name
    assert why_unsupported("humidity_of_the_moon") is None


def test_lists_of_variables_may_name_the_default_ones_together() -> None:
    assert find_variables("default") == DEFAULT_VARIABLES
    assert find_variables("msl, default,t2m,2d") == (*DEFAULT_VARIABLES, find_variable("d2m"), find_variable("msl"))
    assert find_variables("") == ()


def test_columns_are_named_in_a_few_words() -> None:
    assert named_columns(DEFAULT_COLUMNS) == "default"
    assert named_columns([*DEFAULT_COLUMNS, "dewpoint_2m", "surface_pressure"]) == "default, d2m, sp"
    assert named_columns(["snowfall", "dewpoint_2m"]) == "snowfall, dewpoint_2m"
    assert named_columns([*DEFAULT_COLUMNS, "added_by_a_later_version"]) == "default, added_by_a_later_version"
    assert named_columns(ERA5_CATALOGUE.by_column) == f"default, d2m, msl, sp, skt, sst, {len(VARIABLES) - 11} more"


def test_variables_are_returned_in_the_order_of_the_table() -> None:
    chosen = in_table_order(["snowfall", "temperature_2m", "snowfall"])
    assert [variable.short_name for variable in chosen] == ["t2m", "sf"]


def test_only_accumulations_begin_at_07_of_1_january_1940() -> None:
    first = {variable.short_name: variable.first_valid for variable in DEFAULT_VARIABLES}
    assert first["tp"] == first["sf"] == datetime(1940, 1, 1, 7, tzinfo=UTC)
    assert {first[name] for name in ("t2m", "u10", "v10", "tcc")} == {datetime(1940, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("name", "low", "high"), [("t2m", -89.2, 56.7), ("tcc", 0, 1), ("tp", 0, 401), ("u10", -90, 90)]
)
def test_bounds_include_the_records_ever_measured(name: str, low: float, high: float) -> None:
    variable = find_variable(name)
    assert variable.minimum < low < high < variable.maximum


def test_names_in_files_tell_variables_apart() -> None:
    names = [name for variable in VARIABLES for name in variable.names_in_files]
    assert len({name.casefold() for name in names}) == len({name.casefold() for name in BY_NAME_IN_FILE})
    for name, variable in BY_NAME_IN_FILE.items():
        assert BY_NAME_IN_FILE[name.casefold() if name.casefold() in BY_NAME_IN_FILE else name] is variable


# --- The variables of ERA5-Land ---


def test_each_data_set_has_its_catalogue_and_is_the_same_in_another_process() -> None:
    for dataset, catalogue in ((ERA5, ERA5_CATALOGUE), (ERA5_LAND, LAND)):
        assert dataset.catalogue is catalogue
        assert dataset.first_valid == catalogue.first_valid
        sent = pickle.dumps(dataset)
        assert pickle.loads(sent) == dataset
        assert len(sent) < 2000


def test_a_column_of_any_table_is_known_by_its_name() -> None:
    assert [one.column for one in EVERY_VARIABLE] == [
        *ERA5_CATALOGUE.by_column,
        *(name for name in LAND.by_column if name not in ERA5_CATALOGUE.by_column),
    ]
    for catalogue in (ERA5_CATALOGUE, LAND):
        assert in_table_order(reversed(catalogue.by_column)) == tuple(BY_COLUMN[name] for name in catalogue.by_column)
        for column, one in catalogue.by_column.items():
            known = BY_COLUMN[column]
            assert (known.unit, known.scale, known.offset, known.quantum, known.checksum_scale, known.step_type) == (
                *(one.unit, one.scale, one.offset),
                *(one.quantum, one.checksum_scale, one.step_type),
            )


def test_era5_land_has_forty_variables_of_era5_in_the_same_columns_and_ten_more() -> None:
    shared = [variable for variable in LAND.variables if variable.column in ERA5_CATALOGUE.by_column]
    assert (len(shared), len(LAND.variables)) == (40, 50)
    for variable in shared:
        other = ERA5_CATALOGUE.by_column[variable.column]
        assert variable.param_id == other.param_id
        assert (variable.short_name, variable.unit, variable.file_units) == (
            *(other.short_name, other.unit),
            other.file_units,
        )
    assert {variable.param_id for variable in LAND.variables if variable not in shared} == {
        *(260038, 3066, 228100, 228101, 228102, 228103),
        *(228009, 228010, 228011, 228012),
    }
    # As in its table of ERA5, so that rows of both can be read alike.
    assert [v.column for v in shared] == [v.column for v in VARIABLES if v.column in LAND.by_column]
    assert {variable.extent for variable in LAND.variables} == {"land"}


def test_default_variables_of_era5_land_are_those_of_era5_that_it_has() -> None:
    assert LAND.default_columns == tuple(column for column in DEFAULT_COLUMNS if column != "total_cloud_cover")
    assert LAND.find_all("default") == LAND.default_variables
    assert LAND.named_columns(LAND.default_columns) == "default"
    assert LAND.variable_names([*LAND.default_columns, "snow_depth"]) == "default,sde"


def test_a_name_of_both_data_sets_stands_for_what_each_calls_by_it() -> None:
    assert (find_variable("snow_depth").param_id, LAND.find("snow_depth").param_id) == (141, 3066)
    assert (find_variable("snow_depth").unit, LAND.find("snow_depth").unit) == ("mm", "m")
    assert LAND.find("snow_depth_water_equivalent").param_id == 141
    assert (find_variable("e").cds_name, LAND.find("e").cds_name) == ("evaporation", "total_evaporation")


def test_a_variable_that_only_era5_has_is_refused_for_era5_land() -> None:
    with pytest.raises(UsageError, match="ERA5-Land has no 'tcc', a variable of ERA5"):
        LAND.find("tcc")
    with pytest.raises(UsageError, match="'swh' is not in the catalogue of variables of ERA5-Land"):
        LAND.find("swh")
    with pytest.raises(UsageError, match="lake_shape_factor") as raised:
        LAND.find("lake_shap_factor")
    assert "lake_shape_factor (lshf)" in raised.value.remedy


def test_nineteen_variables_of_era5_land_accumulate() -> None:
    accumulated = {variable.short_name for variable in LAND.variables if variable.step_type == "accum"}
    names = "tp sf smlt e es evabs evaow evatc evavt pev ro sro ssro ssr str ssrd strd slhf sshf"
    assert accumulated == set(names.split())


def test_soil_snow_and_lakes_begin_with_the_analysis_of_1950() -> None:
    by_hour = Counter(variable.first_valid for variable in LAND.variables)
    assert by_hour == {datetime(1950, 1, 1, tzinfo=UTC): 21, datetime(1950, 1, 1, 1, tzinfo=UTC): 29}
    at_zero = {variable.short_name for variable in LAND.variables if variable.first_valid.hour == 0}
    assert {"stl1", "swvl4", "sd", "lblt", "skt"} <= at_zero
    assert not {"t2m", "d2m", "u10", "v10", "sp", "tp", "sde", "fal", "lai_hv"} & at_zero


def test_a_shared_line_of_era5_land_may_not_name_a_variable_that_era5_lacks(tmp_path: Path) -> None:
    header, first, *_ = LAND_TABLE.read_text(encoding="utf-8").splitlines()
    (tmp_path / "land.csv").write_text(f"{header}\n{first.replace('temperature_2m', 'temperature_3m')}\n")
    with pytest.raises(KeyError, match="temperature_3m"):
        read_catalogue("ERA5-Land", tmp_path / "land.csv", 1, LAND.first_valid, ERA5_CATALOGUE)
