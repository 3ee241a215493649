"""Child processes that run as long as we do: started in order, watched, and stopped together.

Here: services and their log files, whatever they are. Not here: which services there are (the command line
says), or the embedded PostgreSQL, which outlives the process that starts it.
"""

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

psutil: Any = _psutil  # it comes without types

# Long enough not to be seen in `top`, short enough that Ctrl-C feels immediate.
_POLL_SECONDS = 0.1

# SIGINT is what a service expects from a terminal, and the only one on which some finish their work; what
# does not end on it is told by SIGTERM, and what ignores both is killed.
_STAGES = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
_HURRIED_SECONDS = 1.0

_LOG_LINES = 15
_LOG_TAIL_BYTES = 1 << 14
_LOG_ROTATE_BYTES = 10 << 20

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class LogFile:
    """A log file that child processes append to, of at most some 10 MB and one predecessor (`<name>.1`)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = 0

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open it, to be handed to a child; `last_lines` tells of what is written from now on.

        Raises:
            LocalDiskError: if the disk is full or not writable.
        """
        with disk_errors(f"writing {self.path.name}", self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Only between runs: a child keeps writing to the file it was given, whatever its name.
            if self.path.exists() and self.path.stat().st_size > _LOG_ROTATE_BYTES:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            file = self.path.open("ab")
        with file:
            self._start = file.tell()
            yield file

    def last_lines(self) -> str:
        """Return the last lines since it was last opened, each indented; a note where there are none."""
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self._start, end - _LOG_TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError as error:
            return f"  (its log cannot be read: {error.strerror})"
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        return "\n".join(f"  {line}" for line in lines[-_LOG_LINES:]) or "  (it wrote nothing)"


_BY_SIGNAL = "ended by itself by signal"


@dataclass(frozen=True)
class Service:
    """A process to supervise.

    `ready` answers within a second or so whether the service can be used; None: as soon as it runs.
    """

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], bool] | None = None
    ready_seconds: float = 60.0


def supervise(
    services: Sequence[Service], *, env: Mapping[str, str], log_folder: Path, on_ready: Callable[[], None]
) -> int:
    """Start `services` in order, each when the one before is ready, and run them until asked to stop.

    Asked by SIGINT (Ctrl-C), SIGTERM or SIGHUP, it stops them in reverse order; a second signal hurries. None
    of them is left behind, whatever happens. Each service's output is appended to `<log_folder>/<name>.log`.

    To be called from the main thread: Python lets no other one handle signals.

    Returns:
        0 if asked to stop when all were ready, 128 + the signal's number if asked before.

    Raises:
        Era5Error: if a service does not start, is not ready in time, or ends by itself.
        LocalDiskError: if the logs cannot be written.
    """
    with _StopRequests() as requests, ExitStack() as stack:
        children: list[_Child] = []
        for service in services:
            child = _Child(service, log_folder, env, requests)
            # Before the start: nothing may happen between a process' birth and somebody's duty to end it.
            stack.callback(child.stop)
            children.append(child)
            child.start()
            _await_ready(child, children, requests)
            if requests.first:
                return 128 + requests.first
        on_ready()
        while not requests.first:
            _check_all_run(children)
            time.sleep(_POLL_SECONDS)
        return 0


def _await_ready(child: _Child, children: Sequence[_Child], requests: _StopRequests) -> None:
    """Return when `child` is ready or a stop was asked for."""
    deadline = time.monotonic() + child.service.ready_seconds
    tries = 1
    while not requests.first:
        # gRPC aborts once in a while at its start (seen: SIGABRT, bad file descriptor): a crash is tried once more.
        if tries == 1 and (child.ending() or "").startswith(_BY_SIGNAL):
            child.stop()
            child.start()
            tries += 1
        _check_all_run(children)
        if child.service.ready is None or child.service.ready():
            return
        if time.monotonic() > deadline:
            raise child.failure(f"is not ready after {child.service.ready_seconds:g} s")
        time.sleep(_POLL_SECONDS)


def _check_all_run(children: Sequence[_Child]) -> None:
    for child in children:
        if ending := child.ending():
            raise child.failure(ending)


class _StopRequests:
    """Counts the signals that ask to stop, instead of being interrupted in the middle of starting a child."""

    def __init__(self) -> None:
        self.first = 0
        self.count = 0
        self._previous: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # `nohup` asks to outlive the terminal. A shell's `&` in a script leaves SIGINT ignored, too, but
            # that is no wish of anybody's: handling it here also gives the children its default (a handler,
            # unlike "ignore", is not passed on to a new program).
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._previous[number] = signal.signal(number, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        for number, previous in self._previous.items():
            # None: the handler was not installed from Python, so Python cannot put it back.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)

    def _count(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or number
        self.count += 1

    @property
    def hurried(self) -> bool:
        return self.count > 1


class _Child:
    """One service's process, and whatever that starts: its process group."""

    def __init__(self, service: Service, log_folder: Path, env: Mapping[str, str], requests: _StopRequests) -> None:
        self.service = service
        self._log = LogFile(log_folder / f"{service.name}.log")
        self._env = env
        self._requests = requests
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.opened() as log:
            try:
                # A session of its own: the terminal's Ctrl-C reaches us only, and we stop them in order.
                self._process = subprocess.Popen(  # noqa: S603  # the caller's own command
                    self.service.argv,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509  # it only makes system calls
                )
            except OSError as error:
                raise Era5Error(
                    f"{self.service.name}: cannot be started: {error.strerror} ({self.service.argv[0]})",
                    remedy="Install the package again: one of its commands is missing.",
                ) from error

    def ending(self) -> str | None:
        """How the process ended; None if it runs."""
        if self._process is None:
            return None
        # WNOWAIT: it stays a zombie, so that its number keeps meaning its process group until `stop` is
        # through.
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        if ended.si_code == os.CLD_EXITED:
            return f"ended by itself with exit code {ended.si_status}"
        return f"{_BY_SIGNAL} {ended.si_status}"

    def failure(self, problem: str) -> Era5Error:
        return Era5Error(
            f"{self.service.name}: {problem}; its last lines:\n{self._log.last_lines()}",
            remedy=f"Correct what they say, then start again. The whole log: {self._log.path}",
        )

    def stop(self) -> None:
        """End the whole process group, by stages."""
        if self._process is None:
            return
        for number, seconds in _STAGES:
            with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM of a group of zombies
                os.killpg(self._process.pid, number)
            if self._ends_within(seconds):
                break
        # Not for ever: what hangs in a disk's driver does not hear SIGKILL either.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_HURRIED_SECONDS)

    def _ends_within(self, seconds: float) -> bool:
        begin = time.monotonic()
        while self._process is not None and _group_runs(self._process.pid):
            if time.monotonic() - begin > (_HURRIED_SECONDS if self._requests.hurried else seconds):
                return False
            time.sleep(_POLL_SECONDS / 2)
        return True


def _group_runs(group: int) -> bool:
    """Whether a process of the group runs; zombies (which a container's init may never wait for) do not."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def _die_with(parent: int) -> Callable[[], None] | None:
    """Make what a child does first: ask to be told to end when we are killed and cannot tell it (Linux)."""
    libc = _libc
    if libc is None:
        return None

    def ask_the_kernel() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # killed before the kernel was asked
            os._exit(1)

    return ask_the_kernel
