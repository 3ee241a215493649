"""Tests of `cli/map`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from era5_pipeline.cli.map import MapOptions, asked_map
from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.question import WHOLE_YEAR, calendar_month, season
from era5_pipeline.maps.question import (
    AnomalyQuestion,
    DayQuestion,
    HourQuestion,
    MapQuestion,
    PeriodQuestion,
    TrendQuestion,
)
from era5_pipeline.model.errors import LocalDiskError, UsageError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline_tests.commands import ERA5, InProcess, assert_explained, environment
from era5_pipeline_tests.era5_files import full_disk
from era5_pipeline_tests.real_months import NORWAY as NORWAY_MONTH
from era5_pipeline_tests.real_months import TELANGANA_WEEK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

# typer uses what click 8.5 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:'click:DeprecationWarning")


def asked(column: str = "temperature_2m", **options: Any) -> MapQuestion:
    return asked_map(BY_COLUMN[column], MapOptions(**options))


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ({"time": "2023-07-15T12"}, HourQuestion(datetime(2023, 7, 15, 12, tzinfo=UTC))),
        ({"day": "2023-07-15"}, DayQuestion(date(2023, 7, 15), "mean")),
        ({"day": "2023-07-15", "column": "total_precipitation"}, DayQuestion(date(2023, 7, 15), "sum")),
        ({"day": "2023-07-15", "statistic": "max"}, DayQuestion(date(2023, 7, 15), "max")),
        ({"month": "2023-07"}, PeriodQuestion(calendar_month(7), 2023, "mean")),
        ({"year": "2023"}, PeriodQuestion(WHOLE_YEAR, 2023, "mean")),
        ({"year": "2023", "season": "JJA", "statistic": "min"}, PeriodQuestion(season("JJA"), 2023, "min")),
        (
            {"month": "2023-07", "anomaly": True},
            AnomalyQuestion(calendar_month(7), 2023, YearSpan(1991, 2020), "mean"),
        ),
        (
            {"year": "2023", "season": "djf", "anomaly": True, "baseline": "1961-1990"},
            AnomalyQuestion(season("DJF"), 2023, YearSpan(1961, 1990), "mean"),
        ),
        ({"trend": "1991-2020"}, TrendQuestion(WHOLE_YEAR, YearSpan(1991, 2020), "mean")),
        ({"trend": "1991-2020", "calendar_month": 7}, TrendQuestion(calendar_month(7), YearSpan(1991, 2020), "mean")),
        ({"trend": "1991-2020", "season": "SON"}, TrendQuestion(season("SON"), YearSpan(1991, 2020), "mean")),
    ],
)
def test_options_ask_for_one_map(options: dict[str, Any], question: MapQuestion) -> None:
    assert asked(**options) == question


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to draw is given\nGive one of --time, --day, --month, --year and --trend"),
        ({"time": "2023-07-15T12", "day": "2023-07-15"}, "--time and --day cannot be combined"),
        ({"month": "2023-07", "trend": "1991-2020"}, "--month and --trend cannot be combined"),
        ({"time": "2023-07-15T12", "statistic": "max"}, "--statistic does not go with --time"),
        ({"day": "2023-07-15", "anomaly": True}, "--anomaly does not go with --day\nIt goes with --month or --year"),
        ({"trend": "1991-2020", "anomaly": True}, "--anomaly does not go with --trend"),
        ({"month": "2023-07", "season": "JJA"}, "--season does not go with --month"),
        ({"year": "2023", "calendar_month": 7}, "--calendar-month does not go with --year"),
        ({"month": "2023-07", "baseline": "1991-2020"}, "--baseline needs --anomaly"),
        (
            {"trend": "1991-2020", "calendar_month": 7, "season": "JJA"},
            "--season and --calendar-month cannot be combined",
        ),
        ({"month": "2023-07", "anomaly": True, "baseline": "2015-2020"}, "has 6 years, fewer than 10"),
        ({"day": "1939-07-15"}, "1939-07 is before ERA5 begins"),
    ],
)
def test_options_that_do_not_go_together_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        asked(**options)
    assert message in str(error.value)


SECONDS = 240.0
NORWAY = ("map", "--month", "2018-10", "--column", "t2m", "--area", "62/5/60/7.5")
TELANGANA = ("map", "--month", "2023-09", "--column", "tp")


@pytest.fixture(scope="module")
def url(real_table: Callable[..., Warehouse]) -> str:
    """A complete month in Norway, and a week of a month in India, on each layout."""
    return real_table(NORWAY_MONTH, TELANGANA_WEEK).url


@pytest.fixture
def here(here: InProcess, url: str) -> InProcess:
    here.set(ERA5_DATABASE_URL=url)
    return here


def test_a_month_is_an_animation_of_its_hours(here: InProcess, tmp_path: Path) -> None:
    printed = here.run(*NORWAY, "--every", "48h", "--fps", "10", "--out", "october.gif")
    assert printed.out.startswith(
        "wrote october.gif: temperature_2m, 16 frames every 48 hours, Mon 01 Oct 2018, 00:00 UTC to Wed 31 Oct 2018, "
        "00:00 UTC, 99 grid points"
    )
    assert "information 2018; data ERA5" in printed.out
    with Image.open(tmp_path / "october.gif") as picture:
        assert picture.n_frames == 16  # type: ignore[attr-defined]
        assert picture.info["duration"] == 100
        assert picture.info["loop"] == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".unfinished")] == []


def test_missing_hours_are_said_and_strict_is_exit_code_4(here: InProcess) -> None:
    lenient = here.run(*TELANGANA, "--every", "72h", "--out", "september.gif")
    assert lenient.err.splitlines() == ["warning: no total_precipitation anywhere at 2023-09-10T00 to 2023-09-28T00"]
    strict = here.run(*TELANGANA, "--every", "72h", "--out", "september.gif", "--strict", code=4)
    assert strict.err == lenient.err


@pytest.mark.parametrize(
    ("arguments", "what", "remedy"),
    [
        (("--time", "2018-10-05T09", "--out", "a.gif"), "an animation shows the hours of a day or month", "--month"),
        (("--month", "2018-10", "--anomaly", "--out", "a.gif"), "not --anomaly", "--out map.png"),
        (("--month", "2018-10", "--day", "2018-10-01", "--out", "a.gif"), "an animation shows", "--day"),
        (("--month", "2018-10", "--out", "a.png", "--every", "3h"), "--every is an option of an animation", ".gif"),
        (("--month", "2018-10", "--out", "a.png", "--fps", "3"), "--fps is an option of an animation", ".gif"),
        (("--month", "2018-10", "--out", "a.gif", "--every", "0h"), "--every 0h: not a number of hours", "3h"),
        (("--month", "2018-10", "--out", "a.gif", "--every", "soon"), "--every soon: not a number of hours", "3h"),
        (("--month", "2018-10", "--out", "a.gif", "--fps", "90"), "--fps 90: frames per second must be 1 to 50", "12"),
        (("--month", "2018-10", "--out", "a.gif", "--centre-longitude", "400"), "is out of range", "-180 to 360"),
        (("--month", "2018-10", "--out", "a.gif", "--vmin", "99"), "--vmin 99 leaves no range", "--vmax"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_written(
    here: InProcess, tmp_path: Path, arguments: tuple[str, ...], what: str, remedy: str
) -> None:
    before = sorted(tmp_path.iterdir())
    assert_explained(here.run("map", "--column", "t2m", *arguments, code=2), what, remedy)
    assert sorted(tmp_path.iterdir()) == before


def test_mp4_without_ffmpeg_is_refused(here: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    printed = here.run(*NORWAY, "--out", "a.mp4", code=2)
    assert_explained(printed, "MP4 is written by the program ffmpeg, which is not on the PATH", ".gif")


def test_a_full_disk_keeps_the_file_that_was_there(here: InProcess) -> None:
    with full_disk(262_144) as disk:
        (disk / "a.gif").write_text("before")
        printed = here.run(*NORWAY, "--out", str(disk / "a.gif"), code=LocalDiskError.exit_code)
        assert_explained(printed, "writing a.gif: No space left on device", "Free space")
        assert (disk / "a.gif").read_text() == "before"
        assert [path.name for path in disk.iterdir()] == ["a.gif"]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.endurance)])
def test_an_interrupt_leaves_nothing(url: str, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with subprocess.Popen(
        [ERA5, *NORWAY, "--out", str(folder / "a.gif")],
        env=environment(tmp_path, ERA5_DATABASE_URL=url, PYTHONPATH=os.pathsep.join(sys.path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + SECONDS
        while not any(path.stat().st_size > 100_000 for path in folder.glob(".unfinished-*/a.gif")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode != 0
    assert "wrote" not in out
    assert "Traceback" not in err
    assert not (folder / "a.gif").exists()
    if number == signal.SIGINT:
        assert list(folder.iterdir()) == []


def test_a_projection_can_be_asked_for(here: InProcess, tmp_path: Path) -> None:
    here.run(*NORWAY[:1], "--time", "2018-10-05T09", *NORWAY[3:], "--out", "usual.png")
    options = ("--projection", "robinson", "--centre-longitude", "10")
    here.run(*NORWAY[:1], "--time", "2018-10-05T09", *NORWAY[3:], *options, "--out", "robinson.png")
    sizes = []
    for name in ("usual", "robinson"):
        with Image.open(tmp_path / f"{name}.png") as picture:
            sizes.append(picture.size)
    assert sizes[0] != sizes[1]
