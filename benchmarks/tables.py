"""Results of a file: its rates, the study's published ones beside them, and all of them as Markdown tables."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import ChainableUndefined, Environment, FileSystemLoader

from benchmarks.results import read_results
from era5_pipeline.model.errors import UsageError
from era5_pipeline.warehouse.layouts import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.cells import Entries


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

    def of_suite(self, suite: str, server: str) -> Entries:
        """The cells of a suite on a server, by name."""
        return {cell["name"]: cell for cell in self.cells if cell["suite"] == suite and cell["server"] == server}

    def measured(self, suite: str, server: str) -> Entries:
        """The cells of a suite that were measured on a server, by name."""
        return {name: cell for name, cell in self.of_suite(suite, server).items() if cell["reason"] is None}

    def by_layout(self, suite: str) -> dict[str, Entries]:
        """The measured cells of a suite, by name, by the layout of a new table on their server."""
        found = {layout_of(server): cells for server in self.servers if (cells := self.measured(suite, server))}
        return {layout: found[layout] for layout in LAYOUTS if layout in found}

    def main_server(self, suite: str) -> str | None:
        """The server to show for a suite: the one with the most measured cells of it, then of all suites."""
        measured = [cell for cell in self.cells if cell["reason"] is None]
        servers = Counter(cell["server"] for cell in measured if cell["suite"] == suite)
        of_all = Counter(cell["server"] for cell in measured)
        return max(servers, key=lambda server: (servers[server], of_all[server]), default=None)

    def main_cells(self, suite: str) -> Entries:
        """The measured cells of a suite on its main server."""
        return self.measured(suite, self.main_server(suite) or "")

    def ratios(self, suite: str) -> dict[str, float | None]:
        """The ratios of a suite on its main server."""
        found: dict[str, float | None] = self.contents["ratios"].get(self.main_server(suite), {}).get(suite, {})
        return found

    def rate(self, suite: str, name: str, figure: str = "seconds") -> Rate | None:
        """The rate of a cell on the suite's main server; None if it was not measured."""
        return rate_of_cell(self.main_cells(suite).get(name), figure)

    def fastest(self, suite: str, names: Iterable[str]) -> list[tuple[str, Rate]]:
        """Rank these methods by their rate into a regular table, fastest first; those not measured are left out."""
        found = [(name, self.rate(suite, f"{name}, regular")) for name in names]
        return sorted([(name, rate) for name, rate in found if rate], key=lambda one: -one[1].median)

    def by_connections(self, method: str, table: str) -> list[tuple[int, Rate]]:
        """The rates of a method into a table by the number of connections."""
        found = [
            (cell["parameters"]["workers"], rate_of_cell(cell))
            for cell in self.main_cells("parallel").values()
            if (cell["parameters"]["method"], cell["parameters"]["table"]) == (method, table)
        ]
        return sorted([(count, rate) for count, rate in found if rate], key=lambda one: one[0])

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
    def days(self) -> str:
        """The day of the measurements; the first and the last if they took several."""
        found = {repeat["at"][:10] for cell in self.cells for repeat in cell["repeats"]}
        return " to ".join(dict.fromkeys([min(found, default=""), max(found, default="")]))


def layout_of(server: str) -> str:
    """The layout of a new table on a server, by the description of its version."""
    licenses = {"(apache)": "hypertable", "(timescale)": "columnstore"}
    return next((layout for words, layout in licenses.items() if words in server), "partitions")


def rate_of_cell(cell: dict[str, Any] | None, figure: str = "seconds") -> Rate | None:
    """The rate of a cell, by one of its figures in seconds; None if it was not measured."""
    if cell is None or cell["reason"] is not None or figure not in cell["medians"]:
        return None
    low, median, high = cell["medians"][figure]
    if not low:
        return None
    return Rate(cell["rows"] / high, cell["rows"] / median, cell["rows"] / low, len(cell["repeats"]))


def find_results(folder: Path) -> list[Results]:
    """The newest file of results of each machine: from FOLDER/results/DATE/, else from the folder itself."""
    files = sorted(folder.glob("results/*/*.json"), key=lambda path: path.parent.name) or sorted(folder.glob("*.json"))
    newest = {path.name: path for path in files}
    if not newest:
        raise UsageError(
            f"{folder} has no results",
            remedy="Measure first: era5 bench run all --json FOLDER/results/DATE/MACHINE.json",
        )
    found = [Results(path, read_results(path)) for path in newest.values()]
    return sorted(found, key=lambda results: results.days[-10:], reverse=True)


def published() -> dict[str, Any]:
    """The rates published by the study and others."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
    return found


def published_rate(results: Results, entry: dict[str, Any], table: str) -> tuple[Rate | None, str]:
    """Our rate for a row of the study, with the cell's name, or the reason why it is missing."""
    suite, way = entry["suite"], entry["cell"]
    cells = {
        name: cell
        for name, cell in results.of_suite(suite, results.main_server(suite) or "").items()
        if (name.startswith(way) if entry.get("best") else name == f"{way}, {table}")
        if cell["parameters"]["table"] == table
    }
    found = [(name, rate_of_cell(cell, entry.get("figure", "seconds"))) for name, cell in cells.items()]
    rates = [(rate, name) for name, rate in found if rate]
    if not rates:
        return None, next((cell["reason"] for cell in cells.values() if cell["reason"]), "not measured")
    return max(rates, key=lambda one: one[0].median)


# --- Templates, and the document with all tables ---


def templates() -> Environment:
    """The templates of documents, with filters for numbers and cells, of which missing ones are `null`."""

    def number(text: Callable[[float], str]) -> Callable[[Any], str]:
        return lambda value: text(value) if isinstance(value, int | float) else "null"

    def rate(cell: Any, figure: str = "seconds") -> str:  # noqa: ANN401  # Undefined, or an entry
        found = rate_of_cell(cell or None, figure)
        return "null" if found is None else rows_per_second(found.median)

    def figure(cell: Any, name: str, unit: float = 1) -> str:  # noqa: ANN401
        return short(cell["medians"][name][1] / unit) if cell and name in cell["medians"] else "null"

    environment = Environment(  # noqa: S701  # Markdown of our own
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "short": number(short),
        "per_second": number(rows_per_second),
        "days": number(days),
        "rate": rate,
        "figure": figure,
    }
    return environment


def all_tables(results: Sequence[Results]) -> str:
    """The document with all tables."""
    return (
        templates()
        .get_template("results.md.j2")
        .render(files=results, study=published(), published_rate=published_rate, suite_table=_suite_table)
    )


def _suite_table(results: Results, cells: Entries) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a suite's table; columns that no cell has are left out."""
    cores = results.machine["cores"] or 1
    rows = []
    for name, cell in cells.items():
        rate, copy = rate_of_cell(cell), rate_of_cell(cell, "copy_seconds")
        if rate is None:
            rows.append({"cell": name, "rows/s": f"null: {cell['reason'] or 'not measured'}"})
            continue
        rows.append(
            {
                "cell": name,
                "rows": f"{cell['rows']:,}",
                "rows/s": rows_per_second(rate.median),
                "10th to 90th": f"{rows_per_second(rate.low)} to {rows_per_second(rate.high)}",
                "copy only, rows/s": rows_per_second(copy.median) if copy else "",
                "values/s": rows_per_second(rate.median * VALUES_PER_ROW),
                "rows/s a core": rows_per_second(rate.median / cores),
                **{figure: short(values[1]) for figure, values in cell["medians"].items()},
                "repeats": str(rate.repeats),
                "load before": load_text([cell]),
                "notes": "; ".join(f"{key}: {value}" for key, value in cell["repeats"][-1].get("notes", {}).items()),
            }
        )
    figures = dict.fromkeys(name for cell in cells.values() for name in cell["medians"] if name != "copy_seconds")
    columns = ["cell", "rows", "rows/s", "10th to 90th", "copy only, rows/s", "values/s", "rows/s a core", "seconds"]
    columns += [*(name for name in figures if name != "seconds"), "repeats", "load before", "notes"]
    table = pd.DataFrame(rows, columns=columns, dtype=object).fillna("")
    lacking = [name for name in ("copy only, rows/s", "load before", "notes") if not table[name].any()]
    table = table.drop(columns=lacking)
    return [*map(str, table)], table.to_numpy().tolist()


def load_text(cells: Iterable[dict[str, Any]]) -> str:
    """The median load average of the machine in the minute before each repeat; "" if it was not recorded."""
    found = [repeat["load_average"] for cell in cells for repeat in cell["repeats"] if "load_average" in repeat]
    return f"{median(found):.1f}" if found else ""
