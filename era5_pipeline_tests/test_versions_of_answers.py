"""Every answer says which version of ERA5 its hours are: final, mixed, preliminary, not stated; or generated.

By the Python API, the commands and HTTP, from the hours that each of them used.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import xarray as xr

from era5_pipeline.api.database import open_database
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.served import served
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.warehouse.versioned_months import FINAL, PRELIMINARY, VersionedMonths

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess

_BEGIN = "Contains modified Copernicus Climate Change Service information 2024; data ERA5, C3S/ECMWF"
SAMPLE = "Generated sample data, not ERA5"
# The temperature of October is preliminary from the 21st on.
MIXED = {"t2m": [FINAL] * 480 + [PRELIMINARY] * 264, "tp": [FINAL] * 744}
# By the day asked for, or the first and last one: the version in one word, and how the credit ends.
DAYS = {
    ("2024-09-10",): ("final", "(final)"),
    ("2024-10-10",): ("final", "(final)"),
    ("2024-10-25",): ("preliminary", "(preliminary: ERA5T)"),
    ("2024-10-15", "2024-10-25"): ("mixed", "(partly preliminary, ERA5T: 2024-10)"),
    ("2024-11-10",): ("preliminary", "(preliminary: ERA5T)"),
    ("2024-12-10",): ("unknown", "(version not stated)"),
}
PLACE = ("--lat", "10.5", "--lon", "20", "--column", "t2m")


@pytest.fixture(scope="module")
def loaded(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """A warehouse with a month of each kind."""
    make = VersionedMonths(tmp_path_factory.mktemp("months"))
    with fresh_warehouse(server_url) as warehouse:
        load_month(warehouse, make(FINAL, month="2024-08", source="sample"))
        load_month(warehouse, make(FINAL, month="2024-09"))
        load_month(warehouse, make(MIXED, month="2024-10"))
        load_month(warehouse, make(PRELIMINARY, month="2024-11"))
        load_month(warehouse, make("", month="2024-12"))
        yield warehouse


@pytest.fixture
def here(loaded: Warehouse, here: InProcess) -> InProcess:
    """The command, on this warehouse."""
    here.set(ERA5_DATABASE_URL=loaded.url)
    return here


@pytest.fixture(scope="module")
def client(loaded: Warehouse) -> Iterator[httpx.Client]:
    with served(loaded) as opened:
        yield opened


@pytest.mark.parametrize(("days", "version", "ends"), [(days, *said) for days, said in DAYS.items()])
def test_hours_of_a_place_have_their_own_version(
    here: InProcess, client: httpx.Client, loaded: Warehouse, days: tuple[str, ...], version: str, ends: str
) -> None:
    first, last = days[0], days[-1]
    asked = ("series", *PLACE, "--from", first, "--to", last)
    months = f"{version}: {first[:7]}"
    found = here.run(*asked, "--format", "json").json()
    assert (found["era5_versions"], found["credit"]) == (months, f"{_BEGIN} {ends}")
    assert here.run(*asked, "--format", "csv").err.splitlines() == [f"{_BEGIN} {ends}"]
    assert here.run(*asked).out.splitlines()[-1] == f"{_BEGIN} {ends}"
    here.run(*asked, "--plot", "series.svg")
    assert ends in " ".join((here.home / "series.svg").read_text().split())
    answer = client.get(
        "/v1/archive",
        params={"latitude": 10.5, "longitude": 20, "start_date": first, "end_date": last, "hourly": "temperature_2m"},
    )
    assert answer.json()["era5"]["versions"] == [version]
    assert answer.headers["x-era5-versions"] == version
    assert answer.headers["x-era5-credit"] == f"{_BEGIN} {ends}"
    with open_database(loaded.url) as database:
        frame = database.series(latitude=10.5, longitude=20, columns="t2m", start=first, end=last)
    assert (frame.attrs["era5_versions"], frame.attrs["credit"]) == (months, f"{_BEGIN} {ends}")


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        (("--month", "2024-09"), "(final)"),
        (("--month", "2024-10"), "(partly preliminary, ERA5T: 2024-10)"),
        (("--day", "2024-10-10"), "(final)"),
        (("--time", "2024-10-21T00"), "(preliminary: ERA5T)"),
        (("--time", "2024-10-20T23"), "(final)"),
        (("--month", "2024-11"), "(preliminary: ERA5T)"),
        (("--month", "2024-12"), "(version not stated)"),
    ],
)
def test_a_map_has_the_version_in_its_credit(here: InProcess, options: tuple[str, ...], ends: str) -> None:
    printed = here.run("map", "--column", "t2m", *options, "--out", "map.svg")
    assert printed.out.rstrip().endswith(f"({_BEGIN} {ends})")
    drawn = " ".join((here.home / "map.svg").read_text().split())
    # On a narrow map the credit has two lines.
    assert all(f" {word}" in drawn or f"{word} " in drawn for word in ends.split())


def test_an_animation_has_the_version_of_its_hours(here: InProcess) -> None:
    asked = ("map", "--column", "t2m", "--every", "12h", "--out", "map.gif")
    assert f"{_BEGIN} (preliminary: ERA5T)" in here.run(*asked, "--day", "2024-10-25").out
    assert f"{_BEGIN} (final)" in here.run(*asked, "--day", "2024-10-10").out


def test_hours_of_several_versions_name_the_months(here: InProcess, loaded: Warehouse) -> None:
    found = here.run("series", *PLACE, "--format", "json").json()
    assert found["era5_versions"] == (
        "final: 2024-09; generated: 2024-08; mixed: 2024-10; preliminary: 2024-11; unknown: 2024-12"
    )
    assert found["credit"] == (
        f"{_BEGIN} (partly preliminary, ERA5T: 2024-10 to 2024-11; version not stated: 2024-12; others final); "
        "some months are generated sample data, not ERA5"
    )
    assert found["notice"].startswith("Partly generated")
    with open_database(loaded.url) as database:
        dataset = database.dataset(columns="t2m", start="2024-10", end="2024-11")
    assert dataset.attrs["era5_versions"] == "mixed: 2024-10; preliminary: 2024-11"
    # The rain of October is final.
    rain = here.run("series", *PLACE[:4], "--column", "tp", "--from", "2024-10", "--format", "json").json()
    assert rain["era5_versions"] == "final: 2024-10"


def test_a_generated_month_is_never_called_final(here: InProcess, client: httpx.Client, loaded: Warehouse) -> None:
    asked = ("series", *PLACE, "--from", "2024-08", "--to", "2024-08")
    found = here.run(*asked, "--format", "json").json()
    assert (found["era5_versions"], found["credit"]) == ("generated: 2024-08", SAMPLE)
    assert found["notice"].startswith("Generated sample data")
    assert here.run(*asked, "--format", "csv").err == f"{SAMPLE}\n"
    status = here.months()["2024-08"]
    assert (status["version"], status["parts"][0]["version"]) == ("generated", "generated")
    assert "1 generated" in here.run("status").out
    here.run("export", *PLACE, "--from", "2024-08", "--out", "hours.parquet")
    metadata = pq.read_schema(here.home / "hours.parquet").metadata
    assert (metadata[b"era5_versions"], metadata[b"title"]) == (b"generated: 2024-08", SAMPLE.encode())
    day = {"start_date": "2024-08-10", "end_date": "2024-08-10", "hourly": "temperature_2m"}
    answer = client.get("/v1/archive", params={"latitude": "10.5", "longitude": "20", **day})
    assert answer.headers["x-era5-versions"] == "generated"
    with open_database(loaded.url) as database:
        assert database.months()["version"].tolist() == ["generated", "final", "mixed", "preliminary", "unknown"]
        field = database.field("t2m", time="2024-08-10T12")
        assert (field.attrs["era5_versions"], field.attrs["credit"]) == ("generated: 2024-08", SAMPLE)
        database.export(here.home / "hours.nc", columns="t2m", start="2024-08", end="2024-08")
    with xr.open_dataset(here.home / "hours.nc") as exported:
        assert set(exported["expver"].values.tolist()) == {""}
    with loaded.connect() as connection:
        rows = connection.execute("SELECT month, versions FROM era5.month ORDER BY month LIMIT 2").fetchall()
    assert [version for _, version in rows] == ["generated", "final"]


# ---- trends: twenty Julys, the last of which is preliminary


@pytest.fixture(scope="module")
def julys(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    make = VersionedMonths(tmp_path_factory.mktemp("julys"))
    with fresh_warehouse(server_url) as warehouse:
        for year in range(2001, 2021):
            version = PRELIMINARY if year == 2020 else FINAL
            load_month(warehouse, make(version, month=f"{year}-07", names=("t2m",)))
        # A month of another part of the year, which no answer here uses.
        load_month(warehouse, make("", month="2010-01", names=("t2m",)))
        with warehouse.connect() as connection:
            # Much warmer each year, so that each trend is significant.
            connection.execute(
                "UPDATE era5.monthly_summary "
                "SET temperature_2m_mean = temperature_2m_mean + extract(year FROM month) - 2000"
            )
        yield warehouse


@pytest.fixture
def trends(julys: Warehouse, here: InProcess) -> InProcess:
    """The command, on the Julys."""
    here.set(ERA5_DATABASE_URL=julys.url)
    return here


@pytest.fixture
def generated(julys: Warehouse) -> Iterator[None]:
    """Call the Julys generated for a test."""
    with julys.connect() as connection:
        connection.execute("UPDATE era5.ledger SET source = 'sample'")
        yield
        connection.execute("UPDATE era5.ledger SET source = 'cds'")


EVERYWHERE = ("climate", "--everywhere", "--calendar-month", "7", "--baseline", "2001-2020")
CREDIT = (
    "Contains modified Copernicus Climate Change Service information 2001 to 2020; data ERA5, C3S/ECMWF "
    "(partly preliminary, ERA5T: 2020-07; others final)"
)


def written_rows(trends: InProcess) -> list[dict[str, str]]:
    with (trends.home / "trends.csv").open() as file:
        return list(csv.DictReader(file))


def saved_rows(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    with warehouse.connect() as connection:
        return connection.execute("SELECT version, slope, low, high FROM weather_trend").fetchall()


def test_trends_everywhere_say_the_version(trends: InProcess, julys: Warehouse) -> None:
    out = trends.run(*EVERYWHERE, "--out", "trends.csv", "--save").out.splitlines()
    assert "significant at 6 of 6 (false discovery rate 10 %" in out[0]
    assert out[1] == CREDIT
    assert {row["version"] for row in written_rows(trends)} == {"mixed"}
    assert all(row["low"] and row["high"] for row in written_rows(trends))
    assert {row[0] for row in saved_rows(julys)} == {"mixed"}
    trends.run(*EVERYWHERE, "--out", "trends.parquet")
    table = pq.read_table(trends.home / "trends.parquet")
    assert table.schema.metadata == {
        b"era5_versions": b"final: 2001-07, 2002-07, 2003-07 and 16 more months; preliminary: 2020-07",
        b"credit": CREDIT.encode(),
    }
    trends.run(*EVERYWHERE, "--out", "trends.svg")
    drawn = (trends.home / "trends.svg").read_text()
    assert "2020-07" in drawn
    assert "significant (false discovery rate" in drawn
    printed = trends.run("map", "--column", "t2m", "--trend", "2001-2020", "--calendar-month", "7", "--out", "a.svg")
    assert "significant at 6 of 6" in printed.out
    assert CREDIT in printed.out
    anomaly = ("map", "--column", "t2m", "--month", "2019-07", "--anomaly", "--baseline", "2001-2019", "--out", "b.svg")
    assert "2001 to 2019; data ERA5, C3S/ECMWF (final)" in trends.run(*anomaly).out


@pytest.mark.usefixtures("generated")
def test_no_trend_of_generated_data_is_significant(trends: InProcess, julys: Warehouse) -> None:
    out = trends.run(*EVERYWHERE, "--out", "trends.csv", "--save").out.splitlines()
    assert out[0].startswith("Generated sample data, not ERA5")
    assert "no trend is significant" in out[1]
    assert "significant at" not in out[1]
    assert out[2] == SAMPLE
    rows = written_rows(trends)
    assert {(row["version"], row["low"], row["high"]) for row in rows} == {("generated", "", "")}
    assert all(row["slope"] for row in rows)
    assert {(version, low, high) for version, _, low, high in saved_rows(julys)} == {("generated", None, None)}
    trends.run(*EVERYWHERE, "--out", "trends.parquet")
    metadata = pq.read_schema(trends.home / "trends.parquet").metadata
    assert metadata[b"notice"].startswith(b"Generated sample data")
    trends.run(*EVERYWHERE, "--out", "trends.svg")
    of_map = ("map", "--column", "t2m", "--trend", "2001-2020", "--calendar-month", "7", "--out", "map.svg")
    assert "significant at" not in trends.run(*of_map).out
    for name in ("trends.svg", "map.svg"):
        drawn = (trends.home / name).read_text()
        assert "generated data: no trend is significant" in drawn
        assert "dots" not in drawn
        assert SAMPLE in drawn


def test_generated_years_of_the_baseline_alone_are_enough_to_draw_no_conclusion(
    trends: InProcess, julys: Warehouse
) -> None:
    with julys.connect() as connection:
        connection.execute("UPDATE era5.ledger SET source = 'sample' WHERE month = '2005-07-01'")
        try:
            out = trends.run(*EVERYWHERE, "--out", "trends.csv").out
        finally:
            connection.execute("UPDATE era5.ledger SET source = 'cds'")
    assert out.startswith("Partly generated sample data")
    assert {(row["version"], row["low"]) for row in written_rows(trends)} == {("partly generated", "")}
