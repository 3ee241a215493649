"""What is removed of a loaded month by ERA5_KEEP, what stays, and what a later run makes of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.flat.storage.removal import FileRemoval
from era5_pipeline.flat.storage.stored_month import StoredMonth
from era5_pipeline.model.errors import InputError, RefusedError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.planning.unchanged_months import unchanged_months
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime.store.depot import Depot
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.flat_months import assert_holds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.stages import LoadResult

    Making = Callable[..., Settings]

JULY = Month(2023, 7)
SMALL = "10.25/20/10/20.25"
# The kinds of files of a flat month.
FLAT = {".parquet", "summaries"}


@pytest.fixture
def warehouse(database_url: str) -> Warehouse:
    return Warehouse(database_url)


@pytest.fixture(params=["home", "store"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Making:
    """Makes settings without a store, and with one."""
    for name in [name for name in os.environ if name.startswith("ERA5_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").mkdir()
    store = {"store": str(tmp_path / "store")} if request.param == "store" else {}

    def make(**values: Any) -> Settings:
        chosen: dict[str, Any] = {"home": tmp_path / "home", "source": "sample", "area": SMALL}
        return Settings(**(chosen | store | values))

    return make


def load(settings: Settings, warehouse: Warehouse) -> LoadResult:
    run_raw(settings, JULY)
    run_flat(settings, JULY)
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
    run_raw(chosen, JULY)
    made = run_flat(chosen, JULY).flat
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
    run_raw(less, JULY)
    run_flat(less, JULY)
    with pytest.raises(RefusedError, match="holds more"):
        run_load(less, warehouse, JULY)
    assert kinds(less.home) == {".zip", *FLAT}


def test_files_of_a_month_whose_verification_failed_stay(settings: Making, warehouse: Warehouse) -> None:
    chosen = settings(keep="none")
    run_raw(chosen, JULY)
    run_flat(chosen, JULY)
    run_load(settings(keep="all"), warehouse, JULY)
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
    run_raw(chosen, JULY)
    run_flat(chosen, JULY)
    other = FileRemoval(StoredMonth(Depot.of(chosen), JULY), "none")
    with other.in_use():
        assert run_load(chosen, warehouse, JULY).loaded.changed
        assert kinds(chosen.home) == {".zip", *FLAT}
    run_load(chosen, warehouse, JULY)
    assert kinds(chosen.home) == kinds(durable(chosen)) == set()


def test_a_month_is_loaded_though_its_files_cannot_be_removed(
    settings: Making, warehouse: Warehouse, tmp_path: Path
) -> None:
    chosen = settings(keep="none")
    run_raw(chosen, JULY)
    flat = run_flat(chosen, JULY).flat
    flat.path.unlink()
    if chosen.store is None:
        pytest.skip("root may remove any file of its home")
    # A folder where the store should have the file: it can be neither read nor removed as one.
    (stored,) = (tmp_path / "store" / "raw" / "sample").glob("*.zip")
    stored.unlink()
    stored.mkdir()
    result = run_load(chosen, warehouse, JULY)
    assert result.loaded.changed
    assert any("could not be removed" in note for note in result.loaded.notes)
