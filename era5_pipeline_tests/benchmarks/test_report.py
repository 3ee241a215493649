"""The report: documents are what it writes, or stand as they are; numbers are those of the newest results."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.asking import ALL_HOURS
from benchmarks.everywhere import ON_FAR_S3, ON_S3
from benchmarks.pipeline import STAGES
from benchmarks.report import RATES, document_parts, documents_of, package_rates, rates_text, with_parts, write_report
from benchmarks.tables import Results, all_tables, find_results, layout_of, published, published_rate
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

BENCHMARKS = ROOT / "benchmarks"
DOCUMENTS = [path.relative_to(ROOT).as_posix() for path in documents_of(ROOT)]
MOST_BYTES, MOST_PICTURE_BYTES = 1_500_000, 100_000


def test_the_documents_tables_and_figures_are_what_the_command_writes(tmp_path: Path) -> None:
    shutil.copytree(BENCHMARKS / "results", tmp_path / "benchmarks" / "results")
    parts = document_parts(find_results(BENCHMARKS)[0])
    names = set()
    for name in (*DOCUMENTS, RATES.as_posix()):
        text = (ROOT / name).read_text(encoding="utf-8")
        # The text between the marks is removed, so that it must come from the results.
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(_emptied(text, parts) if name in DOCUMENTS else "{}", encoding="utf-8")
        names |= set(MARK.findall(text))
    assert names == set(parts)
    write_report(tmp_path / "benchmarks")
    for name in (*DOCUMENTS, RATES.as_posix(), "benchmarks/results.md"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8"), (
            f"{name}: run era5 bench report"
        )
    drawn = {path.name for path in (tmp_path / "benchmarks" / "figures").iterdir()}
    assert drawn == {path.name for path in (BENCHMARKS / "figures").iterdir()}


MARK = re.compile(r"<!-- bench: ([\w-]+) -->")


def _emptied(text: str, parts: Mapping[str, str | None]) -> str:
    """The document without the text of these parts, but for those of which nothing is measured."""

    def emptied(match: re.Match[str]) -> str:
        return match[0] if parts[match[1]] is None else f"<!-- bench: {match[1]} -->{match[2]}<!-- end -->"

    return re.sub(MARK.pattern + r"(\n?).*?<!-- end -->", emptied, text, flags=re.DOTALL)


def test_the_folder_is_small() -> None:
    files = [path for path in BENCHMARKS.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    assert all(path.stat().st_size < MOST_PICTURE_BYTES for path in files if path.suffix == ".png")


def test_every_row_of_the_study_and_of_the_ladder_has_a_number_or_a_reason() -> None:
    newest = find_results(BENCHMARKS)[0]
    assert len(published()["rates"]) == 16
    for entry in published()["rates"]:
        for table in ("regular", "hypertable"):
            rate, words = published_rate(newest, entry, table)
            assert rate is not None or (words and words != "not measured"), f"{entry['row']}, {table}"
    server = newest.main_server("ladder")
    assert server is not None
    assert len(newest.of_suite("ladder", server)) == 9


def cell(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    method, table = name.rsplit(", ", 1)
    medians = {"seconds": [seconds / 2, seconds, seconds * 2], "copy_seconds": [seconds / 4] * 3}
    return {
        "suite": "copy",
        "name": name,
        "server": "PostgreSQL 18.4",
        "environment": "e",
        "parameters": {"method": method, "table": table, "workers": 1},
        "planned_rows": 1000,
        "rows": 1000,
        "reason": None,
        "repeats": [{"at": "2026-01-02T00:00:00+00:00", "rows": 1000, "figures": {"seconds": seconds}}] * 2,
        "medians": medians,
    } | more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    environment = {
        "machine": {"processor": "a processor", "cores": 2, "memory_bytes": 2 << 30, "system": "Linux"},
        "server": {"version": "PostgreSQL 18.4", "settings": {"fsync": "on"}, "connection": "TCP"},
        "software_versions": {"python": "3.11"},
        "commit": "abc",
    }
    nothing = {"repeats": [], "medians": {}, "rows": 0}
    results = {
        "format": 1,
        "environments": {"e": environment},
        "cells": [
            cell("psycopg rows, regular", 0.01),
            cell("our loader, regular", 0.0005),
            cell("psycopg rows, hypertable", 0, reason="the server has no TimescaleDB", **nothing),
        ],
        "figures": {},
        "ratios": {},
    }
    (tmp_path / "results" / "2026-01-02").mkdir(parents=True)
    (tmp_path / "results" / "2026-01-02" / "machine.json").write_text(json.dumps(results))
    (tmp_path / "results" / "2025-01-02").mkdir()
    (tmp_path / "results" / "2025-01-02" / "machine.json").write_text(json.dumps(results | {"cells": []}))
    return tmp_path


def test_numbers_are_those_of_the_newest_file(folder: Path) -> None:
    (newest,) = find_results(folder)
    assert newest.path.parent.name == "2026-01-02"
    lines = (document_parts(newest)["summary"] or "").splitlines()
    assert "| psycopg `write_row`, the study's best | 100,000 | null | 1 | 87 days |" in lines
    assert "| this pipeline's loader | 2 M | null | 20 | 4.4 days |" in lines
    text = all_tables([newest])
    assert (
        "| psycopg rows, regular | 1,000 | 100,000 | 50,000 to 200,000 | 400,000 | 600,000 | 50,000 | 0.01 | 2 |"
        in text
    )
    assert "null: the server has no TimescaleDB" in text
    assert "| copy, full, psycopg3 rows | 103,000 | 100,000 | 103,000 | null (the server has no TimescaleDB) |" in text


# --- Parts of documents and the rates of plans: from results where there are some, else as they stand ---


PLAIN = "PostgreSQL 18.4"


def cell_of(suite: str, name: str, server: str = PLAIN, *, rows: int = 1000, **figures: float) -> dict[str, Any]:
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
    parts = document_parts(results_of(cell_of("copy", "our loader, regular", seconds=0.001)))
    assert with_parts(text, parts) == text.replace("2 M", "1 M rows/s")
    parts = document_parts(results_of(cell_of("ask", ALL_HOURS, seconds=0.25)))
    filled = with_parts(text, parts)
    assert filled.startswith(
        "a <!-- bench: headline -->2 M<!-- end --> b\n<!-- bench: ask -->\n\n2 cores of a processor"
    )
    assert "| all hours as a table of pandas (`read_place_hours`) | 0.25 s |" in filled
    assert "by hand" not in filled
    assert with_parts(filled, parts) == filled


def test_the_load_of_the_machine_stands_beside_its_figures() -> None:
    alone = cell_of("pipeline", "flatten alone", seconds=1.0) | {
        "repeats": [{"at": "2026-01-02T00:00:00+00:00", "load_average": load} for load in (0.3, 9.0, 0.5)]
    }
    cells = cell_of("pipeline", "netCDF to rows, all workers at once", seconds=1.0), alone
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
        cell_of("lake", ON_S3, seconds_per_visit=0.1, **visit),
        cell_of("lake", ON_FAR_S3, seconds_per_visit=0.2, **visit),
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
    stages = cell_of("pipeline", STAGES, rows=3_000_000, **seconds)
    newer = package_rates(Results(committed.path, {**committed.contents, "cells": [*others, stages]}))
    assert newer is not None
    assert [newer[f"{name}_rows_per_second"] for name in ("load", "compare", "generate")] == [1e6, 6e6, 2e6]


@pytest.mark.parametrize("lost", [STAGES, "columnstore"])
def test_without_results_of_a_suite_there_are_no_rates(lost: str) -> None:
    committed = find_results(ROOT / "benchmarks")[0]
    fewer = [one for one in committed.cells if lost not in one["name"]]
    assert package_rates(Results(committed.path, {**committed.contents, "cells": fewer})) is None
