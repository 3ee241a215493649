"""Tests of `netcdf/archive`."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.model.errors import BadFileError, LocalDiskError
from era5_pipeline.model.months import Month
from era5_pipeline.netcdf import archive
from era5_pipeline.netcdf.archive import NetcdfFile, netcdf_files, scratch_folder
from era5_pipeline.netcdf.contents import inspect
from era5_pipeline.netcdf.recognise import kind_of
from era5_pipeline.sources.files import FilesSource
from era5_pipeline_tests.era5_files import (
    CURRENT,
    assert_same_rows,
    expected_rows,
    flat_rows,
    flatten,
    full_disk,
    hours_from,
    into_zip,
    left_behind,
    location_id,
    weather,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.netcdf.contents import Contents
    from era5_pipeline_tests.era5_files import Weather

HEADER = "valid_time,t2m,latitude,longitude\n"
TWO_HOURS = HEADER + "2023-07-01 00:00:00,300.0,10.25,20.5\n2023-07-01 01:00:00,300.5,10.25,20.5\n"


pytestmark = pytest.mark.usefixtures("no_pictures")


def csv_of(of: Weather, order: Sequence[str] | None = None) -> str:
    """The series as the service writes it: the shortest exact text of each float32, empty where a value is missing."""
    columns = {
        "valid_time": [str(h.astype("datetime64[h]").astype("datetime64[s]")).replace("T", " ") for h in of.hours],
        **{name: [str(np.float32(v)).replace("nan", "") for v in held.flat] for name, held in of.fields.items()},
        "latitude": [str(float(of.latitudes[0]))] * of.hours.size,
        "longitude": [str(float(of.longitudes[0]))] * of.hours.size,
    }
    names = list(order or columns)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*(columns[name] for name in names), strict=True))
    return text.getvalue()


def contents_of(path: Path, scratch: Path) -> Contents:
    scratch.mkdir(exist_ok=True)
    (file,) = netcdf_files([path], scratch)
    return inspect(file)


# The name that the service gives, which shows the data set: a CSV has no attributes.
AS_SERVED = "reanalysis-era5-single-levels-timeseries-sfc.csv"


def put(folder: Path, content: str | bytes, name: str = "series.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# ---- real series


def test_bremen_as_served(point_series: Path, tmp_path: Path) -> None:
    source = FilesSource((point_series / "bremen-2024-2026-csv-zip",), tmp_path)
    months = source.months()
    assert (months[0], months[-1], len(months)) == (Month(2024, 1), Month(2026, 3), 27)
    assert source.problems() == ()
    (file,) = source.fetch(Month(2024, 1)).files
    flat = flatten([file.path], "2024-01", tmp_path)
    rows = flat_rows(flat.path)
    assert [facts.column for facts in flat.columns] == ["temperature_2m", "zonal_wind_10m", "meridional_wind_10m"]
    assert set(rows.locations) == {location_id(53.0, 8.75)}
    # The first line of the file: 280.82764 K, 1.9656067 and 5.5807343 m/s.
    assert rows.values["temperature_2m"][0] == np.float32(float(np.float32(280.82764)) - 273.15)
    assert rows.values["zonal_wind_10m"][0] == np.float32(1.9656067)
    assert rows.values["meridional_wind_10m"][0] == np.float32(5.5807343)
    assert flat.expver["temperature_2m"] == {"unknown": 744}
    last = flatten([file.path], "2026-03", tmp_path)
    assert (last.hours, last.missing_hours) == (120, ("2026-03-06T00 to 2026-03-31T23",))


# ---- generated series


def test_a_series_gives_the_same_rows_as_csv_and_as_netcdf(tmp_path: Path) -> None:
    of = weather(hours_from("2024-07-01T00", 744), [48.75], [2.25], ["u10", "v10", "d2m", "t2m", "sp"], missing=0.1)
    of_csv = flatten([put(tmp_path, csv_of(of), AS_SERVED)], "2024-07", tmp_path / "csv")
    of_netcdf = flatten(write(tmp_path, of, replace(CURRENT, expver="absent")), "2024-07", tmp_path / "netcdf")
    assert of_csv.columns == of_netcdf.columns  # with the digest of every value
    assert_same_rows(flat_rows(of_csv.path), flat_rows(of_netcdf.path).sorted())


@st.composite
def series(draw: st.DrawFn) -> tuple[Weather, list[str]]:
    names = draw(st.lists(st.sampled_from(["t2m", "u10", "v10", "tcc", "tp"]), min_size=1, max_size=5, unique=True))
    latitude = draw(st.integers(-360, 360)) * 0.25
    longitude = draw(st.integers(-719, 720)) * 0.25
    hours = np.array(draw(st.lists(st.integers(0, 760), min_size=1, max_size=12, unique=True)))
    of = weather(
        hours_from("2023-06-30T12", 761)[hours],
        [latitude],
        [longitude],
        names,
        seed=draw(st.integers(0, 9)),
        missing=draw(st.sampled_from([0, 0.3])),
    )
    return of, draw(st.permutations(["valid_time", *names, "latitude", "longitude"]))


@settings(max_examples=20, deadline=None)
@given(given_=series(), zipped=st.booleans())
def test_any_series_is_flattened_to_its_values(
    tmp_path_factory: pytest.TempPathFactory, given_: tuple[Weather, list[str]], *, zipped: bool
) -> None:
    of, order = given_
    folder = tmp_path_factory.mktemp("series")
    path = put(folder, csv_of(of, order))
    if zipped:
        path = into_zip(folder / "series.zip", [path])
    for month in FilesSource((path,), folder / "home").months():
        flat = flatten([path], str(month), folder)
        assert_same_rows(flat_rows(flat.path), expected_rows(of, str(month)))
    assert left_behind(folder) == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda text: ("\ufeff" + text).encode(), id="byte order mark"),
        pytest.param(lambda text: text.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(lambda text: text.replace("t2m", "t2m,Küste").replace(",10.25", ",Sylt°,10.25").encode("latin-1"),
                     id="Latin-1 in a column of one's own"),
        pytest.param(lambda text: text.replace("300.5", "3.005e+02").encode(), id="exponents"),
        pytest.param(lambda text: text.replace("valid_time", '"valid_time"').replace("t2m", ' "t2m" ').encode(),
                     id="quotes"),
        pytest.param(lambda text: text.replace(" 00:00:00", "T00:00:00").encode(), id="T in times"),
    ],
)  # fmt: skip
def test_files_that_other_programs_wrote_are_read(tmp_path: Path, changed: object) -> None:
    path = put(tmp_path, changed(TWO_HOURS))  # type: ignore[operator]
    rows = flat_rows(flatten([path], "2023-07", tmp_path).path)
    assert set(rows.locations) == {location_id(10.25, 20.5)}
    np.testing.assert_allclose(rows.values["temperature_2m"], [26.85, 27.35], rtol=1e-6)


def test_an_empty_cell_is_a_missing_value(tmp_path: Path) -> None:
    path = put(tmp_path, TWO_HOURS.replace("300.5", ""))
    flat = flatten([path], "2023-07", tmp_path)
    assert (flat.rows, flat.columns[0].values, flat.columns[0].missing) == (2, 1, 1)


def test_versions_are_read_where_a_file_has_them(tmp_path: Path) -> None:
    text = TWO_HOURS.replace("t2m,", "t2m,expver,").replace("300.0,", "300.0,0001,").replace("300.5,", "300.5,5,")
    served, unnamed = put(tmp_path, text, AS_SERVED), put(tmp_path, text)
    assert flatten([served], "2023-07", tmp_path).expver == {"temperature_2m": {"0001": 1, "0005": 1}}
    # Nothing shows that it is ERA5: never final.
    assert flatten([unnamed], "2023-07", tmp_path).expver == {"temperature_2m": {"unknown": 1, "0005": 1}}


def test_a_rewritten_file_is_read_again(tmp_path: Path) -> None:
    path = put(tmp_path, TWO_HOURS)
    assert flatten([path], "2023-07", tmp_path).columns[0].maximum == pytest.approx(27.35)
    put(tmp_path, TWO_HOURS.replace("300.5", "301.5"))
    os.utime(path, ns=(0, 0))
    assert flatten([path], "2023-07", tmp_path).columns[0].maximum == pytest.approx(28.35)


# ---- errors


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(TWO_HOURS[:-20], "its last line has no line break", id="cut within a number"),
        pytest.param(TWO_HOURS[:-20] + "\n", "Expected 4 columns, got 1", id="cut within a line"),
        pytest.param(TWO_HOURS.replace("300.5", "warm"), "invalid value 'warm'", id="text in a number"),
        pytest.param(TWO_HOURS.replace("2023-07-01 01", "yesterday"), "yesterday", id="no time"),
        pytest.param(TWO_HOURS.replace("2023-07-01 01:00:00", ""), "rows without valid_time", id="time missing"),
        pytest.param(TWO_HOURS.replace("300.5,10.25", "300.5,"), "rows without latitude", id="latitude missing"),
        pytest.param(TWO_HOURS.replace("300.5,10.25", "300.5,10.5"), "several points (latitude 10.25 and 10.5)",
                     id="two points"),
        pytest.param("valid_time,t2m\n2023-07-01 00:00:00,300.0\n", "no column latitude or longitude", id="no place"),
        pytest.param(TWO_HOURS.replace(",", ";"), "separated by ';', not by commas", id="semicolons"),
        pytest.param(TWO_HOURS.replace(",t2m,", ",t2m,t2m,"), "column t2m more than once", id="a column twice"),
    ],
)  # fmt: skip
def test_a_csv_that_is_not_a_series_of_one_point_is_refused_with_a_remedy(
    tmp_path: Path, content: str, said: str
) -> None:
    path = put(tmp_path, content)
    assert kind_of(path) == "csv"
    archived = into_zip(tmp_path / "series.zip", [put(tmp_path, content, "member.csv")])
    for one, named in ((path, f"{path}"), (archived, f"{archived}!member.csv")):
        with pytest.raises(BadFileError) as raised:
            contents_of(one, tmp_path / "scratch")
        assert raised.value.path == named
        assert said in raised.value.problem
        assert raised.value.remedy
    (problem,) = FilesSource((path,), tmp_path / "home").problems()
    assert said in problem.text


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        pytest.param(HEADER, "time", "has no times", id="no rows"),
        pytest.param(TWO_HOURS.replace(" 01:00", " 01:30"), "time", "is not on the hour", id="half an hour"),
        pytest.param(TWO_HOURS.replace("10.25", "10.3"), "grid", "latitude 10.3 is not on", id="off the grid"),
        pytest.param(TWO_HOURS.replace("t2m", "swh"), "nothing", "it holds swh", id="none of our variables"),
    ],
)
def test_times_and_locations_are_checked_as_in_netcdf(tmp_path: Path, content: str, kind: str, said: str) -> None:
    contents = contents_of(put(tmp_path, content), tmp_path / "scratch")
    assert contents.fields == ()
    (problem,) = contents.problems
    assert (problem.kind, problem.file) == (kind, str(tmp_path / "series.csv"))
    assert said in problem.text


def test_a_csv_without_valid_time_is_not_a_point_series(tmp_path: Path, era5_samples: Path) -> None:
    put(tmp_path, "time,t2m,latitude,longitude\n", "notes.csv")
    assert FilesSource((tmp_path,), tmp_path / "home").problems() == ()
    (problem,) = FilesSource((era5_samples / "bad" / "csv-named-nc.nc",), tmp_path / "home").problems()
    assert "no" in problem.text
    assert "valid_time" in problem.text


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


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_are_unpacked_and_named_by_zip_and_member(tmp_path: Path, netcdf: Path, method: int) -> None:
    content = netcdf.read_bytes()
    members = {"accum.nc": content, "folder/": b"", "folder/instant": content, "readme.txt": b"hello"}
    path = zip_of(tmp_path / "era5.nc", members, method)
    assert unpacked(netcdf, tmp_path / "scratch") == [NetcdfFile(netcdf, netcdf)]  # a plain file is read in place
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


@pytest.mark.parametrize("members", [{}, {"readme.txt": b"hello"}, {"inner.zip": b"PK\x05\x06" + bytes(18)}, None])
def test_a_zip_without_netcdf_or_another_file_is_refused(tmp_path: Path, members: dict[str, bytes] | None) -> None:
    path = put(tmp_path, "<html>busy</html>", "page.nc")
    if members is not None:
        path = zip_of(tmp_path / "notes.zip", members)
    with pytest.raises(BadFileError, match="web page" if members is None else "without netCDF") as raised:
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


def test_a_zip_with_two_members_of_one_name_is_refused(tmp_path: Path, netcdf: Path) -> None:
    path = zip_of(tmp_path / "twice.zip", {"a.nc": netcdf.read_bytes(), "readme.txt": b"one"})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("readme.txt", b"another")
    assert len(unpacked(path, tmp_path / "scratch")) == 1  # which of two such texts is right does not matter
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a.nc", b"something else")
    with pytest.raises(BadFileError, match=r"it has 2 members named a\.nc") as refused:
        unpacked(path, tmp_path / "scratch")
    assert str(refused.value.path) == str(path)


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


@pytest.mark.parametrize("kind", ["csv", "netcdf"])
def test_a_full_disk_is_reported_as_a_disk_error_not_a_damaged_zip(tmp_path: Path, kind: str) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", 700), range(20), range(20)))
    if kind == "csv":
        path = put(tmp_path, csv_of(weather(hours_from("2023-07-01T00", 744), [10.25], [20.5])))
    archived = into_zip(tmp_path / "big.zip", [path])
    with full_disk(16 << 10 if kind == "csv" else 256 << 10) as disk:
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


HOLDER = """
import sys, time
from pathlib import Path
from era5_pipeline.netcdf.archive import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "member.nc").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_only_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        with scratch_folder(tmp_path) as other:
            assert other != folder
            assert (folder / "member.nc").exists()
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with scratch_folder(tmp_path):
        assert folder.exists()  # it was looked for a moment ago
    monkeypatch.setattr("era5_pipeline.runtime.files._BETWEEN_LOOKS_SECONDS", 0.0)
    with scratch_folder(tmp_path) as scratch:
        assert not folder.exists()
        assert scratch.is_dir()
