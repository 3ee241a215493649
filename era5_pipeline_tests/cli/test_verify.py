"""`era5 verify`: what was changed by hand is named, and repaired by the command that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import netCDF4
import pytest

from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import InProcess, assert_explained

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

FIRST = "location_id = (SELECT min(location_id) FROM era5.location)"
NOON = "time = '2023-07-15 12:00Z'"
# Of the file's two times two places, in one month of two.
CHANGES = {
    "UPDATE weather SET temperature_2m = temperature_2m + 1 WHERE " + NOON + " AND " + FIRST: (
        "2023-07, part 1: other values of temperature_2m in the table",
        "2023-07, part 1: the summaries of some places (1) are not those of their hours",
    ),
    # Exchanged between hours of a place: count, range, sum and summaries stay the same.
    "UPDATE weather a SET temperature_2m = b.temperature_2m FROM weather b WHERE a.location_id = b.location_id "
    "AND a.time = '2023-07-31 00:00Z'::timestamptz - (b.time - '2023-07-01 00:00Z') "
    "AND b.time < '2023-07-31 01:00Z' AND a.time >= '2023-07-01'": (
        "2023-07, part 1: other values of temperature_2m in the table",
    ),
    "DELETE FROM weather WHERE " + NOON: (
        "2023-07, part 1: 2,972 rows in the table, 2,976 in the ledger",
        "2023-07, part 1: the summaries of some places (4) are not those of their hours",
    ),
    "INSERT INTO weather (time, location_id, latitude, longitude) VALUES ('2023-07-15 12:00Z', 1, -90, -179.75)": (
        "2023-07: 1 rows in the table at places of which the ledger has no part",
    ),
    "UPDATE weather SET snowfall = 1 WHERE " + NOON + " AND " + FIRST: (
        "2023-07, part 1: 1 values of snowfall in the table, which no load brought",
    ),
    "UPDATE era5.monthly_summary SET temperature_2m_max = 99 WHERE " + FIRST + " AND month = '2023-07-01'": (
        "2023-07, part 1: the summaries of some places (1) are not those of their hours",
    ),
    "DELETE FROM era5.ledger WHERE month = '2023-07-01'": (
        "2023-07: 2,976 rows in the table at places of which the ledger has no part",
    ),
}


@pytest.fixture
def here(warehouse: Warehouse, here: InProcess, tmp_path: Path) -> InProcess:
    """Two months of a user's files, loaded on each layout."""
    for month in ("2023-07", "2023-08"):
        hours = era5_files.hours_from(f"{month}-01T00", 744)
        weather = era5_files.weather(hours, (10.5, 10.25), (20.0, 20.25), ("t2m", "tp"))
        era5_files.write(tmp_path / "files", weather, stem=month)
    here.set(ERA5_DATABASE_URL=warehouse.url, ERA5_SOURCE="files", ERA5_FILES_DIR=str(tmp_path / "files"))
    with era5_files.without_pictures():
        here.run("load", "--from", "2023-07", "--to", "2023-08")
    return here


def test_what_was_changed_by_hand_is_named_and_repaired(here: InProcess, warehouse: Warehouse) -> None:
    printed = here.run("verify")
    assert printed.out.splitlines() == [
        f"{month}: 2,976 rows are equal (rows, summaries, flat file, raw files)" for month in ("2023-07", "2023-08")
    ]
    for change, expected in CHANGES.items():
        with warehouse.connect() as connection:
            connection.execute(change.encode())
        assert "by the ledger" in here.run("load", "--from", "2023-08").out
        printed = here.run("verify", code=4)
        found = [line for line in printed.out.splitlines() if line.startswith("2023-07")]
        assert tuple(found) == expected, change
        assert "2023-08: 2,976 rows are equal" in printed.out
        assert_explained(printed, "1 of 2 months differ: 2023-07", "era5 load --force --from 2023-07 --to 2023-07")
        with era5_files.without_pictures():
            here.run("load", "--force", "--from", "2023-07", "--to", "2023-07")
        assert "differ" not in here.run("verify", "--from", "2023-07").out
    assert [one["differences"] for one in here.run("verify", "--json").json()] == [[], []]
    assert here.run("verify", "--from", "2020-01").out == "2020-01: not loaded\n"


def test_kept_files_are_looked_at(here: InProcess, tmp_path: Path) -> None:
    (flat,) = [path for path in (tmp_path / "flat").glob("2023-08-*.parquet") if ".monthly" not in path.name]
    with flat.open("ab") as file:
        file.write(b"x")
    path = next((tmp_path / "files").glob("2023-07*"))
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["t2m"].units = "X"
    printed = here.run("verify", code=4)
    lines = printed.out.splitlines()
    assert f"2023-08: the flat file {flat} is not the one that was written" in lines
    refused = f"2023-07: the files that it was loaded from would be refused today: {path}: t2m is "
    assert any(line.startswith(refused) for line in lines), lines
    # Without the files, nothing is known of them.
    path.unlink()
    flat.unlink()
    assert "2023-08: 2,976 rows are equal (rows, summaries, raw files)" in here.run("verify").out


def test_the_lake_is_compared(here: InProcess, warehouse: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    here.set(ERA5_LAKE=str(tmp_path / "lake"))
    with era5_files.without_pictures():
        here.run("load", "--from", "2023-07", "--to", "2023-08", "--force")
    assert "2023-07: 2,976 rows are equal (rows, summaries, lake, flat file, raw files)" in here.run("verify").out
    with warehouse.connect() as connection:
        connection.execute(f"UPDATE weather SET temperature_2m = 1 WHERE {NOON} AND {FIRST}".encode())
    (file,) = (tmp_path / "lake").rglob("*2023-08*.parquet")
    file.unlink()
    printed = here.run("verify", code=4)
    assert "2023-07, part 1: other values of temperature_2m in the table" in printed.out
    assert "in the lake" not in printed.out
    assert f"2023-08: the file {file.name} with 2,976 rows is lost" in printed.out
    with era5_files.without_pictures():
        here.run("load", "--force", "--from", "2023-07", "--to", "2023-08")
    here.run("verify")
