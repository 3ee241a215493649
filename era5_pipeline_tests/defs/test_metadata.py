"""Stage results as Dagster metadata."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

import dagster as dg
import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from era5_pipeline.defs import metadata
from era5_pipeline.defs.assets import FLAT
from era5_pipeline.flat.checks import FLAT_CHECKS, CheckResult
from era5_pipeline.flat.flatten import preview_file
from era5_pipeline.maps.styles import TEXT_OF_PREVIEW, TITLE_OF_PREVIEW
from era5_pipeline.read.credit import origin_of
from era5_pipeline.read.held import PartVersion
from era5_pipeline.stages import FlatResult, LoadResult, RawResult
from era5_pipeline.warehouse.load_month import Loaded
from era5_pipeline_tests.ledgers import entry
from era5_pipeline_tests.pipelines import plain

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline_tests.flat_months import FlatMonths


@pytest.fixture
def flat(flat_months: FlatMonths) -> FlatMonth:
    return flat_months()


def loaded(flat: FlatMonth, *, changed: bool = True, seconds: float = 2.0) -> LoadResult:
    result = Loaded(rows=flat.rows, changed=changed, seconds=seconds, layout="partitions", server="PostgreSQL")
    return LoadResult(flat, result, (), 0.5)


def credit_of_month(flat: FlatMonth) -> str:
    part = PartVersion(flat.month, (flat.raw.source,), flat.version, frozenset(), flat.shift, flat.origin)
    return origin_of([part]).credit


def test_rate_uses_the_time_of_the_stage_alone(flat: FlatMonth) -> None:
    facts = plain(metadata.weather_metadata(loaded(flat)))
    assert facts["rows_per_second"] == flat.rows / 2.0
    assert facts["verify_seconds"] == 0.5
    # Without a load there is no rate.
    unchanged = plain(metadata.weather_metadata(loaded(flat, changed=False, seconds=0.0)))
    assert unchanged["rows_per_second"] == 0.0


def test_state_is_the_same_as_in_the_ledger(flat: FlatMonth) -> None:
    assert plain(metadata.weather_metadata(loaded(flat)))["state"] == "loaded"
    short = replace(flat, columns=(replace(flat.columns[0], missing_hours=("2023-07-01T00",)), *flat.columns[1:]))
    assert plain(metadata.weather_metadata(loaded(short)))["state"] == "incomplete"


def test_version_and_preliminary_hours(flat: FlatMonth) -> None:
    for facts in (
        plain(metadata.weather_metadata(loaded(flat))),
        plain(metadata.flat_metadata(FlatResult(flat, (), flat.path.with_suffix(".png"), reused=False))),
    ):
        assert (facts["version"], facts["preliminary_hours"]) == ("final", {})
    runs = ("2023-07-01T05 to 2023-07-31T23",)
    first = replace(flat.columns[0], expver={"0001": 5, "0005": 739}, preliminary_hours=runs)
    mixed = replace(flat, columns=(first, *flat.columns[1:]))
    for facts in (
        plain(metadata.weather_metadata(loaded(mixed))),
        plain(metadata.flat_metadata(FlatResult(mixed, (), flat.path.with_suffix(".png"), reused=False))),
    ):
        assert (facts["version"], facts["preliminary_hours"]) == ("mixed", {"temperature_2m": list(runs)})
    # Of raw files, those of the values to load.
    expver = {"snowfall": {"0001": 5, "0005": 739}}
    raw = RawResult(flat.raw, flat.rows, 744, ("snowfall",), expver, {"snowfall": runs}, outcomes=(), seconds=1.0)
    facts = plain(metadata.raw_metadata(raw))
    assert (facts["version"], facts["preliminary_hours"]) == ("mixed", {"snowfall": list(runs)})


@pytest.mark.parametrize("changed", [None, (), ("snowfall", "temperature_2m")])
@pytest.mark.parametrize("confirmed", [True, False])
def test_changed_columns_are_recorded_if_known(
    flat: FlatMonth, changed: tuple[str, ...] | None, *, confirmed: bool
) -> None:
    result = loaded(flat)
    result = replace(result, loaded=replace(result.loaded, confirmed=confirmed, columns_changed=changed))
    facts = plain(metadata.weather_metadata(result))
    assert facts["confirmed"] is confirmed
    assert facts["columns_changed"] == (None if changed is None else list(changed))


def test_a_month_that_is_confirmed_is_shown_as_the_table_has_it(flat: FlatMonth) -> None:
    held = entry(flat.month, confirmed_by="earthmover")
    result = loaded(replace(flat, raw=replace(flat.raw, source="earthmover")))
    result = replace(result, loaded=replace(result.loaded, confirmed=True, confirmation=held))
    facts = plain(metadata.weather_metadata(result))
    assert (facts["source"], facts["confirmed by"], facts["version"]) == ("cds", "earthmover", "final")


@pytest.fixture
def preview(flat: FlatMonth) -> Path:
    """A preview of noise, which compresses worst."""
    path = preview_file(flat.path.parent, flat.month)
    noise = np.random.default_rng(0).integers(0, 256, (300, 360, 3), dtype=np.uint8)
    texts = PngInfo()
    texts.add_text(TEXT_OF_PREVIEW, "")
    texts.add_text(TITLE_OF_PREVIEW, "0")
    Image.fromarray(noise).save(path, pnginfo=texts)
    return path


def test_map_is_short_enough_to_be_shown_in_place(flat: FlatMonth, preview: Path) -> None:
    shown = metadata.flat_metadata(FlatResult(flat, (), preview, reused=False))
    assert list(shown)[:2] == ["map", "preview"]
    markdown = str(shown["map"].value)
    assert len(markdown) < 1000
    svg = unquote(markdown.partition("![map](data:image/svg+xml,")[2].removesuffix(")"))
    assert svg.startswith("<svg xmlns='http://www.w3.org/2000/svg' width='360' height='300'>")
    encoded = svg.partition("data:image/webp;base64,")[2].removesuffix("'/></svg>")
    with Image.open(io.BytesIO(base64.b64decode(encoded, validate=True))) as picture:
        assert picture.format == "WEBP"
        assert picture.width / picture.height == pytest.approx(360 / 300, rel=0.1)


def test_what_the_map_shows_is_text_beside_it(flat: FlatMonth, preview: Path) -> None:
    noise = np.asarray(Image.open(preview)).copy()
    noise[:50] = 255  # the title, which could not be read in the blurred map
    words = "2 m temperature, Sun 16 Jul 2023, 12:00 UTC: \u22123.14 to 29.4 °C"
    texts = PngInfo()
    texts.add_text(TEXT_OF_PREVIEW, words)
    texts.add_text(TITLE_OF_PREVIEW, "50")
    Image.fromarray(noise).save(preview, pnginfo=texts)
    for shown in (
        metadata.flat_metadata(FlatResult(flat, (), preview, reused=False)),
        metadata.weather_metadata(loaded(flat)),
    ):
        markdown = str(shown["map"].value)
        assert len(markdown) < 1000
        # Above the picture, where it is in view.
        caption = f"{words}\n\n{credit_of_month(flat)}\n\n"
        assert markdown.startswith(f"{caption}![map](data:image/svg+xml,")
        assert str(shown["preview"].value).startswith(f"{caption}![preview](data:image/png;base64,")
        assert "width='360' height='250'" in unquote(markdown)


@pytest.mark.parametrize("damage", ["the height of its title", "cut off", "missing"])
def test_a_preview_that_is_damaged_or_missing_fails_no_load(flat: FlatMonth, preview: Path, damage: str) -> None:
    if damage == "missing":
        preview.unlink()
    elif damage == "cut off":
        preview.write_bytes(preview.read_bytes()[:1000])
    else:
        texts = PngInfo()
        texts.add_text(TITLE_OF_PREVIEW, "high")
        Image.open(preview).save(preview, pnginfo=texts)
    shown = metadata.weather_metadata(loaded(flat))
    assert (shown["map"].value, shown["preview"].value) == (None, None)


def test_averages_have_units_and_leave_out_what_the_month_lacks(flat: FlatMonth) -> None:
    means = {"temperature_2m": 25.123456, "zonal_wind_10m": -1.5, "total_precipitation": 0.25, "snowfall": None}
    columns = tuple(replace(flat.columns[0], column=column, area_mean=mean) for column, mean in means.items())
    shown = metadata.weather_metadata(loaded(replace(flat, columns=columns)))
    averages = {name: value.value for name, value in shown.items() if name.startswith("average")}
    assert averages == {
        "average temperature_2m [degC]": 25.1235,
        "average zonal_wind_10m [m/s]": -1.5,
        "average total_precipitation [mm/day]": 6.0,
    }
    # The UI plots what is a number, sorted by name.
    plotted = sorted(
        name for name, value in shown.items() if isinstance(value, dg.IntMetadataValue | dg.FloatMetadataValue)
    )
    assert plotted[: len(averages)] == sorted(averages)
    assert plotted[len(averages) :] == [
        *("dagster/partition_row_count", "flat bytes", "hours", "raw bytes", "rows per second"),
        *("seconds", "seconds waiting"),
    ]


def test_what_is_plotted_says_what_the_month_cost(flat: FlatMonth) -> None:
    shown = metadata.weather_metadata(replace(loaded(flat), waited_seconds=12.3456))
    names = list(shown)
    assert names[names.index("seconds") :] == [
        *("seconds", "seconds waiting", "rows per second", "raw bytes", "flat bytes", "technical")
    ]
    numbers = {name: shown[name].value for name in names[names.index("seconds") : -1]}
    assert numbers == {
        "seconds": 2.0,
        "seconds waiting": 12.346,
        "rows per second": flat.rows / 2.0,
        "raw bytes": flat.raw.bytes,
        "flat bytes": flat.bytes,
    }
    # A month that was left as it was has no rate: a zero would look like a slow load.
    assert "rows per second" not in metadata.weather_metadata(loaded(flat, changed=False, seconds=0.0))


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
