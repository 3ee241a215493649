"""The processes of runs on this machine: end those that are left when `era5 up` ends.

Each is in a session of its own, so that it outlives a daemon that is killed.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil as _psutil

if TYPE_CHECKING:
    from pathlib import Path

psutil: Any = _psutil  # it has no type annotations

# Ends of runs, from the one that lets them record it: the seconds to wait after each.
_SIGNALS = ((signal.SIGINT, 15.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
# In the command line of a process that forks, and so in those of what it forked.
_FORKED = ("multiprocessing.forkserver", "multiprocessing.spawn")


def end_runs(folder: Path) -> None:
    """End the runs of the Dagster instance in `folder`: interrupt them, and kill those that do not end on it."""
    runs = run_processes(folder)
    for number, seconds in _SIGNALS:
        for process in runs:
            with suppress(psutil.Error):
                process.send_signal(number)
        _, runs = psutil.wait_procs(runs, timeout=seconds)
        if not runs:
            return


def run_processes(folder: Path) -> list[Any]:
    """The processes of runs of the instance in `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or ())
        if not any(sign in words for sign in _FORKED) or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == process.pid and process.environ().get("DAGSTER_HOME") == str(folder):
                found.append(process)
    return found
