"""The sessions that load, as they were seen at one glance after the other, and what follows: rates, phases, waits.

Here: the reckoning alone. Not here: how the server is asked (`activity`), or what it means (`bottleneck`).
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
from era5_pipeline.model.variables import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

# What a session is found to wait for, besides the server's own names for waits (`Client:ClientRead`).
CPU = "CPU"
IDLE = "idle"  # between two statements
HIDDEN = "hidden"  # another user's session, and no right to see what it does

# The phase of a session that loaded within the interval and does so no more.
DONE = "done"
COPYING = "COPY"

# A row in a binary COPY: the number of columns, each column's length, a time, and three numbers of the place.
_COLUMNS_OF_PLACE = 4
_ROW_BYTES = 2 + 4 * (_COLUMNS_OF_PLACE + len(VARIABLES)) + 8 + 4 * (_COLUMNS_OF_PLACE - 1)
_VALUE_BYTES = 4

_MONTH_IN_NAME = re.compile(r"era5\D*(\d{4}-\d{2})(?!\d)")
_MONTH_IN_TABLE = re.compile(r"weather_(\d{4})_(\d{2})(?:_\d+)?")
_FUNCTION = re.compile(r"\s*SELECT\s+(?:\w+\.)?(\w+)\(", re.IGNORECASE)
_STATEMENT = re.compile(r"\s*(\w+)(?:\s+(INDEX|TABLE)\b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Session:
    """A session at one glance.

    `since` is when it connected (None: hidden). `wait` is `CPU`, `IDLE`, `HIDDEN` or the server's `Type:Event`.
    `copying`: it is in a COPY into weather, or waits to begin one. `bytes` and `rows` are what that has taken so far:
    None where it is in none, before it begins, where they are hidden, and where TimescaleDB loses them (once a COPY has
    made the compressed part of a chunk, the server shows no progress of it); TimescaleDB leaves `rows` at 0.
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
    def key(self) -> Key:
        """What tells it from a later session of the same number."""
        return Key(self.pid, self.since)


class Key(NamedTuple):
    """A session: its process and when it connected."""

    pid: int
    since: datetime | None


@dataclass(frozen=True)
class Glance:
    """The sessions of this project, and those that COPY into weather, at one time (seconds, monotonic)."""

    at: float
    sessions: Mapping[Key, Session]


@dataclass(frozen=True)
class Held:
    """Who holds months, who is at which phase, and who waits for a lock: by process, at one time.

    A load that still sets up the database holds no month (None).
    """

    months: Mapping[int, Month | None]
    phases: Mapping[int, str]
    blocked_by: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class Loader:
    """A session that loads, over one interval.

    `rows` and `bytes` are of its COPY so far. What cannot be known is None: hidden or not shown by the server, or the
    rows of a COPY that is not binary and that the server does not count. `rows_estimated`: the rows follow from the
    bytes. `waits` counts glances by what was waited for; `blocked_by` describes who holds the lock that it waits for at
    the interval's end.
    """

    pid: int
    name: str
    month: Month | None
    phase: str
    rows: int | None
    rows_per_second: float | None
    rows_estimated: bool
    bytes: int | None
    bytes_per_second: float | None
    waits: Mapping[str, int]
    blocked_by: tuple[str, ...]


def moved(readings: Sequence[int | None]) -> int:
    """How far a counter came, from the first reading to the last: never negative.

    A reading below the one before means that the counter began anew, at zero; None, that there was none (no COPY, at
    that time), so that the next began at zero too. What was there at the first reading does not count.
    """
    total = 0
    for before, after in pairwise(readings):
        if after is not None:
            total += after - before if before is not None and after >= before else after
    return total


def bytes_per_row(variables: int) -> int:
    """Bytes of a row in a binary COPY into weather of which so many variables are not NULL: 62 to 86."""
    return _ROW_BYTES + _VALUE_BYTES * variables


def report_loaders(
    glances: Sequence[Glance], held: Held, months: Mapping[Key, Month | None], *, variables: int
) -> tuple[Loader, ...]:
    """What each session that loaded did from the first glance to the last; `variables` a row, for estimates.

    The first glance is where counting begins: it is the last one of the interval before. `months` remembers whose
    session was seen to hold which month.
    """
    found: dict[Key, Session] = {}
    for glance in glances[1:]:
        for key, session in glance.sessions.items():
            # A name alone makes no load of a session that does nothing.
            is_named = session.wait != IDLE and _month_of(session) is not None
            if session.copying or key in months or session.pid in held.months or is_named or key in found:
                found[key] = session
    seconds = glances[-1].at - glances[0].at
    present = glances[-1].sessions
    return tuple(
        _loader(
            session,
            [glance.sessions.get(key) for glance in glances],
            seconds,
            month=held.months.get(session.pid) or months.get(key) or _month_of(session),
            phase=_phase(session, held) if key in present else DONE,
            blocked_by=held.blocked_by.get(session.pid, ()) if key in present else (),
            variables=variables,
        )
        for key, session in sorted(found.items(), key=lambda item: item[0].pid)
    )


def _loader(
    last: Session,
    seen: Sequence[Session | None],
    seconds: float,
    *,
    month: Month | None,
    phase: str,
    blocked_by: tuple[str, ...],
    variables: int,
) -> Loader:
    copies = [session for session in seen if session is not None and session.copying]
    # A COPY that waits for its table has taken nothing yet; of any other, no reading means that it is not to be known.
    unknown = bool(copies) and copies[-1].bytes is None and not is_lock(copies[-1].wait)
    took = moved([session.bytes if session else None for session in seen])
    counted = any(session.rows for session in copies)
    # Without a count, rows follow from bytes where each row has the same.
    countable = counted or all(_is_binary(session) for session in copies)
    per_row = bytes_per_row(variables)
    rows = moved([session.rows if session else None for session in seen]) if counted else took / per_row
    sofar = last.rows if counted else round((last.bytes or 0) / per_row)
    return Loader(
        pid=last.pid,
        name=last.name,
        month=month,
        phase=phase,
        rows=sofar if last.copying and countable and not unknown else None,
        rows_per_second=rows / seconds if countable and not unknown else None,
        rows_estimated=countable and not unknown and not counted and max(took, last.bytes or 0) >= per_row,
        bytes=last.bytes,
        bytes_per_second=None if unknown else took / seconds,
        waits=Counter(session.wait for session in seen[1:] if session is not None),
        blocked_by=blocked_by,
    )


def _is_binary(session: Session) -> bool:
    # Hidden or cut off, it is most likely our own.
    text = session.statement.lower()
    return "binary" in text or "from" not in text


def is_lock(wait: str) -> bool:
    """Whether the wait is for a lock that a session holds until its transaction ends (a file's growth is brief)."""
    return wait.startswith("Lock:") and wait != "Lock:extend"


def _phase(session: Session, held: Held) -> str:
    if is_lock(session.wait) or (session.wait == HIDDEN and session.pid in held.blocked_by):
        return "waits for a lock"
    if session.copying:
        return COPYING
    if session.pid in held.phases:
        return held.phases[session.pid]
    if session.wait in (IDLE, HIDDEN):
        return session.wait
    if called := _FUNCTION.match(session.statement):
        return called[1]
    words = _STATEMENT.match(session.statement)
    return " ".join(word.upper() for word in words.groups() if word) if words else "?"


def _month_of(session: Session) -> Month | None:
    """The month that the session's name or its table says."""
    named = _MONTH_IN_NAME.match(session.name)
    if named is not None:
        return _month(named[1])
    table = _MONTH_IN_TABLE.fullmatch(session.table or "")
    return _month(f"{table[1]}-{table[2]}") if table is not None else None


def _month(text: str) -> Month | None:
    with suppress(UsageError):
        return Month.parse(text)
    return None
