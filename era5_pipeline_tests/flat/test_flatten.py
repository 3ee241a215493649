from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import netCDF4
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.flat import formats, tiles
from era5_pipeline.flat.flat_month import FLAT_FORM
from era5_pipeline.flat.flatten import MiddleHour, facts_file, flatten_month, preview_file, read_flat_month
from era5_pipeline.flat.inventory import Inventory
from era5_pipeline.flat.statistics import RowWeights, digest_text
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import BadFileError, InputError, LocalDiskError, RefusedError
from era5_pipeline.model.grid import Area, Grid
from era5_pipeline.model.land_mask import land_mask
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import find_variables, variable_names
from era5_pipeline.runtime.progress import listening
from era5_pipeline.sources.files import FilesSource
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline_tests.era5_files import (
    COLUMNS,
    CURRENT,
    GRIB_LAYOUTS,
    LAYOUTS,
    LEGACY,
    OTHER_VARIABLES,
    VARIABLES,
    Layout,
    Rows,
    Weather,
    assert_location_major,
    assert_same_rows,
    expected_rows,
    flat_rows,
    flatten,
    full_disk,
    half_steps_of,
    hour,
    hours_from,
    into_zip,
    joined_months,
    left_behind,
    location_id,
    raw_month,
    weather,
    write,
    write_netcdf,
)
from era5_pipeline_tests.samples import every_real_file, unpacked

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.dataset import Accumulation, Dataset
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline.runtime.progress import Stage
    from era5_pipeline.sources.source import RawMonth

JULY = Month(2023, 7)


pytestmark = pytest.mark.usefixtures("no_pictures")


# ---- real files, compared with an independent reader


Known = dict[str, tuple[str, str, int, float, float]]


def independently(paths: list[Path], month: str, known: Known = VARIABLES) -> Rows:
    """The rows of a month, read independently: with netCDF4's own scaling and another formula for location ids."""
    found: dict[str, npt.NDArray[np.float64]] = {}
    numbers = np.empty(0, dtype=np.int64)
    hours: list[int] = []
    for path in paths:
        with netCDF4.Dataset(path) as dataset:
            time = dataset["valid_time" if "valid_time" in dataset.variables else "time"]
            times: Any = netCDF4.num2date(time[:], time.units, time.calendar, only_use_cftime_datetimes=False)
            inside = [n for n, t in enumerate(times) if f"{t.year:04d}-{t.month:02d}" == month]
            hours = [hour(f"{t.year:04d}-{t.month:02d}-{t.day:02d}T{t.hour:02d}") for t in times[inside]]
            latitudes, longitudes = (
                np.atleast_1d(dataset[name][:]).astype(np.float64) for name in ("latitude", "longitude")
            )
            east = np.where(longitudes > 180.0, longitudes - 360.0, longitudes)
            east = np.where(east == -180.0, 180.0, east)
            rows, columns = ((latitudes + 90.0) / 0.25).astype(int), ((east + 179.75) / 0.25).astype(int)
            numbers = (rows[:, np.newaxis] * 1440 + columns + 1).reshape(-1)
            for name, (column, _, _, scale, offset) in known.items():
                if name not in dataset.variables:
                    continue
                values = dataset[name][inside].astype(np.float64) * scale + offset
                filled = np.ma.filled(values, np.nan)
                if "expver" in dataset[name].dimensions:  # final where it is, else preliminary
                    filled = np.where(np.isnan(filled[:, 0]), filled[:, 1], filled[:, 0])
                found[column] = filled.reshape(-1)
    return Rows(np.tile(numbers, len(hours)), np.repeat(hours, numbers.size), found).sorted()


def series_independently(path: Path, month: str, known: Known = VARIABLES) -> Rows:
    """The rows of a month of a point series in CSV, read with Python's csv module."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["valid_time"].startswith(month)]
    found = {}
    for name in known.keys() & rows[0].keys():
        column, _, _, scale, offset = known[name]
        found[column] = np.array([np.float64(np.float32(row[name] or "nan")) * scale + offset for row in rows])
    location = location_id(float(rows[0]["latitude"]), float(rows[0]["longitude"]))
    hours = np.array([hour(row["valid_time"][:13].replace(" ", "T")) for row in rows])
    return Rows(np.full(hours.size, location), hours, found)


def csv_rows(path: Path) -> Rows:
    """The rows of a flat month in CSV, read with Python's csv module."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    return Rows(
        np.array([int(row["location_id"]) for row in rows]),
        np.array([round(time.timestamp()) // 3600 for time in times]),
        {column: np.array([float(row.get(column) or "nan") for row in rows]) for column in COLUMNS},
    )


REAL: list[tuple[list[str], str, int, dict[str, int]]] = [
    *(
        (["gulf-2023/era5_t2m_2023.zip"], f"2023-{n:02d}", 63 * Month(2023, n).hours, {"0001": Month(2023, n).hours})
        for n in (2, 6)  # the first and the last: test_a_real_file_becomes_its_rows_or_is_refused_with_a_remedy
    ),
    (["norway-2018-10-packed/SURF_201810.nc"], "2018-10", 52_080, {"unknown": 744}),
    (
        [f"telangana-2023-09/data_stream-oper_stepType-{kind}.nc" for kind in ("accum", "instant")],
        "2023-09",
        74_088,
        {"0001": 168},
    ),
    *(
        (
            ["telangana-2023-jja/data_stream-oper_stepType-accum.nc"],
            f"2023-{n:02d}",
            16 * Month(2023, n).hours,
            {"0001": Month(2023, n).hours},
        )
        for n in (6, 7)
    ),
    (["karnataka-2024-01-01T12/era5.nc"], "2024-01", 25, {"0001": 1}),
    (["global-2019-01-01T12-packed/era5_t2m.nc"], "2019-01", 1_038_240, {"unknown": 1}),
    (
        [f"netherlands-2020-01-01-packed/ERA5_2020-01-01_{name}.nc" for name in ("tp", "u10", "v10")],
        "2020-01",
        40_344,
        {"unknown": 24},
    ),
    (["germany-tp-expver-mix/data_stream-oper_stepType-accum.nc"], "2025-09", 81 * 120, {"0001": 120}),
    (["germany-tp-expver-mix/data_stream-oper_stepType-accum.nc"], "2025-10", 81 * 124, {"0001": 2, "0005": 122}),
    (["bengal-wind-era5t/coast_wind_1.nc"], "2025-05", 30 * 100, {"0005": 30}),
]


@pytest.mark.parametrize(
    ("names", "month", "count", "versions"), REAL, ids=[f"{n[0].split('/')[0]}-{m}" for n, m, *_ in REAL]
)
def test_every_value_of_a_real_file_is_in_the_table_unchanged(
    era5_samples: Path, tmp_path: Path, names: list[str], month: str, count: int, versions: dict[str, int]
) -> None:
    paths = [era5_samples / name for name in names]
    flat = flatten(paths, month, tmp_path)
    rows = flat_rows(flat.path)
    expected = independently([netcdf for path in paths for netcdf in unpacked(path, tmp_path)], month)
    assert rows.locations.size == flat.rows == expected.locations.size == count
    assert_location_major(rows)
    assert_same_rows(rows, expected)
    assert_facts_are_those_of_the_rows(flat, rows)
    assert flat.expver == {column.column: versions for column in flat.columns}
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("folder", ["karnataka", "netherlands"])
def test_csv_has_every_value_of_a_real_file_too(era5_samples: Path, tmp_path: Path, folder: str) -> None:
    ((names, month, _, _),) = (one for one in REAL if one[0][0].startswith(folder))
    paths = [era5_samples / name for name in names]
    flat = flatten(paths, month, tmp_path, flat_format="csv")
    rows = csv_rows(flat.path)
    assert_location_major(rows)
    assert_same_rows(rows, independently(paths, month))
    as_parquet = flatten(paths, month, tmp_path / "other")
    assert flat.fingerprint == as_parquet.fingerprint
    assert flat.columns == as_parquet.columns
    assert [facts.digest for facts in flat.columns] == [digest_of(rows, facts.column) for facts in flat.columns]


@pytest.mark.parametrize("path", every_real_file(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_real_file_becomes_its_rows_or_is_refused_with_a_remedy(path: Path, tmp_path: Path) -> None:
    """The first and the last month of every real file, including those of ERA5_SAMPLES."""
    source, known = FilesSource((path,), tmp_path), VARIABLES
    if not source.months() and not source.problems():
        # It has none of the default variables.
        others = variable_names(source._unrequested_columns() or sorted(source._unusable_columns))
        # One of them has one value a month, and does not say of what; one is not of ERA5.
        remedies = (f"--variables {others}", "--sparse-hours", "--dataset era5-land", "move the file out of the folder")
        assert any(words in source.no_months().remedy for words in remedies)
        source = FilesSource((path,), tmp_path, Request(find_variables(others)), sparse_hours=True)
        known = OTHER_VARIABLES
    assert source.months() or source.problems()
    assert all(problem.remedy for problem in source.problems())
    for month in sorted({*source.months()[:1], *source.months()[-1:]}):
        flat = flatten_month(source.fetch(month), tmp_path / "flat", home=tmp_path, flat_format="parquet")
        assert_are_those_of_the_file(flat_rows(flat.path), path, str(month), known, tmp_path)


def assert_are_those_of_the_file(rows: Rows, path: Path, month: str, known: Known, folder: Path) -> None:
    files = unpacked(path, folder)
    of_csv = [file for file in files if file.suffix == ".csv"]
    read = series_independently(of_csv[0], month, known) if of_csv else None
    expected = read or independently(files, month, known)
    assert rows.locations.size == expected.locations.size > 0
    assert_location_major(rows)
    assert_same_rows(rows, expected)


def test_a_real_hour_of_the_globe_is_what_another_service_gives_for_a_place(era5_samples: Path, tmp_path: Path) -> None:
    """At 50.408062 N 4.184799 W iGOTM gives 9.3467 degC: ERA5, bilinear between four points. The file is packed."""
    rows = flat_rows(flatten([era5_samples / "global-2019-01-01T12-packed" / "era5_t2m.nc"], "2019-01", tmp_path).path)

    def at(latitude: float, longitude: float) -> float:
        return float(rows.values["temperature_2m"][rows.locations == location_id(latitude, longitude)][0])

    north, east = (50.408062 - 50.25) / 0.25, (-4.184799 + 4.25) / 0.25
    west_side = at(50.25, -4.25) * (1 - north) + at(50.5, -4.25) * north
    east_side = at(50.25, -4.0) * (1 - north) + at(50.5, -4.0) * north
    assert west_side * (1 - east) + east_side * east == pytest.approx(9.3467, abs=0.002)


def assert_facts_are_those_of_the_rows(flat: FlatMonth, rows: Rows) -> None:
    assert flat.rows == rows.locations.size
    assert flat.location_id_sum == int(rows.locations.sum())
    assert flat.locations == np.unique(rows.locations).size
    assert flat.hours == np.unique(rows.hours).size
    assert flat.hours_expected == flat.month.hours
    held = {column for column in COLUMNS if not np.isnan(rows.values[column]).all()}
    assert held <= {facts.column for facts in flat.columns}
    for facts in flat.columns:
        values = rows.values[facts.column]
        present = ~np.isnan(values)
        values = values[present]
        assert facts.values == values.size
        if values.size:
            assert (facts.minimum, facts.maximum) == (values.min(), values.max())
            assert facts.mean == pytest.approx(values.mean())
            areas = np.cos(np.radians((rows.locations - 1) // 1440 / 4 - 90))[present]
            assert facts.area_mean == pytest.approx(np.average(values, weights=areas), rel=1e-6, abs=1e-6)
            if not facts.out_of_bounds:
                assert facts.checksum == int(np.floor(values * 2.0**20).astype(np.int64).sum())
        assert facts.digest == digest_of(rows, facts.column)


def digest_of(rows: Rows, column: str) -> str:
    """The digest of a column of these rows, computed at once, independent of tiles."""
    locations, place = np.unique(rows.locations, return_inverse=True)
    hours, when = np.unique(rows.hours, return_inverse=True)
    values = np.full((locations.size, hours.size), np.nan, dtype=np.float32)
    present = np.zeros(values.shape, dtype=np.bool_)
    values[place, when] = rows.values[column]
    present[place, when] = True
    return digest_text(FLAT_FORM + RowWeights(locations, hours, present).digest(values))


# ---- the same values in every layout


def of_every_layout() -> Weather:
    return weather(
        hours_from("2023-06-30T22", 6),
        [0.25, 0.0, -0.25],
        [-0.5, -0.25, 0.0, 0.25],
        list(VARIABLES),
        missing=0.1,
    )


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> list[str | None]:
    """The digests of that weather in the current layout."""
    folder = tmp_path_factory.mktemp("digests")
    flat = flatten(write(folder, of_every_layout()), "2023-07", folder)
    return [facts.digest for facts in flat.columns]


@pytest.mark.parametrize("layout", [*LAYOUTS, *GRIB_LAYOUTS], ids=str)
def test_every_layout_gives_the_same_rows(tmp_path: Path, layout: Layout, digests: list[str | None]) -> None:
    """Layouts that are not packed give the same digests, too, whatever the storage type of their values."""
    of = of_every_layout()
    flat = flatten(write(tmp_path, of, layout), "2023-07", tmp_path)
    rows = flat_rows(flat.path)
    assert_location_major(rows)
    assert_same_rows(rows, expected_rows(of, "2023-07"), half_steps_of(of, layout))
    assert_facts_are_those_of_the_rows(flat, rows)
    assert flat.missing_hours == ("2023-07-01T04 to 2023-07-31T23",)
    if layout.packed == "no":
        assert [facts.digest for facts in flat.columns] == digests


@st.composite
def layouts_and_weather(draw: st.DrawFn) -> tuple[Layout, Weather]:
    """Any rectangle on the globe, including poles, antimeridian and single points; any hours, in any order."""
    south, tall = draw(st.one_of(st.just(0), st.just(717), st.integers(0, 717))), draw(st.integers(1, 4))
    west, wide = draw(st.one_of(st.just(1437), st.integers(0, 1439))), draw(st.integers(1, 5))
    latitudes = (np.arange(south, south + tall) * 0.25 - 90.0)[::-1]
    longitudes = (np.arange(west, west + wide) * 0.25 - 179.75 + 180.0) % 360.0 - 180.0
    first = hour("2023-06-30T12")
    hours = np.array(draw(st.lists(st.integers(0, 760), min_size=1, max_size=12, unique=True))) + first
    names = draw(st.lists(st.sampled_from(list(VARIABLES)), min_size=1, max_size=3, unique=True))
    of = weather(
        hours, latitudes, longitudes, names, seed=draw(st.integers(0, 9)), missing=draw(st.sampled_from([0, 0.3]))
    )
    layouts = [layout for layout in (*LAYOUTS, *GRIB_LAYOUTS) if not layout.one_hour_per_file]
    return draw(st.sampled_from(layouts)), of


@settings(max_examples=30, deadline=None)
@given(layouts_and_weather())
def test_any_rectangle_and_hours_are_flattened_to_their_values(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Layout, Weather]
) -> None:
    layout, of = case
    folder = tmp_path_factory.mktemp("any")
    paths = write(folder, of, layout)
    expected = expected_rows(of, "2023-07")
    if expected.locations.size:
        flat = flatten(paths, "2023-07", folder)
        rows = flat_rows(flat.path)
        assert_location_major(rows)
        assert_same_rows(rows, expected, half_steps_of(of, layout))
        assert_facts_are_those_of_the_rows(flat, rows)
    shutil.rmtree(folder)


def test_variables_are_null_outside_their_areas_and_hours(tmp_path: Path) -> None:
    wide = weather(hours_from("2023-07-01T00", 5), [10.0, 9.75], [20.0, 20.25], ["t2m"])
    narrow = weather(hours_from("2023-07-01T02", 2), [9.75], [20.25], ["tp"])
    paths = [write_netcdf(tmp_path / "a.nc", wide), write_netcdf(tmp_path / "b.nc", narrow)]
    flat = flatten(paths, "2023-07", tmp_path)
    expected = expected_rows(wide, "2023-07")
    precipitation = np.full(expected.hours.size, np.nan)
    there = (expected.locations == expected_rows(narrow, "2023-07").locations[0]) & np.isin(
        expected.hours, narrow.hours
    )
    precipitation[there] = expected_rows(narrow, "2023-07").values["total_precipitation"]
    expected.values["total_precipitation"] = precipitation
    assert_same_rows(flat_rows(flat.path), expected)
    temperature, rain = flat.columns
    assert (temperature.locations, temperature.hours, temperature.missing) == (4, 5, 0)
    assert (rain.locations, rain.hours, rain.values, rain.missing) == (1, 2, 2, 0)
    assert_facts_are_those_of_the_rows(flat, flat_rows(flat.path))


@pytest.mark.parametrize("area", ["10/-0.5/9.75/0.25", "10/179.75/9.5/-179.75", "9.9/0/9.6/360", "10/0.25/10/0.25"])
def test_an_area_is_cut_out_of_a_circle_that_begins_elsewhere(tmp_path: Path, area: str) -> None:
    of = weather(hours_from("2023-07-01T00", 3), [10.0, 9.75, 9.5], np.arange(1440) / 4, ["u10"])
    flat = flatten([write_netcdf(tmp_path / "a.nc", of, LEGACY)], "2023-07", tmp_path, area=area)
    wanted = Area.parse(area)
    rows = np.isin(np.rint((of.latitudes + 90) * 4), wanted.latitude_indices())
    columns = np.isin(np.rint((of.longitudes + 179.75) * 4) % 1440, wanted.longitude_indices())
    inside = replace(
        of,
        latitudes=of.latitudes[rows],
        longitudes=of.longitudes[columns],
        fields={"u10": of.fields["u10"][:, rows][:, :, columns]},
    )
    assert_same_rows(flat_rows(flat.path), expected_rows(inside, "2023-07"), half_steps_of(of, LEGACY))


_CHUNKS = replace(CURRENT, chunks=(7, 3, 4))


@pytest.mark.parametrize(
    ("target", "largest", "layout"),
    [
        (1, 1, CURRENT),
        (400, 400, LEGACY),
        *((target, largest, _CHUNKS) for target, largest in ((400, 400), (700, 5000), (2000, 10**9))),
    ],
    ids=["point by point", "packed", "parts of chunks", "chunks", "several chunks"],
)
def test_small_tiles_and_row_groups_give_the_same_rows_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout, target: int, largest: int
) -> None:
    names = ["t2m", "tp"]
    of = weather(hours_from("2023-07-01T00", 20), np.arange(7) / 4, np.arange(-5, 5) / 4, names, missing=0.2)
    more = weather(hours_from("2023-07-01T10", 20), np.arange(4, 9) / 4, np.arange(0, 7) / 4, ["u10"])
    paths = [*write(tmp_path / "in", of, layout), write_netcdf(tmp_path / "more.nc", more)]
    one = flatten(paths, "2023-07", tmp_path / "one")
    monkeypatch.setattr(tiles, "TARGET_POINT_HOURS", target)
    monkeypatch.setattr(tiles, "LARGEST_POINT_HOURS", largest)
    monkeypatch.setattr(formats, "ROW_GROUP_ROWS", 100)
    monkeypatch.setattr("era5_pipeline.netcdf.field_reader._DASK_CHUNK_VALUES", 50)
    many = flatten(paths, "2023-07", tmp_path / "many")
    assert pq.ParquetFile(many.path).num_row_groups > pq.ParquetFile(one.path).num_row_groups
    rows = flat_rows(many.path)
    assert_location_major(rows)
    assert_same_rows(rows, flat_rows(one.path).sorted())
    for found, expected in zip(many.columns, one.columns, strict=True):
        assert replace(found, mean=0.0, first_missing=None) == replace(expected, mean=0.0, first_missing=None)
    assert (many.rows, many.location_id_sum) == (one.rows, one.location_id_sum)
    assert_facts_are_those_of_the_rows(many, rows)


# ---- missing values and values out of bounds


def test_missing_values_are_counted_and_the_first_place_is_named(tmp_path: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 4), [10.0, 9.75], [20.0, 20.25], ["t2m"])
    of.fields["t2m"][2, 1, 1] = of.fields["t2m"][3, 0, 1] = np.nan
    flat = flatten([write_netcdf(tmp_path / "a.nc", of)], "2023-07", tmp_path)
    (facts,) = flat.columns
    assert (facts.missing, facts.values) == (2, 14)
    assert facts.first_missing == "latitude 9.75, longitude 20.25, 2023-07-01T02:00Z"
    assert (facts.out_of_bounds, facts.first_out_of_bounds) == (0, None)
    of.fields["t2m"][...] = np.nan
    flat = flatten([write_netcdf(tmp_path / "a.nc", of)], "2023-07", tmp_path)
    (facts,) = flat.columns
    assert (facts.values, facts.minimum, facts.maximum, facts.mean, facts.checksum) == (0, None, None, None, 0)
    assert (facts.missing, facts.expver) == (flat.rows, {})


def test_values_that_wrapped_in_packed_numbers_are_named(tmp_path: Path) -> None:
    path, wrapped = joined_months(tmp_path / "x.nc", "t2m", wraps=True)
    assert wrapped > 100
    before, after = (flatten([path], month, tmp_path / month) for month in ("2023-06", "2023-07"))
    assert before.warnings == ()
    (facts,), (warning,) = after.columns, after.warnings
    # They are possible: nothing else tells.
    assert facts.out_of_bounds == 0
    assert 0 < facts.jumps <= 2 * wrapped
    assert f"temperature_2m jumps by about the range of its packed numbers {facts.jumps:,} times, first at" in warning
    assert f"{facts.first_jump}" in warning
    assert read_flat_month(tmp_path / "2023-07" / "flat", JULY) == after
    for name in ("t2m", "tcc"):
        path, wrapped = joined_months(tmp_path / f"{name}.nc", name, wraps=False)
        assert wrapped == 0
        assert flatten([path], "2023-07", tmp_path).warnings == ()


@pytest.mark.parametrize(
    ("name", "value", "is_outside"),
    [
        *(("t2m", 0.0, True), ("t2m", 9.969209968386869e36, True), ("tp", 2.0, True), ("tp", -0.1, True)),
        *(("u10", np.inf, True), ("tcc", 1.5, True)),
        # By half a step of packing.
        *(("tp", -3e-8, False), ("tcc", -1e-5, False), ("tcc", 1 + 1e-5, False)),
    ],
)
def test_values_out_of_bounds_are_counted_and_the_first_place_is_named(
    tmp_path: Path, name: str, value: float, *, is_outside: bool
) -> None:
    of = weather(hours_from("2023-07-01T00", 4), [10.0, 9.75], [20.0, 20.25], [name])
    of.fields[name][1, 0, 1] = of.fields[name][3, 0, 1] = value
    flat = flatten([write_netcdf(tmp_path / "a.nc", of)], "2023-07", tmp_path)
    (facts,) = flat.columns
    first = "latitude 10, longitude 20.25, 2023-07-01T01:00Z"
    assert (facts.out_of_bounds, facts.first_out_of_bounds) == ((2, first) if is_outside else (0, None))
    assert facts.missing == 0


def test_nan_before_the_first_accumulation_is_not_missing_and_after_it_is(tmp_path: Path) -> None:
    of = weather(hours_from("1940-01-01T00", 9), [10.0], [20.0], ["tp", "t2m"])
    of.fields["tp"][:8] = np.nan
    of.fields["t2m"][:1] = np.nan
    flat = flatten([write_netcdf(tmp_path / "a.nc", of)], "1940-01", tmp_path)
    assert {facts.column: facts.missing for facts in flat.columns} == {"temperature_2m": 1, "total_precipitation": 1}


# ---- errors


def damage(path: Path, part: float) -> None:
    """Overwrite some bytes of the values, leaving what is needed to open the file."""
    content = bytearray(path.read_bytes())
    start = int(len(content) * part)
    content[start : start + 64] = bytes(range(64))
    path.write_bytes(content)


@pytest.mark.parametrize(("part", "zipped"), [(0.5, False), (0.7, False), (0.9, False), (0.7, True)])
def test_values_that_cannot_be_decompressed_are_an_error_that_names_the_file(
    tmp_path: Path, part: float, *, zipped: bool
) -> None:
    hours = hours_from("2023-07-01T00", 700)
    good = write_netcdf(tmp_path / "good.nc", weather(hours, names=["t2m"]))
    bad = write_netcdf(tmp_path / "bad.nc", weather(hours, names=["tp"]), replace(CURRENT, expver="absent"))
    damage(bad, part)
    path, named = (into_zip(tmp_path / "x.zip", [bad]), f"{tmp_path}/x.zip!bad.nc") if zipped else (bad, str(bad))
    with pytest.raises(BadFileError, match="damaged") as raised:
        flatten([good, path], "2023-07", tmp_path)
    assert raised.value.path == named
    assert raised.value.remedy
    assert list((tmp_path / "flat").iterdir()) == []
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("flat_format", ["parquet", "csv"])
@pytest.mark.parametrize("kilobytes", [4, 64, 1000])
def test_a_full_disk_is_a_disk_error_and_leaves_nothing(
    tmp_path: Path, flat_format: FlatFormat, kilobytes: int
) -> None:
    path = write_netcdf(
        tmp_path / "a.nc", weather(hours_from("2023-07-01T00", 744), range(10), range(10), list(VARIABLES))
    )
    raw = raw_month([path], "2023-07")
    with full_disk(kilobytes << 10) as disk:
        with pytest.raises(LocalDiskError, match="No space left") as raised:
            flatten_month(raw, disk / "flat", home=disk, flat_format=flat_format)
        assert "2023-07" in raised.value.message
        assert str(disk) in raised.value.message
        assert raised.value.remedy
        assert [path for path in disk.rglob("*") if path.is_file()] == []
        assert left_behind(disk) == []
    # The same month fits on a disk with enough space.
    flat = flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format=flat_format)
    assert flat.rows == 744 * 100


# ---- files that remain afterwards


def test_flattening_again_leaves_one_file_whatever_has_changed(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "a.nc", weather(hours_from("2023-07-01T00", 3)))
    other = write_netcdf(tmp_path / "june.nc", weather(hours_from("2023-06-01T00", 3)))
    june = flatten([other], "2023-06", tmp_path)
    first = flatten([path], "2023-07", tmp_path)
    assert read_flat_month(tmp_path / "flat", JULY) == first
    assert first.bytes == first.path.stat().st_size
    again = flatten([path], "2023-07", tmp_path)
    assert (again.path, again.sha256, again.fingerprint) == (first.path, first.sha256, first.fingerprint)
    as_csv = flatten([path], "2023-07", tmp_path, flat_format="csv")
    assert as_csv.fingerprint == first.fingerprint
    write_netcdf(path, weather(hours_from("2023-07-01T00", 4)))
    last = flatten([path], "2023-07", tmp_path)
    assert last.fingerprint != first.fingerprint
    facts = {facts_file(tmp_path / "flat", flat.month) for flat in (last, june)}
    assert set((tmp_path / "flat").iterdir()) == facts | {file.path for flat in (last, june) for file in flat.files}
    assert left_behind(tmp_path) == []


def test_a_failure_keeps_the_previous_flat_month(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "a.nc", weather(hours_from("2023-07-01T00", 500)), replace(CURRENT, expver="absent"))
    before = flatten([path], "2023-07", tmp_path)
    damage(path, 0.7)
    with pytest.raises(InputError):
        flatten([path], "2023-07", tmp_path)
    assert read_flat_month(tmp_path / "flat", JULY) == before
    assert left_behind(tmp_path) == []


def test_an_interruption_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "a.nc", weather(hours_from("2023-07-01T00", 50)))

    def stop(stage: Stage, done: int, total: int, unit: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(stop):
        flatten([path], "2023-07", tmp_path)
    assert list((tmp_path / "flat").iterdir()) == []
    assert left_behind(tmp_path) == []


def test_a_missing_truncated_or_replaced_flat_file_is_read_as_none(tmp_path: Path) -> None:
    flat = flatten([write_netcdf(tmp_path / "a.nc", weather(hours_from("2023-07-01T00", 3)))], "2023-07", tmp_path)
    folder = tmp_path / "flat"
    content = flat.path.read_bytes()
    assert read_flat_month(folder, Month(2023, 8)) is None
    flat.path.write_bytes(content[:-1])
    assert read_flat_month(folder, JULY) is None
    flat.path.unlink()
    assert read_flat_month(folder, JULY) is None
    flat.path.mkdir()
    assert read_flat_month(folder, JULY) is None


def test_facts_that_are_damaged_or_of_an_older_form_are_read_as_none_and_written_again(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "a.nc", weather(hours_from("2023-07-01T00", 3)))
    flat = flatten([path], "2023-07", tmp_path)
    file = facts_file(tmp_path / "flat", JULY)
    value = json.loads(file.read_text())
    changes = ({"unknown": 1}, {"columns": [{"column": "x"}]}, {"raw": value["raw"] | {"month": "x"}})
    older = [json.dumps(value | change) for change in changes]
    for content in ("", "{", "[]", "null", "{}", '{"raw": 1}', '{"raw": {}, "path": "x"}', *older):
        file.write_text(content)
        assert read_flat_month(tmp_path / "flat", JULY) is None
    again = flatten([path], "2023-07", tmp_path)
    assert again.sha256 == flat.sha256
    assert read_flat_month(tmp_path / "flat", JULY) == again


# ---- memory and preview


FLATTEN_GLOBE = """
import json, sys
from pathlib import Path
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.runtime.peak_memory import peak_rss_bytes
from era5_pipeline.sources.source import RawMonth
home = Path(sys.argv[1])
raw = RawMonth.from_json(json.loads((home / "raw.json").read_text()))
flat = flatten_month(raw, home / "flat", home=home, flat_format="parquet")
print(flat.rows, peak_rss_bytes())
"""


def test_the_globe_is_flattened_within_two_gibibytes(tmp_path: Path) -> None:
    raw = SampleSource(tmp_path, Request(area=Area.parse("global")), 4).fetch(Month(2020, 2))
    (tmp_path / "raw.json").write_text(json.dumps(raw.to_json()))
    command = [sys.executable, "-c", FLATTEN_GLOBE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "MPLBACKEND": "agg"})
    rows, peak_bytes = map(int, done.stdout.split())
    assert rows == 4 * 1_038_240
    assert peak_bytes < 2 << 30


@pytest.mark.parametrize(
    ("final_hours", "source", "version"),
    [(744, "cds", "final"), (373, "cds", "final"), (372, "cds", "preliminary"), (744, "sample", "generated")],
)
def test_the_hour_that_is_drawn_is_the_middle_of_the_month(
    tmp_path: Path, final_hours: int, source: str, version: str
) -> None:
    expver = ("0001",) * final_hours + ("0005",) * (744 - final_hours)
    of = weather(hours_from("2023-07-01T00", 744), range(3), range(3), expver=expver)
    path = write_netcdf(tmp_path / "a.nc", of)
    drawn: list[MiddleHour] = []

    def draw(middle: MiddleHour) -> bytes:
        drawn.append(middle)
        return b"a picture"

    raw = replace(raw_month([path], "2023-07"), source=source)
    flat = flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet", draw=draw)
    (middle,) = drawn
    assert (middle.time, middle.version) == (datetime(2023, 7, 16, 12, tzinfo=UTC), version)
    assert middle.values.shape == middle.location_ids.shape == (flat.locations,)
    assert preview_file(tmp_path / "flat", JULY).read_bytes() == b"a picture"
    # A few places have no map.
    few = write_netcdf(tmp_path / "few.nc", weather(hours_from("2023-07-01T00", 2), range(4), range(2)))
    flatten_month(raw_month([few], "2023-07"), tmp_path / "few", home=tmp_path, flat_format="parquet", draw=draw)
    assert not preview_file(tmp_path / "few", JULY).exists()


# ---- data sets on other grids


MADE_UP = replace(ERA5, name="made-up", grid=Grid("made up", 1.0, 181, 360))


@pytest.mark.parametrize("dataset", [MADE_UP, replace(MADE_UP, grid=ERA5_LAND.grid)])
def test_a_generated_month_of_any_grid_has_its_places(tmp_path: Path, dataset: Dataset) -> None:
    area = Area.parse("10/178/9/-179", dataset.grid)  # across the antimeridian
    raw = SampleSource(tmp_path, Request(area=area, dataset=dataset), 4).fetch(JULY)
    flat = flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet")
    assert flat.location_ids == LocationSet.of_area(area)
    rows = pq.read_table(flat.path).to_pydict()
    places = {number: dataset.grid.location(number) for number in flat.location_ids.ids().tolist()}
    assert len(rows["time"]) == flat.rows == 4 * len(places)
    for number, north, east in zip(rows["location_id"], rows["latitude"], rows["longitude"], strict=True):
        assert (np.float32(north), np.float32(east)) == (
            np.float32(places[number].latitude),
            np.float32(places[number].longitude),
        )


def test_files_of_another_grid_are_flattened_by_their_indices(tmp_path: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 5), latitudes=[10.0, 9.9], longitudes=[9.8, 9.9, 10.0])
    (tmp_path / "files").mkdir()
    write_netcdf(tmp_path / "files" / "x.nc", of)
    home = tmp_path / "home"
    source = FilesSource((tmp_path / "files",), home, Request(find_variables("t2m"), dataset=ERA5_LAND))
    raw = source.fetch(JULY)
    assert raw.dataset == ERA5_LAND
    flat = flatten_month(raw, home / "flat", home=home, flat_format="parquet")
    assert str(flat.location_ids) == "10/9.8/9.9/10"
    # The same file is none of ERA5, in the catalogue of the same home.
    of_era5 = FilesSource((tmp_path / "files",), home, Request(find_variables("t2m")))
    with pytest.raises(RefusedError, match=r"ERA5-Land's: latitude 9\.9 is not on ERA5's"):
        flatten_month(of_era5.fetch(JULY), home / "flat", home=home, flat_format="parquet")


# ---- sums since 00 UTC


LAND_AXES = ([10.0, 9.9, 9.8], [9.8, 9.9, 10.0, 10.1])


def summed_since_midnight(of: Weather) -> Weather:
    """Files of ERA5-Land: tp at each hour is the sum since 00 UTC, at 00 UTC that of the day before."""
    amounts, sums = of.fields["tp"], np.zeros_like(of.fields["tp"])
    for position, of_day in enumerate(of.hours % 24):
        sums[position] = amounts[position] + (sums[position - 1] if position and of_day != 1 else 0.0)
    return replace(of, fields={**of.fields, "tp": sums})


def part_of(of: Weather, first: int, end: int) -> Weather:
    return replace(
        of, hours=of.hours[first:end], fields={name: values[first:end] for name, values in of.fields.items()}
    )


def of_land(paths: list[Path], month: str) -> RawMonth:
    return replace(raw_month(paths, month), dataset=ERA5_LAND)


def in_order_of_rows(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values of files, (hour, latitude, longitude) from the north, location by location."""
    return values[:, ::-1].transpose(1, 2, 0).reshape(-1)


@pytest.mark.parametrize("layout", [CURRENT, LEGACY], ids=str)
@pytest.mark.parametrize("is_large", [False, True])
def test_sums_since_midnight_become_hours_with_the_hour_before_the_month(
    tmp_path: Path, layout: Layout, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inventory, "is_large", is_large)  # by compiled functions, or not
    # From 01:00 of 30 June on: its last 23 hours, and July.
    of = weather(hours_from("2023-06-30T01", 23 + 744), *LAND_AXES, names=("t2m", "tp"))
    summed = summed_since_midnight(of)
    parts = (part_of(summed, 0, 23), part_of(summed, 23, 767))
    june, july = (write_netcdf(tmp_path / f"{number}.nc", part, layout) for number, part in enumerate(parts))
    steps = [2 * half_steps_of(part, layout).get("total_precipitation", 0.0) for part in parts]
    of_t2m = half_steps_of(parts[1], layout).get("temperature_2m", 0.0)
    # Of two sums that the files hold in float32, each by half of it.
    rounding = 1000.0 * float(np.spacing(np.float32(summed.fields["tp"].max())))
    for name, paths, missing in (("chained", [june, july], 0), ("alone", [july], 12)):
        raw = of_land(paths, "2023-07")
        flat = flatten_month(raw, tmp_path / name, home=tmp_path, flat_format="parquet")
        rows = flat_rows(flat.path)
        assert {facts.column: facts.missing for facts in flat.columns} == {
            "temperature_2m": 0,
            "total_precipitation": missing,
        }
        wrong = np.abs(rows.values["total_precipitation"] - in_order_of_rows(1000.0 * of.fields["tp"][23:]))
        is_first = rows.hours == hour("2023-07-01T00")
        assert np.isnan(wrong[is_first]).all() == (missing > 0)
        assert wrong[~is_first].max() <= 2 * steps[1] + rounding + 1e-6
        if not missing:
            assert wrong.max() <= sum(steps) + rounding + 1e-6
        kelvin = in_order_of_rows(of.fields["t2m"][23:])
        assert np.abs(rows.values["temperature_2m"] + 273.15 - kelvin).max() <= of_t2m + 1e-4


def test_sums_that_fall_within_their_day_are_refused_and_coarse_ones_named_with_their_step(tmp_path: Path) -> None:
    of = weather(hours_from("2023-07-01T01", 71), *LAND_AXES, names=("tp",))
    sums = summed_since_midnight(of).fields["tp"]
    sums[30:47, 1, 2] -= sums[30, 1, 2] + np.float32(0.002)
    fallen = write_netcdf(tmp_path / "fallen.nc", replace(of, fields={"tp": sums}))
    with pytest.raises(BadFileError, match=r"fallen\.nc: tp falls 1 time between 01 and 00 UTC, by up to ") as caught:
        flatten_month(of_land([fallen], "2023-07"), tmp_path / "flat", home=tmp_path, flat_format="parquet")
    assert "at latitude 9.9, longitude 10, 2023-07-02T07:00Z" in caught.value.message
    assert "do not fall by more than 0.01 mm" in caught.value.remedy
    # One value of 1.3 m somewhere in a packed file leaves steps of 0.02 mm for all others.
    sums = summed_since_midnight(of).fields["tp"]
    sums[47, 0, 0] = 1.3  # at 00 UTC
    coarse = write_netcdf(tmp_path / "coarse.nc", replace(of, fields={"tp": np.minimum(sums, 1.3)}), LEGACY)
    raw = replace(of_land([coarse], "2023-07"), is_open=True)
    flat = flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet")
    (facts,) = flat.columns
    assert facts.sums_step == pytest.approx(1000 * 1.3 / 65_534, rel=0.01)
    assert [text.partition(",")[0] for text in flat.warnings] == [
        "total_precipitation is taken from sums since 00 UTC that are packed in steps of 0.0198 mm"
    ]
    assert read_flat_month(tmp_path / "flat", JULY) == flat


def test_sums_of_some_hours_of_a_day_give_no_amounts_and_the_month_says_so(tmp_path: Path) -> None:
    of = summed_since_midnight(weather(hours_from("2023-07-01T00", 72), *LAND_AXES, names=("t2m", "tp")))
    four = np.isin(of.hours % 24, (8, 12, 16, 20))
    of = replace(of, hours=of.hours[four], fields={name: values[four] for name, values in of.fields.items()})
    raw = of_land([write_netcdf(tmp_path / "four.nc", of)], "2023-07")
    flat = flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet")
    assert [(facts.values, facts.missing) for facts in flat.columns] == [(144, 0), (0, 144)]
    assert flat.warnings == (
        "total_precipitation has no values: only hours that follow each other give the amounts of sums since 00 UTC",
    )


def test_a_file_of_several_months_has_the_hour_before_each(tmp_path: Path) -> None:
    of = weather(hours_from("2023-06-01T01", 24 * 61), *LAND_AXES, names=("tp",))
    path = write_netcdf(tmp_path / "both.nc", summed_since_midnight(of))
    flat = flatten_month(of_land([path], "2023-07"), tmp_path / "flat", home=tmp_path, flat_format="parquet")
    assert [facts.missing for facts in flat.columns] == [0]
    assert flat.rows == 744 * 12


def test_amounts_of_era5_and_of_generated_months_are_left_as_they_are(tmp_path: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 744), names=("tp",))
    path = write_netcdf(tmp_path / "era5.nc", of)
    rows = flat_rows(flatten([path], "2023-07", tmp_path).path)
    assert_same_rows(rows, expected_rows(of, "2023-07"))
    request = Request(find_variables("tp"), Area.parse("10/9/9.9/9.2", ERA5_LAND.grid), dataset=ERA5_LAND)
    raw = SampleSource(tmp_path, request, 48).fetch(JULY)
    flat = flatten_month(raw, tmp_path / "sample", home=tmp_path, flat_format="parquet")
    assert [facts.missing for facts in flat.columns] == [0]


def test_land_has_rows_and_the_sea_has_none(tmp_path: Path) -> None:
    axes = ([5.0, 4.9, 4.8], [-2.3, -2.2, -2.1, -2.0])  # the coast of Ghana
    of = weather(hours_from("2023-07-01T00", 24), *axes)
    indices = (ERA5_LAND.grid.latitude_indices(axes[0]), ERA5_LAND.grid.longitude_indices(axes[1]))
    is_land = land_mask()[np.ix_(*indices)]
    assert 0 < is_land.sum() < is_land.size
    at_sea = weather(of.hours, *axes).fields["t2m"]
    at_sea[:, ~is_land] = np.nan
    flat = flatten_month(
        of_land([write_netcdf(tmp_path / "land.nc", replace(of, fields={"t2m": at_sea}))], "2023-07"),
        *(tmp_path / "flat",),
        home=tmp_path,
        flat_format="parquet",
    )
    assert (flat.rows, len(flat.location_ids)) == (24 * is_land.sum(), is_land.sum())
    assert [facts.missing for facts in flat.columns] == [0]
    np.testing.assert_allclose(
        flat_rows(flat.path).values["temperature_2m"] + 273.15,
        of.fields["t2m"][:, ::-1].transpose(1, 2, 0)[is_land[::-1]].reshape(-1),
        atol=1e-4,
    )
    raw = of_land([write_netcdf(tmp_path / "sea.nc", of)], "2023-07")
    with pytest.raises(BadFileError, match=r"sea\.nc: t2m has values at \d points where ERA5-Land has none, first at "):
        flatten_month(raw, tmp_path / "other", home=tmp_path, flat_format="parquet")


def test_amounts_of_hours_by_name_are_not_taken_apart_and_not_mixed_with_sums(tmp_path: Path) -> None:
    of = weather(hours_from("2023-07-01T00", 744), *LAND_AXES, names=("tp",))
    of_series = write_netcdf(tmp_path / "reanalysis-era5-land-timeseries-sfc-pressure-precipitation.nc", of)
    flat = flatten_month(of_land([of_series], "2023-07"), tmp_path / "flat", home=tmp_path, flat_format="parquet")
    assert [facts.missing for facts in flat.columns] == [0]
    np.testing.assert_allclose(
        flat_rows(flat.path).values["total_precipitation"], in_order_of_rows(1000.0 * of.fields["tp"]), rtol=1e-6
    )
    sums = write_netcdf(tmp_path / "sums.nc", summed_since_midnight(of))
    with pytest.raises(BadFileError, match=r"timeseries.* has amounts of hours, .*sums\.nc has sums since 00 UTC"):
        flatten_month(of_land([of_series, sums], "2023-07"), tmp_path / "x", home=tmp_path, flat_format="parquet")


def test_the_users_word_on_amounts_is_checked_against_the_numbers(tmp_path: Path) -> None:
    # Nothing tells of which data set an old file of one place is.
    of = weather(hours_from("2023-07-01T00", 744), [10.0], [9.9], names=("tp",))
    of = replace(of, fields={"tp": of.fields["tp"] * (np.arange(744) % 7 < 2)[:, np.newaxis, np.newaxis]})
    files = {
        "hour": write_netcdf(tmp_path / "amounts.nc", of, LEGACY),
        "day": write_netcdf(tmp_path / "sums.nc", summed_since_midnight(of), LEGACY),
    }

    def flattened(path: Path, word: Accumulation | None) -> FlatMonth:
        raw = replace(of_land([path], "2023-07"), accumulation=word)
        return flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet")

    for word, path in files.items():
        with pytest.raises(BadFileError, match="does not tell whether tp is the sum since 00 UTC") as caught:
            flattened(path, None)
        assert "--accumulation day" in caught.value.remedy
        assert [facts.missing for facts in flattened(path, cast("Accumulation", word)).columns] == [int(word == "day")]
    with pytest.raises(BadFileError, match="tp are amounts of hours, not sums since 00 UTC") as caught:
        flattened(files["hour"], "day")
    assert "--accumulation hour" in caught.value.remedy
    with pytest.raises(BadFileError, match="tp are sums since 00 UTC, not amounts of hours"):
        flattened(files["day"], "hour")
