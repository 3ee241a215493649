"""Runs of suites in this process, and cells as the file of results has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from era5_pipeline_tests.commands import InProcess

Cells = dict[str, dict[str, Any]]


def run(here: InProcess, url: str, *arguments: str) -> dict[str, Any]:
    """Measure each cell once; return the results, after which nothing is left in the folder."""
    file = here.home / "result.json"
    here.run("bench", "run", *arguments, "--database-url", url, "--repeats", "1", "--json", str(file))
    assert list((here.home / "home").glob("bench-*")) == []
    result: dict[str, Any] = json.loads(file.read_text())
    for environment in result["environments"].values():
        assert environment["machine"]["cores"] >= 1
        assert environment["software_versions"]["era5-pipeline"]
        assert environment["commit"]
    return result


def cells_of(result: dict[str, Any], suite: str) -> Cells:
    return {cell["name"]: cell for cell in result["cells"] if cell["suite"] == suite}


def numbers_of(result: dict[str, Any], kind: str, suite: str) -> dict[str, Any]:
    """The `figures` or `ratios` of a suite on the one server."""
    ((_, found),) = result[kind].items()
    numbers: dict[str, Any] = found[suite]
    return numbers


def entry(rows: int = 745_128, months: int = 1020, **figures: float) -> dict[str, Any]:
    """A measured cell."""
    medians = {name: [value, value, value] for name, value in figures.items()}
    return {"rows": rows, "parameters": {"months": months}, "reason": None, "medians": medians}
