"""The newest results of a folder, and reading rates from them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from era5_pipeline.bench.runner.results_file import read_results
from era5_pipeline.model.errors import UsageError

ALL_ROWS = 753_836_544_000  # hours from 1940 to 2022 times the locations of the globe, as the study counts them
# Values of variables in a row, beside time and place.
VALUES_PER_ROW = 6
SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class Rate:
    """A median rate in rows/s, its 10th and 90th percentile, and how often it was measured."""

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
    """A file of results; servers are those measured, the one with most cells of a suite first."""

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
        """The server to show a suite of: the one with most measured cells in all, if it has some of this suite."""
        measured = [cell for cell in self.cells if cell["reason"] is None]
        servers = Counter(cell["server"] for cell in measured if cell["suite"] == suite)
        of_all = Counter(cell["server"] for cell in measured)
        return max(servers, key=lambda server: (of_all[server], servers[server]), default=None)

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
        """The machine in words."""
        memory = (self.machine["memory_bytes"] or 0) / (1 << 30)
        return f"{self.machine['cores']} cores of {self.machine['processor']}, {memory:.0f} GiB"

    @property
    def date(self) -> str:
        """The day of the last measurement."""
        times = [repeat["at"] for cell in self.cells for repeat in cell["repeats"]]
        return max(times, default="")[:10]


def rate_of_cell(cell: dict[str, Any] | None, figure: str = "seconds") -> Rate | None:
    """The rate of a cell, by one of its figures in seconds; None if it was not measured."""
    if cell is None or cell["reason"] is not None or figure not in cell["medians"]:
        return None
    low, median, high = cell["medians"][figure]
    if not low:
        return None
    return Rate(cell["rows"] / high, cell["rows"] / median, cell["rows"] / low, len(cell["repeats"]))


def find_results(folder: Path) -> list[Results]:
    """The newest file of results of each machine: of FOLDER/results/DATE/, else of the folder itself.

    Raises:
        UsageError: if there is none.
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
    """What the study and others published."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
    return found


def published_rate(results: Results, entry: dict[str, Any], table: str) -> tuple[Rate | None, str]:
    """Our rate for a row of the study, and the cell's name, or why there is none."""
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
