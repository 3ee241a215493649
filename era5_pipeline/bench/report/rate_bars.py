"""Bars of rates with whiskers from the 10th to the 90th percentile, a pair for each way: table and hypertable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter

from era5_pipeline.bench.report.chart_style import COLOURS, OUR_COLOURS, chart, is_ours, rates_on, save_chart
from era5_pipeline.bench.report.found_results import rate_of_cell
from era5_pipeline.bench.report.number_words import days, rows_per_second
from era5_pipeline.query.plots.variable_styles import FAINT, INK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from era5_pipeline.bench.report.found_results import Rate, Results

_BAR_INCHES = 0.27
_TABLES = ("regular", "hypertable")


def draw_suite(results: Results, suite: str, title: str, path: Path) -> bool:
    """Draw a suite's ways, full rates and, where there are some, those of the copy alone; False: nothing measured."""
    server = results.main_server(suite)
    if server is None:
        return False
    cells = results.of_suite(suite, server)
    ways = list(dict.fromkeys(cell["parameters"]["method"] for cell in cells.values()))
    rates = {(way, table): rate_of_cell(cells.get(f"{way}, {table}")) for way in ways for table in _TABLES}
    copies = {
        (way, table): rate_of_cell(cells.get(f"{way}, {table}"), "copy_seconds") for way in ways for table in _TABLES
    }
    shown = [way for way in ways if any(rates[way, table] is not None for table in _TABLES)]
    tables = [table for table in _TABLES if any(rates[way, table] is not None for way in shown)]
    size = next(cell["rows"] for cell in cells.values() if cell["rows"])
    figure, axes = chart(
        title,
        f"Median rows/s of {size:,} rows, whiskers from the 10th to the 90th percentile. {server}, {results.hardware}",
        height=_BAR_INCHES * len(tables) * len(shown) + 0.12 * len(shown),
        left=2.6,
    )
    step = _BAR_INCHES * len(tables) + 0.12
    has_copies = suite == "copy"
    for number, way in enumerate(shown):
        for place, table in enumerate(tables):
            rate, up = rates[way, table], number * step + place * _BAR_INCHES
            colours = OUR_COLOURS if is_ours(way) else COLOURS
            if rate is None:
                reason = cells[f"{way}, {table}"]["reason"] if f"{way}, {table}" in cells else "not measured"
                axes.text(0, up, f" null: {reason}", va="center", fontsize=7.5, color=FAINT)
                continue
            copy = copies[way, table] if has_copies else None
            if copy is not None:
                axes.barh(up, copy.median, _BAR_INCHES * 0.5, color="none", edgecolor=colours[table], linewidth=1)
            _bar(axes, up, rate, colours[table])
            end = max(rate.high, copy.median if copy is not None else 0)
            text = rows_per_second(rate.median)
            if copy is not None:
                text += f"  (copy only {rows_per_second(copy.median)})"
            axes.annotate(text, (end, up), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    axes.set_yticks([number * step + _BAR_INCHES * (len(tables) - 1) / 2 for number in range(len(shown))], shown)
    axes.set_ylim(len(shown) * step - 0.12 * 0.5, -_BAR_INCHES)
    axes.grid(axis="y", visible=False)
    _end(axes, has_copies)
    for place, table in enumerate(tables):
        axes.text(
            place * 0.25,
            -0.4 / (axes.get_position().height * figure.get_size_inches()[1]),
            "■ " + {"regular": "regular table", "hypertable": "hypertable"}[table],
            transform=axes.transAxes,
            fontsize=9,
            color=COLOURS[table],
        )
    if any(is_ours(way) for way in shown):
        axes.text(
            0.5 if len(tables) > 1 else 0.25,
            -0.4 / (axes.get_position().height * figure.get_size_inches()[1]),
            "■ this pipeline",
            transform=axes.transAxes,
            fontsize=9,
            color=OUR_COLOURS["regular"],
        )
    save_chart(figure, path)
    return True


def draw_summary(results: Results, path: Path) -> bool:
    """Draw all ways to a regular table sorted by rate, with the days that 754 billion rows would take."""
    found: list[tuple[str, Rate]] = []
    for suite, words in (("insert", "INSERT"), ("multi-insert", "multi-row INSERT"), ("copy", ""), ("tools", "")):
        server = results.main_server(suite)
        for name, cell in ({} if server is None else results.of_suite(suite, server)).items():
            rate = rate_of_cell(cell)
            if rate is not None and cell["parameters"]["table"] == "regular":
                way = name.removesuffix(", regular")
                found.append((f"{way}, {words}" if words else way, rate))
    server = results.main_server("parallel")
    for method in ("our loader", "psycopg rows"):
        several = {
            name: rate
            for name, cell in ({} if server is None else results.of_suite("parallel", server)).items()
            if cell["parameters"]["method"] == method and cell["parameters"]["table"] == "regular"
            if cell["parameters"]["workers"] > 1 and (rate := rate_of_cell(cell)) is not None
        }
        if several:
            best = max(several, key=lambda name: several[name].median)
            found.append((best.replace(", regular", ""), several[best]))
    if not found:
        return False
    found.sort(key=lambda one: one[1].median)
    figure, axes = chart(
        "How long ERA5 would take: every way to load, by rate",
        f"Rows/s into a regular table with all preparation (tools: CSV ready), log scale. {results.hardware}",
        height=_BAR_INCHES * len(found),
        left=2.9,
    )
    for number, (name, rate) in enumerate(found):
        up = number * _BAR_INCHES
        colours = OUR_COLOURS if is_ours(name) else COLOURS
        _bar(axes, up, rate, colours["regular"])
        text = f"{rows_per_second(rate.median)}   {days(rate.days)}"
        axes.annotate(text, (rate.high, up), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    axes.set_xscale("log")
    lowest, highest = found[0][1].median, found[-1][1].high
    axes.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.35)
    axes.set_yticks([number * _BAR_INCHES for number in range(len(found))], [name for name, _ in found])
    axes.set_ylim(-_BAR_INCHES * 0.7, len(found) * _BAR_INCHES - _BAR_INCHES * 0.3)
    axes.grid(axis="y", visible=False)
    rates_on(axes.xaxis)
    axes.set_xlabel("rows/s; beside each bar the time for the 754 billion rows of 1940 to 2022", fontsize=9, color=INK)
    save_chart(figure, path)
    return True


def draw_values(
    title: str,
    below: str,
    bars: Sequence[tuple[str, float, str]],
    path: Path,
    *,
    ours: str = "",
    log: bool = False,
    line: float | None = None,
) -> None:
    """Draw bars of any numbers, each with its label and a text; labels that begin with `ours` in our colour."""
    figure, axes = chart(title, below, height=_BAR_INCHES * len(bars), left=3.1)
    for number, (label, value, text) in enumerate(bars):
        colour = OUR_COLOURS["regular"] if ours and label.startswith(ours) else COLOURS["regular"]
        axes.barh(number * _BAR_INCHES, value, _BAR_INCHES * 0.75, color=colour)
        at = (value, number * _BAR_INCHES)
        axes.annotate(text, at, (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    axes.set_yticks([number * _BAR_INCHES for number in range(len(bars))], [label for label, _, _ in bars])
    axes.set_ylim(len(bars) * _BAR_INCHES - _BAR_INCHES * 0.4, -_BAR_INCHES * 0.6)
    values = [value for _, value, _ in bars]
    if log:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 2, max(values) * 5)
    else:
        axes.set_xlim(0, max(values) * 1.25)
    if line is not None:
        axes.axvline(line, color=INK, linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.grid(axis="y", visible=False)
    save_chart(figure, path)


def _bar(axes: Axes, up: float, rate: Rate, colour: str) -> None:
    axes.barh(up, rate.median, _BAR_INCHES * 0.8, color=colour)
    if rate.repeats > 1:
        axes.plot([rate.low, rate.high], [up, up], color=INK, linewidth=1.2, solid_capstyle="butt")
        for end in (rate.low, rate.high):
            axes.plot([end, end], [up - 0.06, up + 0.06], color=INK, linewidth=1.2)


def _end(axes: Axes, has_copies: bool) -> None:
    axes.set_xlim(0, axes.get_xlim()[1] * (1.35 if has_copies else 1.15))
    rates_on(axes.xaxis)
    axes.tick_params(axis="x", labelsize=8)
