"""All suites of `era5 bench run`: to add one, write a module that plans its cells, and add an entry here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.bench.asking import ask_bytes, ask_cells, ask_figures, ask_ratios
from era5_pipeline.bench.conversion import conversion_bytes, conversion_cells
from era5_pipeline.bench.ladder import ladder_bytes, ladder_cells, ladder_ratios
from era5_pipeline.bench.layouts import layout_bytes, layout_cells, layout_ratios
from era5_pipeline.bench.limit import limit_bytes, limit_cells, limit_ratios
from era5_pipeline.bench.methods import batch_bytes, copy_cells, insert_cells, multi_insert_cells, tools_cells, unknown
from era5_pipeline.bench.orchestration import orchestration_bytes, orchestration_cells
from era5_pipeline.bench.others import others_bytes, others_cells
from era5_pipeline.bench.parallel import parallel_bytes, parallel_cells, series_bytes, sustained_cells
from era5_pipeline.bench.pipeline import pipeline_bytes, pipeline_cells, pipeline_ratios
from era5_pipeline.bench.reaching import reach_bytes, reach_cells, reach_figures, reach_ratios
from era5_pipeline.bench.scale import scale_bytes, scale_cells, scale_ratios
from era5_pipeline.bench.settings import settings_bytes, settings_cells, settings_ratios
from era5_pipeline.bench.suite import Suite
from era5_pipeline.model.grid import N_LOCATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

_HOUR = N_LOCATIONS  # rows of a global hour, which the study loads at a time
_MONTH = 3_000_000

# Name, description, cells, the defaults of --rows and --repeats, and the bytes needed on disk.
SUITES: tuple[Suite, ...] = (
    Suite("insert", "an INSERT for each row (a 52nd of --rows)", insert_cells, _HOUR, 10, batch_bytes),
    Suite("multi-insert", "many rows in a statement (a tenth of --rows)", multi_insert_cells, _HOUR, 10, batch_bytes),
    Suite("copy", "every way to COPY a batch, with and without its preparation", copy_cells, _HOUR, 10, batch_bytes),
    Suite("sustained", "batch after batch into one table", sustained_cells, _HOUR, 1, series_bytes),
    Suite("parallel", "several connections, ours and the study's", parallel_cells, _HOUR, 3, parallel_bytes),
    Suite("tools", "timescaledb-parallel-copy and pg_bulkload", tools_cells, _HOUR, 10, batch_bytes),
    Suite(
        *("settings", "settings of the server, alone and together", settings_cells, 100_000, 3, settings_bytes),
        own_server=True,
        ratios=settings_ratios,
    ),
    Suite("conversion", "convert a full table, or load straight in", conversion_cells, _HOUR, 3, conversion_bytes),
    Suite(
        *("ladder", "the nine steps of Loading 60x faster", ladder_cells, 2_740_500, 1, ladder_bytes),
        own_server=True,
        ratios=ladder_ratios,
    ),
    Suite("scale", "1 to 1,020 months in the table", scale_cells, 18_600, 1, scale_bytes, ratios=scale_ratios),
    Suite("others", "xarray, Zarr, DuckDB, ClickHouse on the same year", others_cells, 1_000_000, 3, others_bytes),
    Suite(
        *("ask", "85 years of a place, and a year beside netCDF", ask_cells, 74_400, 5, ask_bytes),
        ratios=ask_ratios,
        figures=ask_figures,
    ),
    Suite(
        *("reach", "a place as DataFrame, a box as DataArray, years over HTTP", reach_cells, 74_400, 3, reach_bytes),
        ratios=reach_ratios,
        figures=reach_figures,
    ),
    Suite("limit", "compared with the fastest possible COPY", limit_cells, _MONTH, 3, limit_bytes, ratios=limit_ratios),
    Suite("layouts", "rate, space and reads of each", layout_cells, _MONTH, 3, layout_bytes, ratios=layout_ratios),
    Suite(
        *("pipeline", "all stages, from netCDF to rows", pipeline_cells, _MONTH, 3, pipeline_bytes),
        ratios=pipeline_ratios,
    ),
    Suite("orchestration", "tiny months through daemon and queue", orchestration_cells, 0, 1, orchestration_bytes),
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
