"""Ratios of what was measured and what was not."""

from __future__ import annotations

from benchmarks.cells import ratio


def test_ratio_of_measured_rates() -> None:
    assert ratio(5.0, 2.0) == 2.5
    assert ratio(2.0, 3.0) == 0.667


def test_ratio_without_a_measurement_is_none() -> None:
    assert ratio(None, 1.0) is None
    assert ratio(1.0, None) is None
    assert ratio(1.0, 0.0) is None
