"""Each suite once, with small months, on every layout: rows, ratios, and reasons for what a server lacks."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.bench.at_once import run_at_once
from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.copy_methods import PARALLEL_COPY, ParallelCopy
from era5_pipeline.bench.generated_months import GeneratedMonths
from era5_pipeline.bench.layout_suite import COMPRESSED_AFTERWARDS
from era5_pipeline_tests.commands import InProcess

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.servers import Host

ROWS = 120_000
OFFERED = {
    "partitions": {"partitions"},
    "hypertable": {"hypertable"},
    "columnstore": {"columnstore", "calendar hypertable", COMPRESSED_AFTERWARDS},
}


@pytest.fixture
def here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warehouse: Warehouse
) -> InProcess:
    here = InProcess(capsys, monkeypatch, tmp_path)
    here.set(ERA5_DATABASE_URL=warehouse.url, ERA5_HOME=str(tmp_path / "home"))
    return here


def run(here: InProcess, suite: str, folder: Path) -> dict[str, Any]:
    file = folder / "result.json"
    here.run("bench", "run", suite, "--rows", str(ROWS), "--repeats", "1", "--json", str(file))
    result: dict[str, Any] = json.loads(file.read_text())
    assert result["suite"] == suite
    assert result["machine"]["cores"] >= 1
    assert result["server"]["settings"]["wal_level"]
    assert result["software_versions"]["era5-pipeline"]
    return result


def databases_left(warehouse: Warehouse) -> list[str]:
    """Databases that the benchmark in this process has not dropped."""
    with psycopg.connect(warehouse.url) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE datname = %s", (f"era5_bench_{os.getpid()}",)
        ).fetchall()
    return [name for (name,) in rows]


def test_limit(
    here: InProcess, warehouse: Warehouse, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = run(here, "limit", tmp_path)
    cells = {cell["name"]: cell for cell in result["cells"]}
    parallel = cells.pop(f"{PARALLEL_COPY}, 2 workers")
    assert parallel["reason"] == f"{PARALLEL_COPY} is not on PATH"
    assert result["ratios"].pop("loader_to_parallel_copy") is None
    assert all(cell["rows"] >= ROWS * 0.9 for cell in cells.values())
    assert all(value > 0 for value in result["ratios"].values())
    assert set(result["ratios"]) == {"loader_to_limit", "loader_to_psycopg_rows", "two_workers_to_one"}
    assert result["layout"] == host.layout
    together = host.layout != "partitions"
    assert result["workers"] == ("2 months at once" if together else "2 connections for one month")
    assert cells["2 workers"]["rows"] == cells["loader"]["rows"] * (2 if together else 1)
    assert databases_left(warehouse) == []
    assert list((tmp_path / "home").glob("bench-*")) == []


def test_layouts(here: InProcess, warehouse: Warehouse, host: Host, tmp_path: Path) -> None:
    result = run(here, "layouts", tmp_path)
    offered = OFFERED[host.layout]
    for cell in result["cells"]:
        assert (cell["rows_per_second"] is not None) == (cell["name"] in offered)
        assert (cell["reason"] is None) == (cell["name"] in offered)
    size, found = result["figures"]["bytes_per_row"], result["figures"]["location_month_ms"]
    assert (
        {name for name, value in size.items() if value} == {name for name, value in found.items() if value} == offered
    )
    waits = result["figures"]["reader_longest_wait_ms"]
    assert {name for name, value in waits.items() if value} == offered
    assert all(waits[name] < 2000 for name in offered)
    assert all(60 < size[name] < 100 for name in offered if "columnstore" not in name)
    assert all(5 < size[name] <= 20 for name in offered if "columnstore" in name)
    has_columnstore = host.layout == "columnstore"
    assert all((value is not None) == has_columnstore for value in result["ratios"].values())
    assert databases_left(warehouse) == []


def test_pipeline(here: InProcess, warehouse: Warehouse, host: Host, tmp_path: Path) -> None:
    result = run(here, "pipeline", tmp_path)
    whole, flat = result["cells"]
    assert whole["rows"] == 2 * flat["rows"] >= 2 * ROWS * 0.9
    figures = result["figures"]
    assert figures["pipeline_rows_per_second"] > 0
    assert figures["flatten_rows_per_second"] > 0
    assert 50_000_000 < figures["peak_rss_bytes"] < 2**31
    assert result["layout"] == host.layout
    assert databases_left(warehouse) == []


def test_unwritable_json_file_is_refused_before_measuring(here: InProcess) -> None:
    said = here.run("bench", "run", "limit", "--json", "nowhere/result.json", code=2).err
    assert "nowhere is not a folder" in said


def test_generated_months_have_about_the_requested_rows(tmp_path: Path) -> None:
    first, second = GeneratedMonths(tmp_path, ROWS).flat(2)
    assert first.month != second.month
    for flat in (first, second):
        assert ROWS * 0.9 <= flat.rows <= ROWS * 1.2
        assert flat.hours == 744


def test_failure_of_parallel_copy_is_reported(tmp_path: Path) -> None:
    program = tmp_path / PARALLEL_COPY
    program.write_text("#!/bin/sh\necho it is broken >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(CannotRunError, match="failed: it is broken"):
        ParallelCopy(tmp_path / "x.csv", 2, str(program)).run("postgresql://")


def fail(text: str) -> None:
    raise ValueError(text)


def test_failure_of_a_process_is_reported() -> None:
    with pytest.raises(CannotRunError, match="ValueError: as planned"):
        run_at_once(fail, [("as planned",), ("as planned",)])
