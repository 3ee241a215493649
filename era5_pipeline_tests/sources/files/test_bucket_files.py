"""The user's own files in a bucket of S3: found, opened once, copied while their month is loaded."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.errors import BadFileError, NoDataError, StoreError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.planning.unchanged_months import unchanged_months
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime.store.object_store import open_store
from era5_pipeline.sources.open_source import source_of, stray_problems
from era5_pipeline.sources.source import FolderSource
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.flat_months import assert_holds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Making = Callable[..., Settings]

JULY, AUGUST = Month(2023, 7), Month(2023, 8)


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
    assert isinstance(source, FolderSource)
    assert source.months() == (JULY, AUGUST)
    assert copies(settings()) == []
    raw = run_raw(settings(), JULY).raw
    assert [file.origin for file in raw.files] == [july]
    assert len(copies(settings())) == 1
    flat = run_flat(settings(), JULY).flat
    run_load(settings(), warehouse, JULY)
    assert_holds(warehouse, flat)
    assert copies(settings()) == []
    with warehouse.connect() as connection:
        (part,) = read_ledger(connection)[0].parts
    assert [file.path for file in part.files] == [july]
    assert stray_problems(settings()) == ()
    assert unchanged_months(settings(), warehouse, (JULY, AUGUST)) == {JULY}


def test_an_object_is_opened_once(settings: Making, s3_address: str, tmp_path: Path) -> None:
    put(s3_address, tmp_path / "made")
    known = source_of(settings()).known(JULY)
    assert known is not None
    assert copies(settings()) == []
    # Its catalogue alone answers, while its size and time are the same.
    catalogue = sorted((settings().home / "catalogue").iterdir())
    assert len(catalogue) == 1
    written = catalogue[0].stat().st_mtime_ns
    assert source_of(settings()).known(JULY) == known
    assert catalogue[0].stat().st_mtime_ns == written
    put(s3_address, tmp_path / "made", seed=2)
    changed = source_of(settings()).known(JULY)
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
    run_raw(machines[0], JULY)
    flat = run_flat(machines[1], JULY).flat
    assert len(copies(machines[1])) == 1
    copy = replace(flat, path=tmp_path / "copy.parquet")
    shutil.copyfile(flat.path, copy.path)
    loaded = run_load(machines[1], Warehouse(database_url), JULY)
    assert loaded.loaded.changed
    assert copies(machines[1]) == []
    assert_holds(Warehouse(database_url), copy)
    # The catalogue is in the store too: a third machine opens nothing.
    known = source_of(machines[2]).known(JULY)
    assert known is not None
    assert known.fingerprint == flat.raw.fingerprint
    assert not (machines[2].home / "raw").exists()


def test_an_object_that_changed_between_the_stages_is_detected(
    settings: Making, s3_address: str, tmp_path: Path
) -> None:
    put(s3_address, tmp_path / "made", name="july.nc")
    run_raw(settings(), JULY)
    put(s3_address, tmp_path / "made", seed=2, name="july.nc")
    copies(settings())[0].unlink()
    with pytest.raises(BadFileError, match=rf"{s3_address}/july\.nc: was changed"):
        run_flat(settings(), JULY)
    open_store(s3_address).remove("july.nc")
    with pytest.raises(BadFileError, match=rf"{s3_address}/july\.nc: is gone"):
        run_flat(settings(), JULY)


def test_problems_name_the_object(settings: Making, s3_address: str) -> None:
    open_store(s3_address).write("broken.nc", b"<html>no</html>")
    (problem,) = stray_problems(settings())
    assert problem.file == f"{s3_address}/broken.nc"
    with pytest.raises(NoDataError, match="broken"):
        run_raw(settings(), JULY)


def test_folders_and_buckets_are_read_together(settings: Making, s3_address: str, tmp_path: Path) -> None:
    put(s3_address, tmp_path / "made")
    weather = era5_files.weather(era5_files.hours_from("2023-08-01T00", 744), names=("t2m",))
    era5_files.write(tmp_path / "own", weather)
    both: Any = source_of(settings(files_dir=f"{tmp_path / 'own'}:{s3_address}"))
    assert both.months() == (JULY, AUGUST)
    one = source_of(settings(files_dir=put(s3_address, tmp_path / "made", name="one.nc")))
    assert isinstance(one, FolderSource)
    assert one.months() == (JULY,)


def test_a_bucket_that_is_missing_is_named(settings: Making) -> None:
    with pytest.raises(StoreError, match="no-such-bucket"):
        run_raw(settings(files_dir="s3://no-such-bucket/x"), JULY)
