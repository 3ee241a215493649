"""Ratios of what was measured and what was not."""

from __future__ import annotations

import pytest

from benchmarks.cells import ratio


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [(5.0, 2.0, 2.5), (2.0, 3.0, 0.667), (None, 1.0, None), (1.0, None, None), (1.0, 0.0, None)],
)
def test_ratio_of_rates_is_none_without_a_measurement(
    one: float | None, other: float | None, found: float | None
) -> None:
    assert ratio(one, other) == found
