"""The command as a whole: fast help, version, exit codes, and unexpected errors."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from era5_pipeline import __version__
from era5_pipeline_tests.commands import ERA5, InProcess, assert_explained, environment

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = (
    *(("load",), ("status",), ("series",), ("map",), ("up",), ("demo",), ("doctor",), ("watch",)),
    *(("plan",), ("revise",), ("drop",)),
    *(("db", "url"), ("db", "start"), ("db", "stop"), ("db", "init"), ("bench", "run")),
)
HEAVY = ("dagster", "xarray", "matplotlib", "dask", "pandas", "numpy", "pyarrow", "netCDF4", "psycopg")


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcess:
    return InProcess(capsys, monkeypatch, tmp_path)


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
        timeout=60,
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


def test_invalid_home_is_named(here: InProcess) -> None:
    (here.home / "file").touch()
    here.set(ERA5_HOME=str(here.home / "file"))
    assert_explained(here.run("status", code=2), f"{here.home / 'file'} is not a folder")
    # An unexpected OSError for a path that the user gave.
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_run_cleanup(number: signal.Signals, tmp_path: Path) -> None:
    """`finally` blocks run after each of these signals."""
    program = (
        "import sys, time, signal, typer\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from era5_pipeline.cli import app, main\n"
        "@app.command()\n"
        "def wait() -> None:\n"
        "    try:\n        print('waits', flush=True)\n        time.sleep(60)\n"
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
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "cleaned up\n")
    assert "Traceback" not in err
