"""Comparison of sources for the same request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.settings import Settings
from era5_pipeline.planning.comparison import Offer, compare_sources
from era5_pipeline_tests.zarr_stores import BOXES, hours_between, write_store

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 21, tzinfo=UTC)
YEAR = tuple(month_range(Month(2020, 1), Month(2020, 12)))


def offers(**settings: Any) -> dict[str, Offer]:
    found = compare_sources(Settings(_env_file=None, **settings), YEAR, NOW)
    return {offer.source: offer for offer in found}


def test_a_place_is_compared_at_every_service_and_documented_store(tmp_path: Path) -> None:
    found = offers(home=tmp_path, area="50/0/50/0")
    assert list(found) == ["cds", "arco", "point", "zarr --store edh", "zarr --store ecmwf-arco"]
    assert found["arco"].requests == 366 * 24 * 6
    assert found["point"].requests == 1
    assert found["point"].notes[0] == "lacks snowfall"
    # A leap year is in 9 or 10 chunks of 1,080 hours.
    assert found["zarr --store edh"].requests in (9 * 6, 10 * 6)
    assert any("not tried against the service" in note for note in found["zarr --store edh"].notes)
    assert found["zarr --store ecmwf-arco"].requests == 5
    assert "lacks snowfall" in found["zarr --store ecmwf-arco"].notes
    for offer in found.values():
        assert offer.bytes
        assert offer.hours is not None
        assert offer.to_json()["wait_hours"]["least"] <= offer.to_json()["wait_hours"]["most"]


def test_point_series_are_offered_for_a_few_places_only(tmp_path: Path) -> None:
    assert "point" not in offers(home=tmp_path, area="60/-10/35/30")


def test_the_store_of_the_settings_is_looked_at(tmp_path: Path) -> None:
    write_store(tmp_path / "store", BOXES, hours_between(YEAR[0], YEAR[0]))
    found = offers(home=tmp_path, area="50/0/50/0", zarr_url=str(tmp_path / "store"))["zarr"]
    assert found.requests == 2
    assert found.notes == (
        str(tmp_path / "store"),
        "lacks zonal_wind_10m, meridional_wind_10m, total_cloud_cover, snowfall",
    )
    lost = offers(home=tmp_path, area="50/0/50/0", zarr_url=str(tmp_path / "nothing"))["zarr"]
    assert lost.requests is None
    assert "there is no Zarr store at" in lost.notes[0]
