"""Tests of `model/question`."""

from __future__ import annotations

from typing import Any

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.places import AskedPlace
from era5_pipeline.model.question import (
    COMMAND,
    HTTP,
    PYTHON,
    Wording,
    asked_column,
    asked_columns,
    asked_place,
    asked_place_or_area,
    find_asked_place,
    find_place_or_area,
)


def test_a_place_by_name_and_by_coordinates() -> None:
    asked = asked_place(COMMAND, "Jakarta", None, None)
    assert asked.name == "Jakarta, Indonesia"
    assert (asked.latitude, asked.longitude) == (-6.215, 106.845)
    assert (asked.cell.location.latitude, asked.cell.location.longitude) == (-6.25, 106.75)
    assert asked.time_zone == "Asia/Jakarta"
    assert (asked_place(COMMAND, "Singapore", None, None, "land").cell.land_share or 0.0) >= 0.5
    asked = asked_place(COMMAND, None, 0.0, 0.0)
    assert (asked.place, asked.time_zone) == (None, "Etc/GMT")
    assert (asked.latitude, asked.longitude, asked.cell.location.location_id) == (0.0, 0.0, 519_120)


def test_nothing_asked_is_no_place() -> None:
    assert find_asked_place(COMMAND, None, None, None) is None
    assert find_place_or_area(COMMAND, None, None, None, "nearest", None) is None


def test_a_place_or_an_area() -> None:
    assert isinstance(asked_place_or_area(PYTHON, "Jakarta", None, None, "nearest", None), AskedPlace)
    for area in ("-5/106/-8/108", (-5, 106, -8, 108), Area(-5, 106, -8, 108)):
        assert asked_place_or_area(PYTHON, None, None, None, "nearest", area) == Area(-5, 106, -8, 108)


@pytest.mark.parametrize(
    ("place", "latitude", "longitude", "message", "remedy"),
    [
        (None, None, None, "no place is given", "--place NAME"),
        (None, 1.0, None, "--lon is missing", "--lat and --lon"),
        (None, None, 1.0, "--lat is missing", "--lat and --lon"),
        ("Jakarta", -6.2, 106.8, "--place and --lat, --lon cannot be combined", "Give only one of them"),
        ("Jakarta", None, 106.8, "--place and --lat, --lon cannot be combined", "Give only one of them"),
        ("", None, None, "the name of the place is empty", "such as Jakarta"),
        ("Jakrta", None, None, "'Jakrta' is not among", "Did you mean Jakarta, Indonesia?"),
        (None, 91.0, 0.0, "latitude 91 is out of range", "-90 to 90"),
        (None, 0.0, 999.0, "longitude 999 is out of range", "-180 to 360"),
        (None, float("nan"), 0.0, "latitude nan is out of range", "-90 to 90"),
        (None, True, 0.0, "--lat is True, not a number", "--lat and --lon"),
        (None, 0.0, "1", "--lon is '1', not a number", "--lat and --lon"),
    ],
)
def test_what_is_wrong_is_said(place: Any, latitude: Any, longitude: Any, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked_place(COMMAND, place, latitude, longitude)
    assert caught.value.message.startswith(message)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("wording", "missing", "both", "example"),
    [
        (COMMAND, "--lon is missing", "a place and --area cannot", "--place Jakarta"),
        (HTTP, "longitude is missing", "a place and area cannot", "latitude=-6.2&longitude=106.8"),
        (PYTHON, "longitude is missing", "a place and area cannot", "latitude=-6.2, longitude=106.8"),
    ],
    ids=["command", "http", "python"],
)
def test_each_front_end_is_told_its_own_arguments(wording: Wording, missing: str, both: str, example: str) -> None:
    with pytest.raises(UsageError, match=missing) as caught:
        asked_place(wording, None, 1.0, None)
    assert example in caught.value.remedy
    with pytest.raises(UsageError, match=both):
        find_place_or_area(wording, "Jakarta", None, None, "nearest", "-5/106/-8/108")
    with pytest.raises(UsageError, match="no place is given") as caught:
        asked_place_or_area(wording, None, None, None, "nearest", None)
    assert wording.give_place in caught.value.remedy
    assert wording.give_area in caught.value.remedy


def test_columns_are_names_in_any_form() -> None:
    names = ["temperature_2m", "total_precipitation"]
    for given in ("t2m,tp", ["t2m", "tp"], ["tp,t2m"], iter(["2t", "tp", "tp"])):
        assert [one.column for one in asked_columns(given) or ()] == names
    assert asked_columns(None) is None
    assert asked_column("t2m").column == "temperature_2m"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no column is given"),
        ([""], "no column is given"),
        ("", "no column is given"),
        (["rain"], "'rain'"),
        ([1], "not names"),
        (7, "not names"),
    ],
)
def test_what_is_no_list_of_columns_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        asked_columns(given)
    assert caught.value.remedy


@pytest.mark.parametrize("given", ["", "t2m,tp", 7])
def test_one_column_is_one_name(given: Any) -> None:
    with pytest.raises(UsageError):
        asked_column(given)
