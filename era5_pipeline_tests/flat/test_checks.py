"""Results and messages of the checks: for files incomplete in every way, and for facts with anomalies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest

from era5_pipeline.flat.checks import (
    CHECK_DESCRIPTIONS,
    FLAT_CHECKS,
    RAW_CHECKS,
    TABLE_CHECKS,
    CheckName,
    CheckResult,
    Difference,
    flat_outcomes,
    raw_outcomes,
    table_outcomes,
)
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.model.source_kinds import SOURCE_OF_POINTS
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import assert_says
from era5_pipeline_tests.era5_files import hours_from, weather

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline_tests.era5_files import Weather
    from era5_pipeline_tests.flat_months import FlatMonths

WHOLE = hours_from("2023-07-01T00", 744)
ALLOWED = "--allow-incomplete (the ledger then marks it incomplete)."


def raw_checks(
    folder: Path,
    *of: Weather,
    month: str = "2023-07",
    variables: tuple[str, ...] | None = None,
    area: str | None = None,
    allow: bool = False,
) -> dict[str, CheckResult]:
    paths = [path for n, one in enumerate(of) for path in era5_files.write(folder, one, stem=f"file{n}")]
    raw = era5_files.raw_month(paths, month, variables=variables, area=area)
    with scratch_folder(folder) as scratch:
        outcomes = raw_outcomes(raw, take_inventory(raw, scratch), allow_incomplete=allow)
    assert tuple(outcome.name for outcome in outcomes) == RAW_CHECKS
    return {outcome.name: outcome for outcome in outcomes}


def test_every_check_is_described() -> None:
    assert set(CHECK_DESCRIPTIONS) == {*RAW_CHECKS, *FLAT_CHECKS, *TABLE_CHECKS} == set(get_args(CheckName))


def test_a_complete_month_passes_the_raw_checks(tmp_path: Path) -> None:
    checks = raw_checks(tmp_path, weather(WHOLE, names=("t2m", "tcc")))
    assert all(outcome.passed for outcome in checks.values())
    assert checks["grid_aligned"].description == "12 locations on the grid"
    assert_says(
        checks["variables_present"].description,
        "temperature_2m, total_cloud_cover at all 12",
        "NULL: zonal_wind_10m, meridional_wind_10m, total_precipitation, snowfall",
    )
    assert checks["hours_complete"].description == "all 744 hours"
    assert {outcome.remedy for outcome in checks.values()} == {""}


@pytest.mark.parametrize("allow", [False, True])
@pytest.mark.parametrize(
    ("of", "said"),
    [
        (
            (weather(WHOLE[:168], names=("t2m", "tp")),),
            ("168 of 744 hours", "2023-07-08T00 to 2023-07-31T23", "2023-07-07 23:00 UTC"),
        ),
        (
            (weather(WHOLE), weather(WHOLE[24:], names=("tp",))),
            ("total_precipitation has 720 of 744 hours", "2023-07-01T00 to 2023-07-01T23"),
        ),
        ((weather(WHOLE[::6]),), ("124 of 744 hours", "2023-07-01T01 to 2023-07-01T05, ", "and 121 more")),
    ],
    ids=["of all variables", "of one variable", "many gaps"],
)
def test_missing_hours(tmp_path: Path, of: tuple[Weather, ...], said: tuple[str, ...], *, allow: bool) -> None:
    outcome = raw_checks(tmp_path, *of, allow=allow)["hours_complete"]
    assert outcome.passed == allow
    assert_says(outcome.description, "2023-07", *said)
    assert ALLOWED in outcome.remedy


def test_a_series_may_lack_the_accumulations_of_the_first_day(tmp_path: Path) -> None:
    def complete(first: int, source: str) -> bool:
        hours = hours_from("1940-01-01T00", 744)
        files = era5_files.write(tmp_path / f"{first}", weather(hours), stem="instant")
        files += era5_files.write(tmp_path / f"{first}", weather(hours[first:], names=("tp",)), stem="accum")
        raw = replace(era5_files.raw_month(files, "1940-01"), source=source)
        with scratch_folder(tmp_path) as scratch:
            outcomes = raw_outcomes(raw, take_inventory(raw, scratch), allow_incomplete=False)
        return all(outcome.passed for outcome in outcomes)

    assert [complete(first, SOURCE_OF_POINTS) for first in (0, 7, 24, 25)] == [True, True, True, False]
    assert [complete(first, "cds") for first in (0, 7, 8)] == [True, True, False]


def test_a_requested_variable_is_missing(tmp_path: Path) -> None:
    wanted = ("temperature_2m", "snowfall")
    for allow in (False, True):  # --allow-incomplete makes no difference here
        outcome = raw_checks(tmp_path, weather(WHOLE), variables=wanted, allow=allow)["variables_present"]
        assert not outcome.passed
    assert_says(outcome.description, "2023-07", "lack snowfall", "hold temperature_2m")
    assert "leave them out of --variables" in outcome.remedy


def test_a_variable_covers_a_smaller_area(tmp_path: Path) -> None:
    wide, narrow = weather(WHOLE), weather(WHOLE, latitudes=(10.5,), names=("tp",))
    outcome = raw_checks(tmp_path / "a", wide, narrow)["variables_present"]
    assert not outcome.passed
    assert_says(outcome.description, "2023-07", "total_precipitation has 4 of 12 locations")
    assert ALLOWED in outcome.remedy
    assert raw_checks(tmp_path / "b", wide, narrow, allow=True)["variables_present"].passed
    within = raw_checks(tmp_path / "c", wide, narrow, area="10.5/20/10.5/20.75")
    assert all(outcome.passed for outcome in within.values())
    assert within["grid_aligned"].description == "4 locations on the grid"


def test_points_off_the_grid(tmp_path: Path) -> None:
    for allow in (False, True):
        off = raw_checks(tmp_path, weather(WHOLE, latitudes=(10.1, 9.85)), allow=allow)["grid_aligned"]
        assert not off.passed
    assert off.description.startswith(f"2023-07: {tmp_path / 'file0.nc'}: ")
    assert "10.1" in off.description
    assert off.remedy


def flat_checks(flat: FlatMonth, *, allow: bool = False) -> dict[str, CheckResult]:
    outcomes = flat_outcomes(flat, allow_incomplete=allow)
    assert tuple(outcome.name for outcome in outcomes) == FLAT_CHECKS
    return {outcome.name: outcome for outcome in outcomes}


def test_a_good_flat_month_passes_the_flat_checks(flat_months: FlatMonths) -> None:
    flat = flat_months()
    checks = flat_checks(flat)
    assert all(outcome.passed for outcome in checks.values())
    first = flat.columns[0]
    assert checks["values_within_bounds"].description.startswith(
        f"temperature_2m {first.minimum:g} to {first.maximum:g}, total_precipitation "
    )
    assert checks["no_missing_values"].description == f"{flat.rows} rows without a missing value"


def test_values_out_of_bounds(flat_months: FlatMonths) -> None:
    flat = flat_months()
    place = "latitude 10.5, longitude 20, 2023-07-01T00:00Z"
    odd = replace(flat, columns=(replace(flat.columns[0], out_of_bounds=3, first_out_of_bounds=place), flat.columns[1]))
    for allow in (False, True):
        outcome = flat_checks(odd, allow=allow)["values_within_bounds"]
        assert not outcome.passed
    assert_says(outcome.description, "2023-07", "temperature_2m has 3 values outside -100 to 65 degC", place)
    assert "download it again" in outcome.remedy


def test_missing_values(flat_months: FlatMonths) -> None:
    flat = flat_months(names=("t2m", "sf"), missing=0.1)
    outcome = flat_checks(flat)["no_missing_values"]
    assert not outcome.passed
    holes = [
        f"{facts.column}: {facts.missing} values are missing, first at {facts.first_missing}" for facts in flat.columns
    ]
    assert outcome.description == f"2023-07: {'; '.join(holes)}"
    assert ALLOWED in outcome.remedy
    assert flat_checks(flat, allow=True)["no_missing_values"].passed
    without_any = flat_checks(flat_months(points=(1, 1), missing=1.0))
    assert not without_any["no_missing_values"].passed
    assert without_any["values_within_bounds"].passed


def test_the_table(flat_months: FlatMonths) -> None:
    flat = flat_months()
    rows, columns = table_outcomes(flat, ())
    assert (rows.name, columns.name) == TABLE_CHECKS
    assert rows.passed
    assert columns.passed
    assert rows.description == f"{flat.rows} rows in table and file"
    assert "2 columns" in columns.description
    row_difference = Difference("rows", None, table=1, file=2)
    column_difference = Difference("checksum", "snowfall", table=1, file=3)
    rows, columns = table_outcomes(flat, (row_difference, column_difference))
    assert not rows.passed
    assert not columns.passed
    assert_says(rows.description, "2023-07", "rows", "1 in the table", "2 in the file")
    assert_says(columns.description, "2023-07", "checksum of snowfall", "1 in the table", "3 in the file")
    assert "--force" in rows.remedy
    locations = Difference("sum of location_id", None, table=1, file=2)
    for difference in (locations, Difference("values", "snowfall", table=1, file=0)):
        rows, columns = table_outcomes(flat, (difference,))
        assert (rows.passed, columns.passed) == (difference is not locations, difference is locations)
