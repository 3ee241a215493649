"""The peak memory of a process is its own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from era5_pipeline.runtime.peak_memory import peak_rss_bytes

MEGABYTE = 1_000_000
PROGRAM = """
import sys
from era5_pipeline.runtime.peak_memory import peak_rss_bytes
before = peak_rss_bytes()
held = b"x" * int(sys.argv[1])
del held
print(before, peak_rss_bytes())
"""


def peaks(held_bytes: int) -> list[int]:
    """The peaks of a new process before and after it held that many bytes."""
    command = [sys.executable, "-c", PROGRAM, str(held_bytes)]
    return [int(word) for word in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


def test_what_was_held_counts_after_it_is_released() -> None:
    before, after = peaks(200 * MEGABYTE)
    assert 190 * MEGABYTE < after - before < 260 * MEGABYTE


def test_the_memory_of_the_process_that_started_it_does_not_count() -> None:
    held = np.ones(400 * MEGABYTE, dtype=np.uint8)
    assert peak_rss_bytes() > held.nbytes
    assert peaks(0)[0] < 300 * MEGABYTE
