"""Samples of the loading sessions, and the rates, phases and waits derived from them.

Calculation only; querying the server, the sampling and the bottleneck are in `activity`.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

# States of a session besides the server's own names for waits (`Client:ClientRead`).
CPU = "CPU"
IDLE = "idle"  # between two statements
HIDDEN = "hidden"  # another user's session, and this user may not see what it does

# The phase of a session that loaded during the interval and is finished.
DONE = "done"
COPYING = "COPY"

_MONTH_IN_NAME = re.compile(r"era5\D*(\d{4}-\d{2})(?!\d)")
_MONTH_IN_TABLE = re.compile(r"weather_(\d{4})_(\d{2})(?:_\d+)?")
_FUNCTION = re.compile(r"\s*SELECT\s+(?:\w+\.)?(\w+)\(", re.IGNORECASE)
_STATEMENT = re.compile(r"\s*(\w+)(?:\s+(INDEX|TABLE)\b)?", re.IGNORECASE)


@dataclass(frozen=True)
class SampledSession:
    """A session in one sample.

    `since` is when it connected (None: hidden). `wait` is `CPU`, `IDLE`, `HIDDEN` or the server's `Type:Event`.
    `copying`: it is in a COPY into weather, or waits to begin one. `bytes` and `rows` are the progress of that COPY:
    None outside a COPY, before it begins, if hidden, and where TimescaleDB loses them (once a COPY has created the
    compressed part of a chunk, the server shows no progress of it). `rows` stay 0 in TimescaleDB.
    """

    pid: int
    since: datetime | None
    name: str
    wait: str
    statement: str
    table: str | None
    copying: bool
    bytes: int | None
    rows: int | None

    @property
    def key(self) -> SessionKey:
        """Identify the session, also among later ones with the same process number."""
        return SessionKey(self.pid, self.since)


class SessionKey(NamedTuple):
    """A session's process number, and the time it connected (None: hidden)."""

    pid: int
    since: datetime | None


@dataclass(frozen=True)
class Sample:
    """The sessions of this project, and others that COPY into weather, at one time (seconds, monotonic)."""

    at: float
    sessions: Mapping[SessionKey, SampledSession]


@dataclass(frozen=True)
class LocksAndPhases:
    """Locked months, phases, and sessions that block others: each by process number, at one time.

    A load that is still creating the schema has locked no month (None).
    """

    months: Mapping[int, Month | None]
    phases: Mapping[int, str]
    blocked_by: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class Loader:
    """A loading session over one interval.

    `rows` and `bytes` are the progress of its COPY; None if unknown: hidden, or not shown by the server. `waits` counts
    samples by wait; `blocked_by` describes the sessions that hold the lock it waits for at the end of the interval.
    """

    pid: int
    name: str
    month: Month | None
    phase: str
    rows: int | None
    rows_per_second: float | None
    bytes: int | None
    bytes_per_second: float | None
    waits: Mapping[str, int]
    blocked_by: tuple[str, ...]


def increase(readings: Sequence[int | None]) -> int:
    """Return the growth of a counter from the first reading to the last; never negative.

    A reading below the previous one means that the counter was reset to zero in between; None means that there was no
    counter (no COPY at that time), so the next one began at zero too. The first reading itself does not count.
    """
    total = 0
    for before, after in pairwise(readings):
        if after is not None:
            total += after - before if before is not None and after >= before else after
    return total


def summarize_loaders(
    samples: Sequence[Sample], current: LocksAndPhases, months: Mapping[SessionKey, Month | None]
) -> tuple[Loader, ...]:
    """Summarize the work of each loading session from the first sample to the last.

    The first sample is the last of the previous interval: counting begins there. `months` are the months that sessions
    were seen to lock in earlier intervals.
    """
    found: dict[SessionKey, SampledSession] = {}
    for sample in samples[1:]:
        for key, session in sample.sessions.items():
            # The name alone does not make an idle session a loader.
            is_named = session.wait != IDLE and _month_of(session) is not None
            if session.copying or key in months or session.pid in current.months or is_named or key in found:
                found[key] = session
    seconds = samples[-1].at - samples[0].at
    present = samples[-1].sessions
    return tuple(
        _loader(
            session,
            [sample.sessions.get(key) for sample in samples],
            seconds,
            month=current.months.get(session.pid) or months.get(key) or _month_of(session),
            phase=_phase(session, current) if key in present else DONE,
            blocked_by=current.blocked_by.get(session.pid, ()) if key in present else (),
        )
        for key, session in sorted(found.items(), key=lambda item: item[0].pid)
    )


def _loader(
    last: SampledSession,
    sampled: Sequence[SampledSession | None],
    seconds: float,
    *,
    month: Month | None,
    phase: str,
    blocked_by: tuple[str, ...],
) -> Loader:
    copies = [session for session in sampled if session is not None and session.copying]
    # A COPY that waits for the table's lock has read nothing yet; for any other without a reading, progress is unknown.
    is_unknown = bool(copies) and copies[-1].bytes is None and not is_lock(copies[-1].wait)
    taken = increase([session.bytes if session else None for session in sampled])
    # TimescaleDB counts bytes but no rows.
    rows_known = not is_unknown and (any(session.rows for session in copies) or not any(s.bytes for s in copies))
    rows = increase([session.rows if session else None for session in sampled])
    return Loader(
        pid=last.pid,
        name=last.name,
        month=month,
        phase=phase,
        rows=(last.rows or 0) if last.copying and rows_known else None,
        rows_per_second=rows / seconds if rows_known else None,
        bytes=last.bytes,
        bytes_per_second=None if is_unknown else taken / seconds,
        waits=Counter(session.wait for session in sampled[1:] if session is not None),
        blocked_by=blocked_by,
    )


def is_lock(wait: str) -> bool:
    """Return True if the wait is for a lock that a session keeps until its transaction ends (`extend` is brief)."""
    return wait.startswith("Lock:") and wait != "Lock:extend"


def _phase(session: SampledSession, current: LocksAndPhases) -> str:
    if is_lock(session.wait) or (session.wait == HIDDEN and session.pid in current.blocked_by):
        return "waits for a lock"
    if session.copying:
        return COPYING
    if session.pid in current.phases:
        return current.phases[session.pid]
    if session.wait in (IDLE, HIDDEN):
        return session.wait
    if called := _FUNCTION.match(session.statement):
        return called[1]
    words = _STATEMENT.match(session.statement)
    return " ".join(word.upper() for word in words.groups() if word) if words else "?"


def _month_of(session: SampledSession) -> Month | None:
    """Read the month from the session's name, or from the table it copies into."""
    named = _MONTH_IN_NAME.match(session.name)
    if named is not None:
        return _month(named[1])
    table = _MONTH_IN_TABLE.fullmatch(session.table or "")
    return _month(f"{table[1]}-{table[2]}") if table is not None else None


def _month(text: str) -> Month | None:
    with suppress(UsageError):
        return Month.parse(text)
    return None
