"""The command `era5`: in processes of its own, in homes of their own; or in this process, where that is as good."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil as _psutil
import psycopg
import pytest

from era5_pipeline.cli import main
from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

psutil: Any = _psutil  # it comes without types

BIN = Path(sys.executable).parent
ERA5 = str(BIN / "era5")
ROOT = Path(__file__).parents[1]
_SECONDS = 120.0


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def environment(home: Path, **more: str) -> dict[str, str]:
    """This process' environment with the settings of a person who has set nothing but the home, and `more`."""
    ours = ("ERA5_", "DAGSTER_", "PG", "COLUMNS", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"ERA5_HOME": str(home)} | more


@dataclass(frozen=True)
class Home:
    """A folder for ERA5_HOME, with the commands that are run in it."""

    path: Path

    @property
    def server(self) -> EmbeddedServer:
        return EmbeddedServer(self.path)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """The command `era5`, running."""
        return subprocess.Popen(
            [ERA5, *arguments],
            env=environment(self.path, **env),
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # What runs the tests may ignore it, and a program inherits that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    def run(self, *arguments: str, code: int = 0, **env: str) -> Said:
        """The command `era5`, which ends with this exit code."""
        said = ended(self.start(*arguments, **env))
        assert said.code == code, said
        assert "Traceback" not in said.err
        return said

    def ask(self, database: str, query: str) -> Any:
        """The first value of the first row; the server runs."""
        with psycopg.connect(self.server.url(database), autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
            return row[0] if row else None

    def months(self) -> dict[str, dict[str, Any]]:
        """What `era5 status --json` says, by month."""
        return {entry["month"]: entry for entry in self.run("status", "--json").json()}

    def processes(self) -> list[str]:
        """Command lines of the processes that mention the home or work in it."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd", "status"]):
            words = " ".join(process.info["cmdline"] or ())
            at_home = str(self.path) in words or str(process.info["cwd"]).startswith(str(self.path))
            if at_home and process.pid != os.getpid() and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid}: {words}")
        return found


def ended(process: subprocess.Popen[str], seconds: float = _SECONDS) -> Said:
    """What the process said until it ended."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Said(process.returncode, out, err)


def in_terminal(columns: int, *arguments: str, cwd: Path, **env: str) -> str:
    """What the command `era5` shows in a terminal of so many columns, without colours."""
    command = f"stty cols {columns}; {shlex.join([ERA5, *arguments])}"
    try:
        done = subprocess.run(
            ["script", "--quiet", "--return", "--command", command, "/dev/null"],
            env=environment(cwd, TERM="xterm", **env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except FileNotFoundError:
        pytest.skip("needs script, of util-linux")
    return re.sub(r"\x1b\[[\d;]*m", "", done.stdout)


@contextmanager
def new_home() -> Iterator[Home]:
    """A home with a path short enough for a socket; nothing of it is left."""
    home = Home(Path(tempfile.mkdtemp(prefix="e5-", dir="/tmp")))
    try:
        yield home
    finally:
        home.server.stop(force=True)
        shutil.rmtree(home.path)


class Here:
    """The command `era5` in this process, as for a person who has set nothing but the home."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.home = home
        for name in [name for name in os.environ if name.startswith(("ERA5_", "DAGSTER_"))]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(home)
        self.set(ERA5_HOME=str(home), COLUMNS="200")

    def set(self, **env: str) -> None:
        for name, value in env.items():
            self._monkeypatch.setenv(name, value)

    def run(self, *arguments: str, code: int = 0) -> Said:
        self._monkeypatch.setattr(sys, "argv", ["era5", *arguments])
        self._capsys.readouterr()
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        loggers = [logging.getLogger(name) for name in ("", "era5_pipeline")]
        levels = [logger.level for logger in loggers]
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
        said = Said(int(end.value.code or 0), *self._capsys.readouterr())
        assert said.code == code, said
        assert "Traceback" not in said.err
        return said


def assert_explained(said: Said, what: str, remedy: str = "") -> None:
    """Two lines: what failed, and below it what to do."""
    lines = said.err.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("era5: "))
    assert what in lines[first], said.err
    assert lines[first + 1].startswith("      "), said.err
    assert remedy in lines[first + 1], said.err
