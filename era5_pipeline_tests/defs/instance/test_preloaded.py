"""What is imported before runs are forked: all of it survives a fork."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys, threading
import psutil
import era5_pipeline.defs.instance.preloaded
before = set(sys.modules)
connections = [str(one) for one in psutil.Process().net_connections()]
print(json.dumps([threading.active_count(), connections, "distributed" in before, "matplotlib" in before]))
"""


def test_nothing_that_is_imported_starts_a_thread_or_opens_a_connection() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(done.stdout) == [1, [], True, True]
