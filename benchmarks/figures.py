"""Figures of results: bars and lines of rates, and ratios to the study."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from PIL import Image

from benchmarks.settings import SETTINGS, STEPS, TABLES
from benchmarks.tables import days, published, published_rate, rate_of_cell, rows_per_second, short
from era5_pipeline.draw.figures import add_axes, new_figure, print_title
from era5_pipeline.maps.styles import FAINT, INK
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from benchmarks.tables import Rate, Results

# --- Common parts of all charts: colours, the frame, rates on an axis ---


# Ours is the only warm colour; shades tell tables apart.
OURS = "#c8471b"
COLOURS = {"regular": "#2b6ca3", "hypertable": "#9cc3e0"}
OUR_COLOURS = {"regular": OURS, "hypertable": "#efb08f"}
METHOD_COLOURS = {"psycopg rows": "#2b6ca3", "pandas CSV + COPY": "#6a9a4b", "our loader": OURS}
OUR_METHODS = ("our loader", "era5-pipeline")
WIDTH = 8.0
_DPI = 110
_PALETTE = 128
_RIGHT, _TOP, _BOTTOM = 0.75, 0.95, 0.75


def chart(title: str, below: str, *, height: float, left: float, legend: float = 0.0) -> tuple[Figure, Axes]:
    """A figure with a title, and axes of `height` inches that start `left` inches from the border.

    `legend`: inches to leave above the axes for a legend.
    """
    figure = new_figure(WIDTH, height + _TOP + legend + _BOTTOM, _DPI)
    axes = add_axes(figure, left, _BOTTOM, WIDTH - left - _RIGHT, height)
    print_title(figure, 0.2, title, below)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def save_chart(figure: Figure, path: Path) -> None:
    """Write the chart as a PNG of few colours, a third of the size; the same chart gives the same bytes."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": "era5-pipeline"})
    with Image.open(drawn) as image, replacing(path) as temporary:
        image.convert("RGB").quantize(_PALETTE, method=Image.Quantize.MAXCOVERAGE).save(
            temporary, format="PNG", optimize=True
        )


def rates_on(axis: object) -> None:
    """Format the numbers of an axis (`axes.xaxis`) as rates."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: rows_per_second(value) if value > 0 else "0"))  # type: ignore[attr-defined]


def is_ours(name: str) -> bool:
    """Return whether the method belongs to this project, and not to the study."""
    return name.startswith(OUR_METHODS)


# --- Bars of rates with whiskers from the 10th to the 90th percentile, a pair for each way: table and hypertable ---


_BAR_INCHES = 0.27
_TABLES = ("regular", "hypertable")


def draw_suite(results: Results, path: Path, *, suite: str, title: str) -> bool:
    """Draw a suite's ways: full rates and, if there are any, those of the copy alone; False: nothing measured."""
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
    """Draw all ways to a regular table by rate, with the days that 754 billion rows would take."""
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
    """Draw bars of any numbers, each with a label and a text; labels that start with `ours` in our colour."""
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


def draw_settings(results: Results, path: Path) -> bool:
    """Draw the rate with each setting over that with the defaults, for both kinds of table."""
    server = results.main_server("settings")
    ratios = {} if server is None else results.contents["ratios"].get(server, {}).get("settings", {})
    bars = [
        (f"{name}, {'B-tree' if table == TABLES[0] else 'new tables'}", value, f"{short(value)} x")
        for table in TABLES
        for name in SETTINGS
        if (value := ratios.get(f"{name}, {table}"))
    ]
    if not bars:
        return False
    default = results.rate("settings", f"default, {TABLES[0]}")
    base = "" if default is None else f", which is {rows_per_second(default.median)} rows/s with a B-tree"
    draw_values(
        "What each setting of the server does to a load",
        f"Rate over that with PostgreSQL's defaults{base}. {server}, {results.hardware}",
        bars,
        path,
        line=1,
    )
    return True


def draw_others(results: Results, path: Path) -> bool:
    """Draw the time of the two questions for each contender, warm."""
    server = results.main_server("others")
    cells = {} if server is None else results.of_suite("others", server)
    bars = [
        (f"{name}: {words}", cell["medians"][figure][1], f"{short(cell['medians'][figure][1])} ms")
        for figure, words in (("place_year_warm_ms", "a place's year"), ("month_mean_warm_ms", "July's mean"))
        for name, cell in cells.items()
        if cell["reason"] is None
    ]
    if not bars:
        return False
    rows = max(cell["rows"] for cell in cells.values())
    draw_values(
        "The same year, the same questions",
        f"Milliseconds, warm; {rows:,} rows. {server}, {results.hardware}",
        bars,
        path,
        ours="era5-pipeline",
        log=True,
    )
    return True


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


# --- Lines of rates: batch after batch, by number of connections, and by months in the table ---


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
    """Draw the seconds of each load and of queries against the months in the table."""
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


# --- Ratios, comparable across machines where rates are not: ours to the study's, the ladder to the article's ---


_ROW_INCHES = 0.29
_BASE = "copy, full, psycopg3 rows"


def draw_against_study(results: Results, path: Path) -> bool:
    """Draw each way's rate over that of psycopg rows, in the study and here."""
    study = published()
    base = next(entry for entry in study["rates"] if entry["row"] == _BASE)
    ours_base, _ = published_rate(results, base, "regular")
    if ours_base is None:
        return False
    pairs: list[tuple[str, float | None, float | None]] = []
    for entry in study["rates"]:
        if entry["row"] == _BASE:
            continue
        rate, _ = published_rate(results, entry, "regular")
        ours = None if rate is None else rate.median / ours_base.median
        pairs.append((entry["row"], entry["regular"] / base["regular"], ours))
    for words, suite, name in (
        ("asyncpg records", "copy", "asyncpg records"),
        ("ADBC", "copy", "ADBC ingest"),
        ("this pipeline's loader", "copy", "our loader"),
    ):
        rate = results.rate(suite, f"{name}, regular")
        pairs.append((words, None, None if rate is None else rate.median / ours_base.median))
    _dumbbells(
        pairs,
        "Rates relative to psycopg's row-by-row COPY: the study and here",
        f"Regular table, log scale. Study: {study['study']['hardware']}. Here: {results.hardware}",
        path,
    )
    return True


def draw_ladder(results: Results, path: Path) -> bool:
    """Draw the speed-up of each step over the first, in the article and here."""
    server = results.main_server("ladder")
    if server is None:
        return False
    cells = results.of_suite("ladder", server)
    first = rate_of_cell(cells.get(f"1. {STEPS[0].name}"))
    if first is None:
        return False
    pairs: list[tuple[str, float | None, float | None]] = []
    for number, step in enumerate(STEPS, 1):
        name = f"{number}. {step.name}"
        rate = rate_of_cell(cells.get(name))
        ours = None if rate is None else rate.median / first.median
        pairs.append((name, STEPS[0].article_seconds / step.article_seconds, ours))
    rows = next(iter(cells.values()))["rows"]
    _dumbbells(
        pairs,
        "Loading 60x faster: each step's factor since the first",
        f"Article: 27,405,000 rows, Apple M1. Here: {rows:,} rows, {server}, {results.hardware}",
        path,
        them="article",
    )
    return True


def _dumbbells(
    pairs: Sequence[tuple[str, float | None, float | None]], title: str, below: str, path: Path, them: str = "study"
) -> None:
    figure, axes = chart(title, below, height=_ROW_INCHES * len(pairs), left=3.1)
    for number, (_, theirs, ours) in enumerate(pairs):
        up = number * _ROW_INCHES
        if theirs is not None and ours is not None:
            axes.plot([theirs, ours], [up, up], color="#c9c9c9", linewidth=2, zorder=1)
        right = max(value for value in (theirs, ours, 0.0) if value is not None)
        for value, colour in ((theirs, COLOURS["regular"]), (ours, OURS)):
            if value is None:
                continue
            axes.plot([value], [up], "o", color=colour, markersize=7, zorder=2)
            is_right = value == right
            axes.annotate(
                f"{float(f'{value:.2g}'):,g} x",
                (value, up),
                (8 if is_right else -8, 0),
                textcoords="offset points",
                ha="left" if is_right else "right",
                va="center",
                fontsize=8,
                color=colour,
            )
        if ours is None:
            axes.annotate(
                "null here",
                (right or 1, up),
                (44, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color=FAINT,
            )
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 4, high * 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} x"))
    axes.set_yticks([number * _ROW_INCHES for number in range(len(pairs))], [label for label, _, _ in pairs])
    axes.set_ylim(len(pairs) * _ROW_INCHES - _ROW_INCHES * 0.4, -_ROW_INCHES * 0.6)
    axes.grid(axis="y", visible=False)
    below_axes = -0.42 / (axes.get_position().height * figure.get_size_inches()[1])
    for place, (label, colour) in enumerate(((f"● {them}", COLOURS["regular"]), ("● here", OURS))):
        axes.text(place * 0.16, below_axes, label, transform=axes.transAxes, fontsize=9, color=colour)
    save_chart(figure, path)
