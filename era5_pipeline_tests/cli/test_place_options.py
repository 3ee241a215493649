"""The options that ask for a point: `--place`, `--lat` and `--lon`, `--cell`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.cli.place_options import find_asked_place, require_asked_place
from era5_pipeline.model.errors import UsageError
from era5_pipeline_tests.commands import InProcess

if TYPE_CHECKING:
    from pathlib import Path


def test_a_place_by_name() -> None:
    asked = require_asked_place("Jakarta", None, None)
    assert asked.name == "Jakarta, Indonesia"
    assert (asked.latitude, asked.longitude) == (-6.215, 106.845)
    assert (asked.cell.location.latitude, asked.cell.location.longitude) == (-6.25, 106.75)
    assert asked.time_zone == "Asia/Jakarta"


def test_a_place_by_coordinates() -> None:
    asked = require_asked_place(None, 0.0, 0.0)
    assert asked.place is None
    assert (asked.latitude, asked.longitude, asked.cell.location.location_id) == (0.0, 0.0, 519_120)
    assert asked.time_zone == "Etc/GMT"


def test_the_cell_may_be_the_nearest_land() -> None:
    assert require_asked_place("Singapore", None, None, "land").cell.land_share >= 0.5
    assert require_asked_place("Singapore", None, None, "nearest").cell.land_share < 0.5


def test_nothing_asked_is_no_place() -> None:
    assert find_asked_place(None, None, None) is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("--place", "Jakarta", "--cell", "sea"),
        ("--lat", "north", "--lon", "1"),
        ("--lat", "91", "--lon", "1"),
        ("--place", "Jakarta", "--lat", "1", "--lon", "1"),
        ("--place", ""),
        ("--place", "Robert'); DROP TABLE weather; --"),
        ("--place", "a\nb"),
        (),
    ],
)
def test_a_command_with_bad_options_ends_with_the_code_of_usage(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    printed = InProcess(capsys, monkeypatch, tmp_path).run("series", *arguments, code=2)
    assert printed.out == ""
    assert printed.err
    # Nothing was created or asked of a database.
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "latitude", "longitude", "message", "remedy"),
    [
        (None, None, None, "no place is given", "--place NAME"),
        (None, 1.0, None, "--lon is missing", "--lat and --lon"),
        (None, None, 1.0, "--lat is missing", "--lat and --lon"),
        ("Jakarta", -6.2, 106.8, "--place and --lat, --lon exclude each other", "Give one of the two"),
        ("Jakarta", None, 106.8, "--place and --lat, --lon exclude each other", "Give one of the two"),
        ("", None, None, "the name of the place is empty", "such as Jakarta"),
        ("Jakrta", None, None, "'Jakrta' is not among", "Did you mean Jakarta, Indonesia?"),
        (None, 91.0, 0.0, "latitude 91 is out of range", "-90 to 90"),
        (None, 0.0, 999.0, "longitude 999 is out of range", "-180 to 360"),
        (None, float("nan"), 0.0, "latitude nan is out of range", "-90 to 90"),
    ],
)
def test_what_is_wrong_is_said(
    place: str | None, latitude: float | None, longitude: float | None, message: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        require_asked_place(place, latitude, longitude)
    assert caught.value.message.startswith(message)
    assert remedy in caught.value.remedy
