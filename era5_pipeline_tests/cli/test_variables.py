"""`era5 variables`, and what commands say of variables that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import BadFileError, NoDataError, UsageError
from era5_pipeline.model.variables import VARIABLES

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.commands import InProcess


@pytest.fixture
def on_server(on_server: InProcess) -> InProcess:
    on_server.set(ERA5_AREA="-5/106/-5.5/106.5")
    return on_server


def test_all_variables_are_listed_without_a_database(here: InProcess, tmp_path: Path) -> None:
    printed = here.run("variables").out
    for variable in VARIABLES:
        assert f" {variable.short_name} " in printed
        assert variable.column in printed
    assert f"{len(VARIABLES)} variables; default stands for the six" in printed
    assert not (tmp_path / ".era5").exists()


def test_words_narrow_the_list(here: InProcess) -> None:
    printed = here.run("variables", "wind", "100").out
    assert "zonal_wind_100m" in printed
    assert "zonal_wind_10m" not in printed
    assert f"2 of {len(VARIABLES)} variables" in printed


def test_json_has_all_facts(here: InProcess) -> None:
    (found,) = here.run("variables", "dewpoint", "--json").json()
    assert found["column"] == "dewpoint_2m"
    assert (found["param_id"], found["unit"], found["unit_in_files"], found["step_type"]) == (
        168,
        "degC",
        "K",
        "instant",
    )
    assert (found["is_default"], found["is_held"]) == (False, None)
    everything = here.run("variables", "--format", "json").json()
    assert [one["short_name"] for one in everything] == [variable.short_name for variable in VARIABLES]


@pytest.mark.parametrize(("word", "said"), [("swh", "ocean waves"), ("humidty", "not in the catalogue")])
def test_words_that_nothing_has_are_explained(here: InProcess, word: str, said: str) -> None:
    error = here.run("variables", word, code=UsageError.exit_code).err
    assert said in error


def test_what_the_table_holds_and_lacks_is_said(on_server: InProcess) -> None:
    on_server.run("load", "--source", "sample", "--from", "2023-07", "--variables", "default,d2m")
    held = {one["short_name"] for one in on_server.run("variables", "--json").json() if one["is_held"]}
    assert held == {"t2m", "u10", "v10", "tcc", "tp", "sf", "d2m"}
    series = ("series", "--lat", "-5.25", "--lon", "106.25", "--from", "2023-07-01")
    assert "dewpoint_2m" in on_server.run(*series).out
    error = on_server.run(*series, "--column", "msl", code=NoDataError.exit_code).err
    assert "the table has no column mean_sea_level_pressure: no month was loaded with it" in error
    assert "--variables default,mean_sea_level_pressure" in error
    on_map = ("map", "--time", "2023-07-01T00", "--column", "sst", "--out", "map.png")
    assert "no column sea_surface_temperature" in on_server.run(*on_map, code=NoDataError.exit_code).err
    assert "default, d2m" in on_server.run("status").out


def test_files_with_other_variables_say_what_they_hold(on_server: InProcess, era5_samples: Path) -> None:
    folder = str(era5_samples / "wind100-expver-dim")
    on_server.set(ERA5_AREA="")
    # One value a month, of a file that does not say what it is: it looks like monthly means, whatever is asked for.
    remedy = ("--variables", "u100,v100")
    for asked in ((), remedy):
        error = on_server.run("load", "--files-dir", folder, *asked, code=BadFileError.exit_code).err
        assert "--sparse-hours" in error
    error = on_server.run("load", "--files-dir", folder, "--sparse-hours", code=NoDataError.exit_code).err
    assert "has data for the default variables" in error
    assert " ".join(remedy) in error
    on_server.run("load", "--files-dir", folder, "--from", "2020-02", *remedy, "--allow-incomplete", "--sparse-hours")
    (month,) = on_server.run("status", "--json").json()
    assert month["variables"] == ["zonal_wind_100m", "meridional_wind_100m"]
