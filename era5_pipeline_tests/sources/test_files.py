from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

from era5_pipeline.flat.checks import raw_outcomes
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.errors import BadFileError, InputError, NoDataError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import DEFAULT_COLUMNS, VARIABLES, find_variable
from era5_pipeline.netcdf.archive import NetcdfFile, netcdf_files, scratch_folder
from era5_pipeline.netcdf.contents import inspect, together
from era5_pipeline.netcdf.field_reader import contents_of
from era5_pipeline.runtime.progress import listening
from era5_pipeline.sources.files import FilesSource
from era5_pipeline.sources.open_source import source_of as source_of_settings
from era5_pipeline.sources.source import RawMonth, Request
from era5_pipeline_tests.commands import as_nobody
from era5_pipeline_tests.era5_files import (
    CURRENT,
    GRIB_LAYOUTS,
    LEGACY,
    Layout,
    Weather,
    assert_same_rows,
    expected_rows,
    flat_rows,
    hour,
    hours_from,
    into_zip,
    left_behind,
    weather,
    write,
    write_grib,
    write_netcdf,
)
from era5_pipeline_tests.samples import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from era5_pipeline.flat.flat_month import FlatMonth

JUNE, JULY = Month(2023, 6), Month(2023, 7)
OF_JUNE, OF_JULY = hours_from("2023-06-30T00", 3), hours_from("2023-07-01T00", 3)


pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with June and July of two variables, one file for each month and variable."""
    folder = tmp_path / "era5"
    for name, hours in (("june", OF_JUNE), ("july", OF_JULY)):
        for short in ("t2m", "tp"):
            (folder / short).mkdir(parents=True, exist_ok=True)
            write_netcdf(folder / short / f"{name}.nc", weather(hours, names=[short]))
    return folder


def source_of(folder: Path, request: Request | None = None) -> FilesSource:
    return FilesSource((folder,), folder.parent / "home", request or Request())


def flat_of(source: FilesSource, month: Month) -> FlatMonth:
    """Fetch and flatten the month."""
    return flatten_month(source.fetch(month), source.home / "flat", home=source.home, flat_format="parquet")


def names(source: FilesSource, month: Month) -> list[str]:
    return [str(file.path.relative_to(source.folders[0])) for file in source.fetch(month).files]


# ---- files that are found


def test_files_of_a_month_are_found_in_subfolders_and_read_in_place(folder: Path) -> None:
    source = source_of(folder)
    raw = source.fetch(JULY)
    assert raw.source == source.name == "files"
    assert [file.path for file in raw.files] == [folder / "t2m" / "july.nc", folder / "tp" / "july.nc"]
    assert [file.bytes for file in raw.files] == [file.path.stat().st_size for file in raw.files]
    assert all(len(file.sha256) == 64 for file in raw.files)
    assert (raw.variables, raw.area, raw.warnings) == (None, None, ())
    assert source.months() == (JUNE, JULY)


def test_a_month_in_several_files_and_a_file_with_several_months(tmp_path: Path) -> None:
    of = weather(hours_from("2023-06-29T00", 80))
    for start, stop in ((0, 30), (30, 60), (60, 80)):
        write_netcdf(
            tmp_path / f"{start}.nc",
            replace(of, hours=of.hours[start:stop], fields={"t2m": of.fields["t2m"][start:stop]}),
        )
    source = FilesSource((tmp_path,), tmp_path / "home")
    assert names(source, JUNE) == ["0.nc", "30.nc"]
    assert names(source, JULY) == ["30.nc", "60.nc"]
    for month in (JUNE, JULY):
        assert_same_rows(flat_rows(flat_of(source, month).path), expected_rows(of, str(month)))


def test_files_and_several_folders_can_be_given(folder: Path, tmp_path: Path) -> None:
    source = FilesSource((folder / "t2m" / "july.nc", folder / "tp", folder), tmp_path / "home")
    assert [file.path.relative_to(folder).as_posix() for file in source.fetch(JULY).files] == [
        "t2m/july.nc",
        "tp/july.nc",
    ]


def test_only_files_with_requested_variables_are_used(folder: Path) -> None:
    source = source_of(folder, Request((find_variable("tp"), find_variable("sf")), Area(10.5, 20, 10, 21)))
    assert names(source, JULY) == ["tp/july.nc"]
    raw = source.fetch(JULY)
    assert (raw.variables, raw.area) == (("total_precipitation", "snowfall"), "10.5/20/10/21")


def test_notes_scripts_and_hidden_files_beside_the_data_are_ignored(folder: Path) -> None:
    (folder / "README.md").write_text("# notes")
    (folder / "download.py").write_text("import cdsapi")
    (folder / "t2m" / "july.csv").write_text("time,t2m\n")
    (folder / ".july.nc.swp").write_bytes(b"\x00")
    (folder / ".july.nc").write_bytes(b"")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "july.nc").write_bytes(b"")
    (folder / "folder.nc").mkdir()
    source = source_of(folder)
    assert source.problems() == ()
    assert source.fetch(JULY).warnings == ()


def test_progress_counts_files(folder: Path) -> None:
    reports: list[tuple[str, int, int, str]] = []
    with listening(lambda *report: reports.append(report)):
        source_of(folder).fetch(JULY)
    assert reports == [("raw", 0, 2, "files"), ("raw", 1, 2, "files"), ("raw", 2, 2, "files")]


def test_a_second_source_opens_no_file_again(folder: Path) -> None:
    before = source_of(folder).fetch(JULY)
    for path in folder.rglob("*.nc"):
        stat = path.stat()
        path.write_bytes(b"x" * stat.st_size)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert source_of(folder).fetch(JULY) == before


def test_a_changed_file_changes_the_fingerprint_of_its_month_only(folder: Path) -> None:
    source = source_of(folder)
    june, july = source.fetch(JUNE).fingerprint, source.fetch(JULY).fingerprint
    write_netcdf(folder / "tp" / "july.nc", weather(OF_JULY, names=["tp"], seed=2))
    assert source.fetch(JUNE).fingerprint == june
    assert source.fetch(JULY).fingerprint != july


def test_renaming_a_file_keeps_the_fingerprint(folder: Path) -> None:
    before = source_of(folder).fetch(JULY).fingerprint
    (folder / "t2m" / "july.nc").rename(folder / "anything")
    assert source_of(folder).fetch(JULY).fingerprint == before


# ---- lists of variables: the table in docs/variables.md


FEBRUARY_2024 = Month(2024, 2)
PARIS = ("temperature_2m", "zonal_wind_10m", "meridional_wind_10m", "surface_pressure", "dewpoint_2m")


@pytest.fixture
def mixed(folder: Path, point_series: Path) -> Path:
    """June and July 2023 of two default variables, and 2024 of three of them with others, a real file."""
    shutil.copy(point_series / "paris-2024-nc-zip" / "era5_2024.zip", folder)
    return folder


def chosen(folder: Path, variables: str | None, *, strict: bool = False) -> FilesSource:
    settings = Settings(
        _env_file=None,
        home=folder.parent / "home",
        source="files",
        files_dir=str(folder),
        variables=variables,
        strict_variables=strict,
    )
    source = source_of_settings(settings)
    assert isinstance(source, FilesSource)
    return source


def test_all_is_everything_that_the_files_of_a_month_hold(mixed: Path) -> None:
    source = chosen(mixed, "all")
    assert set(PARIS) <= set(source.fetch(FEBRUARY_2024).variables or ())
    assert source.fetch(JUNE).variables == ("temperature_2m", "total_precipitation")
    assert {"temperature_2m", "total_precipitation"} == {one.column for one in flat_of(source, JUNE).columns}
    assert source.months()[:2] == (JUNE, JULY)


def test_a_list_with_default_takes_what_each_month_has_of_it(mixed: Path) -> None:
    source = chosen(mixed, "default,d2m")
    assert source.fetch(JUNE).variables == ("temperature_2m", "total_precipitation")
    assert source.fetch(FEBRUARY_2024).variables == (*PARIS[:3], "dewpoint_2m")
    for month in (JUNE, FEBRUARY_2024):
        assert source.fetch(month).is_open
        assert RawMonth.from_json(source.fetch(month).to_json()) == source.fetch(month)


@pytest.mark.parametrize(("names", "strict"), [("t2m,d2m", False), ("default,d2m", True), ("all", True)])
def test_named_alone_or_strictly_every_month_must_have_all(mixed: Path, names: str, strict: bool) -> None:
    raw = chosen(mixed, names, strict=strict).fetch(JUNE)
    with scratch_folder(mixed.parent) as scratch:
        inventory = take_inventory(raw, scratch)
    refused = next(one for one in raw_outcomes(raw, inventory, allow_incomplete=True) if not one.passed)
    assert refused.name == "variables_present"
    assert re.search(r"2023-06: its files lack .*dewpoint_2m", refused.description)


@pytest.mark.parametrize("names", ["u100", "default,u100", "all,u100"])
def test_a_variable_that_no_file_has_is_refused_with_those_that_they_have(mixed: Path, names: str) -> None:
    source = chosen(mixed, names)
    with pytest.raises(NoDataError, match=r"no file in .*era5 has data for zonal_wind_100m\n") as raised:
        source.fetch(JUNE)
    assert "hold temperature_2m, zonal_wind_10m" in raised.value.remedy
    assert "--variables all" in raised.value.remedy


def test_what_the_files_hold_besides_is_known_by_month(mixed: Path) -> None:
    source = chosen(mixed, None)
    assert source.columns([JUNE]) == ("temperature_2m", "total_precipitation")
    assert "dewpoint_2m" in source.columns()
    assert source.fetch(FEBRUARY_2024).wanted_columns == DEFAULT_COLUMNS


# ---- missing folders, months and variables


def test_no_folder_or_a_missing_one_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a folder"):
        FilesSource((), tmp_path)
    with pytest.raises(UsageError, match="nowhere does not exist"):
        FilesSource((tmp_path / "nowhere",), tmp_path)


def test_the_error_for_a_missing_month_lists_the_months_found(folder: Path) -> None:
    with pytest.raises(NoDataError, match=f"2024-01: no file in {folder} has data for it") as raised:
        source_of(folder).fetch(Month(2024, 1))
    assert raised.value.remedy == "The files there hold 2023-06 to 2023-07."


def test_a_folder_without_era5_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(NoDataError) as raised:
        FilesSource((tmp_path,), tmp_path / "home").fetch(JULY)
    assert raised.value.remedy == "No ERA5 file was found there."


# ---- bad files


def web_page(path: Path) -> Path:
    path.write_bytes(b"<!DOCTYPE html><title>502</title>")
    return path


def cut(path: Path, layout: Layout, part: float) -> Path:
    write_one = write_grib if layout.grib else write_netcdf
    write_one(path, weather(hours_from("2023-07-01T00", 100)), layout)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    return path


def cut_zip(path: Path) -> Path:
    into_zip(path, [write_netcdf(path.with_suffix(".member"), weather(OF_JULY))])
    path.write_bytes(path.read_bytes()[:-40])
    return path


def zip_without(path: Path) -> Path:
    path.with_suffix(".txt").write_text("hello")
    return into_zip(path, [path.with_suffix(".txt")])


# Other contents: netcdf/test_recognise.
BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "page": (web_page, "web page"),
    "cut GRIB": (lambda path: cut(path, GRIB_LAYOUTS[0], 0.705), "cut off or damaged"),
    "cut netCDF-4": (lambda path: cut(path, CURRENT, 0.7), "cut off or damaged"),
    "cut netCDF-3": (lambda path: cut(path, LEGACY, 0.7), "cut off or damaged"),
    "cut ZIP": (cut_zip, "damaged ZIP"),
    "ZIP without netCDF": (zip_without, "without netCDF"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_beside_good_ones_is_passed_over_with_a_warning(folder: Path, what: str) -> None:
    make, said = BAD[what]
    good = expected_rows(weather(OF_JULY, names=["t2m"]), "2023-07").values["temperature_2m"]
    bad = make(folder / "bad.nc")
    source = source_of(folder)
    assert source.months() == (JUNE, JULY)
    flat = flat_of(source, JULY)
    (warning,) = flat.raw.warnings
    assert str(bad) in warning
    assert said in warning
    assert flat.columns[0].values == good.size
    # Without good ones it is an error with a remedy.
    alone = folder.parent / "alone"
    alone.mkdir()
    bad = bad.rename(alone / "bad.nc")
    with pytest.raises(NoDataError) as raised:
        source_of(alone).fetch(JULY)
    assert f"2023-07: {bad}: " in raised.value.message
    assert said in raised.value.message
    assert raised.value.remedy
    assert left_behind(source.home) == []


def test_the_error_names_bad_files_of_one_kind_and_counts_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "era5"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.nc").write_bytes(b"")
    for number in (6, 7):
        (folder / f"{number}.nc").write_bytes(b"<html>no</html>")
    said = r"era5/0\.nc, 1\.nc, 2\.nc and 2 more: is empty \(and 2 more files that cannot be used\)"
    with pytest.raises(NoDataError, match=said):
        source_of(folder).fetch(JULY)


# Faults of dew point, which a load without a list of variables leaves out.
FAULTS: dict[str, tuple[Weather, dict[str, object], str]] = {
    "units": (weather(OF_JULY, names=["d2m"]), {"units": "degC"}, "in degC"),
    "another data set": (weather(OF_JULY, names=["d2m"]), {"GRIB_class": "l5"}, "ERA5-Land"),
    "off the grid": (weather(OF_JULY, [10.1, 9.85], names=["d2m"]), {}, "0.25 degree grid"),
    "levels": (weather(OF_JULY, names=["d2m"]), {"GRIB_typeOfLevel": "isobaricInhPa"}, "at pressure levels"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_another_variable_is_told_as_if_it_were_asked_for(tmp_path: Path, fault: str) -> None:
    of, attributes, said = FAULTS[fault]
    (tmp_path / "era5").mkdir()
    write_netcdf(tmp_path / "era5" / "d2m.nc", of, replace(CURRENT, attributes=attributes))
    by_default, everything = chosen(tmp_path / "era5", None), chosen(tmp_path / "era5", "all")
    for source in (by_default, everything):
        assert source.months() == ()
        assert said in source.no_months().message
        assert source.no_months().remedy == everything.no_months().remedy
        (refusal,) = source.refusals(JULY)
        assert said in refusal.error.message
        # Of a month that the files do not have.
        (refusal,) = source.refusals(JUNE)
        assert said in refusal.error.remedy
    with pytest.raises(NoDataError, match=f"2023-07: .*d2m.nc: .*{said}"):
        by_default.fetch(JULY)


def test_of_all_variables_those_off_the_grid_are_left_to_the_check_of_the_grid(tmp_path: Path) -> None:
    (tmp_path / "era5").mkdir()
    write_netcdf(tmp_path / "era5" / "d2m.nc", FAULTS["off the grid"][0])
    raw = chosen(tmp_path / "era5", "all").fetch(JULY)
    with scratch_folder(tmp_path) as scratch:
        outcomes = raw_outcomes(raw, take_inventory(raw, scratch), allow_incomplete=True)
    refused = next(one for one in outcomes if not one.passed)
    assert refused.name == "grid_aligned"
    assert "d2m.nc: latitude 10.1 is not on ERA5's 0.25 degree grid" in refused.description


@pytest.mark.parametrize("fault", FAULTS)
def test_a_variable_that_is_named_and_has_a_fault_is_not_said_to_be_absent(folder: Path, fault: str) -> None:
    of, attributes, said = FAULTS[fault]
    write_netcdf(folder / "d2m.nc", of, replace(CURRENT, attributes=attributes))
    (refusal,) = chosen(folder, "t2m,d2m").refusals(JULY)
    assert said in refusal.error.message
    # Who does not name it is told of it as a file that is passed over; who names others is not.
    raw = chosen(folder, None).fetch(JULY)
    (warning,) = raw.warnings
    assert warning.startswith(f"passed over: {folder / 'd2m.nc'}: ")
    assert said in warning
    assert chosen(folder, "t2m").fetch(JULY).warnings == ()


def test_what_becomes_of_each_file_is_told(folder: Path) -> None:
    shifted = weather(hours_from("2018-01-01T00", 3), [10.1, 9.85])
    bad = write_netcdf(folder / "shifted.nc", shifted)
    other = write_netcdf(folder / "sp.nc", weather(OF_JULY, names=["sp"]))
    (folder / "notes.md").write_text("# notes")
    (folder / "points.CSV").write_text("time,t2m\n")
    source = source_of(folder)
    assert source.months() == (JUNE, JULY)
    assert source.months_of_files() == (Month(2018, 1), JUNE, JULY)
    use = source.use(source.months_of_files(), source.months())
    assert {Path(path).name for path in use.files} == {"june.nc", "july.nc", bad.name, other.name}
    assert use.by_month[JULY] == (str(folder / "t2m" / "july.nc"), str(folder / "tp" / "july.nc"))
    ((path, problem),) = use.passed_over
    assert (path, problem.months) == (str(bad), ("2018-01",))
    assert use.others == {"CSV": 1}
    # Months that were not asked for are not missed.
    assert source.use((JULY,), (JULY,)).passed_over == ()


def test_a_file_that_is_named_is_data_by_what_its_name_says(tmp_path: Path) -> None:
    path = tmp_path / "weather.csv"
    path.write_text("\ntime,temperature_2m_mean\n2014-01-01,-0.8\n")
    error = FilesSource((path,), tmp_path / "home").no_months()
    assert error.message.startswith(f"{path}: is text")
    assert "'time,temperature_2m_mean'" in error.message
    beside = FilesSource((tmp_path,), tmp_path / "home").no_months()
    assert beside.message.endswith("there is no ERA5 file in it; it has files in formats that are not read: 1 CSV")


def test_a_bad_file_of_a_known_month_stops_only_that_month(folder: Path) -> None:
    layout = replace(CURRENT, attributes={"units": "degC"})
    bad = write_netcdf(folder / "bad.nc", weather(OF_JULY), layout)
    source = source_of(folder)
    assert flat_of(source, JUNE).raw.warnings == ()
    with pytest.raises(BadFileError, match="degC") as raised:
        source.fetch(JULY)
    assert raised.value.path == str(bad)
    assert raised.value.remedy


def test_two_values_of_one_hour_stop_the_month_even_beside_good_files(folder: Path) -> None:
    of = weather(OF_JULY, names=["u10"])
    write_netcdf(folder / "bad.nc", replace(of, hours=of.hours[[0, 1, 1]]))
    with pytest.raises(InputError, match=r"bad\.nc contradicts itself, with two values at .*2023-07-01T01:00Z"):
        flat_of(source_of(folder), JULY)
    assert source_of(folder).fetch(JUNE).warnings == ()


def test_variables_that_cannot_be_loaded_are_left_out_by_name_where_all_are_asked_for(folder: Path) -> None:
    path = write_netcdf(folder / "a.nc", weather(OF_JULY, names=["t2m", "u10", "v10"]))
    with netCDF4.Dataset(path, "a") as dataset:
        dataset.renameVariable("u10", "swh")
        dataset.renameVariable("v10", "q")
    every = Request(variables=VARIABLES, is_open=True)
    said = source_of(folder, every).fetch(JULY).warnings
    assert [text.partition(" (")[0].partition(", which")[0] for text in said] == [
        f"left out: {path}: swh describes ocean waves",
        f"left out: {path}: q is at pressure levels",
    ]
    assert source_of(folder).fetch(JULY).warnings == ()


def test_a_zip_with_a_damaged_member_is_not_used_at_all(folder: Path) -> None:
    layout = replace(CURRENT, one_variable_per_file=True)
    members = write(folder.parent / "in", weather(OF_JULY, names=["u10", "v10"]), layout)
    members[1].write_bytes(members[1].read_bytes()[:-100])
    path = into_zip(folder / "wind.zip", members)
    with pytest.raises(BadFileError, match="cut off or damaged") as raised:
        source_of(folder).fetch(JULY)
    assert raised.value.path == f"{path}!{members[1].name}"
    assert source_of(folder).fetch(JUNE).files


def test_real_bad_files_are_classified_and_good_ones_beside_them_are_used(folder: Path, era5_samples: Path) -> None:
    shutil.copytree(era5_samples / "bad", folder / "bad")
    source = source_of(folder)
    kinds = {Path(problem.file).name: problem.kind for problem in source.problems()}
    assert kinds == {
        "csv-named-nc.nc": "unreadable",
        "era5-land.grib": "aggregate",
        "latlon-allfill.nc": "aggregate",
        "lfs-pointer.nc": "unreadable",
        "sf-is-streamfunction.nc": "units",
        "truncated-hdf5.nc": "unreadable",
    }
    assert all(problem.remedy for problem in source.problems())
    assert len(flat_of(source, JULY).raw.warnings) == 4


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder with access for all users; pytest's own is private to the user who runs it."""
    folder = Path(tempfile.mkdtemp(prefix="era5-open-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_file_without_read_permission_is_passed_over_with_a_warning(open_folder: Path) -> None:
    with as_nobody():
        (open_folder / "era5").mkdir()
        for name in ("good.nc", "secret.nc"):
            write_netcdf(open_folder / "era5" / name, weather(OF_JULY))
        secret = open_folder / "era5" / "secret.nc"
        secret.chmod(0)
        folders, home = (open_folder / "era5",), open_folder / "home"
        raw = FilesSource(folders, home).fetch(JULY)
        assert [file.path.name for file in raw.files] == ["good.nc"]
        assert raw.warnings == (f"passed over: {secret}: cannot be opened (Permission denied)",)
        secret.chmod(0o600)
        assert [file.path.name for file in FilesSource(folders, home).fetch(JULY).files] == ["good.nc", "secret.nc"]


def test_a_file_that_loses_read_permission_after_inspection_is_named(open_folder: Path) -> None:
    with as_nobody():
        path = write_netcdf(open_folder / "a.nc", weather(OF_JULY))
        source = FilesSource((path,), open_folder / "home")
        assert source.months() == (JULY,)
        path.chmod(0)
        with pytest.raises(BadFileError, match="cannot be opened") as raised:
            source.fetch(JULY)
        assert raised.value.path == str(path)
        assert raised.value.remedy


# ---- one value a day or a month, of files that do not say what it is


def at(*times: str) -> Weather:
    return weather(np.array([hour(time) for time in times], dtype=np.int64))


UNPACKED = replace(LEGACY, packed="no")
NOONS = at("2023-07-01T12", "2023-07-02T12", "2023-07-04T12")
MONTHS = at("2023-05-01T00", "2023-06-01T00", "2023-07-01T00", "2023-08-01T00")


@pytest.mark.parametrize(
    "layout", [UNPACKED, replace(UNPACKED, one_hour_per_file=True)], ids=["one file", "a file each"]
)
@pytest.mark.parametrize(("of", "said"), [(NOONS, "always at 12:00 UTC"), (MONTHS, "always at 00:00 UTC")])
def test_one_value_a_day_or_a_month_is_refused_unless_these_are_hours(
    tmp_path: Path, of: Weather, said: str, layout: Layout
) -> None:
    write(tmp_path / "era5", of, layout)
    source = source_of(tmp_path / "era5")
    with pytest.raises(BadFileError) as refused:
        source.fetch(JULY)
    assert said in refused.value.problem
    assert "temperature_2m" in refused.value.problem
    assert "--sparse-hours (ERA5_SPARSE_HOURS=true)" in refused.value.remedy
    assert {problem.kind for problem in source.problems()} == {"aggregate"}
    # Known by the catalogue now, which serves both.
    hours = replace(source_of(tmp_path / "era5"), sparse_hours=True)
    assert hours.problems() == ()
    assert_same_rows(flat_rows(flat_of(hours, JULY).path), expected_rows(of, str(JULY)))


@pytest.mark.parametrize(
    ("of", "attributes"),
    [
        (at("2023-07-01T12"), {}),
        (at("2023-07-01T12", "2023-07-02T12"), {}),
        (at("2023-07-01T00", "2023-07-01T12", "2023-07-02T12", "2023-07-03T12"), {}),
        (NOONS, {"GRIB_stepType": "instant"}),
        (weather(hours_from("2023-06-30T01", 24)), {}),
    ],
    ids=["one hour", "two hours", "two hours of a day", "by step type", "the last hour of the month before"],
)
def test_hours_that_cannot_be_taken_for_means_need_no_option(
    tmp_path: Path, of: Weather, attributes: dict[str, object]
) -> None:
    write(tmp_path / "era5", of, replace(LEGACY, attributes=attributes))
    assert source_of(tmp_path / "era5").problems() == ()


def test_the_only_value_of_a_month_at_its_first_hour_may_be_its_mean(tmp_path: Path) -> None:
    write(tmp_path / "era5", at("2023-07-01T00"), UNPACKED)
    source = source_of(tmp_path / "era5")
    with pytest.raises(BadFileError, match=r"one value a month, always at 00:00 UTC .* may be the mean") as refused:
        source.fetch(JULY)
    assert "--sparse-hours" in refused.value.remedy
    assert replace(source_of(tmp_path / "era5"), sparse_hours=True).problems() == ()
    write(tmp_path / "era5", at("2023-07-02T12"), UNPACKED, stem="other")
    assert source_of(tmp_path / "era5").problems() == ()


def test_means_are_refused_although_incomplete_months_are_allowed(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "era5.nc", MONTHS, replace(CURRENT, attributes={"GRIB_stepType": "avgua"}))
    source = FilesSource((path,), tmp_path / "home", sparse_hours=True)
    with pytest.raises(BadFileError, match="monthly means"):
        source.fetch(JULY)
    assert source.months() == ()
    assert "monthly means" in str(source.no_months())


# ---- special files


def test_special_files_are_refused_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.nc")
    (tmp_path / "zero.nc").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "notes")
    write_netcdf(tmp_path / "july.nc", weather(OF_JULY))
    source = FilesSource((tmp_path,), tmp_path / "home")
    assert [file.path.name for file in source.fetch(JULY).files] == ["july.nc"]
    assert [str(problem) for problem in source.problems()] == [
        f"{tmp_path}/pipe.nc: is a named pipe, not a file",
        f"{tmp_path}/zero.nc: is a device, not a file",
    ]


@pytest.mark.parametrize("name", ["pipe", "pipe.nc"])
def test_a_special_file_that_is_named_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="is a named pipe, not a file"):
        FilesSource((tmp_path / name,), tmp_path / "home")


def test_a_file_that_became_a_pipe_is_refused(folder: Path) -> None:
    raw = source_of(folder).fetch(JULY)
    (folder / "tp" / "july.nc").unlink()
    os.mkfifo(folder / "tp" / "july.nc")
    with pytest.raises(BadFileError, match="is a named pipe, not a file"):
        flatten_month(raw, folder, home=folder.parent / "home", flat_format="parquet")


# ---- data sets


LAND_FILES = DATA / "era5"
SIERRA_LEONE = LAND_FILES / "sierra-leone-land-2025-02"


def land_source(folder: Path, home: Path, names: str = "all", **settings: Any) -> FilesSource:
    choice = ERA5_LAND.catalogue.choose(names)
    assert choice is not None
    request = Request(choice.variables, is_open=True, dataset=ERA5_LAND)
    return FilesSource((folder,), home, request, **settings)


def only_text(source: FilesSource) -> str:
    (text,) = {problem.text for problem in source.problems()}
    return text


@pytest.mark.parametrize(
    ("file", "month", "accumulations"),
    [
        ("indonesia-land-2023-07-10", "2023-07", {"surface_solar_radiation_downwards": "day"}),
        (
            "bad/era5-land.grib",
            "2016-10",
            {
                "temperature_2m": "hour",
                "soil_temperature_level_1": "hour",
                "surface_solar_radiation_downwards": "day",
                "surface_net_solar_radiation": "day",
            },
        ),
        (
            "delhi-land-zip-named-nc",
            "2023-05",
            dict.fromkeys(("temperature_2m", "zonal_wind_10m", "meridional_wind_10m", "dewpoint_2m"), "hour"),
        ),
    ],
)
def test_real_files_of_era5_land_are_taken_as_that(
    tmp_path: Path, file: str, month: str, accumulations: dict[str, str]
) -> None:
    source = land_source(LAND_FILES / file, tmp_path)
    assert source.months() == (Month.parse(month),)
    assert set(source.columns()) == set(accumulations)
    raw = source.fetch(Month.parse(month))
    assert (raw.dataset, raw.accumulation, raw.warnings) == (ERA5_LAND, None, ())
    with scratch_folder(tmp_path) as scratch:
        fields = [
            one
            for of in netcdf_files((one.path for one in raw.files), scratch)
            for one in contents_of(of, ERA5_LAND).fields
        ]
    assert {one.column: one.accumulation for one in fields} == accumulations
    assert {one.origin for one in fields} == {"stated"}


def test_files_of_era5_land_that_are_asked_as_era5_name_the_command_that_loads_them(tmp_path: Path) -> None:
    for name in ("indonesia-land-2023-07-10", "sierra-leone-land-2025-02"):
        folder = LAND_FILES / name
        source = FilesSource((folder,), tmp_path, Request(VARIABLES, is_open=True))
        nearest = " --off-grid nearest" if "sierra" in name else ""
        assert source.months() == ()
        (problem,) = source.problems()
        assert "holds values of ERA5-Land" in problem.text
        command = f"era5 load --dataset era5-land --source files --files-dir {folder}{nearest}."
        assert problem.remedy.startswith(f"Load it as ERA5-Land: {command} Request hourly data")


@pytest.mark.parametrize(
    ("file", "text", "command"),
    [
        (
            "telangana-2023-09",
            "holds values of ERA5 (GRIB_iDirectionIncrementInDegrees 0.25), not values of ERA5-Land",
            "",
        ),
        ("uk-2019-03-grib", "holds values of ERA5 (GRIB_class ea), not values of ERA5-Land, 0.1 degrees apart", ""),
        ("netherlands-2020-01-01-packed", "is on a grid of 0.25 degrees, ERA5's: latitude", ""),
        ("delhi-2018-offgrid", "holds values of ERA5 (GRIB_iDirection", " --off-grid nearest"),
    ],
)
def test_files_of_era5_are_none_of_era5_land(tmp_path: Path, file: str, text: str, command: str) -> None:
    source = land_source(LAND_FILES / file, tmp_path)
    assert (source.months(), source.columns()) == ((), ())
    for problem in source.problems():
        assert text in problem.text
        assert f"Load it as ERA5: era5 load --source files --files-dir {LAND_FILES / file}{command}. " in problem.remedy
    assert source.no_months().remedy == together(source.problems())[0].remedy
    assert f"--files-dir {LAND_FILES / file}{command}. " in source.no_months().remedy


def test_a_file_off_the_grid_of_era5_land_is_taken_to_its_points_if_that_is_asked(tmp_path: Path) -> None:
    refused = land_source(SIERRA_LEONE, tmp_path)
    (problem,) = refused.problems()
    assert problem.kind == "grid"
    assert problem.text.endswith("is not on ERA5-Land's 0.1 degree grid")
    assert "era5 load --dataset era5-land --from 2025-02 --to 2025-02 --source cds --area " in problem.remedy
    assert problem.remedy.endswith("--off-grid nearest.")
    taken = land_source(SIERRA_LEONE, tmp_path, off_grid="nearest")
    assert taken.months() == (Month(2025, 2),)
    assert taken.fetch(Month(2025, 2)).off_grid == "nearest"


def test_monthly_means_of_era5_land_are_refused_by_both(tmp_path: Path) -> None:
    folder = LAND_FILES / "land-t2m-expver-dim"
    land = land_source(folder, tmp_path)
    assert "has one value a month" in only_text(land)
    assert "Hours come from dataset reanalysis-era5-land of" in land.problems()[0].remedy
    era5 = FilesSource((folder,), tmp_path)
    assert "is on a grid of 0.1 degrees, ERA5-Land's" in only_text(era5)
    assert "Load it as" not in era5.problems()[0].remedy


def write_land(path: Path, names: Sequence[str] = ("t2m",), layout: Layout | None = None, **axes: Any) -> Path:
    """Write a file of ERA5-Land, of the former store: nothing but its points tells what it is."""
    of = weather(OF_JULY, **({"latitudes": [10.1, 10.0], "longitudes": [20.0, 20.1, 20.2]} | axes), names=names)
    return write_netcdf(path, of, layout or LEGACY)


def test_each_data_set_is_loaded_from_its_own_files_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "both"
    folder.mkdir()
    write_land(folder / "land.nc")
    write_netcdf(folder / "era5.nc", weather(OF_JULY))
    for source, own, other in (
        (land_source(folder, tmp_path / "home"), "land.nc", "era5.nc"),
        (source_of(folder, Request(VARIABLES, is_open=True)), "era5.nc", "land.nc"),
        (source_of(folder), "era5.nc", "land.nc"),
        (source_of(folder, Request((find_variable("t2m"),))), "era5.nc", "land.nc"),
    ):
        raw = source.fetch(JULY)
        assert [file.path.name for file in raw.files] == [own]
        assert source.refusals(JULY) == ()
        (warning,) = raw.warnings
        assert warning.startswith(f"passed over: {folder / other}: ")
        use = source.use((JULY,), (JULY,))
        assert use.by_month == {JULY: (str(folder / own),)}
        ((path, problem),) = use.passed_over
        assert path == str(folder / other)
        assert problem.remedy.startswith("Load it as ERA5")
        assert problem.may_be_era5  # for the exit code
    # A month of the other data set alone is refused.
    (folder / "era5.nc").unlink()
    assert "ERA5-Land's" in str(source_of(folder).refusals(JULY)[0].error)


def test_amounts_of_a_point_are_taken_by_the_users_word_alone(tmp_path: Path) -> None:
    folder = tmp_path / "point"
    folder.mkdir()
    write_land(folder / "x.nc", ["t2m", "tp"], latitudes=[10.1], longitudes=[20.1])
    refused = land_source(folder, tmp_path / "home")
    assert refused.columns() == ("temperature_2m",)
    (problem,) = refused.problems()
    assert problem.columns == ("total_precipitation",)
    assert "does not tell whether tp is the sum since 00 UTC" in problem.text
    assert "--accumulation day (ERA5_ACCUMULATION=day)" in problem.remedy
    assert refused.refusals(JULY)
    for word in ("day", "hour"):
        taken = land_source(folder, tmp_path / "home", accumulation=word)
        assert taken.columns() == ("temperature_2m", "total_precipitation")
        raw = taken.fetch(JULY)
        assert raw.accumulation == word
        assert RawMonth.from_json(raw.to_json()) == raw
        assert raw.fingerprint != replace(raw, accumulation=None).fingerprint
        with scratch_folder(tmp_path / "home") as scratch:
            assert len(take_inventory(raw, scratch).pieces) == 2
    # Where no file needs it, the months are the same without.
    only = land_source(folder, tmp_path / "home", "t2m", accumulation="day").fetch(JULY)
    assert only.accumulation is None


def test_the_store_name_of_a_series_tells_that_its_amounts_are_of_hours(tmp_path: Path) -> None:
    name = "reanalysis-era5-land-timeseries-sfc-pressure-precipitation.nc"
    path = write_land(tmp_path / name, ["tp"], latitudes=[10.0], longitudes=[20.0])
    (field,) = contents_of(NetcdfFile(path, path), ERA5_LAND).fields
    assert (field.accumulation, field.origin) == ("hour", "stated")
    # Its point is on both grids, and it is never loaded as ERA5 unasked.
    (problem,) = contents_of(NetcdfFile(path, path)).problems
    assert problem.text.startswith("holds values of ERA5-Land (reanalysis-era5-land-timeseries in its name)")
    assert "Load it as ERA5-Land: era5 load --dataset era5-land" in problem.remedy


def test_a_name_that_the_data_sets_give_to_two_variables_is_told_by_its_number(tmp_path: Path) -> None:
    def found(units: str, **attributes: Any) -> list[str]:
        path = write_land(tmp_path / "x.nc", layout=replace(CURRENT, attributes={}))
        with netCDF4.Dataset(path, "a") as file:
            file.renameVariable("t2m", "snow_depth")
            for name in ("GRIB_paramId", "GRIB_dataType"):
                file["snow_depth"].delncattr(name)
            file["snow_depth"].setncatts({"units": units, **attributes})
        contents = inspect(NetcdfFile(path, path), ERA5_LAND)
        return [one.column for one in contents.fields] or [contents.problems[0].text]

    assert found("m", GRIB_paramId=3066) == found("m") == ["snow_depth"]
    assert found("m of water equivalent", GRIB_paramId=141) == ["snow_depth_water_equivalent"]
    assert "not in m" in found("m of water equivalent")[0]


def test_only_era5_land_asks_over_what_amounts_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="amounts of ERA5 are those of hours"):
        Request.of(Settings(home=tmp_path, files_dir=str(tmp_path), accumulation="day"))
    with pytest.raises(UsageError, match="--accumulation is for your own files"):
        Request.of(Settings(home=tmp_path, source="cds", dataset="era5-land", accumulation="day"))
    of_land = Settings(home=tmp_path, files_dir=str(tmp_path), dataset="era5-land", accumulation="day")
    source = source_of_settings(of_land)
    assert isinstance(source, FilesSource)
    assert (source.accumulation, source.request.dataset) == ("day", ERA5_LAND)


def test_an_archive_of_a_zarr_store_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "t2m.zarr.tar.gz").write_bytes(b"\x1f\x8b" + bytes(100))
    source = land_source(tmp_path, tmp_path / "home")
    assert "t2m.zarr.tar.gz: is an archive of a Zarr store" in str(source.no_months())
