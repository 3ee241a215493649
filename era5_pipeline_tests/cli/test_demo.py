"""`era5 demo`, installed from the wheel: it loads and shows real data, separate from the user's."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from era5_pipeline_tests.commands import ROOT, CommandResult, Home, ended, environment, new_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MONTHS = [
    *("2018-10", "2019-01"),
    *(f"{year}-{number:02d}" for year in range(2020, 2026) for number in range(1, 13 if year < 2025 else 6)),
]
# The months of 2023 are loaded twice: an area, and a place beside it.
LOADS = len(MONTHS) + 12


@pytest.fixture
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


def test_demo_shows_real_months_and_ignores_user_settings(home: Home, installed: Path) -> None:
    # User settings under which the demo would fail, or load into another database.
    (home.path / ".env").write_text("ERA5_VARIABLES=t2m,sf\nERA5_DATABASE_URL=postgresql://me@127.0.0.1:9/mine\n")
    printed = _demo(home, installed, ERA5_AREA="-5/106/-8/108", ERA5_SOURCE="sample")
    assert "Contains modified Copernicus Climate Change Service information" in printed.out
    assert "generated" not in printed.out + printed.err
    assert "\x1b" not in printed.out + printed.err
    commands = [line for line in printed.out.splitlines() if line.startswith("$ era5")]
    assert [line.split()[2] for line in commands] == [
        *("load", "status", "series", "series", "map"),
        *("load", "climate", "report"),
    ]
    # Heavy rain before the flood of 15 October 2018 in western Norway.
    assert "\n2018-10-14 15:00          10.38               1.722\n" in printed.out
    assert "1,038,240 locations, -43.44 to 42.15 degC" in printed.out
    for name in ("demo-series.png", "demo-map.png"):
        with Image.open(home.path / "pictures" / name) as picture:
            picture.load()
            assert picture.format == "PNG"
            assert picture.convert("L").getextrema() != (255, 255)
    page = (home.path / "pictures" / "demo-climate.html").read_text("utf-8")
    assert "<h1>Is it getting warmer near Ho Chi Minh City?</h1>" in page
    assert "Five complete years are not a climate" in page
    assert page.count("<svg ") > 8
    assert "whether it is getting warmer cannot be told from 5 complete years (2020-2024)" in printed.out
    assert "unset ERA5_DATABASE_URL" in printed.out
    assert not (home.path / "postgres").exists()

    (home.path / ".env").unlink()
    own = Home(home.path / "demo")
    assert not own.server.is_running()
    ledger = own.months()
    assert list(ledger) == MONTHS
    assert {entry["source"] for entry in ledger.values()} == {"files"}
    assert [month for month, entry in ledger.items() if entry["state"] != "loaded"] == ["2019-01"]
    assert ledger["2019-01"]["hours"] == 1

    _commands_printed_at_the_end_work(home, printed.out)
    again = _demo(home, installed)
    assert again.out.count("  unchanged\n") == LOADS
    (delete,) = re.findall(r"To delete the data of the demo: (.*)$", again.out, re.MULTILINE)
    _in_shell(home, delete)
    assert not own.path.exists()


def _demo(home: Home, installed: Path, **env: str) -> CommandResult:
    """Run the demo: 79 months, each a run of its own."""
    printed = ended(home.start_program(str(installed / "era5"), "demo", "--out", "pictures", **env), seconds=900)
    assert printed.code == 0, printed
    assert "Traceback" not in printed.err
    return printed


def _commands_printed_at_the_end_work(home: Home, out: str) -> None:
    """Run each of them as printed, in one shell, in the folder in which the demo was called."""
    _, _, after = out.partition("What next? ")
    commands = re.findall(r"^  (.+)$", after, re.MULTILINE)
    words = [command.split()[0] for command in commands]
    assert words[0] == "export"
    assert len(commands) == 5
    *quick, up = commands
    shell = _in_shell(home, *quick)
    assert "total_precipitation at 2018-10-14 15:00 UTC, 70 locations" in shell.stdout
    assert "744 hours" in shell.stderr
    # psql's answer: twelve months.
    assert "(12 rows)" in shell.stdout
    # As the line below them says: another place has one hour, which is not in the time of this query.
    assert after.count("Elsewhere the table has only one hour, 2019-01-01T12:00 UTC") == 1
    (query,) = (command for command in quick if "psql" in command)
    elsewhere = query.replace("era5.at(25.25, 51.5)", "era5.at(-6.25, 106.75)")
    assert "(0 rows)" in _in_shell(home, quick[0], elsewhere).stdout
    assert "(1 row)" in _in_shell(home, quick[0], elsewhere.replace(" AND time >= '2023-01-01Z'", "")).stdout
    with Image.open(home.path / "pictures" / "demo-rain.png") as picture:
        assert picture.format == "PNG"
    assert (home.path / "pictures" / "demo-july.pdf").read_bytes().startswith(b"%PDF")

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Port 3000 may be in use on this machine.
    with subprocess.Popen(
        ["bash", "-ec", f"{commands[0]}\nexec {up} --port {port}"],
        cwd=home.path,
        env=environment(home.path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stdout is not None
        lines = iter(running.stdout)
        assert any(line.startswith("web UI") for line in lines)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=600) as answer:
            assert answer.status == 200
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=600) == 0

    # The folder is the user's.
    own = re.findall(r"(unset ERA5_HOME; .*) FOLDER$", after, re.MULTILINE)
    folder = ROOT / "data" / "era5" / "norway-2018-10-packed"
    loaded = _in_shell(home, f"{own[0]} {folder}")
    assert "2018-10  loaded" in loaded.stdout


def _in_shell(home: Home, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines in a shell, in the folder in which the demo was called; all must succeed."""
    done = subprocess.run(
        ["bash", "-ec", "\n".join(lines)],
        cwd=home.path,
        env=environment(home.path),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done
    return done
