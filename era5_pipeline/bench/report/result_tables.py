"""Results as Markdown tables: one for each suite and server, and the study's rows beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.report.found_results import (
    VALUES_PER_ROW,
    Results,
    published,
    published_rate,
    rate_of_cell,
)
from era5_pipeline.bench.report.number_words import days, rows_per_second, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """The document of all tables."""
    parts = [
        "# Results",
        "",
        "Written by `era5 bench report` from the files in `results/`; nothing here is typed by hand. Medians, with the "
        "10th and the 90th percentile; null with its reason where nothing could be measured.",
    ]
    for one in results:
        parts += ["", f"## {one.hardware}, {one.date}", "", *_environments(one), "", *study_table(one)]
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
    """Each row of the study's tables, its rates and ours."""
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
        ("one connection", "rows/s, table", "rows/s, hypertable", "÷ psycopg rows", "754 billion rows"), rows
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
    header += ["values/s", "rows/s a core", "seconds", *figures, "repeats", *(["notes"] if notes else [])]
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
        rows.append([*row, str(rate.repeats), *([_notes(cell)] if notes else [])])
    return markdown_table(header, rows)


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
