"""Processor seconds of everything that `era5 up` started, by kind of process: each service, the runs, the storage."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psutil as _psutil

psutil: Any = _psutil  # it has no type annotations

# Words of a command line, by kind; the first that fits. What fits none is `era5 up` itself.
_KINDS = (
    ("runs", ("multiprocessing.spawn", "multiprocessing.forkserver")),
    ("webserver", ("running.web_server",)),
    ("daemon", ("dagster._daemon",)),
    ("code server", ("code-server", "code_server", "api grpc")),
)
KINDS = ("daemon", "webserver", "code server", "runs", "storage", "era5 up")


def processor_seconds(supervisor: int, postmaster: int | None) -> dict[str, float]:
    """User and system seconds so far, by kind; of the storage only if its `postmaster` is on this machine.

    A process that ended counts for the one that started it, and so do not get lost: what a service's children used
    counts as runs.
    """
    seconds = dict.fromkeys(KINDS, 0.0)
    root = psutil.Process(supervisor)
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.Error):
            kind = _kind_of(" ".join(process.cmdline()))
            times = process.cpu_times()
            seconds[kind] += times.user + times.system
            seconds["era5 up" if process.pid == supervisor else "runs"] += times.children_user + times.children_system
    if postmaster is not None:
        seconds["storage"] = _with_children(postmaster)
    return seconds


def _with_children(pid: int) -> float:
    total = 0.0
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
    return total


def _kind_of(words: str) -> str:
    return next((kind for kind, signs in _KINDS if any(sign in words for sign in signs)), "era5 up")
