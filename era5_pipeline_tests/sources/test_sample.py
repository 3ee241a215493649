from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.errors import LocalDiskError, NoDataError, UsageError
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.land_mask import land_mask
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import (
    BY_COLUMN,
    BY_SHORT_NAME,
    DEFAULT_COLUMNS,
    DEFAULT_VARIABLES,
    VARIABLES,
    in_table_order,
)
from era5_pipeline.netcdf import cds_files
from era5_pipeline.netcdf.cds_files import Axes
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.sample_weather import HOURS_1940_TO_1970, KELVIN, SampleWeather, pack
from era5_pipeline.sources.source import Request, Source
from era5_pipeline_tests.era5_files import full_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.sources.source import RawMonth

    Fields = dict[str, np.ndarray[Any, np.dtype[np.float32]]]

INSTANT = in_table_order(v.column for v in DEFAULT_VARIABLES if v.step_type == "instant")
ACCUMULATED = in_table_order(v.column for v in DEFAULT_VARIABLES if v.step_type == "accum")
GLOBE = Area.parse("global")


def netcdfs(raw: RawMonth, folder: Path) -> list[Path]:
    """The month's netCDF files, instant variables first; unpacked from a ZIP if there is one."""
    (file,) = raw.files
    if file.path.suffix == ".nc":
        return [file.path]
    with zipfile.ZipFile(file.path) as archive:
        return [Path(archive.extract(name, folder)) for name in archive.namelist()]


def values_of(raw: RawMonth, folder: Path) -> Fields:
    values = {}
    for path in netcdfs(raw, folder):
        with netCDF4.Dataset(path) as dataset:
            for name in dataset.variables.keys() & BY_SHORT_NAME.keys():
                values[BY_SHORT_NAME[name].column] = np.asarray(dataset[name][...])
    return values


def hours_of(path: Path) -> list[str]:
    with netCDF4.Dataset(path) as dataset:
        seconds = np.asarray(dataset["valid_time"][...])
    return [str(time) for time in seconds.astype("datetime64[s]").astype("datetime64[h]")]


def layout_of(path: Path) -> dict[str, Any]:
    """All properties of the file except its values."""
    with netCDF4.Dataset(path) as dataset:
        layout: dict[str, Any] = {
            name: {
                "type": variable.dtype if variable.dtype is str else variable.dtype.str,
                "dimensions": variable.dimensions,
                "shape": variable.shape,
                "stored": variable.chunking(),
                "filters": None if variable.dtype is str else variable.filters(),
                "attributes": [(key, repr(variable.getncattr(key))) for key in variable.ncattrs()],
            }
            for name, variable in dataset.variables.items()
        }
        layout["dimensions"] = {name: (len(d), d.isunlimited()) for name, d in dataset.dimensions.items()}
        layout["format"] = (dataset.data_model, dataset.disk_format, list(dataset.groups))
        return layout


def weather_of(area: Area, hours: list[int]) -> Fields:
    axes = Axes.of(area)
    return SampleWeather(axes.latitudes, axes.longitudes).at(np.array(hours))


def since_1970(time: str) -> int:
    return int(np.datetime64(time, "h").astype(int))


# ---- the files


@pytest.mark.parametrize(
    ("real", "month", "area", "hours", "shared"),
    [
        (
            "telangana-2023-09/data_stream-oper_stepType-instant.nc",
            "2023-09",
            "20/77/15/82",
            168,
            {"u10", "v10"},
        ),
        ("telangana-2023-09/data_stream-oper_stepType-accum.nc", "2023-09", "20/77/15/82", 168, {"tp"}),
        # Its only hour is 12: valid_time has the same layout, but another value.
        ("karnataka-2024-01-01T12/era5.nc", "2024-01", "14/75/13/76", 1, {"t2m", "u10", "v10", "tcc"}),
    ],
)
def test_files_have_the_layout_of_real_files(
    tmp_path: Path, era5_samples: Path, *, real: str, month: str, area: str, hours: int, shared: set[str]
) -> None:
    expected = layout_of(era5_samples / real)
    raw = SampleSource(tmp_path, Request(area=Area.parse(area)), hours).fetch(Month.parse(month))
    layout = layout_of(netcdfs(raw, tmp_path)["accum" in real])
    assert layout.keys() & expected.keys() & BY_SHORT_NAME.keys() == shared
    for name in ["format", "dimensions", "number", "valid_time", "latitude", "longitude", "expver", *shared]:
        assert layout[name] == expected[name], name
    # No real file of the repository has snowfall: its attributes must at least be those of precipitation.
    if "sf" in layout:
        keys = [[key for key, _ in layout[name]["attributes"]] for name in ("sf", "tp")]
        assert keys[0] == keys[1]
        assert layout["sf"]["filters"] == layout["tp"]["filters"]


def test_instant_and_accumulated_variables_make_a_zip_of_two_files(tmp_path: Path) -> None:
    source: Source = SampleSource(tmp_path / "raw")
    raw = source.fetch(Month(2023, 2))
    (file,) = raw.files
    assert raw.source == source.name == "sample"
    assert raw.variables == DEFAULT_COLUMNS
    assert raw.area is None
    assert file.path.parent == tmp_path / "raw"
    assert file.path.name.startswith("2023-02-")
    assert file.bytes == file.path.stat().st_size
    paths = netcdfs(raw, tmp_path)
    assert [path.name for path in paths] == [
        "data_stream-oper_stepType-instant.nc",
        "data_stream-oper_stepType-accum.nc",
    ]
    for path in paths:
        with netCDF4.Dataset(path) as dataset:
            assert "not ERA5" in dataset.title
            assert "not by the ECMWF" in dataset.institution
        hours = hours_of(path)
        assert (hours[0], hours[-1], len(hours)) == ("2023-02-01T00", "2023-02-28T23", 672)
    for values in values_of(raw, tmp_path).values():
        assert values.shape == (672, 11, 11)
    assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]


@pytest.mark.parametrize("variables", [INSTANT, ACCUMULATED, INSTANT[1:2]])
def test_variables_of_one_step_type_make_a_netcdf_file(tmp_path: Path, variables: Any) -> None:
    raw = SampleSource(tmp_path, Request(variables=variables, area=Area(1, 0, 0, 1)), 3).fetch(Month(2000, 1))
    (file,) = raw.files
    assert file.path.suffix == ".nc"
    assert file.path.read_bytes().startswith(b"\x89HDF")
    assert raw.variables == tuple(variable.column for variable in variables)
    assert raw.area == "1/0/0/1"
    assert values_of(raw, tmp_path).keys() == set(raw.variables)


def test_same_parameters_give_the_same_bytes(tmp_path: Path) -> None:
    request = Request(area=Area(60, -10, 55, -4))
    raws = [SampleSource(tmp_path / name, request, 30).fetch(Month(1999, 12)) for name in "ab"]
    first, second = (raw.files[0] for raw in raws)
    assert first.path != second.path
    assert first.path.name == second.path.name
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.sha256 == second.sha256
    with zipfile.ZipFile(first.path) as archive:
        assert {entry.date_time[:3] for entry in archive.infolist()} == {(1980, 1, 1)}


def test_other_parameters_give_other_files_and_the_same_ones_are_reused(tmp_path: Path) -> None:
    area = Area(1, 0, 0, 1)
    sources = [
        SampleSource(tmp_path, Request(area=area), 2),
        SampleSource(tmp_path, Request(area=area), 3),
        SampleSource(tmp_path, Request(area=Area(2, 0, 1, 1)), 2),
        SampleSource(tmp_path, Request(area=area, variables=DEFAULT_VARIABLES[:5]), 2),
    ]
    raws = [source.fetch(Month(2000, 1)) for source in sources] + [sources[0].fetch(Month(2000, 2))]
    assert len({raw.files[0].path for raw in raws}) == len({raw.fingerprint for raw in raws}) == 5
    before = raws[0].files[0].path.stat()
    assert sources[0].fetch(Month(2000, 1)) == raws[0]
    assert raws[0].files[0].path.stat() == before


def test_accumulations_begin_at_hour_7_of_1940(tmp_path: Path) -> None:
    instant, accum = netcdfs(SampleSource(tmp_path, hours=30).fetch(Month(1940, 1)), tmp_path)
    assert hours_of(instant)[0] == "1940-01-01T00"
    assert hours_of(accum)[0] == "1940-01-01T07"
    assert len(hours_of(instant)) == 30
    assert len(hours_of(accum)) == 23


def test_a_request_for_hours_before_the_first_accumulation(tmp_path: Path) -> None:
    raw = SampleSource(tmp_path, hours=7).fetch(Month(1940, 1))
    assert raw.files[0].path.suffix == ".nc"
    assert raw.variables == tuple(variable.column for variable in INSTANT)
    with pytest.raises(NoDataError, match=r"1940-01.*7 hours") as caught:
        SampleSource(tmp_path, Request(variables=ACCUMULATED), 7).fetch(Month(1940, 1))
    assert "1940-01-01 07:00" in caught.value.remedy


def test_chunking_does_not_change_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 1940-01, so that the two files begin at different hours.
    hours, request = (
        33,
        Request(in_table_order(["temperature_2m", "total_precipitation"]), Area(23, 0, 0, 46)),
    )
    one = SampleSource(tmp_path / "a", request, hours).fetch(Month(1940, 1))
    whole = values_of(one, tmp_path / "x")
    monkeypatch.setattr(cds_files, "_ONE_CHUNK_BYTES", 1 << 20)
    raw = SampleSource(tmp_path / "b", request, hours).fetch(Month(1940, 1))
    slabs = values_of(raw, tmp_path / "y")
    for path in netcdfs(raw, tmp_path / "y"):
        with netCDF4.Dataset(path) as dataset:
            name = next(name for name in dataset.variables if name in BY_SHORT_NAME)
            assert dataset[name].chunking() == [24, 91, 180]
    for column, values in whole.items():
        np.testing.assert_array_equal(slabs[column], values)
        assert len(values) == (hours if BY_COLUMN[column].step_type == "instant" else hours - 7)


# ---- another data set


def test_era5_land_has_sums_since_midnight_with_the_hour_before_the_month_and_no_sea(tmp_path: Path) -> None:
    area = Area.parse("-5.9/106.5/-6.2/106.8", ERA5_LAND.grid)
    request = Request(ERA5_LAND.catalogue.find_all("t2m,tp"), area, dataset=ERA5_LAND)
    raw = SampleSource(tmp_path, request, hours=30).fetch(Month(2023, 7))
    instant, accum = netcdfs(raw, tmp_path)
    assert (hours_of(instant)[0], hours_of(accum)[0], len(hours_of(accum))) == ("2023-07-01T00", "2023-06-30T23", 31)
    axes, first = Axes.of(area), since_1970("2023-06-30T01")
    amounts = SampleWeather(axes.latitudes, axes.longitudes, axes.grid).at(np.arange(first, first + 53))
    rain = values_of(raw, tmp_path)["total_precipitation"]
    is_land = land_mask()[
        np.ix_(axes.grid.latitude_indices(axes.latitudes), axes.grid.longitude_indices(axes.longitudes))
    ]
    assert 0 < is_land.sum() < is_land.size
    np.testing.assert_array_equal(np.isnan(rain), ~np.broadcast_to(is_land, rain.shape))
    hourly = amounts["total_precipitation"].astype(np.float64)[:, is_land]
    for day, hours in ((hourly[:24], rain[:2]), (hourly[24:48], rain[2:26]), (hourly[48:], rain[26:])):
        expected = np.cumsum(day, axis=0)[-len(hours) :]
        np.testing.assert_allclose(hours[:, is_land], expected, rtol=1e-6, atol=0)


def test_the_first_month_of_era5_land_begins_with_its_first_forecast(tmp_path: Path) -> None:
    request = Request(None, Area.parse("-6.2/106.7/-6.3/106.8", ERA5_LAND.grid), dataset=ERA5_LAND)
    instant, accum = netcdfs(SampleSource(tmp_path, request, hours=5).fetch(Month(1950, 1)), tmp_path)
    assert hours_of(instant)[0] == hours_of(accum)[0] == "1950-01-01T01"


# ---- coordinates


def areas() -> st.SearchStrategy[Area]:
    def area(corner: tuple[float, float], size: tuple[float, float]) -> Area | None:
        (north, west), (height, width) = corner, size
        east = west + width if west + width <= 360 else west + width - 360
        try:
            return Area(north, west, max(-90.0, north - height), east)
        except UsageError:
            return None

    def degrees(low: float, high: float) -> st.SearchStrategy[float]:
        quarters = st.integers(math.ceil(low * 4), math.floor(high * 4)).map(lambda n: n / 4)
        return quarters | st.floats(low, high).map(lambda x: round(x, 3))

    return st.builds(
        area,
        st.tuples(degrees(-90, 90) | st.just(90.0), degrees(-180, 360) | st.sampled_from([-180.0, 175.0])),
        st.tuples(degrees(0, 8), degrees(0, 12)),
    ).filter(lambda a: a is not None)  # type: ignore[return-value]


@given(areas())
@settings(max_examples=150, deadline=None)
def test_axes_are_the_grid_points_of_the_area(area: Area) -> None:
    axes = Axes.of(area)
    np.testing.assert_array_equal(ERA5_GRID.latitude_indices(axes.latitudes)[::-1], area.latitude_indices())
    np.testing.assert_array_equal(np.sort(ERA5_GRID.longitude_indices(axes.longitudes)), area.longitude_indices())
    assert np.all(np.diff(axes.latitudes) == -0.25)
    assert np.all(np.diff(axes.longitudes) == 0.25)


@pytest.mark.parametrize(
    ("area", "first", "last", "count"),
    [
        ("global", 0.0, 359.75, 1440),
        ("10/170/0/-170", 170.0, 190.0, 81),
        ("10/350/0/10", -10.0, 10.0, 81),
        ("10/-180/0/179.75", 0.0, 359.75, 1440),
    ],
)
def test_longitudes_run_from_west_to_east(area: str, first: float, last: float, count: int) -> None:
    longitudes = Axes.of(Area.parse(area)).longitudes
    assert (longitudes[0], longitudes[-1], len(longitudes)) == (first, last, count)
    assert np.all(np.diff(longitudes) == 0.25)


# ---- the fields


@pytest.fixture(scope="module")
def globe() -> Fields:
    return weather_of(GLOBE, [since_1970("2023-01-15T06")])


HOURS = st.integers(-HOURS_1940_TO_1970, since_1970("2060-01-01T00"))


@given(area=areas(), hours=st.lists(HOURS, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_values_are_within_the_bounds_of_their_variables(area: Area, hours: list[int]) -> None:
    fields = weather_of(area, hours)
    assert list(fields) == list(DEFAULT_COLUMNS)
    for column, values in fields.items():
        variable = BY_COLUMN[column]
        stored = values.astype(np.float64) * variable.scale + variable.offset
        assert values.dtype == np.float32
        assert values.shape == (len(hours), len(area.latitude_indices()), len(area.longitude_indices()))
        assert variable.minimum < stored.min() <= stored.max() < variable.maximum
    rain, snow, celsius = (fields[c] for c in ("total_precipitation", "snowfall", "temperature_2m"))
    assert np.all(snow >= 0)
    assert np.all(snow <= rain)
    assert np.all(rain[snow > 0] > 0)
    assert np.all(celsius[snow > 0] < KELVIN + 2)


@given(
    area=areas(),
    hours=HOURS,
    margin=st.tuples(*[st.sampled_from([0.0, 0.25, 3.0])] * 4),
)
@settings(max_examples=60, deadline=None)
def test_the_weather_of_a_place_is_independent_of_the_area(
    area: Area, hours: int, margin: tuple[float, float, float, float]
) -> None:
    larger = Area(
        min(area.north + margin[0], 90.0),
        max(area.west - margin[1], -180.0),
        max(area.south - margin[2], -90.0),
        area.east if area.east + margin[3] > 360.0 else area.east + margin[3],
    )
    rows = np.searchsorted(larger.latitude_indices(), area.latitude_indices())[::-1]
    rows = len(larger.latitude_indices()) - 1 - rows
    small, large = Axes.of(area), Axes.of(larger)
    columns = [
        int(np.flatnonzero(ERA5_GRID.longitude_indices(large.longitudes) == index)[0])
        for index in ERA5_GRID.longitude_indices(small.longitudes)
    ]
    there, here = weather_of(larger, [hours]), weather_of(area, [hours])
    for column, values in here.items():
        step = float(np.ptp(there[column])) / 32768 + 1e-5 * (1 + float(np.abs(values).max()) * 0.1)
        if column in ("total_precipitation", "snowfall"):
            # Plus 0.0001 mm: thresholds in the formulae magnify float32's rounding.
            step = float(there[column].max()) / 32768 + 1e-7
        sub = there[column][:, np.sort(rows)][:, :, columns]
        np.testing.assert_allclose(sub, values, rtol=0, atol=step, err_msg=column)


def test_all_variables_of_the_catalogue_are_within_their_bounds_and_agree() -> None:
    axes = Axes.of(Area.parse("85/-180/-85/180"))
    noon_and_night = np.array([since_1970("2023-01-15T00"), since_1970("2023-07-15T12")])
    fields = SampleWeather(axes.latitudes[::8], axes.longitudes[::8]).at(noon_and_night, VARIABLES)
    for variable in VARIABLES:
        stored = fields[variable.column].astype(np.float64) * variable.scale + variable.offset
        assert variable.minimum <= np.nanmin(stored) < np.nanmax(stored) <= variable.maximum, variable.column
        assert bool(np.isnan(stored).any()) == (variable.extent != "everywhere"), variable.column
    of = {variable.short_name: fields[variable.column] for variable in VARIABLES}
    assert np.all(of["d2m"] < of["t2m"])
    assert np.all(of["mn2t"] < of["t2m"])
    assert np.all(of["t2m"] < of["mx2t"])
    # By how much each field is rounded.
    step = float(of["tp"].max()) / 32768
    np.testing.assert_allclose(of["cp"] + of["lsp"], of["tp"], rtol=0, atol=2 * step)
    assert np.all(of["csf"] + of["lsf"] <= of["tp"] + 2 * step)
    assert np.all(of["ssrd"] <= of["tisr"] + 50)
    np.testing.assert_array_equal(np.isnan(of["sst"][0]), np.isnan(of["siconc"][1]))


def test_all_longitudes_of_a_pole_have_one_value(globe: Fields) -> None:
    for column, values in globe.items():
        for row in (0, -1):
            assert np.ptp(values[0, row]) <= np.ptp(values[0]) / 32768, column


def test_fields_are_packed_to_sixteen_bits(globe: Fields) -> None:
    for column, values in globe.items():
        distinct = np.unique(values[0]).astype(np.float64)
        assert 1000 < len(distinct) <= 65536, column
        # Multiples of a power of two above the minimum, up to the last digit of float32 at the largest value.
        step = 2.0 ** math.ceil(math.log2(np.ptp(distinct) / 65535))
        n = (distinct - distinct[0]) / step
        assert np.abs(n - np.rint(n)).max() <= np.spacing(np.float32(np.abs(distinct).max())) / step
        assert 32767 < n.max() <= 65535


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=30),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_packing_keeps_values_to_half_a_step(numbers: list[float], from_zero: bool) -> None:
    values = np.array(numbers, dtype=np.float32).reshape(1, 1, -1)
    values = np.abs(values) if from_zero else values
    packed = pack(values.copy(), from_zero=from_zero)
    lowest = 0.0 if from_zero else float(values.min())
    spread = float(values.max()) - lowest
    digit = float(np.spacing(np.abs(values).max()))
    assert np.abs(packed.astype(np.float64) - values).max() <= spread / 65535 + digit + 1e-30
    assert packed.min() == pytest.approx(lowest) if not from_zero else packed.min() >= 0
    assert np.all(packed[values == 0] == 0) or not from_zero
    order = np.argsort(values.ravel(), kind="stable")
    assert np.all(np.diff(packed.ravel()[order]) >= 0)


def test_jakarta_warms_by_about_a_degree_from_1940_to_2024() -> None:
    def mean(year: int) -> float:
        hours = [since_1970(f"{year}-01-01T00") + h for h in range(0, 8760, 3)]
        return float(weather_of(Area(-6.25, 106.75, -6.25, 106.75), hours)["temperature_2m"].mean())

    assert mean(2024) - mean(1940) == pytest.approx(1.1, abs=0.15)


# ---- the disk


@pytest.fixture
def small_disk() -> Iterator[Path]:
    with full_disk(1 << 20) as disk:
        yield disk


@pytest.mark.parametrize("variables", [None, INSTANT])
def test_a_full_disk_is_reported_and_no_file_is_left(small_disk: Path, variables: Any) -> None:
    source = SampleSource(small_disk / "raw", Request(variables=variables, area=Area(-4, 105, -8, 109)))
    with pytest.raises(LocalDiskError, match=r"No space left on device.*raw"):
        source.fetch(Month(2023, 7))
    assert list(source.folder.iterdir()) == []
    # The space is free again, although HDF5 may keep unfinished files open.
    smaller = SampleSource(small_disk / "raw", Request(variables=variables), hours=100)
    assert smaller.fetch(Month(2023, 7)).bytes > 100_000
