"""Tests of `netcdf/refusals`."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import h5py
import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.model.errors import BadFileError
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.netcdf import archive
from era5_pipeline.netcdf.archive import NetcdfFile, netcdf_files
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline.netcdf.refusals import MOST_HOURS, require_own_data, required_bytes
from era5_pipeline_tests.commands import assert_says
from era5_pipeline_tests.era5_files import (
    CURRENT,
    LAYOUTS,
    LEGACY,
    Layout,
    Weather,
    hours_from,
    weather,
    write,
    write_netcdf,
)
from era5_pipeline_tests.samples import more_real_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.netcdf.contents import Contents

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
    assert_says(text, "t2m", f"in {tmp_path / 'pipe'}")


@pytest.mark.parametrize(
    ("name", "link", "said"),
    [
        *(
            (name, h5py.ExternalLink("/dev/zero", f"/{name}"), "link to the file /dev/zero")
            for name in ("t2m", "valid_time")
        ),
        (
            "more/far",
            h5py.ExternalLink("other.h5", "/x"),
            "does not hold more/far itself: it is a link to the file other.h5",
        ),
        ("more/near", h5py.SoftLink("/"), "does not hold more/near itself: it is a link to /"),
    ],
)
def test_a_link_is_refused_and_not_followed(tmp_path: Path, name: str, link: object, said: str) -> None:
    path = write_netcdf(tmp_path / "x.nc", OF)
    with h5py.File(path, "a") as file:
        file.create_group("more")
        if name in file:
            del file[name]
        file[name] = link
    assert_says(problem_of(path), name, said)


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


def test_a_view_of_other_files_and_values_that_were_never_written_are_refused(tmp_path: Path) -> None:
    write_netcdf(tmp_path / "other.nc", OF)

    def view(file: h5py.File, shape: tuple[int, ...]) -> None:
        layout = h5py.VirtualLayout(shape, "f4")
        layout[:] = h5py.VirtualSource("other.nc", "t2m", shape)
        file.create_virtual_dataset("t2m", layout)

    def declare_only(file: h5py.File, shape: tuple[int, ...]) -> None:
        """HDF5 would give zeros: no rain."""
        file.create_dataset("t2m", shape, "f4", chunks=(1, *shape[1:]))

    said = "does not hold the values of t2m itself: it is a view of other files"
    assert said in problem_of(with_t2m(tmp_path / "x.nc", view))
    assert "t2m has no values: 36 are declared" in problem_of(with_t2m(tmp_path / "y.nc", declare_only))


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
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=600, check=True
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
        require_own_data(tmp_path / "x.nc", ERA5_GRID, is_hdf5=True)
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
    # A file of a gigabyte would take long to write.
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
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    problem, peak = done.stdout.splitlines()
    assert problem == "has more than 1,405,440 rows, too many for a series of one point"
    # The text alone has 222 MB.
    assert int(peak) < 150_000_000


def test_a_series_that_cannot_be_read_names_the_row_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    row = "2023-07-01 00:00:00,300.0,10.25,20.5\n"
    path.write_text("valid_time,t2m,latitude,longitude\n" + row * 100_000 + row.replace("300.0", "warm"))
    with pytest.raises(BadFileError, match=r"Row #100002: .*'warm'"):
        list(netcdf_files([path], tmp_path))


def test_a_series_that_is_one_endless_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"valid_time,t2m,latitude,longitude\n" + b"2" * (8 << 20) + b"\n")
    with pytest.raises(BadFileError, match="cut off or damaged"):
        list(netcdf_files([path], tmp_path))


CLASSIC = [layout for layout in LAYOUTS if "NETCDF3" in layout.file_format]


@pytest.mark.parametrize("layout", CLASSIC, ids=str)
@pytest.mark.parametrize("names", [("t2m",), ("t2m", "tp")])
@pytest.mark.parametrize("hours", [1, 4])
def test_the_required_length_is_that_of_a_complete_file(
    tmp_path: Path, layout: Layout, names: tuple[str, ...], hours: int
) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", hours), names=names), layout)
    required = required_bytes(path)
    assert required is not None
    # The padding after the last value is not required.
    assert 0 <= path.stat().st_size - required < 4
    assert required_bytes(write_netcdf(tmp_path / "netcdf4.nc", OF)) is None


@pytest.mark.parametrize("file_format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("kinds", [("i1",), ("i2",), ("i1", "f8"), ("S1", "i2", "i4")])
def test_the_required_length_includes_the_padding_of_records(
    tmp_path: Path, file_format: str, kinds: tuple[str, ...]
) -> None:
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w", format=file_format) as dataset:  # type: ignore[arg-type]
        dataset.createDimension("record", None)
        dataset.createDimension("x", 3)
        dataset.title = "odd"
        dataset.createVariable("fixed", "i1", ("x",))[:] = [1, 2, 3]
        for number, kind in enumerate(kinds):
            variable = dataset.createVariable(f"v{number}", kind, ("record", "x"))
            variable[:5] = np.ones((5, 3), "S1" if kind == "S1" else kind)
    required = required_bytes(path)
    assert required is not None
    assert 0 <= path.stat().st_size - required < 4


@pytest.mark.parametrize("size", [4, 7, 8, 20, 100])
def test_a_truncated_header_is_an_error(tmp_path: Path, size: int) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", 2)), CLASSIC[0])
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"header|tag"):
        required_bytes(path)


@pytest.mark.parametrize("is_variable", [False, True])
def test_a_damaged_number_before_zeros_is_an_error_at_once(tmp_path: Path, *, is_variable: bool) -> None:
    """Zeros are dimensions without names: gigabytes of them took minutes."""
    path = tmp_path / "x.nc"
    many, nothing = (2**31 - 1).to_bytes(4, "big"), bytes(8)
    # The number of dimensions; or of those of the only variable, after its empty name.
    damaged = nothing + nothing + b"\0\0\0\x0b\0\0\0\1" + bytes(4) + many if is_variable else b"\0\0\0\x0a" + many
    path.write_bytes(b"CDF\x01" + bytes(4) + damaged + bytes(1000))
    with pytest.raises(ValueError, match=r"^header: a list of 2,147,483,647$"):
        required_bytes(path)


@settings(max_examples=200)
@given(content=st.binary(max_size=200), version=st.sampled_from([1, 2, 5]))
def test_random_headers_give_a_length_or_a_value_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, version: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.nc"
    path.write_bytes(b"CDF" + bytes([version]) + content)
    try:
        required_bytes(path)
    except ValueError as error:
        assert str(error)  # noqa: PT017


HOURS = hours_from("2023-06-30T22", 5)
POINT: dict[str, Any] = {"latitudes": [0.0], "longitudes": [0.0]}
RUN = "Tue Feb 25 07:43:59 2025:"
CFGRIB = (
    '2025-11-10T14:37 GRIB to CDM+CF via cfgrib-0.9.15.0/ecCodes-2.42.0 with {"source": "data.grib", '
    '"filter_by_keys": {"stream": ["%s"], "stepType": ["%s"]}}'
)
DAILY = (
    "earthkit.transforms.aggregate.temporal.daily_reduce(2m_temperature_stream-oper, how=mean, "
    "**{'time_shift': {'hours': 7}, 'remove_partial_periods': True})"
)


def look_into(path: Path, of: Weather, history: str = "", **attributes: object) -> Contents:
    write_netcdf(path, of, replace(CURRENT, attributes=attributes))
    if history:
        with netCDF4.Dataset(path, "a") as dataset:
            dataset.history = history
    return inspect(NetcdfFile(path, path))


def inspect_with(path: Path, layout: Layout, time_units: str = "", **attributes: object) -> Contents:
    """Look into a file with these attributes of its own."""
    write_netcdf(path, weather(HOURS), layout)
    with netCDF4.Dataset(path, "a") as dataset:
        dataset.setncatts(attributes)
        if time_units:
            dataset["time"].units = time_units
    return inspect(NetcdfFile(path, path))


def refusal(contents: Contents) -> str:
    (problem,) = contents.problems
    assert {field.origin for field in contents.fields} <= {"trusted"}
    assert (problem.kind, problem.months) == ("aggregate", ("2023-06", "2023-07"))
    assert "reanalysis-era5-single-levels" in problem.remedy
    return problem.text


@pytest.mark.parametrize(
    ("name", "attributes", "said"),
    [
        ("t2m", {"GRIB_stepType": "avgua"}, "t2m holds monthly means (GRIB_stepType avgua, of hours it is instant)"),
        ("tp", {"GRIB_stepType": "avgad"}, "tp holds monthly means (GRIB_stepType avgad, of hours it is accum)"),
        ("t2m", {"GRIB_stepType": "avgid"}, "GRIB_stepType avgid"),
        ("t2m", {"GRIB_stepType": "avgas"}, "GRIB_stepType avgas"),
        ("t2m", {"GRIB_stepType": "avg"}, "GRIB_stepType avg, of hours it is instant"),
        ("tp", {"GRIB_stepType": "max"}, "GRIB_stepType max, of hours it is accum"),
        ("t2m", {"GRIB_dataType": "em"}, "means of an ensemble"),
        ("t2m", {"GRIB_dataType": "es"}, "the spread of an ensemble"),
        ("t2m", {"GRIB_totalNumber": np.int64(10)}, "values of an ensemble (GRIB_totalNumber 10)"),
        ("t2m", {"GRIB_stream": "moda"}, "monthly means (GRIB_stream moda)"),
        ("t2m", {"cell_methods": "time: mean"}, "a mean over time (cell_methods: time: mean)"),
        ("tp", {"cell_methods": "time: sum within days time: mean over days"}, "a sum over time"),
        ("t2m", {"cell_methods": "time: maximum (interval: 1 day)"}, "a maximum over time"),
    ],
)
def test_a_variable_that_says_it_is_not_of_hours_is_refused(
    tmp_path: Path, name: str, attributes: dict[str, Any], said: str
) -> None:
    text = refusal(look_into(tmp_path / "x.nc", weather(HOURS, names=[name]), **attributes))
    assert said in text
    assert text.endswith("not values of hours")


STEP = "GRIB_%sDirectionIncrementInDegrees"


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({STEP % "i": 0.1, STEP % "j": 0.1}, "values of ERA5-Land (GRIB_iDirectionIncrementInDegrees 0.1)"),
        ({STEP % "j": np.float32(0.1)}, "values of ERA5-Land (GRIB_jDirectionIncrementInDegrees 0.1)"),
        ({STEP % "i": 0.75, STEP % "j": 0.75}, "values of another grid (GRIB_iDirectionIncrementInDegrees 0.75)"),
        ({"GRIB_class": "l5"}, "values of ERA5-Land (GRIB_class l5)"),
        ({"GRIB_class": "mc"}, "values of CAMS (GRIB_class mc)"),
        ({"GRIB_class": "xx"}, "values of another data set (GRIB_class xx)"),
        ({"GRIB_stream": "wave"}, "values of ocean waves (GRIB_stream wave)"),
        ({"GRIB_centre": "kwbc"}, "values of another centre than ECMWF (GRIB_centre kwbc)"),
        ({"GRIB_dataType": "af"}, "values of another type (GRIB_dataType af)"),
        (
            {"GRIB_dataType": "fc", "GRIB_typeOfLevel": "heightAboveGround"},
            "forecasts of a variable that ERA5 has as an analysis (GRIB_dataType fc)",
        ),
        (
            {"GRIB_typeOfLevel": "heightAboveGround"},
            "values of GRIB edition 2, which ERA5's are not (GRIB_typeOfLevel heightAboveGround)",
        ),
    ],
)
def test_values_of_other_data_sets_that_lie_on_the_grid_are_refused(
    tmp_path: Path, attributes: dict[str, Any], said: str
) -> None:
    text = refusal(look_into(tmp_path / "x.nc", weather(HOURS, **POINT), **attributes))
    assert text == f"holds {said}, not values of ERA5's single levels, 0.25 degrees apart"


INTERPOLATED = "holds values of another grid, interpolated"
HISTORIES = [
    ("cdsapi: reanalysis-era5-land to x.grib", "values of ERA5-Land (reanalysis-era5-land in its history)"),
    ("mars retrieve,class=od,stream=oper", "ECMWF's operational forecasts (class=od in its history)"),
    ('with {"filter_by_keys": {"class": ["s2"]}}', "forecasts of weeks (S2S)"),
    (CFGRIB % ("wave", "instant"), "values of ocean waves (stream wave in its history)"),
    ("mv .2t_era5_moda_sfc_20190201.tmp 2t_era5_moda_sfc_20190201.nc", "monthly means (era5_moda in"),
    (f"{RUN} cdo remapbil,grid.txt in.nc out.nc", f"{INTERPOLATED} (cdo remapbil in its history)"),
    (f"{RUN} ncks -O --map_fl=a.nc in.nc out.nc", f"{INTERPOLATED} (ncks --map_fl=a.nc in its history)"),
    (f"{RUN} ncremap -m a.nc in.nc out.nc", f"{INTERPOLATED} (ncremap in its history)"),
    (CFGRIB % ("moda", "avgua"), "monthly means (stream moda in its history)"),
    (CFGRIB % ("mnth", "instant"), "stream mnth"),
    (CFGRIB % ("enda", "instant"), "values of an ensemble (stream enda"),
    ("ncks data_stream-moda_stepType-avgua.nc x.nc", "stream moda"),
    (DAILY, "daily statistics (daily_reduce in its history)"),
    ("cdstoolbox: ct.climate.daily_mean(data)", "daily statistics (daily_mean"),
    ('{"daily_statistic": "daily_maximum"}', "daily_maximum"),
    ("computed daily_mean of t2m", "daily statistics (daily_mean in its history)"),
    ("made by hand: monthly_sum.", "monthly statistics (monthly_sum in its history)"),
    ("earthkit.transforms.temporal.reduce(x)", "earthkit.transforms.temporal.reduce"),
    ("retrieved from reanalysis-era5-single-levels-monthly-means", "era5-single-levels-monthly-means"),
    ("derived-era5-single-levels-daily-statistics", "era5-single-levels-daily-statistics"),
    (f"{RUN} cdo -O -f nc4 monmean in.nc out.nc", "statistics (cdo monmean in its history)"),
    (f"{RUN} /usr/bin/cdo -daysum -selname,tp in.nc out.nc", "cdo daysum"),
    ("cdo timselmean,24 in.nc out.nc", "cdo timselmean"),
    ("cdo inttime,2020-01-01,00:00:00,1hour in.nc out.nc", "interpolated values (cdo inttime"),
    (f"{RUN} cdo ensmean 1.nc 2.nc out.nc", "cdo ensmean"),
    (f"{RUN} ncra -O in.nc out.nc", "averages of records (ncra"),
    (f"{RUN} ncwa -a time in.nc out.nc", "averages (ncwa -a time"),
    (f"{RUN} ncwa -a latitude,valid_time in.nc out.nc", "ncwa -a latitude,valid_time"),
    (f"2020: cdo sellonlatbox,1,2,3,4 a.nc b.nc\n{RUN} cdo ymonmean a.nc b.nc", "cdo ymonmean"),
]
OF_A_FILE: list[tuple[dict[str, Any], str]] = [
    *(({"history": history}, said) for history, said in HISTORIES),
    ({"request": '{"class": "s2", "levtype": "sfc"}'}, "in its request"),
    ({"GRIB_centre": "kwbc"}, "holds values of another centre than ECMWF (GRIB_centre kwbc)"),
    ({"GRIB_edition": np.int64(2)}, "holds values of GRIB edition 2, which ERA5's are not (GRIB_edition 2)"),
    ({"title": "ERA5 single-levels monthly-averaged 2m_temperature"}, "monthly means (monthly-averaged in its title"),
    ({"title": "Monthly means of ERA5"}, "monthly statistics (Monthly means in its title)"),
    ({"product_type": "monthly_averaged_reanalysis"}, "monthly means (monthly_averaged in its product_type)"),
    ({"frequency": "mon"}, "statistics (frequency mon)"),
    ({"time_coverage_resolution": "P1D"}, "statistics (time_coverage_resolution P1D)"),
    ({"map_file": "map_241x480_to_90x180.nc"}, f"{INTERPOLATED} (map_file map_241x480_to_90x180.nc)"),
    ({"regrid_method": "bilinear"}, f"{INTERPOLATED} (regrid_method bilinear)"),
    ({"title": "Regridded version of HICCUP.nc"}, f"{INTERPOLATED} (Regridded in its title)"),
]


@pytest.mark.parametrize(("attributes", "said"), OF_A_FILE, ids=[said for _, said in OF_A_FILE])
def test_a_file_that_says_that_it_is_something_else_is_refused(
    tmp_path: Path, attributes: dict[str, Any], said: str
) -> None:
    assert said in refusal(inspect_with(tmp_path / "x.nc", CURRENT, **attributes))


@pytest.mark.parametrize(
    ("name", "hours", "is_refused"), [("t2m", 0, False), ("t2m", 3, True), ("tp", 12, False), ("tp", 24, True)]
)
@pytest.mark.parametrize("units", ["hours", "nanoseconds"])
def test_steps_of_forecasts_that_era5_does_not_have_are_refused(
    tmp_path: Path, name: str, hours: int, units: str, *, is_refused: bool
) -> None:
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS, names=[name]))
    with netCDF4.Dataset(path, "a") as dataset:
        step = dataset.createVariable("step", "f8", ())
        step.units = units
        step[...] = hours * (1 if units == "hours" else 3_600_000_000_000)
        dataset[name].coordinates += " step"
    contents = inspect(NetcdfFile(path, path))
    if is_refused:
        assert f"forecasts, and ERA5 has none of such steps (a step of {hours} hours)" in refusal(contents)
    else:
        assert contents.problems == ()


@pytest.mark.parametrize(
    ("layout", "attributes", "name", "origin"),
    [
        (CURRENT, {}, "x.nc", "stated"),
        (LEGACY, {}, "x.nc", "stated"),
        (LEGACY, {"history": "cdo -f nc copy x.grib x.nc"}, "x.nc", "not stated"),
        (LEGACY, {"history": "", "title": "ERA5"}, "x.nc", "not stated"),
        (LEGACY, {"history": "", "doi": "10.24381/cds.adbb2d47"}, "x.nc", "stated"),
        (LEGACY, {"history": ""}, "reanalysis-era5-single-levels-timeseries-sfc1.nc", "stated"),
        (LEGACY, {"history": "", "NETCDF_CONVERSION": "CISL RDA: Conversion from ECMWF GRIB 1 data"}, "x.nc", "stated"),
    ],
)
def test_what_shows_that_a_file_is_of_era5(
    tmp_path: Path, layout: Layout, attributes: dict[str, Any], name: str, origin: str
) -> None:
    contents = inspect_with(tmp_path / name, layout, **attributes)
    assert contents.problems == ()
    assert [field.origin for field in contents.fields] == [origin]


@pytest.mark.parametrize(
    ("history", "attributes", "said"),
    [
        (f"{RUN} cdo fldmean in.nc out.nc", {}, "statistics of a region (cdo fldmean in its history)"),
        (f"{RUN} cdo -s -fldmean -sellonlatbox,1,2,3,4 in.nc out.nc", {}, "cdo fldmean"),
        ("cdo zonmean in.nc out.nc", {}, "cdo zonmean"),
        ("cdo -mermean in.nc out.nc", {}, "cdo mermean"),
        (f"{RUN} ncwa -a latitude,longitude in.nc out.nc", {}, "ncwa -a latitude,longitude"),
        ("earthkit.transforms.aggregate.spatial.reduce(x)", {}, "spatial.reduce"),
        ("", {"cell_methods": "area: mean"}, "a mean over area (cell_methods: area: mean)"),
        ("", {"cell_methods": "latitude: longitude: mean"}, "a mean over latitude"),
        ("", {"cell_methods": "time: point area: mean where land"}, "a mean over area"),
    ],
)
def test_a_point_that_stands_for_a_region_is_refused(
    tmp_path: Path, history: str, attributes: dict[str, Any], said: str
) -> None:
    text = refusal(look_into(tmp_path / "x.nc", weather(HOURS, **POINT), history, **attributes))
    assert said in text
    assert text.endswith("not values of grid points")


@pytest.mark.parametrize(("operator", "left"), [("zonmean", "longitudes"), ("mermean", "latitudes")])
def test_one_value_left_along_an_axis_is_refused_where_the_mean_is_over_this_axis(
    tmp_path: Path, operator: str, left: str
) -> None:
    axes: dict[str, Any] = {left: [0.0]}
    assert f"cdo {operator}" in refusal(look_into(tmp_path / "x.nc", weather(HOURS, **axes), f"cdo {operator} a b"))
    other: dict[str, Any] = {"latitudes" if left == "longitudes" else "longitudes": [0.0]}
    assert look_into(tmp_path / "y.nc", weather(HOURS, **other), f"cdo {operator} a b").problems == ()
    assert look_into(tmp_path / "z.nc", weather(HOURS), cell_methods="area: mean").problems == ()  # of cells


@pytest.mark.parametrize(
    ("history", "name", "attributes"),
    [
        (CFGRIB % ("oper", "instant"), "t2m", {"GRIB_stepType": "instant", "GRIB_totalNumber": np.int64(0)}),
        (CFGRIB % ("oper", "accum"), "tp", {"GRIB_stepType": "accum"}),
        ("", "tp", {"cell_methods": "time: sum"}),
        ("", "t2m", {"cell_methods": "time: point"}),
        ("", "t2m", {"cell_methods": "time: mean (interval: 1 hour)"}),
        ("", "t2m", {"cell_methods": "anything at all"}),
        # A cell cut out by its nearest neighbour is this cell.
        ("cdo remapnn,lon=0/lat=0 in.nc out.nc", "t2m", {}),
        ("cdo hourmean in.nc out.nc", "t2m", {}),
        ("cdo sellonlatbox,0,0,0,0 in.nc out.nc", "t2m", {}),
        # Names of files and folders say nothing of what was done to this one.
        ("cdo selname,t2m /data/fldmean/daymean.nc fldmean.nc", "t2m", {}),
        ("ncks -d time,0 /data/daily_mean/t2m_daily_mean_2020.nc out.nc", "t2m", {}),
        ("ncks -d time,0 daily_mean.nc daily_mean/out.nc", "t2m", {}),
        (CFGRIB % ("oper", "instant"), "t2m", {STEP % "i": 0.25, STEP % "j": 0.25, "GRIB_class": "ea"}),
        ("mars retrieve, class=ea, stream=oper, dataset=reanalysis-era5-single-levels", "t2m", {}),
        ("a classic=oddity, of class: odd", "t2m", {}),
        ("the input of ncra and cdo fldmean is made later", "t2m", {}),
        # Drops a dimension of size one.
        (f"{RUN} ncwa -a expver,number in.nc out.nc", "t2m", {}),
        (f"{RUN} ncrename -v lat,latitude in.nc", "t2m", {}),
    ],
)
def test_hours_of_one_point_are_read(tmp_path: Path, history: str, name: str, attributes: dict[str, Any]) -> None:
    contents = look_into(tmp_path / "x.nc", weather(HOURS, names=[name], **POINT), history, **attributes)
    assert contents.problems == ()
    assert len(contents.fields) == 1


def test_times_on_the_half_hour_are_named_as_those_of_means(tmp_path: Path) -> None:
    units = "hours since 1900-01-01 00:30:00"
    (problem,) = inspect_with(tmp_path / "x.nc", LEGACY, units, history="cdo daymean in.nc out.nc").problems
    assert "cdo daymean" in problem.text
    said = "daily statistics or other means (all its times are on the half hour)"
    assert said in refusal(inspect_with(tmp_path / "y.nc", LEGACY, units))


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.short_name)
def test_each_variable_is_read_with_its_own_step_type(tmp_path: Path, variable: Any) -> None:  # of a table
    path = write_netcdf(tmp_path / "x.nc", weather(HOURS[:1]))
    with netCDF4.Dataset(path, "a") as dataset:
        array = dataset["t2m"]
        array.setncatts(
            {
                "GRIB_stepType": variable.step_type,
                "GRIB_paramId": np.int64(variable.param_id),
                "units": variable.file_units[0],
                "cell_methods": {"accum": "time: sum", "avg": "time: mean"}.get(variable.step_type, "time: point"),
            }
        )
        if variable.short_name != "t2m":
            dataset.renameVariable("t2m", variable.short_name)
    (field,) = inspect(NetcdfFile(path, path)).fields
    assert (field.column, field.states_step_type) == (variable.column, True)


@pytest.mark.parametrize("path", more_real_files("monthly-means-2005-2024.nc"))
def test_a_real_file_of_monthly_means_is_refused_by_name(path: Path) -> None:
    (problem,) = inspect(NetcdfFile(path, path)).problems
    assert "t2m holds monthly means (GRIB_stepType avgua" in problem.text
    assert len(problem.months) == 240
