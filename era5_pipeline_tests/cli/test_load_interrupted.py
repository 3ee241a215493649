"""`era5 load` interrupted or killed during a load, and the next load."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import Home, assert_explained, ended, new_home

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

# Some seconds of work: a million rows.
LARGE = (
    *("load", "--from", "2020-02", "--source", "sample", "--area", "60/0/-60/90", "--sample-hours", "6"),
    "--allow-incomplete",
)
ROWS = 481 * 361 * 6


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


def wait_for_copy(home: Home, process: subprocess.Popen[str]) -> None:
    """Wait until the load is in the middle of its COPY."""
    deadline = time.monotonic() + 60
    while not home.server.is_running():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with psycopg.connect(home.server.url("postgres"), autocommit=True) as connection:
        query = "SELECT FROM pg_stat_progress_copy WHERE bytes_processed > 1000000"
        while connection.execute(query).fetchone() is None:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)


def assert_nothing_half_written(home: Home) -> None:
    assert era5_files.left_behind(home.path) == []
    assert home.processes() == []


def test_interrupted_and_killed_loads_leave_nothing_behind(home: Home) -> None:
    # Ctrl-C in the middle of COPY.
    process = home.start(*LARGE)
    wait_for_copy(home, process)
    process.send_signal(signal.SIGINT)
    printed = ended(process, 30)
    assert printed.code == 130
    assert_explained(printed, "interrupted", "the others are unchanged")
    assert "Traceback" not in printed.err
    assert not home.server.is_running()
    assert_nothing_half_written(home)

    # The next load works, while another command uses the same embedded server.
    process = home.start(*LARGE, "--json")
    assert home.months()["2020-02"]["state"] in ("failed", "loading")
    printed = ended(process)
    (month,) = printed.json()
    assert (printed.code, month["state"], month["rows"]) == (0, "incomplete", ROWS)
    assert_nothing_half_written(home)

    # kill -9 in the middle of COPY.
    process = home.start(*LARGE, "--force")
    wait_for_copy(home, process)
    process.kill()
    assert ended(process).code == -signal.SIGKILL
    with home.server.lease():
        entry = home.months()["2020-02"]
        assert (entry["state"], entry["rows"]) == ("incomplete", ROWS)
        assert entry["last_attempt"]["outcome"] == "interrupted"
        assert home.ask("era5", "SELECT count(*) FROM weather WHERE time < '2020-03-01'") == ROWS
        assert home.ask("era5_dagster", "SELECT count(*) FROM runs WHERE status = 'STARTED'") == 1

        assert "2020-02  incomplete" in home.run(*LARGE, "--force").out
        assert home.ask("era5", "SELECT count(*) FROM weather WHERE time < '2020-03-01'") == ROWS
        assert home.months()["2020-02"]["last_attempt"]["outcome"] == "loaded"
        # The killed run is marked as failed, so that runs of `era5 up` do not wait for it.
        assert home.ask("era5_dagster", "SELECT count(*) FROM runs WHERE status = 'STARTED'") == 0
    assert_nothing_half_written(home)
