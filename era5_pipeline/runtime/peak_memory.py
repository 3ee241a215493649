"""Peak memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PEAK = "VmHWM:"


def peak_rss_bytes() -> int:
    """Return the peak resident memory of this process in bytes.

    Read from Linux's `VmHWM`. On other systems from `ru_maxrss`, which starts at the parent process's memory.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(_PEAK):
                return int(line.removeprefix(_PEAK).split()[0]) * 1024
    # In bytes on macOS, in kibibytes elsewhere.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
