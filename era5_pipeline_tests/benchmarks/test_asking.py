"""The suite `ask`: answers of a small table, the figures of all 85 years, and the ratios."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.asking import ALL_HOURS, ASK, MEANS_OF_HOURS, MEANS_OF_MONTHS, NETCDF, WITH, WITHOUT, YEAR

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess


def entry(months: int = 1020, **seconds: float) -> dict[str, Any]:
    medians = {name: [value, value, value] for name, value in seconds.items()}
    return {"parameters": {"months": months}, "reason": None, "medians": medians}


def test_questions_on_a_small_table(here: InProcess, warehouse: Warehouse) -> None:
    file = here.home / "result.json"
    size = ("--rows", "3000", "--held", "1,2", "--repeats", "1")
    here.run("bench", "run", "ask", *size, "--database-url", warehouse.url, "--json", str(file))
    result = json.loads(file.read_text())
    cells = {cell["name"]: cell for cell in result["cells"]}
    hours = 24 * (30 + 31)  # November and December 2024
    for name in (ALL_HOURS, MEANS_OF_HOURS, MEANS_OF_MONTHS, YEAR, NETCDF):
        assert cells[name]["reason"] is None, cells[name]
        assert cells[name]["rows"] == hours
        assert cells[name]["parameters"] == {"months": 2}
        assert 0 < cells[name]["medians"]["seconds"][1] < 60
    ((server, figures),) = result["figures"].items()
    assert server == cells[ALL_HOURS]["server"]
    assert set(figures["ask"]) >= {"years85_yearly_means_seconds", "years85_all_hours_seconds", "climate_seconds"}
    # Two months are not 85 years.
    assert figures["ask"]["years85_all_hours_seconds"] is None
    assert result["ratios"][server]["ask"]["netcdf_to_table"] > 0
    assert result["ratios"][server]["ask"]["monthly_cost"] is not None


def test_figures_are_of_85_years_only() -> None:
    whole = {ALL_HOURS: entry(seconds=1.1), MEANS_OF_HOURS: entry(seconds=0.5)}
    assert ASK.figures(whole)["years85_all_hours_seconds"] == 1.1
    assert ASK.figures(whole)["years85_yearly_means_seconds"] == 0.5
    assert ASK.figures(whole | {MEANS_OF_MONTHS: entry(seconds=0.1)})["years85_yearly_means_seconds"] == 0.1
    assert ASK.figures(whole)["climate_seconds"] is None
    assert ASK.figures({ALL_HOURS: entry(12, seconds=1.1)})["years85_all_hours_seconds"] is None


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
