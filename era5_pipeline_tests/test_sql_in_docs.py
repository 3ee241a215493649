"""The SQL of docs/queries.md and the README, and the snippets of docs/clients.md, on every layout.

Each query's answer is compared with the files it came from, and its plan looked at. The text is that of the documents,
so that it cannot differ from what is tested. A snippet whose libraries are not installed is skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import netCDF4
import numpy as np
import psycopg
import pyarrow.parquet
import pytest

from era5_pipeline.climate.reading import hours_of_area
from era5_pipeline.model import grid
from era5_pipeline.model.cells import land_percent
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.real_months import GULF, NORWAY
from era5_pipeline_tests.servers import fresh_database
from era5_pipeline_tests.sql_plans import scans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.real_months import NetcdfFile

QUERIES = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
SERIES, MEANS, TOTALS, MONTHS, BOX, MAP, EXTREME = re.findall(r"```sql\n(.*?);\n```", QUERIES, re.DOTALL)[:7]
(README_MONTHS,) = re.findall(r"```sql\n(.*?);\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
CLIENTS = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
LATERAL = re.findall(r"```sql\n(.*?);\n```", CLIENTS, re.DOTALL)[0]
PSYCOPG, PANDAS, POLARS, DUCKDB, TO_PARQUET = re.findall(r"```python\n(.*?)```", CLIENTS, re.DOTALL)[:5]
PLACES_PAGE = (ROOT / "docs" / "places.md").read_text(encoding="utf-8")
NEAREST, LAND_AND_SEA, WITHIN = re.findall(r"```sql\n(.*?);\n```", PLACES_PAGE, re.DOTALL)
OF_A_PLACE = {
    "lateral": LATERAL,
    "series": SERIES,
    "means": MEANS,
    "readme": README_MONTHS,
    "totals": TOTALS,
    "months": MONTHS,
    "extreme": EXTREME,
}

_DOHA = (25.25, 51.5)
_NORWAY = (60.25, 7.0)

# Months for query plans: few hours, and so many places that a full scan is never cheaper.
PLACES = (50, 60)
MONTH_ROWS = 50 * 60 * 24


@pytest.fixture(scope="module")
def demo(real_table: Callable[..., Warehouse]) -> Warehouse:
    """The months of the demo, without the hour of the whole globe."""
    return real_table(GULF, NORWAY)


@pytest.fixture(scope="module")
def wide(host_url: str, flat_months: FlatMonths) -> Iterator[Warehouse]:
    """Months of many places and few hours, around those of the queries, and one month before."""
    gulf = {"points": PLACES, "north": 31.0, "west": 44.0, "names": ("t2m",), "hours": 24}
    norway = {"points": PLACES, "north": 66.0, "west": 0.0, "names": ("tp",), "hours": 24}
    with fresh_database(host_url) as url:
        warehouse = Warehouse(url)
        for month, of in (("2023-05", gulf), ("2023-07", gulf), ("2018-10", norway)):
            load_month(warehouse, flat_months(month, **cast("dict[str, Any]", of)))
        yield warehouse


def answer(warehouse: Warehouse, query: str, zone: str = "Asia/Kolkata") -> list[tuple[Any, ...]]:
    """Run the query as a user would whose session is not in UTC."""
    with psycopg.connect(warehouse.url, options=f"-c TimeZone={zone}") as connection:
        return connection.execute(query, binary=True).fetchall()


def day_of(time: datetime) -> datetime:
    return time.replace(hour=0)


def in_july(time: datetime) -> bool:
    return (time.year, time.month) == (2023, 7)


def july_of(field: NetcdfFile) -> dict[datetime, float]:
    return {time: value for time, value in field.series(*_DOHA).items() if in_july(time)}


def test_the_series_is_that_of_the_file(demo: Warehouse, gulf: NetcdfFile) -> None:
    expected = july_of(gulf)
    rows = answer(demo, SERIES)
    assert [time for time, _ in rows] == sorted(expected)
    assert len(rows) == 744
    np.testing.assert_allclose([value for _, value in rows], [expected[time] for time, _ in rows], rtol=1e-6)


def test_the_nearest_location_is_that_of_the_page(demo: Warehouse) -> None:
    """A tenth of a degree each way: 11.12 km northward, 10.04 km eastward."""
    ((location_id, latitude, longitude, kilometres),) = answer(demo, NEAREST)
    assert location_id == grid.ERA5_GRID.nearest_location(25.5, 51.5).location_id
    assert (latitude, longitude, float(kilometres)) == (25.5, 51.5, 15.0)


def test_hours_over_land_and_sea_are_those_of_the_file(demo: Warehouse, gulf: NetcdfFile) -> None:
    rows = answer(demo, LAND_AND_SEA)
    assert [int(row[0]) for row in rows] == list(range(24))
    percent = land_percent()[
        np.ix_(grid.ERA5_GRID.latitude_indices(gulf.latitudes), grid.ERA5_GRID.longitude_indices(gulf.longitudes))
    ]
    assert ((percent == 0).sum(), (percent == 100).sum()) > (5, 5)
    for hour, land, sea in rows:
        of_hour = [index for index, time in enumerate(gulf.instants) if in_july(time) and time.hour == hour]
        assert len(of_hour) == 31
        means = [float(gulf.values[of_hour][:, percent == share].mean()) for share in (100, 0)]
        np.testing.assert_allclose((land, sea), means, rtol=1e-5)
    # As the page says of coasts: at sea, days are as warm as nights.
    land, sea = (np.array([row[column] for row in rows]) for column in (1, 2))
    assert np.ptp(land) > 3 * np.ptp(sea)


def test_the_page_asks_postgis_for_what_is_near(host_url: str, flat_months: FlatMonths) -> None:
    with fresh_database(host_url) as url:
        warehouse = Warehouse(url)
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION postgis")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this server does not offer PostGIS")
        load_month(warehouse, flat_months("2023-07", points=(5, 5), north=26.0, west=51.0))
        rows = answer(warehouse, WITHIN)
    assert rows[0][0] == grid.ERA5_GRID.nearest_location(25.25, 51.5).location_id
    assert 1 < len(rows) < 25
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert max(row[1] for row in rows) <= 50


@pytest.mark.parametrize("query", ["day", "month", "readme"])
def test_the_means_are_those_of_the_file(demo: Warehouse, gulf: NetcdfFile, query: str) -> None:
    groups: dict[datetime, list[float]] = {}
    for time, value in gulf.series(*_DOHA).items():
        groups.setdefault(day_of(time) if query == "day" else day_of(time).replace(day=1), []).append(value)
    rows = answer(demo, README_MONTHS if query == "readme" else MEANS.replace("'day'", f"'{query}'"))
    assert [row[0] for row in rows] == sorted(groups)
    assert len(rows) == (365 if query == "day" else 12)
    expected = [(float(np.mean(groups[row[0]])), min(groups[row[0]]), max(groups[row[0]])) for row in rows]
    # The README asks for no minimum.
    wanted = np.array(expected)[:, [0, 2] if query == "readme" else [0, 1, 2]]
    np.testing.assert_allclose(np.array([row[1:] for row in rows]), wanted, rtol=1e-6)


def test_the_totals_are_those_of_the_file(demo: Warehouse, norway: NetcdfFile) -> None:
    """A day's last hour ends at 00:00 of the next day. The last one of October is in November, which is not loaded."""
    totals: dict[datetime, float] = {}
    for time, value in norway.series(*_NORWAY).items():
        if time > datetime(2018, 10, 1, tzinfo=UTC):
            day = day_of(time - timedelta(hours=1))
            totals[day] = totals.get(day, 0.0) + value
    rows = answer(demo, TOTALS)
    assert [day for day, _ in rows] == sorted(totals)
    assert len(rows) == 31
    # The file is packed: its numbers are exact, but not those of float32.
    np.testing.assert_allclose([total for _, total in rows], [totals[day] for day, _ in rows], rtol=1e-4, atol=1e-3)
    assert max(totals.values()) > 30  # the flood of 14 October 2018


def test_the_months_are_those_of_the_file(demo: Warehouse, norway: NetcdfFile) -> None:
    """The file has all hours of October; its first total belongs to September, and its last one is missing."""
    ((month, mean, least, greatest, total, hours, month_hours),) = answer(demo, MONTHS)
    totals = [value for time, value in norway.series(*_NORWAY).items() if time > datetime(2018, 10, 1, tzinfo=UTC)]
    with netCDF4.Dataset(NORWAY.file) as file:
        row = int(np.flatnonzero(file["latitude"][:] == _NORWAY[0])[0])
        column = int(np.flatnonzero(file["longitude"][:] == _NORWAY[1])[0])
        celsius = np.asarray(file["t2m"][:, row, column], dtype=np.float64) - 273.15
    assert (month, hours, month_hours) == (date(2018, 10, 1), 743, 744)
    # The file is packed, and the rows are float32.
    np.testing.assert_allclose([mean, least, greatest], [celsius.mean(), celsius.min(), celsius.max()], rtol=1e-5)
    assert total == pytest.approx(sum(totals), rel=1e-5)
    assert total > 200


def test_the_mean_of_a_box_at_the_pole_is_that_of_era5_climate(host_url: str, flat_months: FlatMonths) -> None:
    """A cell at the pole has half the height of others; its cosine is 0."""
    area = Area(90.0, 50.5, 89.25, 51.75)
    with fresh_database(host_url) as url:
        warehouse = Warehouse(url)
        load_month(warehouse, flat_months("2023-07", points=(4, 6), north=90.0, west=50.5, names=("t2m",)))
        rows = answer(warehouse, BOX.replace("at(24.5,", "at(89.25,").replace("at(26,", "at(90,"))
        with warehouse.connect() as connection:
            hours = hours_of_area(connection, LocationSet.of_area(area), None, None)
    assert len(rows) == 31
    expected = hours["temperature_2m"].to_numpy().reshape(31, 24).mean(axis=1)
    np.testing.assert_allclose([mean for _, mean in rows], expected, rtol=1e-12)


def test_sums_of_reals_are_in_double_precision() -> None:
    """The sum of reals is a real: over years it loses digits. A weight is a double, and so is its product."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    summed = re.findall(r"\bsum\((.*)", "\n".join(re.findall(r"```sql\n(.*?)```", pages, re.DOTALL)))
    assert len(summed) >= 3
    assert [term for term in summed if not re.match(r"\w+::float8\)|\w+ \* greatest\(cosd|greatest\(cosd", term)] == []


def test_the_mean_of_the_box_is_that_of_the_file(demo: Warehouse, gulf: NetcdfFile) -> None:
    north_to_south = (gulf.latitudes >= 24.5) & (gulf.latitudes <= 26)
    west_to_east = (gulf.longitudes >= 50.5) & (gulf.longitudes <= 51.75)
    assert 0 < north_to_south.sum() < gulf.latitudes.size
    assert 0 < west_to_east.sum() < gulf.longitudes.size
    inside = gulf.values[:, north_to_south][:, :, west_to_east]
    weights = np.cos(np.radians(gulf.latitudes[north_to_south]))[None, :, None] * np.ones_like(inside)
    days: dict[datetime, list[int]] = {}
    for index, time in enumerate(gulf.instants):
        if in_july(time):
            days.setdefault(day_of(time), []).append(index)
    rows = answer(demo, BOX)
    assert [day for day, _ in rows] == sorted(days)
    expected = [np.average(inside[days[day]], weights=weights[days[day]]) for day, _ in rows]
    np.testing.assert_allclose([mean for _, mean in rows], expected, rtol=1e-6)


def test_the_map_is_that_of_the_file(demo: Warehouse, gulf: NetcdfFile) -> None:
    rows = answer(demo, MAP)
    hour = gulf.instants.index(datetime(2023, 7, 15, 12, tzinfo=UTC))
    places = [
        (latitude, longitude) for latitude in sorted(gulf.latitudes, reverse=True) for longitude in gulf.longitudes
    ]
    assert [row[:2] for row in rows] == places
    assert gulf.latitudes[0] > gulf.latitudes[1]  # as in the query's order
    np.testing.assert_allclose([row[2] for row in rows], gulf.values[hour].reshape(-1), rtol=1e-6)


def test_the_extreme_is_that_of_the_file(demo: Warehouse, gulf: NetcdfFile) -> None:
    values = gulf.series(*_DOHA)
    ((time, value),) = answer(demo, EXTREME)
    assert value == pytest.approx(max(values.values()), rel=1e-6)
    assert values[time] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("query", [SERIES, MEANS, TOTALS, MONTHS, BOX, MAP, EXTREME])
def test_answers_do_not_depend_on_the_time_zone_of_the_session(demo: Warehouse, query: str) -> None:
    east, west = (answer(demo, query, zone) for zone in ("Asia/Kolkata", "America/New_York"))
    assert len(east) == len(west) > 0
    for row, same in zip(east, west, strict=True):
        # Parallel workers add in any order.
        assert list(row) == [pytest.approx(value) if isinstance(value, float) else value for value in same]


# Plans


@pytest.mark.parametrize("query", OF_A_PLACE.values(), ids=OF_A_PLACE)
def test_a_place_is_found_without_reading_its_month(wide: Warehouse, query: str) -> None:
    found = 0
    for scan in scans_of(wide.url, query):
        # An empty table may be scanned: the heap of a chunk in the columnstore.
        assert scan.rows == 0 or "Seq Scan" not in scan.kind, scan
        assert scan.rows < MONTH_ROWS / 10, scan
        found += scan.rows
    assert found > 0


def test_a_box_is_found_without_reading_its_month(wide: Warehouse) -> None:
    scans = scans_of(wide.url, BOX)
    assert sum(scan.rows for scan in scans) > 0
    for scan in scans:
        assert scan.rows == 0 or "Seq Scan" not in scan.kind, scan
        # The band of its latitudes, here 7 of 50.
        assert scan.rows < MONTH_ROWS / 4, scan


def test_a_map_reads_the_chunk_of_its_hour_only(wide: Warehouse) -> None:
    tables = {scan.table.removesuffix("_compressed") for scan in scans_of(wide.url, MAP)}
    assert len(tables) == 1, tables


# The formula in the table of columns


def formula(latitude: str, longitude: str) -> str:
    (text,) = re.findall(r"\| `location_id` \| integer \| `([^`]+)`", QUERIES)
    return str(re.sub(r"\blongitude\b", longitude, re.sub(r"\blatitude\b", latitude, text)))


def test_the_formula_is_the_number_of_the_location(demo: Warehouse) -> None:
    query = f"SELECT count(*), count(*) FILTER (WHERE location_id = {formula('latitude', 'longitude')}) FROM weather"
    ((rows, right),) = answer(demo, query)
    assert rows == right > 0
    for latitude, longitude in ((-90.0, -179.75), (90.0, 180.0), (0.0, 0.0), (-30.0, 30.25)):
        ((found,),) = answer(demo, f"SELECT {formula(str(latitude), str(longitude))}")
        assert found == grid.ERA5_GRID.nearest_location(latitude, longitude).location_id


def test_a_place_is_found_by_the_formula_without_reading_its_month(wide: Warehouse) -> None:
    for scan in scans_of(wide.url, f"SELECT * FROM weather WHERE location_id = {formula('25.25', '51.5')}"):
        assert scan.rows == 0 or "Seq Scan" not in scan.kind, scan
        assert scan.rows < MONTH_ROWS / 10, scan


# docs/clients.md


def run_snippet(monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse, code: str) -> dict[str, Any]:
    """Run the Python snippet and return its variables."""
    libraries = re.findall(r"^import (\w+)", code, re.MULTILINE)
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.setenv("ERA5_DATABASE_URL", warehouse.url)
    if "duckdb" in libraries:
        code = without_download(code)
    variables: dict[str, Any] = {}
    exec(compile(code, "docs/clients.md", "exec"), variables)
    return variables


def without_download(code: str) -> str:
    """Load DuckDB's extension from its package, where that is installed, instead of downloading it."""
    if importlib.util.find_spec("duckdb_extension_postgres_scanner") is None:
        pytest.skip("not installed: duckdb-extension-postgres-scanner")
    if importlib.util.find_spec("pytz") is None:
        pytest.skip("not installed: pytz")
    folder = Path(importlib.import_module("duckdb_extension_postgres_scanner").__path__[0])
    (file,) = folder.rglob("*.duckdb_extension")
    return code.replace('execute("INSTALL postgres")', 'execute("SELECT 1")').replace("LOAD postgres", f"LOAD '{file}'")


def test_the_snippet_for_psycopg(demo: Warehouse, gulf: NetcdfFile, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = july_of(gulf)
    found = run_snippet(monkeypatch, demo, PSYCOPG)
    assert dict(found["rows"]) == pytest.approx(expected, rel=1e-6)
    table = found["table"]
    assert table.num_rows == 744
    assert table.column("temperature_2m").to_pylist() == pytest.approx(list(expected.values()), rel=1e-6)
    assert [time.timestamp() for time in table.column("time").to_pylist()] == [time.timestamp() for time in expected]


def test_the_snippet_for_pandas(demo: Warehouse, gulf: NetcdfFile, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = run_snippet(monkeypatch, demo, PANDAS)["frame"]
    assert frame["temperature_2m"].to_dict() == pytest.approx(july_of(gulf), rel=1e-6)
    assert str(frame.dtypes["temperature_2m"]) == "float64"


@pytest.mark.parametrize("code", [POLARS, DUCKDB], ids=["polars", "duckdb"])
def test_the_snippets_for_polars_and_duckdb(
    demo: Warehouse, gulf: NetcdfFile, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    found = run_snippet(monkeypatch, demo, code)
    rows = found["frame"].rows() if "frame" in found else found["rows"]
    assert dict(rows) == pytest.approx(july_of(gulf), rel=1e-6)


def test_the_snippet_that_writes_parquet_with_duckdb(
    demo: Warehouse, gulf: NetcdfFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run_snippet(monkeypatch, demo, TO_PARQUET)
    rows = pyarrow.parquet.read_table(tmp_path / "july.parquet").to_pylist()
    assert len(rows) == 4 * 744
    doha = {row["time"]: row["temperature_2m"] for row in rows if row["location_id"] == 664766}
    assert {time.timestamp(): value for time, value in doha.items()} == pytest.approx(
        {time.timestamp(): value for time, value in july_of(gulf).items()}, rel=1e-6
    )
    assert dict(found["units"])["temperature_2m"] == "degC"
    assert "degC" in dict(found["comments"])["temperature_2m"]
    connection = found["connection"]
    # As the page says: the condition is sent to the server, and the table cannot be written.
    mean = "SELECT avg(temperature_2m) FROM era5.weather WHERE location_id = 664766"
    ((_, plan),) = connection.execute(f"EXPLAIN {mean}").fetchall()
    assert "location_id=664766" in plan
    assert plan.index("AGGREGATE") < plan.index("POSTGRES_SCAN")
    with pytest.raises(Exception, match="read-only"):
        connection.execute("DELETE FROM era5.weather")


def test_the_command_of_psql(demo: Warehouse, gulf: NetcdfFile, tmp_path: Path) -> None:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    (command,) = (line for line in CLIENTS.splitlines() if line.startswith('$ psql "$(era5 db url)" -c '))
    copy = shlex.split(command.replace("$(era5 db url)", "URL"))[4]
    subprocess.run(["psql", demo.url, "-c", copy], cwd=tmp_path, check=True, capture_output=True)
    lines = (tmp_path / "doha.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "time,temperature_2m"
    values = [float(line.split(",")[1]) for line in lines[1:]]
    np.testing.assert_allclose(values, list(gulf.series(*_DOHA).values()), rtol=1e-6)


def test_each_of_several_places_has_its_own_mean(demo: Warehouse, gulf: NetcdfFile) -> None:
    places = {"Doha": _DOHA, "Dukhan": (25.5, 50.75)}
    for name, mean in answer(demo, LATERAL):
        expected = np.mean([value for time, value in gulf.series(*places.pop(name)).items() if in_july(time)])
        assert mean == pytest.approx(expected, rel=1e-6)
    assert places == {}
