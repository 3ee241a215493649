"""Tests of `planning/fetches`: the records of places that were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.planning.fetches import FetchFolder, PlaceFetch, announced_months, announcement

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ERA5_GRID.nearest_location(50.1, -1.1)
ASKED = PlaceFetch(PLACE.location_id, asked_at=1000.0)


def test_records_are_found_by_place_and_in_the_order_of_asking(tmp_path: Path) -> None:
    folder = FetchFolder(tmp_path)
    assert (folder.find(PLACE), folder.unfinished()) == (None, [])
    later = PlaceFetch(1, asked_at=2000.0, state="loading", months=12)
    folder.write(later)
    folder.write(ASKED)
    assert folder.find(PLACE) == ASKED
    assert ASKED.location == PLACE
    assert folder.unfinished() == [ASKED, later]
    assert folder.end(ASKED, 0) is None
    assert folder.unfinished() == [later]


def test_places_of_two_data_sets_with_one_number_are_recorded_apart(tmp_path: Path) -> None:
    folder, of_land = FetchFolder(tmp_path), FetchFolder(tmp_path, ERA5_LAND)
    place = ERA5_LAND.grid.location(PLACE.location_id)
    asked = replace(ASKED, grid=place.grid)
    of_land.write(asked)
    assert (of_land.find(place), of_land.unfinished(), asked.location) == (asked, [asked], place)
    assert (folder.find(PLACE), folder.unfinished()) == (None, [])
    assert folder.lock_of(PLACE) != of_land.lock_of(place)


def test_a_load_that_fails_is_tried_again_after_twice_the_time_and_then_forgotten(tmp_path: Path) -> None:
    folder, fetch, pauses = FetchFolder(tmp_path), ASKED, []
    while (failed := folder.end(fetch, 8)) is not None:
        assert folder.find(PLACE) == failed
        assert (failed.state, failed.exit_code) == ("failed", 8)
        pauses.append(failed.next_try - failed.failed_at)
        fetch = failed
    assert pauses == pytest.approx([600, 1200, 2400, 4800, 9600])
    assert folder.unfinished() == []


def test_a_place_is_needed_until_its_load_is_complete(tmp_path: Path) -> None:
    folder = FetchFolder(tmp_path)
    assert [folder.is_needed(PLACE, is_held=held) for held in (False, True)] == [True, False]
    folder.write(ASKED)
    assert folder.is_needed(PLACE, is_held=True)
    folder.end(ASKED, 7)  # what the failed load has left is answered
    assert [folder.is_needed(PLACE, is_held=held) for held in (False, True)] == [True, False]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"form": 2}', "null"])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    folder = FetchFolder(tmp_path)
    folder.write(ASKED)
    (tmp_path / "fetch" / f"{PLACE.location_id}.json").write_text(content, encoding="utf-8")
    assert (folder.find(PLACE), folder.unfinished()) == (None, [])


def test_a_load_announces_how_many_months_it_brings() -> None:
    assert announced_months("") is None
    log = f"era5: {announcement(1)}\nloading from earthmover\nera5: {announcement(1035)}\n2020-01  loaded\n"
    assert announced_months(log) == 1035
    assert announced_months(f"era5: {announcement(1)}\n") == 1
