"""Parts of documents that are written from results, by the names between their marks; and the rates that plans use.

In a document, a part stands between `<!-- bench: NAME -->` and `<!-- end -->`: lines of its own, or words of a
line. A part of which nothing has been measured keeps its text, which names a date and a command.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.asking import ALL_HOURS, CLIMATE, MEANS_OF_HOURS, MEANS_OF_MONTHS, NETCDF, WITH, WITHOUT, YEAR
from benchmarks.cells import median_of
from benchmarks.coverage import LAG1, LENGTHS, MISSING, coverage_name
from benchmarks.engines import ENGINES, QUESTIONS, OfWarehouse
from benchmarks.everywhere import (
    ALL_CORES,
    DELAY_SECONDS,
    ON_FAR_S3,
    ON_S3,
    ONE_WORKER,
    visits_of_the_globe,
)
from benchmarks.formats import GRIB_1, GRIB_2, NETCDF_4
from benchmarks.lake import ALONE, BANDS, BOTH, MANY_ALONE, MANY_BOTH, ONE_FILE, of_decades
from benchmarks.layouts import COMPRESSED_AFTERWARDS
from benchmarks.pipeline import ALL_STAGES, AS_BATCHES, FLATTEN, LOADER, SEVERAL, STAGES
from benchmarks.reaching import AT_MOST, AT_RATE, DATASET, FIELD, FRAME, FRAME_OF_ALL, GZIP, ROW_BY_ROW, SAME, UNCHANGED
from benchmarks.suites import SUITES
from benchmarks.tables import (
    advice_table,
    days,
    load_text,
    markdown_table,
    rate_of_cell,
    rows_per_second,
    short,
    summary_table,
)
from era5_pipeline.climate.everywhere import BLOCK_LOCATIONS
from era5_pipeline.model.grid import N_LOCATIONS
from era5_pipeline.model.months import Month
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.cells import Entries
    from benchmarks.tables import Rate, Results

# The lines of a part; None if nothing of it has been measured.
MeasuredLines = list[str] | None

# --- The marks in a document ---


_PART = re.compile(r"(<!-- bench: ([\w-]+) -->)(\n?)(.*?)(<!-- end -->)", re.DOTALL)


def with_parts(text: str, parts: Mapping[str, MeasuredLines]) -> str:
    """The document with the parts of these names rewritten; other parts, and those without lines, are unchanged."""

    def part(match: re.Match[str]) -> str:
        lines = parts.get(match[2])
        if lines is None:
            return match[0]
        inner = "\n".join(["\n", *lines, "", ""]) if match[3] else " ".join(lines)
        return match[1] + inner + match[5]

    return _PART.sub(part, text)


def document_parts(results: Results) -> dict[str, MeasuredLines]:
    """The lines of each part, by name."""
    return {name: make(results) for name, make in _PARTS.items()}


# --- Results of a suite by layout of the table ---


def layout_of(server: str) -> str:
    """The layout of a new table on a server, by the description of its version."""
    licenses = {"(apache)": "hypertable", "(timescale)": "columnstore"}
    return next((layout for words, layout in licenses.items() if words in server), "partitions")


def _by_layout(results: Results, suite: str) -> dict[str, tuple[str, Entries]]:
    """Server and measured cells of a suite, by the server's layout."""
    found = {}
    for server in results.servers:
        cells = {name: cell for name, cell in results.of_suite(suite, server).items() if cell["reason"] is None}
        if cells:
            found[layout_of(server)] = (server, cells)
    return {layout: found[layout] for layout in LAYOUTS if layout in found}


def _rate(cells: Entries, name: str) -> str:
    rate = rate_of_cell(cells.get(name))
    return "null" if rate is None else rows_per_second(rate.median)


def _number(value: float | None, digits: str = "{}") -> str:
    return "null" if value is None else digits.format(short(value))


# --- The parts ---


def headline(results: Results) -> Rate | None:
    """The rate that is quoted wherever one number is: of the loader, with all its preparation, into a plain table."""
    return results.rate("copy", "our loader, regular")


def _summary(results: Results) -> MeasuredLines:
    return [
        f"Measured on {results.hardware}, {results.days} ([how](benchmarks/README.md), "
        "[everything](benchmarks/results.md)):",
        "",
        *summary_table(results),
    ]


def _measured(results: Results) -> MeasuredLines:
    return [f"{results.hardware}, {results.days}"]


def _headline(results: Results) -> MeasuredLines:
    rate = headline(results)
    return None if rate is None else [f"{rows_per_second(rate.median)} rows/s"]


def _headline_days(results: Results) -> MeasuredLines:
    rate = headline(results)
    return None if rate is None else [days(rate.days)]


def _limit(results: Results) -> MeasuredLines:
    found = _by_layout(results, "limit")
    if not found:
        return None
    workers = next(
        (cells[SEVERAL]["parameters"]["workers"] for _, cells in found.values() if SEVERAL in cells), "several"
    )
    targets = next(suite.at_least for suite in SUITES if suite.name == "limit")
    words = {
        "loader_to_limit": "our COPY ÷ the server's own binary COPY from a file in memory",
        "loader_to_psycopg_rows": "our COPY ÷ psycopg `write_row`, from the same Parquet file",
        "loader_to_parallel_copy": f"{workers} workers ÷ timescaledb-parallel-copy with as many, its CSV ready",
        "two_workers_to_one": f"{workers} workers ÷ 1",
        "batches_to_rows": "the load stage with finished batches ÷ with rows, one connection",
    }
    rows = []
    for name, text in words.items():
        values = [results.contents["ratios"].get(server, {}).get("limit", {}).get(name) for server, _ in found.values()]
        cells = [
            "null" if value is None else f"{value:g}" if value >= targets[name] else f"**{value:g}**"
            for value in values
        ]
        rows.append([text, f"{targets[name]:g}", *cells])
    for cell, text in ((LOADER, "1 worker"), (SEVERAL, f"{workers} workers"), (AS_BATCHES, "finished batches")):
        rows.append([f"rows/s to the settled month, {text}", "", *(_rate(cells, cell) for _, cells in found.values())])
    rows += [[text, "", *loads] for text, *loads in _loads(found)]
    header = ("ratio", "target", *(f"`{layout}`" for layout in found))
    return [*_servers(found), "", *markdown_table(header, rows), "", "Below its target: in bold."]


def _servers(found: Mapping[str, tuple[str, Entries]]) -> list[str]:
    return [f"{', '.join(f'`{layout}`: {server}' for layout, (server, _) in found.items())}."]


def _limit_rows(results: Results) -> MeasuredLines:
    """The rows of a load, from the fewest to the most, of the three suites whose tables follow."""
    said = []
    for suite in ("limit", "layouts", "pipeline"):
        rows = {cell["rows"] for _, cells in _by_layout(results, suite).values() for cell in cells.values()}
        texts = dict.fromkeys(rows_per_second(count) for count in (min(rows, default=0), max(rows, default=0)))
        said += [f"{' to '.join(texts)} rows (`{suite}`)"] if rows else []
    return [", ".join(said)] if said else None


def _layouts(results: Results) -> MeasuredLines:
    cells = {name: cell for _, found in _by_layout(results, "layouts").values() for name, cell in found.items()}
    names = [name for name in (*LAYOUTS, COMPRESSED_AFTERWARDS) if name in cells]
    if not names:
        return None
    rows = [["rows/s to the settled month", *(_rate(cells, name) for name in names)]]
    for figure, text in (
        ("bytes_per_row", "bytes a row"),
        ("location_month_ms", "one location's month, warm [ms]"),
        ("reader_longest_wait_ms", "longest wait of a reader during a replacement [ms]"),
    ):
        rows.append([text, *(_number(median_of(cells, name, figure)) for name in names)])
    return markdown_table(("layouts", *(f"`{name}`" for name in names)), rows)


def _pipeline(results: Results) -> MeasuredLines:
    found = _by_layout(results, "pipeline")
    if not found:
        return None
    workers = next(cells[ALL_STAGES]["parameters"]["workers"] for _, cells in found.values() if ALL_STAGES in cells)
    rows = [
        [text, *(_rate(cells, name) for _, cells in found.values())]
        for name, text in (
            (ALL_STAGES, "netCDF to rows, all stages and the comparison, rows/s"),
            (FLATTEN, "flatten alone, rows/s"),
        )
    ]
    peaks = [median_of(cells, ALL_STAGES, "peak_rss_bytes") for _, cells in found.values()]
    rows.append(["largest process [MB]", *(_number(None if peak is None else peak / 1e6) for peak in peaks)])
    for figure, text in (
        ("compare_seconds", "comparison of table and file"),
        ("generate_seconds", "generate the files"),
    ):
        seconds = [(cells, median_of(cells, STAGES, figure)) for _, cells in found.values()]
        if any(value for _, value in seconds):
            rows.append(
                [
                    f"{text}, one month alone, rows/s",
                    *(rows_per_second(cells[STAGES]["rows"] / value) if value else "null" for cells, value in seconds),
                ]
            )
    rows += _loads(found)
    return markdown_table((f"pipeline, {workers} months at once", *(f"`{layout}`" for layout in found)), rows)


def _loads(found: Mapping[str, tuple[str, Entries]]) -> list[list[str]]:
    """A row of the load average before the repeats, by layout; none if it was not recorded."""
    loads = [load_text(cells.values()) for _, cells in found.values()]
    return [["load average of the minute before", *loads]] if any(loads) else []


def _ask(results: Results) -> MeasuredLines:
    words = {
        ALL_HOURS: "all hours as a table of pandas (`read_place_hours`)",
        MEANS_OF_MONTHS: "the mean temperature of each year, from `weather_monthly`",
        MEANS_OF_HOURS: "... from the hours, by SQL",
        YEAR: "one year, all variables",
        NETCDF: "the same year from the months' netCDF files, by xarray, in the page cache",
        CLIMATE: "`era5 climate` in all, from the command to its answer",
        WITH: "a month flattened and loaded",
        WITHOUT: "... without monthly summaries",
    }
    return _questions(results, "ask", words, {"connected_seconds": "on an open connection"})


def _reach(results: Results) -> MeasuredLines:
    words = {
        FRAME: "`db.series`, one column, with its connection",
        FRAME_OF_ALL: "... of all six columns",
        ROW_BY_ROW: "... of one column, a tuple of Python for each row",
        FIELD: "`db.field`, a month of a box",
        DATASET: "`db.dataset`, the same, its values read",
        AT_MOST: "HTTP: a year of one variable of one place, 8 clients that wait for answers",
        GZIP: "... that take gzip",
        SAME: "... always the same place and year",
        UNCHANGED: "... that have the answer already (`If-None-Match`, 304)",
        AT_RATE: "HTTP: requests due at a fixed rate",
    }
    figures = {
        "requests_per_second": "requests/s",
        "p50_ms": "ms in the middle",
        "p99_ms": "ms at the 99th percentile",
        "server_cpu_ms": "ms of the server's processor a request",
        "clients_cpu_ms": "of the clients'",
    }
    return _questions(results, "reach", words, figures)


def _lake(results: Results) -> MeasuredLines:
    """Tables of the questions to each engine for each server, and what the lake adds to a load."""
    lines: list[str] = []
    for layout, (server, cells) in _by_layout(results, "lake").items():
        rows = max((cells[of.name]["rows"] for of in ENGINES if of.name in cells), default=0)
        settings = {f"fsync {one['fsync']}" for one in _settings_of(results, cells)}
        of_server = ", ".join([f"`{layout}`", server, " and ".join(sorted(settings))])
        lines += ["", f"{of_server}: a year of {rows:,} rows, milliseconds warm (cold):", ""]
        header = ["", "one place's year", "the mean of July", "the trend at every place"]
        lines += markdown_table(header, _asked_rows(cells, {of.name: of.name for of in ENGINES}))
        few = {of.name: of_decades(of) for of in ENGINES}
        held = [cells[name] for name in few.values() if name in cells]
        if held:
            months = max(cell["parameters"]["months"] for cell in held)
            of_few = f"{months:,} months of a few places, {max(cell['rows'] for cell in held):,} rows"
            lines += ["", f"{of_few}, milliseconds warm (cold):", ""]
            header = ["", "all hours of one place", "the mean of July", "the trend at every place"]
            lines += markdown_table(header, _asked_rows(cells, few))
        table = [
            [way, _rate(cells, way), _number(median_of(cells, way, "bytes_per_row"))]
            for way in (ONE_FILE, BANDS, ALONE, BOTH, ONE_WORKER, ALL_CORES, ON_S3, ON_FAR_S3)
            if way in cells
        ]
        lines += ["", *markdown_table(["", "rows/s", "bytes a row"], table)]
        lines += _month_after_month(cells)
        lines += _when(layout, cells)
    return lines[1:] or None


def _month_after_month(cells: Entries) -> list[str]:
    """A sentence: what a month's load into the lake takes when it is new, and when it has many months."""
    figures = [
        median_of(cells, name, f"{end}_months_ms") for name in (MANY_BOTH, MANY_ALONE) for end in ("first", "last")
    ]
    if None in figures:
        return []
    first, last, first_alone, last_alone = (short(figure) for figure in figures if figure is not None)
    return [
        "",
        f"A month of a few places takes {first} ms to load into a new warehouse and lake, {last} ms after "
        f"{cells[MANY_BOTH]['parameters']['months']:,} months; without a lake {first_alone} and {last_alone} ms.",
    ]


def _settings_of(results: Results, cells: Entries) -> list[dict[str, str]]:
    """The settings of the servers that these cells were measured on."""
    environments = results.contents["environments"]
    return [environments[number]["server"]["settings"] for number in {cell["environment"] for cell in cells.values()}]


def _asked_rows(cells: Entries, names: Mapping[str, str]) -> list[list[str]]:
    def of(name: str, question: str) -> str:
        warm, cold = (median_of(cells, name, f"{question}_{how}_ms") for how in ("warm", "cold"))
        return _number(warm) if cold is None else f"{_number(warm)} ({_number(cold)})"

    return [[text, *(of(name, question) for question in QUESTIONS)] for text, name in names.items() if name in cells]


def _when(layout: str, cells: Entries) -> list[str]:
    """Two sentences: when to ask the warehouse and when the lake."""

    def fastest(question: str, name_of: Callable[[Any], str]) -> tuple[float, str, float] | None:
        figures = {of: median_of(cells, name_of(of), f"{question}_warm_ms") for of in ENGINES}
        own = figures.pop(OfWarehouse)
        others = {of.name: value for of, value in figures.items() if value is not None}
        if own is None or not others:
            return None
        best = min(others, key=lambda name: others[name])
        return own, best.removesuffix(" on the lake"), others[best]

    decades, year = fastest("place_hours", of_decades), fastest("trends", lambda of: of.name)
    if decades is None or year is None:
        return []
    return [
        "",
        f"All hours of one place from 1940 on take {short(decades[0])} ms in the warehouse (`{layout}`), and "
        f"{short(decades[2])} ms by the fastest engine on the lake ({decades[1]}): places are asked of the "
        f"{'warehouse' if decades[0] <= decades[2] else 'lake'}.",
        f"The trend at every place from its hours takes {short(year[0])} ms in the warehouse, and {short(year[2])} ms "
        f"by the fastest engine on the lake ({year[1]}): scans of everything are for the "
        f"{'lake' if year[2] <= year[0] else 'warehouse'}.",
    ]


def _coverage(results: Results) -> MeasuredLines:
    """How often the 95 % interval of a trend contains the truth, by years and autocorrelation."""
    servers = list(_by_layout(results, "coverage").values())
    if not servers:
        return None
    _, cells = servers[0]
    rows = [
        [
            f"{count}",
            missing,
            *(f"{median_of(cells, coverage_name(count, missing), f'coverage_{lag1}') or 0.0:.3f}" for lag1 in LAG1),
            *(f"{median_of(cells, coverage_name(count, missing), f'warmer_{lag1}') or 0.0:.3f}" for lag1 in LAG1),
        ]
        for missing in MISSING
        for count in LENGTHS
    ]
    header = [
        *("years", "missing"),
        *(f"contains 0, r {lag1:g}" for lag1 in LAG1),
        *(f"all above 0, r {lag1:g}" for lag1 in LAG1),
    ]
    series = max(cell["rows"] for cell in cells.values())
    given = min(median_of(cells, name, f"given_{lag1}") or 0.0 for name in cells for lag1 in LAG1)
    table = markdown_table(header, rows)
    short, long = (cells[coverage_name(count, "none")] for count in (LENGTHS[0], LENGTHS[-1]))
    of_estimate = (median_of({"": short}, "", f"estimate_{lag1}") or 0.0 for lag1 in LAG1)
    of_kendall = (median_of({"": long}, "", f"kendall_{lag1}") or 0.0 for lag1 in LAG1)
    return [
        f"`python -m benchmarks run coverage`: {series:,} series without a trend in each row and for each r, of which "
        f"{100 * given:.0f} % or more get an interval. 0.950 of them should contain 0, and 0.025 lie above it. With an "
        f"estimate of r (Santer et al.), {', '.join(f'{share:.3f}' for share in of_estimate)} of the intervals of "
        f"{LENGTHS[0]} years contain 0. Kendall's test finds a trend in "
        f"{', '.join(f'{100 * share:.0f} %' for share in of_kendall)} of the series of {LENGTHS[-1]} years.",
        "",
        table[0],
        f"|---:|---|{'---:|' * (len(header) - 2)}",
        *table[2:],
    ]


# The lake of all of ERA5 to the end of 2024, and executors to share it.
_ALL = range(1940, 2025)
_EXECUTORS = (1, 10, 100)
# Assumed, in dollars; they follow from no measurement.
_CORE_HOUR, _MILLION_REQUESTS = 0.05, 0.40


def _executors(results: Results) -> MeasuredLines:
    """How long the trends at every place of the globe would take, by what a visit to a file on S3 takes."""
    servers = list(_by_layout(results, "lake").values())
    cells = next((cells for _, cells in servers if ON_S3 in cells and ON_FAR_S3 in cells), None)
    if cells is None:
        return None
    near, far = ({name: median_of(cells, cell, name) or 0.0 for name in _VISIT} for cell in (ON_S3, ON_FAR_S3))
    rows = N_LOCATIONS * sum(Month(year, month).hours for year in _ALL for month in range(1, 13))
    blocks, visits = -(-N_LOCATIONS // BLOCK_LOCATIONS), visits_of_the_globe(12 * len(_ALL))
    seconds, requests = visits * far["seconds_per_visit"], visits * far["requests_per_visit"]
    size = rows * far["bytes_per_row"]
    delay = DELAY_SECONDS[ON_FAR_S3]
    lines = [
        f"Measured on {results.hardware}, with files of a whole band on versitygw, one worker, load average "
        f"{far['load_average']:.1f} before, {far['blocks']:.0f} blocks ({cells[ON_FAR_S3]['rows']:,} rows): "
        f"a block that opens a file makes {far['requests_per_visit']:.1f} requests and takes "
        f"{1000 * near['seconds_per_visit']:,.0f} ms "
        f"({1000 * near['cpu_seconds_per_visit']:,.0f} of the worker's processor), or "
        f"{1000 * far['seconds_per_visit']:,.0f} ms if each request is answered {1000 * delay:.0f} ms later. In this "
        f"are the footer, and row groups at a block's ends, which its neighbour reads too: "
        f"{far['rows_read_per_row']:.2f} rows are read for each that is asked, {far['bytes_per_row']:.1f} bytes.",
        "",
        f"All of {_ALL[0]}-{_ALL[-1]} are {rows / 1e9:,.0f} billion rows in {blocks} blocks, which open a file "
        f"{visits:,} times: {requests / 1e6:,.1f} million requests, {size / 1e12:,.1f} TB, "
        f"{seconds / 3600:,.1f} core-hours.",
        "",
    ]
    table = [
        [
            f"{executors}",
            f"{-(-blocks // executors)}",
            _span(-(-blocks // executors) * seconds / blocks),
            f"{min(executors, blocks) * size / seconds / 1e9:,.2f} GB/s",
            f"{min(executors, blocks) * requests / seconds:,.0f}",
        ]
        for executors in _EXECUTORS
    ]
    header = ["executors", "blocks one after another", "time", "read from the store", "requests/s"]
    cost = seconds / 3600 * _CORE_HOUR + requests / 1e6 * _MILLION_REQUESTS
    return [
        *lines,
        *markdown_table(header, table),
        "",
        f"At {_CORE_HOUR:.2f} dollars a core-hour and {_MILLION_REQUESTS:.2f} dollars a million requests, which are "
        f"assumed and not measured (put yours in), a map costs {cost:,.2f} dollars: "
        f"{seconds / 3600 * _CORE_HOUR:,.2f} for cores and {requests / 1e6 * _MILLION_REQUESTS:,.2f} for requests.",
    ]


_VISIT = (
    *("load_average", "blocks", "seconds_per_visit", "cpu_seconds_per_visit"),
    *("requests_per_visit", "bytes_per_row", "rows_read_per_row"),
)


def _millions(value: float | None) -> str:
    return "null" if value is None else f"{value / 1e6:.3g} M"


def _formats(results: Results) -> MeasuredLines:
    """How fast each format is flattened."""
    found = list(_by_layout(results, "formats").values())
    if not found:
        return None
    _, cells = found[0]
    rows = max(cell["rows"] for cell in cells.values())
    table = [
        [
            name,
            _number(median_of(cells, name, "seconds")),
            _millions(median_of(cells, name, "values_per_s")),
            _number(median_of(cells, name, "bytes_per_value")),
        ]
        for name in (NETCDF_4, GRIB_1, GRIB_2)
        if name in cells
    ]
    return [
        f"{rows:,} rows of two variables, {results.hardware}:",
        "",
        *markdown_table(["flattened from", "seconds", "values a second", "bytes a value"], table),
    ]


def _span(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 7200 else f"{seconds / 60:,.0f} min"


def _questions(results: Results, suite: str, words: Mapping[str, str], more: Mapping[str, str]) -> MeasuredLines:
    found = _by_layout(results, suite)
    if not found:
        return None
    rows = []
    for name, text in words.items():
        row = [text]
        for _, cells in found.values():
            others = [
                f"{short(value)} {unit}"
                for figure, unit in more.items()
                if (value := median_of(cells, name, figure)) is not None
            ]
            seconds = median_of(cells, name)
            first = [] if seconds is None or "requests/s" in " ".join(others) else [f"{short(seconds)} s"]
            row.append("; ".join([*first, *others]) or "null")
        rows.append(row)
    months = max(cell["parameters"]["months"] for _, cells in found.values() for cell in cells.values())
    measured = f"{results.hardware}, {results.days}; {months:,} months of a place. {_servers(found)[0]}"
    return [measured, "", *markdown_table(("question", *(f"`{layout}`" for layout in found)), rows)]


def _orchestration(results: Results) -> MeasuredLines:
    cells = [
        cell
        for server in results.servers
        for cell in results.of_suite("orchestration", server).values()
        if cell["reason"] is None
    ]
    if not cells:
        return None
    figures = list(dict.fromkeys(figure for cell in cells for figure in cell["medians"] if figure != "seconds"))
    rows = [
        [figure.replace("_", " "), *(_number(median_of({"": cell}, "", figure)) for cell in cells)]
        for figure in figures
    ]
    names = [f"{cell['name']}, {cell['server']}" for cell in cells]
    return [f"{results.hardware}, {results.days}:", "", *markdown_table(("", *names), rows)]


def _status(results: Results) -> MeasuredLines:
    """The milliseconds of `era5 status` with the fewest and with the most months of the suite `scale`, by layout."""
    said = []
    for layout, (_, cells) in _by_layout(results, "scale").items():
        held = sorted((cell["parameters"]["months"], name) for name, cell in cells.items())
        first, last = (f"{_number(median_of(cells, name, 'status_ms'))} ms" for _, name in (held[0], held[-1]))
        said.append(f"{first} with {held[0][0]:,} month and {last} with {held[-1][0]:,} on `{layout}`")
    return [", ".join(said)] if said else None


def _suites(results: Results) -> MeasuredLines:
    """The table of all suites, with what of each is in the results."""
    rows = [
        [f"`{suite.name}`", suite.summary, suite.load, str(suite.repeats), _sizes(results, suite.name)]
        for suite in SUITES
    ]
    header = ("suite", "what it compares", "what one load is by default", "repeats", "in the committed results")
    table = markdown_table(header, rows)
    return [table[0], "|---|---|---|---:|---|", *table[2:]]


def _sizes(results: Results, suite: str) -> str:
    """The most rows and months of a cell, and the most repeats, on each server."""
    found = []
    for layout, (_, cells) in _by_layout(results, suite).items():
        repeats = max(len(cell["repeats"]) for cell in cells.values())
        rows = rows_per_second(max(cell["rows"] for cell in cells.values()))
        months = max(cell["parameters"].get("months", 0) for cell in cells.values())
        found.append(f"`{layout}`: {rows} rows, {f'{months:,} months, ' if months else ''}{repeats} x")
    return "; ".join(found) or "not measured"


_PARTS: dict[str, Callable[[Results], MeasuredLines]] = {
    "summary": _summary,
    "choosing": advice_table,
    "measured": _measured,
    "headline": _headline,
    "headline-days": _headline_days,
    "limit": _limit,
    "limit-rows": _limit_rows,
    "layouts": _layouts,
    "pipeline": _pipeline,
    "ask": _ask,
    "reach": _reach,
    "lake": _lake,
    "executors": _executors,
    "coverage": _coverage,
    "formats": _formats,
    "orchestration": _orchestration,
    "status": _status,
    "suites": _suites,
}

# --- The rates that `era5 plan` uses, as JSON in the package ---


RATES = Path("era5_pipeline") / "planning" / "measured_rates.json"
# Values that no suite measures.
_BY_HAND = Path(__file__).parent / "by_hand.json"


def package_rates(results: Results) -> dict[str, Any] | None:
    """The rates, from results and measurements by hand; None without results of the suites layouts and pipeline.

    Times are those of one month alone on plain PostgreSQL, stage by stage.
    """
    layouts = {name: cell for _, found in _by_layout(results, "layouts").values() for name, cell in found.items()}
    bytes_per_row = median_of(layouts, "columnstore", "bytes_per_row")
    _, cells = _by_layout(results, "pipeline").get("partitions", ("", {}))
    if bytes_per_row is None or STAGES not in cells:
        return None
    rows, medians = cells[STAGES]["rows"], cells[STAGES]["medians"]
    flatten, load, compare, generate = (
        medians[f"{stage}_seconds"][1] for stage in ("flatten", "load", "compare", "generate")
    )
    by_hand = json.loads(_BY_HAND.read_text(encoding="utf-8"))
    rates: dict[str, Any] = {
        "hardware": results.hardware,
        "measured": results.days,
        "load_rows_per_second": rows / (flatten + load + compare),
        "compare_rows_per_second": rows / compare,
        "generate_rows_per_second": rows / generate,
        "columnstore_bytes_per_row": bytes_per_row,
        **{name: entry["value"] for name, entry in by_hand.items()},
    }
    return {**{name: _rounded(value) for name, value in rates.items()}, "by_hand": by_hand}


def _rounded(value: Any) -> Any:  # noqa: ANN401  # a value of JSON
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


def rates_text(rates: Mapping[str, Any]) -> str:
    """The rates as the text of their file."""
    return json.dumps(rates, indent=2) + "\n"


def documents_of(project: Path) -> Sequence[Path]:
    """The documents that may have parts."""
    return [
        path
        for path in (
            project / "README.md",
            project / "benchmarks" / "README.md",
            *sorted((project / "docs").glob("*.md")),
        )
        if path.is_file()
    ]
