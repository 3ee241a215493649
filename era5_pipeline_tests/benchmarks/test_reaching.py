"""The suite `reach`: a small table as DataFrame, DataArray and over HTTP, its figures and ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from era5_pipeline_tests.benchmarks.suite_runs import cells_of, entry, numbers_of, run

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess


def test_each_way_reads_a_small_table(here: InProcess, warehouse: Warehouse) -> None:
    result = run(here, warehouse.url, "reach", "--rows", "3000", "--held", "1,2")
    cells = cells_of(result, "reach")
    hours, values = 24 * (30 + 31), 744 * 20 * 20  # of November and December 2024, and of the box
    rows = dict.fromkeys((FRAME, FRAME_OF_ALL, ROW_BY_ROW), hours) | dict.fromkeys((FIELD, DATASET), values)
    requests = AT_RATE, AT_MOST, GZIP, SAME, UNCHANGED
    for name, wanted in (rows | dict.fromkeys(requests, 120)).items():
        assert (cells[name]["reason"], cells[name]["rows"]) == (None, wanted), cells[name]
    for name in requests:
        medians = {figure: value[1] for figure, value in cells[name]["medians"].items()}
        assert 0 < medians["p50_ms"] <= medians["p99_ms"] <= medians["longest_ms"]
    sizes = {name: cells[name]["medians"]["kilobytes"][1] for name in (AT_MOST, GZIP, UNCHANGED)}
    assert sizes[UNCHANGED] == 0 < sizes[GZIP] < sizes[AT_MOST]
    figures = numbers_of(result, "figures", "reach")
    assert figures["http_requests_per_second"] > 0
    assert figures["http_p99_ms"] > 0
    # Two months are not 85 years.
    assert figures["dataframe_rows_per_second"] is None
    assert all(value > 0 for value in numbers_of(result, "ratios", "reach").values())


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
