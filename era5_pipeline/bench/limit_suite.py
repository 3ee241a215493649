"""Compare the loader with the fastest possible COPY of the server, and with other tools."""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.at_once import load_at_once
from era5_pipeline.bench.cells import CannotRunError, Numbers, ratio, take_turns
from era5_pipeline.bench.copy_methods import ParallelCopy, RowByRow, ServerFile, no_copy, pipeline_copy
from era5_pipeline.bench.generated_months import GeneratedMonths, write_csv
from era5_pipeline.bench.target import Target, count_rows, require_rows
from era5_pipeline.warehouse.copy import location_spans
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.warehouse.layouts import Layout

# Enough at 0.2 million rows/s; more would only take longer.
_ROWS_BY_ROW = 1_000_000


def run_limit(
    target: Target, folder: Path, *, rows: int, workers: int, repeats: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run the suite; return cells, ratios and figures as JSON values."""
    say("generating months")
    months = GeneratedMonths(folder, rows).flat(max(2, workers))
    csv = folder / "month.csv"
    write_csv(months[0], csv)
    layout = LAYOUTS[target.offered[0]]
    with ExitStack() as stack:
        suite = _Limit(target, layout, tuple(months), ParallelCopy(csv, workers), workers)
        server_file = suite.server_file(stack)
        measures: dict[str, Callable[[], tuple[int, Numbers]]] = {
            "loader": suite.loader,
            "server-side binary COPY": partial(suite.server_side, server_file),
            "psycopg rows": suite.row_by_row,
            f"{workers} workers": suite.several,
            f"timescaledb-parallel-copy, {workers} workers": suite.parallel_copy,
        }
        cells = take_turns(measures, repeats, say)
    loader, limit, by_row, several, parallel = cells.values()
    return {
        "cells": [cell.to_json() for cell in cells.values()],
        "ratios": {
            # Only the COPY itself, from Parquet or the server's file to the last row: the steps after it (index,
            # ANALYZE, exchange) are the same for both, and would make the ratio look better.
            "loader_to_limit": ratio(loader.rate_of("copy_seconds"), limit.rate_of("copy_seconds")),
            "loader_to_psycopg_rows": ratio(loader.rate_of("copy_seconds"), by_row.rate_of("copy_seconds")),
            "loader_to_parallel_copy": ratio(several.rows_per_second, parallel.rows_per_second),
            "two_workers_to_one": ratio(several.rows_per_second, loader.rows_per_second) if workers == 2 else None,
        },
        "figures": {
            "loader_rows_per_second": loader.rows_per_second,
            "limit_copy_rows_per_second": limit.rate_of("copy_seconds"),
        },
        "layout": layout.name,
        "workers": f"{workers} connections for one month" if layout.shares_months else f"{workers} months at once",
    }


class _Limit:
    def __init__(
        self,
        target: Target,
        layout: Layout,
        months: tuple[FlatMonth, ...],
        parallel_copy: ParallelCopy,
        workers: int,
    ) -> None:
        self._target = target
        self._layout = layout
        self._month = months[0]
        self._months = months
        self._parallel_copy = parallel_copy
        self._workers = workers

    def server_file(self, stack: ExitStack) -> ServerFile | str:
        """The rows as a file of the server, as long as `stack` is open; or the reason why there is none."""
        self.loader()
        with self._target.connect() as connection:
            try:
                file = ServerFile.of_table(connection)
            except CannotRunError as error:
                return str(error)
        stack.callback(self._remove, file)
        return file

    def _remove(self, file: ServerFile) -> None:
        with self._target.connect() as connection:
            file.remove(connection)

    def loader(self) -> tuple[int, Numbers]:
        rows, numbers = self._target.fill(self._layout, self._month.month, pipeline_copy(self._month))
        require_rows(rows, self._month)
        return rows, numbers

    def server_side(self, file: ServerFile | str) -> tuple[int, Numbers]:
        if isinstance(file, str):
            raise CannotRunError(file)
        rows, numbers = self._target.fill(self._layout, self._month.month, nullcontext(file))
        require_rows(rows, self._month)
        return rows, numbers

    def row_by_row(self) -> tuple[int, Numbers]:
        copy = RowByRow(self._month, _ROWS_BY_ROW)
        rows, numbers = self._target.fill(self._layout, self._month.month, nullcontext(copy))
        if rows != copy.rows:
            raise CannotRunError(f"{rows:,} rows are in the table, of {copy.rows:,}")
        return rows, numbers | {"write_seconds": copy.write_seconds}

    def several(self) -> tuple[int, Numbers]:
        """One month by several connections; if the layout does not support it, several months at once."""
        if not self._layout.shares_months:
            return load_at_once(self._target, self._layout, self._months[: self._workers])
        spans = location_spans(self._month, self._workers)
        rows, numbers = self._target.fill(
            self._layout, self._month.month, pipeline_copy(self._month, spans), spans=spans
        )
        require_rows(rows, self._month)
        return rows, numbers

    def parallel_copy(self) -> tuple[int, Numbers]:
        """Load into an existing chunk or partition, because the tool does not create it."""
        self._target.fill(self._layout, self._month.month, nullcontext(no_copy))
        seconds = self._parallel_copy.run(self._target.warehouse.url)
        with self._target.connect() as connection:
            rows = count_rows(connection)
            require_rows(rows, self._month)
            # The same final state as after a load: visibility map and planner statistics are up to date.
            started = time.monotonic()
            connection.execute("VACUUM (ANALYZE) weather")
            settled = time.monotonic() - started
        return rows, {"seconds": seconds + settled, "copy_seconds": seconds}
