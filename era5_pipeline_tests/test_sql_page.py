"""The views of docs/queries.md, and the other servers, QGIS, R and ODBC of docs/clients.md, run as they are.

R, QGIS and another PostgreSQL server need what the project does not install: their tests say what is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from PIL import Image
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.roles import Roles, ensure_roles
from era5_pipeline.postgres.urls import with_user
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.era5_files import hours_from, raw_month, weather, write_netcdf
from era5_pipeline_tests.flat_months import rows_of_file
from era5_pipeline_tests.real_months import GULF
from era5_pipeline_tests.real_months import NORWAY as NORWAY_MONTH
from era5_pipeline_tests.servers import fresh_database
from era5_pipeline_tests.warehouse.test_views import has_postgis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.real_months import NetcdfFile, RealMonths

QUERIES = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
UNITS, COLUMN_UNITS, GAPS, DAYS, PERIOD, BESIDE = re.findall(r"```sql\n(.*?);\n```", QUERIES, re.DOTALL)[7:]
CLIENTS = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
FOREIGN, SITES, DAY_MAP = re.findall(r"```sql\n(.*?);\n```", CLIENTS, re.DOTALL)[1:]
QGIS = re.findall(r"```python\n(.*?)```", CLIENTS, re.DOTALL)[-1]
YEAR_IN_R, DPLYR, RPOSTGRESQL = re.findall(r"```r\n(.*?)```", CLIENTS, re.DOTALL)

DOHA, NORWAY = (25.25, 51.5), (60.25, 7.0)
DOHA_ID = 664766
# July around Qatar, and the October of Norway.
DELIVERIES = (GULF.of("2023-07"), NORWAY_MONTH)
PREFIX = f"e5p{os.getpid()}"
SECRET = "a secret"


@contextmanager
def reader_of(url: str, prefix: str) -> Iterator[str]:
    """Make roles with the prefix, of the database, and a reader with a password; yields its name."""
    roles = Roles.named(prefix)
    name = f"{prefix}_my_reader"
    with Warehouse(url).connect() as connection:
        ensure_roles(connection, roles)
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}").format(
                sql.Identifier(name), sql.Literal(SECRET), sql.Identifier(roles.reader)
            )
        )
        ensure_roles(connection, roles)
    try:
        yield name
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA era5 CASCADE; DROP TABLE weather CASCADE")
            for role in (name, *reversed(roles.names)):
                quoted = sql.Identifier(role)
                connection.execute(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(quoted))


@pytest.fixture(scope="module")
def shared(host_url: str, real_months: RealMonths) -> Iterator[tuple[str, str]]:
    """The URL of a database with the two months, with PostGIS where the server offers it, and its reader."""
    with fresh_database(host_url) as url:
        has_postgis(url)
        real_months.loading(*DELIVERIES)(url)
        with reader_of(url, f"{PREFIX}_page") as reader:
            yield url, reader


@pytest.fixture
def as_reader(shared: tuple[str, str]) -> str:
    return with_user(*shared)


def answer(url: str, query: str) -> list[tuple[Any, ...]]:
    """Run the query as a user would whose session is not in UTC."""
    with psycopg.connect(url, options="-c TimeZone=Asia/Kolkata") as connection:
        return connection.execute(query.encode(), binary=True).fetchall()


def july_of(field: NetcdfFile, place: tuple[float, float] = DOHA) -> dict[datetime, float]:
    return {time: value for time, value in field.series(*place).items() if (time.year, time.month) == (2023, 7)}


# SQL


def test_the_page_names_every_view_that_there_is(as_reader: str) -> None:
    rows = answer(as_reader, "SELECT DISTINCT table_schema, table_name FROM era5.table_column")
    for schema, table in rows:
        name = table if schema == "public" else f"{schema}.{table}"
        # Relations underlying the views are not for other programs.
        assert name in {"era5.land", "era5.catalogue"} or f"`{name}`" in QUERIES, name


def test_both_data_sets_are_joined_at_a_place(host_url: str, flat_months: FlatMonths, tmp_path: Path) -> None:
    """Months of a coast: ERA5-Land has rows at the places on land only."""
    places = [4.6 + 0.1 * column for column in range(10)]
    of = weather(hours_from("2018-10-01T00", 24), [60.5], places)
    of.fields["t2m"][:, :, :6] = np.nan
    raw = replace(raw_month([write_netcdf(tmp_path / "land.nc", of)], "2018-10"), dataset=ERA5_LAND)
    land = flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet")
    own = flat_months("2018-10", points=(1, 1), north=60.5, west=5.5, names=("t2m",), hours=24)
    with fresh_database(host_url) as url:
        postgis = has_postgis(url)
        load_month(Warehouse(url), own)
        load_month(Warehouse(url, dataset=ERA5_LAND), land)
        rows = answer(url, BESIDE)
        assert [(time, era5) for time, era5, _ in rows] == [(row[0], row[4]) for row in rows_of_file(own)]
        np.testing.assert_allclose([row[2] for row in rows], of.fields["t2m"][:, 0, 9] - 273.15, atol=1e-4)
        # The places with rows; how much of their cells is land is not known.
        located = answer(url, "SELECT * FROM era5_land.location ORDER BY location_id")
        held = answer(url, "SELECT DISTINCT location_id, latitude, longitude FROM weather_land ORDER BY location_id")
        assert [row[:4] for row in located] == [(*row, None) for row in held]
        assert [round(row[2], 3) for row in held] == [5.2, 5.3, 5.4, 5.5]
        nearest = "SELECT round(nearest_longitude::numeric, 1)::float8 FROM era5_land.nearest(60.5, 4.6)"
        assert answer(url, nearest) == [(5.2,)]
        if postgis:
            near = "WHERE ST_DWithin(geography, ST_MakePoint(5.2, 60.5)::geography, 1000)"
            assert answer(url, f"SELECT ST_AsText(geom) FROM era5_land.location {near}") == [("POINT(5.2 60.5)",)]
            sizes = answer(url, "SELECT ST_Area(cell) FROM weather_land_monthly_map")
            np.testing.assert_allclose(sizes, np.full((4, 1), 0.01), rtol=1e-5)
        described = "SELECT col_description('{}.location'::regclass, 4)"
        ((of_land,), (of_era5,)) = (answer(url, described.format(of))[0] for of in ("era5_land", "era5"))
        assert of_land == (
            "NULL: how much of a cell of 0.1 degrees is land is not known; ERA5-Land has values at this point"
        )
        assert of_era5.startswith("How much of the cell of 0.25 degrees")


def test_units_are_rows(as_reader: str) -> None:
    by_name = {row[0]: row[1:] for row in answer(as_reader, UNITS)}
    october, july = date(2018, 10, 1), date(2023, 7, 1)
    assert by_name["temperature_2m"] == ("degC", "degC", "point", "air_temperature", october, july)
    assert by_name["total_precipitation"][-2:] == (october, october)
    columns = {row[0]: row[1:] for row in answer(as_reader, COLUMN_UNITS)}
    assert columns["temperature_2m_mean"][0] == "degC"
    assert columns["total_precipitation_sum"][0] == "mm"
    assert list(columns)[:4] == ["location_id", "latitude", "longitude", "month"]


def test_gaps_are_those_of_the_place(as_reader: str) -> None:
    """October 2018 is loaded elsewhere: of Doha, the 57 months to June 2023 are not there."""
    rows = answer(as_reader, GAPS)
    assert [row[0] for row in rows] == [
        date(year, month, 1)
        for year in range(2018, 2024)
        for month in range(1, 13)
        if (2018, 10) <= (year, month) <= (2023, 6)
    ]
    assert len(rows) == 57
    assert {row[1:] for row in rows} == {(None, None, None, None)}


def test_days_are_those_of_the_file(as_reader: str, norway: NetcdfFile) -> None:
    totals: dict[date, list[float]] = {}
    for time, value in norway.series(*NORWAY).items():
        totals.setdefault((time - timedelta(hours=1)).date(), []).append(value)
    rows = answer(as_reader, DAYS)
    assert [row[0] for row in rows] == [date(2018, 10, day) for day in range(1, 32)]
    for day, _, _, total, hours in rows:
        # The file is packed: its numbers are exact, but not those of float32.
        assert total == pytest.approx(sum(totals[day]), rel=1e-4, abs=1e-3)
        assert hours == (23 if day.day == 31 else 24)
    assert max(row[3] for row in rows) > 30


def test_a_period_is_that_of_the_file(as_reader: str, gulf: NetcdfFile) -> None:
    values = july_of(gulf)
    expected = {}
    for day in range(1, 32):
        of_day = [value for time, value in values.items() if time.day == day]
        expected[date(2023, 7, day)] = sum(of_day) / 24
    assert dict(answer(as_reader, PERIOD)) == pytest.approx(expected, rel=1e-6)


def test_a_day_is_a_layer(as_reader: str, gulf: NetcdfFile) -> None:
    if not answer(as_reader, "SELECT 1 FROM pg_extension WHERE extname = 'postgis'"):
        pytest.skip("this server does not offer PostGIS")
    rows = answer(as_reader, DAY_MAP.replace("l.geom", "ST_X(l.geom), ST_Y(l.geom)"))
    assert len(rows) == 63
    (doha,) = (row for row in rows if row[0] == DOHA_ID)
    of_day = [value for time, value in gulf.series(*DOHA).items() if time.date() == date(2023, 7, 15)]
    assert doha[1:3] == (51.5, 25.25)
    assert doha[3] == pytest.approx(sum(of_day) / 24, rel=1e-6)


def test_the_page_says_of_which_blocks_the_embedded_server_lacks_something(
    server_url: str, real_months: RealMonths
) -> None:
    """They are those that fail there, with the same months: what the other tests skip."""
    with fresh_database(server_url) as url:
        real_months.loading(*DELIVERIES)(url)
        failing = []
        for block in (UNITS, COLUMN_UNITS, GAPS, DAYS, PERIOD, FOREIGN, SITES, DAY_MAP):
            with psycopg.connect(url) as connection:
                try:
                    connection.execute(block.encode())
                except psycopg.Error:
                    failing.append(block)
        assert answer(url, "SELECT to_regclass('weather_monthly_map')") == [(None,)]
        offered = {name for (name,) in answer(url, "SELECT name FROM pg_available_extensions")}
    assert failing == [FOREIGN, SITES, DAY_MAP]
    assert offered.isdisjoint({"postgres_fdw", "postgis"})
    needs = r"An embedded server has no ([^,]+), which this needs:\n\n```\w+\n(.*?);?\n```"
    said = re.findall(needs, CLIENTS, re.DOTALL)
    # QGIS reads the map of months.
    fdw, postgis = "`postgres_fdw`", "PostGIS"
    assert said == [(fdw, FOREIGN), (fdw, SITES), (postgis, QGIS.rstrip()), (postgis, DAY_MAP)]


# Another PostgreSQL server


@pytest.fixture(scope="module", params=["as the server makes it", "partitions"])
def foreign(request: pytest.FixtureRequest, host_url: str, real_months: RealMonths) -> Iterator[str]:
    """The URL of a second database, which has the warehouse of the first one as foreign tables, by the page."""
    with psycopg.connect(host_url) as connection:
        if connection.execute("SELECT FROM pg_available_extensions WHERE name = 'postgres_fdw'").fetchone() is None:
            pytest.skip("this server does not have postgres_fdw")
    with fresh_database(host_url) as far, fresh_database(host_url) as near:
        if request.param == "partitions":
            with Warehouse(far).connect() as connection:
                MonthPartitions().create(connection)
        real_months.loading(*DELIVERIES)(far)
        address = conninfo_to_dict(far)
        with reader_of(far, f"{PREFIX}_far") as reader, psycopg.connect(near, autocommit=True) as connection:
            replaced = {
                "'db.example.org'": f"'{address['host']}'",
                "'5432'": f"'{address['port']}'",
                "dbname 'era5'": f"dbname '{address['dbname']}'",
                "'my_reader'": f"'{reader}'",
                "'secret'": f"'{SECRET}'",
            }
            connection.execute(substituted(FOREIGN, replaced).encode())
            connection.execute("CREATE TABLE site (location_id integer)")
            yield near
            connection.execute("DROP SERVER era5_warehouse CASCADE")


def substituted(text: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def remote_queries(url: str, query: str) -> str:
    plan = "\n".join(row[0] for row in answer(url, f"EXPLAIN (VERBOSE, COSTS OFF) {query}"))
    return "\n".join(line.partition("Remote SQL: ")[2] for line in plan.splitlines() if "Remote SQL: " in line)


def test_foreign_tables_have_the_rows_of_the_warehouse(foreign: str, gulf: NetcdfFile) -> None:
    query = (
        "SELECT time, temperature_2m FROM era5.weather WHERE location_id = era5.at(25.25, 51.5) AND time > '2023-1-1Z'"
    )
    assert dict(answer(foreign, query)) == pytest.approx(july_of(gulf), rel=1e-6)
    means = dict(answer(foreign, SITES))
    for name, place in (("Doha", DOHA), ("Dukhan", (25.5, 50.75))):
        values = july_of(gulf, place).values()
        assert means[name] == pytest.approx(sum(values) / 744, rel=1e-6)
    assert answer(foreign, "SELECT unit FROM era5.variable WHERE column_name = 'temperature_2m'") == [("degC",)]
    assert answer(foreign, "SELECT rows FROM era5.month ORDER BY month") == [(52_080,), (46_872,)]
    (row,) = answer(foreign, f"SELECT latitude, longitude FROM era5.location WHERE location_id = {DOHA_ID}")
    assert row == DOHA
    (mean,) = answer(foreign, f"SELECT temperature_2m_mean FROM era5.weather_monthly WHERE location_id = {DOHA_ID}")
    assert mean[0] == pytest.approx(sum(july_of(gulf).values()) / 744, rel=1e-6)
    assert len(answer(foreign, f"SELECT day FROM era5.weather_daily WHERE location_id = {DOHA_ID}")) == 31


def test_the_function_is_that_of_the_warehouse(foreign: str, shared: tuple[str, str]) -> None:
    points = "FROM generate_series(-90, 90, 7.3) AS y, generate_series(-179.75, 180, 11.1) AS x"
    query = f"SELECT array_agg(era5.at(y::float8, x::float8) ORDER BY x, y) {points}"
    assert answer(foreign, query) == answer(shared[0], query)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("SELECT time FROM era5.weather WHERE location_id = era5.at(25.25, 51.5)", "(location_id = 664766)"),
        ("SELECT time FROM era5.weather WHERE time >= '2023-07-01Z' ORDER BY time", 'ORDER BY "time" ASC'),
        ("SELECT day FROM era5.weather_daily WHERE location_id = 1 AND day > '2023-07-01'", "(day > '2023-07-01')"),
        ("SELECT latitude FROM era5.weather_monthly WHERE month = '2023-07-01'", "(month = '2023-07-01')"),
        ("SELECT avg(snowfall), count(*) FROM era5.weather WHERE location_id = 1", "SELECT avg(snowfall), count(*)"),
        (SITES, "SELECT avg(temperature_2m) FROM public.weather"),
        (SITES, "(location_id = $1::integer)"),
    ],
)
def test_what_the_page_says_is_sent(foreign: str, query: str, sent: str) -> None:
    assert sent in remote_queries(foreign, query)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT time FROM era5.weather WHERE location_id = 1 AND time > now() - interval '1 day'", '"time" >'),
        ("SELECT avg(snowfall) FROM era5.weather WHERE location_id = 1 GROUP BY date_trunc('day', time, 'UTC')", "avg"),
        ("SELECT avg(snowfall) FROM site JOIN era5.weather USING (location_id)", "location_id ="),
    ],
)
def test_what_the_page_says_is_not_sent(foreign: str, query: str, kept: str) -> None:
    assert kept not in remote_queries(foreign, query)


def test_a_foreign_table_cannot_be_written(foreign: str) -> None:
    with psycopg.connect(foreign) as connection:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="does not allow inserts"):
            connection.execute("INSERT INTO era5.weather (time) VALUES (now())")
        connection.rollback()
        # Refused at this side or at the other one, by layout.
        with pytest.raises(psycopg.Error):
            connection.execute("DELETE FROM era5.weather")


# R


def require_r(*packages: str) -> str:
    """The path of Rscript; skip where it or a package is missing."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("not installed: Rscript")
    wanted = ", ".join(f'"{name}"' for name in packages)
    check = f"cat(Filter(function(name) !requireNamespace(name, quietly = TRUE), c({wanted})))"
    found = subprocess.run([rscript, "-e", check], capture_output=True, text=True, check=True, timeout=120)
    if found.stdout.strip():
        pytest.skip(f"not installed in R: {found.stdout.strip()}")
    return rscript


def run_r(rscript: str, code: str, shared: tuple[str, str], folder: Path) -> str:
    address = conninfo_to_dict(shared[0])
    connected = (
        code.replace('host = "127.0.0.1"', f'host = "{address["host"]}"')
        .replace("port = 5432", f"port = {address['port']}")
        .replace('dbname = "era5"', f'dbname = "{address["dbname"]}"')
        .replace('user = "my_reader"', f'user = "{shared[1]}"')
        .replace('password = "secret"', f'password = "{SECRET}"')
    )
    assert connected.count(SECRET) == 1
    # R's own zone is not UTC.
    made = subprocess.run(
        [rscript, "-e", connected],
        cwd=folder,
        env=os.environ | {"TZ": "Asia/Kolkata"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_a_year_in_r(shared: tuple[str, str], gulf: NetcdfFile, tmp_path: Path) -> None:
    rscript = require_r("DBI", "RPostgres")
    more = 'cat("", format(year$time[2]), nrow(year), sprintf("%.6f", mean(year$temperature_2m)), unit, sep = "|")'
    printed = run_r(rscript, f"{YEAR_IN_R}\n{more}", shared, tmp_path)
    second, rows, mean, unit = printed.splitlines()[-1].split("|")[1:]
    assert (second, rows, unit) == ("2023-07-01 01:00:00", "744", "degC")
    assert float(mean) == pytest.approx(sum(july_of(gulf).values()) / 744, rel=1e-6)
    with Image.open(tmp_path / "doha.png") as picture:
        assert picture.size == (1000, 500)
        assert len(set(picture.convert("L").get_flattened_data())) > 2


def test_months_in_r(shared: tuple[str, str], gulf: NetcdfFile, tmp_path: Path) -> None:
    rscript = require_r("DBI", "RPostgres", "dplyr", "dbplyr")
    connect = YEAR_IN_R[: YEAR_IN_R.index("year <- ")]
    more = 'cat(format(months$month), sprintf("%.6f", months$temperature_2m_mean))'
    day, mean = run_r(rscript, f"{connect}\n{DPLYR}\n{more}", shared, tmp_path).split()
    assert day == "2023-07-01"
    assert float(mean) == pytest.approx(sum(july_of(gulf).values()) / 744, rel=1e-6)


def test_a_number_of_r_without_l_reads_every_row(as_reader: str) -> None:
    """What the page warns of: dbplyr writes 664766 as 664766.0, and 664766L as it is."""
    plans = [
        "\n".join(
            row[0]
            for row in answer(as_reader, f"EXPLAIN SELECT month FROM weather_monthly WHERE location_id = {number}")
        )
        for number in ("664766.0", "664766")
    ]
    assert "numeric" in plans[0]
    assert "numeric" not in plans[1]


def test_july_by_rpostgresql(shared: tuple[str, str], gulf: NetcdfFile, tmp_path: Path) -> None:
    rscript = require_r("RPostgreSQL")
    more = 'cat(nrow(july), as.numeric(july$time[1]), sprintf("%.6f", mean(july$temperature_2m)))'
    rows, first, mean = run_r(rscript, f"{RPOSTGRESQL}\n{more}", shared, tmp_path).split()[-3:]
    assert (rows, float(first)) == ("744", datetime(2023, 7, 1, tzinfo=UTC).timestamp())
    assert float(mean) == pytest.approx(sum(july_of(gulf).values()) / 744, rel=1e-6)


# ODBC


def test_a_query_by_odbc(shared: tuple[str, str], gulf: NetcdfFile, tmp_path: Path) -> None:
    isql, address = shutil.which("isql"), conninfo_to_dict(shared[0])
    if isql is None:
        pytest.skip("not installed: isql (unixODBC)")
    drivers = subprocess.run(["odbcinst", "-q", "-d"], capture_output=True, text=True, check=False).stdout
    if "[PostgreSQL Unicode]" not in drivers:
        pytest.skip("not installed: psqlodbc")
    (settings,) = re.findall(r"```ini\n(.*?)```", CLIENTS, re.DOTALL)
    values = {
        "Servername = 127.0.0.1": f"Servername = {address['host']}",
        "Port = 5432": f"Port = {address['port']}",
        "Database = era5": f"Database = {address['dbname']}",
        "Username = my_reader": f"Username = {shared[1]}",
        "Password = secret": f"Password = {SECRET}",
    }
    (tmp_path / "odbc.ini").write_text(substituted(settings, values), encoding="utf-8")
    query = f"SELECT time, temperature_2m FROM weather WHERE location_id = {DOHA_ID} ORDER BY time"

    def run(statement: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [isql, "-b", "-d,", "-v", "era5"],
            input=statement,
            env=os.environ | {"ODBCINI": str(tmp_path / "odbc.ini")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    rows = dict(line.split(",") for line in run(query).stdout.splitlines() if line.startswith("2023-"))
    expected = {f"{time:%Y-%m-%d %H:%M:%S}": value for time, value in july_of(gulf).items()}
    assert {time: float(value) for time, value in rows.items()} == pytest.approx(expected, rel=1e-5)
    assert "ERROR" in "".join((refused := run("DELETE FROM weather")).stdout + refused.stderr)


# QGIS

_BEFORE = """
import sys
from qgis.core import QgsApplication
application = QgsApplication([], False)
application.initQgis()
"""
_AFTER = """
from qgis.core import QgsMapRendererSequentialJob, QgsMapSettings
from qgis.PyQt.QtCore import QSize
assert layer.isValid()
print(layer.featureCount(), layer.crs().authid(), layer.extent().toString(3), len(renderer.ranges()))
uri.setDataSource("", "(DAY_MAP)", "geom", "", "location_id")
day = QgsVectorLayer(uri.uri(False), "15 July 2023", "postgres")
assert day.isValid()
print(day.featureCount(), day.extent().toString(3), [field.name() for field in day.fields()])
settings = QgsMapSettings()
settings.setLayers([layer])
settings.setExtent(layer.extent())
settings.setDestinationCrs(layer.crs())
settings.setOutputSize(QSize(350, 450))
job = QgsMapRendererSequentialJob(settings)
job.start()
job.waitForFinished()
assert job.renderedImage().save("july.png")
QgsProject.instance().clear()
application.exitQgis()
"""


def python_of_qgis() -> str:
    """A Python that has QGIS: a package of the operating system, for its own Python."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.access(python, os.X_OK):
            found = subprocess.run(
                [python, "-c", "import qgis.core"], env=plain_environment(), capture_output=True, check=False
            )
            if found.returncode == 0:
                return python
    pytest.skip("not installed: QGIS with its Python module (Debian: python3-qgis)")


def plain_environment() -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return others | {"QT_QPA_PLATFORM": "offscreen"}


def test_a_month_in_qgis(shared: tuple[str, str], tmp_path: Path) -> None:
    python = python_of_qgis()
    if not answer(shared[0], "SELECT 1 FROM pg_extension WHERE extname = 'postgis'"):
        pytest.skip("this server does not offer PostGIS")
    address = conninfo_to_dict(shared[0])
    connect = f'"{address["host"]}", "{address["port"]}", "{address["dbname"]}", "{shared[1]}", "{SECRET}"'
    code = substituted(QGIS, {'"127.0.0.1", "5433", "era5", "my_reader", "secret"': connect})
    made = subprocess.run(
        [python, "-c", _BEFORE + code + _AFTER.replace("DAY_MAP", DAY_MAP.replace("\n", " "))],
        cwd=tmp_path,
        env=plain_environment() | {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr
    # 63 cells around Qatar, each of 0.25 degrees.
    month, day = made.stdout.splitlines()
    assert month == "63 EPSG:4326 50.375,24.375 : 52.125,26.625 8"
    assert day == "63 50.500,24.500 : 52.000,26.500 ['location_id', 'temperature_2m_mean']"
    with Image.open(tmp_path / "july.png") as picture:
        colours = picture.convert("RGB").getcolors(1 << 20)
    assert colours is not None
    assert len([count for count, _ in colours if count > 350 * 450 / 200]) >= 6
