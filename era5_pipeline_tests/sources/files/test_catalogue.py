from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.sources.files.catalogue import Catalogue, CatalogueEntry
from era5_pipeline_tests.era5_files import CURRENT, hours_from, into_zip, left_behind, weather, write, write_netcdf

if TYPE_CHECKING:
    from pathlib import Path

JULY = hours_from("2023-07-01T00", 3)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_netcdf(tmp_path / "era5.nc", weather(hours_from("2023-06-30T22", 4), names=["t2m", "tp"]))


def entry_of(home: Path, path: Path, *, with_digest: bool = False) -> CatalogueEntry:
    entry = Catalogue(home).entry(path, with_digest=with_digest)
    assert entry is not None
    assert left_behind(home) == []
    return entry


def with_the_same_stat(path: Path, content: bytes) -> None:
    stat = path.stat()
    path.write_bytes(content.ljust(stat.st_size, b"x")[: stat.st_size])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_an_entry_lists_the_columns_of_each_month(home: Path, file: Path) -> None:
    entry = entry_of(home, file)
    held = ("temperature_2m", "total_precipitation")
    assert entry.columns == {"2023-06": held, "2023-07": held}
    assert entry.months == {"2023-06", "2023-07"}
    assert entry.problems == ()
    assert (entry.path, entry.bytes, entry.sha256) == (str(file), file.stat().st_size, None)


def test_an_unchanged_file_is_not_opened_again(home: Path, file: Path) -> None:
    before = entry_of(home, file)
    with_the_same_stat(file, b"no longer netCDF")
    assert entry_of(home, file) == before


def test_the_digest_is_computed_on_demand_and_cached(home: Path, file: Path) -> None:
    digested = entry_of(home, file, with_digest=True)
    assert digested.sha256 is not None
    with_the_same_stat(file, b"no longer netCDF")
    assert entry_of(home, file, with_digest=True) == digested
    assert entry_of(home, file) == digested


def test_a_change_of_size_invalidates_the_entry(home: Path, file: Path) -> None:
    digest = entry_of(home, file, with_digest=True).sha256
    stat = file.stat()
    write_netcdf(file, weather(JULY))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    entry = entry_of(home, file, with_digest=True)
    assert entry.columns == {"2023-07": ("temperature_2m",)}
    assert entry.sha256 != digest


def test_a_change_of_modification_time_invalidates_the_entry(home: Path, file: Path) -> None:
    entry_of(home, file)
    stat = file.stat()
    with_the_same_stat(file, b"no longer netCDF")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    (problem,) = entry_of(home, file).problems
    assert "is text" in problem.text


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"7", b'"text"', b'{"form": 1}', b'{"form": 1, "columns": 3, "problems": []}', b"\xff"],
)
def test_a_damaged_entry_is_replaced(home: Path, file: Path, content: bytes) -> None:
    before = entry_of(home, file)
    (kept,) = (home / "catalogue").iterdir()
    kept.write_bytes(content)
    assert entry_of(home, file) == before
    assert json.loads(kept.read_text())["path"] == str(file)


@pytest.mark.parametrize("change", [{"form": 0}, {"form": 999}, {"path": "/elsewhere"}, {"problems": [{"kind": "x"}]}])
def test_an_entry_of_another_form_or_file_is_replaced(home: Path, file: Path, change: dict[str, object]) -> None:
    before = entry_of(home, file)
    (kept,) = (home / "catalogue").iterdir()
    kept.write_text(json.dumps(json.loads(kept.read_text()) | change))
    assert entry_of(home, file) == before


def test_entries_survive_json(home: Path, tmp_path: Path) -> None:
    bad = write_netcdf(tmp_path / "bad.nc", weather(JULY, latitudes=[10.1]))
    made = entry_of(home, bad)
    assert made.problems[0].months == ("2023-07",)
    assert entry_of(home, bad) == made == CatalogueEntry.from_json(json.loads(json.dumps(made.to_json())))


@pytest.mark.parametrize("name", ["notes.md", "download.py", "era5.csv", "request.json", "era5.nc.part"])
def test_files_that_do_not_claim_to_be_data_have_no_entry(home: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("anything")
    assert Catalogue(home).entry(tmp_path / name) is None


def test_data_files_with_any_name_have_an_entry(home: Path, file: Path, tmp_path: Path) -> None:
    assert entry_of(home, file.rename(tmp_path / "adaptor.mars.internal-1234")).months


def test_problems_of_a_file_are_part_of_its_entry(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "era5.nc"
    path.write_bytes(b"")
    (problem,) = entry_of(home, path).problems
    assert (problem.file, problem.kind, problem.text) == (str(path), "unreadable", "is empty")
    assert problem.remedy


def test_all_members_of_a_zip_are_inspected(home: Path, tmp_path: Path) -> None:
    layout = replace(CURRENT, one_variable_per_file=True)
    members = write(tmp_path / "in", weather(JULY, names=["t2m", "tp"]), layout)
    members.append(write_netcdf(tmp_path / "in" / "shifted.nc", weather(JULY, latitudes=[10.1])))
    path = into_zip(tmp_path / "era5.nc", members)
    entry = entry_of(home, path)
    assert entry.columns == {"2023-07": ("temperature_2m", "total_precipitation")}
    assert [problem.file for problem in entry.problems] == [f"{path}!shifted.nc"]


def test_a_damaged_zip_is_reported_as_a_problem(home: Path, tmp_path: Path) -> None:
    path = into_zip(tmp_path / "era5.zip", [write_netcdf(tmp_path / "a.nc", weather(JULY))])
    path.write_bytes(path.read_bytes()[:-30])
    (problem,) = entry_of(home, path).problems
    assert "damaged ZIP" in problem.text
    assert problem.file == str(path)


def test_a_file_name_in_another_encoding_is_a_problem_of_that_file_only(home: Path, file: Path, tmp_path: Path) -> None:
    """Folders from old systems hold such names; netCDF cannot open these files."""
    odd = tmp_path / os.fsdecode(b"t\xe9mp\xe9rature.nc")
    try:
        file.rename(odd)
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    entry = entry_of(home, odd, with_digest=True)
    assert entry.path == str(odd)
    assert [problem.kind for problem in entry.problems] == ["unreadable"]
