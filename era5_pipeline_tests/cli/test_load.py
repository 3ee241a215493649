"""`era5 load`: output, loaded rows, and errors."""

from __future__ import annotations

import dataclasses
import os
import pty
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from rich.filesize import decimal

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.months import Month
from era5_pipeline_tests.arco_store import served
from era5_pipeline_tests.commands import (
    Home,
    InProcess,
    assert_explained,
    environment,
)
from era5_pipeline_tests.era5_files import joined_months
from era5_pipeline_tests.pipelines import SMALL
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK
from era5_pipeline_tests.stores import free_port
from era5_pipeline_tests.zarr_stores import BOXES, hours_between, write_repository, write_store

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

SMALL_SAMPLE = ("--source", "sample", "--area", SMALL["area"])


def test_values_that_wrapped_are_named_by_the_load_and_kept_in_the_ledger(
    here: InProcess, warehouse: Warehouse, tmp_path: Path
) -> None:
    (tmp_path / "era5").mkdir()
    joined_months(tmp_path / "era5" / "x.nc", "t2m", wraps=True)
    here.set(ERA5_DATABASE_URL=warehouse.url)
    done = here.run("load", "--files-dir", str(tmp_path / "era5"), "--json")
    june, july = done.json()
    assert june["warnings"] == []
    (warning,) = july["warnings"]
    assert "temperature_2m jumps by about the range of its packed numbers" in warning
    (_, part) = here.run("status", "--json").json()
    assert part["parts"][0]["warnings"] == [warning]
    assert f"era5: 2023-07: {warning}" in here.run("load", "--files-dir", str(tmp_path / "era5"), "--force").err


def in_terminal_here(here: InProcess, typed: str, *arguments: str, code: int) -> str:
    """Run the command in this process, on a terminal in which `typed` was typed; return what it writes there."""
    master, slave = pty.openpty()
    with ThreadPoolExecutor(1) as threads, os.fdopen(master, "r+b", buffering=0) as other_end:
        other_end.write(typed.encode())
        with os.fdopen(slave) as reader, os.fdopen(os.dup(slave), "w") as writer, pytest.MonkeyPatch.context() as patch:
            written = threads.submit(_all_of, other_end)
            patch.setattr(sys, "stdin", reader)
            patch.setattr(sys, "stderr", writer)
            here.run(*arguments, code=code)
        return written.result()


def _all_of(file: FileIO) -> str:
    """All that is written to the terminal until its other side is closed."""
    read = b""
    with suppress(OSError):
        while more := file.read(1 << 16):
            read += more
    return read.decode()


def table_of(out: str) -> dict[str, list[str]]:
    """The printed cells of each month."""
    return {words[0]: words[1:] for words in map(str.split, out.splitlines()) if re.match(r"\d{4}-\d\d$", words[0])}


def test_months_that_have_not_changed_are_told_without_importing_dagster(
    on_server: InProcess, embedded_warehouse: Warehouse
) -> None:
    months = ("load", "--source", "sample", "--from", "2023-01", "--area", "10/20/10/20")
    on_server.run(*months)
    assert "dagster" in sys.modules
    code = (
        f"import sys; from era5_pipeline.cli import main; sys.argv = ['era5', *{months!r}]\n"
        "try: main()\nfinally: print('dagster' in sys.modules)"
    )
    again = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(on_server.home, ERA5_DATABASE_URL=embedded_warehouse.url),
        cwd=on_server.home,
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    ).stdout
    assert again.endswith("False\n")
    assert "nothing changed" in again


def test_months_of_a_zarr_store_read_each_chunk_once(on_server: InProcess) -> None:
    months = [Month(2020, 1), Month(2020, 2)]
    cut = dataclasses.replace(BOXES, chunk=(24 * 60, 16, 16))
    write_store(on_server.home / "store", cut, hours_between(months[0], months[1]), ("temperature_2m",))
    (on_server.home / "token").write_text("hush-7d1f")
    with served(on_server.home / "store", with_ranges=True) as web:
        web.wanted_authorization, web.status = "Bearer hush-7d1f", 401
        asked = ("load", "--from", "2020-01", "--to", "2020-02", "--store", web.url, "--area", "51/0/49/1")
        refused = on_server.run(*asked, code=8)
        assert_explained(refused, "status 401", "ERA5_ZARR_TOKEN_FILE")
        on_server.set(ERA5_ZARR_TOKEN_FILE=str(on_server.home / "token"))
        web.requested.clear()
        printed = on_server.run(*asked, "--variables", "t2m")
        assert {month: words[:3] for month, words in table_of(printed.out).items()} == {
            "2020-01": ["loaded", "33,480", "744/744"],
            "2020-02": ["loaded", "31,320", "696/696"],
        }
        chunks = [path for path in web.requested if path.startswith("/t2m/c/")]
        assert len(chunks) == len(set(chunks)) == 2
        web.requested.clear()
        assert "nothing changed" in on_server.run(*asked, "--variables", "t2m").out
        assert web.requested == []
    assert on_server.months()["2020-02"]["source"] == "zarr"
    texts = [path.read_text(errors="replace") for path in on_server.home.rglob("*") if path.is_file()]
    assert sum("hush-7d1f" in text for text in texts) == 1


@NEEDS_ICECHUNK
def test_the_open_store_is_a_source_and_a_store_by_its_name(on_server: InProcess) -> None:
    write_repository(on_server.home / "copy", hours_between(Month(2020, 1), Month(2020, 2)), ("temperature_2m",))
    on_server.set(ERA5_EARTHMOVER_URL=f"icechunk+file://{on_server.home / 'copy'}")
    asked = ("--area", "51/0/49/1", "--variables", "t2m")
    plan = on_server.run(
        "plan", "--from", "2020-01", "--to", "2020-02", "--store", "earthmover", *asked, "--json"
    ).json()
    # Of 12 x 12 places and 364 hours: 4 in time, 2 x 2 in space.
    assert (plan["source"], plan["chunks"]["chunk"], plan["requests"]) == ("earthmover", [364, 12, 12], 16)
    on_server.run("load", "--from", "2020-01", "--store", "earthmover", *asked)
    on_server.run("load", "--from", "2020-02", "--source", "earthmover", *asked)
    assert {month: entry["source"] for month, entry in on_server.months().items()} == {
        "2020-01": "earthmover",
        "2020-02": "earthmover",
    }
    assert "nothing changed" in on_server.run("load", "--from", "2020-01", "--store", "earthmover", *asked).out
    (snapshot,) = {entry["parts"][0]["snapshot"]["id"] for entry in on_server.run("status", "--json").json()}
    series = on_server.run("series", "--lat", "50", "--lon", "0.5", "--json").json()
    assert re.fullmatch(rf"{snapshot} of \d{{4}}-\d\d-\d\d: 2020-01 to 2020-02", series["snapshots"])
    on_server.set(ERA5_EARTHMOVER_URL=f"icechunk+file://{on_server.home / 'nowhere'}")
    assert_explained(
        on_server.run("load", "--from", "2020-03", "--source", "earthmover", code=8), "there is no Icechunk repository"
    )


@NEEDS_ICECHUNK
def test_a_place_alone_is_all_that_the_open_store_has_of_it(on_server: InProcess) -> None:
    """The last two days are of a month that is not complete there."""
    hours = hours_between(Month(2020, 1), Month(2020, 2))
    write_repository(on_server.home / "copy", range(hours.start, hours.stop + 48), ("temperature_2m",))
    on_server.set(ERA5_EARTHMOVER_URL=f"icechunk+file://{on_server.home / 'copy'}")
    place = ("--lat", "49.9", "--lon", "-0.9", "--variables", "t2m")
    plan = on_server.run("plan", *place, "--json").json()
    assert (plan["source"], plan["months"], plan["rows"]) == ("earthmover", 2, 1440)
    on_server.run("load", *place)
    loaded = {month: entry["parts"][0]["place"] for month, entry in on_server.months().items()}
    assert loaded == {"2020-01": "50/-1", "2020-02": "50/-1"}
    assert on_server.run("load", *place).out.count("unchanged") == 2
    on_server.run("load", *place, "--tile", "--from", "2020-01")
    assert sum(part["locations"] for part in on_server.months()["2020-01"]["parts"]) == 12 * 12
    assert_explained(
        on_server.run("load", *place, "--area", "51/0/49/1", code=2), "a place and an area are given", "Leave one"
    )
    assert_explained(on_server.run("load", "--tile", "--from", "2020-01", code=2), "--tile is for a place")


def test_a_real_point_series_as_csv(on_server: InProcess, point_series: Path) -> None:
    bremen = ("load", "--files-dir", str(point_series / "bremen-2024-2026-csv-zip"))
    printed = on_server.run(*bremen, "--from", "2024-02", "--to", "2024-03")
    assert {month: words[:3] for month, words in table_of(printed.out).items()} == {
        "2024-02": ["loaded", "696", "696/696"],
        "2024-03": ["loaded", "744", "744/744"],
    }
    assert_explained(on_server.run(*bremen, "--from", "2026-03", code=4), "latest hour there is 2026-03-05 23:00 UTC")
    entries = on_server.run("status", "--json").json()
    assert {entry["month"]: (entry["state"], entry["version"]) for entry in entries} == {
        "2024-02": ("loaded", "unknown"),
        "2024-03": ("loaded", "unknown"),
        "2026-03": ("failed", None),
    }
    printed = on_server.run("series", "--lat", "53", "--lon", "8.75", "--from", "2024-02-01T00", "--format", "csv")
    header, first, *_ = printed.out.splitlines()
    assert header == "time,temperature_2m,zonal_wind_10m,meridional_wind_10m"
    assert first.startswith("2024-02-01T00:00:00Z,")


def test_what_the_files_hold_besides_is_named_once_with_the_command_that_loads_it(
    on_server: InProcess, point_series: Path
) -> None:
    paris = ("load", "--files-dir", str(point_series / "paris-2024-nc-zip"), "--from", "2024-02", "--to", "2024-03")
    for _ in range(2):  # loaded, then unchanged
        printed = on_server.run(*paris)
        (said,) = [line for line in printed.err.splitlines() if "the files also hold" in line]
        assert re.search(r"also hold .*\bd2m\b.*, which a load without --variables leaves out", said)
        command = shlex.split(said.partition("to load them: ")[2])
        assert command[:6] == ["era5", "load", "--from", "2024-02", "--to", "2024-03"]
    assert set(table_of(on_server.run(*command[1:]).out)) == {"2024-02", "2024-03"}
    held = on_server.run("status", "--json").json()[0]["variables"]
    assert {"temperature_2m", "dewpoint_2m", "surface_pressure"} <= set(held)
    # Who names variables is not told of others.
    assert "also hold" not in on_server.run(*command[1:]).err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        pytest.param(["--from", "1939-12"], "1939-12 is before ERA5 begins", id="before ERA5"),
        pytest.param(["--from", "2999-01"], "2999-01 is in the future", id="future"),
        pytest.param(["--from", "2023-01", "--to", "2999-01"], "2999-01 is in the future", id="to the future"),
        pytest.param(["--from", "2023-01", "--calendar-month", "7"], "none of these is calendar month 7", id="no July"),
        pytest.param(["--calendar-month", "7"], "no months to load are given", id="calendar month alone"),
        pytest.param(["--to", "2023-01"], "--to was given without --from", id="to alone"),
        pytest.param([], "no months to load are given", id="nothing"),
        pytest.param(["--files-dir", "nowhere"], "nowhere does not exist", id="no folder"),
        pytest.param(["--source", "files"], "needs a folder", id="files without a folder"),
        pytest.param(["--from", "2023-01", "--sample-hours", "1000"], "ERA5_SAMPLE_HOURS", id="hours"),
    ],
)
def test_invalid_options_are_refused_before_anything_starts(here: InProcess, arguments: list[str], what: str) -> None:
    printed = here.run("load", *arguments, code=2)
    assert_explained(printed, what)
    assert printed.out == ""
    assert not (here.home / "postgres").exists()


GLOBE = ("load", "--from", "2023-01", "--to", "2023-02", "--source", "sample", "--area", "global")
NOWHERE = {"ERA5_DATABASE_URL": "postgresql://me@127.0.0.1:9/nowhere"}


def assert_asked_and_nothing_changed(here: InProcess, arguments: tuple[str, ...], written: str) -> None:
    plan: Any = here.run("plan", *arguments[1:], "--json").json()
    assert f"{plan['rows']:,} rows" in written
    for name in ("download", "raw files", "Parquet", "table"):
        size = decimal(plan[f"{name.split()[0].lower()}_bytes"])
        assert (f"{name} {size}" in written) == (size != "0 bytes")
    assert "Traceback" not in written
    assert list(here.home.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        pytest.param(GLOBE, "n\n", id="sample, no"),
        pytest.param(("load", "--from", "2023-07"), "\n", id="cds, enter"),
        pytest.param(("load", "--from", "2023-07", "--source", "arco"), "\x04", id="arco, end of input"),
    ],
)
def test_a_load_of_the_globe_asks_in_a_terminal_and_a_no_changes_nothing(
    here: InProcess, arguments: tuple[str, ...], answer: str
) -> None:
    here.set(CDSAPI_URL="http://127.0.0.1:9", CDSAPI_KEY="x")
    written = in_terminal_here(here, answer, *arguments, code=1)
    assert "Load it? [y/N]" in written
    assert_asked_and_nothing_changed(here, arguments, written)


def test_a_load_of_the_globe_goes_on_after_a_yes_with_the_option_and_without_a_terminal(here: InProcess) -> None:
    """The database cannot be reached, which is said only once the load has begun."""
    here.set(**NOWHERE)
    written = in_terminal_here(here, "y\n", *GLOBE, code=5)
    assert "Load it? [y/N]" in written
    assert "loaded already are counted too: " in written
    assert "Load it?" not in in_terminal_here(here, "", *GLOBE, "--yes", code=5)
    assert "Load it?" not in here.run(*GLOBE, code=5).err


@NEEDS_ICECHUNK
def test_a_place_alone_asks_in_a_terminal_with_bytes_and_time(here: InProcess) -> None:
    write_repository(here.home / "copy", hours_between(Month(2020, 1), Month(2020, 1)), ("temperature_2m",))
    here.set(ERA5_EARTHMOVER_URL=f"icechunk+file://{here.home / 'copy'}", **NOWHERE)
    place = ("load", "--lat", "50", "--lon", "-1", "--variables", "t2m")
    written = in_terminal_here(here, "n\n", *place, code=1)
    assert "This loads all that earthmover has of 1 place: 1 month (2020-01), 744 rows" in written
    assert re.search(r"download [\d.]+ kB, .*, about \d+ s, as era5 plan estimates; for less, --from", written)
    assert "Load it?" not in in_terminal_here(here, "", *place, "--yes", code=5)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("load", "--from", "2023-01", "--to", "2023-02", *SMALL_SAMPLE), id="area"),
        pytest.param(("load", "--from", "2023-01", "--source", "point", "--lat", "1", "--lon", "2"), id="point"),
        pytest.param(("load", "--from", "2023-01", "--files-dir", "."), id="files"),
    ],
)
def test_other_loads_do_not_ask(here: InProcess, arguments: tuple[str, ...]) -> None:
    here.set(CDSAPI_KEY="x", **NOWHERE)
    assert "Load it?" not in in_terminal_here(here, "", *arguments, code=5)


@pytest.mark.parametrize(
    "arguments", [["--source", "cloud"], ["--source", "cds,cloud"], ["--sample-hours", "0"], ["--format", "xlsx"]]
)
def test_invalid_choice_is_named(here: InProcess, arguments: list[str]) -> None:
    printed = here.run("load", *arguments, code=2)
    assert arguments[0] in printed.err
    assert arguments[1].rpartition(",")[2] in printed.err


# All kinds of them: sources/test_files.
def test_bad_file_is_named(here: InProcess, era5_samples: Path) -> None:
    bad = str(era5_samples / "bad" / "truncated-hdf5.nc")
    printed = here.run("load", "--files-dir", bad, code=3)
    assert_explained(printed, bad)
    assert printed.out == ""


def test_grib_is_loaded_and_refused_without_its_library_with_the_command_that_installs_it(
    on_server: InProcess, era5_samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = era5_samples / "uk-2019-03-grib"
    files = ("load", "--files-dir", str(folder), "--allow-incomplete")
    with monkeypatch.context() as patch:
        # As Python behaves where the package is not installed.
        patch.setitem(sys.modules, "eccodes", None)
        printed = on_server.run(*files, code=3)
        assert_explained(printed, str(folder / "t2m.grib"), f"{sys.executable} -m pip install 'era5-pipeline[grib]'")
        # It is known now why; the file is not opened again for that.
        assert_explained(on_server.run(*files, code=3), "ecCodes", "pip install 'era5-pipeline[grib]'")
    assert table_of(on_server.run(*files).out)["2019-03"][:3] == ["incomplete", f"{24 * 33 * 49:,}", "24/744"]
    assert table_of(on_server.run(*files).out) == {"2019-03": ["unchanged"]}


def test_a_process_that_has_read_grib_ends_well(home: Home, era5_samples: Path) -> None:
    """Both ecCodes and psycopg bring a libldap, which took each other's memory at the end of the process."""
    folder = era5_samples / "uk-2019-03-grib"
    for _ in range(2):
        home.run("load", "--files-dir", str(folder), "--allow-incomplete", "--force", "--replace", code=0)


def test_sample_source_warns_about_generated_data(on_server: InProcess) -> None:
    printed = on_server.run("load", "--from", "2020-02", *SMALL_SAMPLE, "--format", "csv")
    assert "generated data, not ERA5" in printed.err
    assert [words[:2] for words in table_of(printed.out).values()] == [["loaded", "6,264"]]
    printed = on_server.run("load", "--from", "2020-02", *SMALL_SAMPLE, "--force")
    assert "replaced 6,264 rows" in printed.out


def test_a_calendar_month_of_several_years(on_server: InProcess) -> None:
    julys = (*SMALL_SAMPLE, "--from", "2020", "--to", "2021", "--calendar-month", "7")
    printed = on_server.run("load", *julys)
    assert list(table_of(printed.out)) == ["2020-07", "2021-07"]
    assert [month["month"] for month in on_server.run("status", "--json").json()] == ["2020-07", "2021-07"]
    more = on_server.run("load", *julys, "--from", "2021", "--calendar-month", "8,7", "--json").json()
    assert [(month["month"], month["state"]) for month in more] == [("2021-07", "unchanged"), ("2021-08", "loaded")]
    on_server.run("drop", "--from", "2021", "--calendar-month", "7", "--yes")
    held = [month["month"] for month in on_server.run("status", "--json").json() if month["parts"]]
    assert held == ["2020-07", "2021-08"]


def test_a_calendar_month_of_what_the_files_hold(on_server: InProcess, era5_samples: Path) -> None:
    gulf = ("load", "--files-dir", str(era5_samples / "gulf-2023"), "--calendar-month")
    assert list(table_of(on_server.run(*gulf, "2,3").out)) == ["2023-02", "2023-03"]
    norway = ("load", "--files-dir", str(era5_samples / "norway-2018-10-packed"), "--calendar-month", "7")
    assert_explained(on_server.run(*norway, code=2), "2018-10: none of these is calendar month 7", "whole years")


def test_month_locked_by_another_load(
    on_server: InProcess, embedded_warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    on_server.run("load", "--from", "2020-02", *SMALL_SAMPLE)
    on_server.set(ERA5_LOCK_TIMEOUT_SECONDS="1")
    with psycopg.connect(embedded_warehouse.url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s, %s)", (ERA5.lock_class, 2020 * 12 + 1))
        began = time.monotonic()
        printed = on_server.run("load", "--from", "2020-02", *SMALL_SAMPLE, "--force", code=5)
        assert time.monotonic() - began > 1.0
    assert_explained(printed, "2020-02 is being loaded by session")
    assert any("waiting up to 1 s" in message for message in caplog.messages)


# --- a store, and what is kept ----------------------------------------------------------------------------------------


def test_months_with_a_store_are_skipped_by_a_machine_with_an_empty_home(
    on_server: InProcess, store_address: str, tmp_path: Path
) -> None:
    on_server.set(ERA5_STORE=store_address, ERA5_KEEP="flat")
    asked = ("load", "--from", "2023-08", *SMALL_SAMPLE)
    assert [words[0] for words in table_of(on_server.run(*asked).out).values()] == ["loaded"]
    on_server.set(ERA5_HOME=str(tmp_path / "another"))
    assert [words[0] for words in table_of(on_server.run(*asked).out).values()] == ["unchanged"]
    assert not list((tmp_path / "another").rglob("*.zip"))
    forced = table_of(on_server.run(*asked, "--force").out)
    assert {month: words[0] for month, words in forced.items()} == {"2023-08": "loaded"}


def test_a_store_that_cannot_be_used_is_explained_before_a_month_is_begun(
    on_server: InProcess, tmp_path: Path, s3_address: str
) -> None:
    asked = ("load", "--from", "2023-07", *SMALL_SAMPLE)
    on_server.set(ERA5_STORE=str(tmp_path / "share"), ERA5_STORE_PATIENCE_SECONDS="1")
    assert_explained(on_server.run(*asked, code=10), "share does not exist", "Mount it")
    on_server.set(ERA5_STORE=s3_address, AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}")
    assert_explained(on_server.run(*asked, code=7), "Could not connect to server", "AWS_ENDPOINT_URL")
    assert not (tmp_path / "raw").exists()
    assert not (tmp_path / "share").exists()
