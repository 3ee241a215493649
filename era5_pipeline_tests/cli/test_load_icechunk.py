"""`era5 load` from an Icechunk repository: interrupted, killed, beside another, and while the repository grows."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import warnings
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
import xarray as xr
from zarr.errors import ZarrUserWarning

from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.sources.zarr import store
from era5_pipeline_tests.arco_store import served
from era5_pipeline_tests.cli.conftest import NOW
from era5_pipeline_tests.commands import Home, InProcess, assert_explained, ended
from era5_pipeline_tests.era5_files import left_behind, without_pictures
from era5_pipeline_tests.pipelines import dagster_beside
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK, GrowingRepository
from era5_pipeline_tests.sources.zarr.test_source import source
from era5_pipeline_tests.warehouse.test_load_month import versions_of_rows
from era5_pipeline_tests.zarr_stores import LATITUDES, LONGITUDES, hours_between, weather, write_repository

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.cds_store import CdsServer

    Start = Callable[..., subprocess.Popen[str]]

JANUARY, FEBRUARY, MARCH = (Month(2020, number) for number in (1, 2, 3))
AREA = Area(50.0, 0.0, 49.5, 1.0)
HANGING_SECONDS = 150


@pytest.fixture
def growing(tmp_path: Path) -> GrowingRepository:
    return GrowingRepository(tmp_path / "era5")


@pytest.fixture
def on_layout(here: InProcess, warehouse: Warehouse, host_url: str) -> Iterator[InProcess]:
    """The command with a database of each layout, in which no month is loaded."""
    here.set(ERA5_DATABASE_URL=warehouse.url, ERA5_VARIABLES="t2m,tp")
    with dagster_beside(host_url, warehouse.url), without_pictures():
        yield here


@pytest.fixture
def start(on_layout: InProcess) -> Iterator[Start]:
    """Start the command in a process of its own, with the same home and database."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, **env: str) -> subprocess.Popen[str]:
        own = {name: os.environ[name] for name in ("ERA5_DATABASE_URL", "ERA5_VARIABLES")}
        started.append(Home(on_layout.home).start(*arguments, **own, **env))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def read_independently(growing: GrowingRepository, snapshot: str, month: Month, area: Area) -> dict[str, np.ndarray]:
    """The values of a month by xarray and icechunk alone, (hour, place) in the units of the table."""
    store = growing.repository.readonly_session(snapshot_id=snapshot).store
    begin = np.datetime64(month.start.replace(tzinfo=None))
    with (
        warnings.catch_warnings(action="ignore", category=ZarrUserWarning),  # of pcodec, which the specification lacks
        xr.open_zarr(store, group="single/temporal", zarr_format=3, consolidated=False) as dataset,
    ):
        cut = dataset.sel(
            valid_time=slice(begin, begin + np.timedelta64(month.hours - 1, "h")),
            latitude=slice(area.north, area.south),
            longitude=slice(area.west, area.east),
        )
        kelvin, metres = (cut[name].values.astype(np.float64).reshape(month.hours, -1) for name in ("t2m", "tp"))
    return {"temperature_2m": kelvin - 273.15, "total_precipitation": metres * 1000}


def require_equal(warehouse: Warehouse, growing: GrowingRepository, snapshot: str, month: Month, area: Area) -> None:
    """Require that the table has each hour and place of the month once, with the values of the snapshot."""
    ids = [
        ERA5_GRID.nearest_location(latitude, longitude).location_id
        for latitude in np.arange(area.north, area.south - 0.1, -0.25)
        for longitude in np.arange(area.west, area.east + 0.1, 0.25)
    ]
    query = (
        "SELECT time, location_id, temperature_2m, total_precipitation FROM weather "
        "WHERE time >= %s AND time < %s AND location_id = ANY(%s) ORDER BY time, array_position(%s, location_id)"
    )
    with warehouse.connect() as connection:
        rows = connection.execute(query, (month.start, month.end, ids, ids)).fetchall()
    assert len(rows) == len({row[:2] for row in rows}) == month.hours * len(ids)
    for number, (column, values) in enumerate(read_independently(growing, snapshot, month, area).items(), 2):
        held = np.array([row[number] for row in rows], np.float64).reshape(month.hours, -1)
        # Of float32: half a step of a temperature in degC, and of a sum in mm.
        np.testing.assert_allclose(held, values, rtol=1e-6, atol=2e-6, err_msg=f"{month} {column}")


@NEEDS_ICECHUNK
def test_a_load_that_is_interrupted_and_killed_ends_with_each_hour_of_its_snapshot_once(
    on_layout: InProcess, warehouse: Warehouse, growing: GrowingRepository, start: Start, tmp_path: Path
) -> None:
    """In a wait for a chunk and in a wait for the table, while the repository gets other values and a month more."""
    first = growing.write(FEBRUARY)
    with served(growing.folder, with_ranges=True) as web:
        address = f"icechunk+{web.url}//single/temporal"
        load = ("load", "--from", "2020-01", "--to", "2020-02", "--store", address, "--area", str(AREA))
        source(address, tmp_path / "other", area=AREA).fetch(FEBRUARY)
        last = [path for path in web.requested if path.startswith("/chunks/")][-1]

        web.fail("refuse", where=last)
        process = start(*load)
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("503 Service Unavailable; reading again in" in line for line in lines)
        process.send_signal(signal.SIGINT)
        printed = ended(process, HANGING_SECONDS)
        assert (printed.code, "Traceback" in printed.err) == (130, False), printed
        assert_explained(printed, "interrupted", "the others are unchanged")
        web.fail("refuse", 0)
        second = growing.write(MARCH, change=0.001)

        with psycopg.connect(warehouse.url) as holder:
            holder.execute("LOCK TABLE weather IN ACCESS SHARE MODE")
            holder.execute("LOCK TABLE weather IN SHARE MODE")
            process = start(*load)
            wait_until_blocked(warehouse, process, holder.info.backend_pid)
            process.kill()
            assert ended(process).code == -signal.SIGKILL

        printed = on_layout.run(*load)
        assert "the newest is read instead" not in printed.err
        for month in (JANUARY, FEBRUARY):
            require_equal(warehouse, growing, first, month, AREA)
        # The next load takes what is new, and leaves the months that are there.
        on_layout.run(*load[:3], "--to", "2020-03", *load[5:])
        require_equal(warehouse, growing, first, FEBRUARY, AREA)
        require_equal(warehouse, growing, second, MARCH, AREA)
    snapshots = {month: entry["parts"][0]["snapshot"]["id"] for month, entry in on_layout.months().items()}
    assert snapshots == {"2020-01": first, "2020-02": first, "2020-03": second}
    assert left_behind(on_layout.home) == []


def wait_until_blocked(warehouse: Warehouse, process: subprocess.Popen[str], holder: int) -> None:
    """Wait until a session of the load waits for a lock of the session `holder`."""
    query = "SELECT FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    deadline = time.monotonic() + HANGING_SECONDS
    with psycopg.connect(warehouse.url, autocommit=True) as connection:
        while connection.execute(query, (holder,)).fetchone() is None:
            assert process.poll() is None, ended(process)
            assert time.monotonic() < deadline
            time.sleep(0.05)


@NEEDS_ICECHUNK
def test_two_neighbouring_tiles_at_once(
    on_layout: InProcess, warehouse: Warehouse, growing: GrowingRepository, start: Start
) -> None:
    snapshot = growing.write(FEBRUARY)
    env = {"ERA5_EARTHMOVER_URL": f"icechunk+file://{growing.folder}", "CDSAPI_RC": str(growing.folder / "none")}
    processes = [
        start("load", "--lat", "50", f"--lon={longitude}", "--tile", "--from", "2020-02", **env)
        for longitude in (-1, 1)
    ]
    for process in processes:
        printed = ended(process, HANGING_SECONDS)
        assert (printed.code, "Traceback" in printed.err) == (0, False), printed
    west, east = Area(52.0, -2.5, 49.25, 0.25), Area(52.0, 0.5, 49.25, 2.5)
    require_equal(warehouse, growing, snapshot, FEBRUARY, Area(52.0, -2.5, 49.25, 2.5))
    parts = on_layout.months()["2020-02"]["parts"]
    assert sorted(part["area"] for part in parts) == sorted([str(west), str(east)])
    assert sum(part["rows"] for part in parts) == (144 + 108) * len(hours_of_month(FEBRUARY))


@NEEDS_ICECHUNK
def test_a_store_that_does_not_answer_is_tried_six_times_by_the_whole_command(
    on_layout: InProcess, warehouse: Warehouse, growing: GrowingRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_FIRST_WAIT_SECONDS", 0.0)
    snapshot = growing.write(FEBRUARY)
    with served(growing.folder, with_ranges=True) as web:
        address = f"icechunk+{web.url}//single/temporal"
        web.fail("refuse", where=".*")
        months = ("--from", "2020-01", "--to", "2020-02")
        printed = on_layout.run("load", *months, "--store", address, "--area", str(AREA), code=7)
        # A try asks for several objects at once, and ends with the first that is refused.
        assert 6 <= len(web.requested) <= 6 * len(set(web.requested))
        assert_explained(printed, f"{address}: its snapshot cannot be read in 6 tries", "Check the network")
        assert "not tried: 2020-02" in printed.err
        assert "in 6 tries" in on_layout.months()["2020-01"]["last_attempt"]["error"]
        web.fail("refuse", 0)
        on_layout.run("load", "--failed")
        require_equal(warehouse, growing, snapshot, JANUARY, AREA)


# --- an earlier source has months that a later one gave ---

SPLICED = ("--area", "50/0/49.75/0.25", "--source", "earthmover,cds")
STEP = 2.0**-10


def write_as_in_table(folder: Path, warehouse: Warehouse, month: Month, kelvin: float) -> str:
    """Write a state of the open store, from the month before to this one, with the table's values, but for `kelvin`."""
    hours = hours_between(Month.from_number(month.number - 1), month)
    values, first = weather(hours), hours_of_month(month).start - hours.start
    with warehouse.connect() as connection:
        rows = connection.execute(
            "SELECT time, latitude, longitude, temperature_2m, total_precipitation FROM weather WHERE time >= %s "
            "AND time < %s",
            (month.start, month.end),
        ).fetchall()
    assert len(rows) == 4 * month.hours
    for time_, latitude, longitude, celsius, millimetres in rows:
        hour = first + round((time_ - month.start).total_seconds() / 3600)
        at = hour, int(np.argmin(abs(LATITUDES - latitude))), int(np.argmin(abs(LONGITUDES - longitude)))
        values["temperature_2m"][at] = celsius + 273.15 + kelvin
        values["total_precipitation"][at] = millimetres / 1000
    return write_repository(folder, hours, values=values)


@NEEDS_ICECHUNK
@pytest.mark.parametrize("command", ["load", "revise"])
@pytest.mark.parametrize("version", ["preliminary", "final"])
def test_a_month_of_a_later_source_is_confirmed_within_the_quantum_and_else_revised(
    on_layout: InProcess, warehouse: Warehouse, server: CdsServer, tmp_path: Path, command: str, version: str
) -> None:
    """The open store gets two months one after the other that the service gave: one with the same values."""
    same, other = Month(2020, 5), Month(2020, 6)
    server.reset(today=other.end + timedelta(days=20) if version == "preliminary" else NOW)
    server.final_until = datetime(2020, 4, 30, 23, tzinfo=UTC) if version == "preliminary" else NOW
    folder = tmp_path / "open"
    write_repository(folder, hours_between(Month(2020, 3), Month(2020, 3)))
    on_layout.set(
        ERA5_EARTHMOVER_URL=f"icechunk+file://{folder}",
        CDSAPI_URL=server.url,
        CDSAPI_KEY=server.key,
        ERA5_CDS_POLL_SECONDS="0.05",
    )
    months = ("load", "--from", str(same), "--to", str(other), *SPLICED)
    on_layout.run(*months)
    on_layout.set(ERA5_SOURCE="earthmover,cds", ERA5_AREA="50/0/49.75/0.25")
    again = months if command == "load" else ("revise",)

    snapshot = write_as_in_table(folder, warehouse, same, 0.9 * STEP)
    rows, before = versions_of_rows(warehouse), on_layout.months()
    assert before[str(same)]["parts"][0]["version"] in (version, "mixed")
    printed = on_layout.run(*again)
    assert re.search(rf"^{same} +confirmed ", printed.out, re.M), printed
    said = f"the month stays from cds, and is .* now, confirmed by earthmover, snapshot {snapshot} of "
    assert re.search(said, printed.out)
    assert versions_of_rows(warehouse) == rows
    (part,) = on_layout.months()[str(same)]["parts"]
    assert part["confirmed"]["snapshot"]["id"] == snapshot
    assert (part["source"], part["confirmed"]["source"]) == ("cds", "earthmover")
    assert part["version"] == ("final" if version == "final" else "final by age")
    assert part["loaded_at"] == before[str(same)]["parts"][0]["loaded_at"]
    series = ("series", "--lat", "50", "--lon", "0", "--column", "t2m", "--from", str(same), "--to", str(same))
    assert f"earthmover, snapshot {snapshot} of" in on_layout.run(*series, "--json").json()["confirmed_by"]
    assert on_layout.run("verify", "--from", str(same)).code == 0

    assert on_layout.run(*months).out.count("unchanged") == 2
    assert json.loads(on_layout.run("revise", "--dry-run", "--json").out) == (
        [] if version == "final" else [{"month": str(other), "reason": f"{other} holds preliminary hours"}]
    )
    # The next month has other values in the store.
    snapshot = write_as_in_table(folder, warehouse, other, 4 * STEP)
    printed = on_layout.run(*again)
    assert "what differs: temperature_2m" in printed.out
    assert "4 places" in printed.out
    held = on_layout.months()
    assert [held[str(month)]["source"] for month in (same, other)] == ["cds", "earthmover"]
    assert held[str(other)]["parts"][0]["snapshot"]["id"] == snapshot
    assert on_layout.run("verify").code == 0
    assert on_layout.run(*months).out.count("unchanged") == 2
