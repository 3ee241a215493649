"""How fast are questions about one place? 85 years of hours, their yearly means, a year beside netCDF, its climate."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from era5_pipeline.bench.asking.asked_table import MOST_MONTHS, YEAR_SHARE, AskedTable
from era5_pipeline.bench.asking.climate_command import run_climate
from era5_pipeline.bench.asking.questions import (
    FROM_HOURS,
    FROM_SUMMARIES,
    all_hours,
    year_from_netcdf,
    year_of_hours,
    yearly_means,
)
from era5_pipeline.bench.asking.summary_cost import load_with
from era5_pipeline.bench.cells import ratio
from era5_pipeline.bench.runner.planned_cell import PlannedCell
from era5_pipeline.bench.runner.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from era5_pipeline.bench.cells import Numbers
    from era5_pipeline.bench.runner.bench_context import BenchContext
    from era5_pipeline.bench.runner.suite import Entries

ALL_HOURS, YEAR, NETCDF, CLIMATE = "all hours", "a year", "a year, xarray on netCDF", "era5 climate"
MEANS_OF_HOURS, MEANS_OF_MONTHS = "yearly means, from hours", "yearly means, from weather_monthly"
WITH, WITHOUT = "a load with monthly summaries", "a load without monthly summaries"
# The month that is loaded with and without summaries has as many times the rows of one that is asked.
_COST_SHARE = 40


@contextmanager
def ask_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each question; the table is loaded when the first is measured."""
    count = min(MOST_MONTHS, max(context.options.held))
    tables: list[AskedTable] = []

    def asked(question: Callable[[AskedTable], tuple[int, Numbers]]) -> tuple[int, Numbers]:
        if not tables:
            tables.append(AskedTable(context.target, context.folder, context.rows, count))
        return question(tables[0])

    questions: dict[str, Callable[[AskedTable], tuple[int, Numbers]]] = {
        ALL_HOURS: all_hours,
        MEANS_OF_HOURS: partial(yearly_means, statement=FROM_HOURS),
        MEANS_OF_MONTHS: partial(yearly_means, statement=FROM_SUMMARIES),
        YEAR: year_of_hours,
        NETCDF: year_from_netcdf,
        CLIMATE: run_climate,
    }
    cells = [
        PlannedCell(name, context.rows, {"months": count}, partial(lambda one: measured(asked(one)), question))
        for name, question in questions.items()
    ]
    # After the questions, in the same table, of which the month is no part.
    for name, with_summaries in ((WITH, True), (WITHOUT, False)):

        def load(table: AskedTable, *, with_summaries: bool = with_summaries) -> tuple[int, Numbers]:
            table.load()
            rows = _COST_SHARE * context.rows
            return load_with(context.target, context.folder / "cost", rows, summaries=with_summaries)

        cells.append(
            PlannedCell(
                name, _COST_SHARE * context.rows, {"months": count}, partial(lambda one: measured(asked(one)), load)
            )
        )
    yield cells


def ask_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its log, and for the month that is loaded beside it."""
    held = min(MOST_MONTHS, max(context.options.held)) + 12 * YEAR_SHARE + 2 * _COST_SHARE
    return context.rows * held * TABLE_ROW_BYTES + _COST_SHARE * context.rows * 2 * FILE_ROW_BYTES


def ask_figures(entries: Entries) -> dict[str, float | None]:
    """Seconds of the questions about 85 years, each from a new connection; None of a table with fewer months."""
    of_months, of_hours = (_seconds(entries, name) for name in (MEANS_OF_MONTHS, MEANS_OF_HOURS))
    return {
        "years85_yearly_means_seconds": of_hours if of_months is None else of_months,
        "years85_yearly_means_from_hours_seconds": of_hours,
        "years85_all_hours_seconds": _seconds(entries, ALL_HOURS),
        "climate_seconds": _seconds(entries, CLIMATE),
        "year_seconds": _median(entries, YEAR, "seconds"),
        "year_connected_seconds": _median(entries, YEAR, "connected_seconds"),
    }


def ask_ratios(entries: Entries) -> dict[str, float | None]:
    """How many times as long the year takes from netCDF files, and what share of a load the summaries take."""
    with_, without = (_median(entries, name, "seconds") for name in (WITH, WITHOUT))
    return {
        "netcdf_to_table": ratio(_median(entries, NETCDF, "seconds"), _median(entries, YEAR, "connected_seconds")),
        "monthly_cost": None if with_ is None or without is None else round(with_ / without - 1, 4),
    }


def _seconds(entries: Entries, name: str) -> float | None:
    entry = entries.get(name)
    is_whole = entry is not None and entry["parameters"]["months"] == MOST_MONTHS
    return _median(entries, name, "seconds") if is_whole else None


def _median(entries: Entries, name: str, figure: str) -> float | None:
    entry = entries.get(name)
    if entry is None or entry["reason"] is not None or figure not in entry["medians"]:
        return None
    return float(entry["medians"][figure][1])
