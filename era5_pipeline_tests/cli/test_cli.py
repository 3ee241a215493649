"""The command as a whole: fast help, version, exit codes, and unexpected errors."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline import __version__
from era5_pipeline.postgres.urls import with_database
from era5_pipeline_tests.commands import ERA5, InProcess, as_nobody, assert_explained, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = (
    *(("load",), ("status",), ("series",), ("map",), ("climate",), ("up",), ("demo",), ("doctor",), ("watch",)),
    *(("metrics",), ("places",), ("report",), ("export",), ("serve",)),
    *(("plan",), ("revise",), ("drop",), ("verify",)),
    *(("db", "url"), ("db", "start"), ("db", "stop"), ("db", "init"), ("bench", "run")),
)
READ_ONLY = (
    *(("status",), ("status", "--json"), ("doctor",), ("watch", "--seconds", "1"), ("revise", "--dry-run")),
    ("metrics",),
    ("series", "--lat", "1", "--lon", "2"),
    ("climate", "--lat", "1", "--lon", "2"),
    ("map", "--time", "2020-01-01T00", "--column", "t2m", "--out", "map.png"),
    ("report", "--lat", "1", "--lon", "2", "--out", "page.html"),
    ("export", "--lat", "1", "--lon", "2", "--out", "out.nc"),
    ("serve", "--port", "0"),
)
HEAVY = ("dagster", "xarray", "matplotlib", "dask", "pandas", "numpy", "pyarrow", "netCDF4", "psycopg", "jinja2")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["load", "--help"], ["load", "--bogus"]])
def test_help_and_usage_errors_import_no_heavy_modules(arguments: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\nfrom era5_pipeline.cli import main\n"
        f"sys.argv = {['era5', *arguments]!r}\n"
        "try:\n    main()\nfinally:\n"
        f"    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stderr.splitlines()[-1] == "[]", done
    assert done.returncode == (2 if "--bogus" in arguments else 0)


def test_version(here: InProcess) -> None:
    assert here.run("--version").out == f"era5-pipeline {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command_has_examples(here: InProcess, command: tuple[str, ...]) -> None:
    printed = here.run(*command, "--help").out
    example = " ".join(("era5", *command))
    lines = [line.strip() for line in printed.splitlines()]
    assert any(line in ("Example:", "Examples:") for line in lines)
    assert any(example in line and not line.startswith("Usage") for line in lines)
    assert "\b" not in printed
    assert here.run(*command, "-h").out == printed


def test_overview_names_commands_and_exit_codes(here: InProcess) -> None:
    printed = here.run("--help").out
    for command in {command[0] for command in COMMANDS}:
        assert command in printed
    for code in ("2 usage", "3 input files", "4 a month refused", "5 database", "6 local disk", "7 try again"):
        assert code in " ".join(printed.split())
    assert here.run("db", "--help").out.count("era5 db stop") > 0


@pytest.mark.parametrize("arguments", [["launch"], ["--bogus"], ["load", "--bogus"], ["load", "surplus"]])
def test_unknown_command_or_option_is_named(here: InProcess, arguments: list[str]) -> None:
    printed = here.run(*arguments, code=2)
    assert arguments[-1] in printed.err
    assert printed.out == ""


def test_invalid_setting_is_named(here: InProcess) -> None:
    here.set(ERA5_LOCK_TIMEOUT_SECONDS="soon")
    assert_explained(here.run("status", code=2), "ERA5_LOCK_TIMEOUT_SECONDS", ".env")
    here.set(ERA5_LOCK_TIMEOUT_SECONDS="1", ERA5_DATABASE_URL="mysql://me:correct-horse@host/db")
    printed = here.run("status", code=2)
    assert_explained(
        printed, "ERA5_DATABASE_URL is not a PostgreSQL URL", "postgresql://user:password@host:5432/database"
    )
    assert "correct-horse" not in printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        *(("status",), ("doctor",), ("watch", "--seconds", "1"), ("serve", "--port", "0")),
        ("load", "--from", "2020-02", "--source", "sample", "--area", "1/1/0/2"),
    ],
    ids=" ".join,
)
def test_a_server_that_cannot_be_reached_is_named_without_its_password(
    here: InProcess, arguments: tuple[str, ...]
) -> None:
    here.set(ERA5_DATABASE_URL="postgresql://me:correct-horse@127.0.0.1:9/nowhere")
    printed = here.run(*arguments, code=5)
    assert_explained(printed, "me@127.0.0.1:9/nowhere", "Check that the server is running")
    assert "correct-horse" not in printed.err


def test_invalid_home_is_named(here: InProcess) -> None:
    """An unexpected OSError for a path that the user gave."""
    name = "long" * 100
    here.set(ERA5_HOME=str(here.home / name))
    assert_explained(here.run("status", code=6), name)


def test_closed_pipe_prints_no_error(tmp_path: Path) -> None:
    """Like `era5 ... | head`."""
    with subprocess.Popen(
        f"exec {ERA5} load --help",
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        text=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode in (1, 141)


SLEEP = "for _ in range(600): time.sleep(0.1)"
# As compiled code does that calls Python: matplotlib's transformations raise a TypeError without a cause.
SWALLOWING = """
        def sleep():
            try:
                for _ in range(600): time.sleep(0.1)
            except KeyboardInterrupt: return
        if sleep() is None: raise TypeError('incompatible function arguments')
"""


@pytest.mark.parametrize("body", [SLEEP, SWALLOWING], ids=["interrupt", "another error"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_run_cleanup(number: signal.Signals, body: str, tmp_path: Path) -> None:
    """`finally` blocks run after each of these signals."""
    program = (
        "import sys, time, signal, typer\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from era5_pipeline.cli import app, main\n"
        "@app.command()\n"
        "def wait() -> None:\n"
        # Many short sleeps: a signal that arrives just before a sleep begins does not cut it short.
        f"    try:\n        print('waits', flush=True)\n        {body}\n"
        "    finally:\n        print('cleaned up')\n"
        "sys.argv = ['era5', 'wait']\nmain()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "waits\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (130, "cleaned up\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", READ_ONLY, ids=" ".join)
@pytest.mark.parametrize("folder", [".", "new/home"])
def test_a_command_that_only_reads_creates_nothing(here: InProcess, arguments: tuple[str, ...], folder: str) -> None:
    here.set(ERA5_HOME=str(here.home / folder))
    printed = here.run(*arguments, code=5)
    assert_explained(printed, f"there is no database in {here.home / folder} (ERA5_HOME)", "set ERA5_HOME")
    assert "ERA5_DATABASE_URL" in printed.err
    assert printed.out == ""
    assert list(here.home.iterdir()) == []


@pytest.mark.parametrize("arguments", READ_ONLY, ids=" ".join)
def test_a_command_that_only_reads_creates_no_database(
    here: InProcess, arguments: tuple[str, ...], server_url: str
) -> None:
    here.set(ERA5_DATABASE_URL=with_database(server_url, "nowhere"))
    printed = here.run(*arguments, code=5)
    assert_explained(printed, "there is no database 'nowhere' on the server: postgresql://", "set ERA5_HOME")
    with psycopg.connect(server_url) as connection:
        assert connection.execute("SELECT FROM pg_database WHERE datname = 'nowhere'").fetchone() is None
    assert list(here.home.iterdir()) == []


@pytest.fixture
def open_home(here: InProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with access for all users; pytest's own is private to the user who runs it."""
    folder = Path(tempfile.mkdtemp(prefix="era5-open-", dir="/tmp"))
    folder.chmod(0o777)
    here.set(ERA5_HOME=str(folder))
    monkeypatch.chdir(folder)
    yield folder
    shutil.rmtree(folder)


SAMPLE = ("load", "--from", "2020-01", "--source", "sample", "--area", "1/1/0/2")
# One command for each way to a home: reading, which is one way for all of `READ_ONLY`, planning, loading, the server's.
EACH_WAY = (("status",), ("plan", "--from", "2024-01"), SAMPLE, ("db", "url"))


@pytest.mark.parametrize("arguments", EACH_WAY, ids=" ".join)
def test_a_home_without_permission_is_not_called_a_full_disk(
    here: InProcess, open_home: Path, arguments: tuple[str, ...]
) -> None:
    for home in (open_home / "closed", open_home / "closed" / "below"):
        (open_home / "closed").mkdir(mode=0o700, exist_ok=True)
        here.set(ERA5_HOME=str(home))
        with as_nobody():
            printed = here.run(*arguments, code=6)
        assert_explained(printed, "Permission denied", "Permission is missing: ")
        assert str(open_home / "closed") in printed.err
        assert "ree space" not in printed.err


@pytest.mark.parametrize("arguments", [("status",), SAMPLE, ("db", "url")], ids=" ".join)
def test_a_data_folder_without_permission_is_not_called_a_full_disk(
    here: InProcess, open_home: Path, arguments: tuple[str, ...]
) -> None:
    (open_home / "postgres").mkdir(mode=0o700)
    with as_nobody():
        printed = here.run(*arguments, code=6)
    assert_explained(printed, f"Permission denied ({open_home}/postgres", "Permission is missing: ")
    assert "ree space" not in printed.err


@pytest.mark.parametrize("arguments", EACH_WAY, ids=" ".join)
def test_a_home_that_is_a_file_is_named(here: InProcess, arguments: tuple[str, ...]) -> None:
    (here.home / "file").write_text("mine")
    for home in (here.home / "file", here.home / "file" / "below"):
        here.set(ERA5_HOME=str(home))
        assert_explained(here.run(*arguments, code=2), f"ERA5_HOME: {home} is not a folder", "Set ERA5_HOME")


def test_a_home_on_a_read_only_disk_is_not_called_a_full_disk(tmp_path: Path) -> None:
    # In a separate mount namespace, which ends with the process.
    script = 'mount -t tmpfs -o ro tmpfs "$1" && shift && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), ERA5, "db", "url"]
    done = subprocess.run(
        command, env=environment(tmp_path / "home"), cwd="/", capture_output=True, text=True, check=False
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip("needs the right to mount a disk")
    assert done.returncode == 6
    assert "Read-only file system" in done.stderr
    assert "mount it writable" in done.stderr
