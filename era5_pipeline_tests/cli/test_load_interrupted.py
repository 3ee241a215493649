"""`era5 load` interrupted or killed during a load, and the next load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import cycle

import psycopg
import pytest

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.months import Month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import Home, InProcess, assert_explained, ended, environment
from era5_pipeline_tests.warehouse.loads import wait_until

# Seconds of work: half a million rows.
LARGE = (
    *("load", "--from", "2020-02", "--source", "sample", "--area", "60/0/-60/90", "--sample-hours", "3"),
    "--allow-incomplete",
)
ROWS = 481 * 361 * 3
# Only a load that hangs takes so long, even on a busy machine, or one that waits for a database (180 s).
_HANGING_SECONDS = 150


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Home) -> InProcess:
    """The command in this process, for what is not interrupted: a process takes seconds to start."""
    return InProcess(capsys, monkeypatch, home.path)


def wait_for_copy(home: Home, process: subprocess.Popen[str]) -> None:
    """Wait until the load is in the middle of its COPY."""
    deadline = time.monotonic() + _HANGING_SECONDS
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


def test_a_load_stops_its_server_before_it_ends(home: Home, here: InProcess) -> None:
    """In the command, not in Python's exit handlers: these may start no thread in Python 3.12."""
    printed = home.run(*SMALL_LOAD, "--allow-incomplete")
    assert "2020-03  incomplete" in printed.out
    assert [line.split()[0] for line in printed.err.splitlines()] == ["source", "loading"]
    assert home.processes() == []
    here.run(*SMALL_LOAD, "--allow-incomplete", "--force")
    assert not home.server.is_running()
    # After a failed month, too.
    (home.path / "files").mkdir()
    (home.path / "files/bad.nc").write_bytes(b"no netCDF")
    here.run("load", "--from", "2020-03", "--files-dir", str(home.path / "files"), code=3)
    assert not home.server.is_running()
    assert_nothing_half_written(home)


def test_interrupted_and_killed_loads_leave_nothing_behind(home: Home, here: InProcess) -> None:
    # Ctrl-C in the middle of COPY.
    process = home.start(*LARGE)
    wait_for_copy(home, process)
    process.send_signal(signal.SIGINT)
    printed = ended(process, _HANGING_SECONDS)
    assert printed.code == 130
    assert_explained(printed, "interrupted", "the others are unchanged")
    assert "Traceback" not in printed.err
    assert "does not answer" not in printed.err
    assert not home.server.is_running()
    assert_nothing_half_written(home)

    # The next load works, while another command uses the same embedded server.
    process = home.start(*LARGE, "--json")
    assert here.months()["2020-02"]["state"] in ("failed", "loading")
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
        # Until the server has noticed that the loader is gone, the attempt shows as running.
        wait_until(lambda: here.months()["2020-02"]["last_attempt"]["outcome"] != "running")
        entry = here.months()["2020-02"]
        assert (entry["state"], entry["rows"]) == ("incomplete", ROWS)
        assert entry["last_attempt"]["outcome"] == "interrupted"
        assert home.ask("era5", "SELECT count(*) FROM weather WHERE time < '2020-03-01'") == ROWS
        assert home.ask("era5_dagster", "SELECT count(*) FROM runs WHERE status = 'STARTED'") == 1

        here.set(ERA5_DATABASE_URL=home.server.url("era5"))
        assert "2020-02  incomplete" in here.run(*LARGE, "--force").out
        assert home.ask("era5", "SELECT count(*) FROM weather WHERE time < '2020-03-01'") == ROWS
        assert here.months()["2020-02"]["last_attempt"]["outcome"] == "loaded"
        # The killed run is marked as failed, so that runs of `era5 up` do not wait for it.
        assert home.ask("era5_dagster", "SELECT count(*) FROM runs WHERE status = 'STARTED'") == 0
    assert_nothing_half_written(home)


def kill_server(home: Home) -> None:
    """Kill the postmaster, as a system does that is out of memory."""
    (running,) = home.path.rglob("postmaster.pid")
    os.kill(int(running.read_text().split()[0]), signal.SIGKILL)


def starts(home: Home) -> int:
    return (home.path / "postgres.log").read_text().count("starting PostgreSQL")


def test_a_load_starts_its_killed_server_again_and_goes_on(home: Home) -> None:
    process = home.start(*LARGE, "--force")
    wait_for_copy(home, process)
    before = starts(home)
    kill_server(home)
    printed = ended(process, _HANGING_SECONDS)
    assert printed.code == 0, printed
    assert "2020-02  incomplete" in printed.out
    assert "the embedded PostgreSQL does not answer: starting it again\n" in printed.err
    assert "sqlalchemy" not in printed.err
    assert "Traceback" not in printed.err
    assert starts(home) == before + 1
    assert_nothing_half_written(home)
    with home.server.lease():
        assert home.ask("era5", "SELECT count(*) FROM weather WHERE time < '2020-03-01'") == ROWS


def test_a_load_that_waits_for_a_server_that_is_gone_ends_at_an_interrupt(home: Home) -> None:
    with home.server.lease():
        # A server that the load does not start itself.
        process = home.start(*LARGE, "--force", ERA5_DATABASE_URL=home.server.url("era5"))
        wait_for_copy(home, process)
        kill_server(home)
        assert process.stderr is not None
        while "Dagster's database does not answer" not in (line := process.stderr.readline()):
            assert line, ended(process)
        process.send_signal(signal.SIGINT)
        printed = ended(process, _HANGING_SECONDS)
    assert printed.code == 130
    assert "era5: interrupted" in printed.err
    assert "does not answer" not in printed.err
    assert "Traceback" not in printed.err
    # The server starts again, and recovers.
    assert "2020-02  incomplete" in home.run(*LARGE, "--force").out
    assert_nothing_half_written(home)


def test_a_load_whose_session_is_ended_as_it_looks_at_the_warehouse_goes_on(home: Home, here: InProcess) -> None:
    lake = str(home.path / "lake")
    (home.path / "lake").mkdir()
    with home.server.lease():
        here.set(ERA5_LAKE=lake)
        here.run(*SMALL_LOAD, "--allow-incomplete")
        with psycopg.connect(home.server.url("era5")) as holder:
            # Read first of all that a load reads of the lake.
            holder.execute("LOCK TABLE public.iceberg_tables IN ACCESS EXCLUSIVE MODE")
            process = home.start(*SMALL_LOAD, "--allow-incomplete", "--force", ERA5_LAKE=lake)
            wait_until_blocked(home, process, holder.info.backend_pid)
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
            with psycopg.connect(home.server.url("postgres"), autocommit=True) as admin:
                assert admin.execute(end, (holder.info.backend_pid,)).fetchall() == [(True,)]
        printed = ended(process)
    assert (printed.code, "Traceback" in printed.err) == (0, False), printed
    assert "terminating connection due to administrator command: trying again in 1 s" in printed.err


# Held by another session while a load is interrupted that waits for it.
LOCKS = {
    "the month's lock": f"SELECT pg_advisory_lock({ERA5.lock_class}, {Month(2020, 3).number})",
    "its ledger": "LOCK TABLE era5.ledger IN ACCESS EXCLUSIVE MODE",
    "the record of its attempts": "LOCK TABLE era5.load_attempt IN ACCESS EXCLUSIVE MODE",
    "the table": "LOCK TABLE weather IN ACCESS EXCLUSIVE MODE",
    "its readers": "LOCK TABLE weather IN ACCESS SHARE MODE",
}
SMALL_LOAD = ("load", "--from", "2020-03", "--source", "sample", "--area=1/1/0/2", "--sample-hours", "1")


@pytest.mark.parametrize(
    ("signals", "locks"),
    [
        pytest.param([signal.SIGINT], ["the table"], id="SIGINT"),
        pytest.param([signal.SIGTERM, signal.SIGINT], [*LOCKS], id="both, all", marks=pytest.mark.endurance),
    ],
)
def test_an_interrupted_wait_prints_no_message_of_the_driver(
    home: Home, here: InProcess, signals: list[signal.Signals], locks: list[str]
) -> None:
    here.run("db", "init")
    with home.server.lease():
        here.set(ERA5_DATABASE_URL=home.server.url("era5"))
        here.run(*SMALL_LOAD, "--allow-incomplete")
        for what, signal_number in zip(locks, cycle(signals), strict=False):
            with psycopg.connect(home.server.url("era5")) as holder:
                holder.execute(LOCKS[what].encode())
                process = home.start(*SMALL_LOAD, "--allow-incomplete", "--force")
                wait_until_blocked(home, process, holder.info.backend_pid)
                process.send_signal(signal_number)
                printed = ended(process, _HANGING_SECONDS)
            assert printed.code == 130, what
            assert_explained(printed, "interrupted", "the others are unchanged")
            assert unexpected(printed.err) == [], what
        assert here.run(*SMALL_LOAD, "--allow-incomplete", "--force", "--json").json()[0]["rows"] == 25
    assert_nothing_half_written(home)


def wait_until_blocked(home: Home, process: subprocess.Popen[str], holder: int) -> None:
    """Wait until a session of the load waits for a lock of the session `holder`."""
    query = "SELECT FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    deadline = time.monotonic() + _HANGING_SECONDS
    with psycopg.connect(home.server.url("era5"), autocommit=True) as connection:
        while connection.execute(query, (holder,)).fetchone() is None:
            assert process.poll() is None, ended(process)
            assert time.monotonic() < deadline
            time.sleep(0.05)


def unexpected(err: str) -> list[str]:
    """Lines that a load prints only if something besides our own messages went to standard error."""
    ours = ("source sample: ", "loading from ", "era5: interrupted", "      Finished months", "2020-03 is ")
    return [line for line in err.splitlines() if not line.startswith(ours)]


def test_an_interrupt_while_modules_are_imported_prints_no_traceback(home: Home) -> None:
    """Python 3.11 turns an interrupt in `__set_name__` into a RuntimeError, as seen in an import of matplotlib."""
    program = (
        "import era5_pipeline.cli as cli, sys\n"
        "class Name:\n    def __set_name__(self, *_):\n        raise KeyboardInterrupt\n"
        "def interrupted():\n    class Owner:\n        name = Name()\n"
        "cli.app.command('interrupted')(interrupted)\n"
        "sys.argv = ['era5', 'interrupted']\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(home.path),
        cwd=home.path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr.strip()) == (130, "")
