from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import LocalDiskError
from era5_pipeline.runtime import files
from era5_pipeline.runtime.files import (
    digest_of,
    read_json,
    replacing,
    replacing_folder,
    reserve,
    sha256_of,
    write_json,
)
from era5_pipeline_tests.era5_files import full_disk

if TYPE_CHECKING:
    from pathlib import Path


def test_the_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    with replacing(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
        temporary.write_text("whole")
    assert target.read_text() == "whole"
    assert [path.name for path in target.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, *, is_folder: bool) -> None:
    target = tmp_path / "target"
    held = target / "held" if is_folder else target
    held.parent.mkdir(exist_ok=True)
    held.write_text("old")

    def interrupted() -> None:
        with (replacing_folder if is_folder else replacing)(target) as temporary:
            if is_folder:
                temporary.mkdir()
            (temporary / "new" if is_folder else temporary).write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert held.read_text() == "old"
    assert list(tmp_path.rglob("*")) == ([target, held] if is_folder else [target])


def test_concurrent_writers_of_one_file_do_not_interfere(tmp_path: Path) -> None:
    """As in containers that share a folder, where process ids may be equal."""
    both = threading.Barrier(2, timeout=240)
    failed: list[BaseException] = []

    def write(text: str) -> None:
        try:
            with replacing(tmp_path / "file") as temporary:
                temporary.write_text(text)
                both.wait()
                assert temporary.read_text() == text
                both.wait()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert (tmp_path / "file").read_text() in ("a", "b")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_full_disk_is_reported_and_nothing_is_left_on_it() -> None:
    with full_disk(1 << 20) as disk:
        with pytest.raises(LocalDiskError, match="No space left") as raised, replacing(disk / "big") as temporary:
            temporary.write_bytes(bytes(2 << 20))
        assert str(disk) in str(raised.value)
        assert raised.value.remedy
        assert list(disk.iterdir()) == []


def test_json_is_read_back_unchanged(tmp_path: Path) -> None:
    value = {"a": [1, None, "ü", {"b": 0.1}], "name \udcff": True}
    write_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == value


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1', b"\xff\xfe\x00", b"\x00" * 100])
def test_invalid_json_is_read_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert read_json(tmp_path / "x.json") is None
    assert read_json(tmp_path / "missing.json") is None


def test_digests_are_those_of_sha256_and_do_not_depend_on_order(tmp_path: Path) -> None:
    content = os.urandom((2 << 20) + 7)
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of(json.loads('{"b": [1, 2], "a": 1}'))
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_files_of_a_killed_process_are_removed_by_the_next_write(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from era5_pipeline.runtime.files import replacing\n"
        "with replacing(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "month.json")], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name != "month.json"
    with replacing(tmp_path / "another.json") as temporary:
        temporary.write_text("whole")
        assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["another.json"]


def test_a_folder_appears_only_when_it_is_complete_and_is_exchanged_for_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "store"
    for text in ("first", "second"):
        with replacing_folder(target) as temporary:
            (temporary / "deep").mkdir(parents=True)
            (temporary / "deep" / text).write_text(text)
            assert not (target / "deep" / text).exists()
        assert [path.name for path in target.rglob("*")] == ["deep", text]
        assert list(tmp_path.iterdir()) == [target]


def swap_as_macos_does(one: bytes, other: bytes, flags: int) -> int:
    assert flags == 2  # RENAME_SWAP
    return int(ctypes.CDLL(None).renameat2(-100, one, -100, other, 2))


@pytest.mark.parametrize("is_macos", [True, False])
def test_a_folder_is_exchanged_where_the_system_has_no_renameat2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_macos: bool
) -> None:
    libc = SimpleNamespace(renamex_np=swap_as_macos_does) if is_macos else SimpleNamespace()
    monkeypatch.setattr(files, "ctypes", SimpleNamespace(CDLL=lambda _: libc))
    target = tmp_path / "store"
    for text in ("first", "second"):
        with replacing_folder(target) as temporary:
            temporary.mkdir()
            (temporary / text).write_text(text)
        assert [path.name for path in target.iterdir()] == [text]
        assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("has_fallocate", [True, False])
def test_space_is_reserved_and_contents_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_fallocate: bool
) -> None:
    if not has_fallocate:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    path, size = tmp_path / "file", 3_000_001
    path.write_bytes(b"held")
    for _ in range(2):  # the second time, all of it is there
        with path.open("r+b") as file:
            reserve(file, size)
        assert path.read_bytes() == b"held" + bytes(size - 4)
        assert path.stat().st_blocks * 512 >= size
    with full_disk(1 << 20) as disk, (disk / "file").open("wb") as file, pytest.raises(OSError, match="No space left"):
        reserve(file, size)
