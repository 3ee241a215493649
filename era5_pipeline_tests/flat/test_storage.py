"""Tests of `flat/storage`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.flat.storage import FileRemoval, StoredMonth
from era5_pipeline.model.errors import InputError, RefusedError, StoreError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.planning.current_contents import unchanged_months
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.monthly import assert_monthly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.stages import LoadResult

    Making = Callable[..., Settings]

JULY = Month(2023, 7)


@pytest.fixture
def warehouse(database_url: str) -> Warehouse:
    return Warehouse(database_url)


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ERA5_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def machine(tmp_path: Path, store_address: str) -> Making:
    """Makes the settings of a machine by its name: it has a home of its own, and the store."""

    def make(name: str, **values: Any) -> Settings:
        chosen = {"source": "sample", "area": "10.5/20/10/20.5", "store": store_address} | values
        return Settings(home=tmp_path / name, **chosen)

    return make


@pytest.fixture
def no_pictures() -> Iterator[None]:
    with without_pictures():
        yield


def objects(settings: Settings) -> dict[str, int]:
    store = FileStore.of(settings).store
    assert store is not None
    return {found.key: found.bytes for found in store.objects()}


def test_the_stages_of_a_month_run_on_three_machines(machine: Making, warehouse: Warehouse) -> None:
    raw = run_raw(machine("first"), JULY)
    assert not (machine("second").home / "raw").exists()
    flat = run_flat(machine("second"), JULY)
    held = objects(machine("first")).keys()
    assert not flat.reused
    assert flat.flat.raw.fingerprint == raw.raw.fingerprint
    loaded = run_load(machine("third"), warehouse, JULY)
    assert loaded.loaded.changed
    assert all(outcome.passed for outcome in loaded.outcomes)
    assert_holds(warehouse, flat.flat)
    assert (machine("third").home / "flat" / "2023-07.png").read_bytes().startswith(b"\x89PNG")
    # Only small files are left on the machine that loaded the month; the store has everything.
    assert kinds(machine("third").home) == set()
    # The raw file, the rows, the summaries.
    assert sum(key.endswith((".zip", ".parquet")) for key in objects(machine("first"))) == 3
    # A fourth finds nothing to do.
    assert unchanged_months(machine("fourth"), warehouse, (JULY, Month(2023, 8))) == {JULY}
    assert run_raw(machine("fourth"), JULY).raw.fingerprint == raw.raw.fingerprint
    again = run_flat(machine("fourth"), JULY)
    assert (again.reused, again.flat.sha256) == (True, flat.flat.sha256)
    assert again.preview.read_bytes() == flat.preview.read_bytes()
    assert not run_load(machine("fourth"), warehouse, JULY).loaded.changed
    assert objects(machine("first")).keys() == held


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("summaries", [False, True], ids=["rows", "summaries"])
def test_a_harmed_flat_file_in_the_store_is_never_loaded(
    machine: Making, warehouse: Warehouse, *, summaries: bool
) -> None:
    first = machine("first")
    made = flattened(first)
    store = FileStore.of(first).store
    assert store is not None
    (key,) = [key for key in objects(first) if key.endswith(".parquet") and (".monthly." in key) == summaries]
    content = made.files[summaries].path.read_bytes()
    harms = {"changed": content[:1000] + bytes(100) + content[1100:], "cut": content[:-1], "gone": None}
    for harm, harmed in harms.items():
        store.remove(key) if harmed is None else store.write(key, harmed)
        with pytest.raises(InputError, match="2023-07 has no flat file, and not in the store") as caught:
            run_load(machine(f"loading-{harm}"), warehouse, JULY)
        assert "Materialize era5/flat" in caught.value.remedy
        assert not run_flat(machine(f"again-{harm}"), JULY).reused
    assert run_load(machine("last"), warehouse, JULY).loaded.changed
    assert_holds(warehouse, made)
    assert_monthly(warehouse, months=1)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("record", ["raw", "flat"])
def test_a_record_of_a_newer_program_is_refused_and_kept(machine: Making, warehouse: Warehouse, record: str) -> None:
    """In the store, where an older program meets it first."""
    first = machine("first")
    flattened(first)
    store, key = FileStore.of(first).store, f"{record}/2023-07.json"
    assert store is not None
    value = json.loads(store.read(key) or b"")
    assert value["form"] == 1
    newer = json.dumps(value | {"form": 2, "files": "elsewhere"}).encode()
    store.write(key, newer)
    second = machine("second")
    stages: list[Callable[[], object]] = [lambda: run_flat(second, JULY), lambda: run_load(second, warehouse, JULY)]
    if record == "raw":
        stages = [lambda: run_raw(second, JULY), lambda: run_flat(second, JULY)]
    for stage in stages:
        with pytest.raises(InputError, match=rf"{record}/2023-07.json: a newer era5-pipeline .* form 2, .* up to 1\n"):
            stage()
    assert store.read(key) == newer


@pytest.mark.usefixtures("no_pictures")
def test_a_flat_file_of_another_request_takes_the_place_of_the_first(machine: Making) -> None:
    flattened(machine("first"))
    flat = flattened(machine("second", area="11/20/10/21"))
    held = [key for key in objects(machine("first")) if key.endswith(".parquet")]
    assert flat.summaries is not None
    assert len(held) == 2
    for file in flat.files:
        assert any(file.sha256[:16] in key for key in held)


# Programs that fork, as importing takes a process longer than its stages.
_IMPORTS = """
import os, sys, warnings
warnings.filterwarnings("ignore", "This process", DeprecationWarning)  # it forks; the threads of libraries are idle
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.stages import run_flat, run_load, run_raw
month = Month(2023, 7)
def forked(work):
    process = os.fork()
    if process == 0:
        work()
        sys.exit()
    return process
"""


def test_two_processes_on_one_month_do_not_harm_each_other(machine: Making, warehouse: Warehouse) -> None:
    """Two executors take all stages of the same month at once; it is in the table once, and right."""
    program = f"""{_IMPORTS}
def stages(text):
    settings = Settings.model_validate_json(text)
    run_raw(settings, month)
    run_flat(settings, month)
    run_load(settings, Warehouse(sys.argv[1]), month)
processes = [forked(lambda: stages(text)) for text in sys.argv[2:]]
sys.exit(sum(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0 for process in processes))
"""
    homes = [machine(name).model_dump_json() for name in ("first", "second")]
    command = [sys.executable, "-c", program, warehouse.url, *homes]
    ran = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False, timeout=600)
    assert (ran.stderr, ran.returncode) == ("", 0)
    assert unchanged_months(machine("third"), warehouse, (JULY,)) == {JULY}
    flat = run_flat(machine("third"), JULY)
    assert flat.reused
    assert_holds(warehouse, flat.flat)


def test_a_store_that_cannot_be_used_is_reported_before_anything_is_done(
    machine: Making, warehouse: Warehouse, tmp_path: Path
) -> None:
    chosen = machine("first", store=str(tmp_path / "not mounted"))
    stages: list[Callable[[], object]] = [lambda: run_raw(chosen, JULY), lambda: run_flat(chosen, JULY)]
    stages.append(lambda: run_load(chosen, warehouse, JULY))
    for stage in stages:
        with pytest.raises(StoreError, match="does not exist"):
            stage()
    assert not chosen.home.exists()
    assert not (tmp_path / "not mounted").exists()


@pytest.mark.usefixtures("no_pictures")
def test_a_machine_that_is_killed_leaves_a_month_that_another_finishes(machine: Making, warehouse: Warehouse) -> None:
    """Killed at several moments of raw and flat, each time on a new machine; then the next one goes through."""
    program = f"""{_IMPORTS}
def stages(text):
    settings = Settings.model_validate_json(text)
    print("begins", os.getpid(), flush=True)
    run_raw(settings, month)
    print("raw", os.getpid(), flush=True)
    run_flat(settings, month)
for text in sys.argv[1:]:
    # Not waitpid: the number must not become that of another process, which would be killed.
    os.waitid(os.P_PID, forked(lambda: stages(text)), os.WEXITED | os.WNOWAIT)
"""
    moments = [("begins", 0.1), ("begins", 0.6), ("raw", 0.0), ("raw", 0.3)]
    machines = [machine(f"killed-{number}").model_dump_json() for number in range(len(moments))]
    command = [sys.executable, "-c", program, *machines]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        killed = set[str]()
        for wanted, seconds in moments:
            said, number = "", ""
            while said != wanted or number in killed:
                said, number = process.stdout.readline().split()
            killed.add(number)
            time.sleep(seconds)
            with suppress(ProcessLookupError):  # it had ended already
                os.kill(int(number), signal.SIGKILL)
    flat = flattened(machine("last"))
    assert run_load(machine("loading"), warehouse, JULY).loaded.changed
    assert_holds(warehouse, flat)
    assert sum(key.endswith((".zip", ".parquet")) for key in objects(machine("last"))) == 3


SMALL = "10.25/20/10/20.25"
# The kinds of files of a flat month.
FLAT = {".parquet", "summaries"}


@pytest.fixture(params=["home", "store"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, no_pictures: None) -> Making:
    """Makes settings without a store, and with one."""
    (tmp_path / "store").mkdir()
    store = {"store": str(tmp_path / "store")} if request.param == "store" else {}

    def make(**values: Any) -> Settings:
        chosen: dict[str, Any] = {"home": tmp_path / "home", "source": "sample", "area": SMALL}
        return Settings(**(chosen | store | values))

    return make


def flattened(settings: Settings) -> FlatMonth:
    run_raw(settings, JULY)
    return run_flat(settings, JULY).flat


def load(settings: Settings, warehouse: Warehouse) -> LoadResult:
    flattened(settings)
    return run_load(settings, warehouse, JULY)


def kinds(folder: Path) -> set[str]:
    """The kinds of data files below a folder, without records and pictures."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    suffixes = {"summaries" if ".monthly." in path.name else path.suffix for path in paths}
    return suffixes & {".zip", ".nc", ".parquet", ".csv", "summaries"}


def durable(settings: Settings) -> Path:
    """Where files are kept: in the store, else in the home."""
    return settings.home if settings.store is None else settings.home.parent / "store"


@pytest.mark.parametrize(("keep", "kept"), [("all", {".zip", *FLAT}), ("flat", FLAT), ("none", set[str]())])
def test_what_is_kept_of_a_loaded_month(
    settings: Making, warehouse: Warehouse, tmp_path: Path, keep: str, kept: set[str]
) -> None:
    chosen = settings(keep=keep)
    made = flattened(chosen)
    copy = replace(made, path=tmp_path / f"copy{made.path.suffix}")
    shutil.copyfile(made.path, copy.path)
    result = run_load(chosen, warehouse, JULY)
    assert kinds(durable(chosen)) == kept
    if chosen.store is not None:
        assert kinds(chosen.home) == set()
    assert_holds(warehouse, copy)
    # The ledger knows what they were.
    with warehouse.connect() as connection:
        (part,) = read_ledger(connection)[0].parts
    (raw,) = result.flat.raw.files
    assert [(one.path, one.sha256, one.bytes) for one in part.files] == [(str(raw.path), raw.sha256, raw.bytes)]
    assert (part.flat_file.path, part.flat_file.sha256) == (str(result.flat.path), result.flat.sha256)
    # A later run finds nothing to do, without making the files again.
    assert unchanged_months(chosen, warehouse, (JULY,)) == {JULY}
    assert kinds(durable(chosen)) == kept
    # The last stage again, as Dagster does after a run was lost: the table has the rows, no file is needed.
    again = run_load(chosen, warehouse, JULY)
    assert not again.loaded.changed
    assert all(outcome.passed for outcome in again.outcomes)


@pytest.mark.parametrize("keep", ["flat", "none"])
def test_a_forced_run_makes_the_files_again(settings: Making, warehouse: Warehouse, keep: str) -> None:
    load(settings(keep=keep), warehouse)
    forced = settings(keep=keep, force=True)
    assert unchanged_months(forced, warehouse, (JULY,)) == frozenset()
    if keep == "none":
        with pytest.raises(InputError, match="2023-07 has no flat file"):
            run_load(forced, warehouse, JULY)
    assert load(forced, warehouse).loaded.changed


def test_a_stage_alone_says_which_stage_it_needs(settings: Making, warehouse: Warehouse) -> None:
    chosen = settings(keep="none")
    load(chosen, warehouse)
    with pytest.raises(InputError, match=r"its raw file .* is gone") as caught:
        run_flat(chosen, JULY)
    assert "Materialize era5/raw" in caught.value.remedy
    assert "ERA5_KEEP" in caught.value.remedy


def test_files_of_a_month_whose_load_was_refused_stay(settings: Making, warehouse: Warehouse) -> None:
    load(settings(keep="all"), warehouse)
    less = settings(keep="none", sample_hours=24, allow_incomplete=True)
    with pytest.raises(RefusedError, match="holds more"):
        load(less, warehouse)
    assert kinds(less.home) == {".zip", *FLAT}


def test_files_of_a_month_whose_verification_failed_stay(settings: Making, warehouse: Warehouse) -> None:
    chosen = settings(keep="none")
    load(settings(keep="all"), warehouse)
    with warehouse.connect() as connection:
        connection.execute("UPDATE weather SET temperature_2m = 0 WHERE time = '2023-07-10 12:00+00'")
    before = kinds(durable(chosen))
    result = run_load(chosen, warehouse, JULY)
    assert not all(outcome.passed for outcome in result.outcomes)
    assert kinds(durable(chosen)) == before == {".zip", *FLAT}


@pytest.mark.parametrize("keep", ["flat", "none"])
def test_files_of_the_user_are_never_removed(settings: Making, warehouse: Warehouse, tmp_path: Path, keep: str) -> None:
    weather = era5_files.weather(era5_files.hours_from("2023-07-01T00", 744), names=("t2m",))
    # Even where the user keeps them in the pipeline's home.
    folder = tmp_path / "home" / "raw" / "sample"
    era5_files.write(folder, weather)
    before = sorted(folder.iterdir())
    chosen = settings(keep=keep, source="files", files_dir=str(folder), area=None)
    load(chosen, warehouse)
    assert sorted(folder.iterdir()) == before
    assert kinds(tmp_path / "home" / "flat") == (FLAT if keep == "flat" and chosen.store is None else set())
    assert unchanged_months(chosen, warehouse, (JULY,)) == {JULY}


def test_files_that_another_run_reads_stay(settings: Making, warehouse: Warehouse) -> None:
    """Both of a home: the other run removes them when it has loaded the month itself."""
    chosen = settings(keep="none")
    flattened(chosen)
    other = FileRemoval(StoredMonth(FileStore.of(chosen), JULY), "none")
    with other.in_use():
        assert run_load(chosen, warehouse, JULY).loaded.changed
        assert kinds(chosen.home) == {".zip", *FLAT}
    run_load(chosen, warehouse, JULY)
    assert kinds(chosen.home) == kinds(durable(chosen)) == set()


def test_a_month_is_loaded_though_its_files_cannot_be_removed(
    settings: Making, warehouse: Warehouse, tmp_path: Path
) -> None:
    chosen = settings(keep="none")
    if chosen.store is None:
        pytest.skip("root may remove any file of its home")
    flattened(chosen).path.unlink()
    # A folder where the store should have the file: it can be neither read nor removed as one.
    (stored,) = (tmp_path / "store" / "raw" / "sample").glob("*.zip")
    stored.unlink()
    stored.mkdir()
    result = run_load(chosen, warehouse, JULY)
    assert result.loaded.changed
    assert any("could not be removed" in note for note in result.loaded.notes)
