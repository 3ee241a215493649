"""The bottleneck of a load, in words, from what its sessions wait for.

Here: the classification. Not here: how waits are sampled (`activity`, `session_samples`), or the display
(`cli/watch.py`).

Names of waits are those of PostgreSQL 15 to 18: `WALWrite` became `WalWrite` with 17, reads became `AioIoCompletion`
with 18.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from era5_pipeline.monitor.session_samples import CPU, HIDDEN, IDLE, is_lock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from era5_pipeline.monitor.activity import Report
    from era5_pipeline.monitor.session_samples import Loader

Kind = Literal[
    "nothing", "hidden", "idle", "lock", "checkpoints", "loader", "processor", "wal", "disk", "contention", "other"
]

# PostgreSQL itself warns if checkpoints that a full log requests come within 30 s of each other.
_FREQUENT_A_MINUTE = 2

_GROUPS: tuple[tuple[Kind, str], ...] = (
    ("loader", r"Client:ClientRead"),
    ("wal", r"(IO|LWLock):WAL.*|IPC:SyncRep"),
    ("disk", r"IO:.*|IPC:BufferIO|LWLock:Aio.*|Timeout:VacuumDelay"),
    ("contention", r"LWLock:.*|Lock:extend|BufferPin:.*"),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _GROUPS)


@dataclass(frozen=True)
class Bottleneck:
    """What limits the load: its kind, and one line of text."""

    kind: Kind
    text: str


def find_bottleneck(report: Report) -> Bottleneck:
    """Find what limits the load in an interval: a lock if one blocks a session, else what took the most time."""
    if not report.loaders:
        return Bottleneck(
            "nothing", "Nothing is loading; a month that is still being read or flattened has not reached the server."
        )
    for loader in report.loaders:
        if _is_locked_out(loader):
            return Bottleneck("lock", _lock_text(loader))
    visible = Counter({wait: count for wait, count in report.waits.items() if wait not in (HIDDEN, IDLE)})
    if not visible:
        if report.waits[HIDDEN]:
            return Bottleneck(
                "hidden",
                "Unknown: this user may not see what the loading sessions wait for. "
                "An administrator can allow it: GRANT pg_monitor TO <user>;",
            )
        return Bottleneck(
            "idle", "The loader is between two statements: it prepares the next one, or waits for readers of the table."
        )
    groups = Counter[Kind]()
    for wait, count in visible.items():
        groups[kind_of_wait(wait)] += count
    (kind, count), *_ = groups.most_common()
    often = _checkpoints_by_wal(report) >= _FREQUENT_A_MINUTE
    if often and kind in ("wal", "disk"):
        return Bottleneck("checkpoints", _checkpoints_text(report))
    text = _text(kind, count / visible.total(), visible, report.loaders)
    return Bottleneck(kind, f"{text} {_checkpoints_text(report)}" if often else text)


def kind_of_wait(wait: str) -> Kind:
    """Return the kind of bottleneck that a wait (`CPU`, or the server's `Type:Event`) belongs to."""
    if wait == CPU:
        return "processor"
    if is_lock(wait):
        return "lock"
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(wait)), "other")


def wait_shares(waits: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each known wait, the largest first; they add up to 1."""
    known = {wait: count for wait, count in Counter(waits).most_common() if wait not in (HIDDEN, IDLE)}
    total = sum(known.values())
    return {wait: count / total for wait, count in known.items()}


def percent(share: float) -> str:
    """Format a share from 0 to 1 in whole percent."""
    return f"{round(100 * share)} %"


def _is_locked_out(loader: Loader) -> bool:
    seen = sum(count for wait, count in loader.waits.items() if wait != IDLE)
    locked = sum(count for wait, count in loader.waits.items() if is_lock(wait))
    # Where waits are hidden, a lock that was requested and not granted still shows.
    return 0 < seen <= 2 * locked or (bool(loader.blocked_by) and 2 * loader.waits.get(HIDDEN, 0) >= seen > 0)


def _lock_text(loader: Loader) -> str:
    who = f"{loader.month} (session {loader.pid})" if loader.month else f"session {loader.pid}"
    if not loader.blocked_by:
        return f"A lock: {who} waited for one, and has it now."
    return f"A lock: {who} waits for {' and '.join(loader.blocked_by)}. Wait until that session is done, or end it."


def _checkpoints_by_wal(report: Report) -> int:
    """Count the checkpoints of the last minute that a full log requested: one per half of max_wal_size, about.

    Others are requested by people and backups, or by DROP DATABASE; a larger log does not help there.
    """
    return min(report.requested_lately, report.wal_bytes_lately // (report.max_wal_bytes // 2))


def _checkpoints_text(report: Report) -> str:
    return (
        f"Checkpoints: a full log requested {_checkpoints_by_wal(report)} in the last minute, and after each, "
        f"whole pages are logged again; a larger max_wal_size ({report.max_wal_bytes / 1e9:.1f} GB now) helps: "
        "see era5 doctor."
    )


def _text(kind: Kind, share: float, waits: Counter[str], loaders: Sequence[Loader]) -> str:
    of_time = f"{percent(share)} of the time"
    top = next(wait for wait, _ in waits.most_common() if kind_of_wait(wait) == kind)
    match kind:
        case "loader":
            return (
                f"The loader: for {of_time} the server waits for rows. Reading and encoding do not keep up: check "
                "that machine's processor and disk, and the network in between."
            )
        case "processor":
            busy = sum(any(wait != IDLE for wait in loader.waits) for loader in loaders)
            copies = f"{busy} sessions, one core each" if busy > 1 else "a session uses one core"
            return (
                f"The server's processor: it works for {of_time} ({copies}). More months at once, or --workers, help "
                "as long as cores are idle."
            )
        case "wal":
            return (
                f"The write-ahead log: {of_time} ({top}). A faster disk for pg_wal helps, or writing less of it: "
                "see era5 doctor."
            )
        case "disk":
            return f"The data disk: {of_time} ({top}). A faster disk for the server's data helps; more sessions do not."
        case "contention":
            return f"The sessions wait for each other: {of_time} ({top}). Fewer at once may be as fast."
        case "lock":
            return f"Locks: {of_time} ({top})."
        case _:
            return f"Something else on the server: {of_time} ({top})."
