"""Compare the loader with the fastest possible COPY of the server, and with other tools."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError, Numbers, PlannedCell, ratio
from era5_pipeline.bench.copy_methods import ParallelCopy, RowByRow, ServerFile, no_copy, pipeline_copy
from era5_pipeline.bench.generated import GeneratedMonths, write_csv
from era5_pipeline.bench.processes import load_at_once
from era5_pipeline.bench.servers import Target, count_rows, require_rows
from era5_pipeline.bench.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, measured, rate_of, rate_ratio
from era5_pipeline.warehouse.copy import location_spans
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.bench.suite import BenchContext, Entries
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.layouts import Layout

# Enough at 0.2 million rows/s; more would only take longer.
_ROWS_BY_ROW = 1_000_000
LOADER, SERVER_SIDE, BY_ROW = "loader", "server-side binary COPY", "psycopg rows"
SEVERAL, PARALLEL = "several workers", "timescaledb-parallel-copy"


@contextmanager
def limit_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each way to load a month into the server's own layout."""
    workers = context.some_workers
    with ExitStack() as stack:
        suite = _Limit(context, workers, stack)
        measures: dict[str, Callable[[], tuple[int, Numbers]]] = {
            LOADER: suite.loader,
            SERVER_SIDE: suite.server_side,
            BY_ROW: suite.row_by_row,
            SEVERAL: suite.several,
            PARALLEL: suite.parallel_copy,
        }
        at_once = {SEVERAL, PARALLEL}
        yield [
            PlannedCell(
                name,
                context.rows,
                {"workers": workers if name in at_once else 1},
                lambda measure=measure: measured(measure()),  # type: ignore[misc]
            )
            for name, measure in measures.items()
        ]


def limit_bytes(context: BenchContext) -> int:
    """Bytes on disk for as many months as workers, as tables with their log, and as files."""
    return context.rows * context.some_workers * (2 * TABLE_ROW_BYTES + 2 * FILE_ROW_BYTES)


def limit_ratios(entries: Entries) -> dict[str, float | None]:
    """The loader over each of the other ways.

    The first two compare only the COPY, from Parquet or the server's file to the last row: the later steps (index,
    ANALYZE, exchange) are the same for both, and would make the ratio look better.
    """
    workers = entries.get(SEVERAL, {}).get("parameters", {}).get("workers")
    return {
        "loader_to_limit": rate_ratio(entries, LOADER, SERVER_SIDE, "copy_seconds"),
        "loader_to_psycopg_rows": rate_ratio(entries, LOADER, BY_ROW, "copy_seconds"),
        "loader_to_parallel_copy": rate_ratio(entries, SEVERAL, PARALLEL),
        "two_workers_to_one": ratio(rate_of(entries, SEVERAL), rate_of(entries, LOADER)) if workers == 2 else None,
    }


@dataclass
class _Limit:
    context: BenchContext
    workers: int
    stack: ExitStack

    @property
    def _target(self) -> Target:
        return self.context.target

    @property
    def _layout(self) -> Layout:
        return LAYOUTS[self._target.offered[0]]

    @cached_property
    def _months(self) -> list[FlatMonth]:
        return GeneratedMonths(self.context.folder, self.context.rows).flat(self.workers)

    @property
    def _month(self) -> FlatMonth:
        return self._months[0]

    @cached_property
    def _csv(self) -> Path:
        path = self.context.folder / "month.csv"
        write_csv(self._month, path)
        return path

    @cached_property
    def _server_file(self) -> ServerFile | str:
        """The rows as a file of the server, until the suite ends; or the reason why that is impossible."""
        self.loader()
        with self._target.connect() as connection:
            try:
                file = ServerFile.of_table(connection)
            except CannotRunError as error:
                return str(error)
        self.stack.callback(self._remove, file)
        return file

    def _remove(self, file: ServerFile) -> None:
        with self._target.connect() as connection:
            file.remove(connection)

    def loader(self) -> tuple[int, Numbers]:
        """The pipeline's loader with one connection."""
        rows, numbers = self._target.fill(self._layout, self._month.month, pipeline_copy(self._month))
        require_rows(rows, self._month)
        return rows, numbers

    def server_side(self) -> tuple[int, Numbers]:
        """The upper limit: the server reads its own file."""
        file = self._server_file
        if isinstance(file, str):
            raise CannotRunError(file)
        rows, numbers = self._target.fill(self._layout, self._month.month, nullcontext(file))
        require_rows(rows, self._month)
        return rows, numbers

    def row_by_row(self) -> tuple[int, Numbers]:
        """The best method of the study."""
        copy = RowByRow(self._month, _ROWS_BY_ROW)
        rows, numbers = self._target.fill(self._layout, self._month.month, nullcontext(copy))
        if rows != copy.rows:
            raise CannotRunError(f"{rows:,} rows are in the table, of {copy.rows:,}")
        return rows, numbers | {"write_seconds": copy.write_seconds}

    def several(self) -> tuple[int, Numbers]:
        """One month over several connections; if the layout does not support that, several months at once."""
        if not self._layout.shares_months:
            return load_at_once(self._target, self._layout, self._months)
        spans = location_spans(self._month, self.workers)
        rows, numbers = self._target.fill(
            self._layout, self._month.month, pipeline_copy(self._month, spans), spans=spans
        )
        require_rows(rows, self._month)
        return rows, numbers

    def parallel_copy(self) -> tuple[int, Numbers]:
        """Load into an existing chunk or partition, because the tool does not create it."""
        tool = ParallelCopy(self._csv, self.workers)
        self._target.fill(self._layout, self._month.month, nullcontext(no_copy))
        seconds = tool.run(self._target.warehouse.url)
        with self._target.connect() as connection:
            rows = count_rows(connection)
            require_rows(rows, self._month)
            # Reach the same final state as a load: visibility map and planner statistics up to date.
            started = time.monotonic()
            connection.execute("VACUUM (ANALYZE) weather")
            settled = time.monotonic() - started
        return rows, {"seconds": seconds + settled, "copy_seconds": seconds}
