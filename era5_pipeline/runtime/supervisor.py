"""Supervise child processes: start them in order, restart those killed, keep their logs, stop them together."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import psutil as _psutil

from era5_pipeline.model.errors import Era5Error, disk_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType
    from typing import BinaryIO

_LOG_LINES = 15
_LOG_TAIL_BYTES = 1 << 14
_LOG_ROTATE_BYTES = 10 << 20


class LogFile:
    """A log file that child processes append to; rotated to `<name>.1` when it exceeds 10 MB."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = 0

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the file for a child process; `last_lines` covers what is written from now on."""
        with disk_errors(f"writing {self.path.name}", self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Rotate between runs only: a running child keeps writing to the renamed file.
            if self.path.exists() and self.path.stat().st_size > _LOG_ROTATE_BYTES:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            file = self.path.open("ab")
        with file:
            self._start = file.tell()
            yield file

    def last_lines(self) -> str:
        """The last lines written since it was last opened, each indented; a note if nothing was written."""
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self._start, end - _LOG_TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError as error:
            return f"  (its log cannot be read: {error.strerror})"
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:]) or "  (it wrote nothing)"


psutil: Any = _psutil  # psutil has no type annotations

# Long enough to use no noticeable CPU time, short enough that Ctrl-C feels immediate.
_POLL_SECONDS = 0.1

# SIGINT is what a process expects from a terminal, and the only signal on which some finish their work. SIGTERM is for
# those that do not end on SIGINT, SIGKILL for those that ignore both. With each, the seconds to wait for the end.
_STOP_SIGNALS = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
_HURRIED_SECONDS = 1.0
# Grace period, per signal, for orphaned members of an ended process's group.
_REST_SECONDS = 3.0

# Backoff for restarting an ended process: 1 s, 2 s, 4 s ...; restarts in the last ten minutes count.
_RESTART_SECONDS, _LONGEST_RESTART_SECONDS = 1.0, 30.0
_COUNTED_SECONDS = 600.0
# Interval between calls of `tend`.
_TEND_SECONDS = 1.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


_BY_SIGNAL = "ended by itself by signal"


@dataclass(frozen=True)
class ManagedProcess:
    """A process to supervise.

    `ready` returns, within a second or so, whether the process can be used; None means as soon as it runs. `restarts`
    is how often it is restarted within ten minutes, once all were ready, if it ends by itself.
    """

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool] | None = None
    ready_seconds: float = 180.0
    restarts: int = 0


def supervise(
    processes: Sequence[ManagedProcess],
    *,
    env: Mapping[str, str],
    log_folder: Path,
    on_ready: Callable[[], None],
    on_restart: Callable[[str], None] = lambda _: None,
    tend: Callable[[], None] = lambda: None,
) -> int:
    """Start `processes` in order, each when the previous one is ready, and run them until a signal asks to stop.

    SIGINT (Ctrl-C), SIGTERM or SIGHUP stops them in reverse order; a second signal shortens the waits. No process is
    left running, whatever happens. Each one's output is appended to `<log_folder>/<name>.log`.

    `on_restart` is called with each process that ended by itself and is restarted. `tend` is called every second once
    all are ready; an exception in it stops them all.

    Must be called from the main thread: only there can Python handle signals.

    Returns:
        0 if stopped when all were ready, 128 + the signal's number if stopped before.
    """
    with _StopRequests() as requests, ExitStack() as stack:
        children: list[ChildProcess] = []
        for process in processes:
            child = ChildProcess(process, log_folder, env, requests)
            # Before the start: an exception right after it must not leave the process running.
            stack.callback(child.stop)
            children.append(child)
            child.start()
            _await_ready(child, children, requests)
            if requests.first:
                return 128 + requests.first
        on_ready()
        tended = time.monotonic()
        while not requests.first:
            for child in children:
                child.start_again_if_ended(on_restart)
            if time.monotonic() - tended > _TEND_SECONDS:
                tend()
                tended = time.monotonic()
            time.sleep(_POLL_SECONDS)
        return 0


def _await_ready(child: ChildProcess, children: Sequence[ChildProcess], requests: _StopRequests) -> None:
    """Wait until `child` is ready or a stop is requested."""
    deadline = time.monotonic() + child.managed.ready_seconds
    tries = 1
    while not requests.first:
        # gRPC sometimes aborts while starting (seen: SIGABRT, bad file descriptor): start again once after a crash.
        if tries == 1 and (child.ending() or "").startswith(_BY_SIGNAL):
            child.stop()
            child.start()
            tries += 1
        for one in children:
            if ending := one.ending():
                raise one.failure(ending)
        if child.managed.ready is None or child.managed.ready():
            return
        if time.monotonic() > deadline:
            raise child.failure(f"is not ready after {child.managed.ready_seconds:g} s")
        time.sleep(_POLL_SECONDS)


class _StopRequests:
    """Counts stop signals, so that starting a child is never interrupted halfway."""

    def __init__(self) -> None:
        self.first = 0
        self.count = 0
        self._previous: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # `nohup` ignores SIGHUP on purpose: keep that. A shell's `&` in a script ignores SIGINT as a side effect:
            # handling it here restores the default in the children (a new program inherits "ignore", not a handler).
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._previous[number] = signal.signal(number, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        for number, previous in self._previous.items():
            # None: the handler was not installed from Python, so Python cannot restore it.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)

    def _count(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or number
        self.count += 1

    @property
    def is_repeated(self) -> bool:
        """True if a second signal came: stop faster."""
        return self.count > 1


class ChildProcess:
    """A managed process and its process group: everything that it starts."""

    def __init__(
        self,
        managed: ManagedProcess,
        log_folder: Path,
        env: Mapping[str, str],
        requests: _StopRequests | None = None,
    ) -> None:
        self.managed = managed
        self.log = LogFile(log_folder / f"{managed.name}.log")
        self._env = env
        self._requests = requests or _StopRequests()
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: list[float] = []
        self._start_at = 0.0

    @property
    def exit_code(self) -> int | None:
        """The exit code, or minus the number of the signal that ended it; None until `stop` was called."""
        return None if self._process is None else self._process.returncode

    def start(self) -> None:
        """Start the process, in a session of its own."""
        with self.log.opened() as log:
            try:
                # In a new session: the terminal's Ctrl-C reaches only us, and we stop the children in order.
                self._process = subprocess.Popen(  # noqa: S603  # the command comes from the caller
                    self.managed.argv,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=terminate_with_parent(os.getpid()),  # noqa: PLW1509  # it only makes system calls
                )
            except OSError as error:
                raise Era5Error(
                    f"{self.managed.name}: cannot be started: {error.strerror} ({self.managed.argv[0]})",
                    remedy="Install the package again: one of its commands is missing.",
                ) from error

    def ending(self) -> str | None:
        """How the process ended; None if it is running."""
        if self._process is None:
            return None
        # WNOWAIT keeps the zombie, so that its id is not reused and means its process group until `stop` has ended it.
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        if ended.si_code == os.CLD_EXITED:
            return f"ended by itself with exit code {ended.si_status}"
        return f"{_BY_SIGNAL} {ended.si_status}"

    def start_again_if_ended(self, on_restart: Callable[[str], None]) -> None:
        """Restart the process if it ended by itself, after a growing pause."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._start_at:
                self.start()
            return
        ending = self.ending()
        if ending is None:
            return
        self._ended = [*(at for at in self._ended if now - at < _COUNTED_SECONDS), now]
        if len(self._ended) > self.managed.restarts:
            raise self.failure(ending)
        on_restart(f"{self.managed.name} {ending}: starting it again")
        self.stop()
        self._process = None
        self._start_at = now + min(_RESTART_SECONDS * 2 ** (len(self._ended) - 1), _LONGEST_RESTART_SECONDS)

    def failure(self, problem: str) -> Era5Error:
        """The error for a process that cannot be kept running, with the end of its log."""
        return Era5Error(
            f"{self.managed.name}: {problem}; last lines of its log:\n{self.log.last_lines()}",
            remedy=f"Fix the problem named there, then start again. Full log: {self.log.path}",
        )

    def stop(self) -> None:
        """End the whole process group: ask by signals of increasing force, then kill."""
        if self._process is None:
            return
        for number, seconds in _STOP_SIGNALS:
            with suppress(ProcessLookupError, PermissionError):  # macOS raises EPERM for a group of zombies
                os.killpg(self._process.pid, number)
            if self._ends_within(seconds):
                break
        # With a timeout: a process blocked in a disk driver does not react to SIGKILL either.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_HURRIED_SECONDS)

    def _ends_within(self, seconds: float) -> bool:
        begin = time.monotonic()
        while self._process is not None and _group_runs(self._process.pid):
            longest = seconds if self.ending() is None else min(seconds, _REST_SECONDS)
            if time.monotonic() - begin > (_HURRIED_SECONDS if self._requests.is_repeated else longest):
                return False
            time.sleep(_POLL_SECONDS / 2)
        return True


def _group_runs(group: int) -> bool:
    """Return True if a process of the group is running; zombies do not count (a container's init may leave them)."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def terminate_with_parent(parent: int) -> Callable[[], None] | None:
    """A `preexec_fn` that makes the kernel send SIGTERM to the child if we are killed (Linux); None elsewhere."""
    libc = _libc
    if libc is None:
        return None

    def ask_the_kernel() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent was killed before prctl took effect
            os._exit(1)

    return ask_the_kernel
