"""`era5 export`: what is refused, what is printed, exit codes, and the commands of docs/export.md."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pandas as pd
import pytest
import xarray as xr

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline_tests.commands import ROOT, InProcess, assert_explained
from era5_pipeline_tests.real_months import GULF

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.real_months import RealMonths


PAGE = ROOT / "docs" / "export.md"
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
HERE = ("--lat", "25.25", "--lon", "51.5")


@pytest.fixture(scope="module")
def gulf_months(shared_database_url: str, real_months: RealMonths) -> Warehouse:
    """June, July and September 2023 around Doha."""
    real_months.loading(GULF.of("2023-06", "2023-07", "2023-09"))(shared_database_url)
    return Warehouse(shared_database_url)


@pytest.fixture
def here(gulf_months: Warehouse, here: InProcess) -> InProcess:
    here.set(ERA5_DATABASE_URL=gulf_months.url)
    return here


def test_the_last_line_says_rows_bytes_and_seconds(here: InProcess, tmp_path: Path) -> None:
    printed = here.run("export", *HERE, "--from", "2023-07", "--out", "doha.csv")
    assert re.fullmatch(
        r"wrote doha\.csv: temperature_2m, 744 rows, 0\.0 MB, \d+\.\d s "
        r"\(Contains modified Copernicus Climate Change Service information 2023; data ERA5, C3S/ECMWF \(final\)\)\n",
        printed.out,
    )
    assert printed.err.startswith("location_id 664766, latitude 25.25, longitude 51.5, ")
    assert len(pd.read_csv(tmp_path / "doha.csv")) == 744
    printed = here.run("export", "--area", "26/51/25/51.5", "--from", "2023-07-01", "--out", "box.nc")
    assert "temperature_2m, 24 hours x 15 points, " in printed.out
    assert printed.err == ""


def test_missing_months_are_named_and_strict_is_exit_code_4(here: InProcess, tmp_path: Path) -> None:
    wanted = ("export", "--area", "26/51/25/51.5", "--from", "2023-07", "--to", "2023-09", "--out")
    printed = here.run(*wanted, "a.nc")
    assert printed.err == "warning: no data for 2023-08\n"
    printed = here.run(*wanted, "b.nc", "--strict", code=4)
    assert printed.err == "warning: no data for 2023-08\n"
    with xr.open_dataset(tmp_path / "a.nc") as one, xr.open_dataset(tmp_path / "b.nc") as other:
        assert one.equals(other)


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        ((*HERE, "--area", "26/51/25/52", "--out", "a.nc"), "a place and --area cannot be combined", "one of them"),
        ((*HERE, "--from", "2023-07-15T12:30", "--out", "a.nc"), "no full hour from 2023-07-15 12:30", "longer time"),
        (("--column", "weather; DROP TABLE weather", "--out", "a.nc"), "DROP TABLE", "era5 variables"),
        (("--out", "a.grib"), ".grib names no format", ".csv"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    here: InProcess, tmp_path: Path, arguments: tuple[str, ...], message: str, remedy: str
) -> None:
    printed = here.run("export", *arguments, code=2)
    assert_explained(printed, message)
    assert remedy in printed.err
    assert list(tmp_path.iterdir()) == []


def test_no_data_is_exit_code_3(here: InProcess, tmp_path: Path) -> None:
    assert_explained(here.run("export", "--place", "Jakarta", "--out", "a.nc", code=3), "the table has no data there")
    assert list(tmp_path.iterdir()) == []


def test_the_commands_of_the_page_run(here: InProcess, tmp_path: Path) -> None:
    """In their order, with the files that they write; the table has less than they ask for."""
    lines = [
        line.removeprefix("$ ")
        for block in CONSOLE.findall(PAGE.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if line.startswith("$ era5 export")
    ]
    assert len(lines) >= 5
    for line in lines:
        here.run(*shlex.split(line)[1:])
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".parquet", ".nc", ".zarr"}
