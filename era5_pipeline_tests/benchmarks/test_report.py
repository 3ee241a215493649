"""The report: the repository's documents are what it writes, and numbers are those of the file."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.documents import RATES, document_parts, documents_of
from benchmarks.report import write_report
from benchmarks.tables import all_tables, find_results, published, published_rate
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
