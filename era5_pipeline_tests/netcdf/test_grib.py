"""GRIB: values as ecCodes and cfgrib read them independently, any form of message, and what is refused by name."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.model.errors import BadFileError, InputError
from era5_pipeline.model.variables import BY_PARAM_ID
from era5_pipeline.netcdf import grib
from era5_pipeline.netcdf.archive import NetcdfFile, StoredObject, netcdf_files, scratch_folder
from era5_pipeline.netcdf.grib import inspect_grib
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.era5_files import (
    GRIB_LAYOUTS,
    Rows,
    assert_same_rows,
    expected_rows,
    flat_rows,
    flatten,
    half_steps_of,
    hour,
    hours_from,
    into_zip,
    location_id,
    raw_month,
    weather,
    write,
)
from era5_pipeline_tests.grib_files import Form, Message, eccodes, encoded, together
from era5_pipeline_tests.samples import DATA, more_real_files

if TYPE_CHECKING:
    from era5_pipeline.netcdf.contents import Contents

GRIB = GRIB_LAYOUTS[0]
UK = DATA / "era5" / "uk-2019-03-grib" / "t2m.grib"
GOOD = [
    UK,
    *more_real_files("t2m-2019-03-uk.grib"),
    *more_real_files("five-2024-02-03T17-south-america.grib"),
]
NORTH, EAST = np.array([10.5, 10.25, 10.0]), np.array([20.0, 20.25, 20.5, 20.75])


def contents(path: Path) -> Contents:
    return inspect_grib(NetcdfFile(path, path, kind="grib"))


def message(param: int = 167, at: str = "2023-07-01T05", seed: int = 1, **more: Any) -> Message:
    values = np.random.default_rng(seed).uniform(0.0, 1.0, (NORTH.size, EAST.size)) + (270.0 if param == 167 else 0.0)
    return Message(
        **{"param": param, "hour": hour(at), "latitudes": NORTH, "longitudes": EAST, "values": values, **more}
    )


def written(path: Path, *messages: Message, form: Form | None = None) -> Path:
    path.write_bytes(b"".join(encoded(one, form or Form()) for one in messages))
    return path


def by_ec_codes(path: Path, month: str) -> Rows:
    """The rows of a month, with the coordinates of each value that ecCodes itself computes."""
    found: dict[str, dict[tuple[int, int], float]] = {}
    with path.open("rb") as file:
        while (handle := eccodes.codes_grib_new_from_file(file)) is not None:
            day, clock = (eccodes.codes_get(handle, f"validity{part}") for part in ("Date", "Time"))
            at = hour(f"{str(day)[:4]}-{str(day)[4:6]}-{str(day)[6:]}T{clock // 100:02d}")
            variable = BY_PARAM_ID[eccodes.codes_get(handle, "paramId")]
            values = eccodes.codes_get_values(handle) * variable.scale + variable.offset
            places = [eccodes.codes_get_array(handle, name) for name in ("latitudes", "longitudes")]
            if str(np.datetime64(at, "h"))[:7] == month:
                of_column = found.setdefault(variable.column, {})
                for north, east, value in zip(*places, values, strict=True):
                    of_column[location_id(north, east), at] = value
            eccodes.codes_release(handle)
    keys = sorted({key for of_column in found.values() for key in of_column})
    return Rows(
        np.array([place for place, _ in keys]),
        np.array([at for _, at in keys]),
        {column: np.array([of_column[key] for key in keys]) for column, of_column in found.items()},
    )


# ---- values


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_values_of_real_files_are_those_of_ec_codes(path: Path, tmp_path: Path) -> None:
    (month,) = {month for field in contents(path).fields for month in field.months}
    wanted = by_ec_codes(path, month)
    flat = flatten([path], month, tmp_path, variables=tuple(wanted.values))
    found = flat_rows(flat.path)
    lacking = dict.fromkeys(found.values.keys() - wanted.values.keys(), np.full(found.hours.size, np.nan))
    assert_same_rows(found, Rows(wanted.locations, wanted.hours, wanted.values | lacking))
    assert {tuple(column.expver) for column in flat.columns if column.values} == {("0001",)}


def test_a_field_back_and_forth_is_that_of_ec_codes(tmp_path: Path) -> None:
    """Whose coordinates of such a message ignore the order; so it turns the lines first."""
    path = written(tmp_path / "a.grib", message(), form=Form(2, scan=(False, False, False, True)))
    handle = eccodes.codes_new_from_message(path.read_bytes())
    eccodes.codes_set(handle, "swapScanningAlternativeRows", 1)
    turned = tmp_path / "b" / "b.grib"
    turned.parent.mkdir()
    turned.write_bytes(eccodes.codes_get_message(handle))
    eccodes.codes_release(handle)
    found = flat_rows(flatten([path], "2023-07", tmp_path).path)
    assert_same_rows(found, by_ec_codes(turned, "2023-07"))


@pytest.mark.parametrize("scan", list(product((False, True), repeat=4)))
def test_fields_are_read_in_any_order_of_the_points(tmp_path: Path, scan: tuple[bool, bool, bool, bool]) -> None:
    if scan[2:] == (True, True):
        # Lines back and forth by columns: programs do not agree on what that means.
        (problem,) = contents(written(tmp_path / "a.grib", message(), form=Form(2, scan=scan))).problems
        assert problem.columns == ("temperature_2m",)
        return
    of = weather(hours_from("2023-07-01T00", 2))
    for edition in (1, 2) if not scan[3] else (2,):
        layout = replace(GRIB, grib=Form(edition, scan=scan))
        rows = flat_rows(flatten(write(tmp_path / str(edition), of, layout), "2023-07", tmp_path).path)
        assert_same_rows(rows, expected_rows(of, "2023-07"), half_steps_of(of, layout))


def test_fields_of_one_message_are_read(tmp_path: Path) -> None:
    """Thirty messages with three fields each, read by threads in any order."""
    of = weather(hours_from("2023-07-01T00", 30), names=["t2m", "u10", "v10"])
    path = tmp_path / "a.grib"
    with path.open("wb") as file:
        for number, at in enumerate(of.hours.tolist()):
            several = [
                Message(param, at, of.latitudes, of.longitudes, of.fields[name][number])
                for name, param in (("t2m", 167), ("u10", 165), ("v10", 166))
            ]
            file.write(together(tmp_path / "one", several, Form(2)).read_bytes())
    assert {(field.column, field.hours.size) for field in contents(path).fields} == {
        *(("temperature_2m", 30), ("zonal_wind_10m", 30), ("meridional_wind_10m", 30))
    }
    for _ in range(3):
        flat = flatten([path], "2023-07", tmp_path)
        assert_same_rows(
            flat_rows(flat.path),
            expected_rows(of, "2023-07"),
            half_steps_of(of, replace(GRIB, grib=Form(2))),
        )


@pytest.mark.parametrize("more", [b"\0" * 200, b"7777 GRI and something else", b"\n"])
def test_bytes_between_and_after_messages_are_nothing(tmp_path: Path, more: bytes) -> None:
    of = weather(hours_from("2023-07-01T00", 3))
    parts = [path.read_bytes() for path in write(tmp_path, of, replace(GRIB, one_hour_per_file=True))]
    path = tmp_path / "a.grib"
    path.write_bytes(more.join(parts) + more)
    rows = flat_rows(flatten([path], "2023-07", tmp_path).path)
    assert_same_rows(rows, expected_rows(of, "2023-07"), half_steps_of(of, GRIB))


@pytest.mark.parametrize(
    ("param", "step", "step_type", "column"),
    [
        (228, (11, 12), "accum", "total_precipitation"),
        (228, (0, 1), "accum", "total_precipitation"),
        (228029, (11, 11), "instant", "instantaneous_wind_gust_10m"),
        (201, (6, 7), "max", "maximum_temperature_2m"),
        (202, (6, 7), "max", "minimum_temperature_2m"),
        (49, (6, 7), "max", "wind_gust_10m"),
    ],
)
def test_steps_of_forecasts_become_valid_times(
    tmp_path: Path, param: int, step: tuple[int, int], step_type: str, column: str
) -> None:
    path = written(tmp_path / "a.grib", message(param, "2023-07-01T17", step=step, step_type=step_type))
    (field,) = contents(path).fields
    assert (field.column, field.hours.tolist(), field.states_step_type) == (column, [hour("2023-07-01T17")], True)


def test_versions_are_those_of_each_message(tmp_path: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 6), expver=("0001",) * 4 + ("0005",) * 2)
    flat = flatten(write(tmp_path, of, GRIB), "2023-07", tmp_path)
    (facts,) = (column for column in flat.columns if column.values)
    assert sorted(facts.expver) == ["0001", "0005"]
    assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"), half_steps_of(of, GRIB))


@pytest.mark.parametrize("edition", [1, 2])
def test_half_of_a_packing_step_is_known(tmp_path: Path, edition: int) -> None:
    of, layout = weather(hours_from("2023-07-01T00", 5)), replace(GRIB, grib=Form(edition, bits=16))
    (field,) = contents(*write(tmp_path, of, layout)).fields
    assert field.half_step == pytest.approx(half_steps_of(of, layout)["temperature_2m"], rel=0.6)


# ---- the index


@pytest.mark.parametrize("edition", [1, 2])
def test_each_message_of_a_file_is_described_as_if_it_were_alone(tmp_path: Path, edition: int) -> None:
    # Headers that are the same but for the date are read once.
    kinds: list[dict[str, Any]] = [
        {"param": 167},
        {"param": 167, "expver": "0005"},
        {"param": 167, "latitudes": NORTH + 1},
        {"param": 167, "step": (5, 5), "step_type": "instant"},
        {"param": 228, "step": (0, 1)},
        {"param": 228, "step": (1, 2)},
        {"param": 228, "step": (0, 2)},
        {"param": 49, "step": (1, 2), "step_type": "max"},
    ]
    days = ("1940-01-01T05", "1999-12-31T23", "2000-01-01T00", "2023-07-01T05", "2023-07-02T06")
    messages = [message(at=at, **kind) for at in days for kind in kinds]
    whole = grib.read_index(written(tmp_path / "a.grib", *messages, form=Form(edition=edition)))
    for number, one in enumerate(messages):
        alone = grib.read_index(written(tmp_path / "b.grib", one, form=Form(edition=edition)))
        assert whole.groups[whole.group[number]] == alone.groups[0]
        assert (whole.minutes[number], whole.steps[number]) == (alone.minutes[0], alone.steps[0])
    assert whole.minutes.tolist() == [one.hour * 60 for one in messages]
    # Of two steps of a total that are as long, the group is the same.
    assert len(whole.groups) == len(kinds) - 1


def test_the_index_is_made_once_and_kept(tmp_path: Path) -> None:
    (path,) = write(tmp_path, weather(hours_from("2023-07-01T00", 5)), GRIB)
    file = NetcdfFile(path, path, kind="grib", index_folder=tmp_path / "catalogue")
    program = (
        "import sys, pickle, pathlib\n"
        "from era5_pipeline.netcdf.grib import inspect_grib\n"
        "found = inspect_grib(pickle.loads(bytes.fromhex(sys.argv[1])))\n"
        "print([(field.column, field.hours.size) for field in found.fields], 'eccodes' in sys.modules)\n"
    )
    assert [field.hours.size for field in inspect_grib(file).fields] == [5]
    # Another process reads it without ecCodes.
    ran = subprocess.run(
        [sys.executable, "-c", program, pickle.dumps(file).hex()],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert ran.stdout.strip() == "[('temperature_2m', 5)] False"
    # A file that changed is looked at again, and so is one whose index is damaged.
    (kept,) = (tmp_path / "catalogue").iterdir()
    kept.write_bytes(kept.read_bytes()[:100])
    assert [field.hours.size for field in inspect_grib(file).fields] == [5]
    write(tmp_path, weather(hours_from("2023-07-01T00", 7)), GRIB)
    assert [field.hours.size for field in inspect_grib(file).fields] == [7]


@pytest.fixture
def indexed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files of which an index is made."""
    made: list[Path] = []

    def read_index(path: Path) -> grib.Index:
        made.append(path)
        return real(path)

    real = grib.read_index
    monkeypatch.setattr(grib, "read_index", read_index)
    return made


def grib_files_in(path: Path, home: Path, origins: dict[Path, StoredObject] | None = None) -> list[int]:
    """Look into a file as a process of its own would, with nothing in memory; return the hours of its fields."""
    with scratch_folder(home) as scratch:
        return [
            field.hours.size
            for file in netcdf_files([path], scratch, origins or {})
            for field in inspect_grib(file).fields
        ]


def test_the_index_of_a_file_in_a_zip_is_made_once(tmp_path: Path, indexed: list[Path]) -> None:
    first, second = (write(tmp_path, weather(hours_from("2023-07-01T00", n)), GRIB, stem=str(n))[0] for n in (5, 7))
    path = into_zip(tmp_path / "two.zip", [first, second])
    assert [grib_files_in(path, tmp_path / "home") for _ in range(3)] == [[5, 7]] * 3
    assert len(indexed) == 2
    into_zip(path, write(tmp_path, weather(hours_from("2023-07-01T00", 7)), GRIB, stem="7"))
    assert grib_files_in(path, tmp_path / "home") == [7]
    assert len(indexed) == 3


def test_the_index_of_an_object_is_that_of_all_its_copies(tmp_path: Path, indexed: list[Path]) -> None:
    home, (path,) = tmp_path / "home", write(tmp_path, weather(hours_from("2023-07-01T00", 5)), GRIB)

    def copied(name: str, sha256: str) -> list[int]:
        (tmp_path / name).mkdir()
        copy = Path(shutil.copy(path, tmp_path / name))
        return grib_files_in(copy, home, {copy: StoredObject("s3://era5/year.grib", sha256)})

    assert [copied("2023-07", "a"), copied("2023-08", "a")] == [[5], [5]]
    assert len(indexed) == 1
    write(tmp_path, weather(hours_from("2023-07-01T00", 6)), GRIB)
    assert copied("2023-09", "b") == [6]
    assert len(list((home / "catalogue").iterdir())) == 1


def test_indices_that_were_not_used_for_a_month_are_removed(tmp_path: Path) -> None:
    home, catalogue = tmp_path / "home", tmp_path / "home" / "catalogue"
    of = weather(hours_from("2023-07-01T00", 2))
    (new,), (old,), (used,) = (write(tmp_path, of, GRIB, stem=name) for name in ("new", "old", "used"))
    origins = {used: StoredObject("s3://era5/used.grib", "a")}
    for path in (old, used):
        grib_files_in(path, home, origins)
    month_ago = time.time() - 40 * 86_400
    for kept in catalogue.iterdir():
        os.utime(kept, (month_ago, month_ago))
    grib_files_in(used, home, origins)
    (catalogue / "entry.json").write_text("{}")
    grib._remove_old.cache_clear()  # as in another process
    grib_files_in(new, home)
    of_used, of_new = (grib.IndexedFile(*of, "").name for of in (("s3://era5/used.grib", None), (str(new), None)))
    assert {kept.name for kept in catalogue.iterdir()} == {"entry.json", of_used, of_new}


# ---- memory


def test_fields_share_the_memory_and_the_others_are_decoded_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = weather(hours_from("2023-07-01T00", 20), names=("t2m", "u10", "v10"))
    (path,) = write(tmp_path, of, GRIB)
    monkeypatch.setattr(grib, "_MOST_IN_MEMORY", 2 * of.fields["t2m"].size)
    made: list[object] = []

    def temporary_file(**options: object) -> object:
        made.append(options["dir"])
        return real(**options)  # type: ignore[call-overload]

    real = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", temporary_file)
    raw = raw_month([path], "2023-07")
    with scratch_folder(tmp_path) as scratch:
        assert take_inventory(raw, scratch).temporary_bytes == 3 * 4 * of.fields["t2m"].size
    for stem in ("first", "second"):  # what the first one took is free again
        flat = flatten([path], "2023-07", tmp_path / stem)
        assert_same_rows(flat_rows(flat.path), expected_rows(of, "2023-07"), half_steps_of(of, GRIB))
    homes = [tmp_path / stem / "catalogue" for stem in ("first", "second")]
    assert [folder for folder in made if folder in homes] == homes
    monkeypatch.setattr(grib, "_MOST_IN_MEMORY", 3 * of.fields["t2m"].size)
    with scratch_folder(tmp_path) as scratch:
        assert take_inventory(raw, scratch).temporary_bytes == 0


# ---- what is refused


TOTAL_OF_A_DAY = {"param": 228, "at": "2023-07-02T00", "step": (0, 24)}
HALF_A_DAY = {"param": 228, "at": "2023-07-01T12", "step": (0, 12)}


# More values of these keys: test_refusals.
@pytest.mark.parametrize(
    ("keys", "of", "said"),
    [
        ({"class": "l5"}, {}, "ERA5-Land (GRIB_class l5)"),
        ({"stream": "moda"}, {}, "monthly means"),
        ({"stream": "wave"}, {}, "ocean waves"),
        ({"levtype": "pl", "level": 500}, {}, "pressure levels"),
        ({"levtype": "ml", "level": 137}, {}, "model levels"),
        ({"dataType": "em"}, {}, "means of an ensemble"),
        ({"dataType": "fc"}, {}, "forecasts of a variable that ERA5 has as an analysis (GRIB_dataType fc)"),
        ({"centre": "kwbc"}, {}, "another centre than ECMWF (GRIB_centre kwbc)"),
        ({"deleteLocalDefinition": 1}, {}, "values without a class of ECMWF's archive"),
        ({"stepType": "avgid"}, {}, "2t holds daily or monthly means (GRIB_stepType avgid, of hours it is instant)"),
        ({}, TOTAL_OF_A_DAY, "24 hours at once"),
        ({"stream": "moda"}, HALF_A_DAY, "tp holds monthly means (GRIB_stream moda)"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_what_is_no_hour_of_era5_is_refused_by_name(
    tmp_path: Path, keys: dict[str, Any], of: dict[str, Any], said: str
) -> None:
    path = written(tmp_path / "a.grib", message(**of), form=Form(keys=keys))
    found = contents(path)
    # For whoever knows better than the file.
    assert of or all(field.origin == "trusted" for field in found.fields)
    (problem,) = found.problems
    assert said in problem.text
    assert problem.months == ("2023-07",)
    assert of or "reanalysis-era5-single-levels" in problem.remedy
    with pytest.raises(InputError):
        flatten([path], "2023-07", tmp_path)


def test_a_gaussian_grid_is_named(tmp_path: Path) -> None:
    handle = eccodes.codes_grib_new_from_samples("regular_gg_sfc_grib1")
    for name, value in {"class": "ea", "stream": "oper", "paramId": 167, "dataDate": 20230701}.items():
        eccodes.codes_set(handle, name, value)
    (tmp_path / "a.grib").write_bytes(eccodes.codes_get_message(handle))
    eccodes.codes_release(handle)
    (problem,) = contents(tmp_path / "a.grib").problems
    assert problem.text.startswith("is on a Gaussian grid (regular_gg)")


def test_a_wave_variable_does_not_block_the_others(tmp_path: Path) -> None:
    temperature, waves = message(), message(140209, seed=2)
    path = tmp_path / "a.grib"
    path.write_bytes(encoded(temperature, Form()) + encoded(waves, Form(keys={"stream": "wave"})))
    found = contents(path)
    assert [field.column for field in found.fields] == ["temperature_2m"]
    assert found.problems == ()
    assert found.left_out == (("rhoao", "holds values of ocean waves (stream wave), not of the atmosphere"),)
    assert flatten([path], "2023-07", tmp_path).rows == NORTH.size * EAST.size
    alone = written(tmp_path / "b.grib", waves, form=Form(keys={"stream": "wave"}))
    (problem,) = contents(alone).problems
    assert problem.text.startswith("rhoao holds values of ocean waves (stream wave)")


def test_what_ec_codes_prints_is_not_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It prints a warning from C for each message whose local section has a date of zeros."""
    no_date = {"yearOfForecast": 0, "monthOfForecast": 0, "dayOfForecast": 0}
    path = written(
        tmp_path / "a.grib", message(), form=Form(edition=2, keys={"grib2LocalSectionNumber": 41, **no_date})
    )
    capfd.readouterr()
    assert flatten([path], "2023-07", tmp_path).rows == NORTH.size * EAST.size
    assert capfd.readouterr() == ("", "")
    eccodes.codes_release(eccodes.codes_new_from_message(path.read_bytes()))
    assert "Date is not valid" in capfd.readouterr().err, "ecCodes says it no more, or nobody hears C's stderr"
    with pytest.raises(eccodes.CodesInternalError):
        eccodes.codes_set(eccodes.codes_grib_new_from_samples("regular_ll_sfc_grib1"), "typeOfGrid", "none")
    assert capfd.readouterr().err.count("ECCODES") == 0


# In the repository, and in the folder of ERA5_SAMPLES.
REFUSED = {
    "era5-land.grib": "ERA5-Land (GRIB_class l5)",
    "wind.grib": "longitude 25.9 is not on ERA5's 0.25 degree grid",
    "five-2020-06-23T18.grib": "is not on ERA5's 0.25 degree grid",
    "six-2018-2025-mixed-versions.grib": "is not on ERA5's 0.25 degree grid",
    "wind-2015-point-37-25.9.grib": "is not on ERA5's 0.25 degree grid",
    "era5-land-2016-10-16.grib": "ERA5-Land",
    "pressure-levels-1-degree.grib": "pressure levels",
    "pressure-levels-cut-off.grib": "cut off",
}


@pytest.mark.parametrize(
    "path", [path for name in REFUSED for path in (*(DATA / "era5").rglob(name), *more_real_files(name))], ids=str
)
def test_real_files_that_do_not_fit_are_refused_by_name(path: Path) -> None:
    found = contents(path)
    assert all(field.shift or field.origin == "trusted" for field in found.fields)
    assert found.problems
    assert all(REFUSED[path.name] in problem.text for problem in found.problems)
    assert len(found.problems) == 1 or not path.is_relative_to(DATA)


# ---- damage


@pytest.mark.parametrize("left", [4, 7, 60, 200, -1, -4, -200])
def test_a_file_that_is_cut_off_is_found(tmp_path: Path, left: int) -> None:
    (path,) = write(tmp_path, weather(hours_from("2023-07-01T00", 5)), GRIB)
    data = path.read_bytes()
    size = len(data) // 5
    path.write_bytes(data[: 3 * size + left] if left > 0 else data[:left])
    (problem,) = contents(path).problems
    assert "cut off or damaged" in problem.text
    assert problem.kind == "unreadable"
    # Between messages: it lacks hours.
    path.write_bytes(data[: 3 * size])
    assert flatten([path], "2023-07", tmp_path).missing_hours == ("2023-07-01T03 to 2023-07-31T23",)


@pytest.mark.parametrize("position", [20, 0.1, 0.5, 0.99])
def test_a_bit_that_flips_after_the_file_was_found_is_found(tmp_path: Path, position: float) -> None:
    (path,) = write(tmp_path, weather(hours_from("2023-07-01T00", 5)), GRIB)
    flatten([path], "2023-07", tmp_path)
    data, state = bytearray(path.read_bytes()), path.stat()
    data[int(position if position >= 1 else position * len(data))] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(BadFileError, match="is not as it was when the file was found"):
        flatten([path], "2023-07", tmp_path)


# A third of the bytes; the others are headers of the same kinds.
@pytest.mark.parametrize("first", [8, *(pytest.param(one, marks=pytest.mark.endurance) for one in (9, 10))])
def test_no_flipped_bit_of_the_headers_ends_in_a_traceback(tmp_path: Path, first: int) -> None:
    of = weather(hours_from("2023-07-01T00", 2))
    (good,) = write(tmp_path, of, GRIB)
    data = good.read_bytes()
    wanted = expected_rows(of, "2023-07")
    path = tmp_path / "bad" / "a.grib"
    path.parent.mkdir()
    for position in range(first, 120, 3):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        found = contents(path)
        assert found.fields or found.problems
        if not found.fields:
            continue
        try:
            rows = flat_rows(flatten([path], "2023-07", tmp_path / "out").path)
        except InputError:
            continue
        # It says another value, place or hour; but there is no more than what was written.
        assert rows.hours.size <= 2 * wanted.hours.size


# ---- the same twice


def test_messages_of_two_grids_are_both_loaded_where_they_agree(tmp_path: Path) -> None:
    east = EAST + 1.0
    other = message(seed=2, longitudes=east)
    flat = flatten([written(tmp_path / "a.grib", message(), other)], "2023-07", tmp_path)
    assert flat.rows == 2 * NORTH.size * EAST.size
    overlapping = message(seed=2, longitudes=EAST + 0.25)
    with pytest.raises(InputError):
        flatten([written(tmp_path / "b.grib", message(), overlapping)], "2023-07", tmp_path / "b")


def test_the_request_on_the_grid_is_for_all_variables_and_months_of_the_file(tmp_path: Path) -> None:
    beside = NORTH + 0.02
    temperature, wind = message(167, latitudes=beside), message(165, at="2024-02-01T05", latitudes=beside)
    problems = contents(written(tmp_path / "x.grib", temperature, wind)).problems
    assert {problem.columns: problem.months for problem in problems} == {
        ("temperature_2m",): ("2023-07",),
        ("zonal_wind_10m",): ("2024-02",),
    }
    assert all("--from 2023-07 --to 2024-02 " in one.remedy and "--variables t2m,u10" in one.remedy for one in problems)
