"""Whose word it is that values are of ERA5: refused, trusted or not stated, and said; on every layout.

Every answer has the same credit: test_versions_of_answers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import netCDF4
import pytest

from era5_pipeline.model.errors import BadFileError, RefusedError, UsageError
from era5_pipeline.model.source_kinds import most_doubtful
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.era5_files import CURRENT, LEGACY, flatten, hours_from, weather, write_netcdf
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.source_kinds import Origin
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess

JULY = "2023-07"
HOURS = hours_from("2023-07-01T00", 744)
SAID = "origin not stated by the files"
TRUSTED = "ERA5 by the user's word, not by that of the files (--trust-files)"
# States versions, and nothing else.
SILENT = replace(LEGACY, packed="no", expver="per time", file_format="NETCDF4")
FOREIGN = replace(CURRENT, attributes={"GRIB_centre": "kwbc"})


def silent_file(path: Path, *, seed: int = 1, names: tuple[str, ...] = ("t2m",)) -> Path:
    """A file on ERA5's grid that does not say where it is from, though it has versions."""
    write_netcdf(path, weather(HOURS, [10.5, 10.25], [20.0, 20.25], names, seed=seed), SILENT)
    with netCDF4.Dataset(path, "a") as dataset:
        dataset.history = "cdo -f nc copy x.grib x.nc"
    return path


def stated_file(path: Path, *, seed: int = 1, names: tuple[str, ...] = ("t2m",)) -> Path:
    return write_netcdf(path, weather(HOURS, [10.5, 10.25], [20.0, 20.25], names, seed=seed))


def flat_of(folder: Path, *paths: Path) -> FlatMonth:
    return flatten(list(paths), JULY, folder)


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> FlatMonth:
    folder = tmp_path_factory.mktemp("silent")
    return flat_of(folder, silent_file(folder / "x.nc"))


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> FlatMonth:
    folder = tmp_path_factory.mktemp("stated")
    return flat_of(folder, stated_file(folder / "x.nc", seed=2))


@pytest.mark.parametrize(
    ("origins", "together"),
    [
        ((), None),
        ((None,), None),
        (("stated",), "stated"),
        (("stated", None), None),
        (("stated", "not stated", None), "not stated"),
        (("not stated", "trusted"), "trusted"),
    ],
)
def test_the_most_doubtful_origin_counts(origins: tuple[Origin | None, ...], together: Origin | None) -> None:
    assert most_doubtful(origins) == together


def test_a_file_that_states_nothing_is_never_final(silent: FlatMonth, stated: FlatMonth) -> None:
    assert (silent.origin, silent.version) == ("not stated", "unknown")
    assert (stated.origin, stated.version) == ("stated", "final")


def test_preliminary_hours_stay_preliminary(tmp_path: Path) -> None:
    of = replace(weather(HOURS), expver=("0001",) * 700 + ("0005",) * 44)
    path = write_netcdf(tmp_path / "x.nc", of, SILENT)
    with netCDF4.Dataset(path, "a") as dataset:
        dataset.history = ""
    assert flat_of(tmp_path, path).expver == {"temperature_2m": {"0005": 44, "unknown": 700}}


def test_each_column_has_its_own_origin(tmp_path: Path) -> None:
    flat = flat_of(tmp_path, stated_file(tmp_path / "a.nc"), silent_file(tmp_path / "b.nc", names=("tp",)))
    assert {facts.column: facts.origin for facts in flat.columns} == {
        "temperature_2m": "stated",
        "total_precipitation": "not stated",
    }
    assert flat.origin == "not stated"


# ---- the user's word


@pytest.fixture
def command(here: InProcess, warehouse: Warehouse) -> InProcess:
    here.set(ERA5_DATABASE_URL=warehouse.url)
    return here


def test_only_the_users_word_loads_what_says_that_it_is_something_else(
    command: InProcess, warehouse: Warehouse, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    write_netcdf(tmp_path / "files" / "x.nc", weather(HOURS[:24], [10.5, 10.25], [20.0, 20.25]), FOREIGN)
    load = ("load", "--files-dir", str(tmp_path / "files"), "--allow-incomplete")
    for options in ((), ("--sparse-hours", "--off-grid", "nearest", "--replace", "--force")):
        error = command.run(*load, *options, code=BadFileError.exit_code).err
        assert "values of another centre than ECMWF (GRIB_centre kwbc)" in error
        assert "--trust-files (ERA5_TRUST_FILES=true) takes your word" in error
    (month,) = command.run(*load, "--trust-files", "--json").json()
    assert (month["rows"], month["origin"]) == (96, "trusted")
    (month,) = command.run("status", "--json").json()
    assert (month["origin"], month["version"]) == ("trusted", "unknown")
    assert f"2023-07: {TRUSTED}" in command.run("status").out
    assert ask(warehouse.url, "SELECT origin FROM era5.ledger") == "trusted"


def test_only_your_own_files_need_to_be_trusted(command: InProcess) -> None:
    load = ("load", "--from", JULY, "--source", "sample", "--area", "1/1/1/1", "--trust-files")
    assert "--trust-files is for your own files" in command.run(*load, code=UsageError.exit_code).err


# ---- the table


def test_what_states_nothing_does_not_replace_what_does(
    warehouse: Warehouse, silent: FlatMonth, stated: FlatMonth
) -> None:
    load_month(warehouse, stated)
    with pytest.raises(RefusedError, match=f"the origin of temperature_2m: that of the new ones is {SAID}"):
        load_month(warehouse, silent)
    assert load_month(warehouse, silent, replace_more=True).changed
    assert ask(warehouse.url, "SELECT origins FROM era5.month") == "not stated"
    assert load_month(warehouse, stated).changed
    assert ask(warehouse.url, "SELECT origins FROM era5.month") == "stated"


def test_a_variable_that_is_added_keeps_its_own_origin(warehouse: Warehouse, stated: FlatMonth, tmp_path: Path) -> None:
    load_month(warehouse, stated)
    load_month(warehouse, flat_of(tmp_path, silent_file(tmp_path / "x.nc", names=("tp",))))
    assert ask(warehouse.url, "SELECT origin FROM era5.ledger") == "not stated"
    load_month(warehouse, flat_of(tmp_path, stated_file(tmp_path / "y.nc", names=("tp",))))
    assert ask(warehouse.url, "SELECT origin FROM era5.ledger") == "stated"


def test_status_and_exports_say_that_the_origin_is_not_stated(
    command: InProcess, warehouse: Warehouse, silent: FlatMonth, tmp_path: Path
) -> None:
    load_month(warehouse, silent)
    assert f"2023-07: {SAID}" in command.run("status").out
    out = command.run("export", "--from", JULY, "--area", "11/20/10/21", "--out", str(tmp_path / "out.nc"))
    assert SAID in out.out + out.err
    with netCDF4.Dataset(tmp_path / "out.nc") as dataset:
        assert dataset.era5_origin == f"2023-07: {SAID}"
        assert dataset.credit.endswith(SAID)
        assert dataset.era5_versions == "unknown: 2023-07"


def test_a_month_from_before_origins_were_recorded_says_nothing(
    command: InProcess, warehouse: Warehouse, stated: FlatMonth
) -> None:
    load_month(warehouse, stated)
    with warehouse.connect() as connection:
        connection.execute(
            "UPDATE era5.ledger SET origin = NULL, "
            "columns = (SELECT jsonb_agg(facts - 'origin') FROM jsonb_array_elements(columns) AS facts)"
        )
    (month,) = command.run("status", "--json").json()
    assert month["origin"] is None
    assert "origin" not in command.run("status").out
    assert ask(warehouse.url, "SELECT origins FROM era5.month") == "not recorded"
