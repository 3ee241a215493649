"""Write the tables, figures and parts of documents that show the newest results of a folder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from era5_pipeline.bench.report_figures import (
    draw_against_study,
    draw_ladder,
    draw_parallel,
    draw_scale,
    draw_suite,
    draw_summary,
    draw_sustained,
    draw_values,
)
from era5_pipeline.bench.report_tables import (
    Results,
    advice_table,
    all_tables,
    find_results,
    rows_per_second,
    short,
    summary_table,
)
from era5_pipeline.bench.settings import SETTINGS, TABLES
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# --- Parts of documents written from results: between `<!-- bench: NAME -->` and `<!-- end -->` ---


_PART = re.compile(r"(<!-- bench: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_parts(text: str, parts: Mapping[str, Sequence[str]]) -> str:
    """The document with the parts of these names rewritten; other parts are unchanged."""

    def part(match: re.Match[str]) -> str:
        lines = parts.get(match[2])
        return match[0] if lines is None else match[1] + "\n".join(["", *lines, "", ""]) + match[3]

    return _PART.sub(part, text)


# --- Write the tables, figures and parts of documents that show the newest results of a folder ---


# Suites drawn as bars, with the titles of their figures.
_BARS = {
    "insert": "An INSERT for each row",
    "multi-insert": "Many rows in a statement",
    "copy": "COPY: with all preparation, and the copy alone",
    "tools": "Tools, their CSV file ready",
}


def write_report(folder: Path) -> list[Path]:
    """Write all of them, and return the paths.

    Raises:
        UsageError: if the folder has no results.
    """
    found = find_results(folder)
    written = _figures(found[0], folder / "figures")
    written.append(_write(folder / "results.md", all_tables(found)))
    parts = document_parts(found)
    for path in (folder.parent / "README.md", folder.parent / "docs" / "choosing.md", folder / "README.md"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            filled = with_parts(text, parts)
            if filled != text:
                written.append(_write(path, filled))
    return written


def document_parts(found: Sequence[Results]) -> dict[str, list[str]]:
    """The lines of each part, by name."""
    newest = found[0]
    summary = [
        f"Measured on {newest.hardware}, {newest.date} ([how](benchmarks/README.md), "
        "[everything](benchmarks/results.md)):",
        "",
        *summary_table(newest),
    ]
    return {"summary": summary, "choosing": advice_table(newest)}


def _figures(results: Results, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {
        f"{suite}.png": draw_suite(results, suite, title, folder / f"{suite}.png") for suite, title in _BARS.items()
    }
    drawn |= {
        "summary.png": draw_summary(results, folder / "summary.png"),
        "sustained.png": draw_sustained(results, folder / "sustained.png"),
        "parallel.png": draw_parallel(results, folder / "parallel.png"),
        "scale.png": draw_scale(results, folder / "scale.png"),
        "study.png": draw_against_study(results, folder / "study.png"),
        "ladder.png": draw_ladder(results, folder / "ladder.png"),
        "settings.png": _draw_settings(results, folder / "settings.png"),
        "others.png": _draw_others(results, folder / "others.png"),
    }
    for name, is_drawn in drawn.items():
        if not is_drawn:
            (folder / name).unlink(missing_ok=True)  # from earlier results
    return [folder / name for name, is_drawn in drawn.items() if is_drawn]


def _draw_settings(results: Results, path: Path) -> bool:
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


def _draw_others(results: Results, path: Path) -> bool:
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


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
