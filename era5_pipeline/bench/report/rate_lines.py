"""Lines of rates: batch after batch, by number of connections, and by months in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from era5_pipeline.bench.report.chart_style import METHOD_COLOURS, OURS, chart, rates_on, save_chart
from era5_pipeline.bench.report.found_results import rate_of_cell
from era5_pipeline.query.plots.variable_styles import INK

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.bench.report.found_results import Results

_ROLLING = 10
_STYLES = {"regular": "-", "hypertable": "--"}


def draw_sustained(results: Results, path: Path) -> bool:
    """Draw the rate of each batch as a dot, and its rolling mean as a line."""
    server = results.main_server("sustained")
    if server is None:
        return False
    cells = [cell for cell in results.of_suite("sustained", server).values() if cell["reason"] is None]
    size = cells[0]["rows"] // cells[0]["parameters"]["batches"]
    figure, axes = chart(
        "Batch after batch into one table",
        f"Rows/s of each batch of {size:,} rows (dots), rolling mean (lines). {server}, {results.hardware}",
        height=3.6,
        left=0.9,
        legend=0.35,
    )
    for cell in cells:
        rates = np.array(cell["repeats"][-1]["series"]["rows_per_second"])
        method, table = cell["parameters"]["method"], cell["parameters"]["table"]
        window = max(1, min(_ROLLING, len(rates) // 3))
        means = np.convolve(rates, np.ones(window) / window, "valid")
        millions = np.arange(1, len(rates) + 1) * size / 1e6
        colour = METHOD_COLOURS[method]
        axes.plot(millions, rates, ".", color=colour, markersize=3, alpha=0.35)
        axes.plot(
            millions[window - 1 :], means, _STYLES[table], color=colour, linewidth=1.8, label=f"{method}, {table}"
        )
    axes.set_ylim(bottom=0)
    rates_on(axes.yaxis)
    axes.set_xlabel("million rows in the table", fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 0.98))
    save_chart(figure, path)
    return True


def draw_parallel(results: Results, path: Path) -> bool:
    """Draw the rate by the number of connections."""
    server = results.main_server("parallel")
    if server is None:
        return False
    cells = [cell for cell in results.of_suite("parallel", server).values() if cell["reason"] is None]
    figure, axes = chart(
        "Several connections at once, the same number for each",
        f"Rows/s into one table, {cells[0]['rows']:,} rows in all. {server}, {results.hardware}",
        height=3.6,
        left=0.9,
        legend=0.35,
    )
    for method, colour in METHOD_COLOURS.items():
        for table, style in _STYLES.items():
            found = [
                (cell["parameters"]["workers"], rate)
                for cell in sorted(cells, key=lambda one: one["parameters"]["workers"])
                if (cell["parameters"]["method"], cell["parameters"]["table"]) == (method, table)
                if (rate := rate_of_cell(cell)) is not None
            ]
            if found:
                counts = [count for count, _ in found]
                axes.plot(
                    counts,
                    [rate.median for _, rate in found],
                    style,
                    color=colour,
                    marker="o",
                    markersize=4,
                    linewidth=1.8,
                    label=f"{method}, {table}",
                )
                for count, rate in found:
                    axes.plot([count, count], [rate.low, rate.high], color=colour, linewidth=1)
    counts = sorted({cell["parameters"]["workers"] for cell in cells})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(bottom=0)
    rates_on(axes.yaxis)
    axes.set_xlabel("connections", fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 0.98))
    save_chart(figure, path)
    return True


def draw_scale(results: Results, path: Path) -> bool:
    """Draw the seconds of each load and of queries, by the months in the table."""
    server = results.main_server("scale")
    if server is None:
        return False
    cells = [cell for cell in results.of_suite("scale", server).values() if cell["reason"] is None]
    cells.sort(key=lambda cell: cell["parameters"]["months"])
    figure, axes = chart(
        "As the table grows",
        f"Milliseconds by the months in the table, {cells[-1]['rows']:,} rows each. {server}, {results.hardware}",
        height=3.6,
        left=0.9,
        legend=0.35,
    )
    loads = np.array(cells[-1]["repeats"][-1]["series"]["load_seconds"]) * 1000
    axes.plot(np.arange(1, len(loads) + 1), loads, ".", color=OURS, markersize=3, alpha=0.35)
    held = [cell["parameters"]["months"] for cell in cells]
    lines = (
        ("seconds", "load of a month", OURS, 1000),
        ("place_month_ms", "a place's month", "#2b6ca3", 1),
        ("place_all_ms", "all months of a place", "#6a9a4b", 1),
        ("status_ms", "era5 status", "#8a63a8", 1),
    )
    for name, label, colour, factor in lines:
        values = [cell["medians"][name][1] * factor for cell in cells]
        axes.plot(held, values, "-o", color=colour, markersize=4, linewidth=1.8, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(held))
    axes.xaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.set_xlabel("months in the table", fontsize=9, color=INK)
    axes.set_ylabel("ms", fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.45, 0.98))
    save_chart(figure, path)
    return True
