"""Stage results as Dagster metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from era5_pipeline.defs import metadata
from era5_pipeline.defs.assets import FLAT
from era5_pipeline.flat.checks import FLAT_CHECKS, CheckResult
from era5_pipeline.flat.flatten import preview_file
from era5_pipeline.stages import FlatResult, LoadResult, RawResult
from era5_pipeline.warehouse.load_month import Loaded

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline_tests.flat_months import FlatMonths


@pytest.fixture
def flat(flat_months: FlatMonths) -> FlatMonth:
    return flat_months()


def loaded(flat: FlatMonth, *, changed: bool = True, seconds: float = 2.0) -> LoadResult:
    result = Loaded(
        rows=flat.rows,
        changed=changed,
        seconds=seconds,
        layout="partitions",
        server="PostgreSQL",
    )
    return LoadResult(flat, result, (), 0.5)


def values(of: metadata.Metadata) -> dict[str, object]:
    return {name: value.value for name, value in of.items()}


def test_rate_uses_the_time_of_the_stage_alone(flat: FlatMonth) -> None:
    facts = values(metadata.weather_metadata(loaded(flat)))
    assert facts["rows_per_second"] == flat.rows / 2.0
    assert facts["verify_seconds"] == 0.5
    # Without a load there is no rate.
    unchanged = values(metadata.weather_metadata(loaded(flat, changed=False, seconds=0.0)))
    assert unchanged["rows_per_second"] == 0.0


def test_state_is_the_same_as_in_the_ledger(flat: FlatMonth) -> None:
    assert values(metadata.weather_metadata(loaded(flat)))["state"] == "loaded"
    short = replace(flat, columns=(replace(flat.columns[0], missing_hours=("2023-07-01T00",)), *flat.columns[1:]))
    assert values(metadata.weather_metadata(loaded(short)))["state"] == "incomplete"


def test_version_and_preliminary_hours(flat: FlatMonth) -> None:
    for facts in (
        values(metadata.weather_metadata(loaded(flat))),
        values(metadata.flat_metadata(FlatResult(flat, (), flat.path, reused=False))),
    ):
        assert (facts["version"], facts["preliminary_hours"]) == ("final", {})
    runs = ("2023-07-01T05 to 2023-07-31T23",)
    first = replace(flat.columns[0], expver={"0001": 5, "0005": 739}, preliminary_hours=runs)
    mixed = replace(flat, columns=(first, *flat.columns[1:]))
    for facts in (
        values(metadata.weather_metadata(loaded(mixed))),
        values(metadata.flat_metadata(FlatResult(mixed, (), flat.path, reused=False))),
    ):
        assert (facts["version"], facts["preliminary_hours"]) == ("mixed", {"temperature_2m": list(runs)})


@pytest.mark.parametrize(
    ("expver", "preliminary", "version"),
    [
        ({"snowfall": {"0001": 744}}, {}, "final"),
        ({"snowfall": {"0001": 744, "0005": 744}}, {}, "final"),
        ({"snowfall": {"0001": 7, "0005": 737}}, {"snowfall": ("2023-07-01T07 to 2023-07-31T23",)}, "mixed"),
        ({"snowfall": {"0005": 744}}, {"snowfall": ("2023-07-01T00 to 2023-07-31T23",)}, "preliminary"),
        ({"snowfall": {"unknown": 744}}, {}, "unknown"),
    ],
)
def test_version_of_raw_files_is_that_of_the_values_to_load(
    flat: FlatMonth, expver: dict[str, dict[str, int]], preliminary: dict[str, tuple[str, ...]], version: str
) -> None:
    raw = RawResult(
        raw=flat.raw,
        rows=flat.rows,
        hours=744,
        columns=("snowfall",),
        expver=expver,
        preliminary_hours=preliminary,
        outcomes=(),
        seconds=1.0,
    )
    facts = values(metadata.raw_metadata(raw))
    assert facts["version"] == version
    assert facts["preliminary_hours"] == {column: list(runs) for column, runs in preliminary.items()}


@pytest.mark.parametrize("changed", [None, (), ("snowfall", "temperature_2m")])
@pytest.mark.parametrize("confirmed", [True, False])
def test_changed_columns_are_recorded_if_known(
    flat: FlatMonth, changed: tuple[str, ...] | None, *, confirmed: bool
) -> None:
    result = loaded(flat)
    result = replace(result, loaded=replace(result.loaded, confirmed=confirmed, columns_changed=changed))
    facts = values(metadata.weather_metadata(result))
    assert facts["confirmed"] is confirmed
    assert facts["columns_changed"] == (None if changed is None else list(changed))


def test_missing_preview_is_null(flat: FlatMonth) -> None:
    preview = preview_file(flat.path.parent, flat.month)
    preview.write_bytes(b"\x89PNG")
    with_picture = metadata.flat_metadata(FlatResult(flat, (), preview, reused=False))
    assert str(with_picture["preview"].value).startswith("![preview](data:image/png;base64,")
    without = metadata.flat_metadata(FlatResult(flat, (), preview.with_name("none.png"), reused=False))
    assert without["preview"].value is None


def test_failed_checks_have_a_remedy() -> None:
    specs = metadata.check_specs(FLAT, FLAT_CHECKS, blocking=True)
    assert [(spec.name, spec.blocking, bool(spec.description)) for spec in specs] == [
        ("values_within_bounds", True, True),
        ("no_missing_values", True, True),
    ]
    good, bad = metadata.check_results(
        FLAT,
        (
            CheckResult("values_within_bounds", passed=True, description="0 to 1"),
            CheckResult("no_missing_values", passed=False, description="a hole", remedy="Download it again."),
        ),
    )
    assert (good.passed, good.description, good.metadata) == (True, "0 to 1", {})
    assert (bad.passed, bad.check_name, bad.asset_key) == (False, "no_missing_values", FLAT)
    assert bad.metadata == {"remedy": dg.MetadataValue.text("Download it again.")}
