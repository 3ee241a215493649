"""The loads of places that requests asked for, in the first process of the server: two at once, the others in order.

For the requests see `fetch`; the processes that answer them do not load.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from era5_pipeline.model.dataset import DATASETS
from era5_pipeline.model.errors import Era5Error, NoDataError
from era5_pipeline.planning.fetches import (
    FetchFolder,
    PlaceFetch,
    announced_months,
    fetch_command,
    fetch_environment,
    is_held,
)
from era5_pipeline.postgres.connect import open_connection
from era5_pipeline.read.missing import point_name
from era5_pipeline.runtime.supervisor import ChildProcess, ManagedProcess
from era5_pipeline.sources.source import try_lock_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.settings import Settings

_AT_ONCE = 2
_LOOK_SECONDS = 0.5


@dataclass
class _Load:
    dataset: Dataset
    folder: FetchFolder
    fetch: PlaceFetch
    child: ChildProcess
    lock: ExitStack


class FetchRunner:
    """Runs the loads of the places that were asked for; `say` receives what the server's log should have."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._folders = {dataset: FetchFolder(settings.home, dataset) for dataset in DATASETS.values()}
        # By place, which is one of its data set's grid.
        self._loads: dict[Location, _Load] = {}

    def look(self) -> None:
        """Record which loads have ended, and start the next ones."""
        for load in [*self._loads.values()]:
            if load.child.ending() is not None:
                self._end(load)
            elif load.fetch.months is None and (months := announced_months(_text_of(load.child.log.path))) is not None:
                load.fetch = replace(load.fetch, months=months)
                load.folder.write(load.fetch)
        waiting = [(fetch, dataset) for dataset, folder in self._folders.items() for fetch in folder.unfinished()]
        for fetch, dataset in sorted(waiting, key=lambda one: one[0].asked_at):
            if len(self._loads) == _AT_ONCE:
                return
            is_due = fetch.state != "failed" or time.time() >= fetch.next_try
            if is_due and fetch.location not in self._loads:
                self._start(fetch.location, dataset)

    def _start(self, location: Location, dataset: Dataset) -> None:
        """Start the load, unless a command is at it."""
        folder = self._folders[dataset]
        with ExitStack() as stack:
            lock = folder.lock_of(location)
            # A command that has just ended has removed the record.
            if not stack.enter_context(try_lock_month(str(location), lock)) or (
                (fetch := folder.find(location)) is None
            ):
                return
            fetch = replace(fetch, state="loading")
            folder.write(fetch)
            process = ManagedProcess(str(location.location_id), fetch_command(location))
            environment = {**fetch_environment(self._settings), "ERA5_DATASET": dataset.name}
            child = ChildProcess(process, folder.path, environment)
            child.start()
            self._loads[location] = _Load(dataset, folder, fetch, child, stack.pop_all())

    def _end(self, load: _Load) -> None:
        load.child.stop()
        exit_code = load.child.exit_code
        assert exit_code is not None  # noqa: S101  # it has ended
        location, log = load.fetch.location, load.child.log
        why = f"exit code {exit_code}; the last lines of its output:\n{log.last_lines()}"
        if exit_code == 0:
            settings = self._settings.model_copy(update={"dataset": load.dataset.name})
            with suppress(Era5Error), open_connection(settings, "looking for the place") as connection:
                if not is_held(connection, location):
                    why = (
                        "it ended well, but the table that is served has nothing of the place: its sources have "
                        "nothing there, or ERA5_FETCH_DATABASE_URL names another database"
                    )
                    exit_code = NoDataError.exit_code
        failed = load.folder.end(load.fetch, exit_code)
        if exit_code:
            when = f"in {failed.next_try - failed.failed_at:,.0f} s" if failed else "when it is asked for again"
            self._say(f"loading {point_name(location)} for a request failed: {why}\n      It is tried again {when}.")
        else:
            self._say(f"loaded {point_name(location)} for a request")
            log.path.unlink(missing_ok=True)
        self._forget(load)

    def stop(self) -> None:
        """Interrupt the loads; the next server, or command, continues them."""
        for load in [*self._loads.values()]:
            load.child.stop()
            if load.child.exit_code == 0:
                self._end(load)
                continue
            load.folder.write(replace(load.fetch, state="waiting"))
            self._forget(load)

    def _forget(self, load: _Load) -> None:
        load.lock.close()
        del self._loads[load.fetch.location]


@contextmanager
def running_fetches(settings: Settings, say: Callable[[str], None]) -> Iterator[None]:
    """Run the loads of places that requests ask for in a thread in this context; interrupt them at its end."""
    runner, is_over = FetchRunner(settings, say), threading.Event()

    def run() -> None:
        said = None
        try:
            while not is_over.wait(_LOOK_SECONDS):
                try:
                    runner.look()
                except Era5Error as error:  # such as a full disk: another time it may go on
                    if error.message != said:
                        said = error.message
                        say(f"{error.message}\n      {error.remedy}")
        finally:
            runner.stop()

    # Of this thread: the kernel ends the loads with the thread that started them.
    thread = threading.Thread(target=run, name="fetches")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
