"""Tests of `cli/status`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from rich.filesize import decimal

from era5_pipeline.model.errors import BadFileError, LocalDiskError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space
from era5_pipeline_tests.commands import ERA5, InProcess, assert_explained, environment
from era5_pipeline_tests.servers import fresh_database
from era5_pipeline_tests.warehouse.loads import ask, make_heap_hypertable, without_autovacuum
from era5_pipeline_tests.warehouse.versioned_months import VersionedMonths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.warehouse.space import Space
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host


@pytest.fixture(scope="module")
def covered_url(server_url: str, flat_months: FlatMonths) -> Iterator[str]:
    """Two areas: one with a gap of two months and an incomplete month, and one with a single month."""
    with fresh_database(server_url) as url:
        for month in ("2023-01", "2023-02", "2023-05"):
            load_month(Warehouse(url), flat_months(month))
        load_month(Warehouse(url), flat_months("2023-06", hours=100))
        load_month(Warehouse(url), flat_months("2023-06", north=-5.0, points=(1, 1), names=("u10",)))
        yield url


def test_table_names_the_months_of_each_area(here: InProcess, covered_url: str) -> None:
    here.set(ERA5_DATABASE_URL=covered_url)
    printed = here.run("status", "--coverage").out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert "area variables complete incomplete preliminary not loaded in between" in lines
    area = "10.5/20/10.25/20.5, 6 places temperature_2m 3: 2023-01 to 2023-02, 2023-05 1: 2023-06 2: 2023-03 to 2023-04"
    assert area in lines
    assert "total_precipitation" in lines
    assert "-5/20 zonal_wind_10m 1: 2023-06" in lines
    assert "layout" not in printed


def test_json_lists_the_areas(here: InProcess, covered_url: str) -> None:
    here.set(ERA5_DATABASE_URL=covered_url)
    large, point = here.run("status", "--coverage", "--json").json()
    assert (large["area"], large["locations"]) == ("10.5/20/10.25/20.5", 6)
    assert large["variables"]["temperature_2m"] == {
        "complete": ["2023-01", "2023-02", "2023-05"],
        "incomplete": ["2023-06"],
        "preliminary": [],
        "missing": ["2023-03", "2023-04"],
    }
    assert point["location_ids"] == [[490400, 490401]]


def test_the_months_are_drawn(here: InProcess, covered_url: str) -> None:
    here.set(ERA5_DATABASE_URL=covered_url)
    assert here.run("status", "--coverage", "--out", "a.png").err == "wrote a.png\n"
    assert (here.home / "a.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_month_the_table_says_so_and_a_picture_is_refused(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    for asked in (("status",), ("status", "--coverage")):
        assert here.run(*asked).out.startswith("no month has been loaded yet")
        assert here.run(*asked, "--json").json() == []
    assert_explained(here.run("status", "--coverage", "--out", "a.png", code=3), "no month has been loaded yet")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--out", "a.png"), "only --coverage draws"),
        (("--coverage", "--out", "a.gif"), "pictures are PNG, PDF or SVG files"),
    ],
)
def test_options_that_make_no_sense_are_refused(here: InProcess, arguments: tuple[str, ...], what: str) -> None:
    assert_explained(here.run("status", *arguments, code=2), what)


@pytest.fixture(scope="module")
def filled_url(server_url: str, flat_months: FlatMonths) -> Iterator[str]:
    """A complete month, one without some hours, one with a missing value, and one whose file was damaged."""
    with fresh_database(server_url) as url:
        warehouse = Warehouse(url)
        load_month(warehouse, flat_months("2023-07"))
        load_month(warehouse, flat_months("2023-08", hours=100))
        load_month(warehouse, flat_months("2023-10", missing=0.01))
        damaged = flat_months("2023-09", seed=9)
        content = damaged.path.read_bytes()
        damaged.path.write_bytes(content[: len(content) // 2])
        with pytest.raises(BadFileError):
            load_month(warehouse, damaged)
        damaged.path.write_bytes(content)
        yield url


def space_of(warehouse: Warehouse) -> Space:
    with warehouse.connect() as connection:
        return read_space(connection)


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_json_lists_every_month(here: InProcess, filled_url: str) -> None:
    here.set(ERA5_DATABASE_URL=filled_url)
    printed = here.run("status", "--json")
    entries = printed.json()
    assert printed.err == ""
    assert [(e["month"], e["state"], e["rows"], e["hours"], e["hours_expected"], e["source"]) for e in entries] == [
        ("2023-07", "loaded", 744 * 6, 744, 744, "files"),
        ("2023-08", "incomplete", 600, 100, 744, "files"),
        ("2023-09", "failed", 0, 0, 720, None),
        ("2023-10", "incomplete", 744 * 6, 744, 744, "files"),
    ]
    (part,) = entries[0]["parts"]
    assert part["expver"] == {"temperature_2m": {"0001": 744}, "total_precipitation": {"0001": 744}}
    assert (part["place"], part["locations"], part["missing_hours"]) == ("10.5/20/10.25/20.5", 6, {})
    runs = ["2023-08-05T04 to 2023-08-31T23"]
    assert entries[1]["missing_hours"] == {"temperature_2m": runs, "total_precipitation": runs}
    assert entries[2]["parts"] == []
    assert (entries[2]["chunks"], entries[2]["bytes"], entries[2]["bytes_per_row"]) == (None, None, None)
    assert entries[0]["last_attempt"]["outcome"] == "loaded"
    assert entries[2]["last_attempt"]["outcome"] == "failed"
    assert "damaged" in entries[2]["last_attempt"]["error"]


def test_table_fits_and_says_what_failed(here: InProcess, filled_url: str) -> None:
    here.set(ERA5_DATABASE_URL=filled_url)
    with without_autovacuum(Warehouse(filled_url)):
        printed = here.run("status").out
        size = ask(
            filled_url,
            "SELECT sum(pg_total_relation_size(inhrelid))::bigint FROM pg_inherits "
            "WHERE inhparent = 'weather'::regclass",
        )
    assert "\x1b" not in printed
    lines = lines_of(printed)
    place = "10.5/20/10.25/20.5"
    assert any(re.match(rf"2023-07 loaded {place} 4,464 744 of 744 6 \d+\.\d files final ", line) for line in lines)
    assert any(re.match(rf"2023-08 incomplete {place} 600 100 of 744 6 \d+\.\d files", line) for line in lines)
    columns = "temperature_2m, total_precipitation"
    assert f"2023-08 lacks {columns} at 2023-08-05T04 to 2023-08-31T23" in lines
    assert "2023-09 failed 0 0 of 720 0" in lines
    assert any(line.startswith("3 months, 9,528 rows in ") for line in lines)
    assert "3 months final" in lines
    assert any(line.startswith("2023-09: the last load was failed") and "damaged" in line for line in lines)
    # Below a megabyte, as after a vacuum that gave pages back, it is in kB.
    assert f"layout partitions, 3 partitions, {decimal(size)}, {size / 9528:.1f} bytes per row" in lines


@pytest.mark.parametrize("columns", [50, 80, None])
@pytest.mark.parametrize("asked", [("status",), ("status", "--coverage")], ids=" ".join)
def test_no_cell_is_truncated_in_a_narrow_terminal_or_a_pipe(
    here: InProcess, filled_url: str, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], columns: int | None
) -> None:
    here.set(ERA5_DATABASE_URL=filled_url, COLUMNS=str(columns))
    if columns is None:
        monkeypatch.delenv("COLUMNS")
    printed = here.run(*asked).out
    table = [line for line in printed.splitlines() if line.startswith("  ")]
    assert max(map(len, table)) <= (columns or 100)
    words = set(printed.replace(",", " ").split())
    assert {"2023-07", "10.5/20/10.25/20.5", "temperature_2m", "total_precipitation"} <= words
    assert "…" not in printed
    # At 50 columns each row is a paragraph, which has all.
    assert ("───" in printed) is (columns != 50)
    assert ("columns that do not fit" in printed) is (columns != 50 and len(asked) == 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_to_a_full_disk_is_an_error_with_remedy(filled_url: str, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [ERA5, "status", "--json"],
            check=False,
            env=environment(tmp_path, ERA5_DATABASE_URL=filled_url),
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
        )
    assert done.returncode == LocalDiskError.exit_code
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def versioned_url(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A final month, a revised one, two mixed ones, a preliminary one, and one of unknown version."""
    month_of = VersionedMonths(tmp_path_factory.mktemp("versions"))
    mixed = {"t2m": ["0005"] * 744, "tp": ["0001"] * 7 + ["0005"] * 737}
    with fresh_database(server_url) as url:
        for flat in (
            month_of("0001", month="2024-09"),
            month_of("0005", month="2024-10"),
            month_of("0001", month="2024-10"),
            month_of({"t2m": ["0001"] * 32 + ["0005"] * 712, "tp": ["0001"] * 744}, month="2024-12"),
            month_of("0005", month="2025-01", hours=100),
            month_of("unknown", month="2025-03"),
            month_of(mixed, month="2025-05"),
            month_of("0005", month="2025-06"),
            month_of("0001", month="2025-06", source="arco", change={"t2m": 0.0008}),
        ):
            load_month(Warehouse(url), flat)
        yield url


def test_table_shows_the_version_of_each_month(here: InProcess, versioned_url: str) -> None:
    here.set(ERA5_DATABASE_URL=versioned_url)
    lines = lines_of(here.run("status").out)
    revised = ask(versioned_url, "SELECT to_char(revised_at, 'YYYY-MM-DD') FROM era5.ledger WHERE month = '2024-10-01'")
    columns = "temperature_2m, total_precipitation"
    for month, version in {
        "2024-09": "final",
        "2024-10": f"final (revised {revised})",
        "2024-12": "mixed: 712 of 744 h preliminary",
        "2025-01": "preliminary",
        "2025-03": "unknown",
        "2025-05": "mixed: 744 of 744 h preliminary",
        "2025-06": "final, confirmed by arco",
    }.items():
        assert any(line.startswith(f"{month} ") and f" cds {version} {columns} 20" in line for line in lines), lines
    assert (
        "3 months final, 1 preliminary (2025-01: from 2025-01-01T00), "
        "2 mixed (2024-12: from 2024-12-02T08, 2025-05: from 2025-05-01T00), 1 unknown" in lines
    )


def test_only_some_of_many_preliminary_months_are_named(
    here: InProcess, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    month_of = VersionedMonths(tmp_path_factory.mktemp("many"))
    for month in range(1, 6):
        load_month(Warehouse(database_url), month_of("0005", month=f"2024-{month:02d}", hours=5))
    here.set(ERA5_DATABASE_URL=database_url)
    assert (
        "5 months preliminary (2024-01: from 2024-01-01T00, 2024-02: from 2024-02-01T00, "
        "2024-03: from 2024-03-01T00, and 2 more)" in here.run("status").out
    )


def test_size_is_shown_for_every_layout(
    here: InProcess, warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    for month in ("2023-06", "2023-07", "2024-07"):
        layout = load_month(warehouse, flat_months(month)).layout
    here.set(ERA5_DATABASE_URL=warehouse.url)
    with without_autovacuum(warehouse):
        lines = lines_of(here.run("status").out)
        entries = here.run("status", "--json").json()
        space = space_of(warehouse)
    chunks = "partitions" if host.license is None else "chunks"
    shared = "shared: the month is in a chunk that also holds another month, so its own size is not known"
    assert {entry["layout"] for entry in entries} == {layout}
    total = next(line for line in lines if line.startswith("layout "))
    assert re.match(rf"layout {layout}, {space.chunks} {chunks}( \(3 in the columnstore\))?, \d+(\.\d)? [kM]B, ", total)
    assert total.endswith(f", {space.bytes / (2208 * 6):.1f} bytes per row")
    if host.layout == "hypertable":  # chunks of 31 days
        assert [(e["bytes"], e["bytes_per_row"]) for e in entries[:2]] == [(None, None)] * 2
        assert [e["chunks"] for e in entries] == [2, 2, 2]
        assert any(re.match(r"2023-07 loaded \S+ 4,464 744 of 744 6 shared files", line) for line in lines)
        assert shared in lines
    else:
        assert [e["chunks"] for e in entries] == [1, 1, 1]
        assert all(e["bytes"] > 0 for e in entries)
        assert shared not in lines
    assert entries[2]["bytes_per_row"] == entries[2]["bytes"] / (744 * 6)
    each = f"4,464 744 of 744 6 {entries[2]['bytes_per_row']:,.1f} files"
    assert any(line.startswith(f"2024-07 loaded 10.5/20/10.25/20.5 {each}") for line in lines)


def test_chunks_in_the_columnstore_are_counted(
    here: InProcess, empty_warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    if host.license != "timescale":
        return
    make_heap_hypertable(empty_warehouse)
    load_month(empty_warehouse, flat_months("2023-06", points=(10, 20)))
    load_month(empty_warehouse, flat_months("2023-07", points=(10, 20)))
    with empty_warehouse.connect() as connection:
        connection.execute("ALTER TABLE weather SET (timescaledb.compress)")
        connection.execute("SELECT compress_chunk(c) FROM show_chunks('weather') c ORDER BY c LIMIT 1")
    here.set(ERA5_DATABASE_URL=empty_warehouse.url)
    lines = lines_of(here.run("status").out)
    assert any(re.match(r"layout [a-z ]+, 2 chunks \(1 in the columnstore\), ", line) for line in lines)
    assert any(
        re.fullmatch(r"converted to the columnstore after loading: 1\d\.\d MB before, [\d.]+ [kM]B after", line)
        for line in lines
    )


def test_locked_table_does_not_hide_the_ledger(here: InProcess, database_url: str, flat_months: FlatMonths) -> None:
    load_month(Warehouse(database_url), flat_months())
    here.set(ERA5_DATABASE_URL=database_url)
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE weather")
        table, as_json = here.run("status"), here.run("status", "--json")
    for printed in (table, as_json):
        assert_explained(printed, "lock timeout")
    assert any(
        line.startswith("2023-07 loaded 10.5/20/10.25/20.5 4,464 744 of 744 6 files") for line in lines_of(table.out)
    )
    (entry,) = as_json.json()
    assert (entry["rows"], entry["layout"], entry["chunks"], entry["bytes"]) == (4464, None, None, None)
    assert here.run("status").err == ""


def test_dropped_table_is_reported(here: InProcess, database_url: str, flat_months: FlatMonths) -> None:
    flat = flat_months()
    load_month(Warehouse(database_url), flat)
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP TABLE weather CASCADE")
    here.set(ERA5_DATABASE_URL=database_url)
    assert "weather no longer exists in this database: load the months again, with --force" in here.run("status").out
    (entry,) = here.run("status", "--json").json()
    assert (entry["layout"], entry["bytes"]) == (None, None)
    load_month(Warehouse(database_url), flat, force=True)
    assert "layout partitions, 1 partition, " in here.run("status").out
