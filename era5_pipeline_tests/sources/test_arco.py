"""The source `arco`, where it differs from `zarr`, on stores like ARCO-ERA5: the globe, an hour a chunk."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr

from era5_pipeline.model.errors import (
    NoDataError,
    NotYetAvailableError,
    SourceError,
    TransientError,
    UsageError,
)
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import DEFAULT_COLUMNS, DEFAULT_VARIABLES, in_table_order
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.runtime.progress import listening
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.sources.arco import ArcoSource, access_of
from era5_pipeline.sources.source import Request, Source
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline_tests.arco_store import (
    LATITUDES,
    LONGITUDES,
    REAL_YEARS,
    ArcoStore,
    Web,
    served,
    weather_at,
)
from era5_pipeline_tests.sources.cds.source_under_test import inventory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    Indices = npt.NDArray[np.int64]

MONTH = Month(2020, 2)
AREA = Area(-6.0, 106.0, -6.5, 106.5)
DAYS = 2  # of the month, that the store has


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArcoStore:
    """A store with 2020-02-01, and with the temperature of 2020-02-02; all final."""
    store = ArcoStore(tmp_path_factory.mktemp("arco"))
    store.write(MONTH.start, 24)
    store.write(MONTH.start + timedelta(days=1), 24, columns=["temperature_2m"])
    store.announce("2020-02-02")
    return store


@pytest.fixture(scope="module")
def store_of_a_day(tmp_path_factory: pytest.TempPathFactory) -> ArcoStore:
    """A store with the temperature of 2020-02-01: each field of the globe takes a while to read."""
    return one_day(tmp_path_factory.mktemp("day"))


@pytest.fixture
def web(store_of_a_day: ArcoStore) -> Iterator[Web]:
    with served(store_of_a_day.folder) as web:
        yield web


pytestmark = pytest.mark.usefixtures("no_pictures")


def source(url: str | Path, folder: Path, *names: str, **options: Any) -> ArcoSource:
    area = options.pop("area", AREA)
    request = Request(in_table_order(names) if names else None, area)
    return ArcoSource(access_of(str(url)), folder, request, pause=no_pause, **options)


async def no_pause(_: float) -> None:
    """Go on at once."""


def expected(column: str, hours: range, area: Area) -> np.ndarray:
    """The values written to the store, cut to the area; shape (hour, latitude, longitude)."""
    rows = np.isin(np.rint((LATITUDES + 90) / 0.25), area.latitude_indices())
    degrees = np.where(LONGITUDES > 180, LONGITUDES - 360, LONGITUDES)
    columns = np.isin(np.rint((degrees + 179.75) / 0.25), area.longitude_indices())
    return written(column, hours, np.flatnonzero(rows), np.flatnonzero(columns))


def written(column: str, hours: range, rows: Indices, columns: Indices) -> np.ndarray:
    return np.stack([weather_at(column, hour)[np.ix_(rows, columns)] for hour in hours])


def requested_chunks(web: Web) -> set[str]:
    """Chunks of the temperature that the server was asked for."""
    names = {path.rsplit("/", 1)[-1] for path in web.requested if "2m_temperature/" in path}
    return {name for name in names if re.fullmatch(r"\d+\.\d+\.\d+", name)}


def one_day(folder: Path, stop: str = "2020-02-01", stop_era5t: str | None = None) -> ArcoStore:
    """A store of the test's own, with the temperature of the month's first day."""
    store = ArcoStore(folder / "store", ["temperature_2m"])
    store.write(MONTH.start, 24)
    store.announce(stop, stop_era5t)
    return store


def first_hour(month: Month) -> int:
    return int(month.start.timestamp()) // 3600


@pytest.mark.parametrize(
    ("area", "longitudes"),
    [
        (Area(0.5, 179.5, 0.0, -179.5), [179.5, 179.75, 180.0, 180.25, 180.5]),
        (Area(51.5, -0.5, 51.25, 0.5), [-0.5, -0.25, 0.0, 0.25, 0.5]),
        (Area(90.0, 10.0, 89.75, 10.25), [10.0, 10.25]),
        (Area(-90.0, -0.25, -90.0, -0.25), [-0.25]),
    ],
    ids=["antimeridian", "Greenwich", "pole", "one point"],
)
def test_areas_anywhere_on_the_globe_are_cut_out(
    store: ArcoStore, tmp_path: Path, area: Area, longitudes: list[float]
) -> None:
    raw = source(store.folder, tmp_path, "temperature_2m", area=area).fetch(MONTH)
    with netCDF4.Dataset(raw.files[0].path) as dataset:
        latitudes = np.asarray(dataset["latitude"][:])
        assert list(dataset["longitude"][:]) == longitudes
        got = np.asarray(dataset["t2m"][:])
    rows = np.array([round((90 - latitude) / 0.25) for latitude in latitudes])
    columns = np.array([round((longitude % 360) / 0.25) for longitude in longitudes])
    hours = range(first_hour(MONTH), first_hour(MONTH) + 3)
    np.testing.assert_array_equal(got[:3], written("temperature_2m", hours, rows, columns))
    assert latitudes[0] == area.north
    assert latitudes[-1] == area.south


def test_a_month_becomes_rows_with_the_values_of_the_store(store: ArcoStore, tmp_path: Path) -> None:
    protocol: Source = source(store.folder, tmp_path)
    assert protocol.name == "arco"
    settings = Settings(
        home=tmp_path / "home", source="arco", arco_url=str(store.folder), area=str(AREA), allow_incomplete=True
    )
    result = run_raw(settings, MONTH)
    checks = {outcome.name: outcome for outcome in result.outcomes}
    assert "48 of 696 hours" in checks["hours_complete"].description
    assert "the latest hour there is 2020-02-02 23:00 UTC" in checks["hours_complete"].description
    flat = run_flat(settings, MONTH).flat
    assert flat.rows == 48 * 9
    table = pq.read_table(flat.path).sort_by([("location_id", "ascending"), ("time", "ascending")])
    for variable in DEFAULT_VARIABLES:
        got = table.column(variable.column).to_numpy().reshape(3, 3, 48)
        # The table goes from south to north.
        in_file = expected(variable.column, range(first_hour(MONTH), first_hour(MONTH) + 48), AREA)
        stored = in_file.transpose(1, 2, 0)[::-1].astype(np.float64) * variable.scale + variable.offset
        hours = 48 if variable.column == "temperature_2m" else 24
        np.testing.assert_array_equal(got[:, :, :hours], stored[:, :, :hours].astype(np.float32))
        assert np.isnan(got[:, :, hours:]).all()


@pytest.mark.parametrize("who", ["first", "second"])
def test_an_interrupted_run_goes_on_with_the_next_day_on_any_machine(
    store: ArcoStore, tmp_path: Path, who: str
) -> None:
    (tmp_path / "share").mkdir()

    with served(store.folder) as web:

        def on_machine(name: str) -> ArcoSource:
            file_store = FileStore(tmp_path / name, open_store(str(tmp_path / "share")))
            return source(web.url, tmp_path / name / "raw" / "arco", "temperature_2m", file_store=file_store)

        with (
            listening(lambda _, done, *__: web.fail("refuse", 99 * (done == 24))),
            pytest.raises(TransientError, match="status 503"),
        ):
            on_machine("first").fetch(MONTH)
        web.fail("refuse", 0)
        web.requested.clear()
        raw = on_machine(who).fetch(MONTH)
        assert len(raw.files) == DAYS
        assert len(requested_chunks(web)) == 24
        # A third reads nothing: a month with missing hours is asked for again, its days are not.
        web.requested.clear()
        again = on_machine("third").fetch(MONTH)
        assert requested_chunks(web) == set()
    assert not list(tmp_path.rglob(".unfinished-*"))
    assert again.fingerprint == raw.fingerprint
    assert all(sha256_of(file.path) == file.sha256 for file in again.files)


def test_a_password_in_the_url_is_neither_shown_nor_stored(web: Web, tmp_path: Path) -> None:
    url = web.url.replace("://", "://me:correct-horse@")
    web.wanted_authorization = "Basic bWU6Y29ycmVjdC1ob3JzZQ=="
    said: list[str] = []
    web.fail("refuse", 1)
    source(url, tmp_path, "temperature_2m", say=said.append).fetch(MONTH)
    with pytest.raises(NotYetAvailableError) as caught:
        source(url, tmp_path, "temperature_2m").fetch(Month(2020, 3))
    assert "correct-horse" not in f"{caught.value}{said}"
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"correct-horse" not in path.read_bytes(), path


@pytest.mark.parametrize("what", ["damaged", "out of bounds"])
def test_unusable_days_are_fetched_again(tmp_path: Path, what: str) -> None:
    own = one_day(tmp_path)
    settings = Settings(
        home=tmp_path / "home",
        source="arco",
        arco_url=str(own.folder),
        area="-6/106/-6.5/106.5",
        variables="temperature_2m",
        allow_incomplete=True,
    )
    if what == "out of bounds":
        own.write(MONTH.start, 1, columns=["temperature_2m"], offset=1000.0)
    run_raw(settings, MONTH)
    if what == "damaged":
        (path,) = (tmp_path / "home" / "raw" / "arco").rglob("*.nc")
        # As a power failure may leave it.
        path.write_bytes(bytes(path.stat().st_size))
    else:
        outcomes = {outcome.name: outcome.passed for outcome in run_flat(settings, MONTH).outcomes}
        assert not outcomes["values_within_bounds"]
        own.write(MONTH.start, 1, columns=["temperature_2m"])
    run_raw(settings, MONTH)
    assert all(outcome.passed for outcome in run_flat(settings, MONTH).outcomes)


# --- months that were fetched before --------------------------------------------


def test_months_of_older_versions_are_known_and_their_files_go_when_they_are_fetched_again(tmp_path: Path) -> None:
    """These had a file and an entry of the record for each day. Loaded months must not be downloaded again."""
    own = one_day(tmp_path)
    chosen = source(own.folder, tmp_path / "raw", "temperature_2m")
    note = chosen._note(MONTH)
    folder = note.with_suffix("")
    folder.mkdir(parents=True)
    days = {}
    for number in range(1, 30):
        key = f"2020-02-{number:02d}"
        (folder / f"{key}.nc").write_bytes(bytes(number))
        held = {
            "name": f"{key}.nc",
            "sha256": sha256(bytes(number)).hexdigest(),
            "bytes": number,
            "hours": 24,
            "final": True,
        }
        days[key] = {**held, "whole": True, "final_until": "2020-03-31", "available_until": "2020-03-31"}
    record = {"form": 1, **chosen._request_json, "days": days, "short": False}
    note.write_text(json.dumps(record))

    raw = chosen.known(MONTH)
    assert raw is not None
    assert [file.path.name for file in raw.files] == [f"2020-02-{number:02d}.nc" for number in range(1, 30)]
    assert (raw.variables, raw.files[4].sha256, raw.files[4].bytes) == (
        ("temperature_2m",),
        sha256(bytes(5)).hexdigest(),
        5,
    )
    assert chosen.fetch(MONTH) == raw
    chosen.record_completeness(raw, is_complete=False)
    assert chosen.known(MONTH) is None
    again = chosen.fetch(MONTH)
    assert sorted(folder.glob("*.nc")) == [file.path for file in again.files]
    assert len(again.files) == 1

    note.write_text(json.dumps(record))
    chosen.invalidate(raw)
    assert chosen.known(MONTH) is None


def test_a_kill_between_file_and_record_leaves_no_wrong_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = one_day(tmp_path, "2020-01-31", "2020-02-01")
    raw = source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)
    own.write(MONTH.start, 24, offset=0.5)
    own.announce("2020-02-01")

    def killed(_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("era5_pipeline.sources.zarr.source.sha256_of", killed)
        with pytest.raises(KeyboardInterrupt):
            source(own.folder, tmp_path / "raw", "temperature_2m", refetch=True).fetch(MONTH)
    again = source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)
    assert again.files[0].sha256 == sha256_of(again.files[0].path)
    assert again.files[0].sha256 != raw.files[0].sha256
    assert inventory(again, tmp_path).expver == {"temperature_2m": {"0001": 24}}


# --- final, preliminary and missing hours --------------------------------------


def test_hours_are_final_or_preliminary_by_the_stores_attributes(store: ArcoStore, tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"])
    own.write(MONTH.start, 24)
    own.write(MONTH.start + timedelta(days=1), 24, offset=0.5)
    own.announce("2020-02-01", "2020-02-02")
    chosen = source(own.folder, tmp_path / "raw", "temperature_2m")
    raw = chosen.fetch(MONTH)
    held = inventory(raw, tmp_path)
    assert held.expver == {"temperature_2m": {"0001": 24, "0005": 24}}
    assert held.preliminary_hours == {"temperature_2m": ("2020-02-02T00 to 2020-02-02T23",)}

    # Later both days are final: the first is kept, the second is read again.
    before = [file.sha256 for file in raw.files]
    own.write(MONTH.start + timedelta(days=1), 24)
    own.announce("2020-02-02")
    kept = raw.files[0].path.stat().st_mtime_ns
    again = source(own.folder, tmp_path / "raw", "temperature_2m", refetch=True).fetch(MONTH)
    assert again.files[0].path.stat().st_mtime_ns == kept
    after = [file.sha256 for file in again.files]
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert inventory(again, tmp_path).expver == {"temperature_2m": {"0001": 48}}


def test_the_same_data_fetched_again_are_the_same_bytes(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"])
    own.write(MONTH.start, 24)
    own.announce("2020-01-31", "2020-02-01")
    raw = source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)
    modified = raw.files[0].path.stat().st_mtime_ns
    again = source(own.folder, tmp_path / "raw", "temperature_2m", refetch=True).fetch(MONTH)
    assert again == raw
    assert again.files[0].path.stat().st_mtime_ns > modified


def test_announced_hours_without_values_are_refused_and_fetched_again(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"])
    own.write(MONTH.start, 20)  # the rest of the day has no chunks, which reads as NaN
    own.announce("2020-02-01")
    settings = Settings(
        home=tmp_path / "home",
        source="arco",
        arco_url=str(own.folder),
        area=str(AREA),
        variables="t2m",
        allow_incomplete=True,
    )
    said: list[str] = []
    run_raw(settings, MONTH, said.append)
    assert said == [f"2020-02: {own.folder} lacks values of t2m at 2020-02-01T20 to 2020-02-01T23"]
    strict = settings.model_copy(update={"allow_incomplete": False})
    flat = run_flat(strict, MONTH)
    (failed,) = (outcome for outcome in flat.outcomes if not outcome.passed)
    assert failed.name == "no_missing_values"
    assert "first at latitude" in failed.description
    assert "2020-02-01T20" in failed.description
    own.write(MONTH.start, 24)
    run_raw(settings, MONTH)
    assert all(outcome.passed for outcome in run_flat(strict, MONTH).outcomes)


def test_a_month_before_the_start_of_the_store(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"], axis=REAL_YEARS)
    own.announce("2020-01-31", start="1959-01-01")
    with pytest.raises(NoDataError, match="begins at 1959-01-01 00:00"):
        source(own.folder, tmp_path / "raw", "temperature_2m").fetch(Month(1958, 12))


def test_accumulations_of_1940_begin_at_hour_7(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", axis=REAL_YEARS)
    own.write(datetime(1940, 1, 1, tzinfo=UTC), 8)
    own.announce("1940-01-01")
    raw = source(own.folder, tmp_path / "raw").fetch(Month(1940, 1))
    with netCDF4.Dataset(raw.files[0].path) as dataset:
        rain = np.ma.filled(dataset["tp"][:], np.nan)
    assert np.isnan(rain[:7]).all()
    assert np.isfinite(rain[7]).all()


# --- other stores and URLs ------------------------------------------------------


def test_a_store_on_a_coarser_grid_is_refused(tmp_path: Path) -> None:
    """Its points are on the grid of ERA5, but most points of that grid are missing."""
    values = np.full((48, 181, 360), 280.0, np.float32)
    coarse = xr.Dataset(
        {"2m_temperature": (("time", "latitude", "longitude"), values, {"units": "K"})},
        {
            "time": np.arange("2020-02-01", "2020-02-03", dtype="datetime64[h]").astype("datetime64[ns]"),
            "latitude": ("latitude", LATITUDES[::4], {"units": "degrees_north"}),
            "longitude": ("longitude", LONGITUDES[::4], {"units": "degrees_east"}),
        },
        {"valid_time_start": "1940-01-01", "valid_time_stop": "2020-02-02"},
    )
    coarse.to_zarr(tmp_path / "store", zarr_format=2, consolidated=True)
    with pytest.raises(SourceError, match=r"not have the layout of ARCO-ERA5.*181 latitudes, not 721"):
        source(tmp_path / "store", tmp_path / "raw", "temperature_2m", area=None).fetch(MONTH)


def test_a_url_of_an_unknown_scheme_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="of a kind that is not known") as caught:
        source("martian://store", tmp_path).fetch(MONTH)
    assert "ERA5_ARCO_URL" in caught.value.remedy


def test_a_store_without_its_attributes_is_refused(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"])
    own.announce("2020-02-01")
    own.remove_attributes("valid_time_stop")
    with pytest.raises(SourceError, match=r"not have the layout of ARCO-ERA5.*valid_time_stop"):
        source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)


def test_missing_variables_of_a_store_are_named(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", set(DEFAULT_COLUMNS) - {"total_precipitation", "snowfall"})
    own.announce("2020-02-01")
    with pytest.raises(SourceError, match="has no total_precipitation, snowfall"):
        source(own.folder, tmp_path / "raw").fetch(MONTH)


def test_other_variables_come_with_their_missing_values(tmp_path: Path) -> None:
    """Sea temperature is missing over land, at the same places each hour: the day is whole, and not read again."""
    names = ("temperature_2m", "sea_surface_temperature", "wind_gust_10m", "mean_total_precipitation_rate")
    store = ArcoStore(tmp_path / "store", names)
    store.write(MONTH.start, 24)
    store.announce("2020-02-01")
    area = Area(-5, 106, -6, 107)
    arco = source(store.folder, tmp_path / "arco", *names, area=area)
    raw = arco.fetch(MONTH)
    hours = range(first_hour(MONTH), first_hour(MONTH) + 24)
    with netCDF4.Dataset(raw.files[0].path) as dataset:
        for variable in in_table_order(names):
            got = np.ma.filled(dataset[variable.short_name][:], np.nan)
            np.testing.assert_array_equal(got, expected(variable.column, hours, area), err_msg=variable.column)
            assert np.isnan(got).any() == (variable.extent == "sea")
    note = json.loads(next((tmp_path / "arco").glob("*.json")).read_text())
    assert [piece["whole"] for piece in note["pieces"].values()] == [True]


def test_an_hour_without_values_of_the_sea_is_lacking(tmp_path: Path) -> None:
    store = ArcoStore(tmp_path / "store", ["sea_surface_temperature"])
    store.write(MONTH.start, 23)  # the last hour of the day is still to come
    store.announce("2020-02-01")
    said: list[str] = []
    area = Area(-5, 106, -6, 107)
    arco = source(store.folder, tmp_path / "arco", "sea_surface_temperature", area=area, say=said.append)
    arco.fetch(MONTH)
    assert said[-1].endswith("lacks values of sst at 2020-02-01T23")
