"""Figures of results, declared in a table: bars or lines. What was not measured is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator
from PIL import Image

from benchmarks.cells import median_of
from benchmarks.settings import SETTINGS, STEPS, TABLES
from benchmarks.tables import Rate, Results, days, published, published_rate, rate_of_cell, rows_per_second, short
from era5_pipeline.draw.figures import add_axes, new_figure, print_title
from era5_pipeline.maps.styles import FAINT, INK
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

    Row = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A figure: its title, the line below it, which ends with server and machine, and the rows of its data.

    Rows of bars have `label`, `value` (None: not measured), `text`, and perhaps `colour`, `low` and `high` of whiskers,
    and `mark` for another value. Rows of lines have `label`, `colour`, `style`, and the arrays `x` and `y`. `legend`
    gives texts their colours; `log`: the values are on a logarithmic axis, `ticks`: so are the numbers below lines;
    `at`: a line through all bars at this value.
    """

    title: str
    below: str
    data: Callable[[Results], list[Row]]
    axis: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)
    value: Callable[[float], str] = "{:,g}".format
    log: bool = False
    ticks: bool = False
    at: float | None = None


# Ours is the only warm colour; shades tell tables apart.
_THEIRS, _OURS, _GREEN = "#2b6ca3", "#c8471b", "#6a9a4b"
_COLOURS = {"regular": _THEIRS, "hypertable": "#9cc3e0"}
_OUR_COLOURS = {"regular": _OURS, "hypertable": "#efb08f"}
_OUR_METHODS = ("our loader", "era5-pipeline")
_WIDTH, _DPI, _PALETTE = 8.0, 110, 128
_BAR_INCHES, _LINES_INCHES = 0.27, 3.6
_RIGHT, _TOP, _BOTTOM = 0.75, 0.95, 0.75


def save_chart(name: str, results: Results, path: Path) -> bool:
    """Draw a chart as a PNG of few colours, a third of the size; return whether there was anything to draw."""
    chart, suite = FIGURES[name], "copy" if name in ("summary", "study") else name
    rows = pd.DataFrame(chart.data(results))
    if rows.empty:
        return False
    is_bars = "value" in rows
    height, left, above = (len(rows) * _BAR_INCHES, 3.6, _TOP) if is_bars else (_LINES_INCHES, 0.9, _TOP + 0.35)
    figure = new_figure(_WIDTH, height + above + _BOTTOM, _DPI)
    axes = add_axes(figure, left, _BOTTOM, _WIDTH - left - _RIGHT, height)
    size = next(iter(results.main_cells(suite).values()))["rows"]
    where = f"{results.main_server(suite)}, {results.hardware}"
    print_title(figure, 0.2, chart.title, f"{chart.below.format(rows=size)} {where}")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    (_draw_bars if is_bars else _draw_lines)(axes, rows, chart)
    axes.set_xlabel(chart.axis, fontsize=9, color=INK)
    values = axes.xaxis if is_bars else axes.yaxis
    values.set_major_formatter(FuncFormatter(lambda value, _: chart.value(value) if value else "0"))
    drawn = BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": "era5-pipeline"})
    with Image.open(drawn) as image, replacing(path) as temporary:
        image.convert("RGB").quantize(_PALETTE, method=Image.Quantize.MAXCOVERAGE).save(
            temporary, format="PNG", optimize=True
        )
    return True


def _draw_bars(axes: Axes, rows: pd.DataFrame, chart: Chart) -> None:
    """Draw a bar for each row, from the top, with its whiskers, mark and text."""
    places = np.arange(len(rows))
    rows = rows.reindex(columns=["label", "value", "text", "colour", "low", "high", "mark"])
    numbers = rows[["value", "high", "mark"]].astype(float)
    whiskers = [numbers["value"] - rows["low"].astype(float), numbers["high"] - numbers["value"]]
    look = {"elinewidth": 1.2, "ecolor": INK, "capsize": 3}
    colours = rows["colour"].astype(object).fillna(_THEIRS)
    axes.barh(places, numbers["value"], 0.78, xerr=whiskers, color=colours, error_kw=look)
    axes.plot(numbers["mark"], places, "D", color="white", markeredgecolor=INK, markersize=5)
    for place, text, end in zip(places, rows["text"], numbers.max(axis="columns").fillna(0), strict=True):
        axes.annotate(text, (end, place), (6, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    axes.set_yticks(places, rows["label"])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    least, most = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if chart.log:
        axes.set_xscale("log")
        axes.set_xlim(least / 2, most * (most / least) ** 0.4)
    else:
        axes.set_xlim(0, most * 1.3)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    if chart.at is not None:
        axes.axvline(chart.at, color=INK, linewidth=0.8)
    for number, (text, colour) in enumerate(chart.legend.items()):
        axes.annotate(text, (number * 0.28, 0), (0, -34), "axes fraction", "offset points", fontsize=9, color=colour)


def _draw_lines(axes: Axes, rows: pd.DataFrame, chart: Chart) -> None:
    """Draw the rows as lines; dots stand for single values, which a line summarizes."""
    for row in rows.to_dict("records"):
        look: Row = {"markersize": 3, "alpha": 0.35} if row["style"] == "." else {"markersize": 4, "linewidth": 1.8}
        axes.plot(row["x"], row["y"], row["style"], color=row["colour"], label=row["label"], **look)
    if chart.ticks:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([*rows["x"].iloc[-1]]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    if chart.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 0.98))


# --- Bars: rates of ways to load, effects of settings, answers of alternatives ---


def _bar(label: str, rate: Rate, text: str, table: str = "regular") -> Row:
    colours = _OUR_COLOURS if label.startswith(_OUR_METHODS) else _COLOURS
    ends = {"low": rate.low, "high": rate.high} if rate.repeats > 1 else {}
    return {"label": label, "value": rate.median, "text": text, "colour": colours[table], **ends}


def _of_suite(results: Results, suite: str) -> list[Row]:
    """A suite's ways: full rates and, for copies, those of the copy alone."""
    measured = [cell["parameters"] for cell in results.main_cells(suite).values()]
    ways, tables = ({parameters[what] for parameters in measured} for what in ("method", "table"))
    bars = []
    for name, cell in results.of_suite(suite, results.main_server(suite) or "").items():
        method, table = cell["parameters"]["method"], cell["parameters"]["table"]
        rate, copy = rate_of_cell(cell), rate_of_cell(cell, "copy_seconds")
        if rate is None:
            if method in ways and table in tables:
                bars.append({"label": name, "value": None, "text": f"null: {cell['reason']}"})
        elif copy is None or suite != "copy":
            bars.append(_bar(name, rate, rows_per_second(rate.median), table))
        else:
            text = f"{rows_per_second(rate.median)}  (copy only {rows_per_second(copy.median)})"
            bars.append(_bar(name, rate, text, table) | {"mark": copy.median})
    return bars


def _summary(results: Results) -> list[Row]:
    """All ways to a regular table by rate, with the days that 754 billion rows would take."""
    found: list[tuple[str, Rate]] = []
    for suite, words in (("insert", ", INSERT"), ("multi-insert", ", multi-row INSERT"), ("copy", ""), ("tools", "")):
        found += [
            (name.removesuffix(", regular") + words, rate)
            for name, cell in results.main_cells(suite).items()
            if cell["parameters"]["table"] == "regular" and (rate := rate_of_cell(cell)) is not None
        ]
    for method in ("our loader", "psycopg rows"):
        several = [one for one in results.by_connections(method, "regular") if one[0] > 1]
        for count, rate in sorted(several, key=lambda one: -one[1].median)[:1]:
            found.append((f"{method}, {count} workers", rate))
    found.sort(key=lambda one: -one[1].median)
    return [_bar(name, rate, f"{rows_per_second(rate.median)}   {days(rate.days)}") for name, rate in found]


def _settings(results: Results) -> list[Row]:
    """The rate with each setting over that with the defaults, for both kinds of table."""
    words = dict(zip(TABLES, ("B-tree", "new tables"), strict=True))
    return [
        {"label": f"{name}, {words[table]}", "value": value, "text": f"{short(value)} x"}
        for table, name in product(TABLES, SETTINGS)
        if (value := results.ratios("settings").get(f"{name}, {table}"))
    ]


def _others(results: Results) -> list[Row]:
    """The time of the two questions for each contender, warm."""
    cells = results.main_cells("others")
    return [
        {"label": f"{name}: {words}", "value": value, "text": f"{short(value)} ms"}
        | {"colour": _OURS if name.startswith(_OUR_METHODS) else _THEIRS}
        for figure, words in (("place_year_warm_ms", "a place's year"), ("month_mean_warm_ms", "July's mean"))
        for name in cells
        if (value := median_of(cells, name, figure)) is not None
    ]


# --- Ratios, comparable across machines where rates are not: ours to the study's, the ladder to the article's ---


def _ratio(label: str, theirs: float | None, rate: Rate | None, base: Rate) -> Row:
    """Our rate over `base` as a bar, and the ratio of others as a mark."""
    ours = rate.median / base.median if rate else None
    said = [f"{float(f'{ours:.2g}'):,g} x" if ours else "null", *([f"{float(f'{theirs:.2g}'):,g} x"] if theirs else [])]
    return {"label": label, "value": ours, "text": " ◇ ".join(said), "colour": _OURS, "mark": theirs}


def _against_study(results: Results) -> list[Row]:
    """Each way's rate over that of psycopg rows, in the study and here."""
    first, *rates = sorted(published()["rates"], key=lambda entry: entry["row"] != "copy, full, psycopg3 rows")
    base, _ = published_rate(results, first, "regular")
    if base is None:
        return []
    own = {"asyncpg records": "asyncpg records", "ADBC": "ADBC ingest", "this pipeline's loader": "our loader"}
    return [
        _ratio(of["row"], of["regular"] / first["regular"], published_rate(results, of, "regular")[0], base)
        for of in rates
    ] + [_ratio(label, None, results.rate("copy", f"{name}, regular"), base) for label, name in own.items()]


def _ladder(results: Results) -> list[Row]:
    """The speed-up of each step over the first, in the article and here."""
    rates = [results.rate("ladder", f"{number}. {step.name}") for number, step in enumerate(STEPS, 1)]
    return [
        _ratio(f"{number}. {step.name}", STEPS[0].article_seconds / step.article_seconds, rate, rates[0])
        for number, (step, rate) in enumerate(zip(STEPS, rates, strict=True), 1)
        if rates[0] is not None
    ]


# --- Lines: batch after batch, by number of connections, and by months in the table ---


_METHOD_COLOURS = {"psycopg rows": _THEIRS, "pandas CSV + COPY": _GREEN, "our loader": _OURS}
_STYLES = {"regular": "-", "hypertable": "--"}
_ROLLING = 10


def _line(label: str, x: Any, y: Any, colour: str, style: str = "-o") -> Row:  # noqa: ANN401  # any numbers
    return {"label": label, "x": x, "y": y, "colour": colour, "style": style}


def _sustained(results: Results) -> list[Row]:
    """The rate of each batch as a dot, and its rolling mean as a line."""
    lines = []
    for name, cell in results.main_cells("sustained").items():
        rates, of = pd.Series(cell["repeats"][-1]["series"]["rows_per_second"]), cell["parameters"]
        means = rates.rolling(max(1, min(_ROLLING, len(rates) // 3))).mean()
        millions, colour = np.linspace(0, cell["rows"] / 1e6, len(rates) + 1)[1:], _METHOD_COLOURS[of["method"]]
        lines += [_line("_", millions, rates, colour, "."), _line(name, millions, means, colour, _STYLES[of["table"]])]
    return lines


def _parallel(results: Results) -> list[Row]:
    """The rate by the number of connections."""
    return [
        _line(f"{method}, {table}", [one[0] for one in found], [one[1].median for one in found], colour, f"{style}o")
        for (method, colour), (table, style) in product(_METHOD_COLOURS.items(), _STYLES.items())
        if (found := results.by_connections(method, table))
    ]


def _scale(results: Results) -> list[Row]:
    """The milliseconds of each load and of queries by the months in the table."""
    cells = sorted(results.main_cells("scale").values(), key=lambda cell: cell["parameters"]["months"])
    if not cells:
        return []
    loads = 1000 * np.array(cells[-1]["repeats"][-1]["series"]["load_seconds"])
    held = [cell["parameters"]["months"] for cell in cells]
    of_queries = {
        "place_month_ms": "a place's month",
        "place_all_ms": "all months of a place",
        "status_ms": "era5 status",
    }
    seconds = [1000 * cell["medians"]["seconds"][1] for cell in cells]
    return [
        _line("_", np.arange(1, len(loads) + 1), loads, _OURS, "."),
        _line("load of a month", held, seconds, _OURS),
        *(
            _line(label, held, [cell["medians"][name][1] for cell in cells], colour)
            for (name, label), colour in zip(of_queries.items(), (_THEIRS, _GREEN, "#8a63a8"), strict=True)
        ),
    ]


def _ways(suite: str, title: str) -> Chart:
    below = "Median rows/s of {rows:,} rows, whiskers from the 10th to the 90th percentile."
    legend = {"■ this pipeline": _OURS, "◇ copy only": INK} if suite == "copy" else {}
    return Chart(title, below, partial(_of_suite, suite=suite), legend=legend, value=rows_per_second)


FIGURES: dict[str, Chart] = {
    "summary": Chart(
        "How long ERA5 would take: every way to load, by rate",
        "Rows/s into a regular table (tools: CSV ready).",
        _summary,
        axis="rows/s; beside each bar the time for the 754 billion rows of 1940 to 2022",
        value=rows_per_second,
        log=True,
    ),
    "study": Chart(
        "Rates relative to psycopg's row-by-row COPY: the study and here",
        f"Regular table. Study: {published()['study']['hardware']}. Here:",
        _against_study,
        legend={"■ here": _OURS, "◇ study": INK},
        log=True,
        at=1,
    ),
    "insert": _ways("insert", "An INSERT for each row"),
    "multi-insert": _ways("multi-insert", "Many rows in a statement"),
    "copy": _ways("copy", "COPY: with all preparation, and the copy alone"),
    "sustained": Chart(
        "Batch after batch into one table",
        "Rows/s of each batch (dots) and their rolling mean (lines), {rows:,} rows in all.",
        _sustained,
        axis="million rows in the table",
        value=rows_per_second,
    ),
    "parallel": Chart(
        "Several connections at once, the same number for each",
        "Rows/s into one table, {rows:,} rows in all.",
        _parallel,
        axis="connections",
        value=rows_per_second,
        ticks=True,
    ),
    "tools": _ways("tools", "Tools, their CSV file ready"),
    "settings": Chart(
        "What each setting of the server does to a load", "Rate over that with PostgreSQL's defaults.", _settings, at=1
    ),
    "ladder": Chart(
        "Loading 60x faster: each step's factor since the first",
        "Article: 27,405,000 rows, Apple M1. Here: {rows:,} rows,",
        _ladder,
        legend={"■ here": _OURS, "◇ article": INK},
        log=True,
        at=1,
    ),
    "scale": Chart(
        "As the table grows",
        "Milliseconds by the months in the table, {rows:,} rows each.",
        _scale,
        axis="months in the table",
        log=True,
        ticks=True,
    ),
    "others": Chart("The same year, the same questions", "Milliseconds, warm; {rows:,} rows.", _others, log=True),
}
