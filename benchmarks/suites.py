"""All suites of `era5 bench run`: what is run, listed, printed and drawn follows from this table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.asking import ask_bytes, ask_cells, ask_figures, ask_ratios
from benchmarks.batches import (
    INSERT_ROWS,
    MULTI_INSERT_ROWS,
    batch_bytes,
    conversion_bytes,
    conversion_cells,
    copy_cells,
    insert_cells,
    multi_insert_cells,
    parallel_bytes,
    parallel_cells,
    series_bytes,
    sustained_cells,
    tools_cells,
)
from benchmarks.coverage import coverage_cells, coverage_figures
from benchmarks.figures import (
    draw_ladder,
    draw_others,
    draw_parallel,
    draw_scale,
    draw_settings,
    draw_suite,
    draw_sustained,
)
from benchmarks.formats import formats_bytes, formats_cells, formats_ratios
from benchmarks.lake import lake_bytes, lake_cells, lake_ratios
from benchmarks.layouts import layout_bytes, layout_cells, layout_ratios, scale_bytes, scale_cells, scale_ratios
from benchmarks.methods import unknown
from benchmarks.orchestration import orchestration_bytes, orchestration_cells
from benchmarks.others import others_bytes, others_cells
from benchmarks.pipeline import limit_bytes, limit_cells, limit_ratios, pipeline_bytes, pipeline_cells, pipeline_ratios
from benchmarks.reaching import reach_bytes, reach_cells, reach_figures, reach_ratios
from benchmarks.settings import (
    ladder_bytes,
    ladder_cells,
    ladder_ratios,
    settings_bytes,
    settings_cells,
    settings_ratios,
)
from benchmarks.suite import Suite
from era5_pipeline.model.grid import N_LOCATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOUR = N_LOCATIONS  # rows of a global hour, which the study loads at a time
_A_BATCH = "an hour of the globe"
_MONTH, _A_MONTH = 3_000_000, "a month of 3 million rows"

SUITES: tuple[Suite, ...] = (
    Suite(
        name="insert",
        summary="an INSERT for each row (a 52nd of --rows)",
        load=f"{INSERT_ROWS:,} rows",
        plan=insert_cells,
        rows=_HOUR,
        repeats=10,
        bytes=batch_bytes,
        draw=partial(draw_suite, suite="insert", title="An INSERT for each row"),
    ),
    Suite(
        name="multi-insert",
        summary="many rows in a statement (a tenth of --rows)",
        load=f"{MULTI_INSERT_ROWS:,} rows",
        plan=multi_insert_cells,
        rows=_HOUR,
        repeats=10,
        bytes=batch_bytes,
        draw=partial(draw_suite, suite="multi-insert", title="Many rows in a statement"),
    ),
    Suite(
        name="copy",
        summary="every way to COPY a batch, with and without its preparation",
        load=f"{_A_BATCH}, {N_LOCATIONS:,} rows",
        plan=copy_cells,
        rows=_HOUR,
        repeats=10,
        bytes=batch_bytes,
        draw=partial(draw_suite, suite="copy", title="COPY: with all preparation, and the copy alone"),
    ),
    Suite(
        name="sustained",
        summary="batch after batch into one table",
        load=f"60 times {_A_BATCH} (`--batches 744` for the study's)",
        plan=sustained_cells,
        rows=_HOUR,
        repeats=1,
        bytes=series_bytes,
        draw=draw_sustained,
    ),
    Suite(
        name="parallel",
        summary="several connections, ours and the study's",
        load="twice as many hours of the globe as the most connections",
        plan=parallel_cells,
        rows=_HOUR,
        repeats=3,
        bytes=parallel_bytes,
        draw=draw_parallel,
    ),
    Suite(
        name="tools",
        summary="timescaledb-parallel-copy and pg_bulkload",
        load=f"{_A_BATCH}, as a CSV file",
        plan=tools_cells,
        rows=_HOUR,
        repeats=10,
        bytes=batch_bytes,
        draw=partial(draw_suite, suite="tools", title="Tools, their CSV file ready"),
    ),
    Suite(
        name="settings",
        summary="settings of the server, alone and together",
        load="40 batches of 100,000 rows",
        plan=settings_cells,
        rows=100_000,
        repeats=3,
        bytes=settings_bytes,
        own_server=True,
        ratios=settings_ratios,
        draw=draw_settings,
    ),
    Suite(
        name="conversion",
        summary="convert a full table, or load straight in",
        load="4 hours of the globe",
        plan=conversion_cells,
        rows=_HOUR,
        repeats=3,
        bytes=conversion_bytes,
    ),
    Suite(
        name="ladder",
        summary="the nine steps of Loading 60x faster",
        load="2,740,500 rows (`--rows 27405000` for the article's)",
        plan=ladder_cells,
        rows=2_740_500,
        repeats=1,
        bytes=ladder_bytes,
        own_server=True,
        ratios=ladder_ratios,
        draw=draw_ladder,
    ),
    Suite(
        name="scale",
        summary="1 to 1,020 months in the table",
        load="1,020 months of 18,600 rows (`--held`)",
        plan=scale_cells,
        rows=18_600,
        repeats=1,
        bytes=scale_bytes,
        ratios=scale_ratios,
        draw=draw_scale,
    ),
    Suite(
        name="others",
        summary="xarray, Zarr, DuckDB, ClickHouse on the same year",
        load="12 months of a million rows",
        plan=others_cells,
        rows=1_000_000,
        repeats=3,
        bytes=others_bytes,
        draw=draw_others,
    ),
    Suite(
        name="lake",
        summary="an Iceberg table beside the warehouse, and engines on it",
        load="12 months of a million rows",
        plan=lake_cells,
        rows=1_000_000,
        repeats=3,
        bytes=lake_bytes,
        ratios=lake_ratios,
    ),
    Suite(
        name="ask",
        summary="85 years of a place, and a year beside netCDF",
        load="1,020 months of 74,400 rows (`--held`), asked about one place",
        plan=ask_cells,
        rows=74_400,
        repeats=5,
        bytes=ask_bytes,
        ratios=ask_ratios,
        figures=ask_figures,
        at_least={"netcdf_to_table": 100},
        at_most={
            "years85_yearly_means_seconds": 0.6,
            "years85_all_hours_seconds": 1.2,
            "climate_seconds": 3,
            "monthly_cost": 0.03,
        },
    ),
    Suite(
        name="reach",
        summary="a place as DataFrame, a box as DataArray, years over HTTP",
        load="the same, and a month of a hundred times as many; 3,000 requests",
        plan=reach_cells,
        rows=74_400,
        repeats=3,
        bytes=reach_bytes,
        ratios=reach_ratios,
        figures=reach_figures,
    ),
    Suite(
        name="limit",
        summary="compared with the fastest possible COPY",
        load=_A_MONTH,
        plan=limit_cells,
        rows=_MONTH,
        repeats=3,
        bytes=limit_bytes,
        ratios=limit_ratios,
        at_least={
            "loader_to_limit": 0.95,
            "loader_to_psycopg_rows": 10,
            "loader_to_parallel_copy": 2,
            "two_workers_to_one": 1.4,
            "batches_to_rows": 3,
        },
    ),
    Suite(
        name="layouts",
        summary="rate, space and reads of each",
        load=_A_MONTH,
        plan=layout_cells,
        rows=_MONTH,
        repeats=3,
        bytes=layout_bytes,
        ratios=layout_ratios,
        at_least={"columnstore_to_compress_chunk": 1.7, "columnstore_to_heap": 0.85},
    ),
    Suite(
        name="pipeline",
        summary="all stages, from netCDF to rows",
        load=_A_MONTH,
        plan=pipeline_cells,
        rows=_MONTH,
        repeats=3,
        bytes=pipeline_bytes,
        ratios=pipeline_ratios,
    ),
    Suite(
        name="formats",
        summary="a day of the globe from netCDF-4, GRIB 1 and GRIB 2",
        load="24 hours of the globe, two variables",
        plan=formats_cells,
        rows=24 * _HOUR,
        repeats=5,
        bytes=formats_bytes,
        ratios=formats_ratios,
    ),
    Suite(
        name="coverage",
        summary="intervals of trends, and how often they contain the truth",
        load="10,000 series without a trend",
        plan=coverage_cells,
        rows=10_000,
        repeats=1,
        bytes=lambda _: 0,
        own_server=True,
        figures=coverage_figures,
        at_least={"lowest_coverage": 0.93, "fewest_given": 0.5},
        at_most={"highest_coverage": 0.98, "most_told_warmer": 0.0375},
    ),
    Suite(
        name="orchestration",
        summary="tiny months through daemon and queue",
        load="24 months of four places (`--months`)",
        plan=orchestration_cells,
        rows=0,
        repeats=1,
        bytes=orchestration_bytes,
    ),
)


def find_suites(names: Sequence[str]) -> tuple[Suite, ...]:
    """The suites of these names, in the order of the registry; `all` for all of them.

    Raises:
        UsageError: if a name is unknown; the message suggests the nearest.
    """
    known = [suite.name for suite in SUITES]
    for name in names:
        if name not in (*known, "all"):
            raise unknown("bench run", name, [*known, "all"])
    return tuple(suite for suite in SUITES if "all" in names or suite.name in names)
