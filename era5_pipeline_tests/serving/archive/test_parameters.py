"""Tests of `serving/archive/parameters`."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive.parameters import ArchiveQuestion, AskedParameters, read_question

KNOWN, IGNORED = ("latitude", "start_date", "hourly", "daily", "temperature_unit"), ("apikey",)


def asked_words(query: str) -> AskedParameters:
    return AskedParameters(parse_qsl(query, keep_blank_values=True))


@pytest.mark.parametrize(
    "query",
    [
        *("hourly=a,b", "hourly=a|b", "hourly=a%7Cb", "hourly=a&hourly=b", "hourly[]=a,b", "hourly[][]=a|b"),
        *("hourly[]=a&hourly[]=b", "hourly%5B%5D=a&hourly%5B%5D=b", "hourly[0]=a&hourly[1]=b", "hourly=a&hourly[]=b"),
    ],
)
def test_a_list_is_read_in_each_form_that_clients_write(query: str) -> None:
    assert asked_words(query).all("hourly") == ["a", "b"]


def test_numbers_and_single_values_are_read_in_those_forms_too() -> None:
    assert asked_words("latitude[]=1.5&latitude[]=-2").numbers("latitude") == [1.5, -2.0]
    assert asked_words("latitude=1.5|-2").numbers("latitude") == [1.5, -2.0]
    assert asked_words("temperature_unit[]=fahrenheit").one("temperature_unit") == "fahrenheit"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("Hourly", "hourly"), ("hourly[a]", "hourly"), ("hourlys", "hourly"), ("startDate", "start_date")),
        *(("start-date", "start_date"), ("temperature_units", "temperature_unit")),
    ],
)
def test_a_misspelt_name_is_refused_and_not_ignored(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match="is not known") as refused:
        asked_words(f"hourly=a&{name}=b").require_known(KNOWN, IGNORED)
    assert repr(name) in refused.value.message
    assert refused.value.remedy == f"Did you mean {meant}?"


def test_an_unknown_name_is_ignored_unless_nothing_else_is_asked_for() -> None:
    asked_words("hourly=a&nothing=1").require_known(KNOWN, IGNORED)
    asked_words("apikey=1").require_known(KNOWN, IGNORED)
    with pytest.raises(UsageError, match="'variables' is not known, and no variable is requested"):
        asked_words("variables=temperature_2m").require_known(KNOWN, IGNORED)


TODAY = date(2026, 11, 22)
PLACE = "latitude=10.75&longitude=106.7"
DATES = "start_date=2022-01-01&end_date=2022-01-31"


def asked(query: str) -> ArchiveQuestion:
    return read_question(parse_qsl(query, keep_blank_values=True), TODAY)


def refused(query: str) -> str:
    with pytest.raises(UsageError) as found:
        asked(query)
    return f"{found.value.message} {found.value.remedy}".strip()


def test_the_defaults_are_those_of_open_meteo_but_for_the_cell() -> None:
    question = asked(f"{PLACE}&{DATES}&hourly=temperature_2m")
    (point,) = question.points
    assert (point.cell.location.latitude, point.cell.location.longitude) == (10.75, 106.75)
    assert (point.zone.name, point.zone.offset_seconds, point.number) == ("GMT", 0, 0)
    assert (point.days.first, point.days.last, point.days.hours) == (date(2022, 1, 1), date(2022, 1, 31), 744)
    units = question.units
    assert (units.temperature, units.wind_speed, units.precipitation) == ("celsius", "kmh", "mm")
    assert (question.time_format, question.answer_format) == ("iso8601", "json")
    assert question.columns_of(question.models[0]) == ("temperature_2m",)


def test_lists_have_commas_or_are_repeated_and_names_are_kept_as_they_were_asked() -> None:
    query = f"{PLACE}&{DATES}&hourly=temperature_2m,windspeed_10m&hourly=snowfall&daily=rain_sum,"
    question = asked(query)
    assert list(question.hourly) == ["temperature_2m", "windspeed_10m", "snowfall"]
    assert question.hourly["windspeed_10m"].name == "wind_speed_10m"
    assert list(question.daily) == ["rain_sum"]
    assert question.columns_of(question.models[0]) == (
        *("temperature_2m", "zonal_wind_10m", "meridional_wind_10m", "snowfall", "total_precipitation"),
    )


@pytest.mark.parametrize(
    "places", ["latitude=10,20.1&longitude=106,107", "latitude=10&latitude=20.1&longitude=106,107"]
)
def test_several_places_have_numbers_and_zones_of_their_own(places: str) -> None:
    question = asked(f"{places}&{DATES}&timezone=GMT,Asia/Jakarta")
    assert [point.number for point in question.points] == [0, 1]
    assert [point.zone.offset_seconds for point in question.points] == [0, 25_200]
    assert [point.cell.location.latitude for point in question.points] == [10.0, 20.0]


def test_one_zone_holds_for_all_places_and_auto_is_that_of_each() -> None:
    question = asked(f"latitude=52.5,-6.25&longitude=13.5,106.75&{DATES}&timezone=auto&location_id=7,9")
    assert [(point.number, point.zone.name) for point in question.points] == [(7, "Europe/Berlin"), (9, "Asia/Jakarta")]


def test_one_place_may_have_several_ranges_of_days() -> None:
    question = asked(f"{PLACE}&start_date=2022-01-01,2023-01-01&end_date=2022-01-02,2023-01-01")
    assert [(point.number, len(point.days)) for point in question.points] == [(0, 2), (1, 1)]


@pytest.mark.parametrize(
    ("more", "units"),
    [
        ("temperature_unit=fahrenheit", ("fahrenheit", "kmh", "mm")),
        ("wind_speed_unit=kn", ("celsius", "kn", "mm")),
        ("windspeed_unit=ms", ("celsius", "ms", "mm")),
        ("windspeed_unit=ms&wind_speed_unit=kn", ("celsius", "ms", "mm")),
        ("precipitation_unit=inch", ("celsius", "kmh", "inch")),
        ("length_unit=imperial", ("celsius", "kmh", "inch")),
        ("length_unit=imperial&precipitation_unit=mm", ("celsius", "kmh", "mm")),
    ],
)
def test_units_are_read(more: str, units: tuple[str, str, str]) -> None:
    found = asked(f"{PLACE}&{DATES}&{more}").units
    assert (found.temperature, found.wind_speed, found.precipitation) == units


@pytest.mark.parametrize(
    ("place", "selection", "cell"),
    [
        ("latitude=53.9&longitude=8.5", "nearest", (54.0, 8.5)),  # off Cuxhaven: water
        ("latitude=53.9&longitude=8.5", "sea", (54.0, 8.5)),
        ("latitude=53.9&longitude=8.5", "land", (53.75, 8.75)),
        ("latitude=53.7&longitude=8.7", "sea", (53.75, 8.5)),
        ("latitude=0.1&longitude=-30", "land", (0.0, -30.0)),  # in the Atlantic, where no land is near
        ("latitude=23.1&longitude=10", "sea", (23.0, 10.0)),  # in the Sahara
    ],
)
def test_a_cell_of_land_or_of_sea_is_found_and_the_nearest_one_where_there_is_none(
    place: str, selection: str, cell: tuple[float, float]
) -> None:
    where = asked(f"{place}&{DATES}&cell_selection={selection}").points[0].cell.location
    assert (where.latitude, where.longitude) == cell


@pytest.mark.parametrize(
    "more",
    [
        *("apikey=secret", "models=era5", "models=best_match", "elevation=nan", "past_days=0", "forecast_days=0"),
        *("unknown=whatever", "current_weather=false", "temporal_resolution=hourly", "tilt=35", "hourly="),
    ],
)
def test_what_changes_nothing_is_allowed(more: str) -> None:
    plain = asked(f"{PLACE}&{DATES}&daily=rain_sum")
    assert asked(f"{PLACE}&{DATES}&daily=rain_sum&{more}") == plain


SAME_NUMBER = "must have the same number of elements"
RANGE = "is out of allowed range from 1940-01-01 to 2026-11-22"
DATE_FORMAT = "Invalid date format. Make sure to use 'YYYY-MM-DD'"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (DATES, "Parameter 'latitude' and 'longitude' must not be empty"),
        (f"latitude=1,2&longitude=3&{DATES}", f"Parameter 'latitude' and 'longitude' {SAME_NUMBER}"),
        (f"latitude=91&longitude=3&{DATES}", "Latitude must be in range of -90 to 90°. Given: 91.0."),
        (f"latitude=nan&longitude=3&{DATES}", "Latitude must be in range of -90 to 90°. Given: nan."),
        (f"latitude=1&longitude=-180.5&{DATES}", "Longitude must be in range of -180 to 180°. Given: -180.5."),
        (PLACE, "Both 'start_date' and 'end_date' must be set in the url"),
        (f"{PLACE}&start_date=2022-01-01", "Both 'start_date' and 'end_date' must be set in the url"),
        (f"{PLACE}&start_date=2022-01-02&end_date=2022-01-01", "End-date must be larger or equals than start-date"),
        (f"{PLACE}&start_date=2022-1-1&end_date=2022-01-01", DATE_FORMAT),
        (f"{PLACE}&start_date=2022-02-30&end_date=2022-03-01", "Invalid date"),
        (f"{PLACE}&start_date=1939-12-31&end_date=1940-01-01", f"Parameter 'start_date' {RANGE}"),
        (f"{PLACE}&start_date=2026-01-01&end_date=2026-11-23", f"Parameter 'end_date' {RANGE}"),
        (
            f"{PLACE}&start_date=2022-01-01,2022-02-01&end_date=2022-03-01",
            f"Parameter 'start_date' and 'end_date' {SAME_NUMBER}",
        ),
        (
            f"latitude=1,2,3&longitude=1,2,3&{DATES}&timezone=GMT,GMT",
            f"Parameter 'timezone' and coordinates {SAME_NUMBER}",
        ),
        (f"latitude=1,2&longitude=1,2&{DATES}&location_id=5", f"Parameter 'location_id' and coordinates {SAME_NUMBER}"),
        (f"latitude=1,2&longitude=1,2&{DATES}&elevation=nan", f"Parameter 'elevation' {SAME_NUMBER} as coordinates"),
    ],
)
def test_a_refusal_has_the_words_of_open_meteo(query: str, reason: str) -> None:
    assert refused(query) == reason


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("timezone=Mars/Base", "Invalid timezone"),
        ("temperature_unit=kelvin", "Cannot initialize TemperatureUnit from invalid String value kelvin"),
        ("wind_speed_unit=bft", "It is kmh or ms or mph or kn."),
        ("timeformat=rfc", "Cannot initialize Timeformat from invalid String value rfc"),
        ("format=xlsx", "It is json or csv or flatbuffers."),
        ("Hourly=temperature_2m", "Did you mean hourly?"),
        ("cell_selection=city", "It is nearest or land or sea."),
        ("models=cerra", "The model cerra is not available"),
        ("models=era5,cerra", "The model cerra is not available"),
        ("elevation=38", "Parameter 'elevation' is not supported"),
        ("past_days=2", "Parameter 'past_days' is not supported"),
        ("current=temperature_2m", "Parameter 'current' is not supported"),
        ("bounding_box=1,2,3,4", "Parameter 'bounding_box' is not supported"),
        ("start_hour=2022-01-01T00:00", "Parameter 'start_hour' is not supported"),
        ("location_id=a", "Cannot initialize Int from invalid String value a"),
        ("location_id=1.5", "location_id"),
        ("location_id=inf", "location_id"),
        ("location_id=99999999999999999999999", "location_id"),
        ("hourly=nope", "Cannot initialize hourly variable from invalid String value nope"),
    ],
)
def test_what_is_wrong_or_not_here_is_refused_by_name(more: str, words: str) -> None:
    assert words in refused(f"{PLACE}&{DATES}&{more}")


NAMES = st.sampled_from(
    [
        *("latitude", "longitude", "start_date", "end_date", "hourly", "daily", "timezone", "temperature_unit"),
        *("timeformat", "format", "cell_selection", "models", "elevation", "location_id", "past_days", "anything"),
    ]
)
VALUES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["1", "10,20", "2022-01-01", "temperature_2m", "auto", "GMT", "era5", "nan", "1e400", "0x10", "1_0"]
    ),
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=10))
def test_whatever_is_given_is_read_or_refused_with_a_reason(given_pairs: list[tuple[str, Any]]) -> None:
    with suppress(UsageError):
        assert read_question(given_pairs, TODAY).points


def test_how_many_values_are_read_is_known_before() -> None:
    question = asked(f"latitude=1,2&longitude=1,2&{DATES}&hourly=wind_speed_10m,wind_direction_10m,temperature_2m")
    assert question.values == 2 * 31 * 24 * 3
