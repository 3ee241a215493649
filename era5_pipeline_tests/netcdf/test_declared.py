"""Files whose values are elsewhere, or that declare more than there can be: refused before they are read."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import h5py
import netCDF4
import pytest

from era5_pipeline.model.errors import BadFileError
from era5_pipeline.netcdf import archive
from era5_pipeline.netcdf.archive import NetcdfFile, netcdf_files
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline.netcdf.declared import MOST_HOURS, require_own_data
from era5_pipeline_tests.era5_files import hours_from, weather, write_netcdf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OF = weather(hours_from("2023-07-01T00", 3))
HUNDRED_GB = 100 * 10**9


def problem_of(path: Path) -> str:
    contents = inspect(NetcdfFile(path, path))
    assert contents.fields == ()
    (problem,) = contents.problems
    assert problem.kind == "unreadable"
    assert problem.remedy
    return problem.text


def with_t2m(path: Path, make: Callable[[h5py.File, tuple[int, ...]], None]) -> Path:
    """A file of ours, whose t2m `make` puts in place of its own."""
    write_netcdf(path, OF)
    with h5py.File(path, "a") as file:
        old = file["t2m"]
        attributes = {name: old.attrs[name] for name in ("units", "long_name", "coordinates")}
        shape = old.shape
        del file["t2m"]
        make(file, shape)
        if file.get("t2m", getlink=True).__class__ is h5py.HardLink:
            file["t2m"].attrs.update(attributes)
            for number, axis in enumerate(("valid_time", "latitude", "longitude")):
                file["t2m"].dims[number].attach_scale(file[axis])
    return path


def test_values_in_an_external_file_are_refused_and_a_pipe_there_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def make(file: h5py.File, shape: tuple[int, ...]) -> None:
        place = [(str(tmp_path / "pipe"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("t2m", shape, "f4", external=place)

    text = problem_of(with_t2m(tmp_path / "x.nc", make))
    assert text == f"does not hold the values of t2m itself: they are in {tmp_path / 'pipe'}"


@pytest.mark.parametrize("name", ["t2m", "valid_time"])
def test_an_external_link_is_refused_and_not_followed(tmp_path: Path, name: str) -> None:
    path = write_netcdf(tmp_path / "x.nc", OF)
    with h5py.File(path, "a") as file:
        del file[name]
        file[name] = h5py.ExternalLink("/dev/zero", f"/{name}")
    assert problem_of(path) == f"does not hold {name} itself: it is a link to the file /dev/zero"


@pytest.mark.parametrize(
    ("name", "link", "said"),
    [
        (
            "far",
            h5py.ExternalLink("other.h5", "/x"),
            "it is a link to the file other.h5",
        ),
        ("near", h5py.SoftLink("/"), "it is a link to /"),
    ],
)
def test_a_link_in_a_group_is_refused(tmp_path: Path, name: str, link: object, said: str) -> None:
    path = write_netcdf(tmp_path / "x.nc", OF)
    with h5py.File(path, "a") as file:
        file.create_group("more")[name] = link
    assert problem_of(path) == f"does not hold more/{name} itself: {said}"


@pytest.mark.parametrize("above", ["/", "more"])
def test_a_group_in_itself_is_refused(tmp_path: Path, above: str) -> None:
    """The netCDF library would go round until the process is aborted."""
    path = write_netcdf(tmp_path / "x.nc", OF)
    with h5py.File(path, "a") as file:
        file.create_group("more")
        file["more"]["again"] = file[above]
    assert problem_of(path) == "holds the group more/again more than once"


def test_a_group_beside_the_variables_does_no_harm(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "x.nc", OF)
    with netCDF4.Dataset(path, "a") as dataset:
        dataset.createGroup("more")
    assert inspect(NetcdfFile(path, path)).problems == ()


def test_a_view_of_other_files_is_refused(tmp_path: Path) -> None:
    write_netcdf(tmp_path / "other.nc", OF)

    def make(file: h5py.File, shape: tuple[int, ...]) -> None:
        layout = h5py.VirtualLayout(shape, "f4")
        layout[:] = h5py.VirtualSource("other.nc", "t2m", shape)
        file.create_virtual_dataset("t2m", layout)

    assert "does not hold the values of t2m itself: it is a view of other files" in problem_of(
        with_t2m(tmp_path / "x.nc", make)
    )


def test_values_that_were_declared_and_never_written_are_refused(tmp_path: Path) -> None:
    """HDF5 would give zeros: no rain."""

    def make(file: h5py.File, shape: tuple[int, ...]) -> None:
        file.create_dataset("t2m", shape, "f4", chunks=(1, *shape[1:]))

    assert "t2m has no values: 36 are declared" in problem_of(with_t2m(tmp_path / "x.nc", make))


def declare(path: Path, *, hours: int, chunk: int, file_format: Any = "NETCDF4") -> Path:  # its names
    with netCDF4.Dataset(path, "w", format=file_format) as dataset:
        dataset.set_fill_off()
        sizes = {"time": hours, "latitude": 1, "longitude": 1}
        for name, size in sizes.items():
            dataset.createDimension(name, size)
        chunked: dict[str, Any] = {"chunksizes": [chunk]} if file_format == "NETCDF4" else {}
        dataset.createVariable("time", "f8", ("time",), **chunked).units = "hours since 1940-01-01"
        for name, unit in (("latitude", "degrees_north"), ("longitude", "degrees_east")):
            axis = dataset.createVariable(name, "f8", (name,))
            axis.units = unit
            axis[:] = 0
        chunked = {"chunksizes": [chunk, 1, 1]} if file_format == "NETCDF4" else {}
        t2m = dataset.createVariable("t2m", "f4", tuple(sizes), **chunked)
        t2m.units = "K"
        t2m[0] = 280.0
    return path


LIMITED = """
import resource, sys
from pathlib import Path
from era5_pipeline.netcdf.archive import NetcdfFile
from era5_pipeline.netcdf.contents import inspect
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 30), held + (1 << 30)))
path = Path(sys.argv[1])
print([problem.text for problem in inspect(NetcdfFile(path, path)).problems])
"""


@pytest.mark.parametrize(("hours", "chunk"), [(20_000_000_000, 1000), (MOST_HOURS + 1, 1000)])
def test_an_axis_longer_than_era5_is_refused_before_it_is_read(tmp_path: Path, hours: int, chunk: int) -> None:
    """With one gigabyte to spare: the axis of the first would take 160."""
    path = declare(tmp_path / "x.nc", hours=hours, chunk=chunk)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    assert f"declares {hours:,} values of time, where ERA5 has at most 1,405,440" in done.stdout


@pytest.mark.parametrize("hours", [744, 745])
def test_chunks_larger_than_a_month_of_the_globe_are_refused(tmp_path: Path, hours: int) -> None:
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as dataset:
        for name, size in (("time", hours), ("latitude", 721), ("longitude", 1440)):
            dataset.createDimension(name, size)
        # Nothing is written.
        dataset.createVariable("t2m", "f4", ("time", "latitude", "longitude"), chunksizes=(hours, 721, 1440))
    if hours == 744:
        require_own_data(tmp_path / "x.nc", is_hdf5=True)
    else:
        assert "keeps t2m in chunks of 3,093,955,200 bytes" in problem_of(tmp_path / "x.nc")


@pytest.mark.parametrize("file_format", ["NETCDF4", "NETCDF3_64BIT_OFFSET"])
def test_a_hundred_gigabytes_of_nothing_are_refused(tmp_path: Path, file_format: str) -> None:
    path = declare(tmp_path / "x.nc", hours=24, chunk=24, file_format=file_format)
    os.truncate(path, HUNDRED_GB)
    assert "is nearly empty: of its 100,000,000,000 bytes" in problem_of(path)


def test_a_file_far_larger_than_its_variables_is_refused(tmp_path: Path) -> None:
    path = declare(tmp_path / "x.nc", hours=24, chunk=24)
    with path.open("ab") as file:
        file.write(os.urandom(1 << 20) * 65)
    assert "bytes, and its variables take" in problem_of(path)


# ---- ZIPs


def test_a_zip_of_zeros_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a gigabyte, which takes long to write.
    monkeypatch.setattr(archive, "_SMALL_MEMBER_BYTES", 1 << 20)
    path, scratch = tmp_path / "x.zip", tmp_path / "scratch"
    scratch.mkdir()
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("x.nc", "w") as member,
    ):
        member.write(write_netcdf(tmp_path / "x.nc", OF).read_bytes())
        member.write(bytes(16 << 20))
    with pytest.raises(BadFileError, match=r"its member x\.nc is empty: 16,\d+,\d+ bytes of \d"):
        list(netcdf_files([path], scratch))
    assert list(scratch.iterdir()) == []


LARGE_SERIES = """
import sys
from pathlib import Path
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.netcdf.archive import netcdf_files
from era5_pipeline.runtime.peak_memory import peak_rss_bytes
before = peak_rss_bytes()
try:
    list(netcdf_files([Path(sys.argv[1])], Path(sys.argv[2])))
except BadFileError as error:
    print(error.problem)
print(peak_rss_bytes() - before)
"""


def test_a_csv_of_gigabytes_in_a_zip_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    rows = b"2023-07-01 00:00:00,300.0,10.25,20.5\n" * 100_000
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.csv", "w") as csv,
    ):
        csv.write(b"valid_time,t2m,latitude,longitude\n")
        for _ in range(60):
            csv.write(rows)
    done = subprocess.run(
        [sys.executable, "-c", LARGE_SERIES, str(path), str(tmp_path)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    problem, peak = done.stdout.splitlines()
    assert problem == "has more than 1,405,440 rows, too many for a series of one point"
    # The text alone has 222 MB.
    assert int(peak) < 150_000_000


def test_a_series_that_is_one_endless_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"valid_time,t2m,latitude,longitude\n" + b"2" * (8 << 20) + b"\n")
    with pytest.raises(BadFileError, match="cut off or damaged"):
        list(netcdf_files([path], tmp_path))
