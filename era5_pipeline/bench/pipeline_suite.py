"""Measure all stages, from netCDF to queryable rows, with one process per worker; and flattening alone."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.at_once import run_at_once
from era5_pipeline.bench.cells import CannotRunError, Numbers, ratio, take_turns
from era5_pipeline.bench.generated_months import GeneratedMonths
from era5_pipeline.bench.target import Target, count_rows
from era5_pipeline.flat.flatten import flatten_month, read_flat_month
from era5_pipeline.model.settings import Settings
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.sources.source import RawMonth


def run_pipeline(
    target: Target,
    folder: Path,
    *,
    rows: int,
    workers: int,
    repeats: int,
    say: Callable[[str], None],
    dask_scheduler: str | None = None,
) -> dict[str, Any]:
    """Run the suite; return cells, ratios and figures as JSON values.

    Each worker processes a month of about `rows` rows: raw (inventory and digests of existing files), flat, load, and
    the comparison of table and file. `dask_scheduler` is the address of a cluster to compare with.
    """
    say("generating months")
    raws = GeneratedMonths(folder / "source", rows).raw(workers)
    measures: dict[str, Callable[[], tuple[int, Numbers]]] = {
        f"netCDF to rows, {workers} months at once": partial(_all_stages, target, folder, raws),
        "flatten alone": partial(_flatten, folder, raws[0]),
    }
    if dask_scheduler is not None:
        measures["flatten on the Dask cluster"] = partial(_flatten, folder, raws[0], dask_scheduler)
        measures[f"flatten, {workers} months at once"] = partial(_flatten_at_once, folder, raws)
    whole, flat, *others = take_turns(measures, repeats, say).values()
    ratios = ("cluster_to_flatten_alone", "months_at_once_to_flatten_alone")
    return {
        "cells": [cell.to_json() for cell in (whole, flat, *others)],
        "ratios": {
            name: ratio(cell.rows_per_second, flat.rows_per_second) for name, cell in zip(ratios, others, strict=False)
        },
        "figures": {
            "pipeline_rows_per_second": whole.rows_per_second,
            "flatten_rows_per_second": flat.rows_per_second,
            "peak_rss_bytes": max(whole.figures.get("peak_rss_bytes", [0])) or None,
        },
        "layout": target.offered[0],
        "workers": f"{workers} processes, a month each",
    }


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
        # Of this process alone: that of workers is theirs.
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
