"""The text of metrics, read back by Prometheus' own parsers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from prometheus_client import parser as _classic
from prometheus_client.openmetrics import parser as _parser

from era5_pipeline.monitor.openmetrics import MetricFamily, openmetrics_text

# Their functions come without types.
parser: Any = _parser
classic: Any = _classic
STRANGE = 'a "quoted" back\\slash,\nand {a} = new line'


def test_what_was_written_is_read_back() -> None:
    families = [
        MetricFamily("era5_table_bytes", "gauge", STRANGE, {(("layout", STRANGE), ("b", "é")): 1.5}, "bytes"),
        MetricFamily("era5_load_attempts", "counter", "Attempts.", {(("outcome", "loaded"),): 3}),
        MetricFamily("era5_rows", "gauge", "Rows.", {(): 2**53 - 1}),
    ]
    text = openmetrics_text(families)
    table, attempts, rows = parser.text_string_to_metric_families(text)
    assert (table.name, table.type, table.unit, table.documentation) == ("era5_table_bytes", "gauge", "bytes", STRANGE)
    assert [(s.labels, s.value) for s in table.samples] == [({"layout": STRANGE, "b": "é"}, 1.5)]
    assert (attempts.name, attempts.type, attempts.unit) == ("era5_load_attempts", "counter", "")
    assert [(s.name, s.value) for s in attempts.samples] == [("era5_load_attempts_total", 3.0)]
    assert [(s.labels, s.value) for s in rows.samples] == [({}, 2.0**53 - 1)]
    assert text.endswith("\n# EOF\n")


@pytest.mark.parametrize("value", [0, -1, 1e-300, 1.7e9, math.inf, -math.inf, math.nan])
def test_every_number_is_read_back(value: float) -> None:
    (family,) = parser.text_string_to_metric_families(
        openmetrics_text([MetricFamily("era5_x", "gauge", "X.", {(): value})])
    )
    (sample,) = family.samples
    assert math.isnan(sample.value) if math.isnan(value) else sample.value == value


def test_metrics_without_samples_are_left_out() -> None:
    assert openmetrics_text([MetricFamily("era5_x", "gauge", "X.", {})]) == "# EOF\n"
    assert list(parser.text_string_to_metric_families("# EOF\n")) == []


def test_the_older_format_of_node_exporter_reads_it_too() -> None:
    text = openmetrics_text(
        [
            MetricFamily("era5_load_attempts", "counter", "Attempts.", {(("outcome", "loaded"),): 3}),
            MetricFamily("era5_table_bytes", "gauge", STRANGE, {(("layout", STRANGE),): 1.5}, "bytes"),
        ]
    )
    samples = {s.name: (s.labels, s.value) for f in classic.text_string_to_metric_families(text) for s in f.samples}
    assert samples == {
        "era5_load_attempts_total": ({"outcome": "loaded"}, 3.0),
        "era5_table_bytes": ({"layout": STRANGE}, 1.5),
    }
