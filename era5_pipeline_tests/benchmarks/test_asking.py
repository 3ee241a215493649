"""The suite `ask`: answers of a small table, the figures of all 85 years, and the ratios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.asking import ALL_HOURS, ASK, MEANS_OF_HOURS, MEANS_OF_MONTHS, NETCDF, WITH, WITHOUT, YEAR
from era5_pipeline_tests.benchmarks.suite_runs import cells_of, entry, numbers_of, run

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess


def test_questions_on_a_small_table(here: InProcess, warehouse: Warehouse) -> None:
    result = run(here, warehouse.url, "ask", "--rows", "3000", "--held", "1,2")
    cells = cells_of(result, "ask")
    hours = 24 * (30 + 31)  # November and December 2024
    for name in (ALL_HOURS, MEANS_OF_HOURS, MEANS_OF_MONTHS, YEAR, NETCDF):
        assert cells[name]["reason"] is None, cells[name]
        assert (cells[name]["rows"], cells[name]["parameters"]) == (hours, {"months": 2})
        assert 0 < cells[name]["medians"]["seconds"][1] < 60
    figures, ratios = (numbers_of(result, kind, "ask") for kind in ("figures", "ratios"))
    assert set(figures) >= {"years85_yearly_means_seconds", "years85_all_hours_seconds", "climate_seconds"}
    # Two months are not 85 years.
    assert figures["years85_all_hours_seconds"] is None
    assert ratios["netcdf_to_table"] > 0
    assert ratios["monthly_cost"] is not None


def test_figures_are_of_85_years_only() -> None:
    whole = {ALL_HOURS: entry(seconds=1.1), MEANS_OF_HOURS: entry(seconds=0.5)}
    assert ASK.figures(whole)["years85_all_hours_seconds"] == 1.1
    assert ASK.figures(whole)["years85_yearly_means_seconds"] == 0.5
    assert ASK.figures(whole | {MEANS_OF_MONTHS: entry(seconds=0.1)})["years85_yearly_means_seconds"] == 0.1
    assert ASK.figures(whole)["climate_seconds"] is None
    assert ASK.figures({ALL_HOURS: entry(months=12, seconds=1.1)})["years85_all_hours_seconds"] is None


def test_ratios() -> None:
    found = {
        YEAR: entry(seconds=0.02, connected_seconds=0.004),
        NETCDF: entry(seconds=0.5),
        WITH: entry(seconds=2.05),
        WITHOUT: entry(seconds=2.0),
    }
    assert ASK.ratios(found) == {"netcdf_to_table": 125.0, "monthly_cost": 0.025}
    assert ASK.ratios({}) == {"netcdf_to_table": None, "monthly_cost": None}
    assert ASK.ratios(found | {WITH: {**found[WITH], "reason": "there are none"}})["monthly_cost"] is None
