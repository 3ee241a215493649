"""`era5 plan`: with measurements of earlier loads, with an empty warehouse, and without a warehouse."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from rich.filesize import decimal

from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import read_settings
from era5_pipeline.model.variables import find_variables
from era5_pipeline.postgres.urls import with_database
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space
from era5_pipeline_tests.commands import InProcess, assert_explained, in_a_terminal, new_home
from era5_pipeline_tests.warehouse.loads import ask
from era5_pipeline_tests.zarr_stores import BOXES, hours_between, write_store

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.servers import Host

ALL_OF_ERA5 = ("plan", "--from", "1940-01", "--to", "2024-12")


@pytest.fixture
def nowhere(here: InProcess) -> Path:
    """An ERA5_HOME that does not exist."""
    home = here.home / "not" / "made"
    here.set(ERA5_HOME=str(home))
    return home


@pytest.fixture(scope="session")
def sample_months(tmp_path_factory: pytest.TempPathFactory) -> tuple[FlatMonth, ...]:
    """January and February 2024 around Jakarta, generated and flattened."""
    settings = read_settings(home=tmp_path_factory.mktemp("plan"), source="sample")
    flats = []
    for month in (Month(2024, 1), Month(2024, 2)):
        run_raw(settings, month)
        flats.append(run_flat(settings, month).flat)
    return tuple(flats)


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_plan_uses_measurements_of_this_warehouse(
    here: InProcess, warehouse: Warehouse, host: Host, sample_months: tuple[FlatMonth, ...]
) -> None:
    for flat in sample_months:
        load_month(warehouse, flat)
    here.set(ERA5_DATABASE_URL=warehouse.url)
    asked = ("plan", "--from", "2023-12", "--to", "2024-06", "--source", "sample")
    value = here.run(*asked, "--json").json()
    assert (value["months"], value["months_loaded"], value["months_to_load"]) == (7, 2, 5)
    assert (value["first_to_load"], value["last_to_load"], value["layout"]) == ("2023-12", "2024-06", host.layout)
    hours = (31 + 31 + 30 + 31 + 30) * 24
    assert (value["rows"], value["fields"], value["values"]) == (hours * 121, hours * 6, hours * 121 * 6)
    with warehouse.connect() as connection:
        entries = [part for held in read_ledger(connection) for part in held.parts]
        space = read_space(connection)
    bytes_per_row = sum(entry.flat_bytes for entry in entries) / sum(entry.rows for entry in entries)
    assert value["parquet_bytes"] == pytest.approx(bytes_per_row * value["rows"], abs=1)
    assert value["table_bytes"] / value["rows"] == pytest.approx(space.bytes_per_row, rel=0.2)
    measured = ("raw_bytes", "parquet_bytes", "table_bytes", "raw_hours", "all_but_raw_hours")
    assert all(value["known_from"][name].startswith("measured here on 2 months: ") for name in measured)
    lines = lines_of(here.run(*asked).out)
    assert "loaded already 2 2024-01 to 2024-02" in lines
    assert "to load 5 2023-12, 2024-03 to 2024-06" in lines
    assert f"rows {value['rows']:,} 121 locations x {hours:,} hours" in lines
    assert any(
        line.startswith(f"Parquet {decimal(round(value['parquet_bytes']))} measured here on 2 months: ")
        for line in lines
    )


def test_a_plan_says_what_a_load_replaces(
    here: InProcess, warehouse: Warehouse, sample_months: tuple[FlatMonth, ...]
) -> None:
    load_month(warehouse, sample_months[0])
    here.set(ERA5_DATABASE_URL=warehouse.url)
    plan = ("plan", "--from", "2024-01", "--to", "2024-02", "--source", "sample")

    def rows_of(area: str) -> list[str]:
        printed = " ".join(here.run(*plan, f"--area={area}").out.split())
        return re.findall(r"held \w+ 1 2024-01: [^;,]+[;,] [a-z ]+", printed)

    # Loads of both show that this is true: `warehouse/test_parts`.
    (overlapping,) = rows_of("-7/106/-9/108")
    assert overlapping.startswith("held otherwise 1 2024-01: from another source,")
    (elsewhere,) = rows_of("50/0/49/1")
    assert elsewhere.startswith("held elsewhere 1 2024-01: only other places, which a load leaves as they are")


@pytest.mark.usefixtures("nowhere")
def test_one_hour_is_no_hours(here: InProcess) -> None:
    here.set(ERA5_SAMPLE_HOURS="1")
    lines = lines_of(here.run("plan", "--from", "2024-01", "--source", "sample", "--area", "0/100/0/100").out)
    assert "rows 1 1 location x 1 hour" in lines


def test_plan_creates_nothing_in_an_empty_database(here: InProcess, empty_warehouse: Warehouse, host: Host) -> None:
    here.set(ERA5_DATABASE_URL=empty_warehouse.url)
    value = here.run("plan", "--from", "2024-01", "--json").json()
    assert (value["months_loaded"], value["months_to_load"]) == (0, 1)
    # Without the extension, a TimescaleDB server may not report its edition.
    assert value["layout"] in ({host.layout} if host.license is None else {host.layout, None})
    left = "SELECT count(*) FROM pg_namespace WHERE nspname = 'era5' OR nspname LIKE '%%timescaledb%%'"
    assert ask(empty_warehouse.url, left) == 0
    assert ask(empty_warehouse.url, "SELECT to_regclass('weather')::text") is None


def test_plan_without_a_home_creates_and_requests_nothing(
    here: InProcess, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a plan asks nobody")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("HOME", str(here.home))
    before = sorted(here.home.rglob("*"))
    for source in ("cds", "arco", "files", "sample"):
        printed = here.run("plan", "--from", "2024-01", "--source", source)
        assert "loaded already 0" in lines_of(printed.out)
        assert printed.err == ""
        value = here.run("plan", "--from", "2024-01", "--source", source, "--json").json()
        assert (value["source"], value["months_loaded"], value["layout"]) == (source, 0, "partitions")
        assert value["home_free_bytes"] > 0
    assert sorted(here.home.rglob("*")) == before
    assert not nowhere.exists()


@pytest.mark.usefixtures("nowhere")
def test_plan_of_all_of_era5_is_readable(here: InProcess) -> None:
    here.set(COLUMNS="120")
    printed = here.run(*ALL_OF_ERA5, "--source", "cds").out
    lines = printed.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120
    assert lines == [line.rstrip() for line in lines]
    told = lines_of(printed)
    assert "rows 773,621,694,720 1,038,240 locations x 745,128 hours" in told
    assert any(line.startswith("requests 1,020 ") and "4,464 fields of 16,368 allowed, fits" in line for line in told)
    assert "(assumed until a month is measured here: 30 minutes a request, 2 at once)" in " ".join(told)
    value = here.run(*ALL_OF_ERA5, "--source", "cds", "--json").json()
    assert value["rows"] == 773_621_694_720
    # No test machine has enough free disk for this: a warning, not an error.
    assert any("disk of ERA5_HOME" in text for text in value["warnings"])
    joined = without_free_bytes(" ".join(told))
    assert all(without_free_bytes(text) in joined for text in value["warnings"])


@pytest.mark.usefixtures("nowhere")
def test_plan_of_a_calendar_month_of_many_years(here: InProcess) -> None:
    julys = ("plan", "--from", "1991", "--to", "2020", "--calendar-month", "7", "--area", "-5/106/-8/108")
    lines = lines_of(here.run(*julys).out)
    assert "to load 30 1991-07, 1992-07, 1993-07 and 27 more months" in lines
    value = here.run(*julys, "--json").json()
    assert (value["months"], value["from"], value["to"], value["calendar_months"]) == (30, "1991-07", "2020-07", [7])
    assert value["hours_of_data"] == 30 * 744
    assert here.run("plan", "--from", "1991", "--to", "2020", "--json").json()["calendar_months"] is None


def without_free_bytes(text: str) -> str:
    """The text without free disk space, which changes from one command to the next."""
    return re.sub(r"has [\d.]+ \w+ free", "has room", text)


def test_names_and_areas_stay_whole_in_a_terminal(tmp_path: Path) -> None:
    """A real one, of 100 columns, which asks for its width; those of other commands: COLUMNS, in this process."""
    area, months = "60/-10/35/30", ("--from", "1940", "--to", "2024")
    names = "t2m,instantaneous_eastward_turbulent_surface_stress,tp"
    plan = ("plan", *months, "--area", area, "--variables", names)
    with in_a_terminal(tmp_path, *plan) as (_, terminal):
        terminal.read_all()
    printed = re.sub(r"\x1b\[[\d;]*m", "", terminal.written)
    columns = {variable.column for variable in find_variables(names)}
    assert {area, "1940-01", "2024-12", *columns} <= set(printed.replace(",", " ").split())
    assert "…" not in printed
    assert 80 < max(map(len, printed.splitlines())) <= 100


def test_stopped_embedded_server_is_not_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_home() as home:
        here = InProcess(capsys, monkeypatch, home.path)
        here.run("db", "init")
        assert not home.server.is_running()
        before = {path: path.stat().st_mtime_ns for path in home.path.rglob("*")}
        value = here.run("plan", "--from", "2024-01", "--json").json()
        assert not home.server.is_running()
        assert {path: path.stat().st_mtime_ns for path in home.path.rglob("*")} == before
        assert (value["months_loaded"], value["months_to_load"], value["layout"]) == (None, 1, "partitions")
        assert "is not running" in value["loaded_not_known"]
        here.run("db", "start")
        assert here.run("plan", "--from", "2024-01", "--json").json()["months_loaded"] == 0


@pytest.mark.usefixtures("nowhere")
def test_missing_database_is_not_created(here: InProcess, server_url: str) -> None:
    here.set(ERA5_DATABASE_URL=with_database(server_url, "era5_never_made"))
    printed = here.run("plan", "--from", "2024-01", "--to", "2024-03")
    assert "there is no database 'era5_never_made' on the server" in printed.out
    assert "loaded already 0" in " ".join(printed.out.split())
    value = here.run("plan", "--from", "2024-01", "--json").json()
    assert (value["months_loaded"], value["months_to_load"], value["table_free_bytes"]) == (0, 1, None)
    with psycopg.connect(server_url) as connection:
        assert connection.execute("SELECT FROM pg_database WHERE datname = 'era5_never_made'").fetchone() is None


@pytest.mark.usefixtures("nowhere")
def test_unreachable_server_is_reported_in_the_plan(here: InProcess) -> None:
    here.set(ERA5_DATABASE_URL="postgresql://me:correct-horse@127.0.0.1:9/nowhere")
    printed = here.run("plan", "--from", "2024-01")
    assert "not known: postgresql://me@127.0.0.1:9/nowhere" in printed.out
    assert "correct-horse" not in printed.out + printed.err


@pytest.mark.usefixtures("nowhere")
def test_future_months_are_named(here: InProcess) -> None:
    now = Month.of(datetime.now(tz=UTC))
    following = Month.from_number(now.number + 1)
    printed = here.run("plan", "--from", "2024-01", "--to", str(following), "--source", "cds")
    lines = lines_of(printed.out)
    assert f"not begun 1 {following}" in lines
    assert any(line.startswith("not complete yet ") and line.endswith(str(now)) for line in lines)
    assert f"warning: {following} has not begun, and is not counted; end with --to {now}" in lines


@pytest.mark.usefixtures("nowhere")
def test_a_plan_of_no_months_is_refused(here: InProcess) -> None:
    printed = here.run("plan", code=2)
    assert_explained(printed, "no months to plan are given", "--from YYYY-MM")
    assert printed.out == ""


def test_plan_follows_what_is_kept_and_where(here: InProcess) -> None:
    everything = here.run(*ALL_OF_ERA5, "--source", "cds", "--json").json()
    here.set(ERA5_STORE="s3://bucket/era5", ERA5_KEEP="flat")
    printed = here.run(*ALL_OF_ERA5, "--source", "cds").out
    assert any(
        re.fullmatch(r"store [\d.]+ TB at most at one time; [\d.]+ TB are kept \(s3://bucket/era5\)", line)
        for line in lines_of(printed)
    )
    assert "at one time (months in progress: 4)" in printed
    value = here.run(*ALL_OF_ERA5, "--source", "cds", "--json").json()
    assert (value["keep"], value["store"], value["months_at_once"]) == ("flat", "s3://bucket/era5", 4)
    assert value["home_needed_bytes"] < 0.01 * everything["home_needed_bytes"]
    assert value["store_needed_bytes"] > value["parquet_bytes"]


def test_a_plan_of_a_zarr_store_counts_its_chunks(here: InProcess, nowhere: Path) -> None:
    write_store(here.home / "store", BOXES, hours_between(Month(2020, 1), Month(2020, 3)))
    asked = ("plan", "--from", "2020-02", "--store", "store", "--area", "50/0/49/1")
    value = here.run(*asked, "--json").json()
    assert value["source"] == "zarr"
    assert value["variables"] == ["temperature_2m", "total_precipitation"]
    assert value["requests"] == value["chunks"]["requests"] == 2
    assert value["chunks"]["months_within"] == ["2020-01", "2020-03"]
    assert 0 < value["download_bytes"] == value["chunks"]["bytes"] < value["chunks"]["decoded_bytes"]
    lines = lines_of(here.run(*asked).out)
    assert "chunks 2 of 2184 x 21 x 21 (hours x latitudes x longitudes); each is read once" in lines
    assert not nowhere.exists()
    whole = here.run("plan", "--from", "2020-02", "--store", "store", "--json").json()
    assert (whole["area"], whole["locations"]) == ("52/-2.5/47/2.5", 21 * 21)


def test_a_store_that_is_not_there_is_told(here: InProcess) -> None:
    printed = here.run("plan", "--from", "2020-02", "--store", "nothing-here", code=8)
    assert_explained(printed, "there is no Zarr store at", "--store")
    printed = here.run("plan", "--from", "2020-02", "--source", "cds", "--store", "a.zarr", code=2)
    assert_explained(printed, "the source cds does not take a store", "--source zarr")
