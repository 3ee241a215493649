"""Processes of a measurement: several at once, as for Dagster's runs, and commands of `era5` as a user runs them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import BrokenBarrierError
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import requests

from benchmarks.cells import CannotRunError, Laps, Numbers
from era5_pipeline.runtime.peak_memory import peak_rss_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse


# --- Run several processes at the same time, as Dagster does with runs, until the last one ends ---


_START_SECONDS = 120


def run_at_once(
    work: Callable[..., object],
    arguments: Sequence[tuple[Any, ...]],
    *,
    prepare: Callable[[], None] | None = None,
) -> Numbers:
    """Run `work` once for each tuple of arguments, each in its own process; return the seconds and the largest memory.

    The clock starts once all processes have finished their imports, and `prepare`.
    """
    # No pool: its processes would outlive this one if it is killed.
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(len(arguments) + 1), context.Queue()
    processes = [
        context.Process(target=_run, args=(work, of_one, prepare, barrier, queue), daemon=True) for of_one in arguments
    ]
    for process in processes:
        process.start()
    try:
        barrier.wait(_START_SECONDS)
        clock = Laps()
        results = [queue.get() for _ in processes]
        seconds = clock.lap()
    except BrokenBarrierError:
        raise CannotRunError(f"a process did not start within {_START_SECONDS} s") from None
    finally:
        for process in processes:
            process.join(_START_SECONDS)
    errors = [error for _, error in results if error]
    if errors:
        raise CannotRunError(errors[0])
    return {"seconds": seconds, "peak_rss_bytes": max(peak for peak, _ in results)}


def _run(
    work: Callable[..., object],
    arguments: tuple[Any, ...],
    prepare: Callable[[], None] | None,
    barrier: Barrier,
    queue: Queue[tuple[int, str]],
) -> None:
    """Do the work; report the memory used, and the error, which is empty on success."""
    error = ""
    if prepare is not None:
        prepare()
    try:
        barrier.wait(_START_SECONDS)
        work(*arguments)
    except BrokenBarrierError:  # another process did not start, which the parent process reports
        return
    except Exception as problem:  # noqa: BLE001  # reported to the parent process
        error = " ".join(f"{type(problem).__name__}: {problem}".split())
    queue.put((peak_rss_bytes(), error))


def require_soon(is_there: Callable[[], object], seconds: float, message: str) -> None:
    """Try until no OSError is raised, or for this many seconds; then the message says what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            is_there()
        except OSError as error:
            if time.monotonic() > deadline:
                raise CannotRunError(f"{message}: {error}") from error
            time.sleep(0.1)
        else:
            return


def processor_times(pid: int) -> Iterator[tuple[int, Any, str]]:
    """Process id, processor times and command line of a process and of those that it has started."""
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                yield process.pid, process.cpu_times(), " ".join(process.cmdline())


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], stop: signal.Signals, **options: Any) -> Iterator[subprocess.Popen[Any]]:  # noqa: ANN401  # those of Popen
    """Run a program in a session of its own while the context is open, and stop it by the signal."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)  # noqa: S603  # our own command
    try:
        yield process
    finally:
        process.send_signal(stop)
        try:
            process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


# --- Commands of `era5` in processes of their own, as a user runs them ---


ERA5 = (sys.executable, "-c", "from era5_pipeline.cli import main; main()")


def own_environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment for a command with ERA5_HOME=`home` and these settings, and with none of the user's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ERA5_", "DAGSTER_"))}
    return kept | dict(settings) | {"ERA5_HOME": str(home)}


_OPTIONS = ("--port", "0", "--no-access-log")
_READY_SECONDS = 60.0
_STOP_SECONDS = 120.0


@dataclass(frozen=True)
class ServeProcess:
    """The running server: its process, and the port of this machine on which it listens."""

    pid: int
    port: int

    def get(self, path: str) -> requests.Response:
        """The answer to a request."""
        response = requests.get(f"http://127.0.0.1:{self.port}{path}", timeout=_READY_SECONDS)
        response.raise_for_status()
        return response


@contextmanager
def service_process(words: Sequence[str], home: Path, env: Mapping[str, str], ready: str) -> Iterator[tuple[int, str]]:
    """Run a command of `era5` that serves, with ERA5_HOME=`home`, the settings `env` and none of the user's.

    Gives its process id, and the first line of its output that contains `ready`.
    """
    home.mkdir(parents=True, exist_ok=True)
    # In the folder, which has no .env of the user's.
    options: dict[str, Any] = {"env": own_environment(home, env), "cwd": home, "stdout": subprocess.PIPE, "text": True}
    with (
        (home / f"{words[0]}.log").open("w+", encoding="utf-8") as log,
        running((*ERA5, *words), signal.SIGTERM, stderr=log, **options) as process,
    ):
        line = next((line for line in process.stdout or () if ready in line), None)
        if line is None:
            log.seek(0)
            raise CannotRunError(f"era5 {words[0]} did not start: {log.read().strip()[-1000:]}")
        yield process.pid, line


@contextmanager
def serve_process(warehouse: Warehouse, home: Path) -> Iterator[ServeProcess]:
    """Run the server with ERA5_HOME=`home`, with default settings and none of the user's."""
    env = {"ERA5_DATABASE_URL": warehouse.url}
    with service_process(("serve", *_OPTIONS), home, env, "http://") as (pid, line):
        port = next(urlsplit(word).port for word in line.replace(",", " ").split() if word.startswith("http://"))
        server = ServeProcess(pid, port or 0)
        require_soon(partial(server.get, "/healthz"), _READY_SECONDS, "era5 serve is not well")
        yield server
