"""Tests of `runtime/supervisor`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil as _psutil
import pytest

from era5_pipeline.model.errors import Era5Error, LocalDiskError
from era5_pipeline.runtime import supervisor as supervisor_module
from era5_pipeline.runtime.supervisor import LogFile, ManagedProcess, supervise
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def test_last_lines_are_of_this_run_only(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs/service.log")
    assert "cannot be read" in log.last_lines()
    with log.opened() as file:
        file.write(b"the run before\n")
    with log.opened() as file:
        assert log.last_lines() == "  (it wrote nothing)"
        file.write(b"".join(b"line %d\n\n" % number for number in range(1000)))
        file.write(b"caf\xe9")
    lines = log.last_lines().splitlines()
    assert lines[-2:] == ["  line 999", "  caf\N{REPLACEMENT CHARACTER}"]
    assert 10 <= len(lines) <= 20
    assert log.path.read_bytes().startswith(b"the run before\n")


def test_a_large_log_is_rotated(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "service.log")
    for number in range(4):
        with log.opened() as file:
            file.write(b"%d" % number * (11 << 20))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["service.log", "service.log.1"]
    assert log.path.read_bytes()[:1] == b"3"


psutil: Any = _psutil  # psutil has no type annotations

# Each program appends its start and end to the file named by EVENTS, as `<event> <name> <process id>`.
NOTE = """
import os, signal, subprocess, sys, time
def note(what):
    with open(os.environ["EVENTS"], "a") as file:
        file.write(f"{what} {sys.argv[1]} {os.getpid()}\\n")
"""
GOOD = f"""{NOTE}
note("starts")
print("hello from", sys.argv[1], flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    note("ends")
"""
DEAF = f"""{NOTE}
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: note(signal.Signals(number).name))
note("starts")
while True:
    time.sleep(60)
"""
ONLY_TERM = f"""{NOTE}
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, lambda *_: (note("ends"), sys.exit()))
note("starts")
while True:
    time.sleep(60)
"""
PARENT = f"""{NOTE}
ignores = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(1, flush=True); "
ignores += "time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", ignores], stdout=subprocess.PIPE)
child.stdout.readline()
with open(os.environ["EVENTS"], "a") as file:
    file.write(f"starts child {{child.pid}}\\n")
note("starts")
time.sleep(60)
"""
DIES = f"""{NOTE}
note("starts")
print("the port is taken", flush=True)
sys.exit(3)
"""
DIES_LATER = f"""{NOTE}
note("starts")
print("bye", flush=True)
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""

# A supervisor in its own process; its arguments are the folder and the scripts to supervise.
SUPERVISOR = """
import sys
from pathlib import Path
from era5_pipeline_tests.runtime.test_supervisor import Playground
playground = Playground(Path(sys.argv[1]))
playground.run(*sys.argv[2:], on_ready=lambda: print("ready", flush=True))
sys.exit(playground.code)
"""


class Playground:
    """A folder of events and logs, and processes that write to them."""

    def __init__(self, folder: Path) -> None:
        self.events_file = folder / "events"
        self.logs = folder / "logs"
        self.code: int | None = None
        self.restarted: list[str] = []

    def run(
        self,
        *scripts: str,
        on_ready: Callable[[], None] = lambda: None,
        tend: Callable[[], None] = lambda: None,
        ready_seconds: float = 240.0,
        restarts: int = 0,
    ) -> int:
        """Supervise processes named a, b, ..., each ready when it has recorded its start."""
        services = [
            ManagedProcess(
                name=name,
                argv=(sys.executable, "-c", script, name),
                ready=lambda name=name: name in self.names("starts"),  # type: ignore[misc]
                ready_seconds=ready_seconds,
                restarts=restarts,
            )
            for name, script in zip("abcdef", scripts, strict=False)
        ]
        env = os.environ | {"EVENTS": str(self.events_file)}
        self.code = supervise(
            services, env=env, log_folder=self.logs, on_ready=on_ready, on_restart=self.restarted.append, tend=tend
        )
        return self.code

    def events(self) -> list[tuple[str, str, int]]:
        text = self.events_file.read_text() if self.events_file.exists() else ""
        split = [line.split() for line in text.splitlines()]
        return [(what, name, int(pid)) for what, name, pid in split]

    def names(self, wanted: str) -> list[str]:
        return [name for what, name, _ in self.events() if what == wanted]

    def left_behind(self) -> list[int]:
        return [pid for pid in {pid for _, _, pid in self.events()} if runs(pid)]


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def ctrl_c(times: int = 1) -> None:
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # two equal signals at once would be merged into one


@contextmanager
def started_supervisor(folder: Path, *scripts: str) -> Iterator[subprocess.Popen[str]]:
    """A supervisor whose processes are ready."""
    command = [sys.executable, "-c", SUPERVISOR, str(folder), *scripts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as supervisor:
        assert supervisor.stdout
        assert supervisor.stdout.readline() == "ready\n"
        yield supervisor


@pytest.fixture
def playground(tmp_path: Path) -> Iterator[Playground]:
    playground = Playground(tmp_path)
    yield playground
    left_behind = playground.left_behind()
    for pid in left_behind:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left_behind == []


def test_started_in_order_and_stopped_in_reverse(playground: Playground) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert playground.run(GOOD, GOOD, GOOD, on_ready=ctrl_c) == 0
    assert playground.names("starts") == ["a", "b", "c"]
    assert playground.names("ends") == ["c", "b", "a"]
    assert (playground.logs / "b.log").read_text() == "hello from b\n"
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert after == before


def test_a_process_that_is_not_ready_in_time_is_an_error(playground: Playground) -> None:
    silent = "import time; print('waiting for Godot', flush=True); time.sleep(60)"
    with pytest.raises(Era5Error, match=r"b: is not ready after 4 s") as failed:
        playground.run(GOOD, silent, on_ready=pytest.fail, ready_seconds=4)
    assert "waiting for Godot" in failed.value.message
    assert str(playground.logs / "b.log") in failed.value.remedy
    assert playground.names("ends") == ["a"]


def test_a_process_that_exits_before_it_is_ready_is_an_error(playground: Playground) -> None:
    dies = DIES.replace('note("starts")', "")
    with pytest.raises(Era5Error, match="b: ended by itself with exit code 3") as failed:
        playground.run(GOOD, dies, GOOD, on_ready=pytest.fail)
    assert "the port is taken" in failed.value.message
    assert failed.value.exit_code != 0
    assert playground.names("starts") == ["a"]
    assert playground.names("ends") == ["a"]


def test_a_process_that_exits_later_is_an_error(playground: Playground) -> None:
    # Not after a time: on a busy machine the others may take longer to start.
    told = playground.events_file.with_suffix(".told")
    dies_when_told = DIES_LATER.replace("time.sleep(0.3)", f"while not os.path.exists({str(told)!r}): time.sleep(0.02)")
    with pytest.raises(Era5Error, match="b: ended by itself by signal 9") as failed:
        playground.run(GOOD, dies_when_told, GOOD, on_ready=told.touch)
    assert told.exists()
    assert "bye" in failed.value.message
    assert sorted(playground.names("ends")) == ["a", "c"]


def test_a_process_that_was_killed_is_started_again(playground: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "_RESTART_SECONDS", 0.1)

    def kill_twice() -> None:
        (_, _, first), _ = playground.events()
        os.kill(first, signal.SIGKILL)
        threading.Thread(target=kill_again).start()

    def kill_again() -> None:
        wait_until(lambda: playground.names("starts").count("a") == 2, 60)
        os.kill(playground.events()[-1][2], signal.SIGKILL)
        wait_until(lambda: playground.names("starts").count("a") == 3, 60)
        ctrl_c()

    assert playground.run(GOOD, GOOD, on_ready=kill_twice, restarts=2) == 0
    assert playground.restarted == ["a ended by itself by signal 9: starting it again"] * 2
    # The other one went on.
    assert playground.names("starts").count("b") == 1


def test_a_process_that_ends_again_and_again_is_an_error(
    playground: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_RESTART_SECONDS", 0.1)
    with pytest.raises(Era5Error, match="b: ended by itself by signal 9") as failed:
        playground.run(GOOD, DIES_LATER, restarts=1)
    assert "bye" in failed.value.message
    assert playground.names("starts").count("b") == 2
    assert playground.names("ends") == ["a"]


def test_a_process_that_crashes_while_starting_is_started_once_more(
    playground: Playground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_libc", None)  # as where the system does not tell of a parent's death
    crashed = playground.events_file.with_suffix(".crashed")
    crashes = f"import os\nif not os.path.exists({str(crashed)!r}):\n    os.mknod({str(crashed)!r})\n    os.abort()\n"
    assert playground.run(crashes + GOOD, on_ready=ctrl_c) == 0
    assert crashed.exists()
    assert playground.names("ends") == ["a"]


@pytest.mark.parametrize("where", ["on_ready", "tend"])
@pytest.mark.parametrize("error", [KeyError("anything"), Era5Error("the database is gone", remedy="Look for it.")])
def test_a_failure_of_the_callers_code_leaves_nothing_behind(
    playground: Playground, where: str, error: Exception
) -> None:
    def breaks() -> None:
        raise error

    with pytest.raises(type(error)):
        playground.run(GOOD, GOOD, **{where: breaks})  # type: ignore[arg-type]
    assert playground.names("ends") == ["b", "a"]


def test_the_first_process_exits_while_the_second_starts(playground: Playground) -> None:
    with pytest.raises(Era5Error, match="a: ended by itself by signal 9"):
        playground.run(DIES_LATER, "import time; time.sleep(60)", on_ready=pytest.fail)


def test_a_missing_command_is_an_error(playground: Playground, tmp_path: Path) -> None:
    env = os.environ | {"EVENTS": str(playground.events_file)}
    services = [
        ManagedProcess("good", (sys.executable, "-c", GOOD, "a"), lambda: bool(playground.events())),
        ManagedProcess("missing", (str(tmp_path / "no-such-command"),)),
    ]
    with pytest.raises(Era5Error, match="missing: cannot be started") as failed:
        supervise(services, env=env, log_folder=tmp_path, on_ready=pytest.fail)
    assert "no-such-command" in failed.value.message
    assert playground.names("ends") == ["a"]


def test_a_stop_requested_before_all_are_ready(playground: Playground) -> None:
    asks = f"import os, signal; os.kill({os.getpid()}, signal.SIGTERM)\n{GOOD.replace('starts', 'begins')}"
    assert playground.run(GOOD, asks, GOOD, on_ready=pytest.fail) == 128 + signal.SIGTERM
    assert playground.names("starts") == ["a"]


def test_a_second_ctrl_c_shortens_the_waits(playground: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = tuple((number, 120.0) for number, _ in supervisor_module._STOP_SIGNALS)
    monkeypatch.setattr(supervisor_module, "_STOP_SIGNALS", waits)
    begin = time.monotonic()
    assert playground.run(DEAF, ONLY_TERM, on_ready=lambda: ctrl_c(2)) == 0
    assert time.monotonic() - begin < 120
    # Every stop signal is still sent.
    assert playground.names("ends") == ["b"]
    assert playground.names("SIGINT") == ["a"]
    assert playground.names("SIGTERM") == ["a"]


def test_children_of_a_process_are_stopped_too(playground: Playground) -> None:
    assert playground.run(PARENT, on_ready=lambda: ctrl_c(2)) == 0
    assert sorted(playground.names("starts")) == ["a", "child"]
    assert playground.left_behind() == []


def test_ctrl_c_in_a_terminal_reaches_the_processes_once(playground: Playground, tmp_path: Path) -> None:
    # A second SIGINT within this half second would end it before it records its end.
    slow = GOOD.replace('note("ends")', 'time.sleep(0.5); note("ends")')
    with started_supervisor(tmp_path, slow, slow) as supervisor:
        os.killpg(supervisor.pid, signal.SIGINT)  # a terminal signals the whole foreground process group
        assert supervisor.wait(240) == 0
    assert playground.names("ends") == ["b", "a"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_stop_the_processes(playground: Playground, tmp_path: Path, number: signal.Signals) -> None:
    with started_supervisor(tmp_path, GOOD) as supervisor:
        supervisor.send_signal(number)
        assert supervisor.wait(240) == 0
    assert playground.names("ends") == ["a"]


def test_processes_react_to_ctrl_c_even_when_started_from_a_shells_background_job(
    playground: Playground, tmp_path: Path
) -> None:
    """A script's `era5 up &` runs with SIGINT ignored; Dagster's processes would inherit that and never end."""
    command = '"$@" & wait $!'
    with subprocess.Popen(
        ["sh", "-c", command, "sh", sys.executable, "-c", SUPERVISOR, str(tmp_path), GOOD],
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        assert shell.stdout
        assert shell.stdout.readline() == "ready\n"
        [supervisor] = psutil.Process(shell.pid).children()
        supervisor.send_signal(signal.SIGINT)
        assert shell.wait(240) == 0
    assert playground.names("ends") == ["a"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's death")
def test_processes_do_not_outlive_a_killed_supervisor(playground: Playground, tmp_path: Path) -> None:
    with started_supervisor(tmp_path, GOOD, GOOD) as supervisor:
        assert len(playground.left_behind()) == 2
        supervisor.kill()
    wait_until(lambda: not playground.left_behind())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_log_folder_is_a_disk_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    services = [ManagedProcess("sleeper", ("sleep", "60"))]
    with pytest.raises(LocalDiskError):
        supervise(services, env=os.environ, log_folder=tmp_path / "logs", on_ready=pytest.fail)
