"""The stages of a month without Dagster: what each stores, reuses and refuses."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from era5_pipeline import stages
from era5_pipeline.draw.maps import preview_map
from era5_pipeline.flat.checks import FLAT_CHECKS, RAW_CHECKS, TABLE_CHECKS
from era5_pipeline.flat.flat_month import FlatFile
from era5_pipeline.flat.storage import StoredMonth
from era5_pipeline.maps.styles import TEXT_OF_PREVIEW
from era5_pipeline.model.errors import (
    BadFileError,
    InputError,
    RefusedError,
)
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.netcdf import archive
from era5_pipeline.planning.current_contents import unchanged_months
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime.files import read_json, sha256_of, write_json
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import RawFile, RawMonth
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import assert_says, environment
from era5_pipeline_tests.flat_months import assert_holds, rows_of_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from era5_pipeline.flat.checks import CheckResult
    from era5_pipeline.stages import LoadResult

    Making = Callable[..., Settings]

JULY = Month(2023, 7)
SMALL = "10.25/20/10/20.25"


pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def warehouse(database_url: str) -> Warehouse:
    return Warehouse(database_url)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Making:
    """Makes settings with a home of this test; the environment is ignored."""
    for name in [name for name in os.environ if name.startswith("ERA5_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def make(**values: Any) -> Settings:
        source = {} if "files_dir" in values else {"source": "sample"}
        return Settings(home=tmp_path / "home", **(source | values))

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of July 2023, 3 x 4 points of temperature."""
    write_july(tmp_path / "files")
    return tmp_path / "files"


def write_july(folder: Path, hours: int = 744, *, seed: int = 1, names: tuple[str, ...] = ("t2m",)) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    era5_files.write(folder, era5_files.weather(era5_files.hours_from("2023-07-01T00", hours), names=names, seed=seed))


def write_zipped_july(folder: Path, hours: int = 744) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    zipped = replace(era5_files.CURRENT, zipped=True, one_variable_per_file=True, suffix=".zip")
    weather = era5_files.weather(era5_files.hours_from("2023-07-01T00", hours), names=("t2m", "tp"))
    era5_files.write(folder, weather, zipped)


def run(settings: Settings, warehouse: Warehouse, month: Month = JULY) -> LoadResult:
    run_raw(settings, month)
    run_flat(settings, month)
    return run_load(settings, warehouse, month)


def passed(outcomes: Iterable[CheckResult]) -> dict[str, bool]:
    return {outcome.name: outcome.passed for outcome in outcomes}


def state_of(warehouse: Warehouse) -> str:
    with warehouse.connect() as connection:
        return read_ledger(connection)[0].state


@pytest.mark.parametrize("flat_format", ["parquet", "csv"])
def test_a_generated_month_is_loaded(
    settings: Making, empty_warehouse: Warehouse, flat_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("era5_pipeline.draw.maps.preview_map", preview_map)  # with its picture
    chosen = settings(area="10.5/20/10/20.5", format=flat_format)
    assert isinstance(source_of(chosen), SampleSource)
    raw = run_raw(chosen, JULY)
    assert passed(raw.outcomes) == dict.fromkeys(RAW_CHECKS, True)
    assert (raw.hours, raw.rows, len(raw.columns)) == (744, 9 * 744, 6)
    assert raw.raw.source == "sample"
    assert raw.seconds > 0
    flat = run_flat(chosen, JULY)
    assert passed(flat.outcomes) == dict.fromkeys(FLAT_CHECKS, True)
    assert not flat.reused
    assert flat.flat.format == flat_format
    assert flat.flat.raw_seconds == pytest.approx(raw.seconds)
    assert flat.preview.read_bytes().startswith(b"\x89PNG")
    with Image.open(flat.preview) as picture:
        assert "UTC (generated): " in picture.info[TEXT_OF_PREVIEW]
    assert flat.flat.version == "generated"
    loaded = run_load(chosen, empty_warehouse, JULY)
    assert passed(loaded.outcomes) == dict.fromkeys(TABLE_CHECKS, True)
    assert loaded.loaded.changed
    assert loaded.flat == flat.flat
    assert loaded.verify_seconds > 0
    assert_holds(empty_warehouse, flat.flat)


def test_a_stage_names_the_stage_that_it_needs(settings: Making, warehouse: Warehouse) -> None:
    with pytest.raises(InputError, match="2023-07 has no raw files yet\nMaterialize era5/raw"):
        run_flat(settings(), JULY)
    with pytest.raises(InputError, match="2023-07 has no flat file\nMaterialize era5/flat"):
        run_load(settings(), warehouse, JULY)


def test_raw_files_of_another_point_are_not_flattened(settings: Making) -> None:
    chosen = settings(source="point", point="10.75/106.25")
    folder = chosen.home / "raw"
    hours = era5_files.hours_from("2023-07-01T00", 744)
    (path,) = era5_files.write(folder, era5_files.weather(hours, [10.75], [106.25], ["t2m"]))
    raw = RawMonth(
        JULY,
        "point",
        (RawFile(path, sha256_of(path), path.stat().st_size),),
        ("temperature_2m",),
        points="10.75/106.25",
    )
    assert RawMonth.from_json(raw.to_json()) == raw
    StoredMonth.of(chosen, JULY).write_manifest(raw, {"seconds": 0.0, "refused": None})
    with pytest.raises(InputError, match=r"another request \(source point, point 10.75/106.25, 1 variables\)"):
        run_flat(settings(source="point", point="11/106.25"), JULY)
    assert run_flat(chosen, JULY).flat.rows == 744


def test_raw_files_of_another_request_are_not_flattened(settings: Making) -> None:
    """Two commands for one month and home with different requests: neither uses the other's raw files."""
    run_raw(settings(area=SMALL, sample_hours=2, allow_incomplete=True), JULY)
    says = r"another request \(source sample, area 10.25/20/10/20.25, 6 variables\)"
    for other in ({"area": "11/20/10/21"}, {"variables": "t2m"}, {"source": "cds"}):
        with pytest.raises(InputError, match=says) as caught:
            run_flat(settings(sample_hours=2, allow_incomplete=True, **other), JULY)
    assert "era5/raw" in caught.value.remedy
    for same in ({"area": SMALL}, {}):
        assert run_flat(settings(sample_hours=2, allow_incomplete=True, **same), JULY).flat.locations == 4


def prepare(other: Settings) -> None:
    """What another command does with the month at the same time."""
    run_raw(other, JULY)
    run_flat(other, JULY)


@pytest.mark.parametrize("stage", ["flat", "written", "load"])
def test_what_another_command_prepared_meanwhile_is_not_loaded(
    settings: Making, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """It flattens its files before this one does, as soon as this one has written its own, or before this one loads."""
    write_july(folder, 24)
    write_july(tmp_path / "other", 24, seed=2)
    own, other = (settings(files_dir=str(one), allow_incomplete=True) for one in (folder, tmp_path / "other"))
    run_raw(own, JULY)
    if stage == "load":
        run_flat(own, JULY)
    process = multiprocessing.get_context("spawn").Process(target=prepare, args=(other,))

    def run_other_command() -> None:
        process.start()
        process.join()
        assert process.exitcode == 0

    def described_late(path: Path) -> FlatFile:
        if process.pid is None:
            run_other_command()
        return FlatFile(path, path.stat().st_size, sha256_of(path))

    if stage == "written":
        monkeypatch.setattr(FlatFile, "at", described_late)
    else:
        run_other_command()
    with pytest.raises(InputError, match="2023-07: another command loads this month") as raised:
        run_load(own, Warehouse("postgresql://nobody@127.0.0.1:1/"), JULY) if stage == "load" else run_flat(own, JULY)
    assert "Run this command again" in raised.value.remedy
    stages.end_run()
    assert run_flat(own, JULY).reused  # a run of the stage alone takes what is there


# Has a few megabytes of memory left when it flattens.
SHORT_OF_MEMORY = """
import resource, sys
from pathlib import Path
from era5_pipeline.model.errors import MachineLimitError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import read_settings
from era5_pipeline.stages import run_flat, run_raw
settings = read_settings(source="sample", area="20/0/-20/40", sample_hours=3)
run_raw(settings, Month(2023, 7))
(line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
limit = (int(line.split()[1]) << 10) + (4 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    run_flat(settings, Month(2023, 7))
except MachineLimitError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_too_little_memory_is_said_with_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY],
        env=environment(tmp_path, ERA5_ALLOW_INCOMPLETE="true", OPENBLAS_NUM_THREADS="1"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,  # HDF5, once refused memory, may abort while the process ends
    )
    assert "2023-07: flattening it: the memory that this process may use is not enough" in done.stdout, done.stderr
    assert "ulimit -v" in done.stdout


def test_files_that_are_here_already_keep_the_seconds_of_their_download(settings: Making) -> None:
    """Later loads are planned by the time of a download, not by that of finding the files already here."""
    asked = settings(area=SMALL, sample_hours=2, allow_incomplete=True)
    run_raw(asked, JULY)
    manifest = asked.home / "raw" / f"{JULY}.json"
    value = read_json(manifest)
    write_json(manifest, {**value, "seconds": 4321.0})
    assert run_raw(asked, JULY).seconds < 1000
    assert read_json(manifest)["seconds"] == 4321.0
    run_raw(settings(area=SMALL, sample_hours=3, allow_incomplete=True), JULY)
    assert read_json(manifest)["seconds"] < 1000


def test_an_intact_flat_file_is_reused(settings: Making, folder: Path) -> None:
    chosen = settings(files_dir=str(folder))
    run_raw(chosen, JULY)
    first = run_flat(chosen, JULY)
    before = first.flat.path.stat()
    again = run_flat(chosen, JULY)
    assert again.reused
    assert again.flat == first.flat
    assert again.outcomes == first.outcomes
    assert again.flat.path.stat() == before
    assert not run_flat(settings(files_dir=str(folder), force=True), JULY).reused


@pytest.mark.parametrize("harm", ["a changed byte", "cut", "gone", "facts gone"])
def test_a_damaged_flat_file_is_written_again(settings: Making, warehouse: Warehouse, folder: Path, harm: str) -> None:
    chosen = settings(files_dir=str(folder))
    run_raw(chosen, JULY)
    made = run_flat(chosen, JULY).flat
    content = made.path.read_bytes()
    if harm == "a changed byte":
        made.path.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    elif harm == "cut":
        made.path.write_bytes(content[:-1])
    elif harm == "gone":
        made.path.unlink()
    else:
        made.path.with_name("2023-07.json").unlink()
    again = run_flat(chosen, JULY)
    assert not again.reused
    assert again.flat.path.read_bytes() == content
    assert run_load(chosen, warehouse, JULY).loaded.changed
    assert_holds(warehouse, made)


def test_other_files_or_settings_give_another_flat_file(settings: Making, folder: Path) -> None:
    made = []
    for wishes in ({}, {"format": "csv"}, {"area": SMALL}, {"variables": "t2m"}):
        chosen = settings(files_dir=str(folder), **wishes)
        run_raw(chosen, JULY)
        made.append(run_flat(chosen, JULY))
    write_july(folder, seed=2)
    run_raw(settings(files_dir=str(folder)), JULY)
    made.append(run_flat(settings(files_dir=str(folder)), JULY))
    assert [result.reused for result in made] == [False] * 5
    assert len({result.flat.fingerprint for result in made}) == 4  # the fingerprint does not depend on the format


def test_a_month_is_loaded_once(settings: Making, warehouse: Warehouse, folder: Path) -> None:
    chosen = settings(files_dir=str(folder))
    assert unchanged_months(chosen, warehouse, (JULY,)) == frozenset()
    assert run(chosen, warehouse).loaded.changed
    assert unchanged_months(chosen, warehouse, (Month(2023, 6), JULY, Month(2023, 8))) == {JULY}
    assert not run(chosen, warehouse).loaded.changed
    # The same files under other names in another folder.
    moved = folder.rename(folder.with_name("moved"))
    for file in moved.iterdir():
        file.rename(file.with_name(f"renamed-{file.name}"))
    assert unchanged_months(settings(files_dir=str(moved)), warehouse, (JULY,)) == {JULY}
    assert unchanged_months(settings(files_dir=str(moved), force=True), warehouse, (JULY,)) == frozenset()
    assert unchanged_months(settings(files_dir=str(moved), area=SMALL), warehouse, (JULY,)) == frozenset()
    write_july(moved, seed=2)
    assert unchanged_months(settings(files_dir=str(moved)), warehouse, (JULY,)) == frozenset()
    assert run(settings(files_dir=str(moved)), warehouse).loaded.changed


def test_months_that_the_source_cannot_provide_are_not_unchanged(
    settings: Making, warehouse: Warehouse, folder: Path
) -> None:
    chosen = settings(files_dir=str(folder))
    run(chosen, warehouse)
    for file in folder.iterdir():
        file.write_bytes(b"CDF\x01 cut off")
    assert unchanged_months(chosen, warehouse, (JULY,)) == frozenset()


def test_an_incomplete_month_is_refused_unless_allowed(settings: Making, warehouse: Warehouse, folder: Path) -> None:
    write_july(folder, hours=168)
    chosen = settings(files_dir=str(folder))
    raw = run_raw(chosen, JULY)
    assert passed(raw.outcomes) == {"grid_aligned": True, "variables_present": True, "hours_complete": False}
    (outcome,) = (outcome for outcome in raw.outcomes if not outcome.passed)
    assert_says(outcome.description, "168 of 744 hours", "2023-07-08T00 to 2023-07-31T23", "2023-07-07 23:00 UTC")
    assert "--allow-incomplete" in outcome.remedy
    # The flat stage alone, as started from the UI, refuses it too.
    with pytest.raises(RefusedError, match="2023-07 is incomplete") as caught:
        run_flat(chosen, JULY)
    assert "era5/raw" in caught.value.remedy
    allowed = settings(files_dir=str(folder), allow_incomplete=True)
    raw = run_raw(allowed, JULY)
    assert passed(raw.outcomes) == dict.fromkeys(RAW_CHECKS, True)
    assert any("is incomplete" in outcome.description for outcome in raw.outcomes)
    result = run(allowed, warehouse)
    assert (result.flat.hours, result.flat.rows) == (168, 12 * 168)
    assert_holds(warehouse, result.flat)
    assert state_of(warehouse) == "incomplete"
    # When the rest of the files arrives, the month counts as changed and is loaded.
    write_july(folder)
    assert unchanged_months(chosen, warehouse, (JULY,)) == frozenset()
    run(chosen, warehouse)
    assert state_of(warehouse) == "loaded"


def test_a_changed_table_fails_verification(settings: Making, warehouse: Warehouse, folder: Path) -> None:
    chosen = settings(files_dir=str(folder))
    run(chosen, warehouse)
    with warehouse.connect() as connection:
        connection.execute("DELETE FROM weather WHERE time = '2023-07-15 12:00Z'")
        connection.execute("UPDATE weather SET temperature_2m = 0 WHERE time = '2023-07-16 12:00Z'")
    result = run(chosen, warehouse)
    assert not result.loaded.changed
    assert passed(result.outcomes) == {"rows_equal": False, "columns_equal": False}
    assert "--force" in result.outcomes[0].remedy
    repaired = run(settings(files_dir=str(folder), force=True), warehouse)
    assert passed(repaired.outcomes) == dict.fromkeys(TABLE_CHECKS, True)
    assert_holds(warehouse, repaired.flat)


def test_generated_months_do_not_replace_real_ones(settings: Making, warehouse: Warehouse, folder: Path) -> None:
    run(settings(files_dir=str(folder)), warehouse)
    real = rows_of_table(warehouse)
    with pytest.raises(RefusedError, match=r"the table holds real data \(source files\)"):
        run(settings(source="sample", area=SMALL), warehouse)
    with pytest.raises(RefusedError, match="nor is mixed with it"):
        run(settings(source="sample", area=SMALL, force=True, replace=True), warehouse)
    assert rows_of_table(warehouse) == real


def test_files_that_change_between_the_stages_are_detected(settings: Making, folder: Path) -> None:
    chosen = settings(files_dir=str(folder))
    run_raw(chosen, JULY)
    (file,) = folder.iterdir()
    with file.open("ab") as grown:
        grown.write(b"more")
    with pytest.raises(BadFileError, match="has changed since the raw stage"):
        run_flat(chosen, JULY)
    file.unlink()
    with pytest.raises(BadFileError, match="cannot be opened"):
        run_flat(chosen, JULY)


def test_a_zip_is_unpacked_once_for_raw_and_flat(
    settings: Making, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked: list[str] = []
    unpack = archive._unpack

    def counted(*args: Any) -> Path:
        unpacked.append(args[1].filename)
        return unpack(*args)

    monkeypatch.setattr(archive, "_unpack", counted)
    write_zipped_july(folder)
    chosen = settings(files_dir=str(folder))
    source_of(chosen).fetch(JULY)  # the catalogue of the files looks into each of them once
    unpacked.clear()
    run_raw(chosen, JULY)
    first = run_flat(chosen, JULY)
    assert unpacked == ["era5-0.nc", "era5-1.nc"]
    # Without raw in the same process, flat unpacks them itself, and makes the same rows.
    again = run_flat(settings(files_dir=str(folder), force=True), JULY)
    assert len(unpacked) == 4
    assert (again.flat.sha256, again.flat.columns) == (first.flat.sha256, first.flat.columns)
    assert list((chosen.home / "scratch").iterdir()) == []


def test_a_zip_that_changed_between_the_stages_is_not_flattened_from_its_old_members(
    settings: Making, folder: Path
) -> None:
    write_zipped_july(folder)
    chosen = settings(files_dir=str(folder))
    run_raw(chosen, JULY)
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadFileError, match="has changed since the raw stage"):
        run_flat(chosen, JULY)
    assert list((chosen.home / "scratch").iterdir()) == []


def test_no_unpacked_files_are_kept_for_a_refused_month(settings: Making, folder: Path) -> None:
    write_zipped_july(folder, hours=24)
    chosen = settings(files_dir=str(folder))
    assert not passed(run_raw(chosen, JULY).outcomes)["hours_complete"]
    assert list((chosen.home / "scratch").iterdir()) == []
