"""Results as Markdown tables, the study's published rates beside ours, and advice on what to use when."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.results import read_results
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# --- Numbers for readers: 1,234 rows/s, 1.2 M, 12 days ---


def rows_per_second(value: float) -> str:
    """A rate with three digits: 950, 28,400, 2.09 M."""
    if value >= 999_500:
        return f"{value / 1e6:.3g} M"
    return f"{float(f'{value:.3g}'):,.0f}"


def days(value: float) -> str:
    """Days with two digits; from a thousand on, years."""
    if value >= 1000:
        return f"{float(f'{value / 365.25:.2g}'):,.0f} years"
    return f"{float(f'{value:.2g}'):,g} days"


def short(value: float) -> str:
    """A number with three digits."""
    return f"{float(f'{value:.3g}'):,g}"


# --- The newest results of a folder, and reading rates from them ---


ALL_ROWS = 753_836_544_000  # hours from 1940 to 2022 times the locations of the globe, as in the study
# Values of variables per row, without time and place.
VALUES_PER_ROW = 6
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class Rate:
    """A median rate in rows/s, with its 10th and 90th percentile, and the number of measurements."""

    low: float
    median: float
    high: float
    repeats: int

    @property
    def days(self) -> float:
        """Days for the 754 billion rows of ERA5 at this rate."""
        return ALL_ROWS / self.median / SECONDS_PER_DAY


@dataclass(frozen=True)
class Results:
    """A file of results."""

    path: Path
    contents: dict[str, Any]

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """All cells."""
        found: list[dict[str, Any]] = self.contents["cells"]
        return found

    @property
    def servers(self) -> list[str]:
        """The servers that were measured."""
        return list(dict.fromkeys(cell["server"] for cell in self.cells))

    def of_suite(self, suite: str, server: str) -> dict[str, dict[str, Any]]:
        """The cells of a suite on a server, by name."""
        return {cell["name"]: cell for cell in self.cells if cell["suite"] == suite and cell["server"] == server}

    def main_server(self, suite: str) -> str | None:
        """The server to show for a suite: the one with the most measured cells of it, then of all suites."""
        measured = [cell for cell in self.cells if cell["reason"] is None]
        servers = Counter(cell["server"] for cell in measured if cell["suite"] == suite)
        of_all = Counter(cell["server"] for cell in measured)
        return max(servers, key=lambda server: (servers[server], of_all[server]), default=None)

    def rate(self, suite: str, name: str, server: str | None = None, figure: str = "seconds") -> Rate | None:
        """The rate of a cell; None if it was not measured."""
        server = server or self.main_server(suite)
        return None if server is None else rate_of_cell(self.of_suite(suite, server).get(name), figure)

    @property
    def machine(self) -> dict[str, Any]:
        """The machine that was measured."""
        found: dict[str, Any] = next(iter(self.contents["environments"].values()))["machine"]
        return found

    @property
    def hardware(self) -> str:
        """A description of the machine."""
        memory = (self.machine["memory_bytes"] or 0) / (1 << 30)
        return f"{self.machine['cores']} cores of {self.machine['processor']}, {memory:.0f} GiB"

    @property
    def date(self) -> str:
        """The day of the last measurement."""
        return max(self._days, default="")

    @property
    def days(self) -> str:
        """The day of the measurements; the first and the last if they took several."""
        return " to ".join(dict.fromkeys([min(self._days, default=""), self.date]))

    @property
    def _days(self) -> list[str]:
        return [repeat["at"][:10] for cell in self.cells for repeat in cell["repeats"]]


def rate_of_cell(cell: dict[str, Any] | None, figure: str = "seconds") -> Rate | None:
    """The rate of a cell, by one of its figures in seconds; None if it was not measured."""
    if cell is None or cell["reason"] is not None or figure not in cell["medians"]:
        return None
    low, median, high = cell["medians"][figure]
    if not low:
        return None
    return Rate(cell["rows"] / high, cell["rows"] / median, cell["rows"] / low, len(cell["repeats"]))


def find_results(folder: Path) -> list[Results]:
    """The newest file of results of each machine: from FOLDER/results/DATE/, else from the folder itself.

    Raises:
        UsageError: if there are no results.
    """
    files = sorted(folder.glob("results/*/*.json"), key=lambda path: path.parent.name) or sorted(folder.glob("*.json"))
    newest = {path.name: path for path in files}
    if not newest:
        raise UsageError(
            f"{folder} has no results",
            remedy="Measure first: era5 bench run all --json FOLDER/results/DATE/MACHINE.json",
        )
    found = [Results(path, read_results(path)) for path in newest.values()]
    return sorted(found, key=lambda results: results.date, reverse=True)


def published() -> dict[str, Any]:
    """The rates published by the study and others."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
    return found


def published_rate(results: Results, entry: dict[str, Any], table: str) -> tuple[Rate | None, str]:
    """Our rate for a row of the study, with the cell's name, or the reason why it is missing."""
    suite, figure = entry["suite"], entry.get("figure", "seconds")
    server = results.main_server(suite)
    if server is None:
        return None, "not measured"
    cells = results.of_suite(suite, server)
    if entry.get("best"):
        same = {
            name: cell
            for name, cell in cells.items()
            if name.startswith(entry["cell"]) and cell["parameters"]["table"] == table
        }
        rates = {name: rate for name, cell in same.items() if (rate := rate_of_cell(cell)) is not None}
        if not rates:
            return None, next((cell["reason"] for cell in same.values() if cell["reason"]), "not measured")
        name = max(rates, key=lambda one: rates[one].median)
        return rates[name], name
    name = f"{entry['cell']}, {table}"
    rate = rate_of_cell(cells.get(name), figure)
    reason = cells[name]["reason"] if name in cells else None
    return rate, name if rate is not None else reason or "not measured"


# --- Results as Markdown tables: one for each suite and server, and the study's rows beside ours ---


_SUMMARY = (
    ("an INSERT a row, psycopg", "insert", "psycopg"),
    ("many rows an INSERT, psycopg executemany", "multi-insert", "psycopg executemany"),
    ("psycopg `write_row`, the study's best", "copy", "psycopg rows"),
    ("a CSV by pandas, then COPY", "copy", "pandas CSV + COPY"),
    ("a CSV by pyarrow, then COPY", "copy", "pyarrow CSV + COPY"),
    ("ADBC", "copy", "ADBC ingest"),
    ("this pipeline's loader", "copy", "our loader"),
)
_COPY_METHOD = "psycopg rows"


def all_tables(results: Sequence[Results]) -> str:
    """The document with all tables."""
    parts = [
        "# Results",
        "",
        "Written by `era5 bench report` from the files in `results/`; nothing here is typed by hand. Medians, with the "
        "10th and the 90th percentile; null with its reason where nothing could be measured.",
    ]
    for one in results:
        parts += ["", f"## {one.hardware}, {one.days}", "", *_environments(one), "", *study_table(one)]
        for suite in dict.fromkeys(cell["suite"] for cell in one.cells):
            for server in one.servers:
                cells = one.of_suite(suite, server)
                if cells:
                    parts += ["", f"### {suite}: {server}", "", *_suite_table(one, cells)]
                    parts += _summary(one, suite, server)
    return "\n".join(parts) + "\n"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; all columns but the first are numbers."""
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def study_table(results: Results) -> list[str]:
    """The rows of the study's tables, with its rates and ours."""
    study = published()
    rows = []
    for entry in study["rates"]:
        row = [entry["row"]]
        for table in ("regular", "hypertable"):
            rate, name = published_rate(results, entry, table)
            ours = f"null ({name})" if rate is None else rows_per_second(rate.median)
            row += [rows_per_second(entry[table]), ours]
        rows.append(row)
    header = ("rows/s", "regular: study", "here", "hypertable: study", "here")
    return [
        "### The study's rows",
        "",
        f"Study: {study['study']['hardware']}; {study['study']['software']}. Here: {results.hardware}.",
        "",
        *markdown_table(header, rows),
    ]


def summary_table(results: Results) -> list[str]:
    """The table of the README: a few ways, their rates, and the days that ERA5 would take."""
    base = results.rate("copy", f"{_COPY_METHOD}, regular")
    rows = []
    for words, suite, name in _SUMMARY:
        regular, hyper = (results.rate(suite, f"{name}, {table}") for table in ("regular", "hypertable"))
        if regular is None:
            continue
        times = "" if base is None else short(regular.median / base.median)
        rows.append(
            [
                words,
                rows_per_second(regular.median),
                "null" if hyper is None else rows_per_second(hyper.median),
                times,
                days(regular.days),
            ]
        )
    return markdown_table(
        (
            "one connection",
            "rows/s, table",
            "rows/s, hypertable",
            "÷ psycopg rows",
            f"{ALL_ROWS / 1e9:.0f} billion rows, 1940 to 2022",
        ),
        rows,
    )


def _suite_table(results: Results, cells: dict[str, dict[str, Any]]) -> list[str]:
    cores = results.machine["cores"] or 1
    figures = [
        name
        for name in dict.fromkeys(name for cell in cells.values() for name in cell["medians"])
        if name not in ("seconds", "copy_seconds")
    ]
    has_copy = any("copy_seconds" in cell["medians"] for cell in cells.values())
    notes = any(_notes(cell) for cell in cells.values())
    header = ["cell", "rows", "rows/s", "10th to 90th", *(["copy only, rows/s"] if has_copy else [])]
    header += ["values/s", "rows/s a core", "seconds", *figures, "repeats"]
    has_load = load_average(cells.values()) is not None
    header += [*(["load before"] if has_load else []), *(["notes"] if notes else [])]
    rows = []
    for name, cell in cells.items():
        rate, copy = rate_of_cell(cell), rate_of_cell(cell, "copy_seconds")
        if rate is None:
            reason = cell["reason"] or "not measured"
            rows.append([name, "", f"null: {reason}", *[""] * (len(header) - 3)])
            continue
        row = [
            name,
            f"{cell['rows']:,}",
            rows_per_second(rate.median),
            f"{rows_per_second(rate.low)} to {rows_per_second(rate.high)}",
        ]
        row += [rows_per_second(copy.median) if copy is not None else ""] if has_copy else []
        row += [
            rows_per_second(rate.median * VALUES_PER_ROW),
            rows_per_second(rate.median / cores),
            short(cell["medians"]["seconds"][1]),
        ]
        row += [short(cell["medians"][figure][1]) if figure in cell["medians"] else "" for figure in figures]
        row += [str(rate.repeats), *([load_text([cell])] if has_load else [])]
        rows.append([*row, *([_notes(cell)] if notes else [])])
    return markdown_table(header, rows)


def load_average(cells: Iterable[dict[str, Any]]) -> float | None:
    """The median load average of the machine in the minute before each repeat; None if it was not recorded."""
    found = [repeat["load_average"] for cell in cells for repeat in cell["repeats"] if "load_average" in repeat]
    return median(found) if found else None


def load_text(cells: Iterable[dict[str, Any]]) -> str:
    """The same with one decimal; "" if it was not recorded."""
    found = load_average(cells)
    return "" if found is None else f"{found:.1f}"


def _notes(cell: dict[str, Any]) -> str:
    notes = cell["repeats"][-1].get("notes", {}) if cell["repeats"] else {}
    return "; ".join(f"{key}: {value}" for key, value in notes.items())


def _summary(results: Results, suite: str, server: str) -> list[str]:
    lines = []
    for kind in ("figures", "ratios"):
        found = results.contents[kind].get(server, {}).get(suite, {})
        if found:
            rows = [(name, "null" if value is None else short(value)) for name, value in found.items()]
            lines += ["", *markdown_table((kind.removesuffix("s"), "value"), rows)]
    return lines


def _environments(results: Results) -> list[str]:
    lines = []
    for environment in results.contents["environments"].values():
        versions = ", ".join(f"{name} {found}" for name, found in environment["software_versions"].items())
        settings = ", ".join(f"{name} {value}" for name, value in environment["server"]["settings"].items())
        lines.append(
            f"- {environment['server']['version']} ({settings or 'each cell names its settings'}; "
            f"{environment['server']['connection']}); {environment['machine']['system']}; commit "
            f"{environment['commit']}; {versions}"
        )
    return lines


# --- Advice on what to use when, with figures from results: the table of docs/choosing.md ---


_OURS = "era5-pipeline"
_HELPS = 1.05
Advice = tuple[str, str, str]


def advice_table(results: Results) -> list[str]:
    """The lines of the table; what was not measured is left out."""
    makers: tuple[Callable[[Results], Advice | None], ...] = (
        _columns,
        _tuples,
        _csv,
        _single_rows,
        _connections,
        _hypertable,
        _durable,
        _not_durable,
        _place_year,
        _month_mean,
    )
    rows = [advice for make in makers if (advice := make(results)) is not None]
    text = markdown_table(("you have, or want", "take", "measured"), rows)
    text[1] = "|---|---|---|"
    return [
        f"Measured on {results.hardware}, {results.days}; regular tables, all preparation included unless said:",
        "",
        *text,
    ]


def _best(results: Results, suite: str, names: Iterable[str], figure: str = "seconds") -> tuple[str, Rate] | None:
    found = [
        (name, rate) for name in names if (rate := results.rate(suite, f"{name}, regular", figure=figure)) is not None
    ]
    return max(found, key=lambda one: one[1].median, default=None)


def _columns(results: Results) -> Advice | None:
    ours, base = results.rate("copy", "our loader, regular"), results.rate("copy", "psycopg rows, regular")
    if ours is None or base is None:
        return None
    best = _best(results, "copy", ("our loader", "ADBC ingest", "pgpq from memory"))
    assert best is not None  # noqa: S101  # ours is one of them
    more = "" if best[0] == "our loader" else f"; fastest: {best[0]}, {rows_per_second(best[1].median)}"
    return (
        "columns: netCDF, Parquet, Arrow",
        "`era5 load`, or binary COPY of Arrow (pgpq, ADBC) into tables of your own",
        f"{rows_per_second(ours.median)} rows/s with its Parquet file, {short(ours.median / base.median)} times "
        f"psycopg's rows{more}",
    )


def _tuples(results: Results) -> Advice | None:
    best = _best(results, "copy", ("psycopg rows", "psycopg binary rows", "asyncpg records"))
    base = results.rate("copy", "psycopg rows, regular")
    if best is None or base is None:
        return None
    return (
        "tuples in Python",
        f"COPY, never INSERT: {best[0]}",
        f"{rows_per_second(best[1].median)} rows/s; psycopg rows {rows_per_second(base.median)}",
    )


def _csv(results: Results) -> Advice | None:
    server = results.main_server("tools")
    tools = {
        name.removesuffix(", regular"): rate
        for name, cell in ({} if server is None else results.of_suite("tools", server)).items()
        if cell["parameters"]["table"] == "regular" and (rate := rate_of_cell(cell)) is not None
    }
    plain = results.rate("copy", "pyarrow CSV + COPY, regular", figure="copy_seconds")
    if plain is not None:
        tools["COPY of the file"] = plain
    if not tools:
        return None
    ranked = sorted(tools, key=lambda name: -tools[name].median)
    return (
        "CSV files that are ready",
        ranked[0],
        ", ".join(f"{name} {rows_per_second(tools[name].median)}" for name in ranked[:3]) + " rows/s",
    )


def _single_rows(results: Results) -> Advice | None:
    one = results.rate("insert", "psycopg, regular")
    names = ("psycopg executemany", "psycopg multi-VALUES", "psycopg UNNEST", "SQLAlchemy", "pandas")
    best = _best(results, "multi-insert", names)
    if one is None or best is None:
        return None
    return (
        "rows that arrive a few at a time",
        f"collect some, then {best[0]}",
        f"{rows_per_second(best[1].median)} rows/s; an INSERT a row {rows_per_second(one.median)}",
    )


def _connections(results: Results) -> Advice | None:
    server = results.main_server("parallel")
    rates = {
        cell["parameters"]["workers"]: rate
        for cell in ({} if server is None else results.of_suite("parallel", server)).values()
        if (cell["parameters"]["method"], cell["parameters"]["table"]) == ("our loader", "regular")
        if (rate := rate_of_cell(cell)) is not None
    }
    if len(rates) < 2:
        return None
    best = max(rates, key=lambda count: rates[count].median)
    shown = ", ".join(f"{count}: {rows_per_second(rate.median)}" for count, rate in sorted(rates.items()))
    return "a long load", f"{best} connection{'s' if best > 1 else ''} at once, here", f"by connections {shown} rows/s"


def _seconds(results: Results, suite: str, name: str) -> float | None:
    server = results.main_server(suite)
    cell = None if server is None else results.of_suite(suite, server).get(name)
    return None if cell is None or cell["reason"] is not None else float(cell["medians"]["seconds"][1])


def _hypertable(results: Results) -> Advice | None:
    converted = _seconds(results, "conversion", "regular table, then migrate_data")
    straight = _seconds(results, "conversion", "straight into the hypertable")
    if converted is None or straight is None:
        return None
    take = "load straight into it" if straight < converted else "load a regular table, then convert it"
    return "a hypertable", take, f"straight {short(straight)} s, converted afterwards {short(converted)} s"


def _setting(results: Results, names: Iterable[str]) -> tuple[str, float] | None:
    """The setting that helps most, with its ratio to the default; None if none helps."""
    server = results.main_server("settings")
    ratios: dict[str, Any] = {} if server is None else results.contents["ratios"].get(server, {}).get("settings", {})
    table = "a new table for each batch"
    found = [(name, ratios[f"{name}, {table}"]) for name in names if ratios.get(f"{name}, {table}")]
    best = max(found, key=lambda one: one[1], default=None)
    # Smaller gains are within the variation of repeats.
    return best if best is not None and best[1] >= _HELPS else None


def _durable(results: Results) -> Advice | None:
    names = ("wal_level=minimal", "max_wal_size=16GB", "wal_compression=pglz", "jit=off", "together, durable")
    best = _setting(results, names)
    if best is None:
        return None
    return "faster, as safe as before", f"`{best[0]}` (no replicas)", f"{short(best[1])} times the default's rate"


def _not_durable(results: Results) -> Advice | None:
    names = ("synchronous_commit=off", "full_page_writes=off", "fsync=off", "unlogged", "together, not durable")
    best = _setting(results, names)
    if best is None:
        return None
    take = f"`{best[0]}`, only for data that you can load again"
    return "faster, whatever a power failure does", take, f"{short(best[1])} times the default's rate"


def _place_year(results: Results) -> Advice | None:
    return _question(results, "place_year_warm_ms", "one place's year, again and again")


def _month_mean(results: Results) -> Advice | None:
    return _question(results, "month_mean_warm_ms", "the mean of a whole month, all places")


def _question(results: Results, figure: str, words: str) -> Advice | None:
    """The fastest contender for this question, even if it is not this project."""
    server = results.main_server("others")
    times = {
        name: cell["medians"][figure][1]
        for name, cell in ({} if server is None else results.of_suite("others", server)).items()
        if cell["reason"] is None and figure in cell["medians"]
    }
    if len(times) < 2 or _OURS not in times:
        return None
    ranked = sorted(times, key=lambda name: times[name])
    shown = ", ".join(f"{name} {short(times[name])}" for name in ranked)
    return words, "this table" if ranked[0] == _OURS else ranked[0], f"{shown} ms, warm"
