"""Tests of `sources/files_catalogue`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.cli.folder_files import FolderReport
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.errors import BadFileError, NoDataError, StoreError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.times import hour_of, hours_of_month
from era5_pipeline.netcdf import grib
from era5_pipeline.netcdf.contents import Problem
from era5_pipeline.planning.current_contents import unchanged_months
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.sources import files_catalogue
from era5_pipeline.sources.files import FilesSource
from era5_pipeline.sources.files_catalogue import Catalogue, CatalogueEntry
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.era5_files import CURRENT, hours_from, into_zip, left_behind, weather, write, write_netcdf
from era5_pipeline_tests.flat_months import assert_holds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Making = Callable[..., Settings]

JULY_OBJECTS, AUGUST = Month(2023, 7), Month(2023, 8)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_address: str) -> Making:
    """Makes settings whose files are in a bucket."""
    for name in [name for name in os.environ if name.startswith("ERA5_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def make(**values: Any) -> Settings:
        chosen: dict[str, Any] = {"home": tmp_path / "home", "files_dir": s3_address}
        return Settings(**(chosen | values))

    return make


def put(address: str, folder: Path, *, seed: int = 1, begin: str = "2023-07-01T00", name: str = "") -> str:
    """Write a month of temperature into the bucket; return the address of its file."""
    weather = era5_files.weather(era5_files.hours_from(begin, 744), names=("t2m",), seed=seed)
    era5_files.write(folder, weather)
    (file,) = folder.iterdir()
    key = name or f"{begin[:7]}/{file.name}"
    open_store(address).upload(file, key)
    file.unlink()
    return f"{address}/{key}"


def copies(settings: Settings) -> list[Path]:
    return sorted((settings.home / "raw").rglob("*.nc"))


def test_months_of_a_bucket_are_loaded(settings: Making, s3_address: str, tmp_path: Path, database_url: str) -> None:
    warehouse = Warehouse(database_url)
    july = put(s3_address, tmp_path / "made")
    put(s3_address, tmp_path / "made", begin="2023-08-01T00")
    open_store(s3_address).write("README.txt", b"not data")
    source = source_of(settings())
    assert isinstance(source, FilesSource)
    assert source.months() == (JULY_OBJECTS, AUGUST)
    assert copies(settings()) == []
    raw = run_raw(settings(), JULY_OBJECTS).raw
    assert [file.origin for file in raw.files] == [july]
    assert len(copies(settings())) == 1
    flat = run_flat(settings(), JULY_OBJECTS).flat
    run_load(settings(), warehouse, JULY_OBJECTS)
    assert_holds(warehouse, flat)
    assert copies(settings()) == []
    with warehouse.connect() as connection:
        (part,) = read_ledger(connection)[0].parts
    assert [file.path for file in part.files] == [july]
    assert FolderReport.of(settings(), []).use.passed_over == ()
    assert unchanged_months(settings(), warehouse, (JULY_OBJECTS, AUGUST)) == {JULY_OBJECTS}


def test_an_object_is_opened_once(settings: Making, s3_address: str, tmp_path: Path) -> None:
    put(s3_address, tmp_path / "made")
    known = source_of(settings()).known(JULY_OBJECTS)
    assert known is not None
    assert copies(settings()) == []
    # Its catalogue alone answers, while its size and time are the same.
    catalogue = sorted((settings().home / "catalogue").iterdir())
    assert len(catalogue) == 1
    written = catalogue[0].stat().st_mtime_ns
    assert source_of(settings()).known(JULY_OBJECTS) == known
    assert catalogue[0].stat().st_mtime_ns == written
    put(s3_address, tmp_path / "made", seed=2)
    changed = source_of(settings()).known(JULY_OBJECTS)
    assert changed is not None
    # Written within the same second and of the same size, it might be taken for the same.
    if changed.files[0].bytes != known.files[0].bytes:
        assert changed.fingerprint != known.fingerprint


def test_each_stage_copies_what_it_needs_on_its_machine(
    settings: Making, s3_address: str, tmp_path: Path, database_url: str
) -> None:
    put(s3_address, tmp_path / "made")
    (tmp_path / "store").mkdir()
    machines = [settings(home=tmp_path / name, store=str(tmp_path / "store")) for name in ("first", "second", "third")]
    run_raw(machines[0], JULY_OBJECTS)
    flat = run_flat(machines[1], JULY_OBJECTS).flat
    assert len(copies(machines[1])) == 1
    copy = replace(flat, path=tmp_path / "copy.parquet")
    shutil.copyfile(flat.path, copy.path)
    loaded = run_load(machines[1], Warehouse(database_url), JULY_OBJECTS)
    assert loaded.loaded.changed
    assert copies(machines[1]) == []
    assert_holds(Warehouse(database_url), copy)
    # The catalogue is in the store too: a third machine opens nothing.
    known = source_of(machines[2]).known(JULY_OBJECTS)
    assert known is not None
    assert known.fingerprint == flat.raw.fingerprint
    assert not (machines[2].home / "raw").exists()


def test_an_object_that_changed_between_the_stages_is_detected(
    settings: Making, s3_address: str, tmp_path: Path
) -> None:
    put(s3_address, tmp_path / "made", name="july.nc")
    run_raw(settings(), JULY_OBJECTS)
    put(s3_address, tmp_path / "made", seed=2, name="july.nc")
    copies(settings())[0].unlink()
    with pytest.raises(BadFileError, match=rf"{s3_address}/july\.nc: was changed"):
        run_flat(settings(), JULY_OBJECTS)
    open_store(s3_address).remove("july.nc")
    with pytest.raises(BadFileError, match=rf"{s3_address}/july\.nc: is gone"):
        run_flat(settings(), JULY_OBJECTS)


def test_problems_name_the_object(settings: Making, s3_address: str) -> None:
    open_store(s3_address).write("broken.nc", b"<html>no</html>")
    ((path, problem),) = FolderReport.of(settings(), []).use.passed_over
    assert path == problem.file == f"{s3_address}/broken.nc"
    with pytest.raises(NoDataError, match="broken"):
        run_raw(settings(), JULY_OBJECTS)


def test_an_object_in_grib_is_indexed_once_for_all_its_months(
    settings: Making, s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = era5_files.write(tmp_path / "made", weather(hours_from("2023-07-31T00", 48)), era5_files.GRIB_LAYOUTS[0])
    open_store(s3_address).upload(file, "year.grib")
    indexed: list[Path] = []

    def read_index(path: Path) -> grib.Index:
        indexed.append(path)
        return real(path)

    real = grib.read_index
    monkeypatch.setattr(grib, "read_index", read_index)
    for month in (JULY_OBJECTS, AUGUST):
        assert run_raw(settings(allow_incomplete=True), month).hours == 24
    assert len(indexed) == 1
    assert len(list((settings().home / "catalogue").glob("*.grib.npz"))) == 1


def test_folders_and_buckets_are_read_together(settings: Making, s3_address: str, tmp_path: Path) -> None:
    put(s3_address, tmp_path / "made")
    weather = era5_files.weather(era5_files.hours_from("2023-08-01T00", 744), names=("t2m",))
    era5_files.write(tmp_path / "own", weather)
    both: Any = source_of(settings(files_dir=f"{tmp_path / 'own'}:{s3_address}"))
    assert both.months() == (JULY_OBJECTS, AUGUST)
    one = source_of(settings(files_dir=put(s3_address, tmp_path / "made", name="one.nc")))
    assert isinstance(one, FilesSource)
    assert one.months() == (JULY_OBJECTS,)


def test_a_bucket_that_is_missing_is_named(settings: Making) -> None:
    with pytest.raises(StoreError, match="no-such-bucket"):
        run_raw(settings(files_dir="s3://no-such-bucket/x"), JULY_OBJECTS)


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


def test_a_file_that_another_process_inspects_is_not_opened_too(home: Path, file: Path) -> None:
    found = entry_of(home, file)
    (kept,) = (home / "catalogue").iterdir()
    kept.unlink()
    # The other process inspects the file, which then holds something else.
    theirs = replace(found, columns={"1999-01": ("temperature_2m",)})
    program = (
        "import sys; from pathlib import Path; from era5_pipeline.runtime.files import one_process_at_a_time\n"
        "with one_process_at_a_time(Path(sys.argv[1]), sys.argv[2]):\n"
        "    print('locked', flush=True); Path(sys.argv[3]).write_text(sys.stdin.readline())\n"
    )
    command = [sys.executable, "-c", program, str(home / "catalogue.locks"), kept.stem, str(kept)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
        ThreadPoolExecutor() as threads,
    ):
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        ours = threads.submit(entry_of, home, file)
        with pytest.raises(TimeoutError):
            ours.result(timeout=0.5)
        other.stdin.write(json.dumps(theirs.to_json()) + "\n")
        other.stdin.flush()
        assert ours.result(timeout=600) == theirs


def test_the_digest_is_computed_on_demand_and_cached(home: Path, file: Path) -> None:
    digested = entry_of(home, file, with_digest=True)
    assert digested.sha256 is not None
    with_the_same_stat(file, b"no longer netCDF")
    assert entry_of(home, file, with_digest=True) == digested
    assert entry_of(home, file) == digested


def test_a_change_of_size_or_of_modification_time_invalidates_the_entry(home: Path, file: Path) -> None:
    digest = entry_of(home, file, with_digest=True).sha256
    stat = file.stat()
    write_netcdf(file, weather(JULY))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    entry = entry_of(home, file, with_digest=True)
    assert entry.columns == {"2023-07": ("temperature_2m",)}
    assert entry.sha256 != digest
    stat = file.stat()
    with_the_same_stat(file, b"no longer netCDF")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    (problem,) = entry_of(home, file).problems
    assert "is text" in problem.text


DAMAGED = [b"", b"{", b"[]", b"null", b"7", b'"text"', b'{"form": 1}', b'{"form": 1, "columns": 3, "problems": []}']
OTHERS: list[dict[str, object]] = [{"form": 0}, {"form": 999}, {"path": "/elsewhere"}, {"problems": [{"kind": "x"}]}]


@pytest.mark.parametrize("content", [*DAMAGED, b"\xff", *OTHERS], ids=str)
def test_an_entry_that_is_damaged_or_of_another_form_or_file_is_replaced(
    home: Path, file: Path, content: bytes | dict[str, object]
) -> None:
    before = entry_of(home, file)
    (kept,) = (home / "catalogue").iterdir()
    if isinstance(content, dict):
        content = json.dumps(json.loads(kept.read_text()) | content).encode()
    kept.write_bytes(content)
    assert entry_of(home, file) == before
    assert json.loads(kept.read_text())["path"] == str(file)


def test_entries_survive_json(home: Path, tmp_path: Path) -> None:
    bad = write_netcdf(tmp_path / "bad.nc", weather(JULY, latitudes=[10.1]))
    made = entry_of(home, bad)
    assert made.problems[0].months == ("2023-07",)
    assert entry_of(home, bad) == made == files_catalogue.entry_of(json.loads(json.dumps(made.to_json())))


@pytest.mark.parametrize("name", ["notes.md", "download.py", "era5.csv", "request.json", "era5.nc.part"])
def test_files_that_do_not_claim_to_be_data_have_no_entry(home: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("anything")
    assert Catalogue(home).entry(tmp_path / name) is None


def test_data_files_with_any_name_have_an_entry(home: Path, file: Path, tmp_path: Path) -> None:
    assert entry_of(home, file.rename(tmp_path / "adaptor.mars.internal-1234")).months


def test_all_members_of_a_zip_are_inspected(home: Path, tmp_path: Path) -> None:
    layout = replace(CURRENT, one_variable_per_file=True)
    members = write(tmp_path / "in", weather(JULY, names=["t2m", "tp"]), layout)
    members.append(write_netcdf(tmp_path / "in" / "shifted.nc", weather(JULY, latitudes=[10.1])))
    path = into_zip(tmp_path / "era5.nc", members)
    entry = entry_of(home, path)
    assert entry.columns == {"2023-07": ("temperature_2m", "total_precipitation")}
    assert [problem.file for problem in entry.problems] == [f"{path}!shifted.nc"]


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


@given(runs=st.lists(st.tuples(st.integers(1, 400), st.integers(1, 900)), max_size=9), months=st.integers(-1, 12))
def test_hours_of_a_month_are_those_of_the_file_within_it(runs: list[tuple[int, int]], months: int) -> None:
    first = hour_of(Month(2023, 1).start)
    borders = first + np.cumsum([step for run in runs for step in run]).reshape(-1, 2)
    entry = CatalogueEntry("f.nc", 0, 0, {}, (), hours={"temperature_2m": tuple(map(tuple, borders.tolist()))})
    held = [hour for begin, end in borders.tolist() for hour in range(begin, end)]
    assert entry.hours_of("temperature_2m").tolist() == held
    within = Month.from_number(Month(2023, 1).number + months)
    assert entry.hours_of("temperature_2m", within).tolist() == [h for h in held if h in hours_of_month(within)]
    assert entry.hours_of("wind_gust_10m").size == 0


def test_what_files_hold_is_kept_for_each_data_set(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(hours_from("2023-07-01T00", 3), latitudes=[10.5], longitudes=[20.5]))
    home = tmp_path / "home"
    of_era5, of_land = Catalogue(home), Catalogue(home, dataset=ERA5_LAND)
    for catalogue in (of_era5, of_land):
        assert catalogue.entry(path) == catalogue.entry(path)
    assert len(list((home / "catalogue").glob("*.json"))) == 2


def test_entries_of_era5_from_before_there_were_data_sets_stay_valid(tmp_path: Path) -> None:
    good = CatalogueEntry("/x.nc", 1, 2, {"2023-07": ("temperature_2m",)}, ())
    old = good.to_json()
    del old["unstated"]
    assert files_catalogue.entry_of(old) == good
    assert files_catalogue.entry_of(old, ERA5_LAND) is None
    # But what was refused then may be of another data set.
    refused = replace(good, problems=(Problem("/x.nc", "grid", "is on a grid of 0.1 degrees", "Request it."),))
    assert files_catalogue.entry_of(json.loads(json.dumps(refused.to_json()))) == refused
    old = refused.to_json()
    del old["problems"][0]["instead"]
    assert files_catalogue.entry_of(old) is None
