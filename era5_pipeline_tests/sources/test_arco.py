"""The source `arco` on stores in the layout of ARCO-ERA5, from a folder and over HTTP."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from numcodecs import BZ2, LZ4, GZip, Zlib, Zstd

from era5_pipeline.flat.inventory import Inventory, take_inventory
from era5_pipeline.model.errors import (
    BadFileError,
    MonthFailedError,
    NoDataError,
    NotYetAvailableError,
    SourceError,
    TransientError,
    UsageError,
)
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_COLUMNS, DEFAULT_VARIABLES, in_table_order
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.runtime.progress import listening
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.sources.arco import ArcoSource
from era5_pipeline.sources.source import RawMonth, Request, Source
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline_tests.arco_store import (
    CHUNKS,
    COMPRESSOR,
    LATITUDES,
    LONGITUDES,
    REAL_YEARS,
    ArcoStore,
    Fault,
    Web,
    served,
    weather_at,
)
from era5_pipeline_tests.era5_files import without_pictures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt
    from numcodecs.abc import Codec

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


@pytest.fixture(autouse=True)
def _no_pictures() -> Iterator[None]:
    with without_pictures():
        yield


def source(url: str | Path, folder: Path, *names: str, **options: Any) -> ArcoSource:
    area = options.pop("area", AREA)
    options.setdefault("sleep", lambda _: None)
    return ArcoSource(str(url), folder, Request(in_table_order(names) if names else None, area), **options)


def inventory(raw: RawMonth, home: Path) -> Inventory:
    with scratch_folder(home) as scratch:
        return take_inventory(raw, scratch)


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


@pytest.mark.parametrize("over_http", [False, True])
def test_every_value_equals_that_of_the_store(store: ArcoStore, tmp_path: Path, over_http: bool) -> None:
    names = ("temperature_2m", "snowfall") if over_http else DEFAULT_COLUMNS
    with served(store.folder) as web:
        raw = source(web.url if over_http else store.folder, tmp_path, *names).fetch(MONTH)
    assert [file.path.name for file in raw.files] == ["2020-02-01.nc", "2020-02-02.nc"]
    hours = range(first_hour(MONTH), first_hour(MONTH) + 24)
    with netCDF4.Dataset(raw.files[0].path) as dataset:
        for column in names:
            got = dataset[BY_COLUMN[column].short_name][:]
            np.testing.assert_array_equal(got, expected(column, hours, AREA))


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


def test_days_in_the_folder_are_not_read_again(tmp_path: Path, store: ArcoStore) -> None:
    # Two days stand for a month, which would take a minute to write.
    first = source(store.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)
    with served(store.folder) as web:
        again = source(web.url, tmp_path / "other", "temperature_2m").fetch(MONTH)
        assert len(requested_chunks(web)) == 48
        web.requested.clear()
        assert source(web.url, tmp_path / "other", "temperature_2m").fetch(MONTH) == again
        assert requested_chunks(web) == set()
    assert [file.sha256 for file in again.files] == [file.sha256 for file in first.files]


def test_an_interrupted_run_goes_on_with_the_next_day(store: ArcoStore, tmp_path: Path) -> None:
    with served(store.folder) as web:
        hours: list[int] = []

        def cut(stage: str, done: int, total: int, unit: str) -> None:
            hours.append(done)
            web.fail("refuse")

        with listening(cut), pytest.raises(TransientError, match="status 503"):
            source(web.url, tmp_path, "temperature_2m").fetch(MONTH)
        assert hours == [24]
        web.fail("refuse", 0)
        web.requested.clear()
        raw = source(web.url, tmp_path, "temperature_2m").fetch(MONTH)
        assert len(raw.files) == DAYS
        assert len(requested_chunks(web)) == 24
    assert not list(tmp_path.rglob(".unfinished-*"))


def test_another_machine_goes_on_with_the_next_day(store: ArcoStore, tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()

    with served(store.folder) as web:

        def on_machine(name: str) -> ArcoSource:
            file_store = FileStore(tmp_path / name, open_store(str(tmp_path / "share")))
            return source(web.url, tmp_path / name / "raw" / "arco", "temperature_2m", file_store=file_store)

        with listening(lambda *_: web.fail("refuse")), pytest.raises(TransientError, match="status 503"):
            on_machine("first").fetch(MONTH)
        web.fail("refuse", 0)
        web.requested.clear()
        raw = on_machine("second").fetch(MONTH)
        assert len(raw.files) == DAYS
        assert len(requested_chunks(web)) == 24
        # A third reads nothing: a month with missing hours is asked for again, its days are not.
        web.requested.clear()
        again = on_machine("third").fetch(MONTH)
        assert requested_chunks(web) == set()
    assert again.fingerprint == raw.fingerprint
    assert all(sha256_of(file.path) == file.sha256 for file in again.files)


@pytest.mark.parametrize(
    ("fault", "where", "reason"),
    [
        ("refuse", CHUNKS, "status 503"),
        ("refuse", ".*/.zmetadata", "status 503"),
        ("refuse", ".*/time/0", "status 503"),
        ("cut", CHUNKS, "the connection was cut off"),
        ("garble", CHUNKS, "the data cannot be decoded"),
        ("stall", CHUNKS, "no answer in time"),
    ],
)
def test_network_errors_are_retried_and_reported(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, where: str, reason: str
) -> None:
    monkeypatch.setattr("era5_pipeline.sources.zarr.arco_store._SILENCE_SECONDS", 2.0)
    web.fail(fault, 1, where=where)
    said: list[str] = []
    slept: list[float] = []
    raw = source(web.url, tmp_path, "temperature_2m", say=said.append, sleep=slept.append).fetch(MONTH)
    assert len(raw.files) == 1
    (text,), (seconds,) = said, slept
    assert f"{reason}; reading again in {seconds:.0f} s (1 of 6 tries)" in text
    with netCDF4.Dataset(raw.files[0].path) as dataset:
        hours = range(first_hour(MONTH), first_hour(MONTH) + 24)
        np.testing.assert_array_equal(dataset["t2m"][:], expected("temperature_2m", hours, AREA))


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_read_is_not_retried(web: Web, tmp_path: Path, status: int) -> None:
    web.fail("refuse", status=status)
    slept: list[float] = []
    with pytest.raises(SourceError, match=rf"2020-02-01: 2m_temperature from .* cannot be read \(status {status}\)"):
        source(web.url, tmp_path, "temperature_2m", sleep=slept.append).fetch(MONTH)
    assert not slept


def test_a_chunk_that_stays_damaged_is_not_a_network_error(tmp_path: Path) -> None:
    own = one_day(tmp_path)
    own.damage("temperature_2m", 100)
    with pytest.raises(SourceError, match=r"2020-02-01: 2m_temperature from .* cannot be read .*decoded"):
        source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)


def test_a_read_error_of_a_store_on_disk_is_an_error_of_the_source(tmp_path: Path) -> None:
    own = one_day(tmp_path)
    chunk = next((own.folder / "2m_temperature").glob("*.0.0"))
    chunk.unlink()
    chunk.symlink_to(chunk.name)
    with pytest.raises(SourceError, match="symbolic links"):
        source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)


def test_a_proxy_of_the_environment_is_used(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.url)
    monkeypatch.setenv("no_proxy", "")
    raw = source("http://store.invalid", tmp_path, "temperature_2m").fetch(MONTH)
    assert len(raw.files) == 1


def test_a_dead_proxy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(SourceError, match=r"the proxy does not answer: .*http_proxy is http://127\.0\.0\.1:9"):
        source("http://store.invalid", tmp_path, "temperature_2m").fetch(MONTH)


def test_a_server_that_is_down_stops_all_months(tmp_path: Path) -> None:
    slept: list[float] = []
    with pytest.raises(SourceError, match=r"2020-02: http://127.0.0.1:9/store cannot be read") as caught:
        source("http://127.0.0.1:9/store", tmp_path, sleep=slept.append).fetch(MONTH)
    assert caught.value.exit_code == SourceError.exit_code
    assert "Check the network" in caught.value.remedy
    assert len(slept) == 5


def test_a_server_that_goes_down_during_a_month_is_a_transient_error(web: Web, tmp_path: Path) -> None:
    web.fail("cut")
    with pytest.raises(TransientError, match="cut off"):
        source(web.url, tmp_path, "temperature_2m").fetch(MONTH)


@pytest.mark.parametrize(
    ("compressor", "left"),
    [
        *((COMPRESSOR, left) for left in (0, 10, -4096, -1)),
        *((compressor, 10) for compressor in (Zstd(), Zlib(1), GZip(1), BZ2(1), LZ4(), None)),
    ],
    ids=lambda value: getattr(value, "codec_id", str(value)),
)
def test_a_truncated_chunk_is_never_taken_for_weather(tmp_path: Path, compressor: Codec | None, left: int) -> None:
    """Blosc itself would read beyond the end of the chunk."""
    own = ArcoStore(tmp_path / "store", ["temperature_2m"], compressor)
    own.write(MONTH.start, 1)
    own.announce("2020-02-01")
    own.damage("temperature_2m", left)
    with pytest.raises(MonthFailedError, match=r"2020-02-01: 2m_temperature from .*decoded"):
        source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)
    assert not list((tmp_path / "raw").rglob("*.nc"))


def test_a_password_in_the_url_is_neither_shown_nor_stored(web: Web, tmp_path: Path) -> None:
    url = web.url.replace("://", "://me:correct-horse@")
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
        (path,) = (tmp_path / "home").rglob("2020-02-01.nc")
        path.write_bytes(bytes(path.stat().st_size))
        with pytest.raises(BadFileError) as caught:
            run_raw(settings, MONTH)
        assert "downloaded again" in caught.value.remedy
    else:
        outcomes = {outcome.name: outcome.passed for outcome in run_flat(settings, MONTH).outcomes}
        assert not outcomes["values_within_bounds"]
        own.write(MONTH.start, 1, columns=["temperature_2m"])
    run_raw(settings, MONTH)
    assert all(outcome.passed for outcome in run_flat(settings, MONTH).outcomes)


# --- months that were fetched before --------------------------------------------


def test_a_complete_month_is_known_without_its_files_and_the_store(tmp_path: Path) -> None:
    own = one_day(tmp_path)
    own.repeat(MONTH.start, MONTH.hours)
    own.announce("2020-03-31")
    chosen = source(own.folder, tmp_path / "raw", "temperature_2m")
    assert chosen.known(MONTH) is None
    raw = chosen.fetch(MONTH)
    held = inventory(raw, tmp_path)
    assert held.hours.size == MONTH.hours
    chosen.record_completeness(raw, is_complete=True)

    shutil.rmtree(own.folder)
    assert chosen.known(MONTH) == raw
    assert chosen.fetch(MONTH) == raw
    raw.files[3].path.unlink()
    assert chosen.known(MONTH) == raw
    with pytest.raises(SourceError):  # that day has to be fetched again
        chosen.fetch(MONTH)

    other_area = source(own.folder, tmp_path / "raw", "temperature_2m", area=Area(-6.0, 106.0, -6.25, 106.5))
    assert other_area.known(MONTH) is None
    assert source(own.folder, tmp_path / "raw", "temperature_2m", refetch=True).known(MONTH) is None
    chosen.record_completeness(raw, is_complete=False)
    assert chosen.known(MONTH) is None


def test_the_record_holds_the_request_and_the_extent_of_the_store(tmp_path: Path) -> None:
    own = one_day(tmp_path, "2020-01-31", "2020-02-01")
    raw = source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)
    (note,) = (tmp_path / "raw").glob("*.json")
    value = json.loads(note.read_text())
    assert value["url"] == str(own.folder)
    assert value["variables"] == ["temperature_2m"]
    assert value["area"] == str(AREA)
    day = value["days"]["2020-02-01"]
    assert (day["final_until"], day["available_until"]) == ("2020-01-31", "2020-02-01")
    assert day["sha256"] == raw.files[0].sha256


def test_a_kill_between_file_and_record_leaves_no_wrong_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = one_day(tmp_path, "2020-01-31", "2020-02-01")
    raw = source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)
    own.write(MONTH.start, 24, offset=0.5)
    own.announce("2020-02-01")

    def killed(_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("era5_pipeline.sources.arco.sha256_of", killed)
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
    assert said == ["2020-02-01: the store lacks values of 2m_temperature at some hours of the day"]
    strict = settings.model_copy(update={"allow_incomplete": False})
    flat = run_flat(strict, MONTH)
    (failed,) = (outcome for outcome in flat.outcomes if not outcome.passed)
    assert failed.name == "no_missing_values"
    assert "first at latitude" in failed.description
    assert "2020-02-01T20" in failed.description
    own.write(MONTH.start, 24)
    run_raw(settings, MONTH)
    assert all(outcome.passed for outcome in run_flat(strict, MONTH).outcomes)


def test_hours_without_a_chunk_are_missing_whatever_the_fill_value(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["total_precipitation"])
    own.write(MONTH.start, 20)
    own.announce("2020-02-01")
    metadata = own.folder / ".zmetadata"
    value = json.loads(metadata.read_text())
    value["metadata"]["total_precipitation/.zarray"]["fill_value"] = 0.0
    metadata.write_text(json.dumps(value))
    said: list[str] = []
    raw = source(own.folder, tmp_path / "raw", "total_precipitation", say=said.append).fetch(MONTH)
    assert "lacks values of total_precipitation" in said[0]
    with netCDF4.Dataset(raw.files[0].path) as dataset:
        rain = np.ma.filled(dataset["tp"][:], np.nan)
    assert np.isfinite(rain[:20]).all()
    assert np.isnan(rain[20:]).all()


def test_a_month_after_the_end_of_the_store_is_not_available_yet(store: ArcoStore, tmp_path: Path) -> None:
    with pytest.raises(NotYetAvailableError, match=r"2020-03 is not available yet.*2020-02-02 23:00"):
        source(store.folder, tmp_path).fetch(Month(2020, 3))


def test_a_month_before_the_start_of_the_store(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"])
    own.announce("2020-01-31", start="1959-01-01")
    with pytest.raises(NoDataError, match="begins on 1959-01-01"):
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


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SourceError, match="is not a Zarr store"):
        source(tmp_path / "nothing", tmp_path / "raw").fetch(MONTH)


@pytest.mark.parametrize("text", [None, "{", "<html>sign in</html>"], ids=["none", "cut off", "not json"])
def test_a_store_without_consolidated_metadata_is_refused(tmp_path: Path, text: str | None) -> None:
    own = one_day(tmp_path)
    (own.folder / ".zmetadata").unlink()
    if text is not None:
        (own.folder / ".zmetadata").write_text(text)
    with pytest.raises(SourceError, match="is not a Zarr store with consolidated metadata"):
        source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)


def test_a_store_on_a_coarser_grid_is_refused(tmp_path: Path) -> None:
    """Its points are on the grid of ERA5, but most points of that grid are missing."""
    coarse = xr.Dataset(
        {"2m_temperature": (("time", "latitude", "longitude"), np.full((48, 181, 360), 280.0, np.float32))},
        {
            "time": np.arange("2020-02-01", "2020-02-03", dtype="datetime64[h]").astype("datetime64[ns]"),
            "latitude": LATITUDES[::4],
            "longitude": LONGITUDES[::4],
        },
        {"valid_time_start": "1940-01-01", "valid_time_stop": "2020-02-02"},
    )
    coarse.to_zarr(tmp_path / "store", zarr_format=2, consolidated=True)
    with pytest.raises(SourceError, match="181 latitudes, not 721"):
        source(tmp_path / "store", tmp_path / "raw", "temperature_2m").fetch(MONTH)


def test_a_url_without_a_store_is_refused(web: Web, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a Zarr store"):
        source(f"{web.url}/elsewhere", tmp_path).fetch(MONTH)


@pytest.mark.parametrize("url", ["martian://store", "s3://bucket/store"])
def test_a_url_of_an_unknown_scheme_is_a_usage_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="cannot be opened") as caught:
        source(url, tmp_path).fetch(MONTH)
    assert "ERA5_ARCO_URL" in caught.value.remedy


def test_a_store_without_its_attributes_is_refused(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"])
    own.announce("2020-02-01")
    own.remove_attributes("valid_time_stop")
    with pytest.raises(SourceError, match=r"not have the layout of ARCO-ERA5.*valid_time_stop"):
        source(own.folder, tmp_path / "raw", "temperature_2m").fetch(MONTH)


def test_missing_variables_of_a_store_are_named(tmp_path: Path) -> None:
    own = ArcoStore(tmp_path / "store", ["temperature_2m"])
    own.announce("2020-02-01")
    with pytest.raises(SourceError, match="has no total_precipitation, snowfall"):
        source(own.folder, tmp_path / "raw", "temperature_2m", "total_precipitation", "snowfall").fetch(MONTH)


def test_a_store_in_other_units_is_refused(tmp_path: Path) -> None:
    """Bounds detect per cent only at some values of cloud cover; the units detect it at once."""
    own = ArcoStore(tmp_path / "store", ["total_cloud_cover"])
    own.describe("total_cloud_cover", units="%")
    own.announce("2020-02-01")
    with pytest.raises(SourceError, match=r"total_cloud_cover is in %, not in \(0 - 1\) or"):
        source(own.folder, tmp_path / "raw", "total_cloud_cover").fetch(MONTH)


@pytest.mark.parametrize("attributes", [{"scale_factor": "0.01"}, {"add_offset": "250"}])
def test_a_store_with_packed_values_is_refused(tmp_path: Path, attributes: dict[str, str]) -> None:
    own = ArcoStore(tmp_path / "store", ["total_cloud_cover"])
    own.describe("total_cloud_cover", **attributes)
    own.announce("2020-02-01")
    with pytest.raises(SourceError, match="total_cloud_cover is packed"):
        source(own.folder, tmp_path / "raw", "total_cloud_cover").fetch(MONTH)


def test_a_store_with_several_chunks_an_hour_is_refused(tmp_path: Path) -> None:
    """Such a store may lack one chunk of an hour: its fill value could not be told from weather."""
    tiled = xr.Dataset(
        {"total_precipitation": (("time", "latitude", "longitude"), np.ones((24, 721, 1440), np.float32))},
        {"time": np.arange("2020-02-01", "2020-02-02", dtype="datetime64[h]").astype("datetime64[ns]")}
        | {"latitude": LATITUDES, "longitude": LONGITUDES},
        {"valid_time_start": "1940-01-01", "valid_time_stop": "2020-02-01"},
    )
    encoding = {"total_precipitation": {"chunks": (24, 103, 240), "_FillValue": 0.0}}
    tiled.to_zarr(tmp_path / "store", zarr_format=2, consolidated=True, encoding=encoding)
    with pytest.raises(SourceError, match=r"total_precipitation has chunks of \(24, 103, 240\)"):
        source(tmp_path / "store", tmp_path / "raw", "total_precipitation").fetch(MONTH)


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
    assert [day["whole"] for day in note["days"].values()] == [True]


def test_an_hour_without_values_of_the_sea_is_lacking(tmp_path: Path) -> None:
    store = ArcoStore(tmp_path / "store", ["sea_surface_temperature"])
    store.write(MONTH.start, 23)  # the last hour of the day is still to come
    store.announce("2020-02-01")
    said: list[str] = []
    area = Area(-5, 106, -6, 107)
    arco = source(store.folder, tmp_path / "arco", "sea_surface_temperature", area=area, say=said.append)
    arco.fetch(MONTH)
    assert any("the store lacks values of sea_surface_temperature" in line for line in said)
