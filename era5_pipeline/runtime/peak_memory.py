"""The most memory that this process has held."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PEAK = "VmHWM:"


def peak_rss_bytes() -> int:
    """The peak of the resident memory of this process, in bytes.

    Read from Linux's `VmHWM`. `ru_maxrss`, which other systems have, begins with the memory of the process that started
    this one.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(_PEAK):
                return int(line.removeprefix(_PEAK).split()[0]) * 1024
    # In bytes on macOS, in kibibytes elsewhere.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
