"""`era5 series` and `era5 map`: what they print and plot."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from era5_pipeline.model.errors import Era5Error, NoDataError, UsageError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.query.credit import SAMPLE_CREDIT
from era5_pipeline_tests.weather_table import HOURS, JAKARTA, NULL, Connection, temperature_of

if TYPE_CHECKING:
    from pathlib import Path

    import typer

# typer uses what click 8.5 deprecates. It is imported in the tests, where this filter holds.
pytestmark = pytest.mark.filterwarnings("ignore:'click:DeprecationWarning")


@pytest.fixture
def app(weather_table: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> typer.Typer:
    """Both commands, on the table of `weather_table`."""
    import typer

    from era5_pipeline.cli.map import map_
    from era5_pipeline.cli.series import series

    assert weather_table
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ERA5_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "80")
    commands = typer.Typer(rich_markup_mode="rich")
    commands.command("series")(series)
    commands.command("map")(map_)
    return commands


def run(app: typer.Typer, *arguments: str) -> tuple[str, str]:
    """Run a command; return its standard output and standard error."""
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


HERE = ("series", "--lat", "-6.25", "--lon", "106.75")


def test_json_has_every_row_and_shortest_numbers(app: typer.Typer) -> None:
    out, err = run(app, *HERE, "--format", "json")
    rows = json.loads(out)
    assert len(rows) == HOURS - 1
    assert rows[NULL]["time"] == "2023-01-30T03:00:00Z"
    assert rows[NULL]["total_cloud_cover"] is None
    assert rows[0]["temperature_2m"] == temperature_of(JAKARTA, 0)
    assert '"total_cloud_cover": 0.1,' in out
    assert '"total_precipitation": 1e-05}' in out
    assert "snowfall" not in rows[0]
    assert err == ""


def test_csv_has_every_row(app: typer.Typer) -> None:
    out, err = run(app, *HERE[:-1], "106.8", "--format", "csv", "--column", "snowfall", "--column", "tcc")
    lines = out.splitlines()
    assert lines[:2] == ["time,total_cloud_cover,snowfall", "2023-01-30T00:00:00Z,0.1,"]
    assert lines[NULL + 1] == "2023-01-30T03:00:00Z,,"
    assert len(lines) == HOURS
    assert err == "location_id 483547, latitude -6.25, longitude 106.75 (nearest to -6.25, 106.8)\n"


def test_long_table_shows_first_and_last_rows_and_names_the_formats_with_all(app: typer.Typer) -> None:
    out, _ = run(app, *HERE)
    lines = out.splitlines()
    assert lines[0] == "location_id 483547, latitude -6.25, longitude 106.75"
    assert "meridional_wind_10m" in lines[1]
    assert sum(line.startswith("2023-") for line in lines) == 48
    assert lines[4].split() == ["2023-01-30", "00:00", "68.38", "1.50", "-2.50", "0.10", "0.000"]
    assert lines[4 + NULL].split()[-2] == "-"
    assert lines[-1] == "71 hours; 23 in the middle are not shown: --format csv or --format json prints all"


def test_short_table_shows_every_row(app: typer.Typer) -> None:
    out, _ = run(app, *HERE, "--from", "2023-01-31", "--to", "2023-01-31", "--column", "t2m")
    assert sum(line.startswith("2023-01-31") for line in out.splitlines()) == 24
    assert out.splitlines()[-1] == "24 hours"


def test_series_is_plotted(app: typer.Typer, tmp_path: Path) -> None:
    out, err = run(app, *HERE, "--plot", "out.png")
    assert out == ""
    assert err.startswith("wrote out.png: location_id 483547, latitude -6.25, longitude 106.75, 71 hours (Contains")
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.width == 1600


def test_series_is_plotted_and_printed_if_a_format_is_given(app: typer.Typer, tmp_path: Path) -> None:
    out, _ = run(app, *HERE, "--plot", "out.png", "--format", "csv")
    assert len(out.splitlines()) == HOURS
    assert (tmp_path / "out.png").exists()


def test_map_is_plotted(app: typer.Typer, tmp_path: Path) -> None:
    arguments = ("--time", "2023-02-01T12:00", "--column", "temperature_2m", "--out", "map.png")
    out, _ = run(app, "map", *arguments, "--area", "-16/179/-18/-179")
    assert "6 locations" in out
    assert SAMPLE_CREDIT in out
    with Image.open(tmp_path / "map.png") as picture:
        assert picture.width > 700


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((*HERE, "--plot", "out.pdf"), UsageError, "plots are PNG files"),
        ((*HERE, "--column", "humidity"), UsageError, "is not a variable"),
        ((*HERE, "--from", "2024"), NoDataError, "no row from 2024"),
        (("series", "--lat", "91", "--lon", "0"), UsageError, "out of range"),
        (("map", "--time", "2023-02-01", "--column", "t2m", "--out", "a.png"), UsageError, "names no hour"),
        (
            ("map", "--time", "2023-02-01T00", "--column", "sf", "--out", "a.png"),
            NoDataError,
            "NULL everywhere",
        ),
        (("map", "--time", "2023-02-01T00", "--column", "t2m", "--out", "."), UsageError, "PNG"),
    ],
)
def test_invalid_requests_are_explained(
    app: typer.Typer, arguments: tuple[str, ...], error: type[Era5Error], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(app, *arguments)


def test_location_with_only_null_is_an_error(app: typer.Typer, weather_table: Connection) -> None:
    weather_table.execute(f"UPDATE weather SET ({', '.join(BY_COLUMN)}) = (NULL, NULL, NULL, NULL, NULL, NULL)")
    with pytest.raises(NoDataError, match="all columns are NULL in these 71 hours"):
        run(app, *HERE)


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


def test_help_has_each_example_on_its_own_line(app: typer.Typer) -> None:
    for command in ("series", "map"):
        out, _ = run(app, command, "--help")
        examples = [line.strip() for line in out.splitlines() if line.strip().startswith(f"era5 {command}")]
        assert len(examples) >= 2
        assert "\b" not in out
