"""A run of suites: free disk space, a database or a server for each, its cells in turns, and their results."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.cells import CannotRunError, Laps, Measured, PlannedCell
from benchmarks.results import BenchProgress, ResultsFile, describe_environment, describe_own, figure_of
from benchmarks.servers import SYNCED_ROWS, new_target
from benchmarks.suite import BenchContext, BenchOptions, Suite
from era5_pipeline.model.errors import Era5Error, LocalDiskError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.doctor.server_facts import is_session_here, log_folder
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.runtime.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


# Reserve for other uses of the disk meanwhile: the server's log, temporary files of others.
_RESERVE_BYTES = 1_000_000_000


def require_space(needed: Mapping[str, int], folders: Mapping[str, Path]) -> None:
    """Require that each disk has the bytes that the largest suite needs at a time.

    `needed` is by suite; `folders` are the folders written to: the benchmark's own, and the server's if it is on this
    machine.
    """
    suite, most = max(needed.items(), key=lambda one: one[1], default=("", 0))
    for what, folder in folders.items():
        free = shutil.disk_usage(folder).free
        if free < most + _RESERVE_BYTES:
            raise LocalDiskError(
                f"the suite {suite} needs about {_gigabytes(most + _RESERVE_BYTES)} for {what}, and {folder} has "
                f"{_gigabytes(free)} free",
                remedy="Free space there, or measure with fewer --rows (or --batches).",
            )


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:,.1f} GB"


def run_cells(
    suite: str, cells: Sequence[PlannedCell], repeats: int, results: ResultsFile, progress: BenchProgress
) -> None:
    """Measure each cell until it has all its repeats, in rounds over all cells, each round in another order.

    Every repeat is written at once. A cell that cannot be measured is tried once, and its reason is stored.
    """
    wanted = wanted_repeats(cells, repeats)
    done = {cell.name: min(results.repeats_of(suite, cell), wanted[cell.name]) for cell in cells}
    for name, kept in done.items():
        if kept:
            progress.tell(suite, name, f"{kept} repeats kept", kept)
    warmed: set[str] = set()
    for number in range(repeats):
        first = number % len(cells) if cells else 0
        for cell in [*cells[first:], *cells[:first]]:
            if not done[cell.name] <= number < wanted[cell.name]:
                continue
            progress.begin(suite, cell.name, number + 1, wanted[cell.name])
            load, clock = os.getloadavg()[0], Laps()
            try:
                measured = _measured(cell, is_warm=cell.name in warmed)
            except CannotRunError as error:
                results.add_reason(suite, cell, str(error))
                done[cell.name] = repeats
                progress.tell(suite, cell.name, f"null ({error})")
                continue
            warmed.add(cell.name)
            entry = results.add(suite, cell, measured, load)
            progress.tell(suite, cell.name, figure_of(entry), 1, clock.lap())


def _measured(cell: PlannedCell, *, is_warm: bool) -> Measured:
    if (reason := cell.why_missing()) is not None:
        raise CannotRunError(reason)
    if cell.warm_up is not None and not is_warm:
        with suppress(CannotRunError):  # which recurs in the measurement
            cell.warm_up()
    return cell.measure()


def wanted_repeats(cells: Sequence[PlannedCell], repeats: int) -> dict[str, int]:
    """The number of repeats of each cell, by name."""
    return {cell.name: min(repeats, cell.most_repeats or repeats) for cell in cells}


# --- A run of suites: a database or a server for each, its cells in turns, and their results ---
#
# Without a URL, they are measured on an embedded server for this run, with the pipeline's settings.


_PREFIX = "bench-"


def run_plan(
    suites: Sequence[Suite],
    options: BenchOptions,
    home: Path,
    results: ResultsFile,
    say: Callable[[str], None],
    now: Callable[[str], None],
) -> None:
    """Run the suites one after another; each repeat is stored in `results` when it is done."""
    stop_abandoned(home)
    with temporary_folder(home, _PREFIX) as folder, ExitStack() as stack:
        # The server's user must be able to enter the folder, to read CSV files.
        folder.chmod(0o755)
        contexts = [BenchContext(None, folder / suite.name, options.rows or suite.rows, options) for suite in suites]
        plans = list(zip(suites, contexts, (options.repeats or suite.repeats for suite in suites), strict=True))
        needed = {suite.name: suite.bytes(context) for suite, context, _ in plans}
        require_space(needed, {"files and tables": folder})
        wanted = {suite.name: wanted_repeats(suite.plan(context), repeats) for suite, context, repeats in plans}
        progress = BenchProgress(wanted, say, now)
        warehouse: Warehouse | None = None
        for suite, context, repeats in plans:
            if not suite.own_server and warehouse is None:
                now("starting a server" if options.url is None else "connecting")
                warehouse = Warehouse(options.url or stack.enter_context(EmbeddedServer(folder / "server").lease()))
                if options.url is not None:
                    require_space(needed, _server_folders(warehouse))
            _run_suite(suite, context, repeats, None if suite.own_server else warehouse, results, progress)


def _run_suite(
    suite: Suite,
    context: BenchContext,
    repeats: int,
    warehouse: Warehouse | None,
    results: ResultsFile,
    progress: BenchProgress,
) -> None:
    with ExitStack() as stack:
        context.folder.mkdir()
        stack.callback(shutil.rmtree, context.folder, ignore_errors=True)
        server = None
        if warehouse is None:
            environment = describe_own(context.folder)
        else:
            server = stack.enter_context(new_target(warehouse, syncs=context.rows >= SYNCED_ROWS))
            with server.connect() as connection:
                environment = describe_environment(connection, context.folder)
        environment["server"]["is_own"] = context.options.url is None or warehouse is None
        results.use_environment(environment)
        cells = suite.plan(replace(context, server=server, stack=stack))
        run_cells(suite.name, cells, repeats, results, progress)
        entries = {cell.name: entry for cell in cells if (entry := results.entry(suite.name, cell.name)) is not None}
        results.set_summary(suite.name, suite.figures(entries), suite.ratios(entries))


def _server_folders(warehouse: Warehouse) -> dict[str, Path]:
    """The server's folder, if it is on this machine and visible."""
    with warehouse.connect() as connection:
        info = connection.info
        with socket.socket(fileno=os.dup(connection.fileno())) as connected:
            port = None if info.host.startswith("/") else int(connected.getsockname()[1])
        pid = info.backend_pid
        folder = log_folder(pid, None) if is_session_here(pid, info.user, info.dbname, port) else None
        # While the session exists, as its process leads to the folder.
        found = None if folder is None else folder.resolve()
    return {} if found is None or not found.is_dir() else {"tables of the server": found}


def stop_abandoned(home: Path) -> None:
    """Stop embedded servers left by killed runs; their folders are removed when the next one is made."""
    for folder in home.glob(f"{_PREFIX}*"):
        # A folder in use belongs to a run in progress.
        with suppress(Era5Error, OSError):
            EmbeddedServer(folder / "server").stop()
