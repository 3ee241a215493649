"""Write the tables, figures, parts of documents and rates for plans that follow from the newest results of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.documents import RATES, document_parts, documents_of, package_rates, rates_text, with_parts
from benchmarks.figures import draw_against_study, draw_summary
from benchmarks.suites import SUITES
from benchmarks.tables import all_tables, find_results
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.tables import Results


def write_report(folder: Path) -> list[Path]:
    """Write all of them, and return the paths; those beside the folder only if they are there.

    Raises:
        UsageError: if the folder has no results.
    """
    found = find_results(folder)
    written = _figures(found[0], folder / "figures")
    written.append(_write(folder / "results.md", all_tables(found)))
    parts = document_parts(found[0])
    for path in documents_of(folder.parent):
        text = path.read_text(encoding="utf-8")
        filled = with_parts(text, parts)
        if filled != text:
            written.append(_write(path, filled))
    rates, where = package_rates(found[0]), folder.parent / RATES
    if rates is not None and where.is_file():
        written.append(_write(where, rates_text(rates)))
    return written


def _figures(results: Results, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {
        "summary.png": draw_summary(results, folder / "summary.png"),
        "study.png": draw_against_study(results, folder / "study.png"),
    }
    for suite in SUITES:
        if suite.draw is not None:
            drawn[f"{suite.name}.png"] = suite.draw(results, folder / f"{suite.name}.png")
    for name, is_drawn in drawn.items():
        if not is_drawn:
            (folder / name).unlink(missing_ok=True)  # from earlier results
    return [folder / name for name, is_drawn in drawn.items() if is_drawn]


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
