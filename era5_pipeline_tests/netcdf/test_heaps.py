"""Damaged HDF5 files, which the library may never finish reading: each is refused in bounded time, or read."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import h5py
import netCDF4
import numpy as np
import psutil as _psutil
import pytest
from dask.base import compute

from era5_pipeline.netcdf import heaps
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline.netcdf.field_reader import FieldReader
from era5_pipeline.netcdf.heaps import require_readable_heaps
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.era5_files import hours_from, weather, write_netcdf

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

psutil: Any = _psutil  # it comes without types

OF = weather(hours_from("2023-07-01T00", 744), names=("t2m",))
BROKEN = "cannot be read, it is cut off or damaged (the texts at byte {at:,} of it are broken)"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A month as the Climate Data Store writes them: 744 texts of expver, those of attributes, compressed values."""
    return write_netcdf(tmp_path_factory.mktemp("sound") / "x.nc", OF).read_bytes()


@pytest.fixture(autouse=True)
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heaps, "_TRIAL_SECONDS", 2)


@pytest.fixture
def no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that would be tried is refused."""
    monkeypatch.setattr(heaps, "_TRIAL", "raise SystemExit(1)")


def problems_of(path: Path) -> list[str]:
    return [problem.text for problem in inspect(NetcdfFile(path, path)).problems]


# What is written in the heap, and where.
DAMAGE: dict[str, dict[int, bytes]] = {
    "zeros": {16: bytes(2000)},
    # The first object: its number, and its size.
    "a size of zero": {16: bytes(2), 24: bytes(8)},
    # With its header it has 2**64 bytes.
    "a size that overflows to 0": {24: struct.pack("<Q", 2**64 - 16)},
    "a heap that ends beyond the file": {8: struct.pack("<Q", 1 << 22)},
}


def damaged(sound: bytes, damage: str) -> tuple[bytes, int]:
    """The file with damage in its first heap, and where this begins."""
    content, at = bytearray(sound), sound.index(b"GCOL\x01")
    for within, written in DAMAGE[damage].items():
        content[at + within : at + within + len(written)] = written
    return bytes(content), at


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_heap_that_hdf5_cannot_read_is_refused_in_bounded_time(
    tmp_path: Path, sound: bytes, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """With the first three HDF5 never ends: all of the time limit is waited out."""
    monkeypatch.setattr(heaps, "_TRIAL_SECONDS", 1)
    content, at = damaged(sound, damage)
    path = tmp_path / "x.nc"
    path.write_bytes(content)
    (problem,) = inspect(NetcdfFile(path, path)).problems
    assert (problem.file, problem.text) == (str(path), BROKEN.format(at=at))
    assert problem.remedy


@pytest.mark.usefixtures("no_trials")
@pytest.mark.parametrize(
    "name", ["telangana-2023-09/data_stream-oper_stepType-instant.nc", "karnataka-2024-01-01T12/era5.nc"]
)
def test_real_files_need_no_trial(name: str) -> None:
    require_readable_heaps(ROOT / "data/era5" / name)


@pytest.mark.usefixtures("no_trials")
def test_a_heap_across_the_border_of_two_blocks_is_found_once(
    tmp_path: Path, sound: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, at = damaged(sound, "zeros")
    good, bad = tmp_path / "good.nc", tmp_path / "bad.nc"
    good.write_bytes(sound)
    bad.write_bytes(content)
    for block in (at, at + 1, at + 2, at + 4, at + 5):
        monkeypatch.setattr(heaps, "_BLOCK_BYTES", block)
        require_readable_heaps(good)
        with pytest.raises(ValueError, match="the texts at byte"):
            require_readable_heaps(bad)


def test_values_that_look_like_a_damaged_heap_do_no_harm(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(hours_from("2023-07-01T00", 3)))
    with h5py.File(path, "a") as file:
        file["numbers"] = np.frombuffer(b"GCOL\x01\0\0\0" + (4096).to_bytes(8, "little") + bytes(4080), dtype="u1")
    assert heaps._find_broken_heap(path) is not None
    assert problems_of(path) == []


@pytest.mark.usefixtures("no_trials")
@pytest.mark.parametrize("at", [0, 743])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_texts_longer_than_the_file_are_refused_before_memory_is_taken_for_them(
    tmp_path: Path, sound: bytes, at: int, *, is_chunked: bool
) -> None:
    path = tmp_path / "x.nc"
    path.write_bytes(sound)
    if is_chunked:
        with h5py.File(path, "a") as file:
            texts = file["expver"][...]
            del file["expver"]
            file.create_dataset("expver", data=texts, chunks=(100,), dtype=h5py.string_dtype())
    with h5py.File(path) as file:
        texts = file["expver"]
        if is_chunked:
            start, within = texts.id.get_chunk_info(at // 100).byte_offset, at % 100
        else:
            start, within = texts.id.get_offset(), at
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, start + 16 * within, 2**32 - 1)
    path.write_bytes(content)
    (problem,) = problems_of(path)
    assert "the texts of expver have 4,29" in problem


def test_sizes_of_other_widths_are_tried(tmp_path: Path, sound: bytes) -> None:
    """A file with sizes of four bytes, which netCDF never writes, is read as any other."""
    access = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    access.set_sizes(4, 4)
    path = tmp_path / "x.nc"
    with h5py.File(h5py.h5f.create(str(path).encode(), fcpl=access)) as file:
        file["numbers"] = [1.0]
        file.attrs["text"] = "a text"
    assert heaps._find_broken_heap(path) == 0
    (problem,) = problems_of(path)
    assert "holds none of the variables" in problem


PARENT = """
import sys
from pathlib import Path
from era5_pipeline.netcdf import heaps
heaps._TRIAL_SECONDS = 1
heaps.require_readable_heaps(Path(sys.argv[1]))
"""


def test_a_trial_ends_although_its_parent_was_killed(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "x.nc"
    path.write_bytes(damaged(sound, "zeros")[0])
    with subprocess.Popen([sys.executable, "-c", PARENT, str(path)]) as parent:
        while not (trials := psutil.Process(parent.pid).children()):
            assert parent.poll() is None
        parent.kill()
    _, left = psutil.wait_procs(trials, timeout=600)
    assert left == []


# ---- damage anywhere


def read(path: Path) -> npt.NDArray[np.float32] | None:
    """The values of the file; None if it is refused."""
    file = NetcdfFile(path, path)
    contents = inspect(file)
    if contents.problems:
        return None
    (field,) = contents.fields
    reader = FieldReader(file, by_chunks=True)
    try:
        whole = [np.arange(len(axis)) for axis in (field.hours, field.latitude_index, field.longitude_index)]
        (values,) = compute(reader.values(field, *whole))  # type: ignore[no-untyped-call]
        return np.asarray(values)
    except (OSError, RuntimeError, ValueError):
        return None
    finally:
        reader.close()


@pytest.mark.parametrize("seed", range(2))
def test_compressed_values_with_damage_are_refused_or_equal(tmp_path: Path, sound: bytes, seed: int) -> None:
    path, chance = tmp_path / "x.nc", random.Random(seed)
    path.write_bytes(sound)
    with netCDF4.Dataset(path) as dataset:
        assert dataset["t2m"].filters()["zlib"]
    with h5py.File(path) as file:
        chunk = file["t2m"].id.get_chunk_info(0)
    expected = read(path)
    for number in range(20):
        content = bytearray(sound)
        at = chunk.byte_offset + chance.randrange(chunk.size)
        count = min(chance.choice([1, 8, 2000]), chunk.byte_offset + chunk.size - at)
        content[at : at + count] = chance.choice([bytes(count), chance.randbytes(count)])
        # A new name, because the libraries cache facts about open files.
        path = tmp_path / f"x{number}.nc"
        path.write_bytes(content)
        values = read(path)
        if values is not None:
            np.testing.assert_array_equal(values, expected)


ANYWHERE = """
import random, sys
from pathlib import Path
from era5_pipeline.netcdf import heaps
from era5_pipeline_tests.netcdf.test_heaps import read
heaps._TRIAL_SECONDS = 1
sound, chance = Path(sys.argv[1]).read_bytes(), random.Random(int(sys.argv[2]))
refused = 0
for number in range(40):
    content = bytearray(sound)
    # Most of the file is values; its structure is before them.
    at = chance.randrange(len(content) if number % 2 else len(content) // 4)
    count = min(chance.choice([1, 4, 100, 2000]), len(content) - at)
    content[at : at + count] = chance.choice([bytes(count), b"\\xff" * count, chance.randbytes(count)])
    path = Path(sys.argv[1]).with_name(f"x{number}.nc")
    path.write_bytes(content)
    refused += read(path) is None
print(refused)
"""


def test_damage_anywhere_ends_in_bounded_time(tmp_path: Path, sound: bytes) -> None:
    (tmp_path / "x.nc").write_bytes(sound)
    command = [sys.executable, "-c", ANYWHERE, str(tmp_path / "x.nc"), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert 0 < int(done.stdout) < 40
