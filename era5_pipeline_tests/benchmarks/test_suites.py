"""Each suite once, with tiny loads: rows, ratios, and reasons for what a server or this environment lacks."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import psycopg
import pytest

from benchmarks.cells import CannotRunError
from benchmarks.generated import GeneratedHours, GeneratedMonths, area_of, scaled
from benchmarks.layouts import COMPRESSED_AFTERWARDS
from benchmarks.methods import PARALLEL_COPY, methods_of, parallel_copy
from benchmarks.others import MEAN_MONTH
from benchmarks.processes import run_at_once
from benchmarks.report import write_report
from benchmarks.settings import SETTINGS, TABLES
from benchmarks.suites import SUITES
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.compiled import is_available
from era5_pipeline_tests.benchmarks.suite_runs import cells_of, numbers_of, run

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess
    from era5_pipeline_tests.servers import Host

ROWS = 120_000
OFFERED = {
    "partitions": {"partitions"},
    "hypertable": {"hypertable"},
    "columnstore": {"columnstore", "calendar hypertable", COMPRESSED_AFTERWARDS},
}


def databases_left(warehouse: Warehouse) -> list[str]:
    """Databases that the benchmark in this process has not dropped."""
    with psycopg.connect(warehouse.url) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE datname = %s", (f"era5_bench_{os.getpid()}",)
        ).fetchall()
    return [name for (name,) in rows]


# Each has a test of its own: below, or in test_asking, test_reaching, test_orchestration and test_anywhere.
ELSEWHERE = {
    *("parallel", "conversion", "limit", "layouts", "pipeline", "others", "ask", "reach", "orchestration"),
    "anywhere",
}


def test_other_suites_with_tiny_loads_and_the_report_of_them(here: InProcess, server_url: str) -> None:
    suites = [suite.name for suite in SUITES if suite.name not in ELSEWHERE]
    result = run(here, server_url, *suites, *("--rows", "744", "--workers", "1", "--batches", "3", "--held", "1,2"))
    assert [*dict.fromkeys(cell["suite"] for cell in result["cells"])] == suites
    for cell in result["cells"]:
        name = f"{cell['suite']}: {cell['name']}"
        if cell["reason"] is not None:
            lacking = [
                *("TimescaleDB", "is not installed", "is not on PATH", "no columnstore", "this server offers"),
                *("this version has no", "this version makes no", "era5 climate ended"),
            ]
            assert any(words in cell["reason"] for words in lacking), f"{name}: {cell['reason']}"
            continue
        assert cell["rows"] > 0, name
        assert cell["medians"]["seconds"][1] > 0, name
        assert len(cell["repeats"]) == 1, name
    settings = cells_of(result, "settings")
    assert set(settings) == {f"{name}, {table}" for name in SETTINGS for table in TABLES}
    for cell in settings.values():
        figures = {name: values[1] for name, values in cell["medians"].items()}
        assert figures["wal_bytes_per_row"] > 0
        assert 0 < figures["batch_p50_ms"] <= figures["batch_p95_ms"] <= figures["batch_p99_ms"]
    assert all(cell["rows"] == settings[f"default, {TABLES[0]}"]["rows"] for cell in settings.values())
    ladder = cells_of(result, "ladder")
    assert len(ladder) == 9
    assert all(cell["rows"] == 1827 for cell in ladder.values())
    scale = cells_of(result, "scale")
    assert [len(cell["repeats"][0]["series"]["load_seconds"]) for cell in scale.values()] == [1, 2]
    sustained = cells_of(result, "sustained")["our loader, regular"]
    assert len(sustained["repeats"][0]["series"]["rows_per_second"]) == 3
    folder = here.home / "benchmarks"
    (folder / "results" / "2026-01-01").mkdir(parents=True)
    (folder / "results" / "2026-01-01" / "machine.json").write_text(json.dumps(result))
    written = {path.name for path in write_report(folder)}
    assert {"results.md", "summary.png", "copy.png", "sustained.png", "ladder.png"} <= written


def test_alternatives_on_two_months(here: InProcess, server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a year the Zarr store would have 8,760 files.
    monkeypatch.setattr("benchmarks.others.YEAR", (MEAN_MONTH, Month(MEAN_MONTH.year, MEAN_MONTH.month + 1)))
    others = cells_of(run(here, server_url, "others", "--rows", "744"), "others")
    assert {"era5-pipeline", "xarray on netCDF", "Zarr, an hour a chunk"} <= {
        name for name, cell in others.items() if cell["reason"] is None
    }


def test_all_ways_on_a_server(here: InProcess, empty_warehouse: Warehouse, host: Host) -> None:
    result = run(here, empty_warehouse.url, "copy", "conversion", "parallel", "--rows", "2000", "--workers", "2")
    copies = cells_of(result, "copy")
    kinds = ("regular",) if host.layout == "partitions" else ("regular", "hypertable")
    for method in methods_of("copy"):
        for kind in ("regular", "hypertable"):
            cell = copies[f"{method.name}, {kind}"]
            is_there = kind in kinds and "not installed" not in str(cell["reason"])
            assert (cell["reason"] is None) == is_there, cell
    assert cells_of(result, "parallel")["our loader, regular, 2 workers"]["reason"] is None
    conversion = cells_of(result, "conversion")
    reasons = [cell["reason"] is None for cell in conversion.values()]
    assert (
        reasons
        == {"partitions": [False] * 4, "hypertable": [True, True, False, False], "columnstore": [True] * 4}[host.layout]
    )
    assert databases_left(empty_warehouse) == []


def test_limit(here: InProcess, empty_warehouse: Warehouse, host: Host) -> None:
    result = run(here, empty_warehouse.url, "limit", "--rows", str(ROWS), "--workers", "1,2")
    cells, ratios = cells_of(result, "limit"), numbers_of(result, "ratios", "limit")
    parallel = cells.pop("timescaledb-parallel-copy")
    assert parallel["reason"] == f"{PARALLEL_COPY} is not on PATH"
    assert ratios.pop("loader_to_parallel_copy") is None
    stages = [cells.pop(f"load stage, {what}") for what in ("finished batches", "rows")]
    has_batches = host.layout == "columnstore" and is_available()
    assert [stage["reason"] is None for stage in stages] == [has_batches, host.layout == "columnstore"]
    assert (ratios.pop("batches_to_rows") is not None) == has_batches
    assert all(cell["rows"] >= ROWS * 0.9 for cell in cells.values())
    assert all(value > 0 for value in ratios.values())
    assert set(ratios) == {"loader_to_limit", "loader_to_psycopg_rows", "two_workers_to_one"}
    together = host.layout != "partitions"
    assert cells["several workers"]["rows"] == cells["loader"]["rows"] * (2 if together else 1)
    assert databases_left(empty_warehouse) == []


def test_layouts(here: InProcess, empty_warehouse: Warehouse, host: Host) -> None:
    result = run(here, empty_warehouse.url, "layouts", "--rows", str(ROWS))
    offered, cells = OFFERED[host.layout], cells_of(result, "layouts")
    assert {name for name, cell in cells.items() if cell["reason"] is None} == offered
    figures = {name: {key: values[1] for key, values in cells[name]["medians"].items()} for name in offered}
    assert all(0 < figures[name]["reader_longest_wait_ms"] < 2000 for name in offered)
    assert all(figures[name]["location_month_ms"] > 0 for name in offered)
    assert all(60 < figures[name]["bytes_per_row"] < 100 for name in offered if "columnstore" not in name)
    assert all(5 < figures[name]["bytes_per_row"] <= 20 for name in offered if "columnstore" in name)
    has_columnstore = host.layout == "columnstore"
    assert all((value is not None) == has_columnstore for value in numbers_of(result, "ratios", "layouts").values())
    assert databases_left(empty_warehouse) == []


def test_pipeline_of_another_data_set_beside_era5(here: InProcess, server_url: str) -> None:
    result = run(here, server_url, "pipeline", "--rows", "7440", "--workers", "1", "--dataset", "era5-land")
    cells, ratios = cells_of(result, "pipeline"), numbers_of(result, "ratios", "pipeline")
    beside = {name: cell for name, cell in cells.items() if "dataset" in cell["parameters"]}
    assert [cell["parameters"]["dataset"] for cell in beside.values()] == ["era5"] * 2 + ["era5-land"] * 3
    assert [cell["reason"] for cell in cells.values()] == [None] * 8
    assert all(cell["rows"] >= 7440 for cell in beside.values())
    assert set(ratios) == {"era5_land_flatten_to_era5", "era5_land_load_to_era5", "era5_land_sums_to_hours"}
    assert all(value > 0 for value in ratios.values())


def test_pipeline(here: InProcess, empty_warehouse: Warehouse) -> None:
    result = run(here, empty_warehouse.url, "pipeline", "--rows", str(ROWS))
    whole, flat, stages = cells_of(result, "pipeline").values()
    seconds = {name: values[1] for name, values in stages["medians"].items()}
    assert seconds.pop("seconds") == pytest.approx(sum(seconds.values()), rel=1e-3)
    assert set(seconds) == {"generate_seconds", "flatten_seconds", "load_seconds", "compare_seconds"}
    assert whole["rows"] == 2 * flat["rows"] >= 2 * ROWS * 0.9
    assert 50_000_000 < whole["medians"]["peak_rss_bytes"][1] < 2**31
    assert databases_left(empty_warehouse) == []


def test_generated_months_have_about_the_requested_rows(tmp_path: Path) -> None:
    first, second = GeneratedMonths(tmp_path, ROWS).flat(2)
    assert first.month != second.month
    for flat in (first, second):
        assert ROWS * 0.9 <= flat.rows <= ROWS * 1.2
        assert flat.hours == 744


def test_batches_of_hours_follow_each_other(tmp_path: Path) -> None:
    hours = GeneratedHours(tmp_path, 300)
    batches = [hours.batch(number) for number in range(6)]
    assert {batch.num_rows for batch in batches} == {hours.rows_per_batch}
    assert 300 <= hours.rows_per_batch <= 360
    times = [batch.column("time").unique().to_pylist() for batch in batches]
    assert [len(found) for found in times] == [1] * 6
    assert [(later[0] - earlier[0]).total_seconds() for earlier, later in pairwise(times)] == [3600] * 5
    # The values of the distinct hours come again, at other times.
    assert batches[0].column("temperature_2m").equals(batches[4].column("temperature_2m"))
    assert not batches[0].column("temperature_2m").equals(batches[1].column("temperature_2m"))


def test_shares_of_an_hour_and_areas() -> None:
    assert scaled(1_038_240, 20_000) == 20_000
    assert scaled(744, 20_000) == 20
    assert len(LocationSet.of_area(area_of(1_038_240))) == 1_038_240
    assert 2 <= len(LocationSet.of_area(area_of(2))) <= 4


def test_failure_of_parallel_copy_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / PARALLEL_COPY
    program.write_text("#!/bin/sh\necho it is broken >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(CannotRunError, match="failed: it is broken"):
        parallel_copy("postgresql://", tmp_path / "x.csv", 2)


def test_failure_of_a_process_is_reported() -> None:
    # What fails is no function of this module, which the processes would import.
    with pytest.raises(CannotRunError, match=r"ValueError: .*'as planned'"):
        run_at_once(int, [("as planned",), ("as planned",)])
