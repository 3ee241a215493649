"""`era5 bench`: bad input, interruptions, and going on afterwards."""

from __future__ import annotations

import json
import runpy
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from benchmarks.suites import SUITES
from era5_pipeline.postgres.urls import with_user
from era5_pipeline_tests.commands import Home, InProcess, assert_explained, ended, new_home
from era5_pipeline_tests.servers import fresh_role

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def bench_databases(url: str) -> set[str]:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, 'era5_bench_')"
        ).fetchall()
    return {name for (name,) in rows}


@pytest.mark.parametrize(
    ("arguments", "what", "remedy"),
    [
        (("copi",), "there is no 'copi'", "copy"),
        (("multi_insert",), "there is no 'multi_insert'", "multi-insert"),
        (("copy", "--method", "psycopg row"), "there is no 'psycopg row'", "psycopg rows"),
        (("copy", "--workers", "1,x"), "--workers: '1,x'", "1,2,4"),
        (("copy", "--workers", "0"), "--workers: '0'", "1,2,4"),
        (("scale", "--held", ""), "--held: ''", "1,2,4"),
        (("copy", "--json", "nowhere/result.json"), "nowhere is not a folder", "Create it"),
        (("copy", "--database-url", "mysql://x"), "is not a PostgreSQL URL", "postgresql://"),
    ],
)
def test_bad_input_is_explained_before_anything_starts(
    here: InProcess, arguments: tuple[str, ...], what: str, remedy: str
) -> None:
    assert_explained(here.run("bench", "run", *arguments, code=2), what, remedy)
    assert list(here.home.iterdir()) == []


def test_the_help_names_every_suite(here: InProcess) -> None:
    printed = " ".join(here.run("bench", "run", "--help").out.split())
    assert all(suite.name in printed for suite in SUITES)


def test_the_usage_is_the_command_that_was_called(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "run", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("benchmarks", run_name="__main__")
    (usage,) = [line.strip() for line in capsys.readouterr().out.splitlines() if "Usage:" in line]
    assert usage.endswith(" run [OPTIONS] SUITE...")
    assert " bench " not in usage


def test_a_file_that_holds_something_else_is_not_overwritten(here: InProcess) -> None:
    (here.home / "mine.json").write_text('{"my": "notes"}')
    assert_explained(here.run("bench", "run", "copy", "--json", "mine.json", code=2), "is not a file of results")
    assert (here.home / "mine.json").read_text() == '{"my": "notes"}'


def test_too_little_disk_is_said_with_what_it_would_need(here: InProcess, server_url: str) -> None:
    printed = here.run("bench", "run", "copy", "--rows", "10000000000000", "--database-url", server_url, code=6)
    assert_explained(printed, "the suite copy needs about", "--rows")
    assert "GB" in printed.err


def test_a_user_who_may_not_create_databases_is_told(here: InProcess, server_url: str) -> None:
    with fresh_role(server_url) as role:
        url = with_user(server_url, role)
        printed = here.run("bench", "run", "insert", "--rows", "744", "--database-url", url, code=5)
    assert_explained(printed, "could not be created", "CREATE DATABASE")
    assert list(here.home.glob("bench-*")) == []


def test_no_server_is_explained(here: InProcess) -> None:
    printed = here.run("bench", "run", "insert", "--database-url", "postgresql://localhost:1/x", code=5)
    assert_explained(printed, "localhost")


def test_report_without_results_says_what_to_do(here: InProcess) -> None:
    assert_explained(here.run("bench", "report", code=2), "benchmarks has no results", "era5 bench run all")


ARGUMENTS = ("--rows", "744", "--repeats", "3", "--workers", "1", "--json", "results.json")


def started(home: Home, *arguments: str) -> subprocess.Popen[str]:
    """A run of `insert` and the arguments, in which something has been measured."""
    process = home.start("bench", "run", "insert", *arguments, *ARGUMENTS)
    deadline = time.monotonic() + 180
    while not (home.path / "results.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def results(home: Home) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home.path / "results.json").read_text())
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.endurance)])
def test_an_interrupted_run_leaves_nothing_but_its_results_and_goes_on(
    here: InProcess, tmp_path: Path, server_url: str, number: signal.Signals
) -> None:
    home = Home(tmp_path)
    before = bench_databases(server_url)
    process = started(home, "copy", "--database-url", server_url)
    process.send_signal(number)
    assert ended(process).code == 130
    assert bench_databases(server_url) <= before
    # A signal in the middle of writing may leave a temporary folder, which the next run removes.
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".unfinished-")} == {"results.json"}
    measured = sum(len(cell["repeats"]) for cell in results(home)["cells"])
    assert measured >= 1
    first = results(home)["cells"][0]["repeats"][0]
    printed = here.run("bench", "run", "insert", *ARGUMENTS, "--database-url", server_url)
    assert "repeats kept" in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    again = next(cell for cell in results(home)["cells"] if cell["suite"] == "insert")
    assert again["repeats"][0] == first
    assert len(again["repeats"]) == 3


def test_a_killed_run_leaves_valid_results_and_the_next_one_cleans_up(tmp_path: Path, server_url: str) -> None:
    home = Home(tmp_path)
    before = bench_databases(server_url)
    process = started(home, "copy", "--database-url", server_url)
    process.kill()
    process.communicate()
    assert bench_databases(server_url) - before
    results(home)
    home.run("bench", "run", "insert", *ARGUMENTS, "--database-url", server_url)
    assert bench_databases(server_url) <= before
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_killed_run_leaves_no_server_of_its_own_after_the_next() -> None:
    with new_home() as home:
        process = started(home, "ladder")
        while not any("ladder" in cell["suite"] for cell in results(home)["cells"]):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.kill()
        process.communicate()
        home.run("bench", "run", "insert", *ARGUMENTS)
        assert [path.name for path in home.path.iterdir()] == ["results.json"]
        deadline = time.monotonic() + 60
        while home.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert home.processes() == []


def test_a_server_that_dies_in_the_middle_is_reported_and_leaves_valid_results(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with new_home() as server, server.server.lease() as url:
        process = started(home, "copy", "--database-url", url)
        assert server.server.stop(force=True)
        printed = ended(process)
    assert printed.code in (5, 7), printed
    assert_explained(printed, "")
    results(home)
    assert [path.name for path in home.path.iterdir()] == ["results.json"]


def test_tables_of_the_user_are_not_touched(here: InProcess, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE weather (mine text)")
        connection.execute("INSERT INTO weather VALUES ('kept')")
        here.run("bench", "run", "insert", *ARGUMENTS, "--database-url", database_url)
        assert connection.execute("TABLE weather").fetchall() == [("kept",)]
        assert connection.execute("SELECT to_regnamespace('era5')").fetchone() == (None,)
