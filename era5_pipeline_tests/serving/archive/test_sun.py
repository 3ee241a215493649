"""The sun against published and independently computed times, and where it does not rise or set."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from era5_pipeline.serving.archive.sun import SunOfPlace


def sun_of(latitude: float, longitude: float, offset_hours: int, day: str, days: int = 1) -> SunOfPlace:
    midnight = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) - offset_hours * 3_600
    return SunOfPlace(latitude, longitude, midnight, midnight, days)


# When the zenith of NREL's algorithm (Reda and Andreas, 2003), which is not the one under test, is 90.8333 degrees: by
# spa_python of pvlib 0.16.1, every 10 s, at the offset of the place.
@pytest.mark.parametrize(
    ("latitude", "longitude", "offset", "day", "rises", "sets", "seconds"),
    [
        (39.742476, -105.1786, -7, "2003-10-17", "06:12:45", "17:18:55", 20),
        (51.5, -0.25, 0, "2024-06-20", "03:43:35", "20:21:55", 20),
        (51.5, -0.25, 0, "2024-12-21", "08:04:25", "15:54:05", 20),
        (-33.75, 151.25, 10, "2024-12-21", "04:41:05", "19:05:05", 20),
        (-0.25, -78.5, -5, "1950-03-20", "06:18:25", "18:24:55", 20),
        (64.25, -22.0, 0, "2024-06-10", "03:00:55", "23:55:45", 20),
        (50.5, -4.25, 0, "2022-01-01", "08:17:45", "16:23:25", 20),
        (-36.75, 174.75, 12, "1999-09-01", "06:43:05", "17:59:55", 20),
        (69.75, 19.0, 1, "2024-11-20", "10:05:25", "12:53:05", 20),
        (21.25, -157.75, -10, "2085-07-01", "05:53:15", "19:17:15", 20),
    ],
)
def test_it_rises_and_sets_when_tables_say_so(
    latitude: float, longitude: float, offset: int, day: str, rises: str, sets: str, seconds: int
) -> None:
    sun = sun_of(latitude, longitude, offset, day)
    for found, expected in ((sun.sunrise(), rises), (sun.sunset(), sets)):
        known = datetime.fromisoformat(f"{day}T{expected}").replace(tzinfo=UTC).timestamp() - offset * 3_600
        assert abs(int(found[0]) - known) <= seconds
    assert sun.daylight()[0] == sun.sunset()[0] - sun.sunrise()[0]


@pytest.mark.parametrize("latitude", [69.75, 90.0])
def test_a_polar_day_is_24_hours_and_a_polar_night_none(latitude: float) -> None:
    midsummer, midwinter = sun_of(latitude, 19.0, 1, "2024-06-21"), sun_of(latitude, 19.0, 1, "2024-12-21")
    assert midsummer.sunrise().tolist() == [midsummer.midnight]
    assert midsummer.sunset().tolist() == [midsummer.midnight + 86_400]
    assert midsummer.daylight().tolist() == [86_400.0]
    assert midsummer.is_day().tolist() == [1.0] * 24
    assert midwinter.sunrise().tolist() == midwinter.sunset().tolist() == [midwinter.midnight]
    assert midwinter.daylight().tolist() == [0.0]
    assert midwinter.is_day().tolist() == [0.0] * 24
    assert not midwinter.above_the_atmosphere()[0].any()


@pytest.mark.parametrize("longitude", [-180.0, -179.75, 0.0, 151.25, 179.75])
def test_every_day_has_one_noon_whatever_the_zone(longitude: float) -> None:
    sun = sun_of(-33.75, longitude, 0, "2023-01-01", 365)
    noons = (sun.sunrise() + sun.sunset()) / 2
    assert np.abs(np.diff(noons) - 86_400).max() < 60
    midnights = sun.midnight + np.arange(365) * 86_400
    # The equation of time is up to 17 minutes.
    assert ((noons - midnights >= -1_020) & (noons - midnights < 86_400 + 1_020)).all()


def test_hours_are_day_between_rising_and_setting() -> None:
    sun = sun_of(50.5, -4.25, 0, "2022-03-01", 31)
    hours = sun.first_hour + np.arange(31 * 24) * 3_600
    rises, sets = sun.sunrise().repeat(24), sun.sunset().repeat(24)
    assert sun.is_day().tolist() == ((hours > rises) & (hours < sets)).astype(float).tolist()


def test_sunlight_above_the_atmosphere_is_that_of_fao_56() -> None:
    # Its own formulas of the sun's position are simpler, and up to 1.2 % away.
    # Example 19: N'Diaye, Senegal, 16 13' N 16 15' W, 1 October, 14:00 to 15:00 at UTC-1: 3.543 MJ/m2; at night none.
    above, _ = sun_of(16 + 13 / 60, -16.25, -1, "1998-10-01").above_the_atmosphere()
    assert above[15] == pytest.approx(3.543, rel=0.012)
    assert above[3] == 0
    # Example 8: 3 September, 20 S: 32.2 MJ/m2 on the day.
    assert sun_of(-20, 0, 0, "1998-09-03").above_the_atmosphere()[0].sum() == pytest.approx(32.2, rel=0.012)
    # Annex 2, table 2.6: 15 June at 70 N, all day long: 42.9 MJ/m2.
    assert sun_of(70, 0, 0, "1998-06-15").above_the_atmosphere()[0].sum() == pytest.approx(42.9, rel=0.012)
