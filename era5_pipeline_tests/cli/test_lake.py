"""`era5 lake`, and loads with ERA5_LAKE: where the table is, whether it is right, what is cleaned."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from psycopg.sql import SQL, Identifier
from pyiceberg.table import StaticTable
from rich.filesize import decimal

from era5_pipeline.defs.assets import AssetKeys
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import NoDataError, RefusedError, StoreError, UsageError
from era5_pipeline_tests.cli.test_load_dataset import LAND, land_files
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import CommandResult


@pytest.fixture
def here(on_server: InProcess, tmp_path: Path) -> InProcess:
    """The command with a new database and an empty lake."""
    (tmp_path / "lake").mkdir()
    on_server.set(ERA5_LAKE=str(tmp_path / "lake"))
    return on_server


def load(here: InProcess, *options: str, code: int = 0) -> CommandResult:
    july = ("load", "--from", "2023-07", "--source", "sample", "--area", "10/10/9.5/10.5")
    return here.run(*july, *options, code=code)


def test_a_month_is_loaded_verified_and_cleaned(here: InProcess, tmp_path: Path) -> None:
    load(here)
    path = here.run("lake", "path").out.strip()
    assert StaticTable.from_metadata(path).scan().count() == 9 * 744
    assert here.run("lake", "verify").out == "2023-07: 6,696 rows are equal\n"
    load(here, "--force")
    assert here.run("lake", "path").out.strip() != path
    # Nothing is old enough; then all that the newest snapshot does not need goes.
    assert here.run("lake", "clean").out == "removed 0 snapshots and 0 files with 0 bytes\n"
    left = ("lake", "clean", "--keep-days", "0", "--orphan-hours", "0")
    would = here.run(*left, "--dry-run", "--json").json()
    cleaned = here.run(*left, "--json").json()
    assert cleaned == would
    assert cleaned["snapshots"] == 1
    assert cleaned["files"] > 0
    nothing = {"snapshots": 0, "files": 0, "bytes": 0, "waiting_files": 0, "waiting_bytes": 0}
    assert here.run(*left, "--json").json() == nothing
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1
    assert here.run("lake", "verify", "--json").json() == [{"month": "2023-07", "rows": 6696, "differences": []}]


def test_clean_says_what_follows_later(here: InProcess, tmp_path: Path) -> None:
    load(here)
    load(here, "--force")
    first, second = here.run("lake", "clean", "--keep-days", "0").out.splitlines()
    assert first == "removed 1 snapshot and 0 files with 0 bytes"
    assert re.fullmatch(
        r"[1-9]\d* files with [\d,]+ bytes belong to no snapshot, but not for 24 hours yet \(--orphan-hours\): "
        "era5 lake clean removes them after that",
        second,
    )
    # Readers of the first version: its file, however old, is there for as long.
    for path in (tmp_path / "lake").rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert here.run("lake", "clean", "--keep-days", "0").out.startswith("removed 0 snapshots and 0 files")
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 2
    here.run("lake", "clean", "--orphan-hours", "0")
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1


def test_status_shows_how_large_it_is(here: InProcess, tmp_path: Path) -> None:
    load(here)
    shown = next(line for line in here.run("status").out.splitlines() if line.startswith("lake: "))
    (file,) = (tmp_path / "lake").rglob("*.parquet")
    assert shown == f"lake: {decimal(file.stat().st_size)} at {tmp_path / 'lake'}"
    here.set(ERA5_LAKE=str(tmp_path / "elsewhere"))
    assert "lake: unknown: the lake of this database is at" in here.run("status").out


def test_a_difference_is_found_and_a_load_repairs_it(
    here: InProcess, embedded_warehouse: Warehouse, tmp_path: Path
) -> None:
    load(here)
    before = here.run("lake", "path").out.strip()
    load(here, "--force")
    # The pointer is set back by hand: to the same rows, and to a table without any.
    ask(embedded_warehouse.url, "UPDATE iceberg_tables SET metadata_location = %s RETURNING 1", before)
    assert "are equal" in here.run("lake", "verify").out
    empty = next((tmp_path / "lake").rglob("00000-*.json"))
    ask(embedded_warehouse.url, "UPDATE iceberg_tables SET metadata_location = %s RETURNING 1", str(empty))
    differing = here.run("lake", "verify", code=RefusedError.exit_code)
    assert differing.out == "2023-07: 0 rows in the lake, 6,696 in the warehouse\n"
    assert_explained(differing, "differs from the warehouse in 1 of 1 months", "era5 load --from 2023-07")
    load(here)
    assert "are equal" in here.run("lake", "verify").out


def test_months_are_not_left_in_the_lake_unawares(here: InProcess, tmp_path: Path) -> None:
    load(here)
    drop = ("drop", "--from", "2023-07", "--yes")
    here.set(ERA5_LAKE="")
    refused = here.run(*drop, code=UsageError.exit_code)
    assert_explained(refused, "its months would stay there", f"ERA5_LAKE={tmp_path / 'lake'}")
    assert "keeps what it has" in here.run(*drop, "--force").err
    here.set(ERA5_LAKE=str(tmp_path / "lake"))
    differing = here.run("lake", "verify", code=RefusedError.exit_code)
    assert differing.out == "2023-07: 6,696 rows in the lake, 0 in the warehouse\n"
    assert_explained(differing, "differs from the warehouse in 1 of 1 months", "era5 drop --from 2023-07")
    assert "the lake alone has it" in here.run(*drop).err
    assert here.run("lake", "verify").out == ""
    assert StaticTable.from_metadata(here.run("lake", "path").out.strip()).scan().count() == 0
    assert "nothing to remove" in here.run(*drop).err


def test_a_lake_that_is_missing_is_explained(here: InProcess, tmp_path: Path) -> None:
    assert_explained(here.run("lake", "path", code=NoDataError.exit_code), "the lake has no month yet", "era5 load")
    here.set(ERA5_LAKE=str(tmp_path / "nowhere"))
    assert_explained(load(here, code=StoreError.exit_code), "nowhere does not exist", "ERA5_LAKE")
    here.set(ERA5_LAKE="")
    assert_explained(here.run("lake", "verify", code=UsageError.exit_code), "there is no lake", "ERA5_LAKE")


def test_two_data_sets_are_two_tables_of_one_lake(
    here: InProcess, embedded_warehouse: Warehouse, tmp_path: Path
) -> None:
    folder, url = land_files(tmp_path / "land", seed=1).parent, embedded_warehouse.url
    missing = here.run("lake", "path", *LAND, code=NoDataError.exit_code)
    assert_explained(missing, "the lake has no month yet", "era5 load --dataset era5-land")
    here.run("load", *LAND, "--files-dir", str(folder))
    load(here)
    own, land = (here.run("lake", "path", *of).out.strip() for of in ((), LAND))
    named = "SELECT string_agg(table_namespace || '.' || table_name, ' ' ORDER BY table_name) FROM iceberg_tables"
    assert ask(url, named) == "era5.weather era5_land.weather_land"
    table = StaticTable.from_metadata(land)
    assert "1 to 6,483,600" in (table.schema().find_field("location_id").doc or "")
    ordered = table.scan().to_arrow().sort_by([("location_id", "ascending"), ("time", "ascending")])
    columns = ("time", "location_id", "latitude", "longitude", "temperature_2m", "zonal_wind_10m")
    rows = list(zip(*(ordered.column(name).to_pylist() for name in columns), strict=True))
    with embedded_warehouse.connect() as connection:
        query = SQL("SELECT {} FROM weather_land ORDER BY location_id, time").format(
            SQL(", ").join(map(Identifier, columns))
        )
        assert rows == connection.execute(query, binary=True).fetchall()
    # A month of one is replaced and cleaned without the other.
    land_files(tmp_path / "land", seed=2)
    here.run("load", *LAND, "--files-dir", str(folder))
    assert here.run("lake", "verify", *LAND).out == "2023-07: 4,464 rows are equal\n"
    assert [len(here.run("lake", "snapshots", *of, "--json").json()) for of in (LAND, ())] == [2, 1]
    left = here.run("lake", "clean", *LAND, "--keep-days", "0", "--orphan-hours", "0", "--json").json()
    assert left["snapshots"] == 1
    assert here.run("lake", "path").out.strip() == own
    assert here.run("lake", "verify").out == "2023-07: 6,696 rows are equal\n"
    with open_instance(here.home) as instance:
        for one in (ERA5, ERA5_LAND):
            assert instance.get_materialized_partitions(AssetKeys.of(one).lake) == {"2023-07-01"}
    # Dropped in both; what the lake alone has is found by data set.
    here.set(ERA5_LAKE="")
    here.run("drop", *LAND, "--from", "2023-07", "--yes", "--force")
    here.set(ERA5_LAKE=str(tmp_path / "lake"))
    differing = here.run("lake", "verify", *LAND, code=RefusedError.exit_code)
    assert_explained(differing, "1 of 1 months", "era5 drop --dataset era5-land --from 2023-07")
    here.run("drop", *LAND, "--from", "2023-07", "--yes")
    assert here.run("lake", "verify", *LAND).out == ""
    assert here.run("lake", "verify").out == "2023-07: 6,696 rows are equal\n"
