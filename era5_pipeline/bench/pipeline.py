"""Measure all stages, from netCDF to queryable rows, with one process per worker; and flattening alone."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError, Numbers, PlannedCell
from era5_pipeline.bench.generated import GeneratedMonths
from era5_pipeline.bench.processes import run_at_once
from era5_pipeline.bench.servers import Target, count_rows
from era5_pipeline.bench.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, measured, rate_ratio
from era5_pipeline.flat.flatten import flatten_month, read_flat_month
from era5_pipeline.model.settings import Settings
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.bench.suite import BenchContext, Entries
    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.sources.source import RawMonth

ALL_STAGES, FLATTEN = "netCDF to rows, all workers at once", "flatten alone"
ON_CLUSTER, AT_ONCE = "flatten on the Dask cluster", "flatten, all workers at once"


@contextmanager
def pipeline_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """All stages of as many months at once as there are workers, and flattening alone.

    Each worker processes a month of about `rows` rows: raw (inventory and digests of existing files), flat, load, and
    the comparison of table and file. With the option `dask_scheduler`, flattening on that cluster is compared too.
    """
    workers = context.some_workers
    months = _SourceMonths(context.folder / "source", context.rows, workers)
    dask = context.options.dask_scheduler
    cells = [
        PlannedCell(
            ALL_STAGES,
            workers * context.rows,
            {"workers": workers},
            lambda: measured(_all_stages(context.target, context.folder, months.raw)),
        ),
        PlannedCell(FLATTEN, context.rows, {"workers": 1}, lambda: measured(_flatten(context.folder, months.raw[0]))),
    ]
    if dask is not None:
        cells += [
            PlannedCell(ON_CLUSTER, context.rows, {}, lambda: measured(_flatten(context.folder, months.raw[0], dask))),
            PlannedCell(
                AT_ONCE,
                workers * context.rows,
                {"workers": workers},
                lambda: measured(_flatten_at_once(context.folder, months.raw)),
            ),
        ]
    yield cells


def pipeline_ratios(entries: Entries) -> dict[str, float | None]:
    """A Dask cluster and several months at once, over flattening alone; empty if no cluster was named."""
    if ON_CLUSTER not in entries:
        return {}
    return {
        "cluster_to_flatten_alone": rate_ratio(entries, ON_CLUSTER, FLATTEN),
        "months_at_once_to_flatten_alone": rate_ratio(entries, AT_ONCE, FLATTEN),
    }


def pipeline_bytes(context: BenchContext) -> int:
    """Bytes on disk for the months as files and tables."""
    return context.rows * context.some_workers * (2 * TABLE_ROW_BYTES + 2 * FILE_ROW_BYTES)


@dataclass
class _SourceMonths:
    folder: Path
    rows: int
    count: int

    @cached_property
    def raw(self) -> list[RawMonth]:
        return GeneratedMonths(self.folder, self.rows).raw(self.count)


def _all_stages(target: Target, folder: Path, raws: list[RawMonth]) -> tuple[int, Numbers]:
    target.make_table(LAYOUTS[target.offered[0]])
    with target.connect() as connection:
        connection.execute("TRUNCATE era5.ledger")
    homes = [folder / f"home-{number}" for number in range(len(raws))]
    for home in homes:
        shutil.rmtree(home, ignore_errors=True)
    files = folder / "source" / "raw"
    seconds, results = run_at_once(
        _stages, [(target.warehouse, home, files, raw.month) for home, raw in zip(homes, raws, strict=True)]
    )
    with target.connect() as connection:
        rows = count_rows(connection)
    return rows, {"seconds": seconds, "peak_rss_bytes": max(result.peak_rss_bytes for result in results)}


def _stages(warehouse: Warehouse, home: Path, files: Path, month: Month) -> None:
    """Run one month through the stages, with default settings instead of the user's."""
    settings = Settings(_env_file=None, home=home, source="files", files_dir=str(files), workers=1)
    raw = run_raw(settings, month)
    flat = run_flat(settings, month)
    loaded = run_load(settings, warehouse, month)
    refused = [
        outcome.description for outcome in (*raw.outcomes, *flat.outcomes, *loaded.outcomes) if not outcome.passed
    ]
    if refused:
        raise CannotRunError(refused[0])


def _flatten(folder: Path, raw: RawMonth, dask_scheduler: str | None = None) -> tuple[int, Numbers]:
    home = folder / "flatten"
    shutil.rmtree(home, ignore_errors=True)
    cpu_before, started = time.process_time(), time.monotonic()
    flat = flatten_month(raw, home / "flat", home=home, flat_format="parquet", dask_scheduler=dask_scheduler)
    return flat.rows, {
        "seconds": time.monotonic() - started,
        # For this process only, excluding its workers.
        "cpu_seconds": time.process_time() - cpu_before,
    }


def _flatten_at_once(folder: Path, raws: list[RawMonth]) -> tuple[int, Numbers]:
    folders = [folder / f"at-once-{number}" for number in range(len(raws))]
    seconds, results = run_at_once(_flatten, list(zip(folders, raws, strict=True)))
    rows = sum(_rows(of / "flatten" / "flat", raw.month) for of, raw in zip(folders, raws, strict=True))
    return rows, {"seconds": seconds, "peak_rss_bytes": max(result.peak_rss_bytes for result in results)}


def _rows(folder: Path, month: Month) -> int:
    flat = read_flat_month(folder, month)
    if flat is None:
        raise CannotRunError(f"{month} was not flattened")
    return flat.rows
