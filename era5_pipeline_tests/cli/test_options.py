"""Tests of `cli/options`."""

from __future__ import annotations

import json
import re
import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline_tests.cli.conftest import NOW
from era5_pipeline_tests.commands import Home, InProcess, assert_explained, ended
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK
from era5_pipeline_tests.zarr_stores import hours_between, weather, write_repository

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.cds_store import CdsServer

PLACE = ("--source", "point", "--lat", "10.8", "--lon", "106.3")
# Each variable is a series of 86 years.
FEW = ("--variables", "t2m")


def test_a_place_is_planned_loaded_and_unchanged_then(url: str, server: CdsServer, era5: InProcess) -> None:
    months = ("--from", "2020-12", "--to", "2021-02", *PLACE)
    planned = era5.run("plan", *months, "--json").json()
    assert (planned["requests"], planned["points"], planned["area"]) == (1, "10.75/106.25", None)
    assert planned["months_to_load"] == 3
    # 4 bytes a value and 8 bytes of time, for 86 years.
    assert planned["download_bytes"] == pytest.approx(28 * 24 * 365.25 * (NOW.year - 1940 + NOW.month / 12), rel=0.01)

    loaded = era5.run("load", *months)
    assert "loading from point (default variables, point 10.75/106.25)" in " ".join(loaded.err.split())
    assert loaded.err.count("era5: the dataset of point series does not have snowfall: it is NULL\n") == 1
    rows = [line.split() for line in loaded.out.splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["2020-12", "loaded", "744", "744/744"],
        ["2021-01", "loaded", "744", "744/744"],
        ["2021-02", "loaded", "672", "672/672"],
    ]
    assert len(server.submissions) == 1
    assert era5.run("load", *months).out.count("unchanged") == 3
    assert len(server.submissions) == 1
    assert era5.run("plan", *months, "--json").json()["months_loaded"] == 3
    (entry,) = era5.months()["2021-01"]["parts"]
    assert (entry["source"], entry["version"], entry["place"]) == ("point", "unknown", "10.75/106.25")
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM weather WHERE snowfall IS NULL AND total_precipitation IS NOT NULL"
        assert connection.execute(query).fetchone() == (744 + 744 + 672,)


def test_a_place_by_its_name_is_a_point_of_the_source(server: CdsServer, era5: InProcess) -> None:
    (month,) = era5.run("load", "--from", "2021-03", "--source", "point", "--place", "Jakarta", *FEW, "--json").json()
    assert (month["state"], month["rows"]) == ("loaded", 744)
    # A little beside the grid point, which the service's cache takes for another request.
    assert server.submissions[0]["location"] == {
        "latitude": pytest.approx(-6.25, abs=0.05),
        "longitude": pytest.approx(106.75, abs=0.05),
    }


# --- several sources, which continue each other ---

SPLICED = ("--area", "50/0/49.75/0.25", "--variables", "t2m")


def written(folder: Path, last: Month, without_values: Month | None = None) -> str:
    """A repository of the open store's layout from January 2020; return the setting of its address."""
    hours = hours_between(Month(2020, 1), last)
    values = weather(hours, ("temperature_2m",))
    if without_values is not None:
        missing = hours_of_month(without_values)
        values["temperature_2m"][missing.start - hours.start + 100 : missing.stop - hours.start] = np.nan
    write_repository(folder, hours, ("temperature_2m",), values)
    return f"icechunk+file://{folder}"


def sources_held(era5: InProcess, *months: str) -> tuple[str, ...]:
    entries = era5.months()
    return tuple(entries[month]["source"] for month in months)


@NEEDS_ICECHUNK
def test_each_month_comes_from_the_first_source_that_has_it(server: CdsServer, era5: InProcess, tmp_path: Path) -> None:
    era5.set(ERA5_EARTHMOVER_URL=written(tmp_path / "open", Month(2020, 2)))
    months = ("--from", "2020-01", "--to", "2020-03", "--source", "earthmover,cds", *SPLICED)
    plans = era5.run("plan", *months, "--json").json()
    assert [(plan["source"], plan["months_to_load"]) for plan in plans] == [("earthmover", 2), ("cds", 1)]
    printed = era5.run("load", *months)
    assert "loading from earthmover and cds (temperature_2m, 50/0/49.75/0.25)" in " ".join(printed.err.split())
    assert sources_held(era5, "2020-01", "2020-02", "2020-03") == ("earthmover", "earthmover", "cds")
    assert len(server.submissions) == 1
    assert era5.run("load", *months).out.count("unchanged") == 3
    assert len(server.submissions) == 1
    assert re.search(
        r"newest hour \(UTC\): cds 2020-03-31 23:00, earthmover 2020-02-29 23:00(, |$)", era5.run("status").out, re.M
    )
    era5.set(ERA5_SOURCE="earthmover,cds")
    of_store, of_service = era5.run("status", "--sources", "--json").json()
    assert (of_store["first_month"], of_store["last_month"], of_store["is_asked"]) == ("2020-01", "2020-02", True)
    assert of_store["snapshot"] == era5.months()["2020-01"]["parts"][0]["snapshot"]
    assert (of_service["source"], of_service["first_month"], of_service["is_asked"]) == ("cds", "1940-01", False)
    era5.set(ERA5_EARTHMOVER_URL=f"icechunk+file://{tmp_path / 'nowhere'}")
    assert re.match(r"earthmover: .*there is no Icechunk repository", era5.run("status", "--sources").out)


@NEEDS_ICECHUNK
def test_a_month_without_its_values_comes_from_the_next_source(
    era5: InProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first source has all hours of the month, and no values for most of them."""
    era5.set(ERA5_EARTHMOVER_URL=written(tmp_path / "open", Month(2020, 6), without_values=Month(2020, 5)))
    alone = era5.run("load", "--from", "2020-05", "--source", "earthmover", *SPLICED, code=4)
    assert_explained(alone, "temperature_2m", "--allow-incomplete")
    held = era5.months()["2020-05"]
    assert (held["state"], held["rows"]) == ("failed", 0)
    months = ("--from", "2020-05", "--to", "2020-06", "--source", "earthmover,cds", *SPLICED)
    era5.run("load", *months)
    asked = "2020-05: earthmover does not have all of it: the next source is asked"
    assert caplog.text.count(asked) == 1
    assert sources_held(era5, "2020-05", "2020-06") == ("cds", "earthmover")
    assert era5.months()["2020-05"]["state"] == "loaded"
    assert era5.run("load", *months).out.count("unchanged") == 2
    # It is not asked of the first one again before that has another state.
    assert caplog.text.count(asked) == 1


@NEEDS_ICECHUNK
@pytest.mark.parametrize("command", ["load", "revise"])
def test_a_preliminary_month_is_replaced_when_an_earlier_source_has_it_in_final_form(
    server: CdsServer, era5: InProcess, tmp_path: Path, command: str
) -> None:
    """The last month is preliminary in the service; then a state of the open store is written long after it."""
    last = Month(2020, 10 if command == "load" else 11)
    server.reset(today=last.end + timedelta(days=20))
    before = Month.from_number(last.number - 1)
    months = ("load", "--from", str(before), "--to", str(last), *SPLICED)
    era5.set(ERA5_EARTHMOVER_URL=written(tmp_path / "open", before), ERA5_SOURCE="earthmover,cds")
    era5.run(*months)
    assert sources_held(era5, str(before), str(last)) == ("earthmover", "cds")
    held = era5.months()
    assert (held[str(before)]["version"], held[str(last)]["version"]) == ("final by age", "preliminary")
    era5.set(ERA5_EARTHMOVER_URL=written(tmp_path / "open", last))
    printed = era5.run(*months) if command == "load" else era5.run("revise")
    assert "replaced" in printed.out
    (part,) = era5.months()[str(last)]["parts"]
    assert (part["source"], part["version"], part["state"]) == ("earthmover", "final by age", "loaded")
    assert part["revision"]["columns_changed"] == ["temperature_2m"]
    assert era5.run(*months).out.count("unchanged") == 2
    series = era5.run("series", "--lat", "50", "--lon", "0", "--column", "t2m", "--from", str(last), "--json").json()
    assert series["era5_versions"].startswith("final by age: ")
    assert "final by age: the store states no version" in series["credit"]


@NEEDS_ICECHUNK
def test_a_place_is_continued_by_the_point_series_if_there_is_a_key(
    server: CdsServer, era5: InProcess, tmp_path: Path
) -> None:
    era5.set(ERA5_EARTHMOVER_URL=written(tmp_path / "open", Month(2020, 8)))
    era5.run("load", "--from", "2019-12", "--to", "2020-01", "--lat", "48", "--lon", "-1", *FEW)
    assert sources_held(era5, "2019-12", "2020-01") == ("point", "earthmover")
    (request,) = server.submissions
    assert request["location"]["latitude"] == pytest.approx(48, abs=0.05)
    assert request["location"]["longitude"] == pytest.approx(-1, abs=0.05)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("earthmover,files", "Of several, each should be cds, arco"),
        ("cds,sample", "Of several, each should be"),
    ],
)
def test_only_known_services_continue_each_other(era5: InProcess, source: str, message: str) -> None:
    assert_explained(era5.run("load", "--from", "2020-01", "--source", source, code=2), message)


def test_the_point_of_the_environment_is_a_default(server: CdsServer, era5: InProcess) -> None:
    era5.set(ERA5_POINT="48.9/2.3 -90/0")
    (month,) = era5.run("load", "--from", "2021-04", *FEW, "--json").json()
    assert (month["state"], month["rows"]) == ("loaded", 2 * 720)
    assert len(server.submissions) == 2


# Other refusals: model/test_settings, model/test_grid, sources/test_point.
@pytest.mark.parametrize(
    ("arguments", "what", "remedy"),
    [
        (("--source", "point"), "the source point needs a point", "--place NAME"),
        (("--source", "cds", "--lat", "1", "--lon", "1"), "the source cds does not take a place", "--area"),
    ],
)
def test_a_place_that_is_asked_for_wrongly(
    server: CdsServer, era5: InProcess, arguments: tuple[str, ...], what: str, remedy: str
) -> None:
    for command in ("load", "plan"):
        assert_explained(era5.run(command, "--from", "2021-05", *arguments, code=2), what, remedy)
    assert server.submissions == []


def whole_months(url: str, latitude: int) -> dict[str, int]:
    """Rows of each month at the latitude, by the table itself."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('weather')").fetchone() == (None,):
            return {}
        rows = connection.execute(
            "SELECT to_char(date_trunc('month', time AT TIME ZONE 'UTC'), 'YYYY-MM'), count(*) FROM weather "
            "WHERE latitude = %s GROUP BY 1 ORDER BY 1",
            (latitude,),
        ).fetchall()
        return dict(rows)


# Killed: test_killed_load_continues_the_request_for_several_months, and loaders in warehouse/test_load_faults.
@pytest.mark.parametrize(
    ("sent", "code", "latitude"),
    [(signal.SIGINT, 130, 5), pytest.param(signal.SIGKILL, -9, 3, marks=pytest.mark.endurance)],
)
def test_a_load_that_is_ended_leaves_whole_months_and_is_completed(
    cds_home: Home,
    server: CdsServer,
    env: dict[str, str],
    era5: InProcess,
    sent: signal.Signals,
    code: int,
    latitude: int,
) -> None:
    months = (
        "load",
        "--from",
        "2000-01",
        "--to",
        "2000-07",
        "--source",
        "point",
        "--lat",
        str(latitude),
        "--lon",
        "3",
        *FEW,
    )
    process = cds_home.start(*months, **env)
    deadline = time.monotonic() + 180
    url = env["ERA5_DATABASE_URL"]
    while len(whole_months(url, latitude)) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(sent)
    assert ended(process).code == code
    held = whole_months(url, latitude)
    assert 2 <= len(held) < 7
    assert set(held.values()) <= {28 * 24, 29 * 24, 30 * 24, 31 * 24}
    place = f"{latitude}/3"
    entries = era5.months().items()
    assert {month for month, entry in entries if place in [part["place"] for part in entry["parts"]]} == set(held)

    printed = era5.run(*months, "--json")
    states = {month["month"]: month["state"] for month in json.loads(printed.out)}
    assert len(states) == 7
    assert {month for month, state in states.items() if state == "unchanged"} == set(held)
    assert set(states.values()) == {"loaded", "unchanged"}
    assert sum(whole_months(url, latitude).values()) == (31 + 29 + 31 + 30 + 31 + 30 + 31) * 24
    assert server.submissions == [server.submissions[0]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--place", "Jakarta", "--cell", "sea"),
        ("--lat", "north", "--lon", "1"),
        ("--place", "Robert'); DROP TABLE weather; --"),
        ("--place", "a\nb"),
        (),
    ],
)
def test_a_command_with_bad_options_ends_with_the_code_of_usage(
    arguments: tuple[str, ...], here: InProcess, tmp_path: Path
) -> None:
    printed = here.run("series", *arguments, code=2)
    assert printed.out == ""
    assert printed.err
    # Nothing was created or asked of a database.
    assert list(tmp_path.iterdir()) == []
