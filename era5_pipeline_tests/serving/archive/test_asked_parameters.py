"""Parameters of a request in the forms that clients write them."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive.asked_parameters import AskedParameters

KNOWN, IGNORED = ("latitude", "start_date", "hourly", "daily", "temperature_unit"), ("apikey",)


def asked(query: str) -> AskedParameters:
    return AskedParameters(parse_qsl(query, keep_blank_values=True))


@pytest.mark.parametrize(
    "query",
    [
        "hourly=a,b",
        "hourly=a|b",
        "hourly=a%7Cb",
        "hourly=a&hourly=b",
        "hourly[]=a&hourly[]=b",
        "hourly%5B%5D=a&hourly%5B%5D=b",
        "hourly[0]=a&hourly[1]=b",
        "hourly=a&hourly[]=b",
        "hourly[]=a,b",
        "hourly[][]=a|b",
    ],
)
def test_a_list_is_read_in_each_form_that_clients_write(query: str) -> None:
    assert asked(query).all("hourly") == ["a", "b"]


def test_numbers_and_single_values_are_read_in_those_forms_too() -> None:
    assert asked("latitude[]=1.5&latitude[]=-2").numbers("latitude") == [1.5, -2.0]
    assert asked("latitude=1.5|-2").numbers("latitude") == [1.5, -2.0]
    assert asked("temperature_unit[]=fahrenheit").one("temperature_unit") == "fahrenheit"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Hourly", "hourly"),
        ("hourly[a]", "hourly"),
        ("hourlys", "hourly"),
        ("startDate", "start_date"),
        ("start-date", "start_date"),
        ("temperature_units", "temperature_unit"),
    ],
)
def test_a_misspelt_name_is_refused_and_not_ignored(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match="is not known") as refused:
        asked(f"hourly=a&{name}=b").require_known(KNOWN, IGNORED)
    assert repr(name) in refused.value.message
    assert refused.value.remedy == f"Did you mean {meant}?"


def test_an_unknown_name_is_ignored_unless_nothing_else_is_asked_for() -> None:
    asked("hourly=a&nothing=1").require_known(KNOWN, IGNORED)
    asked("apikey=1").require_known(KNOWN, IGNORED)
    with pytest.raises(UsageError, match="'variables' is not known, and no variable is asked for"):
        asked("variables=temperature_2m").require_known(KNOWN, IGNORED)
