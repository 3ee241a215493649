"""The report of the newest results of a folder: tables, figures, parts of documents, and the rates that plans use.

In a document, a part stands between `<!-- bench: NAME -->` and `<!-- end -->`: lines of its own, or words of a
line. `templates/documents.md.j2` has all of them. A part of which nothing has been measured keeps its text, which names
a date and a command.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cells import Entries, median_of
from benchmarks.engines import ENGINES
from benchmarks.everywhere import ON_FAR_S3, ON_S3, visits_of_the_globe
from benchmarks.figures import FIGURES, save_chart
from benchmarks.pipeline import STAGES
from benchmarks.suites import SUITES
from benchmarks.tables import Rate, Results, all_tables, find_results, load_text, rate_of_cell, short, templates
from era5_pipeline.climate.everywhere import BLOCK_LOCATIONS
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.files import replacing
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_PART = re.compile(r"(<!-- bench: ([\w-]+) -->)(\n?)(.*?)(<!-- end -->)", re.DOTALL)
# A setting that makes a load less than this much faster is within the variation of repeats.
_HELPS = 1.05


def write_report(folder: Path) -> list[Path]:
    """Write all of them, and return the paths; those beside the folder only if they are there."""
    found, project = find_results(folder), folder.parent
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    written = []
    for name in FIGURES:
        path = figures / f"{name}.png"
        if save_chart(name, found[0], path):
            written.append(path)
        else:
            path.unlink(missing_ok=True)  # from earlier results
    texts = {folder / "results.md": all_tables(found)}
    parts = document_parts(found[0])
    for path in documents_of(project):
        text = path.read_text(encoding="utf-8")
        if (filled := with_parts(text, parts)) != text:
            texts[path] = filled
    rates = package_rates(found[0])
    if rates is not None and (project / RATES).is_file():
        texts[project / RATES] = rates_text(rates)
    for path, text in texts.items():
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return [*written, *texts]


def documents_of(project: Path) -> Sequence[Path]:
    """The documents that may have parts."""
    of_project = [project / "README.md", project / "benchmarks" / "README.md"]
    return [path for path in (*of_project, *sorted((project / "docs").glob("*.md"))) if path.is_file()]


def with_parts(text: str, parts: Mapping[str, str | None]) -> str:
    """The document with the parts of these names rewritten; other parts, and those that are None, are unchanged."""

    def part(match: re.Match[str]) -> str:
        made = parts.get(match[2])
        if made is None:
            return match[0]
        return match[1] + (f"\n\n{made}\n\n" if match[3] else made) + match[5]

    return _PART.sub(part, text)


def document_parts(results: Results) -> dict[str, str | None]:
    """The text of each part, by name; None if nothing of it has been measured."""
    environment = templates()
    environment.filters |= {
        "answer": _answer,
        "extract": lambda name, cells, key=None: cells[name][key] if key else cells[name],
        "few_places": lambda engine: f"{engine}, few places",
        "load": lambda cells: load_text(cells.values()),
        "months": lambda cells: max(cell["parameters"].get("months", 0) for cell in cells.values()),
        "fsync": lambda cells: {
            results.contents["environments"][cell["environment"]]["server"]["settings"]["fsync"]
            for cell in cells.values()
        },
        "rows": lambda cells: [cell["rows"] for cell in cells.values()],
    }
    text = environment.get_template("documents.md.j2").render(
        results=results,
        layouts=list(LAYOUTS),
        engines=[engine.name for engine in ENGINES],
        suites=SUITES,
        at_least={suite.name: suite.at_least for suite in SUITES},
        by_layout=results.by_layout,
        fastest=results.fastest,
        csv_tools=lambda: _csv_tools(results),
        by_connections=results.by_connections,
        best_setting=lambda names: _best_setting(results, names),
        least=_least,
        rate_of=rate_of_cell,
        fewest_given=lambda cells: min(
            values[1] for cell in cells.values() for name, values in cell["medians"].items() if name.startswith("given")
        ),
        globe_on_s3=lambda: _globe_on_s3(results),
    )
    return {match[2]: re.sub(r"\n{3,}", "\n\n", match[4]).strip() or None for match in _PART.finditer(text)}


def _answer(cell: dict[str, Any] | None, units: Mapping[str, str]) -> str:
    """The figures of an answer with their units; requests are told by their rate, not by their seconds."""
    medians = cell["medians"] if cell else {}
    said = [
        f"{short(medians[figure][1])} {unit}"
        for figure, unit in units.items()
        if figure in medians and not (figure == "seconds" and "requests_per_second" in medians)
    ]
    return "; ".join(said) or "null"


def _least(cells: Entries, figure: str, names: Iterable[str] | None = None) -> list[tuple[str, float]]:
    """Each of these cells (None: all) with its median of the figure, the least first."""
    found = [(name, median_of(cells, name, figure)) for name in (cells if names is None else names)]
    return sorted([(name, value) for name, value in found if value is not None], key=lambda one: one[1])


def _csv_tools(results: Results) -> list[tuple[str, Rate]]:
    """The ways to load a CSV file that is ready, the fastest first."""
    found = {
        name.removesuffix(", regular"): rate_of_cell(cell)
        for name, cell in results.main_cells("tools").items()
        if cell["parameters"]["table"] == "regular"
    }
    found["COPY of the file"] = results.rate("copy", "pyarrow CSV + COPY, regular", figure="copy_seconds")
    return sorted([(name, rate) for name, rate in found.items() if rate], key=lambda one: -one[1].median)


def _best_setting(results: Results, names: Iterable[str]) -> tuple[str, float]:
    """The setting that helps most, with its ratio to the default; ("", 0.0) if none helps."""
    ratios = results.ratios("settings")
    found = [(name, ratios.get(f"{name}, a new table for each batch") or 0.0) for name in names]
    best = max(found, key=lambda one: one[1])
    return best if best[1] >= _HELPS else ("", 0.0)


def _globe_on_s3(results: Results) -> dict[str, Any] | None:
    """Estimate the cost of all trends from a lake of 1940 to 2024 by the measured cost of a visit to a file."""
    cells = next((of for of in results.by_layout("lake").values() if ON_S3 in of and ON_FAR_S3 in of), None)
    if cells is None:
        return None
    near, far = ({name: value[1] for name, value in cells[cell]["medians"].items()} for cell in (ON_S3, ON_FAR_S3))
    months = [Month(year, month) for year in range(1940, 2025) for month in range(1, 13)]
    rows, visits = ERA5_GRID.locations * sum(month.hours for month in months), visits_of_the_globe(len(months))
    return {
        "near": near,
        "far": far,
        "measured_rows": cells[ON_FAR_S3]["rows"],
        "rows": rows,
        "blocks": -(-ERA5_GRID.locations // BLOCK_LOCATIONS),
        "visits": visits,
        "seconds": visits * far["seconds_per_visit"],
        "requests": visits * far["requests_per_visit"],
        "bytes": rows * far["bytes_per_row"],
    }


# --- The rates that `era5 plan` uses, as JSON in the package ---


RATES = Path("era5_pipeline") / "planning" / "measured_rates.json"
# Values that no suite measures.
_BY_HAND = Path(__file__).parent / "by_hand.json"


def package_rates(results: Results) -> dict[str, Any] | None:
    """The rates, from results and measurements by hand; None without results of the suites layouts and pipeline.

    Times are those of one month alone on plain PostgreSQL, stage by stage.
    """
    layouts = {name: cell for cells in results.by_layout("layouts").values() for name, cell in cells.items()}
    bytes_per_row = median_of(layouts, "columnstore", "bytes_per_row")
    cells = results.by_layout("pipeline").get("partitions", {})
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
