"""`era5 load` of folders with files that cannot be used: what is said, at once, and the exit code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

from era5_pipeline.model.times import time_of
from era5_pipeline_tests.commands import InProcess, assert_explained, assert_says
from era5_pipeline_tests.era5_files import CURRENT, LEGACY, hour, hours_from, weather, write_netcdf

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.commands import CommandResult

MONTHLY = [f"{year}-{month:02d}" for year in range(1979, 2019) for month in range(1, 13)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "era5").mkdir()
    return tmp_path / "era5"


def write_means(path: Path) -> Path:
    """A value a month for forty years, of a file that says nothing about them."""
    return write_netcdf(path, weather(np.array([hour(f"{month}-01T00") for month in MONTHLY])), LEGACY)


def write_shifted(folder: Path, years: range) -> None:
    for year in years:
        write_netcdf(folder / f"shifted-{year}.nc", weather(hours_from(f"{year}-03-01T00", 24), [10.6, 10.35]))


def problems_in(printed: CommandResult) -> list[str]:
    return [line for line in printed.err.splitlines() if re.search(r"\((passed over|not loaded|ignored)", line)]


def test_forty_years_of_means_are_refused_at_once(here: InProcess, folder: Path) -> None:
    path = write_means(folder / "means.nc")
    printed = here.run("load", "--files-dir", str(path), code=3)
    assert_explained(printed, f"{path}: has one value a month, always at 00:00 UTC of its first day", "--sparse-hours")
    (said,) = problems_in(printed)
    assert said.endswith("1979-01 to 2018-12)")
    assert printed.out == ""
    # Neither a server nor Dagster was started for that.
    assert {one.name for one in here.home.iterdir()}.isdisjoint(("postgres", "dagster", "raw"))


def test_months_that_are_named_and_refused_are_told_once_and_recorded_without_a_run(
    on_server: InProcess, folder: Path
) -> None:
    path = write_means(folder / "means.nc")
    for first in ("1979", "2018"):
        printed = on_server.run("load", "--files-dir", str(path), "--from", first, "--to", "2018", code=3)
        assert_explained(
            printed, f"{path}: has one value a month, always at 00:00 UTC of its first day", "--sparse-hours"
        )
        (said,) = problems_in(printed)
        assert said.endswith(f"(not loaded, {first}-01 to 2018-12)")
        assert printed.out == ""
    assert f"1979-01 to 2018-12: the last load was failed ({path}" in on_server.run("status").out
    # Those of a few are loaded again with the settings that they had.
    again = on_server.run("load", "--failed", "--from", "2018-12", "--sparse-hours", "--allow-incomplete")
    assert re.findall(r"^\S+ +\w+", again.out, re.MULTILINE)[1:] == ["2018-12  incomplete"]


def test_months_without_files_are_refused_in_one_line_and_the_others_are_loaded(
    on_server: InProcess, folder: Path
) -> None:
    write_netcdf(folder / "july.nc", weather(hours_from("2023-07-01T00", 744)))
    load = ("load", "--files-dir", str(folder), "--from", "1990", "--to", "2023")
    printed = on_server.run(*load, code=3)
    assert_explained(printed, f"1990-01 to 2023-06, 2023-08 to 2023-12: no file in {folder} has data for it")
    assert re.findall(r"^\S+ +\w+", printed.out, re.MULTILINE)[1:] == ["2023-07  loaded"]
    results: Any = on_server.run(*load, "--json", code=3).json()
    assert len(results) == 34 * 12
    assert {one["month"]: one["state"] for one in results if one["month"] >= "2023-06"} == {
        "2023-06": "failed",
        "2023-07": "unchanged",
        **{f"2023-{month:02d}": "failed" for month in range(8, 13)},
    }
    assert results[0]["errors"][0]["message"] == f"1990-01: no file in {folder} has data for it"


def test_a_month_with_a_usable_and_an_unusable_file_is_refused_before_it_is_run(
    on_server: InProcess, folder: Path
) -> None:
    write_netcdf(folder / "july.nc", weather(hours_from("2023-07-01T00", 744)))
    wrong = replace(CURRENT, attributes={"units": "degC"})
    write_netcdf(folder / "wrong.nc", weather(hours_from("2023-07-01T00", 744)), wrong)
    printed = on_server.run("load", "--files-dir", str(folder), "--pass-over", code=3)
    assert_explained(printed, "wrong.nc: t2m is")
    assert "data files: 2 refused" in printed.err
    assert not (on_server.home / "raw").exists()


def test_files_that_are_passed_over_are_named_and_an_error_unless_that_is_accepted(
    on_server: InProcess, folder: Path, era5_samples: Path
) -> None:
    write_netcdf(folder / "july.nc", weather(hours_from("2023-07-01T00", 744)))
    write_shifted(folder, range(1990, 2020))
    (folder / "fill.nc").write_bytes((era5_samples / "bad" / "latlon-allfill.nc").read_bytes())
    write_netcdf(folder / "sp.nc", weather(hours_from("2023-07-01T00", 744), names=["sp"]))
    for name in ("a.csv", "b.csv", "c.tif", "d.json", "e.parquet", "README.md"):
        (folder / name).write_text("time,t2m\n")
    load = ("load", "--files-dir", str(folder))
    for state in ("used", "unchanged"):
        printed = on_server.run(*load, code=3)
        fill, shifted = problems_in(printed)
        assert re.search(r"fill\.nc: .*\(passed over", fill)
        assert "shifted-1990.nc, shifted-1991.nc, shifted-1992.nc and 27 more: latitude 10.6 is not on" in shifted
        assert "--from 1990-03 --to 2019-03 --source cds" in printed.err
        assert f"data files: 1 {state}, 31 passed over, 1 not asked for" in printed.err
        assert "not read, in other formats: 2 CSV, 1 JSON, 1 Parquet, 1 TIFF" in printed.err
    assert problems_in(on_server.run(*load, "--pass-over")) == [fill, shifted]
    month, *others = on_server.run(*load, "--json", "--pass-over").json()
    assert (month["month"], month["state"]) == ("2023-07", "unchanged")
    assert {(one["month"], one["state"]) for one in others} == {(None, "passed over")}
    assert {one["file"] for one in others} >= {str(folder / "fill.nc"), str(folder / "shifted-2019.nc")}
    # Who names months does not ask for the others.
    printed = on_server.run(*load, "--from", "2023-07")
    assert problems_in(printed) == []
    assert "data files: 1 unchanged, 32 not asked for" in printed.err


def test_a_file_outside_the_area_is_not_used(on_server: InProcess, folder: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 744))
    write_netcdf(folder / "here.nc", of)
    write_netcdf(folder / "far.nc", replace(of, longitudes=of.longitudes - 100))
    load = ("load", "--files-dir", str(folder), "--area", "90/0/-90/180")
    for state in ("used", "unchanged"):
        assert f"data files: 1 {state}, 1 not asked for" in on_server.run(*load).err


def test_files_without_variables_of_era5_are_named_and_no_error(on_server: InProcess, folder: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 744))
    write_netcdf(folder / "july.nc", of)
    write_netcdf(folder / "other.nc", replace(of, fields={"t2m": of.fields["t2m"]}), CURRENT)
    rename_variable(folder / "other.nc", "t2m", "T2MERRA")
    printed = on_server.run("load", "--files-dir", str(folder))
    (said,) = problems_in(printed)
    assert "other.nc: holds none of the variables of the catalogue; it holds T2MERRA (ignored)" in said
    assert "data files: 1 used, 1 ignored" in printed.err


def rename_variable(path: Path, name: str, other: str) -> None:
    with netCDF4.Dataset(path, "a") as dataset:
        dataset.renameVariable(name, other)


def test_all_reasons_of_a_folder_without_a_usable_file_are_told(here: InProcess, folder: Path) -> None:
    write_shifted(folder, range(1990, 1992))
    (folder / "page.nc").write_bytes(b"<html>no</html>")
    (folder / "table.csv").write_text("time,t2m\n")
    printed = here.run("load", "--files-dir", str(folder), "--pass-over", code=3)
    assert len(problems_in(printed)) == 2
    assert "there is no ERA5 file" not in printed.err
    assert not (here.home / "postgres").exists()


def test_months_that_are_refused_do_not_hide_why_others_fail(on_server: InProcess, folder: Path) -> None:
    write_netcdf(folder / "july.nc", weather(hours_from("2023-07-01T00", 100)))
    printed = on_server.run("load", "--files-dir", str(folder), "--from", "2023-06", "--to", "2023-07", code=3)
    assert "2023-06: no file in" in printed.err
    assert "2023-07 is incomplete: 100 of 744 hours" in printed.err


def test_months_that_lack_hours_are_refused_before_any_is_run(on_server: InProcess, folder: Path) -> None:
    hours = hours_from("2000-01-01T00", 366 * 24)
    write_netcdf(folder / "gaps.nc", weather(hours[[time_of(int(hour)).day != 3 for hour in hours]]))
    load = ("load", "--files-dir", str(folder))
    printed = on_server.run(*load, code=4)
    assert_says(
        printed.err,
        "2000-01 is incomplete: 720 of 744 hours; missing 2000-01-03T00 to 2000-01-03T23",
        "and 7 more months that lack hours: 2000-06 to 2000-12",
    )
    assert len(re.findall("is incomplete", printed.err)) == 5
    assert printed.err.count("--allow-incomplete") == 1
    assert printed.out == ""
    results: Any = on_server.run(*load, "--json", code=4).json()
    assert [one["errors"][0]["message"].split(" hours")[0] for one in results][-1:] == [
        "2000-12 is incomplete: 720 of 744"
    ]
    assert results[-1]["state"] == "failed"
    assert (results[-1]["rows"], results[-1]["hours_expected"], results[-1]["errors"][0]["exit_code"]) == (0, 744, 4)
    assert "2000-12: the last load was failed (2000-12 is incomplete" in on_server.run("status").out


def test_months_that_were_loaded_without_some_hours_are_unchanged_afterwards(
    on_server: InProcess, folder: Path
) -> None:
    write_netcdf(folder / "july.nc", weather(hours_from("2023-07-01T00", 100)))
    load = ("load", "--files-dir", str(folder))
    on_server.run(*load, "--allow-incomplete")
    assert "2023-07  unchanged" in on_server.run(*load).out
    # The hours may be in several files; of August some are in none.
    write_netcdf(folder / "more.nc", weather(hours_from("2023-07-05T04", 700)))
    printed = on_server.run(*load, code=4)
    assert re.findall(r"^\S+ +\w+", printed.out, re.MULTILINE)[1:] == ["2023-07  loaded"]
    assert_explained(printed, "2023-08 is incomplete: 56 of 744 hours", "--allow-incomplete")
    assert "the latest hour there is 2023-08-03 07:00 UTC" in printed.err
