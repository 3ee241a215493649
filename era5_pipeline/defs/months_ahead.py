"""Prepare the small months of a range in a process of its own, while those before them are loaded and recorded.

Raw files, checks and flattening take about as long as loading and Dagster's records, and both are Python: in one
process they would take turns. The process prepares a few months ahead, ends with the one that started it, and is only a
way to be faster: what it cannot do is done, or reported, by the caller.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import Era5Error, StoreUnreachableError
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.runtime import progress
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.stages import end_run, note_fetched, run_flat, run_raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.stages import FlatResult, RawResult

# Months prepared ahead: enough for the unsteady time of each.
_AHEAD = 4
# The process takes seconds to start, and saves some tens of milliseconds a month.
_MANY_MONTHS = 48
# Larger months are flattened by several threads, and need not be helped.
_FEW_PLACES = 1_000
_END_SECONDS = 10.0
# Without the working folder among the folders of modules.
_PROGRAM = ("-P", "-c", "import sys; from era5_pipeline.defs.months_ahead import serve; serve(int(sys.argv[1]))")


@dataclass(frozen=True)
class Prepared:
    """A month's results up to its flat file; of a month that a check refuses or that fails, as far as it got."""

    month: Month
    raw: RawResult | None = None
    flat: FlatResult | None = None
    error: Era5Error | None = None


def pays_off(settings: Settings, months: Sequence[Month]) -> bool:
    """Return True if preparing the months in another process saves more than starting it takes."""
    places = settings.wanted_locations
    return (
        len(months) >= _MANY_MONTHS
        and places is not None
        and len(places) <= _FEW_PLACES
        and source_kind(settings.source_name).is_chunked
        and len(settings.source_names) == 1
        and (os.cpu_count() or 1) > 1
    )


class MonthsAhead:
    """The months as the process prepares them, taken in their order. Close it when done.

    What the process says, and what it reports as progress while it is waited for, is passed on by `take`.
    """

    def __init__(self, settings: Settings, months: Sequence[Month], say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        ours, theirs = socket.socketpair()
        with theirs:
            command = (sys.executable, *_PROGRAM, str(theirs.fileno()))
            # In a process group of its own: the terminal's Ctrl-C is for the caller, who then closes this.
            self._process = subprocess.Popen(  # noqa: S603  # this module, in this Python
                command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), process_group=0
            )
        self._connection = Connection(ours.detach())
        with suppress(OSError):  # it has ended, as `take` finds out
            self._connection.send((settings, tuple(months)))

    def take(self, month: Month) -> Prepared | None:
        """Wait for the month, the next in order; None if the process has ended, and the caller is to prepare it."""
        try:
            self._connection.send(None)
            while True:
                received = self._connection.recv()
                if isinstance(received, Prepared):
                    break
                if isinstance(received, str):
                    self._say(received)
                else:
                    progress.report(*received)
        except (OSError, EOFError):
            return None
        if received.raw is not None:
            note_fetched(self._settings, month, received.raw.raw)
        return received

    def close(self) -> None:
        """End the process, which leaves nothing half-done, and wait until it has ended."""
        self._connection.close()
        with self._process as process:
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


# --- The process ---


class _Caller:
    """The process that takes the months: what it wants, and what is sent to it, from any thread."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._asked = threading.Condition()
        self._wanted = self._sent = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Count what the caller asks for; end this process if the caller closes the connection, or has ended."""
        with suppress(OSError, EOFError):
            while True:
                self._connection.recv()
                with self._asked:
                    self._wanted += 1
                    self._asked.notify()
        os.kill(os.getpid(), signal.SIGINT)  # the main thread removes what it has begun
        time.sleep(_END_SECONDS)
        os._exit(1)

    def send(self, value: object) -> None:
        with self._sending:
            self._connection.send(value)

    def send_month(self, prepared: Prepared) -> None:
        """Send the month, and wait until another is to be prepared."""
        self.send(prepared)
        with self._asked:
            self._sent += 1
            self._asked.wait_for(lambda: self._sent < self._wanted + _AHEAD)

    def report(self, stage: progress.Stage, done: int, total: int, unit: str) -> None:
        """Report progress to a caller who waits."""
        if self._sent < self._wanted:
            self.send((stage, done, total, unit))


def serve(descriptor: int) -> None:
    """Prepare months for the process at the other end of the socket, until all are or it ends."""
    connection = Connection(descriptor)
    # An OSError: the caller has ended.
    with suppress(OSError, EOFError, KeyboardInterrupt):
        settings, months = connection.recv()
        caller = _Caller(connection)
        with progress.listening(caller.report):
            for prepared in prepared_months(settings, months, caller.send):
                caller.send_month(prepared)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: nothing to interrupt while Python ends


def prepared_months(settings: Settings, months: Sequence[Month], say: Callable[[str], None]) -> Iterator[Prepared]:
    """Prepare the months one after another; one that fails is followed by the next, if the store can be reached."""
    try:
        with source_of(settings, say).in_turn() as source:
            for month in months:
                raw = flat = failure = None
                try:
                    raw = run_raw(settings, month, say, source=source, together=months)
                    if all(outcome.passed for outcome in raw.outcomes):
                        flat = run_flat(settings, month, source=source)
                except Era5Error as error:
                    failure = error
                yield Prepared(month, raw, flat, failure)
                if isinstance(failure, StoreUnreachableError):
                    return
    finally:
        end_run()
