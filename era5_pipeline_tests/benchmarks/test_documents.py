"""Parts of documents and the rates of plans: from results where there are some, else as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.asking import ALL_HOURS
from benchmarks.documents import document_parts, package_rates, rates_text, with_parts
from benchmarks.everywhere import ON_FAR_S3, ON_S3
from benchmarks.pipeline import STAGES
from benchmarks.tables import Results, find_results, layout_of
from era5_pipeline_tests.commands import ROOT

PLAIN = "PostgreSQL 18.4"


def cell(suite: str, name: str, server: str = PLAIN, *, rows: int = 1000, **figures: float) -> dict[str, Any]:
    return {
        "suite": suite,
        "name": name,
        "server": server,
        "environment": "e",
        "parameters": {"months": 1020, "workers": 2},
        "rows": rows,
        "reason": None,
        "repeats": [{"at": "2026-01-02T00:00:00+00:00"}],
        "medians": {figure: [value] * 3 for figure, value in figures.items()},
    }


def results_of(*cells: dict[str, Any]) -> Results:
    machine = {"processor": "a processor", "cores": 2, "memory_bytes": 2 << 30}
    environment = {"machine": machine, "server": {"settings": {"fsync": "off"}}}
    return Results(Path("x"), {"environments": {"e": environment}, "cells": list(cells), "ratios": {}})


def lines_of(part: str, *cells: dict[str, Any]) -> list[str]:
    return (document_parts(results_of(*cells))[part] or "").splitlines()


def test_a_part_of_which_nothing_is_measured_keeps_its_text() -> None:
    text = "a <!-- bench: headline -->2 M<!-- end --> b\n<!-- bench: ask -->\nMeasured by hand\n<!-- end -->\nc\n"
    parts = document_parts(results_of(cell("copy", "our loader, regular", seconds=0.001)))
    assert with_parts(text, parts) == text.replace("2 M", "1 M rows/s")
    parts = document_parts(results_of(cell("ask", ALL_HOURS, seconds=0.25)))
    filled = with_parts(text, parts)
    assert filled.startswith(
        "a <!-- bench: headline -->2 M<!-- end --> b\n<!-- bench: ask -->\n\n2 cores of a processor"
    )
    assert "| all hours as a table of pandas (`read_place_hours`) | 0.25 s |" in filled
    assert "by hand" not in filled
    assert with_parts(filled, parts) == filled


def test_the_load_of_the_machine_stands_beside_its_figures() -> None:
    alone = cell("pipeline", "flatten alone", seconds=1.0) | {
        "repeats": [{"at": "2026-01-02T00:00:00+00:00", "load_average": load} for load in (0.3, 9.0, 0.5)]
    }
    cells = cell("pipeline", "netCDF to rows, all workers at once", seconds=1.0), alone
    assert lines_of("pipeline", *cells)[-1] == "| load average of the minute before | 0.5 |"
    assert "load average" not in lines_of("pipeline", cells[0])[-1]


def test_the_plan_for_the_globe_is_made_of_visits_to_files_on_s3() -> None:
    visit: dict[str, Any] = {
        "load_average": 0.1,
        "blocks": 31.0,
        "seconds": 1.0,
        "cpu_seconds_per_visit": 0.05,
        "requests_per_visit": 12.0,
        "bytes_per_row": 3.0,
        "rows_read_per_row": 1.1,
    }
    cells = [
        cell("lake", ON_S3, seconds_per_visit=0.1, **visit),
        cell("lake", ON_FAR_S3, seconds_per_visit=0.2, **visit),
    ]
    assert document_parts(results_of(cells[0]))["executors"] is None
    text = document_parts(results_of(*cells))["executors"] or ""
    # 361 blocks open 372 files of each of 1,020 months: 379,440 visits of 0.2 s are 21.08 hours.
    assert "379,440 times: 4.6 million requests, 2.3 TB, 21.1 core-hours" in text
    assert "| 1 | 361 | 21.1 h | 0.03 GB/s | 60 |" in text
    assert "| 100 | 4 | 14 min |" in text
    assert "a map costs 2.88 dollars: 1.05 for cores and 1.82 for requests" in text


@pytest.mark.parametrize(
    ("server", "layout"),
    [
        (PLAIN, "partitions"),
        ("PostgreSQL 17.11 + TimescaleDB 2.19.3 (apache)", "hypertable"),
        ("PostgreSQL 17.11 + TimescaleDB 2.29.2 (timescale)", "columnstore"),
    ],
)
def test_a_server_is_known_by_its_layout(server: str, layout: str) -> None:
    assert layout_of(server) == layout


def test_the_rates_of_plans_are_those_of_the_newest_results_and_those_by_hand() -> None:
    committed = find_results(ROOT / "benchmarks")[0]
    rates = package_rates(committed)
    assert rates is not None
    assert rates_text(rates) == (ROOT / "era5_pipeline/planning/measured_rates.json").read_text(encoding="utf-8")
    for name, entry in rates["by_hand"].items():
        assert set(entry) == {"value", "measured", "command"}
        assert rates[name] == entry["value"]
    others = [one for one in committed.cells if one["name"] != STAGES]
    seconds: dict[str, Any] = {
        "flatten_seconds": 0.5,
        "load_seconds": 2.0,
        "compare_seconds": 0.5,
        "generate_seconds": 1.5,
    }
    stages = cell("pipeline", STAGES, rows=3_000_000, **seconds)
    newer = package_rates(Results(committed.path, {**committed.contents, "cells": [*others, stages]}))
    assert newer is not None
    assert [newer[f"{name}_rows_per_second"] for name in ("load", "compare", "generate")] == [1e6, 6e6, 2e6]


@pytest.mark.parametrize("lost", [STAGES, "columnstore"])
def test_without_results_of_a_suite_there_are_no_rates(lost: str) -> None:
    committed = find_results(ROOT / "benchmarks")[0]
    fewer = [one for one in committed.cells if lost not in one["name"]]
    assert package_rates(Results(committed.path, {**committed.contents, "cells": fewer})) is None
