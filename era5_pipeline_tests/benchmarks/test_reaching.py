"""The suite `reach`: a small table as DataFrame, DataArray and over HTTP, its figures and ratios."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.reaching import (
    AT_MOST,
    AT_RATE,
    DATASET,
    FIELD,
    FRAME,
    FRAME_OF_ALL,
    GZIP,
    REACH,
    ROW_BY_ROW,
    SAME,
    UNCHANGED,
)

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess


def entry(rows: int = 745_128, months: int = 1020, **figures: float) -> dict[str, Any]:
    medians = {name: [value, value, value] for name, value in figures.items()}
    return {"rows": rows, "parameters": {"months": months}, "reason": None, "medians": medians}


def test_each_way_reads_a_small_table(here: InProcess, warehouse: Warehouse) -> None:
    file = here.home / "result.json"
    size = ("--rows", "3000", "--held", "1,2", "--repeats", "1")
    here.run("bench", "run", "reach", *size, "--database-url", warehouse.url, "--json", str(file))
    result = json.loads(file.read_text())
    cells = {cell["name"]: cell for cell in result["cells"]}
    for name in (FRAME, FRAME_OF_ALL, ROW_BY_ROW, FIELD, DATASET, AT_RATE, AT_MOST, GZIP, SAME, UNCHANGED):
        assert cells[name]["reason"] is None, cells[name]
    for name in (FRAME, FRAME_OF_ALL, ROW_BY_ROW):
        assert cells[name]["rows"] == 24 * (30 + 31)  # November and December 2024
    for name in (FIELD, DATASET):
        assert cells[name]["rows"] == 744 * 20 * 20
    for name in (AT_RATE, AT_MOST, GZIP, SAME, UNCHANGED):
        medians = {figure: value[1] for figure, value in cells[name]["medians"].items()}
        assert cells[name]["rows"] == 120
        assert 0 < medians["p50_ms"] <= medians["p99_ms"] <= medians["longest_ms"]
    sizes = {name: cells[name]["medians"]["kilobytes"][1] for name in (AT_MOST, GZIP, UNCHANGED)}
    assert sizes[UNCHANGED] == 0 < sizes[GZIP] < sizes[AT_MOST]
    ((server, figures),) = result["figures"].items()
    assert figures["reach"]["http_requests_per_second"] > 0
    assert figures["reach"]["http_p99_ms"] > 0
    # Two months are not 85 years.
    assert figures["reach"]["dataframe_rows_per_second"] is None
    assert all(value > 0 for value in result["ratios"][server]["reach"].values())


def test_figures() -> None:
    found = {
        FRAME: entry(seconds=0.5),
        FRAME_OF_ALL: entry(24, months=12, seconds=0.5),
        FIELD: entry(seconds=1.5),
        AT_MOST: entry(3000, requests_per_second=250.0, p99_ms=70.0),
        AT_RATE: entry(3000, requests_per_second=199.0, p99_ms=80.0, p50_ms=12.0),
    }
    figures = REACH.figures(found)
    assert figures["dataframe_rows_per_second"] == 1_490_256
    assert figures["dataframe_all_columns_rows_per_second"] is None
    assert figures["box_seconds"] == 1.5
    assert figures["box_dataset_seconds"] is None
    # The rate is that of clients who wait for answers, the latency that of requests which are due.
    assert (figures["http_requests_per_second"], figures["http_p99_ms"]) == (250.0, 80.0)
    failed = found | {AT_RATE: {**found[AT_RATE], "reason": "not all were answered"}}
    assert REACH.figures(failed)["http_p99_ms"] is None


def test_ratios() -> None:
    found = {
        FRAME: entry(seconds=0.5),
        ROW_BY_ROW: entry(seconds=2.0),
        AT_MOST: entry(requests_per_second=200.0),
        GZIP: entry(requests_per_second=150.0),
        SAME: entry(requests_per_second=220.0),
        UNCHANGED: entry(requests_per_second=880.0),
    }
    assert REACH.ratios(found) == {
        "frame_to_row_by_row": 4.0,
        "gzip_to_plain": 0.75,
        "same_to_different": 1.1,
        "unchanged_to_same": 4.0,
    }
    assert set(REACH.ratios({}).values()) == {None}
