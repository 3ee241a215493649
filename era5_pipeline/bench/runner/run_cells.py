"""Measure the cells of a suite in turns, leaving out what an earlier run has measured."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.bench.runner.bench_progress import BenchProgress
    from era5_pipeline.bench.runner.planned_cell import PlannedCell
    from era5_pipeline.bench.runner.results_file import ResultsFile


def run_cells(
    suite: str, cells: Sequence[PlannedCell], repeats: int, results: ResultsFile, progress: BenchProgress
) -> None:
    """Measure each cell until it has as many repeats as asked; all once, then all again, each round in another order.

    Every repeat is written at once. A cell that cannot be measured is tried once, and keeps its reason.
    """
    done = {cell.name: min(results.repeats_of(suite, cell), _wanted(cell, repeats)) for cell in cells}
    for cell in cells:
        if done[cell.name]:
            progress.kept(suite, cell, done[cell.name])
    warmed: set[str] = set()
    for number in range(repeats):
        first = number % len(cells) if cells else 0
        for cell in [*cells[first:], *cells[:first]]:
            if done[cell.name] > number or number >= _wanted(cell, repeats):
                continue
            progress.begin(suite, cell, number + 1, _wanted(cell, repeats))
            started = time.monotonic()
            try:
                if cell.warm_up is not None and cell.name not in warmed:
                    # What fails here fails in the measurement too, which says why.
                    with suppress(CannotRunError):
                        cell.warm_up()
                    warmed.add(cell.name)
                measured = cell.measure()
            except CannotRunError as error:
                results.add_reason(suite, cell, str(error))
                done[cell.name] = repeats
                progress.cannot(suite, cell, str(error))
                continue
            entry = results.add(suite, cell, measured)
            progress.measured(suite, cell, entry, time.monotonic() - started)


def _wanted(cell: PlannedCell, repeats: int) -> int:
    return min(repeats, cell.most_repeats or repeats)


def wanted_repeats(cells: Sequence[PlannedCell], repeats: int) -> dict[str, int]:
    """How many repeats each cell is to have, by name."""
    return {cell.name: _wanted(cell, repeats) for cell in cells}
