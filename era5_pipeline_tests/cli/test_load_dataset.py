"""A second data set by `era5 load --dataset`: its months beside ERA5's, in one home and one database."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest

from era5_pipeline.defs.assets import AssetKeys
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.era5_files import hours_from, weather, without_pictures, write_netcdf
from era5_pipeline_tests.pipelines import dagster_beside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

LAND = ("--dataset", "era5-land")


@pytest.fixture
def here(here: InProcess, tmp_path: Path, host_url: str, warehouse: Warehouse) -> Iterator[InProcess]:
    """The command with the home `home` and the database `warehouse`."""
    here.set(ERA5_DATABASE_URL=warehouse.url, ERA5_HOME=str(tmp_path / "home"))
    with dagster_beside(host_url, warehouse.url), without_pictures():
        yield here


def land_files(folder: Path, month: str = "2023-07", hours: int = 744, *, seed: int = 1) -> Path:
    """A folder with a month of ERA5-Land in Nigeria, of instants, and the file in it."""
    folder.mkdir(exist_ok=True)
    of = weather(hours_from(f"{month}-01T00", hours), [10.0, 9.9], [9.8, 9.9, 10.0], ("t2m", "u10", "v10"), seed=seed)
    return write_netcdf(folder / f"land-{month}.nc", of)


def counted(warehouse: Warehouse) -> tuple[Any, ...]:
    """The rows of both tables, and the months of both ledgers."""
    with psycopg.connect(warehouse.url) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM weather), (SELECT count(*) FROM weather_land), "
            "(SELECT count(*) FROM era5.ledger), (SELECT count(*) FROM era5_land.ledger)"
        ).fetchone()
    assert row is not None
    return row


def test_months_of_two_data_sets_in_one_home(here: InProcess, warehouse: Warehouse, tmp_path: Path) -> None:
    own = ("load", "--source", "sample", "--from", "2023-07", "--area", "10.25/9.75/10/10")
    here.run(*own)
    folder = land_files(tmp_path / "land").parent
    land = ("load", *LAND, "--files-dir", str(folder))
    (loaded,) = here.run(*land, "--json").json()
    assert (loaded["state"], loaded["rows"]) == ("loaded", 744 * 6)
    assert counted(warehouse) == (744 * 4, 744 * 6, 1, 1)
    # Neither is loaded again, and their files lie apart.
    for again in (own, land):
        assert "nothing changed" in here.run(*again).out
    home = tmp_path / "home"
    assert [(home / part / "raw" / "2023-07.json").is_file() for part in ("", "era5-land")] == [True, True]
    assert not (home / "raw" / "files").exists()
    # Dagster has both, each with partitions of its own.
    with open_instance(home) as instance:
        for dataset in (ERA5, ERA5_LAND):
            for key in AssetKeys.of(dataset)[:3]:
                assert instance.get_materialized_partitions(key) == {"2023-07-01"}
        assert {run.job_name for run in instance.get_runs()} == {"load_month", "load_month_era5_land"}
    # Each command answers of its own.
    (of_land,), (of_era5,) = here.run("status", *LAND, "--json").json(), here.run("status", "--json").json()
    assert (of_land["rows"], of_era5["rows"]) == (744 * 6, 744 * 4)
    assert "10/9.8/9.9/10, 6 places" in here.run("status", *LAND, "--coverage").out
    assert "4,464 rows are equal (rows, summaries, flat file, raw files)" in here.run("verify", *LAND).out
    assert "2,976 rows are equal (rows, summaries, flat file, raw files)" in here.run("verify").out
    held = {one["column"] for one in here.run("variables", *LAND, "--json").json() if one["is_held"]}
    assert held == {"temperature_2m", "zonal_wind_10m", "meridional_wind_10m"}
    here.set(ERA5_DATASET="era5-land")
    here.run("drop", "--from", "2023-07", "--area", "10/9.8/10/10", "--yes")
    assert counted(warehouse)[:2] == (744 * 4, 744 * 3)
    here.run("drop", "--from", "2023-07", "--yes")
    assert counted(warehouse)[:2] == (744 * 4, 0)
    here.set(ERA5_DATASET="era5")
    assert "2,976 rows are equal" in here.run("verify").out


def test_months_of_a_range_are_one_run_of_their_data_set(here: InProcess, warehouse: Warehouse, tmp_path: Path) -> None:
    for number, month in enumerate(("2023-06", "2023-07")):
        land_files(tmp_path / "land", month, 24, seed=number)
    here.run("load", *LAND, "--files-dir", str(tmp_path / "land"), "--allow-incomplete")
    assert counted(warehouse) == (0, 2 * 24 * 6, 0, 2)
    with open_instance(tmp_path / "home") as instance:
        assert [run.job_name for run in instance.get_runs()] == ["load_months_era5_land"]
        for key in AssetKeys.of(ERA5_LAND)[:3]:
            assert instance.get_materialized_partitions(key) == {"2023-06-01", "2023-07-01"}
        assert instance.get_materialized_partitions(AssetKeys.of(ERA5).raw) == set()


def test_failed_months_are_those_of_a_data_set(here: InProcess, warehouse: Warehouse, tmp_path: Path) -> None:
    land_files(tmp_path / "land", hours=24)
    load = ("load", *LAND, "--from", "2023-07", "--files-dir", str(tmp_path / "land"))
    here.run(*load, code=4)
    assert "era5 load --dataset era5-land --failed loads the failed months again" in here.run("status", *LAND).out
    assert here.run("load", "--failed").out == "no month's last attempt failed\n"
    here.run("load", *LAND, "--failed", "--allow-incomplete")
    assert counted(warehouse) == (0, 24 * 6, 0, 1)
    assert here.run("load", *LAND, "--failed").out == "no month's last attempt failed\n"


def test_what_a_data_set_lacks_is_refused_by_name(here: InProcess, tmp_path: Path) -> None:
    folder = str(land_files(tmp_path / "land", hours=1).parent)
    early = ("--from", "1949-12")
    for command in (("load", "--files-dir", folder), ("plan", "--source", "files"), ("drop", "--yes")):
        refused = here.run(command[0], *LAND, *early, *command[1:], code=2)
        assert_explained(refused, "1949-12 is before ERA5-Land begins", "ERA5-Land begins with 1950-01")
    clouds = here.run("load", *LAND, "--files-dir", folder, "--variables", "tcc,t2m", code=2)
    assert_explained(clouds, "ERA5-Land has no 'tcc'")
    assert_explained(here.run("load", "--dataset", "era6", "--from", "2023-07", code=2), "'era6' is no data set")
    listed = here.run("variables", *LAND)
    assert "50 variables; default stands for the five" in listed.out
    assert "snow_cover" in listed.out
    assert "147 variables; default stands for the six" in here.run("variables").out


@pytest.mark.parametrize("source", ["arco", "earthmover"])
def test_sources_that_do_not_have_a_data_set_refuse_it(here: InProcess, source: str) -> None:
    place = ("--lat", "10", "--lon", "10") if source == "earthmover" else ("--area", "10/10/10/10")
    for command in ("load", "plan"):
        refused = here.run(command, *LAND, "--source", source, "--from", "2023-07", *place, code=2)
        assert_explained(refused, f"the source {source} has no ERA5-Land", "--source cds or ")


def test_the_month_before_gives_the_amounts_of_the_first_hour(here: InProcess, tmp_path: Path) -> None:
    of = weather(hours_from("2023-06-30T01", 23 + 744), [10.0, 9.9], [9.8, 9.9, 10.0], ("tp",))
    sums = np.zeros_like(of.fields["tp"])
    for position, of_day in enumerate(of.hours % 24):
        sums[position] = of.fields["tp"][position] + (sums[position - 1] if position and of_day != 1 else 0.0)
    folder = tmp_path / "land"
    folder.mkdir()
    june, july = (
        replace(of, hours=of.hours[part], fields={"tp": sums[part]}) for part in (slice(0, 23), slice(23, None))
    )
    write_netcdf(folder / "july.nc", july)
    load = ("load", *LAND, "--files-dir", str(folder), "--from", "2023-07")
    refused = here.run(*load, code=4)
    assert_explained(refused, "total_precipitation: 6 values are missing", "Add the file with 2023-06-30T23:00Z")
    here.run(*load, "--allow-incomplete")
    assert "2023-07 lacks total_precipitation at 2023-07-01T00" in here.run("status", *LAND).out
    # The file of June is there: July has all hours, and is loaded again.
    write_netcdf(folder / "june.nc", june)
    (loaded,) = here.run(*load, "--json").json()
    assert (loaded["state"], loaded["rows"]) == ("loaded", 744 * 6)
    assert "lacks" not in here.run("status", *LAND).out
