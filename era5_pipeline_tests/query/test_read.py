from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from era5_pipeline.model import grid
from era5_pipeline.model.errors import Era5Error, NoDataError, UsageError
from era5_pipeline.model.variables import BY_COLUMN, VARIABLES
from era5_pipeline.query import read as query
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.layouts.layout import create_weather

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import typer

    Connection = psycopg.Connection[Any]

# The first import of this typer calls what click 8.5 deprecates; so it happens in a test, where this holds.
pytestmark = pytest.mark.filterwarnings("ignore:'click:DeprecationWarning")

HOUR = timedelta(hours=1)
START = datetime(2023, 1, 30, tzinfo=UTC)
HOURS = 72  # to the end of 1 February, so that the rows lie in two partitions
MISSING = 10  # the hour that Jakarta lacks
NULL = 3  # the hour whose cloud cover is NULL
JAKARTA = grid.nearest_location(-6.25, 106.75)
# Around the antimeridian, and not in order.
FIJI = tuple(
    grid.nearest_location(latitude, longitude) for latitude in (-17.0, -17.25) for longitude in (180.0, -179.75, 179.75)
)
TEMPERATURE = BY_COLUMN["temperature_2m"]
CLOUD = BY_COLUMN["total_cloud_cover"]
SNOWFALL = BY_COLUMN["snowfall"]


def temperature_of(location: grid.Location, hour: int) -> float:
    """What the table holds: different at each place and hour, exact in float32."""
    return location.location_id % 1000 / 8 + hour / 1024


@pytest.fixture
def empty(database_url: str) -> Iterator[Connection]:
    """A connection to a database without tables; its session is not in UTC."""
    with psycopg.connect(database_url, autocommit=True, options="-c TimeZone=Asia/Jakarta") as connection:
        yield connection


@pytest.fixture
def filled(empty: Connection) -> Connection:
    """Seven locations and 72 hours of two months, without one hour, with a NULL and a column that is NULL."""
    make_table(empty)
    empty.execute("CREATE SCHEMA era5")
    empty.execute("CREATE TABLE era5.ledger (month date, source text)")
    empty.execute("INSERT INTO era5.ledger VALUES ('2023-01-01', 'files'), ('2023-02-01', 'sample')")
    with empty.cursor().copy("COPY weather FROM STDIN") as copy:
        for location in (JAKARTA, *FIJI):
            for hour in reversed(range(HOURS)):
                if hour == MISSING and location == JAKARTA:
                    continue
                cloud = None if hour == NULL else 0.1
                place = (location.location_id, location.latitude, location.longitude)
                values = (temperature_of(location, hour), 1.5, -2.5, cloud, 1e-5, None)
                copy.write_row((START + hour * HOUR, *place, *values))
    return empty


def make_table(connection: Connection) -> None:
    partitioning = psycopg.sql.SQL("PARTITION BY RANGE (time)")
    create_weather(connection, partitioning)
    for first, after in (("2023-01-01", "2023-02-01"), ("2023-02-01", "2023-03-01")):
        connection.execute(
            f"CREATE TABLE weather_{first[5:7]} PARTITION OF weather "
            f"FOR VALUES FROM ('{first} 00:00Z') TO ('{after} 00:00Z')"
        )
    connection.execute("CREATE INDEX ON weather USING brin (location_id) WITH (pages_per_range = 16)")


def test_a_series_is_all_of_a_place_in_the_order_of_time(filled: Connection) -> None:
    found = query.series(filled, JAKARTA, VARIABLES, None, None)
    hours = [hour for hour in range(HOURS) if hour != MISSING]
    assert found.times.tolist() == [(START + hour * HOUR).replace(tzinfo=None) for hour in hours]
    assert list(found.values) == [variable.column for variable in VARIABLES]
    assert {values.dtype for values in found.values.values()} == {np.dtype(np.float32)}
    assert found.values["temperature_2m"].tolist() == [temperature_of(JAKARTA, hour) for hour in hours]
    assert np.flatnonzero(np.isnan(found.values["total_cloud_cover"])).tolist() == [NULL]
    assert found.values["total_cloud_cover"][0] == np.float32(0.1)
    assert np.isnan(found.values["snowfall"]).all()


def test_a_series_begins_with_its_start_and_stops_before_its_end(filled: Connection) -> None:
    found = query.series(filled, FIJI[0], (TEMPERATURE,), START + 20 * HOUR, START + 50 * HOUR)
    assert list(found.values) == ["temperature_2m"]
    assert found.values["temperature_2m"].tolist() == [temperature_of(FIJI[0], hour) for hour in range(20, 50)]


def test_a_series_reads_only_the_months_of_its_range(filled: Connection) -> None:
    columns = psycopg.sql.Identifier("temperature_2m")
    statement = psycopg.sql.SQL("EXPLAIN " + read_sql("series")).format(columns=columns)
    parameters = {"location_id": 1, "start": START, "end": START + HOUR}
    plan = str(filled.execute(statement, parameters).fetchall())
    assert "weather_01" in plan
    assert "weather_02" not in plan


def test_a_snapshot_is_one_hour_in_one_area(filled: Connection) -> None:
    area = grid.Area(-16.0, 179.0, -18.0, -179.0)
    found = query.snapshot(filled, START + 5 * HOUR, TEMPERATURE, area)
    assert found.time == START + 5 * HOUR
    assert found.variable is TEMPERATURE
    assert found.latitudes.tolist() == [-17.25, -17.0]
    # Past 180, not back to -179.75.
    assert found.longitudes.tolist() == [179.75, 180.0, 180.25]
    for location in FIJI:
        row = found.latitudes.tolist().index(location.latitude)
        column = found.longitudes.tolist().index(location.longitude % 360.0)
        assert found.values[row, column] == temperature_of(location, 5)


def test_a_snapshot_without_an_area_just_covers_all_places(filled: Connection) -> None:
    found = query.snapshot(filled, START, TEMPERATURE)
    assert found.values.shape == (len(found.latitudes), len(found.longitudes)) == (45, 295)
    assert (found.latitudes[0], found.latitudes[-1]) == (-17.25, -6.25)
    assert (found.longitudes[0], found.longitudes[-1]) == (106.75, 180.25)
    assert np.isfinite(found.values).sum() == 7
    assert found.values[-1, 0] == temperature_of(JAKARTA, 0)


@pytest.mark.parametrize(
    ("area", "count"),
    [("-17/180/-17/180", 1), ("-16/-180/-18/-179", 4), ("-16/179/-18/180", 4), ("global", 7)],
)
def test_a_snapshot_leaves_out_what_lies_outside(filled: Connection, area: str, count: int) -> None:
    found = query.snapshot(filled, START, TEMPERATURE, grid.Area.parse(area))
    assert np.isfinite(found.values).sum() == count


def test_null_is_nan_in_a_snapshot(filled: Connection) -> None:
    assert np.isnan(query.snapshot(filled, START + NULL * HOUR, CLOUD).values).all()
    assert np.isnan(query.snapshot(filled, START, SNOWFALL).values).all()


def test_no_table_is_no_month(empty: Connection) -> None:
    for ask in (
        lambda: query.series(empty, JAKARTA, (TEMPERATURE,), None, None),
        lambda: query.snapshot(empty, START, TEMPERATURE),
    ):
        with pytest.raises(NoDataError, match=r"no month has been loaded yet\nLoad a month first"):
            ask()


def test_an_empty_table_is_no_month(empty: Connection) -> None:
    make_table(empty)
    for ask in (
        lambda: query.series(empty, JAKARTA, (TEMPERATURE,), None, None),
        lambda: query.snapshot(empty, START, TEMPERATURE),
    ):
        with pytest.raises(NoDataError, match="no month has been loaded yet"):
            ask()


def test_a_time_that_is_not_there_is_told_from_those_that_are(filled: Connection) -> None:
    later = datetime(2024, 5, 1, tzinfo=UTC)
    expected = (
        r"location 483547 \(latitude -6.25, longitude 106.75\)"
        r".* from 2024-05-01 00:00 to before 2024-05-01 01:00 UTC; "
        r"it holds 2023-01-30 00:00 to 2023-02-01 23:00 UTC\nAsk for a time within that"
    )
    with pytest.raises(NoDataError, match=expected):
        query.series(filled, JAKARTA, (TEMPERATURE,), later, later + HOUR)
    expected = r"^2024-05-01 00:00 UTC: .*holds 2023-01-30 00:00 to 2023-02-01 23:00 UTC\n.*era5 load --from 2024-05"
    for area in (None, grid.Area(0.0, 100.0, -10.0, 110.0)):
        with pytest.raises(NoDataError, match=expected):
            query.snapshot(filled, later, TEMPERATURE, area)


def test_a_place_that_is_not_there_is_told_from_the_nearest(filled: Connection) -> None:
    expected = r"longitude -179\).*nothing there.*nearest of its 7 locations is latitude -17, longitude -179.75"
    with pytest.raises(NoDataError, match=expected):
        query.series(filled, grid.nearest_location(-17.0, -179.0), (TEMPERATURE,), None, None)
    # Across the antimeridian, where degrees are far and places are near.
    expected = r"no location in -10/-170/-30/-160; the nearest of its 7 is .*longitude -179\.75"
    with pytest.raises(NoDataError, match=expected):
        query.snapshot(filled, START, TEMPERATURE, grid.Area(-10.0, -170.0, -30.0, -160.0))


@pytest.mark.parametrize(
    ("start", "end", "credit"),
    [
        (datetime(2023, 1, 5, tzinfo=UTC), datetime(2023, 2, 1, tzinfo=UTC), query.ERA5_CREDIT),
        (datetime(2023, 2, 1, tzinfo=UTC), datetime(2023, 2, 1, 1, tzinfo=UTC), query.SAMPLE_CREDIT),
        (datetime(2023, 2, 1, tzinfo=UTC), None, query.SAMPLE_CREDIT),
        (None, datetime(2023, 1, 2, tzinfo=UTC), query.ERA5_CREDIT),
        (datetime(2022, 1, 1, tzinfo=UTC), datetime(2022, 2, 1, tzinfo=UTC), query.UNKNOWN_CREDIT),
    ],
)
def test_copernicus_is_credited_for_its_months_alone(
    filled: Connection, start: datetime | None, end: datetime | None, credit: str
) -> None:
    assert query.credit(filled, start, end) == credit


def test_both_sources_are_credited(filled: Connection) -> None:
    credit = query.credit(filled, None, None)
    assert credit.startswith(query.ERA5_CREDIT)
    assert "sample data" in credit


def test_nothing_is_credited_without_a_ledger(empty: Connection) -> None:
    assert query.credit(empty, None, None) == query.UNKNOWN_CREDIT
    empty.execute(read_sql("schema"))
    assert query.credit(empty, None, None) == query.UNKNOWN_CREDIT


indices = st.tuples(st.integers(0, grid.N_LATITUDES - 1), st.integers(0, grid.N_LONGITUDES - 1))


@given(points=st.lists(indices, min_size=1, max_size=20, unique=True))
def test_the_rectangle_of_any_places(points: list[tuple[int, int]]) -> None:
    rows, columns = np.array(points, dtype=np.int32).T
    ids = grid.location_ids(rows, columns)
    found = query.snapshot_of(START, TEMPERATURE, ids, ids.astype(np.float32))
    assert found.values.shape == (len(found.latitudes), len(found.longitudes))
    np.testing.assert_array_equal(np.diff(found.latitudes), 0.25)
    np.testing.assert_array_equal(np.diff(found.longitudes), 0.25)
    assert -180.0 < found.longitudes[0] <= 180.0
    # Every value is at its place, and there is no other.
    at_rows = (grid.latitudes_of(rows) - found.latitudes[0]) / 0.25
    at_columns = (grid.longitudes_of(columns) - found.longitudes[0]) % 360.0 / 0.25
    np.testing.assert_array_equal(found.values[at_rows.astype(int), at_columns.astype(int)], ids)
    assert np.isfinite(found.values).sum() == len(points)
    # It is the smallest: what it leaves out is the widest gap between two neighbouring longitudes.
    used = np.unique(columns)
    gaps = np.diff(used, append=used[0] + grid.N_LONGITUDES)
    assert len(found.longitudes) == grid.N_LONGITUDES - gaps.max() + 1
    for border in (found.values[0], found.values[-1], found.values[:, 0], found.values[:, -1]):
        assert np.isfinite(border).any()


def test_the_whole_parallel_begins_at_the_antimeridian() -> None:
    ids = np.arange(1, grid.N_LONGITUDES + 1, dtype=np.int32)
    found = query.snapshot_of(START, TEMPERATURE, ids, ids.astype(np.float32))
    assert (found.longitudes[0], found.longitudes[-1]) == (-179.75, 180.0)


# What the commands print of it.


@pytest.fixture
def app(filled: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> typer.Typer:
    """Both commands, on the filled table."""
    import typer

    from era5_pipeline.cli.map import map_
    from era5_pipeline.cli.series import series

    assert filled
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ERA5_DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "80")
    commands = typer.Typer(rich_markup_mode="rich")
    commands.command("series")(series)
    commands.command("map")(map_)
    return commands


def run(app: typer.Typer, *arguments: str) -> tuple[str, str]:
    """What a command prints to standard output and error."""
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


HERE = ("series", "--lat", "-6.25", "--lon", "106.75")


def test_json_is_every_row_with_the_shortest_numbers(app: typer.Typer) -> None:
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


def test_csv_is_every_row(app: typer.Typer) -> None:
    out, err = run(app, *HERE[:-1], "106.8", "--format", "csv", "--column", "snowfall", "--column", "tcc")
    lines = out.splitlines()
    assert lines[:2] == ["time,total_cloud_cover,snowfall", "2023-01-30T00:00:00Z,0.1,"]
    assert lines[NULL + 1] == "2023-01-30T03:00:00Z,,"
    assert len(lines) == HOURS
    assert err == "location_id 483547, latitude -6.25, longitude 106.75 (nearest to -6.25, 106.8)\n"


def test_a_long_table_shows_its_ends_and_how_to_get_the_rest(app: typer.Typer) -> None:
    out, _ = run(app, *HERE)
    lines = out.splitlines()
    assert lines[0] == "location_id 483547, latitude -6.25, longitude 106.75"
    assert "meridional_wind_10m" in lines[1]
    assert sum(line.startswith("2023-") for line in lines) == 48
    assert lines[4].split() == ["2023-01-30", "00:00", "68.38", "1.50", "-2.50", "0.10", "0.000"]
    assert lines[4 + NULL].split()[-2] == "-"
    assert lines[-1] == "71 hours; 23 in the middle are left out: --format csv or --format json prints all"


def test_a_short_table_is_whole(app: typer.Typer) -> None:
    out, _ = run(app, *HERE, "--from", "2023-01-31", "--to", "2023-01-31", "--column", "t2m")
    assert sum(line.startswith("2023-01-31") for line in out.splitlines()) == 24
    assert out.splitlines()[-1] == "24 hours"


def test_a_series_is_drawn(app: typer.Typer, tmp_path: Path) -> None:
    out, err = run(app, *HERE, "--plot", "out.png")
    assert out == ""
    assert err.startswith("wrote out.png: location_id 483547, latitude -6.25, longitude 106.75, 71 hours (Contains")
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.width == 1600


def test_a_series_is_drawn_and_printed_where_a_format_is_asked_for(app: typer.Typer, tmp_path: Path) -> None:
    out, _ = run(app, *HERE, "--plot", "out.png", "--format", "csv")
    assert len(out.splitlines()) == HOURS
    assert (tmp_path / "out.png").exists()


def test_a_map_is_drawn(app: typer.Typer, tmp_path: Path) -> None:
    arguments = ("--time", "2023-02-01T12:00", "--column", "temperature_2m", "--out", "map.png")
    out, _ = run(app, "map", *arguments, "--area", "-16/179/-18/-179")
    assert "6 locations" in out
    assert query.SAMPLE_CREDIT in out
    with Image.open(tmp_path / "map.png") as picture:
        assert picture.width > 700


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((*HERE, "--plot", "out.pdf"), UsageError, "pictures are PNG files"),
        ((*HERE, "--column", "humidity"), UsageError, "is not a variable"),
        ((*HERE, "--from", "2024"), NoDataError, "no row from 2024"),
        (("series", "--lat", "91", "--lon", "0"), UsageError, "not on Earth"),
        (("map", "--time", "2023-02-01", "--column", "t2m", "--out", "a.png"), UsageError, "names no hour"),
        (
            ("map", "--time", "2023-02-01T00", "--column", "sf", "--out", "a.png"),
            NoDataError,
            "NULL everywhere",
        ),
        (("map", "--time", "2023-02-01T00", "--column", "t2m", "--out", "."), UsageError, "PNG"),
    ],
)
def test_what_cannot_be_done_is_said(
    app: typer.Typer, arguments: tuple[str, ...], error: type[Era5Error], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(app, *arguments)


def test_a_place_whose_columns_are_all_null_has_nothing_to_show(app: typer.Typer, filled: Connection) -> None:
    filled.execute(f"UPDATE weather SET ({', '.join(BY_COLUMN)}) = (NULL, NULL, NULL, NULL, NULL, NULL)")
    with pytest.raises(NoDataError, match="all columns are NULL in these 71 hours"):
        run(app, *HERE)


def test_a_reader_that_stops_early_is_no_error() -> None:
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


def test_help_keeps_its_examples_on_their_own_lines(app: typer.Typer) -> None:
    for command in ("series", "map"):
        out, _ = run(app, command, "--help")
        examples = [line.strip() for line in out.splitlines() if line.strip().startswith(f"era5 {command}")]
        assert len(examples) >= 2
        assert "\b" not in out
