"""Run the command `era5` in a subprocess with its own home, or in this process."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil as _psutil
import psycopg
import pytest

from era5_pipeline.cli import main
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline_tests.servers import SERVER_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

psutil: Any = _psutil  # it comes without types

BIN = Path(sys.executable).parent
ERA5 = str(BIN / "era5")
ROOT = Path(__file__).parents[1]
_SECONDS = 900.0
# For a command in a terminal, which prints something at once.
TERMINAL_SECONDS = 300.0


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def environment(home: Path, **more: str) -> dict[str, str]:
    """This process' environment with no settings other than the home, `more`, and ERA5_BATCHES (see `servers`)."""
    ours = ("ERA5_", "DAGSTER_", "PG", "COLUMNS", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours) or name == "ERA5_BATCHES"}
    return kept | {"ERA5_HOME": str(home)} | more


@dataclass(frozen=True)
class Home:
    """A folder for ERA5_HOME, and commands that run in it."""

    path: Path

    @property
    def server(self) -> EmbeddedServer:
        return EmbeddedServer(self.path)

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start the command `era5`."""
        return self.start_program(ERA5, *arguments, **env)

    def start_program(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start another program as if it were the command `era5`."""
        return subprocess.Popen(
            words,
            env=environment(self.path, **env),
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0, **env: str) -> CommandResult:
        """Run the command `era5`, and require this exit code."""
        printed = ended(self.start(*arguments, **env))
        assert printed.code == code, printed
        assert "Traceback" not in printed.err, printed.err
        return printed

    def ask(self, database: str, query: str) -> Any:
        """The first value of the first row; the embedded server must be running."""
        with psycopg.connect(self.server.url(database), autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
            return row[0] if row else None

    def months(self) -> dict[str, dict[str, Any]]:
        """The entries of `era5 status --json`, by month."""
        return {entry["month"]: entry for entry in self.run("status", "--json").json()}

    def processes(self) -> list[str]:
        """Command lines of processes that mention the home, or have it as working folder."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd", "status"]):
            words = " ".join(process.info["cmdline"] or ())
            at_home = str(self.path) in words or str(process.info["cwd"]).startswith(str(self.path))
            if at_home and process.pid != os.getpid() and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid}: {words}")
        return found


def ended(process: subprocess.Popen[str], seconds: float = _SECONDS) -> CommandResult:
    """Wait for the process to end; return its result."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()  # else its pipes are left to another test
        raise
    return CommandResult(process.returncode, out, err)


@contextmanager
def new_home() -> Iterator[Home]:
    """A temporary home with a path short enough for a socket; removed afterwards, with its server."""
    home = Home(Path(tempfile.mkdtemp(prefix="e5-", dir=SERVER_FILES)))
    try:
        yield home
    finally:
        home.server.stop(force=True)
        shutil.rmtree(home.path)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run without root's permission to read and write everything."""
    if os.geteuid() != 0:
        yield
        return
    # Commands import these when they run; the interpreter may be in a folder that only root can read.
    for name in (
        "sqlite3",
        "era5_pipeline.defs.runner",
        "era5_pipeline.defs.instance.open_instance",
        "era5_pipeline.stages",
    ):
        import_module(name)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


class InProcess:
    """The command `era5` in this process, with no settings other than the home."""

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

    def run(self, *arguments: str, code: int = 0) -> CommandResult:
        self._monkeypatch.setattr(sys, "argv", ["era5", *arguments])
        self._capsys.readouterr()
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        loggers = [logging.getLogger(name) for name in ("", "era5_pipeline", "psycopg")]
        levels = [logger.level for logger in loggers]
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
        printed = CommandResult(int(end.value.code or 0), *self._capsys.readouterr())
        assert printed.code == code, printed
        assert "Traceback" not in printed.err, printed.err
        return printed

    def months(self) -> dict[str, dict[str, Any]]:
        """The entries of `era5 status --json`, by month."""
        return {entry["month"]: entry for entry in self.run("status", "--json").json()}


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A home for the tests of a module."""
    with new_home() as home:
        yield home


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> InProcess:
    """The command in a folder of its own, without a database until a test sets one."""
    return InProcess(capsys, monkeypatch, tmp_path)


def assert_explained(printed: CommandResult, what: str, remedy: str = "") -> None:
    """Require an error message that contains `what`, with `remedy` in the line below."""
    lines = printed.err.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("era5: "))
    assert what in lines[first], printed.err
    assert lines[first + 1].startswith("      "), printed.err
    assert remedy in lines[first + 1], printed.err


def assert_says(text: str | None, *facts: str) -> None:
    """Require a message that contains these facts, whatever its other words."""
    assert [fact for fact in facts if fact not in (text or "")] == [], text


class Terminal:
    """A terminal of 100 columns, and the text written to it so far."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.written = ""

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + TERMINAL_SECONDS
        while words not in self.written:
            assert time.monotonic() < deadline, self.written
            if not self._read():
                assert words in self.written, self.written

    def read_all(self) -> None:
        while self._read():
            pass

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], TERMINAL_SECONDS)[0]:
            return False
        with suppress(OSError):  # the other side is closed
            read = os.read(self._master, 65_536)
            self.written += read.decode("utf-8", "replace")
            return bool(read)
        return False


@contextmanager
def in_a_terminal(home: Path, *arguments: str, **env: str) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    """Run `era5` in a terminal."""
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = subprocess.Popen(
            [ERA5, *arguments],
            env=environment(home, TERM="xterm-256color", **env),
            cwd=home,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # Ctrl-C reaches it
        )
        os.close(slave)
        try:
            yield process, Terminal(master)
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(master)
