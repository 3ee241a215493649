"""Figures of results: bars and lines of rates, and ratios to the study. None: nothing of it was measured."""

from __future__ import annotations

from functools import partial
from io import BytesIO
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from PIL import Image

from benchmarks.cells import median_of
from benchmarks.settings import SETTINGS, STEPS, TABLES
from benchmarks.tables import days, published, published_rate, rate_of_cell, rows_per_second, short
from era5_pipeline.draw.figures import add_axes, new_figure, print_title
from era5_pipeline.maps.styles import FAINT, INK
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from benchmarks.tables import Rate, Results

# --- Common parts of all charts: colours, the frame, rates on an axis ---


# Ours is the only warm colour; shades tell tables apart.
_OURS = "#c8471b"
_COLOURS = {"regular": "#2b6ca3", "hypertable": "#9cc3e0"}
_OUR_COLOURS = {"regular": _OURS, "hypertable": "#efb08f"}
_METHOD_COLOURS = {"psycopg rows": "#2b6ca3", "pandas CSV + COPY": "#6a9a4b", "our loader": _OURS}
_OUR_METHODS = ("our loader", "era5-pipeline")
_WIDTH = 8.0
_DPI = 110
_PALETTE = 128
_RIGHT, _TOP, _BOTTOM = 0.75, 0.95, 0.75


def _chart(title: str, below: str, *, height: float, left: float, legend: float = 0.0) -> tuple[Figure, Axes]:
    """A figure with a title, and axes of `height` inches that start `left` inches from the border.

    `legend`: inches to leave above the axes for a legend.
    """
    figure = new_figure(_WIDTH, height + _TOP + legend + _BOTTOM, _DPI)
    axes = add_axes(figure, left, _BOTTOM, _WIDTH - left - _RIGHT, height)
    print_title(figure, 0.2, title, below)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _rows(
    title: str, below: str, labels: Sequence[str], *, step: float, left: float = 3.1, margin: float = 0.6
) -> tuple[Figure, Axes]:
    """A chart with a row of `step` inches for each label, from the top; `margin`: rows above the first."""
    figure, axes = _chart(title, below, height=step * len(labels), left=left)
    axes.set_yticks([number * step for number in range(len(labels))], labels)
    axes.set_ylim((len(labels) - 1 + margin) * step, -margin * step)
    axes.grid(axis="y", visible=False)
    return figure, axes


def save_chart(figure: Figure, path: Path) -> None:
    """Write the chart as a PNG of few colours, a third of the size; the same chart gives the same bytes."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": "era5-pipeline"})
    with Image.open(drawn) as image, replacing(path) as temporary:
        image.convert("RGB").quantize(_PALETTE, method=Image.Quantize.MAXCOVERAGE).save(
            temporary, format="PNG", optimize=True
        )


def _format(axis: Any, text: Callable[[float], str]) -> None:  # noqa: ANN401  # `axes.xaxis` is loosely typed
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))


def _rates_on(axis: Any) -> None:  # noqa: ANN401
    _format(axis, lambda value: rows_per_second(value) if value > 0 else "0")


def _beside(axes: Axes, at: tuple[float, float], text: str, right: float = 4, **style: Any) -> None:  # noqa: ANN401
    """Write a text `right` points beside a place of the chart."""
    words = {"fontsize": 8, "color": INK, **style}
    axes.annotate(text, at, (right, 0), textcoords="offset points", va="center", **words)


def _below(figure: Figure, axes: Axes, inches: float, words: Sequence[tuple[float, str, str]]) -> None:
    """Write texts, each at a share of the width and in a colour, this many inches below the axes."""
    down = -inches / (axes.get_position().height * figure.get_size_inches()[1])
    for place, text, colour in words:
        axes.text(place, down, text, transform=axes.transAxes, fontsize=9, color=colour)


def _is_ours(name: str) -> bool:
    """Return whether the method belongs to this project, and not to the study."""
    return name.startswith(_OUR_METHODS)


# --- Bars of rates with whiskers from the 10th to the 90th percentile, a pair for each way: table and hypertable ---


_BAR_INCHES = 0.27
_TABLES = {"regular": "regular table", "hypertable": "hypertable"}


def _draw_suite(results: Results, *, suite: str, title: str) -> Figure | None:
    """Draw a suite's ways: full rates and, for copies, those of the copy alone."""
    server = results.main_server(suite)
    if server is None:
        return None
    cells = results.of_suite(suite, server)
    ways = list(dict.fromkeys(cell["parameters"]["method"] for cell in cells.values()))
    rates = {(way, table): rate_of_cell(cells.get(f"{way}, {table}")) for way in ways for table in _TABLES}
    shown = [way for way in ways if any(rates[way, table] is not None for table in _TABLES)]
    tables = [table for table in _TABLES if any(rates[way, table] is not None for way in shown)]
    size = next(cell["rows"] for cell in cells.values() if cell["rows"])
    step = _BAR_INCHES * len(tables) + 0.12
    figure, axes = _rows(
        title,
        f"Median rows/s of {size:,} rows, whiskers from the 10th to the 90th percentile. {server}, {results.hardware}",
        shown,
        step=step,
        left=2.6,
    )
    for number, way in enumerate(shown):
        colours = _OUR_COLOURS if _is_ours(way) else _COLOURS
        for place, table in enumerate(tables):
            cell = cells.get(f"{way}, {table}")
            rate, up = rates[way, table], number * step + place * _BAR_INCHES
            if rate is None:
                reason = "not measured" if cell is None else cell["reason"]
                axes.text(0, up, f" null: {reason}", va="center", fontsize=7.5, color=FAINT)
                continue
            copy = rate_of_cell(cell, "copy_seconds") if suite == "copy" else None
            text, end = rows_per_second(rate.median), rate.high
            if copy is not None:
                axes.barh(up, copy.median, _BAR_INCHES * 0.5, color="none", edgecolor=colours[table], linewidth=1)
                text, end = f"{text}  (copy only {rows_per_second(copy.median)})", max(end, copy.median)
            _bar(axes, up, rate, colours[table])
            _beside(axes, (end, up), text)
    axes.set_yticks([number * step + _BAR_INCHES * (len(tables) - 1) / 2 for number in range(len(shown))], shown)
    axes.set_ylim(len(shown) * step - 0.12 * 0.5, -_BAR_INCHES)
    axes.set_xlim(0, axes.get_xlim()[1] * (1.35 if suite == "copy" else 1.15))
    _rates_on(axes.xaxis)
    axes.tick_params(axis="x", labelsize=8)
    words = [(place * 0.25, f"■ {_TABLES[table]}", _COLOURS[table]) for place, table in enumerate(tables)]
    if any(_is_ours(way) for way in shown):
        words.append((0.5 if len(tables) > 1 else 0.25, "■ this pipeline", _OURS))
    _below(figure, axes, 0.4, words)
    return figure


def _draw_summary(results: Results) -> Figure | None:
    """Draw all ways to a regular table by rate, with the days that 754 billion rows would take."""
    found: list[tuple[str, Rate]] = []
    for suite, words in (("insert", ", INSERT"), ("multi-insert", ", multi-row INSERT"), ("copy", ""), ("tools", "")):
        found += [
            (name.removesuffix(", regular") + words, rate)
            for name, cell in results.main_cells(suite).items()
            if cell["parameters"]["table"] == "regular" and (rate := rate_of_cell(cell)) is not None
        ]
    for method in ("our loader", "psycopg rows"):
        several = [
            (f"{method}, {count} workers", rate)
            for count, rate in results.by_connections(method, "regular")
            if count > 1
        ]
        found += sorted(several, key=lambda one: -one[1].median)[:1]
    if not found:
        return None
    found.sort(key=lambda one: -one[1].median)
    figure, axes = _rows(
        "How long ERA5 would take: every way to load, by rate",
        f"Rows/s into a regular table with all preparation (tools: CSV ready), log scale. {results.hardware}",
        [name for name, _ in found],
        step=_BAR_INCHES,
        left=2.9,
        margin=0.7,
    )
    for number, (name, rate) in enumerate(found):
        up = number * _BAR_INCHES
        _bar(axes, up, rate, (_OUR_COLOURS if _is_ours(name) else _COLOURS)["regular"])
        _beside(axes, (rate.high, up), f"{rows_per_second(rate.median)}   {days(rate.days)}")
    axes.set_xscale("log")
    lowest, highest = found[-1][1].median, found[0][1].high
    axes.set_xlim(lowest / 2, highest * (highest / lowest) ** 0.35)
    _rates_on(axes.xaxis)
    axes.set_xlabel("rows/s; beside each bar the time for the 754 billion rows of 1940 to 2022", fontsize=9, color=INK)
    return figure


def _draw_values(
    title: str, below: str, bars: Sequence[tuple[str, float, str]], *, log: bool = False, line: float | None = None
) -> Figure | None:
    """Draw bars of any numbers, each with a label and a text."""
    if not bars:
        return None
    figure, axes = _rows(title, below, [label for label, _, _ in bars], step=_BAR_INCHES)
    for number, (label, value, text) in enumerate(bars):
        colour = _OURS if label.startswith("era5-pipeline") else _COLOURS["regular"]
        axes.barh(number * _BAR_INCHES, value, _BAR_INCHES * 0.75, color=colour)
        _beside(axes, (value, number * _BAR_INCHES), text)
    values = [value for _, value, _ in bars]
    if log:
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 2, max(values) * 5)
    else:
        axes.set_xlim(0, max(values) * 1.25)
    if line is not None:
        axes.axvline(line, color=INK, linewidth=0.8)
    _format(axes.xaxis, lambda value: f"{value:,g}")
    return figure


def _draw_settings(results: Results) -> Figure | None:
    """Draw the rate with each setting over that with the defaults, for both kinds of table."""
    bars = [
        (f"{name}, {'B-tree' if table == TABLES[0] else 'new tables'}", value, f"{short(value)} x")
        for table in TABLES
        for name in SETTINGS
        if (value := results.ratios("settings").get(f"{name}, {table}"))
    ]
    default = results.rate("settings", f"default, {TABLES[0]}")
    base = "" if default is None else f", which is {rows_per_second(default.median)} rows/s with a B-tree"
    return _draw_values(
        "What each setting of the server does to a load",
        f"Rate over that with PostgreSQL's defaults{base}. {results.main_server('settings')}, {results.hardware}",
        bars,
        line=1,
    )


def _draw_others(results: Results) -> Figure | None:
    """Draw the time of the two questions for each contender, warm."""
    cells = results.main_cells("others")
    bars = [
        (f"{name}: {words}", value, f"{short(value)} ms")
        for figure, words in (("place_year_warm_ms", "a place's year"), ("month_mean_warm_ms", "July's mean"))
        for name in cells
        if (value := median_of(cells, name, figure)) is not None
    ]
    rows = max((cell["rows"] for cell in cells.values()), default=0)
    return _draw_values(
        "The same year, the same questions",
        f"Milliseconds, warm; {rows:,} rows. {results.main_server('others')}, {results.hardware}",
        bars,
        log=True,
    )


def _bar(axes: Axes, up: float, rate: Rate, colour: str) -> None:
    axes.barh(up, rate.median, _BAR_INCHES * 0.8, color=colour)
    if rate.repeats > 1:
        axes.plot([rate.low, rate.high], [up, up], color=INK, linewidth=1.2, solid_capstyle="butt")
        axes.plot([[rate.low, rate.high]] * 2, [[up - 0.06] * 2, [up + 0.06] * 2], color=INK, linewidth=1.2)


# --- Lines of rates: batch after batch, by number of connections, and by months in the table ---


_ROLLING = 10
_STYLES = {"regular": "-", "hypertable": "--"}


def _lines(title: str, below: str) -> tuple[Figure, Axes]:
    return _chart(title, below, height=3.6, left=0.9, legend=0.35)


def _legend(axes: Axes, below: str, columns: int = 3) -> None:
    axes.set_xlabel(below, fontsize=9, color=INK)
    axes.legend(frameon=False, fontsize=8, ncols=columns, loc="lower center", bbox_to_anchor=(0.45, 0.98))


def _ticks(axes: Axes, values: Sequence[int]) -> None:
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_sustained(results: Results) -> Figure | None:
    """Draw the rate of each batch as a dot, and its rolling mean as a line."""
    cells = list(results.main_cells("sustained").values())
    if not cells:
        return None
    size = cells[0]["rows"] // cells[0]["parameters"]["batches"]
    figure, axes = _lines(
        "Batch after batch into one table",
        f"Rows/s of each batch of {size:,} rows (dots), rolling mean (lines). {cells[0]['server']}, {results.hardware}",
    )
    for cell in cells:
        rates = np.array(cell["repeats"][-1]["series"]["rows_per_second"])
        method, table = cell["parameters"]["method"], cell["parameters"]["table"]
        window = max(1, min(_ROLLING, len(rates) // 3))
        means = np.convolve(rates, np.ones(window) / window, "valid")
        millions = np.arange(1, len(rates) + 1) * size / 1e6
        colour, label = _METHOD_COLOURS[method], f"{method}, {table}"
        axes.plot(millions, rates, ".", color=colour, markersize=3, alpha=0.35)
        axes.plot(millions[window - 1 :], means, _STYLES[table], color=colour, linewidth=1.8, label=label)
    axes.set_ylim(bottom=0)
    _rates_on(axes.yaxis)
    _legend(axes, "million rows in the table")
    return figure


def _draw_parallel(results: Results) -> Figure | None:
    """Draw the rate by the number of connections."""
    cells = list(results.main_cells("parallel").values())
    if not cells:
        return None
    figure, axes = _lines(
        "Several connections at once, the same number for each",
        f"Rows/s into one table, {cells[0]['rows']:,} rows in all. {cells[0]['server']}, {results.hardware}",
    )
    for (method, colour), (table, style) in product(_METHOD_COLOURS.items(), _STYLES.items()):
        found = results.by_connections(method, table)
        if found:
            look: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.8, "color": colour}
            counts, medians = [count for count, _ in found], [rate.median for _, rate in found]
            axes.plot(counts, medians, style, label=f"{method}, {table}", **look)
            for count, rate in found:
                axes.plot([count, count], [rate.low, rate.high], color=colour, linewidth=1)
    axes.set_xscale("log", base=2)
    _ticks(axes, sorted({cell["parameters"]["workers"] for cell in cells}))
    _format(axes.xaxis, lambda value: f"{value:g}")
    axes.set_ylim(bottom=0)
    _rates_on(axes.yaxis)
    _legend(axes, "connections")
    return figure


def _draw_scale(results: Results) -> Figure | None:
    """Draw the seconds of each load and of queries against the months in the table."""
    cells = sorted(results.main_cells("scale").values(), key=lambda cell: cell["parameters"]["months"])
    if not cells:
        return None
    figure, axes = _lines(
        "As the table grows",
        f"Milliseconds by the months in the table, {cells[-1]['rows']:,} rows each. {cells[0]['server']}, "
        f"{results.hardware}",
    )
    loads = np.array(cells[-1]["repeats"][-1]["series"]["load_seconds"]) * 1000
    axes.plot(np.arange(1, len(loads) + 1), loads, ".", color=_OURS, markersize=3, alpha=0.35)
    held = [cell["parameters"]["months"] for cell in cells]
    for name, label, colour, factor in (
        ("seconds", "load of a month", _OURS, 1000),
        ("place_month_ms", "a place's month", "#2b6ca3", 1),
        ("place_all_ms", "all months of a place", "#6a9a4b", 1),
        ("status_ms", "era5 status", "#8a63a8", 1),
    ):
        values = [cell["medians"][name][1] * factor for cell in cells]
        axes.plot(held, values, "-o", color=colour, markersize=4, linewidth=1.8, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _ticks(axes, held)
    for axis in (axes.xaxis, axes.yaxis):
        _format(axis, lambda value: f"{value:,g}")
    axes.set_ylabel("ms", fontsize=9, color=INK)
    _legend(axes, "months in the table", 4)
    return figure


# --- Ratios, comparable across machines where rates are not: ours to the study's, the ladder to the article's ---


_ROW_INCHES = 0.29
_BASE = "copy, full, psycopg3 rows"


def _draw_against_study(results: Results) -> Figure | None:
    """Draw each way's rate over that of psycopg rows, in the study and here."""
    study = published()
    base = next(entry for entry in study["rates"] if entry["row"] == _BASE)
    ours, _ = published_rate(results, base, "regular")
    if ours is None:
        return None
    own = ("asyncpg records", "asyncpg records"), ("ADBC", "ADBC ingest"), ("this pipeline's loader", "our loader")
    rates = [
        *(
            (entry["row"], entry["regular"] / base["regular"], published_rate(results, entry, "regular")[0])
            for entry in study["rates"]
            if entry["row"] != _BASE
        ),
        *((words, None, results.rate("copy", f"{name}, regular")) for words, name in own),
    ]
    return _dumbbells(
        rates,
        ours,
        "Rates relative to psycopg's row-by-row COPY: the study and here",
        f"Regular table, log scale. Study: {study['study']['hardware']}. Here: {results.hardware}",
        "study",
    )


def _draw_ladder(results: Results) -> Figure | None:
    """Draw the speed-up of each step over the first, in the article and here."""
    cells = results.main_cells("ladder")
    names = [f"{number}. {step.name}" for number, step in enumerate(STEPS, 1)]
    first = rate_of_cell(cells.get(names[0]))
    if first is None:
        return None
    factors = [STEPS[0].article_seconds / step.article_seconds for step in STEPS]
    one = next(iter(cells.values()))
    return _dumbbells(
        [(name, theirs, rate_of_cell(cells.get(name))) for name, theirs in zip(names, factors, strict=True)],
        first,
        "Loading 60x faster: each step's factor since the first",
        f"Article: 27,405,000 rows, Apple M1. Here: {one['rows']:,} rows, {one['server']}, {results.hardware}",
        "article",
    )


def _dumbbells(
    pairs: Sequence[tuple[str, float | None, Rate | None]], base: Rate, title: str, below: str, them: str
) -> Figure:
    """Draw the ratio of others and that of our rate to `base`, for each label."""
    figure, axes = _rows(title, below, [label for label, _, _ in pairs], step=_ROW_INCHES)
    for number, (_, theirs, rate) in enumerate(pairs):
        up, ours = number * _ROW_INCHES, rate.median / base.median if rate else None
        if theirs is not None and ours is not None:
            axes.plot([theirs, ours], [up, up], color="#c9c9c9", linewidth=2, zorder=1)
        right = max(theirs or 0.0, ours or 0.0)
        for value, colour in ((theirs, _COLOURS["regular"]), (ours, _OURS)):
            if value is not None:
                axes.plot([value], [up], "o", color=colour, markersize=7, zorder=2)
                side, points = ("left", 8) if value == right else ("right", -8)
                _beside(axes, (value, up), f"{float(f'{value:.2g}'):,g} x", points, ha=side, color=colour)
        if ours is None:
            _beside(axes, (right or 1, up), "null here", 44, fontsize=7.5, color=FAINT)
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 4, high * 3)
    _format(axes.xaxis, lambda value: f"{value:g} x")
    _below(figure, axes, 0.42, [(0.0, f"● {them}", _COLOURS["regular"]), (0.16, "● here", _OURS)])
    return figure


# --- All of them, by the name of their file ---


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "summary": _draw_summary,
    "study": _draw_against_study,
    "insert": partial(_draw_suite, suite="insert", title="An INSERT for each row"),
    "multi-insert": partial(_draw_suite, suite="multi-insert", title="Many rows in a statement"),
    "copy": partial(_draw_suite, suite="copy", title="COPY: with all preparation, and the copy alone"),
    "sustained": _draw_sustained,
    "parallel": _draw_parallel,
    "tools": partial(_draw_suite, suite="tools", title="Tools, their CSV file ready"),
    "settings": _draw_settings,
    "ladder": _draw_ladder,
    "scale": _draw_scale,
    "others": _draw_others,
}
