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
from benchmarks.formats import GRIB_1, GRIB_2, NETCDF_4
from benchmarks.lake import ALL_CORES, ALONE, BANDS, BOTH, ENGINES, ONE_FILE, ONE_WORKER
from benchmarks.layouts import COMPRESSED_AFTERWARDS
from benchmarks.pipeline import ALL_STAGES, AS_BATCHES, FLATTEN, LOADER, SEVERAL, STAGES
from benchmarks.reaching import AT_MOST, AT_RATE, DATASET, FIELD, FRAME, FRAME_OF_ALL, GZIP, ROW_BY_ROW, SAME, UNCHANGED
from benchmarks.suites import SUITES
from benchmarks.tables import advice_table, days, markdown_table, rate_of_cell, rows_per_second, short, summary_table
from era5_pipeline.climate.everywhere import BLOCK_LOCATIONS
from era5_pipeline.model.grid import N_LOCATIONS
from era5_pipeline.model.months import Month
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.cells import Entries
    from benchmarks.tables import Rate, Results

Part = list[str] | None

# --- The marks in a document ---


_PART = re.compile(r"(<!-- bench: ([\w-]+) -->)(\n?)(.*?)(<!-- end -->)", re.DOTALL)


def with_parts(text: str, parts: Mapping[str, Part]) -> str:
    """The document with the parts of these names rewritten; other parts, and those without lines, are unchanged."""

    def part(match: re.Match[str]) -> str:
        lines = parts.get(match[2])
        if lines is None:
            return match[0]
        inner = "\n".join(["\n", *lines, "", ""]) if match[3] else " ".join(lines)
        return match[1] + inner + match[5]

    return _PART.sub(part, text)


def document_parts(results: Results) -> dict[str, Part]:
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


def _summary(results: Results) -> Part:
    return [
        f"Measured on {results.hardware}, {results.days} ([how](benchmarks/README.md), "
        "[everything](benchmarks/results.md)):",
        "",
        *summary_table(results),
    ]


def _measured(results: Results) -> Part:
    return [f"{results.hardware}, {results.days}"]


def _headline(results: Results) -> Part:
    rate = headline(results)
    return None if rate is None else [f"{rows_per_second(rate.median)} rows/s"]


def _headline_days(results: Results) -> Part:
    rate = headline(results)
    return None if rate is None else [days(rate.days)]


def _limit(results: Results) -> Part:
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
    header = ("ratio", "target", *(f"`{layout}`" for layout in found))
    return [*_servers(found), "", *markdown_table(header, rows), "", "Below its target: in bold."]


def _servers(found: Mapping[str, tuple[str, Entries]]) -> list[str]:
    return [f"{', '.join(f'`{layout}`: {server}' for layout, (server, _) in found.items())}."]


def _layouts(results: Results) -> Part:
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


def _pipeline(results: Results) -> Part:
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
    return markdown_table((f"pipeline, {workers} months at once", *(f"`{layout}`" for layout in found)), rows)


def _ask(results: Results) -> Part:
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


def _reach(results: Results) -> Part:
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


def _lake(results: Results) -> Part:
    """A table of the questions to each engine for each server, and what the lake adds to a load."""
    lines: list[str] = []
    for layout, (server, cells) in _by_layout(results, "lake").items():
        rows = max(cell["rows"] for cell in cells.values())
        lines += ["", f"`{layout}`, {server}: a year of {rows:,} rows, milliseconds warm (cold):", ""]
        table = [
            [
                engine.name,
                *(
                    f"{_number(median_of(cells, engine.name, f'{question}_warm_ms'))} "
                    f"({_number(median_of(cells, engine.name, f'{question}_cold_ms'))})"
                    for question in ("place_year", "month_mean", "trends")
                ),
            ]
            for engine in ENGINES
            if engine.name in cells
        ]
        lines += markdown_table(["", "one place's year", "the mean of July", "the trend at every place"], table)
        table = [
            [way, _rate(cells, way), _number(median_of(cells, way, "bytes_per_row"))]
            for way in (ONE_FILE, BANDS, ALONE, BOTH, ONE_WORKER, ALL_CORES)
            if way in cells
        ]
        lines += ["", *markdown_table(["", "rows/s", "bytes a row"], table)]
    return lines[1:] or None


# The lake of all of ERA5 to the end of 2024, and executors to share it.
_ALL = range(1940, 2025)
_EXECUTORS = (1, 10, 100)


def _executors(results: Results) -> Part:
    """How long the trends at every place of the globe would take, by the rate of one worker."""
    servers = _by_layout(results, "lake").values()
    cells = [cells[ONE_WORKER] for _, cells in servers if ONE_WORKER in cells]
    if not cells:
        return None
    cell = max(cells, key=lambda cell: cell["rows"])
    seconds, size = (float(cell["medians"][name][1]) for name in ("seconds", "bytes_per_row"))
    rate = cell["rows"] / seconds
    rows = N_LOCATIONS * sum(Month(year, month).hours for year in _ALL for month in range(1, 13))
    blocks = -(-N_LOCATIONS // BLOCK_LOCATIONS)
    lines = [
        f"One worker reads {rate / 1e6:,.0f} million rows a second ({cell['rows']:,} rows in {seconds:,.1f} s, "
        f"{results.hardware}), and {size:.1f} bytes of each. All of {_ALL[0]}-{_ALL[-1]} are {rows / 1e9:,.0f} billion "
        f"rows, {rows * size / 1e12:,.1f} TB to read and {rows / rate / 3600:,.1f} core-hours, in {blocks} blocks:",
        "",
    ]
    table = [
        [
            f"{executors}",
            f"{-(-blocks // executors)}",
            _span(-(-blocks // executors) * rows / blocks / rate),
            f"{min(executors, blocks) * rate * size / 1e9:,.2f} GB/s",
        ]
        for executors in _EXECUTORS
    ]
    return lines + markdown_table(["executors", "blocks one after another", "time", "read from the store"], table)


def _millions(value: float | None) -> str:
    return "null" if value is None else f"{value / 1e6:.3g} M"


def _formats(results: Results) -> Part:
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


def _questions(results: Results, suite: str, words: Mapping[str, str], more: Mapping[str, str]) -> Part:
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


def _orchestration(results: Results) -> Part:
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


def _suites(results: Results) -> Part:
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


_PARTS: dict[str, Callable[[Results], Part]] = {
    "summary": _summary,
    "choosing": advice_table,
    "measured": _measured,
    "headline": _headline,
    "headline-days": _headline_days,
    "limit": _limit,
    "layouts": _layouts,
    "pipeline": _pipeline,
    "ask": _ask,
    "reach": _reach,
    "lake": _lake,
    "executors": _executors,
    "formats": _formats,
    "orchestration": _orchestration,
    "suites": _suites,
}

# --- The rates that `era5 plan` and `era5 doctor` use, as JSON in the package ---


RATES = Path("era5_pipeline") / "planning" / "measured_rates.json"
# Of what no suite measures, or no committed file holds yet.
_BY_HAND = Path(__file__).parent / "by_hand.json"


def package_rates(results: Results) -> dict[str, Any] | None:
    """The rates, from results, or from measurements by hand where there are none; None without those of a layout."""
    layouts = {name: cell for _, found in _by_layout(results, "layouts").values() for name, cell in found.items()}
    load = {layout: rate.median for layout in LAYOUTS if (rate := rate_of_cell(layouts.get(layout))) is not None}
    # Where a month is loaded as finished batches, with the comparison that is part of it.
    as_batches = {layout: cells.get(AS_BATCHES) for layout, (_, cells) in _by_layout(results, "limit").items()}
    load |= {layout: rate.median for layout, cell in as_batches.items() if (rate := rate_of_cell(cell)) is not None}
    pipeline = {layout: cells for layout, (_, cells) in _by_layout(results, "pipeline").items()}
    loader, bytes_per_row = headline(results), median_of(layouts, "columnstore", "bytes_per_row")
    at_once = {
        layout: rate.median for layout, cells in pipeline.items() if (rate := rate_of_cell(cells.get(ALL_STAGES)))
    }
    flatten = _fastest(pipeline, FLATTEN, "seconds")
    if loader is None or bytes_per_row is None or flatten is None or set(load) != set(LAYOUTS) or not at_once:
        return None
    own = {
        "flatten_rows_per_second": flatten,
        "compare_rows_per_second": _fastest(pipeline, STAGES, "compare_seconds"),
        "generate_rows_per_second": _fastest(pipeline, STAGES, "generate_seconds"),
    }
    by_hand = json.loads(_BY_HAND.read_text(encoding="utf-8"))
    others = {name: entry for name, entry in by_hand.items() if own.get(name) is None}
    rates: dict[str, Any] = {
        "hardware": results.hardware,
        "measured": results.days,
        "loader_rows_per_second": loader.median,
        "load_rows_per_second": load,
        # A plan with another layout goes by that of the same server.
        "two_at_once_rows_per_second": at_once
        | {"calendar hypertable": at_once.get("hypertable", min(at_once.values()))},
        "columnstore_bytes_per_row": bytes_per_row,
        **{name: value for name, value in own.items() if value is not None},
        **{name: entry["value"] for name, entry in others.items()},
    }
    return {**{name: _rounded(value) for name, value in rates.items()}, "by_hand": others}


def _fastest(pipeline: Mapping[str, Entries], name: str, figure: str) -> float | None:
    """The best rate of a step that does not depend on the server's layout."""
    rates = [
        cells[name]["rows"] / seconds for cells in pipeline.values() if (seconds := median_of(cells, name, figure))
    ]
    return max(rates, default=None)


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
