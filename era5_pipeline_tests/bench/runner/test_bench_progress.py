"""The lines of progress: counts, time left, durations."""

from __future__ import annotations

from era5_pipeline.bench.runner.bench_progress import BenchProgress, duration, figure_of
from era5_pipeline.bench.runner.planned_cell import Measured, PlannedCell

A, B, C = (PlannedCell(name, 1, {}, lambda: Measured(1, {})) for name in "abc")


def test_time_left_follows_from_the_same_cell_then_its_suite_then_all() -> None:
    progress = BenchProgress({"copy": {"a": 2, "b": 1}, "tools": {"c": 1}}, lambda _: None, lambda _: None)
    assert progress.seconds_left() is None
    entry = {"medians": {"seconds": [1, 1, 1]}, "rows": 5}
    progress.measured("copy", A, entry, 10.0)
    # Once more a, 10 s; b as its suite, 10 s; c as all, 10 s.
    assert progress.seconds_left() == 30.0
    progress.measured("copy", B, entry, 40.0)
    assert progress.seconds_left() == 10.0 + 25.0
    progress.cannot("tools", C, "no program")
    assert progress.seconds_left() == 10.0


def test_durations_and_figures_in_words() -> None:
    assert [duration(seconds) for seconds in (40, 119, 720, 12_000)] == ["40 s", "2 min", "12 min", "3 h 20 min"]
    assert figure_of({"medians": {"seconds": [1, 2, 3]}, "rows": 3_000_000}) == "1,500,000 rows/s, 2 s"
    assert figure_of({"medians": {"status_ms": [1, 2.345, 3]}, "rows": 0}) == "status_ms 2.345"
