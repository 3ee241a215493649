"""Tests of `--fetch`: a place that the table has nothing of is loaded before it is asked."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.planning.fetches import FetchFolder, PlaceFetch
from era5_pipeline_tests.commands import ERA5, InProcess
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK
from era5_pipeline_tests.zarr_stores import hours_between, write_repository

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

PLACE = ("--lat", "50.1", "--lon", "-1.1")
SERIES = ("series", *PLACE, "--column", "t2m", "--format", "csv", "--fetch")


def with_repository(era5: InProcess, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two months be in the open store, and no key for the service be known."""
    write_repository(folder, hours_between(Month(2020, 1), Month(2020, 2)), ("temperature_2m",))
    era5.set(ERA5_EARTHMOVER_URL=f"icechunk+file://{folder}", ERA5_VARIABLES="t2m", CDSAPI_RC=str(folder / "none"))
    monkeypatch.delenv("CDSAPI_KEY", raising=False)


@NEEDS_ICECHUNK
def test_a_place_is_loaded_and_answered_once_for_all_who_ask_together(
    on_server: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_repository(on_server, tmp_path / "open", monkeypatch)
    asking = [
        subprocess.Popen([ERA5, *SERIES], cwd=on_server.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=180) for process in asking]
    assert [process.returncode for process in asking] == [0, 0]
    (first, _), (second, _) = answers
    assert first == second
    assert len(first.splitlines()) == 1 + (31 + 29) * 24
    # One of the two has loaded, and shown it; the other waited, and said so.
    assert sum("2020-02  loaded" in said for _, said in answers) == 1
    assert sum("another run is fetching it" in said for _, said in answers) == 1
    # It is there now.
    assert on_server.run("climate", *PLACE, "--fetch").err == ""


@pytest.fixture
def reader(on_server: InProcess, embedded_warehouse: Warehouse) -> Iterator[str]:
    """The URL of a user who may only read."""
    name = f"reader_{embedded_warehouse.url.partition('?')[0].rpartition('/')[2]}"
    with psycopg.connect(embedded_warehouse.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
        connection.execute(f"GRANT pg_read_all_data TO {name}".encode())
        yield embedded_warehouse.url.replace("//postgres@", f"//{name}@")
        connection.execute(f"DROP ROLE {name}".encode())


@NEEDS_ICECHUNK
def test_who_reads_needs_no_right_to_write_and_who_loads_says_why_it_cannot(
    on_server: InProcess,
    embedded_warehouse: Warehouse,
    reader: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_repository(on_server, tmp_path / "open", monkeypatch)
    on_server.run("load", "--lat", "49", "--lon", "1", "--from", "2020-01")
    on_server.set(ERA5_DATABASE_URL=reader)
    done = subprocess.run([ERA5, *SERIES], cwd=on_server.home, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (5, "")
    assert "GRANT era5_loader TO reader_" in done.stderr
    on_server.set(ERA5_FETCH_DATABASE_URL=embedded_warehouse.url)
    assert len(on_server.run(*SERIES).out.splitlines()) == 1 + (31 + 29) * 24


@NEEDS_ICECHUNK
def test_what_an_interrupted_load_has_left_is_no_answer(
    on_server: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_repository(on_server, tmp_path / "open", monkeypatch)
    on_server.run("load", *PLACE, "--from", "2020-01")
    assert len(on_server.run(*SERIES).out.splitlines()) == 1 + 31 * 24  # it was meant so
    folder = FetchFolder(on_server.home)
    folder.write(PlaceFetch(ERA5_GRID.nearest_location(50.1, -1.1).location_id, asked_at=0.0, state="loading"))
    assert len(on_server.run(*SERIES).out.splitlines()) == 1 + (31 + 29) * 24
    assert folder.unfinished() == []
