"""Write the tables, figures, parts of documents and rates for plans that follow from the newest results of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.documents import RATES, document_parts, documents_of, package_rates, rates_text, with_parts
from benchmarks.figures import FIGURES, save_chart
from benchmarks.tables import all_tables, find_results
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.tables import Results


def write_report(folder: Path) -> list[Path]:
    """Write all of them, and return the paths; those beside the folder only if they are there."""
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
    written = []
    for name, draw in FIGURES.items():
        figure, path = draw(results), folder / f"{name}.png"
        if figure is None:
            path.unlink(missing_ok=True)  # from earlier results
        else:
            save_chart(figure, path)
            written.append(path)
    return written


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
