"""Tests of `cli/options`."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline_tests.cli.conftest import NOW
from era5_pipeline_tests.commands import Home, InProcess, assert_explained, ended

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


def test_a_place_by_its_name_selects_the_source(server: CdsServer, era5: InProcess) -> None:
    (month,) = era5.run("load", "--from", "2021-03", "--place", "Jakarta", *FEW, "--json").json()
    assert (month["state"], month["rows"]) == ("loaded", 744)
    # A little beside the grid point, which the service's cache takes for another request.
    assert server.submissions[0]["location"] == {
        "latitude": pytest.approx(-6.25, abs=0.05),
        "longitude": pytest.approx(106.75, abs=0.05),
    }


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
    months = ("load", "--from", "2000-01", "--to", "2000-07", "--lat", str(latitude), "--lon", "3", *FEW)
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
