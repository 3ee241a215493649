"""`era5 series` and `era5 map`: what they print and plot."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline.read.fields import Series
from era5_pipeline_tests.commands import InProcess, assert_explained, assert_says
from era5_pipeline_tests.real_months import GULF as GULF_MONTHS
from era5_pipeline_tests.real_months import TELANGANA_WEEK, Delivery
from era5_pipeline_tests.weather_table import HOURS, JAKARTA, NULL, TEMPERATURE, Connection, temperature_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import CommandResult


@pytest.fixture
def app(here: InProcess, shared_weather_url: str) -> InProcess:
    """The command, on a table that other tests use too."""
    here.set(ERA5_DATABASE_URL=shared_weather_url, COLUMNS="80")
    return here


@pytest.fixture
def own_app(here: InProcess, weather_table: Connection, weather_url: str) -> InProcess:
    """The command, on a table that the test may change."""
    assert weather_table
    here.set(ERA5_DATABASE_URL=weather_url, COLUMNS="80")
    return here


def run(command: InProcess, *arguments: str) -> tuple[str, str]:
    """Run the command; return its standard output and standard error."""
    printed = command.run(*arguments)
    return printed.out, printed.err


HERE = ("series", "--lat", "-6.25", "--lon", "106.75")
MAP = ("map", "--time", "2023-02-01T12:00", "--column", "t2m")


def test_json_has_every_row_and_shortest_numbers(own_app: InProcess, weather_table: Connection) -> None:
    weather_table.execute("DROP SCHEMA era5 CASCADE")  # hours before and after the rows are then no gap
    out, err = run(own_app, *HERE, "--format", "json")
    found = json.loads(out)
    place = ["place", "location_id", "latitude", "longitude", "land_share"]
    assert list(found) == [*place, "missing_months", "missing_hours", "era5_versions", "credit", "rows"]
    assert [found[name] for name in place] == [None, 483547, -6.25, 106.75, 1.0]
    assert found["missing_months"] == {}
    assert found["missing_hours"]["total_cloud_cover"] == ["2023-01-30T03", "2023-01-30T10"]
    assert found["missing_hours"]["temperature_2m"] == ["2023-01-30T10"]
    rows = found["rows"]
    assert len(rows) == HOURS - 1
    assert rows[NULL]["time"] == "2023-01-30T03:00:00Z"
    assert rows[NULL]["total_cloud_cover"] is None
    assert rows[0]["temperature_2m"] == temperature_of(JAKARTA, 0)
    assert '"total_cloud_cover": 0.1,' in out
    assert '"total_precipitation": 1e-05}' in out
    assert "snowfall" not in rows[0]
    assert err.splitlines()[-1] == "warning: no total_cloud_cover at 2023-01-30T03, 2023-01-30T10 (2 hours)"


def test_a_place_by_name_is_that_of_its_grid_point(app: InProcess, tmp_path: Path) -> None:
    out, _ = run(app, "series", "--place", "jakarta", "--column", "t2m")
    here, _ = run(app, *HERE, "--column", "t2m")
    heading = "Jakarta, Indonesia (-6.215, 106.845): location_id 483547, latitude -6.25, longitude 106.75, all land"
    assert out.splitlines()[0] == heading
    assert out.splitlines()[1:] == here.splitlines()[1:]
    out, err = run(app, "series", "--place", "Jakarta", "--format", "csv", "--column", "t2m")
    assert err.splitlines()[0] == heading
    assert len(out.splitlines()) == HOURS
    out, _ = run(app, "series", "--place", "Jakarta", "--format", "json")
    assert json.loads(out)["place"]["geoname_id"] == 1642911
    _, err = run(app, "series", "--place", "Jakarta", "--plot", "out.svg")
    assert f"wrote out.svg: {heading}, 71 hours" in err
    assert "Weather at Jakarta, Indonesia" in (tmp_path / "out.svg").read_text(encoding="utf-8")


def test_a_cell_with_water_says_how_much(app: InProcess) -> None:
    out, _ = run(app, "series", "--lat", "-17", "--lon", "180", "--column", "t2m")
    assert out.splitlines()[0].endswith("latitude -17, longitude 180, 27 % land, 73 % water")
    # The nearest cell that is half land is elsewhere, and not loaded.
    printed = app.run("series", "--lat", "-17", "--lon", "180", "--cell", "land", code=3)
    assert_explained(printed, "the nearest of its 7 locations is latitude -17, longitude 179.75")


def test_csv_has_every_row(own_app: InProcess, weather_table: Connection) -> None:
    weather_table.execute("DROP SCHEMA era5 CASCADE")  # hours before and after the rows are then no gap
    out, err = run(own_app, *HERE[:-1], "106.8", "--format", "csv", "--column", "snowfall", "--column", "tcc")
    lines = out.splitlines()
    assert lines[:2] == ["time,total_cloud_cover,snowfall", "2023-01-30T00:00:00Z,0.1,"]
    assert lines[NULL + 1] == "2023-01-30T03:00:00Z,,"
    assert len(lines) == HOURS
    assert err.splitlines() == [
        "location_id 483547, latitude -6.25, longitude 106.75 (nearest to -6.25, 106.8)",
        "Source unknown",
        "warning: no snowfall at all: NULL in every row of this place",
        "warning: no total_cloud_cover at 2023-01-30T03, 2023-01-30T10 (2 hours)",
    ]


def test_long_table_shows_first_and_last_rows_and_names_the_formats_with_all(
    app: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow, _ = run(app, *HERE)
    assert max(len(line) for line in narrow.splitlines()[1:-2]) <= 80
    monkeypatch.setenv("COLUMNS", "120")
    out, _ = run(app, *HERE)
    lines = out.splitlines()
    assert lines[0] == "location_id 483547, latitude -6.25, longitude 106.75"
    assert "meridional_wind_10m" in lines[1]
    assert sum(line.startswith("2023-") for line in lines) == 48
    assert lines[4].split() == ["2023-01-30", "00:00", "68.38", "1.50", "-2.50", "0.10", "0.000"]
    assert lines[4 + NULL].split()[-2] == "-"
    day, _ = run(app, *HERE, "--from", "2023-01-31", "--to", "2023-01-31", "--column", "t2m")
    assert [line for line in day.splitlines()[4:] if not line.startswith("2023-01-31")][-2] == "24 hours"
    assert_says(lines[-2], "71 hours", "23 in the middle", "--format csv or --format json")
    assert_says(lines[-1], "ERA5, C3S/ECMWF (version not stated)", "some months are generated")


def test_only_the_rows_that_a_table_shows_are_made_into_text(capsys: pytest.CaptureFixture[str]) -> None:
    from era5_pipeline.cli.series import print_series

    count = 10_000_000
    times = np.arange(count).astype("datetime64[s]")
    rows = Series(times, {"temperature_2m": np.broadcast_to(np.float32(21.5), count)})
    tracemalloc.start()
    try:
        print_series(rows, (TEMPERATURE,), "a place", "a credit")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000  # two bytes a row
    assert "10,000,000 hours; 9,999,952 in the middle are not shown" in capsys.readouterr().out


@pytest.mark.parametrize(("suffix", "beginning"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_pictures_have_the_format_of_their_suffix_and_a_title_and_limits(
    app: InProcess, tmp_path: Path, suffix: str, beginning: bytes
) -> None:
    options = ("--title", "A day, $1 and $2", "--vmin", "-5", "--vmax", "30.5")
    run(app, *MAP, *options, "--out", f"map.{suffix}")
    out, err = run(app, *HERE, "--column", "t2m", *options, "--plot", f"series.{suffix}", "--format", "csv")
    assert len(out.splitlines()) == HOURS
    assert f"wrote series.{suffix}: location_id 483547, latitude -6.25, longitude 106.75, 71 hours (Contains" in err
    for name in ("map", "series"):
        assert (tmp_path / f"{name}.{suffix}").read_bytes().startswith(beginning)


@pytest.mark.parametrize(
    ("arguments", "what", "remedy", "code"),
    [
        ((*HERE, "--plot", "out.jpg"), "--plot out.jpg: pictures are PNG, PDF or SVG files", "", 2),
        ((*HERE, "--title", "Rain"), "are options of a plot", "Add --plot FILE", 2),
        ((*MAP, "--out", "a.jpg"), "--out a.jpg: pictures are ", " ends with .png, .pdf, .svg", 2),
        ((*MAP, "--out", "a.png", "--vmin", "5", "--vmax", "5"), "--vmin 5 is not below --vmax 5", "", 2),
        ((*MAP, "--out", "a.png", "--vmin", "nan"), "--vmin nan: a limit must be a number", "", 2),
        ((*HERE, "--from", "2024"), "no row from 2024", "", 3),
        (("series", "--place", "Singapore"), "the table has no data there", "", 3),
    ],
)
def test_invalid_requests_are_explained(
    app: InProcess, arguments: tuple[str, ...], what: str, remedy: str, code: int, tmp_path: Path
) -> None:
    assert_explained(app.run(*arguments, code=code), what, remedy)
    assert list(tmp_path.iterdir()) == []


def test_location_with_only_null_is_an_error(own_app: InProcess, weather_table: Connection) -> None:
    weather_table.execute(f"UPDATE weather SET ({', '.join(DEFAULT_COLUMNS)}) = (NULL, NULL, NULL, NULL, NULL, NULL)")
    assert_explained(own_app.run(*HERE, code=3), "all columns are NULL in these 71 hours")


# --- Real files: the Gulf without February and March, six-hourly hours, the first week of a month -------

GULF = ("--lat", "25.5", "--lon", "51.25")
GERMANY = ("--lat", "54", "--lon", "6")
TELANGANA = ("--lat", "17.5", "--lon", "79")
DELIVERIES = (
    GULF_MONTHS.of("2023-01", "2023-04"),
    Delivery("era5/germany-tp-expver-mix", ("2025-09", "2025-10")),
    TELANGANA_WEEK,
)


@pytest.fixture(scope="module")
def real_url(real_table: Callable[..., Warehouse]) -> str:
    """The table with these deliveries, on each layout."""
    return real_table(*DELIVERIES).url


@pytest.fixture
def real(here: InProcess, real_url: str) -> InProcess:
    here.set(ERA5_DATABASE_URL=real_url)
    return here


def warnings_in(printed: CommandResult) -> list[str]:
    return [line.removeprefix("warning: ") for line in printed.err.splitlines() if line.startswith("warning: ")]


@pytest.mark.parametrize("output", [("--format", "csv"), ("--plot", "a.png")])
def test_missing_months_are_named_and_strict_makes_them_exit_code_4(real: InProcess, output: tuple[str, str]) -> None:
    lenient = real.run("series", *GULF, *output)
    assert warnings_in(lenient) == ["no data for 2023-02 to 2023-03"]
    strict = real.run("series", *GULF, *output, "--strict", code=4)
    assert (strict.out, strict.err) == (lenient.out, lenient.err)
    complete = real.run("series", *GULF, "--from", "2023-04", "--to", "2023-04", *output, "--strict")
    assert warnings_in(complete) == []


def test_json_has_missing_months_and_hours(real: InProcess) -> None:
    found = real.run("series", *GULF, "--format", "json").json()
    assert found["missing_months"] == {"temperature_2m": ["2023-02", "2023-03"]}
    assert found["missing_hours"] == {}
    assert len(found["rows"]) == (31 + 30) * 24
    found = real.run("series", *TELANGANA, "--format", "json").json()
    assert found["missing_months"] == {}
    assert found["missing_hours"]["total_precipitation"] == ["2023-09-08T00 to 2023-09-30T23"]


def test_hours_that_are_not_of_every_hour_are_said(real: InProcess) -> None:
    printed = real.run("series", *GERMANY, "--plot", "a.png", "--strict", code=4)
    assert warnings_in(printed) == ["data only every 6 hours in 2025-09 to 2025-10"]
    assert (real.home / "a.png").exists()


@pytest.mark.parametrize(
    ("arguments", "what", "remedy"),
    [
        pytest.param(
            (*GULF, "--from", "2023-02-10", "--to", "2023-02-12"),
            "it has data before and after this gap: it holds 2023-01, 2023-04, not 2023-02 to 2023-03",
            "era5 load --from 2023-02 --to 2023-03",
            id="a gap",
        ),
        pytest.param(
            (*TELANGANA, "--from", "2023-09-20", "--to", "2023-09-21"),
            "it holds other hours of 2023-09, which is incomplete",
            "",
            id="an incomplete month",
        ),
        # By hand: 0.5 x 111.2 km north and 2 x 111.2 km x cos(24.25) west of it.
        pytest.param(
            ("--lat", "24", "--lon", "54"),
            "is latitude 24.5, longitude 52, 210 km away, and it holds 2023-01, 2023-04",
            "",
            id="another place",
        ),
        pytest.param(
            (*GULF, "--column", "tp"),
            "total_precipitation is NULL in these 1,464 hours; what the table holds there (2023-01, 2023-04) has "
            "temperature_2m only; the nearest place with total_precipitation is ",
            "",
            id="another column",
        ),
    ],
)
def test_what_there_is_instead_is_said_and_no_picture_is_drawn(
    real: InProcess, arguments: tuple[str, ...], what: str, remedy: str
) -> None:
    for output in (("--format", "csv"), ("--plot", "a.png")):
        printed = real.run("series", *arguments, *output, code=3)
        assert_explained(printed, what, remedy)
        assert printed.out == ""
    assert not (real.home / "a.png").exists()


def test_map_names_places_without_a_value(real: InProcess) -> None:
    arguments = ("map", "--time", "2023-04-01T00", "--column", "t2m", "--out", "a.png")
    assert warnings_in(real.run(*arguments, "--strict")) == []
    printed = real.run(*arguments, "--area", "27/50.5/24.5/52")
    assert warnings_in(printed) == ["no temperature_2m at 14 of 77 grid points of 27/50.5/24.5/52: 27/50.5/26.75/52"]
    real.run(*arguments, "--area", "27/50.5/24.5/52", "--strict", code=4)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("2023-04-01T00", "t2m", "--area", "18/77/15/80"), "no row for that hour in 18/77/15/80; it holds 2023-09"),
        (
            ("2023-04-01T00", "tp"),
            "total_precipitation is NULL everywhere at 2023-04-01 00:00 UTC; what the table holds",
        ),
    ],
)
def test_a_map_without_a_value_says_what_there_is_instead(
    real: InProcess, arguments: tuple[str, ...], what: str
) -> None:
    time, column, *area = arguments
    assert_explained(real.run("map", "--time", time, "--column", column, "--out", "a.png", *area, code=3), what)
    assert not (real.home / "a.png").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--day", "2023-04-10", "--statistic", "min"), "temperature_2m min of the 24 hours of 2023-04-10 (UTC), 63"),
        (("--month", "2023-04"), "temperature_2m mean of April 2023, 720 of 720 hours, 63 locations, "),
    ],
)
def test_a_map_of_a_day_and_of_a_month(real: InProcess, options: tuple[str, ...], says: str) -> None:
    printed = real.run("map", *options, "--column", "t2m", "--out", "a.png", "--strict")
    assert printed.out.startswith(f"wrote a.png: {says}")
    assert printed.out.rstrip().endswith(
        "degC (Contains modified Copernicus Climate Change Service information 2023; data ERA5, C3S/ECMWF (final))"
    )
    assert (real.home / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_map_of_an_incomplete_month_says_so(real: InProcess) -> None:
    printed = real.run("map", "--month", "2023-09", "--column", "tp", "--out", "a.png", "--strict", code=4)
    assert warnings_in(printed) == ["441 of 441 locations have only 167 of 720 hours of September 2023"]
    assert (real.home / "a.png").exists()
    asked = ("map", "--month", "2023-04", "--anomaly", "--column", "t2m", "--out", "b.png")
    assert_explained(real.run(*asked, code=3), "none of the 30 years of the baseline 1991-2020 is complete")
    assert not (real.home / "b.png").exists()


def test_a_table_that_was_filled_without_the_ledger_works(own_app: InProcess, weather_table: Connection) -> None:
    weather_table.execute("DROP SCHEMA era5 CASCADE")
    out, err = run(own_app, *HERE, "--format", "csv")
    assert len(out.splitlines()) == HOURS
    assert "total_precipitation at 2023-01-30T10\n" in err
    out, err = run(own_app, "map", "--time", "2023-02-01T12", "--column", "t2m", "--out", "a.png")
    assert "6 locations" in out
    assert err.startswith("the map shows 6 of 7 places, ")
    assert err.count("--area") == 1


def test_closed_pipe_ends_without_a_message() -> None:
    program = (
        "import sys\n"
        "from era5_pipeline.cli.series import surviving_closed_pipe\n"
        "import typer\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def lines() -> None:\n"
        "    with surviving_closed_pipe():\n"
        "        for number in range(100_000):\n"
        "            sys.stdout.write(f'{number}\\n')\n"
        "app()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 1
