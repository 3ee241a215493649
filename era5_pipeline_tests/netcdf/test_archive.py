from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from era5_pipeline.model.errors import BadFileError, LocalDiskError
from era5_pipeline.netcdf import archive
from era5_pipeline.netcdf.archive import NetcdfFile, netcdf_files, scratch_folder
from era5_pipeline_tests.era5_files import full_disk, hours_from, into_zip, weather, write


@pytest.fixture
def netcdf(tmp_path: Path) -> Path:
    path, *_ = write(tmp_path / "in", weather(hours_from("2023-07-01T00", 3)))
    return path


def zip_of(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return path


def unpacked(path: Path, scratch: Path) -> list[NetcdfFile]:
    scratch.mkdir(exist_ok=True)
    return list(netcdf_files([path], scratch))


def test_a_plain_file_is_read_in_place(tmp_path: Path, netcdf: Path) -> None:
    assert unpacked(netcdf, tmp_path / "scratch") == [NetcdfFile(netcdf, netcdf)]
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_are_unpacked_and_named_by_zip_and_member(tmp_path: Path, netcdf: Path, method: int) -> None:
    content = netcdf.read_bytes()
    members = {"accum.nc": content, "folder/": b"", "folder/instant": content, "readme.txt": b"hello"}
    path = zip_of(tmp_path / "era5.nc", members, method)
    files = unpacked(path, tmp_path / "scratch")
    assert [file.shown for file in files] == [f"{path}!accum.nc", f"{path}!folder/instant"]
    assert [file.path.read_bytes() for file in files] == [content] * 2
    # Other members are not unpacked.
    assert len(list((tmp_path / "scratch").iterdir())) == 2


@pytest.mark.parametrize(
    "name", ["../evil.nc", "/tmp/evil-era5.nc", "a/../../evil.nc", "..\\evil.nc", "C:\\evil.nc", "x" * 300]
)
def test_member_names_cannot_lead_out_of_the_scratch_folder(tmp_path: Path, netcdf: Path, name: str) -> None:
    path = zip_of(tmp_path / "slip.zip", {name: netcdf.read_bytes()})
    before = sorted(tmp_path.rglob("*"))
    (file,) = unpacked(path, tmp_path / "scratch")
    assert file.path.parent == tmp_path / "scratch"
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "scratch", file.path])
    assert not Path("/tmp/evil-era5.nc").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_the_same_name_become_two_files(tmp_path: Path, netcdf: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as target:
        for _ in range(2):
            target.writestr("a.nc", netcdf.read_bytes())
    assert len({file.path for file in unpacked(path, tmp_path / "scratch")}) == 2


@pytest.mark.parametrize("members", [{}, {"readme.txt": b"hello"}, {"inner.zip": b"PK\x05\x06" + bytes(18)}])
def test_a_zip_without_netcdf_is_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    path = zip_of(tmp_path / "notes.zip", members)
    with pytest.raises(BadFileError, match="without netCDF") as raised:
        unpacked(path, tmp_path / "scratch")
    assert raised.value.path == str(path)
    assert raised.value.remedy


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_reported_or_unpacks_correctly(tmp_path: Path, netcdf: Path, method: int) -> None:
    """Truncated or with a flipped byte at some hundred positions: wrong contents are never returned."""
    content = netcdf.read_bytes()
    path = zip_of(tmp_path / "era5.zip", {"a.nc": content}, method)
    whole = path.read_bytes()
    ends = [n for n in range(4, len(whole)) if n < 120 or n > len(whole) - 120 or n % (len(whole) // 12) == 0]
    for end in ends:
        for damaged in (whole[:end], whole[:end] + bytes([whole[end] ^ 0xFF]) + whole[end + 1 :]):
            path.write_bytes(damaged)
            try:
                files = unpacked(path, tmp_path / "scratch")
            except BadFileError as error:
                assert error.path == str(path)  # noqa: PT017
                assert error.remedy  # noqa: PT017
            else:
                assert [file.path.read_bytes() for file in files] == [content]


def test_an_encrypted_zip_is_refused(tmp_path: Path, netcdf: Path) -> None:
    path = zip_of(tmp_path / "secret.zip", {"a.nc": netcdf.read_bytes()})
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(BadFileError, match="encrypted"):
        unpacked(path, tmp_path / "scratch")


def test_a_member_that_claims_to_be_enormous_is_not_unpacked(
    tmp_path: Path, netcdf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_LARGEST_MEMBER_BYTES", 1000)
    path = zip_of(tmp_path / "bomb.zip", {"a.nc": netcdf.read_bytes()})
    with pytest.raises(BadFileError, match="would unpack to"):
        unpacked(path, tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_file_of_another_type_is_refused_with_a_description(tmp_path: Path) -> None:
    path = tmp_path / "page.nc"
    path.write_text("<html>busy</html>")
    with pytest.raises(BadFileError, match="web page"):
        unpacked(path, tmp_path / "scratch")


def test_a_full_disk_is_reported_as_a_disk_error_not_a_damaged_zip(tmp_path: Path) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", 700), range(20), range(20)))
    archived = into_zip(tmp_path / "big.zip", [path])
    with full_disk(256 << 10) as disk:
        with pytest.raises(LocalDiskError, match="No space left"), scratch_folder(disk) as scratch:
            unpacked(archived, scratch)
        assert list((disk / "scratch").iterdir()) == []


def test_a_scratch_folder_is_removed_after_an_interruption(tmp_path: Path) -> None:
    def interrupted() -> None:
        with scratch_folder(tmp_path) as scratch:
            (scratch / "deep").mkdir()
            (scratch / "deep" / "file").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_two_scratch_folders_can_be_used_at_the_same_time(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as first, scratch_folder(tmp_path) as second:
        assert first != second
        assert first.is_dir()
        assert second.is_dir()


HOLDER = """
import sys, time
from pathlib import Path
from era5_pipeline.netcdf.archive import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "member.nc").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_only_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        with scratch_folder(tmp_path):
            assert (folder / "member.nc").exists()
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert folder.exists()
    with scratch_folder(tmp_path) as scratch:
        assert not folder.exists()
        assert scratch.is_dir()
