"""`era5 watch`: as JSON, as lines and live, during a load that is paused in its COPY."""

from __future__ import annotations

import json
import re
import signal
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import (
    CommandResult,
    Home,
    InProcess,
    assert_explained,
    ended,
    in_a_terminal,
    new_home,
)
from era5_pipeline_tests.monitor.test_activity import paused_load

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline_tests.flat_months import FlatMonths

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \| ")
SECONDS = 240.0


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcess:
    return InProcess(capsys, monkeypatch, tmp_path)


@pytest.fixture
def warehouse(database_url: str, here: InProcess) -> Warehouse:
    here.set(ERA5_DATABASE_URL=database_url)
    return Warehouse(database_url)


def objects(printed: CommandResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.out.splitlines()]


def test_json_prints_one_object_per_line(here: InProcess, warehouse: Warehouse, large: FlatMonth) -> None:
    with paused_load(warehouse, large) as (_, pid):
        printed = here.run("watch", "--json", "--interval", "0.4", "--seconds", "1.2")
    assert printed.err == ""
    seen = objects(printed)
    assert 2 <= len(seen) <= 4
    times = [datetime.fromisoformat(one["time"]) for one in seen]
    assert times == sorted(times)
    last = seen[-1]
    (loader,) = last["loaders"]
    assert (loader["pid"], loader["month"], loader["phase"]) == (pid, "2023-07", "COPY")
    assert loader["bytes"] > 1_000_000
    assert loader["rows"] > 10_000
    assert loader["glances"]["Client:ClientRead"] >= 1
    assert last["bottleneck"]["kind"] == "loader"
    assert last["waits"] == {"Client:ClientRead": 1.0}
    assert last["wal_bytes_per_second"] >= 0
    assert last["checkpoints"].keys() == {"timed", "requested", "requested_lately"}
    assert last["database_bytes"] > 1_000_000
    assert (last["server"], last["has_months"], last["all_sessions_visible"]) == ("up", True, True)


def test_lines_have_no_control_characters(here: InProcess, warehouse: Warehouse, large: FlatMonth) -> None:
    with paused_load(warehouse, large):
        printed = here.run("watch", "--interval", "0.4", "--seconds", "1.2")
    assert "\x1b" not in printed.out
    lines = printed.out.splitlines()
    assert 2 <= len(lines) <= 4
    for line in lines:
        assert LINE.match(line)
    assert "| 2023-07 COPY | 0 rows/s, 0.0 MB/s | Client:ClientRead 100 % | WAL " in lines[-1]
    assert "| checkpoints 0 timed, " in lines[-1]
    assert "| The loader: for 100 % of the time the server waits for rows." in lines[-1]


def test_watch_without_a_load(here: InProcess, warehouse: Warehouse, flat_months: FlatMonths) -> None:
    empty = here.run("watch", "--seconds", "0.2")
    assert "Nothing is loading" in empty.out
    assert "no month has been loaded yet" in empty.out
    load_month(warehouse, flat_months())
    loaded = here.run("watch", "--seconds", "0.2")
    assert "Nothing is loading" in loaded.out
    assert "no month has been loaded yet" not in loaded.out
    (one,) = objects(here.run("watch", "--seconds", "0.2", "--json"))
    assert (one["loaders"], one["rows_per_second"], one["bottleneck"]["kind"]) == ([], 0, "nothing")


def test_embedded_server_is_kept_running_while_watched(here: InProcess) -> None:
    with new_home() as home:
        here.set(ERA5_HOME=str(home.path))
        here.run("db", "init")
        printed = here.run("watch", "--seconds", "0.5")
        assert "no month has been loaded yet" in printed.out
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


def test_server_outage_is_reported() -> None:
    with new_home() as home:
        home.server.start()
        with psycopg.connect(home.server.url("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE era5")
        # With a URL, because the command would start an embedded server again.
        url = home.server.url("era5")
        lines = home.start("watch", "--interval", "0.2", ERA5_DATABASE_URL=url)
        as_json = home.start("watch", "--json", "--interval", "0.2", ERA5_DATABASE_URL=url)
        try:
            assert lines.stdout
            assert as_json.stdout
            assert "Nothing is loading" in lines.stdout.readline()
            assert json.loads(as_json.stdout.readline())["server"] == "up"
            home.server.stop(force=True)
            read_until(lines, "the server is gone (")
            assert '"message": ' in read_until(as_json, '"server": "gone"')
            home.server.start()
            assert "Nothing is loading" in read_until(lines, "the server is back")
            assert "the server is back" not in str(lines.stdout.readline())
            read_until(as_json, '"server": "up"')
        finally:
            for process in (lines, as_json):
                process.send_signal(signal.SIGINT)
                assert ended(process).code == 130


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """The next line that contains `words`."""
    assert process.stdout
    deadline = time.monotonic() + SECONDS
    while words not in (line := process.stdout.readline()):
        assert line
        assert time.monotonic() < deadline
    return line


def test_live_in_a_terminal(warehouse: Warehouse, here: InProcess, large: FlatMonth) -> None:
    with (
        paused_load(warehouse, large) as (_, pid),
        in_a_terminal(here.home, "watch", "--interval", "0.3", ERA5_DATABASE_URL=warehouse.url) as (process, terminal),
    ):
        terminal.read_until("Client:ClientRead 100 %")
        terminal.read_until("The loader: for")
        terminal.type(b"\x03")
        terminal.read_all()
        assert process.wait(SECONDS) == 130
    plain = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.written).split())
    assert f"2023-07 {pid} COPY" in plain
    for name in ("rows/s", "WAL", "checkpoints", "active sessions", "database"):
        assert name in plain
    assert "Traceback" not in plain
    # It is redrawn in place, and the cursor is visible again.
    assert "\x1b[2K" in terminal.written
    assert terminal.written.rindex("\x1b[?25h") > terminal.written.rindex("\x1b[?25l")


def test_unreachable_server(here: InProcess) -> None:
    here.set(ERA5_DATABASE_URL="postgresql://me:correct-horse@127.0.0.1:9/nowhere")
    printed = here.run("watch", "--seconds", "1", code=5)
    assert_explained(printed, "me@127.0.0.1:9/nowhere")
    assert "correct-horse" not in printed.err


@pytest.mark.parametrize(
    "arguments",
    [("--interval", "0"), ("--interval", "nan"), ("--interval", "inf"), ("--seconds", "-1"), ("--seconds", "nan")],
)
def test_invalid_times_are_refused(here: InProcess, arguments: tuple[str, str]) -> None:
    assert arguments[0] in here.run("watch", *arguments, code=2).err
