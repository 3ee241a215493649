"""Records and data files of several homes with one store: what is believed, and what is not."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import StoreError
from era5_pipeline.model.settings import Settings
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.runtime.files import read_json, write_json
from era5_pipeline.runtime.stores import ObjectStore, open_store
from era5_pipeline.sources.source import RawFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Homes = Callable[[str], FileStore]


@pytest.fixture
def homes(tmp_path: Path, store_address: str) -> Homes:
    return lambda name: FileStore(tmp_path / name, open_store(store_address))


def file_of(file_store: FileStore, content: bytes, name: str = "raw/x.nc") -> RawFile:
    return RawFile(file_store.home / name, hashlib.sha256(content).hexdigest(), len(content))


def written(file_store: FileStore, content: bytes, name: str = "raw/x.nc") -> RawFile:
    file = file_of(file_store, content, name)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(content)
    return file


def publish(file_store: FileStore, content: bytes) -> RawFile:
    """Write a data file and the record that names it."""
    file = written(file_store, content)
    file_store.write_record(
        file_store.home / "raw" / "x.json", {"path": str(file.path), "sha256": file.sha256}, (file,)
    )
    return file


def store_of(file_store: FileStore) -> ObjectStore:
    assert file_store.store is not None
    return file_store.store


def data_key(file_store: FileStore) -> str:
    (key,) = [one.key for one in store_of(file_store).objects() if one.key.endswith(".nc")]
    return key


def test_another_home_reads_the_record_with_paths_of_its_own(homes: Homes) -> None:
    a, b = homes("a"), homes("b")
    publish(a, b"content")
    record = b.read_record(b.home / "raw" / "x.json")
    assert record["path"] == str(b.home / "raw" / "x.nc")
    assert not b.home.exists()
    assert b"/a/" not in (store_of(a).read("raw/x.json") or b"")
    file = file_of(b, b"content")
    assert b.has(file)
    assert b.obtain(file)
    assert file.path.read_bytes() == b"content"


@pytest.mark.parametrize("harm", ["changed", "cut", "gone", "longer"])
def test_a_harmed_object_is_not_believed(homes: Homes, harm: str) -> None:
    a, b = homes("a"), homes("b")
    publish(a, b"content")
    key = data_key(a)
    if harm == "gone":
        store_of(a).remove(key)
    else:
        store_of(a).write(key, {"changed": b"CONTENT", "cut": b"cont", "longer": b"content!"}[harm])
    file = file_of(b, b"content")
    assert not b.obtain(file)
    assert not file.path.exists()
    # Whoever has it publishes it again.
    publish(a, b"content")
    assert b.obtain(file)


def test_a_stale_local_file_of_the_same_size_is_replaced(homes: Homes) -> None:
    a, b = homes("a"), homes("b")
    publish(a, b"new")
    file = written(b, b"old")
    assert b.obtain(file_of(b, b"new"))
    assert file.path.read_bytes() == b"new"


def test_a_stale_record_names_a_file_that_is_believed_or_nothing(homes: Homes) -> None:
    """A record of before, put back: its data file is either still there, or missing; never another's."""
    a, b = homes("a"), homes("b")
    old = publish(a, b"old")
    record = store_of(a).read("raw/x.json")
    assert record is not None
    publish(a, b"new")
    store_of(a).write("raw/x.json", record)
    assert b.obtain(file_of(b, b"old"))
    assert (b.home / "raw" / "x.nc").read_bytes() == b"old"
    a.discard(old)
    (b.home / "raw" / "x.nc").unlink()
    assert not b.obtain(file_of(b, b"old"))


def test_two_homes_that_write_one_month_leave_a_record_with_its_own_file(homes: Homes) -> None:
    a, b = homes("a"), homes("b")
    file_a, file_b = written(a, b"of a"), written(b, b"of b")
    # Both publish their data, then a its record, then b.
    for file_store, file in ((a, file_a), (b, file_b)):
        file_store.share_record(file_store.home / "none.json", (file,))
        file_store.write_record(file_store.home / "raw" / "x.json", {"sha256": file.sha256}, (file,))
    for file_store in (a, b, homes("c")):
        record = file_store.read_record(file_store.home / "raw" / "x.json")
        assert record["sha256"] == file_b.sha256
        assert file_store.obtain(file_of(file_store, b"of b"))
        assert (file_store.home / "raw" / "x.nc").read_bytes() == b"of b"


def test_a_record_is_not_written_where_its_file_could_not_be(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    a, b = (FileStore(tmp_path / name, open_store(str(tmp_path / "store"))) for name in "ab")
    publish(a, b"old")
    # A folder of that name makes the upload fail.
    (tmp_path / "store" / "raw" / f"x.{file_of(a, b'new').sha256[:16]}.nc").mkdir()
    with pytest.raises(StoreError):
        publish(a, b"new")
    assert b.read_record(b.home / "raw" / "x.json")["sha256"] == file_of(b, b"old").sha256
    assert b.obtain(file_of(b, b"old"))


def test_a_record_of_this_machine_counts_until_the_store_has_one(homes: Homes) -> None:
    a = homes("a")
    write_json(a.home / "raw" / "x.json", {"of": "home"})
    assert a.read_record(a.home / "raw" / "x.json") == {"of": "home"}
    store_of(a).write("raw/x.json", b'{"of": "store"}')
    assert a.read_record(a.home / "raw" / "x.json") == {"of": "store"}
    assert read_json(a.home / "raw" / "x.json") == {"of": "home"}
    store_of(a).write("raw/y.json", b'{"half')
    assert a.read_record(a.home / "raw" / "y.json") is None


def test_local_copies_go_only_if_the_store_has_them(homes: Homes) -> None:
    a = homes("a")
    file = publish(a, b"content")
    a.release(file)
    assert not file.path.exists()
    other = written(a, b"never published", "raw/y.nc")
    a.release(other)
    assert other.path.exists()


def test_a_superseded_file_goes_from_the_store_and_the_new_one_under_its_path_stays(homes: Homes) -> None:
    a = homes("a")
    old = publish(a, b"old")
    new = publish(a, b"new")
    a.supersede(old)
    assert new.path.read_bytes() == b"new"
    assert data_key(a).endswith(f"{new.sha256[:16]}.nc")


def test_files_of_the_user_are_neither_published_nor_removed(homes: Homes, tmp_path: Path) -> None:
    a = homes("a")
    own = tmp_path / "own.nc"
    own.write_bytes(b"own")
    file = RawFile(own, hashlib.sha256(b"own").hexdigest(), 3)
    a.write_record(a.home / "raw" / "x.json", {"path": str(own)}, (file,))
    assert [one.key for one in store_of(a).objects()] == ["raw/x.json"]
    assert homes("b").read_record(homes("b").home / "raw" / "x.json") == {"path": str(own)}
    a.release(file)
    assert a.obtain(file)


def test_without_a_store_nothing_but_the_home_is_used(tmp_path: Path) -> None:
    file_store = FileStore(tmp_path)
    file = publish(file_store, b"content")
    assert file_store.obtain(file)
    file_store.release(file)
    assert file.path.exists()
    file_store.discard(file)
    assert not file_store.obtain(file)
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == ["x.json"]


def test_files_of_two_data_sets_never_meet(tmp_path: Path) -> None:
    home, shared = tmp_path / "home", tmp_path / "store"
    shared.mkdir()
    own, land = (
        FileStore.of(Settings(_env_file=None, home=home, store=str(shared), dataset=name))
        for name in ("era5", "era5-land")
    )
    files = [publish(file_store, content) for file_store, content in ((own, b"own"), (land, b"land"))]
    assert [file.path.parent for file in files] == [home / "raw", home / "era5-land" / "raw"]
    # Another machine has only the store.
    for file_store, file, content in zip((own, land), files, (b"own", b"land"), strict=True):
        file.path.unlink()
        assert file_store.obtain(file)
        assert file.path.read_bytes() == content
        assert [path.is_file() for path in (shared / "raw" / "x.json", shared / "era5-land/raw/x.json")] == [True] * 2
