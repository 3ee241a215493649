"""`era5 watch`: as JSON, as lines and live, during a load that is paused in its COPY."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline_tests.commands import (
    Home,
    InProcess,
    ended,
    in_a_terminal,
    new_home,
)
from era5_pipeline_tests.monitor.test_activity import paused_load

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth

SECONDS = 240.0


@pytest.fixture
def warehouse(database_url: str, here: InProcess) -> Warehouse:
    here.set(ERA5_DATABASE_URL=database_url)
    return Warehouse(database_url)


def test_a_load_is_watched_as_json_and_as_lines(here: InProcess, warehouse: Warehouse, large: FlatMonth) -> None:
    with paused_load(warehouse, large) as (_, pid):
        as_json = here.run("watch", "--json", "--interval", "0.4", "--seconds", "1.2")
        as_lines = here.run("watch", "--interval", "0.4", "--seconds", "1.2")
    assert as_json.err == ""
    seen = [json.loads(line) for line in as_json.out.splitlines()]
    assert 2 <= len(seen) <= 4
    last = seen[-1]
    assert last["time"] > seen[0]["time"]
    (loader,) = last["loaders"]
    assert (loader["pid"], loader["month"], loader["phase"]) == (pid, "2023-07", "COPY")
    assert loader["bytes"] > 1_000_000
    assert loader["rows"] > 10_000
    assert last["bottleneck"]["kind"] == "loader"
    assert last["waits"] == {"Client:ClientRead": 1.0}
    assert "\x1b" not in as_lines.out
    lines = as_lines.out.splitlines()
    assert 2 <= len(lines) <= 4
    for line in lines:
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \| ", line)
    assert f"| 2023-07 (session {pid}) COPY, " in lines[-1]
    assert " rows/s, 0.0 MB/s, Client:ClientRead 100 % | The loader: for 100 % of the time" in lines[-1]


def test_embedded_server_is_kept_running_while_watched(here: InProcess) -> None:
    with new_home() as home:
        here.set(ERA5_HOME=str(home.path))
        here.run("db", "init")
        assert "Nothing is loading" in here.run("watch", "--seconds", "0.5").out
        assert not home.server.is_running()
        assert home.processes() == []


def test_ctrl_c_ends_watch(warehouse: Warehouse, here: InProcess) -> None:
    process = Home(here.home).start("watch", "--interval", "0.2", ERA5_DATABASE_URL=warehouse.url)
    assert process.stdout
    assert "Nothing is loading" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    printed = ended(process)
    assert (printed.code, printed.err) == (130, "")


def test_closed_pipe_ends_watch(warehouse: Warehouse, here: InProcess) -> None:
    process = Home(here.home).start("watch", "--interval", "0.2", ERA5_DATABASE_URL=warehouse.url)
    assert process.stdout
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    printed = ended(process)
    # Depends on whether typer or era5 notices the closed pipe first.
    assert printed.code in (1, 141)
    assert printed.err == ""


def test_live_in_a_terminal(warehouse: Warehouse, here: InProcess, large: FlatMonth) -> None:
    with (
        paused_load(warehouse, large) as (_, pid),
        in_a_terminal(here.home, "watch", "--interval", "0.3", ERA5_DATABASE_URL=warehouse.url) as (process, terminal),
    ):
        terminal.read_until(f"2023-07 (session {pid}) COPY")
        terminal.read_until("The loader: for")
        terminal.type(b"\x03")
        terminal.read_all()
        assert process.wait(SECONDS) == 130
    assert "Traceback" not in terminal.written
    # It is redrawn in place, and the cursor is visible again.
    assert "\x1b[2K" in terminal.written
    assert terminal.written.rindex("\x1b[?25h") > terminal.written.rindex("\x1b[?25l")


@pytest.mark.parametrize(
    "arguments",
    [("--interval", "0"), ("--interval", "nan"), ("--interval", "inf"), ("--seconds", "-1"), ("--seconds", "nan")],
)
def test_invalid_times_are_refused(here: InProcess, arguments: tuple[str, str]) -> None:
    assert arguments[0] in here.run("watch", *arguments, code=2).err
