"""Zones of points, and the fixed offset that stands for a zone."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.places.place_search import find_place
from era5_pipeline.model.places.time_zones import standard_offset, zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _locked_zones() -> Iterator[None]:
    """The zones of the package tzdata, whose version is locked, and not those of this machine."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=before)
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.parametrize(
    ("latitude", "longitude", "zone"),
    [
        (-6.2, 106.8, "Asia/Jakarta"),
        (51.48, -0.05, "Europe/London"),
        # The same meridian, in the other count of degrees.
        (51.48, 359.95, "Europe/London"),
        (40.7, 286.0, "America/New_York"),
        # At sea: the sign of these zones is inverted.
        (0.0, -140.0, "Etc/GMT+9"),
        (0.0, 220.0, "Etc/GMT+9"),
        (-16.8, 179.95, "Pacific/Fiji"),
        (-90.0, 0.0, "Antarctica/McMurdo"),
    ],
)
def test_a_point_has_a_zone(latitude: float, longitude: float, zone: str) -> None:
    assert zone_of(latitude, longitude) == zone


@pytest.mark.parametrize("longitude", [-180.0, 180.0, 0.0, 360.0])
@pytest.mark.parametrize("latitude", [-90.0, 0.0, 67.0, 90.0])
def test_poles_and_date_line_have_a_zone_that_exists(latitude: float, longitude: float) -> None:
    assert zone_of(latitude, longitude) in zoneinfo.available_timezones()


@pytest.mark.parametrize("name", ["Jakarta", "Reykjavik", "Ho Chi Minh City", "Kathmandu", "Suva", "Cape Town"])
def test_a_city_lies_in_the_zone_of_its_table(name: str) -> None:
    place = find_place(name)
    assert zone_of(place.latitude, place.longitude) == place.time_zone


@pytest.mark.parametrize(
    ("zone", "years", "minutes", "words"),
    [
        ("Asia/Jakarta", (1991, 2020), 420, "UTC+07:00"),
        ("Europe/Berlin", (1991, 2020), 60, "UTC+01:00"),
        # Summer time is negative in its rules, and summer is in January.
        ("Europe/Dublin", (1991, 2020), 0, "UTC+00:00"),
        ("Australia/Sydney", (2001, 2020), 600, "UTC+10:00"),
        ("America/New_York", (1991, 2020), -300, "UTC-05:00"),
        ("Asia/Kathmandu", (1991, 2020), 345, "UTC+05:45"),
        ("America/St_Johns", (1991, 2020), -210, "UTC-03:30"),
        ("Etc/GMT+9", (1940, 2025), -540, "UTC-09:00"),
    ],
)
def test_the_offset_is_the_standard_time_of_the_last_year(
    zone: str, years: tuple[int, int], minutes: int, words: str
) -> None:
    found = standard_offset(zone, *years)
    assert (found.minutes, str(found), found.zone) == (minutes, words, zone)
    assert found.is_part_hour == (minutes % 60 != 0)


def test_years_in_which_the_offset_was_another_are_listed() -> None:
    # Jakarta has had UTC+7 since 1964; Japan's time, +9, in the war, +7:30 and +8 after it.
    assert standard_offset("Asia/Jakarta", 1940, 2025).other_years == tuple(range(1940, 1964))
    assert standard_offset("Asia/Jakarta", 1964, 2025).other_years == ()
    assert standard_offset("Asia/Jakarta", 1940, 2025).other_years_in_words == "1940 to 1963"
    # Moscow was four hours ahead from the spring of 2011 to the autumn of 2014.
    moscow = standard_offset("Europe/Moscow", 2005, 2020)
    assert (moscow.minutes, moscow.other_years_in_words) == (180, "2012 to 2013")
    # Venezuela was four and a half hours behind from December 2007 to May 2016: the least offset of those years.
    caracas = standard_offset("America/Caracas", 2000, 2020)
    assert (caracas.minutes, caracas.other_years_in_words) == (-240, "2007 to 2016")


def test_years_that_are_not_neighbours_are_listed_apart() -> None:
    # London kept summer time all winter in 1941 to 1944, and British Standard Time in 1969 and 1970.
    assert standard_offset("Europe/London", 1940, 2020).other_years_in_words == "1941 to 1944, 1969 to 1970"


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Africa/Casablanca", "Europe/Dublin", "America/Coyhaique"])
def test_the_offset_is_the_least_of_every_hour_of_the_year(zone: str) -> None:
    hours = (datetime(2019, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(365 * 24))
    offsets = [hour.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset() for hour in hours]
    least = min(offset for offset in offsets if offset is not None)
    assert standard_offset(zone, 2019, 2019).minutes * 60 == least.total_seconds()


@pytest.mark.parametrize(
    "zone", ["Asia", "Asia/Nowhere", "", "../etc/passwd", "Asia/Jakarta\x00", "asia/jakarta; DROP"]
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="is not a time zone") as caught:
        standard_offset(zone, 1991, 2020)
    assert "Asia/Jakarta" in caught.value.remedy
